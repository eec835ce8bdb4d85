"""How much noise a privacy cost buys: the σ of Gaussian noise at (ε, δ), and the noise for any cost.

`sensitivity` is how far the query moves between neighbours, in the query's unit: Δ₁ for Laplace, Δ₂ for Gaussian
noise. What is returned errs on the private side: a Laplace scale is an exact fraction, a Gaussian σ is certified
in integer arithmetic, so that the δ it gives never exceeds the one asked for. (The variance at a zCDP cost is
`privacy.conversions.gaussian_variance`.)
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, get_args

from qrelease._util.validate import rational
from qrelease.errors import InvalidInput
from qrelease.noise.distributions import MAX_SCALE, MAX_VARIANCE, Noise
from qrelease.noise.exact_reals import GUARD, Enclosure, exp_negative
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost, round_up, split

_FIRST_BITS: Final = 128
_MAX_BITS: Final = 1 << 13
_MAX_EPSILON: Final = 1000
_MIN_DELTA: Final = 1e-300


def analytic_gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """The least σ, to about ten digits, with Φ(Δ/2σ - εσ/Δ) - e^ε Φ(-Δ/2σ - εσ/Δ) <= δ (Balle & Wang 2018).

    For the continuous Gaussian, hence for `samplers.rounded_gaussian` at variance σ² too, but not for the discrete
    one. Several Gaussians count as the one whose (Δ/σ)² is the sum of theirs, so with sensitivity 1 this is the
    1/√Σ(Δᵢ/σᵢ)² that a composition may have. Never below the least σ: δ is bounded above in exact arithmetic.
    Raises `InvalidInput` for a sensitivity that is not positive and finite, ε outside (0, 1000], δ outside
    [1e-300, 1), or a σ beyond all floats.
    """
    scale = rational("sensitivity", sensitivity)
    unit = Fraction(_unit_sigma(_epsilon(epsilon), _delta(delta)))
    return _up(unit * scale)


def _up(sigma: Fraction) -> float:
    rounded = round_up(sigma)
    if rounded == math.inf:
        raise InvalidInput("sensitivity / epsilon must be smaller: the noise would be beyond 1.8e308")
    return rounded


@lru_cache(maxsize=256)
def _unit_sigma(epsilon: Fraction, delta: Fraction) -> float:
    guess = _approximate_sigma(float(epsilon), float(delta))
    for step in range(41, 0, -1):
        sigma = guess * (1 + 2.0**-step)
        hi, bits = _delta_interval(Fraction(sigma), epsilon)
        if hi <= delta * (1 << bits):
            return sigma
    raise InvalidInput(f"no Gaussian can be certified at epsilon {float(epsilon)} and delta {float(delta)}")


def _approximate_sigma(epsilon: float, delta: float) -> float:
    """The root of log δ(σ) = log δ in floating point, by bisection; `_unit_sigma` certifies it."""
    from scipy.special import log_ndtr

    def too_small(sigma: float) -> bool:
        a, b = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
        log_ratio = min(epsilon + float(log_ndtr(b)) - float(log_ndtr(a)), -1e-300)
        return float(log_ndtr(a)) + math.log(-math.expm1(log_ratio)) > math.log(delta)

    low, high = 1e-3, 1.0
    while too_small(high):
        high *= 2
    while not too_small(low):
        low /= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return high


def _delta_interval(ratio: Fraction, epsilon: Fraction) -> tuple[int, int]:
    """(hi, bits): δ <= hi / 2^bits for σ/Δ = `ratio`, with bits doubled until hi is tight."""
    middle, half = -epsilon * ratio, 1 / (2 * ratio)
    bits = _FIRST_BITS
    while True:
        scale = bits + 4 * math.ceil(epsilon)
        one = 1 << scale
        inverse = exp_negative(epsilon, scale)
        first, second = _normal_cdf(middle + half, scale), _normal_cdf(middle - half, scale)
        hi = first[1] - second[0] * one // inverse[1]
        lo = first[0] + (-second[1] * one // inverse[0])
        if hi - lo <= lo >> 41 or bits >= _MAX_BITS:
            return hi, scale
        bits *= 2


def _normal_cdf(x: Fraction, bits: int) -> Enclosure:
    """An enclosure of Φ(x) on the scale 2^bits: Φ(|x|) - 1/2 = φ(x) Σ |x|^(2n+1) / (2n+1)!!."""
    one = 1 << bits
    if x < 0:
        lo, hi = _normal_cdf(-x, bits)
        return one - hi, one - lo
    if x * x > 2 * bits:  # 1 - Φ(x) <= e^(-x²/2)/2 < 2^-bits
        return one - 1, one
    # The sum may reach e^(x²/2), so φ needs as many bits more.
    scale = bits + GUARD + math.ceil(x * x)
    lo, hi = _odd_series(x, scale)
    density = exp_negative(x * x / 2, scale)
    root = _inverse_sqrt_two_pi(scale)
    half = one >> 1
    shift = 3 * scale - bits
    low = half + (lo * density[0] * root[0] >> shift)
    high = half - (-(hi * density[1] * root[1]) >> shift)
    return low, min(high, one)


def _odd_series(x: Fraction, scale: int) -> Enclosure:
    """An enclosure of Σ x^(2n+1) / (2n+1)!! on the scale 2^scale, for x >= 0."""
    low = (x.numerator << scale) // x.denominator
    high = low + 1
    squares = low * low >> scale, (high * high >> scale) + 1
    total = [low, high]
    n = 0
    while high > 1 or squares[1] > n << scale:
        n += 1
        low = (low * squares[0] >> scale) // (2 * n + 1)
        high = (high * squares[1] >> scale) // (2 * n + 1) + 1
        total[0] += low
        total[1] += high
    # From here on a term is less than half of the one before it: what follows is at most `high`.
    return total[0], total[1] + high


@lru_cache(maxsize=16)
def _inverse_sqrt_two_pi(scale: int) -> Enclosure:
    lo, hi = _pi(scale)
    wide = 1 << 3 * scale
    return math.isqrt(wide // (2 * hi)), math.isqrt(wide // (2 * lo)) + 1


def _pi(scale: int) -> Enclosure:
    """Machin: π = 16 arctan(1/5) - 4 arctan(1/239), each alternating series floored term by term."""
    bits = scale + GUARD
    total = 16 * _arctan_inverse(5, bits) - 4 * _arctan_inverse(239, bits)
    slack = 1 << (GUARD - 8)
    return (total - slack) >> GUARD, ((total + slack) >> GUARD) + 1


def _arctan_inverse(n: int, bits: int) -> int:
    power = (1 << bits) // n
    total, i = 0, 0
    while power:
        total += power // (2 * i + 1) * (1 if i % 2 == 0 else -1)
        power //= n * n
        i += 1
    return total


def _epsilon(epsilon: float | Fraction) -> Fraction:
    exact = rational("epsilon", epsilon)
    if exact > _MAX_EPSILON:
        raise InvalidInput(f"epsilon must be at most {_MAX_EPSILON}, got {epsilon}")
    return exact


def _delta(delta: float | Fraction) -> Fraction:
    exact = rational("delta", delta)
    if not _MIN_DELTA <= exact < 1:
        raise InvalidInput(f"delta must be in [{_MIN_DELTA}, 1), got {delta}")
    return exact


Rule = Literal["exponential", "permute-and-flip"]


MIN_SELECTION_EPSILON: Final = Fraction(1, 1 << 40)
"""Below it a selection is a blind draw, and the ranks that it may be off by, times 10^4, are beyond whole numbers of 64
bits."""

_EPSILON_BITS = 60  # an epsilon paid in zCDP is irrational: it is rounded down to a multiple of 2^-60


def counting_first(
    cost: Cost, share: float, neighbours: Neighbours, records: float | None = None
) -> tuple[PureDP | ZCDP | None, Cost]:
    """A share of a cost, which buys the number of records, and the rest, which keeps all of a δ.

    None and all of it, where nothing has to be bought: the number is public as it is said, or as neighbours have it.
    """
    if records is not None or neighbours is Neighbours.REPLACE_ONE:
        return None, cost
    if isinstance(cost, ApproxDP):
        pure, left = split(PureDP(cost.epsilon), [share, 1 - share])
        return pure, ApproxDP(left.epsilon, cost.delta)
    counting, rest = split(cost, [share, 1 - share])
    return counting, rest


@lru_cache(256)  # who buys many answers buys them at few prices
def calibrated(sensitivity: int | Fraction, cost: Cost, unit: float = 1.0) -> tuple[Noise, Fraction]:
    """The noise for a sensitivity, in units: Δ₁ for pure ε, else Δ₂²; and its exact scale b or variance σ².

    Raises `InvalidInput` where the noise would be beyond the samplers' range.
    """
    check_cost(cost)
    if isinstance(cost, PureDP):
        scale = Fraction(sensitivity) / Fraction(cost.epsilon)
        if scale <= MAX_SCALE:
            return Noise("discrete Laplace", float(scale) * unit, unit), scale
    elif isinstance(cost, ZCDP):
        variance = Fraction(sensitivity) / (2 * Fraction(cost.rho))
        if variance <= MAX_VARIANCE:
            return Noise("discrete Gaussian", math.sqrt(variance) * unit, unit), variance
    elif cost.delta == 0:
        raise InvalidInput(f"one draw of Gaussian noise needs a delta above 0, got {cost}")
    else:
        variance = sensitivity * Fraction(analytic_gaussian_sigma(1, cost.epsilon, cost.delta)) ** 2
        if variance <= MAX_VARIANCE:
            return Noise("rounded Gaussian", math.sqrt(variance) * unit, unit), variance
    raise InvalidInput(f"{cost} buys so many answers only under noise beyond 2^40: ask less, or give more budget")


def currency(cost: Cost) -> PureDP | ZCDP:
    """What a mechanism spends a cost in: pure ε as it is, (ε, δ) as the largest ρ that converts to it."""
    check_cost(cost)
    return zcdp_of(cost) if isinstance(cost, ApproxDP) else cost


def sensitivity_of_one(moved: int, cost: Cost) -> int:
    """The sensitivity, as `calibrated` takes it, of one number that a neighbour moves by at most so much."""
    return moved if isinstance(cost, PureDP) else moved**2


def concentrated(cost: Cost, name: str, instead: str = "") -> ZCDP:
    """The ρ that an (ε, δ) or a ρ buys; for a pure ε `InvalidInput`, in the name of what has no noise for it."""
    spent = currency(cost)
    if isinstance(spent, PureDP):
        raise InvalidInput(f"{name} needs a rho, or a delta beside its epsilon, got {cost}{instead}")
    return spent


def better_rule(cost: Cost) -> Rule:
    """The rule of selection that is more accurate at a cost."""
    return "permute-and-flip" if isinstance(cost, PureDP) else "exponential"


def selection_epsilon(cost: PureDP | ZCDP, rule: Rule) -> Fraction:
    """ε of a selection at a cost: under zCDP √(8ρ) or √(2ρ), rounded down.

    There the exponential mechanism at ε costs ε²/8 (bounded range, Cesar & Rogers 2021), permute-and-flip ε²/2.
    `InvalidInput` for another kind of cost or another rule, and where ε would be below `MIN_SELECTION_EPSILON`.
    """
    check_cost(cost, PureDP, ZCDP)
    if rule not in get_args(Rule):
        raise InvalidInput(f"the rule of a selection must be exponential or permute-and-flip, got {rule!r}")
    if isinstance(cost, PureDP):
        return _enough(Fraction(cost.epsilon), cost)
    square = (8 if rule == "exponential" else 2) * Fraction(cost.rho)
    root = Fraction(math.isqrt((square.numerator << 2 * _EPSILON_BITS) // square.denominator), 1 << _EPSILON_BITS)
    return _enough(root, cost)


def _enough(epsilon: Fraction, cost: PureDP | ZCDP) -> Fraction:
    if epsilon < MIN_SELECTION_EPSILON:
        raise InvalidInput(f"{cost} is too small for a selection: ask less, or give more budget")
    return epsilon
