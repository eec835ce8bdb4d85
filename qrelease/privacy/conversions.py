"""Conversions between the privacy definitions, each rounded to the safe side.

The conversion of zCDP is the tight one of Canonne, Kamath & Steinke 2020 (*The Discrete Gaussian for
Differential Privacy*, §2.3). It is a minimum over the Rényi order α, and every α > 1 gives a valid bound:
the search for the best α may be inexact, only the evaluation at the α found must not err to the wrong side.
"""

import math
import sys
from collections.abc import Callable
from fractions import Fraction

from qrelease._util.validate import positive, positive_probability, real
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP, check_cost, round_down, round_up

# Each of the roundings below, those of libm included, errs by less than 2^-51 of its own result, and a
# formula has a dozen of them: 2^-47 times the sum of the sizes of its terms covers all.
_ROUNDING = 2.0**-47


def pure_to_zcdp(cost: PureDP) -> ZCDP:
    """ε-DP ⇒ ε²/2-zCDP (Bun & Steinke 2016), rounded up."""
    check_cost(cost, PureDP)
    return _zcdp(Fraction(cost.epsilon) ** 2 / 2)


def em_to_zcdp(cost: PureDP) -> ZCDP:
    """The exponential mechanism at ε ⇒ ε²/8-zCDP, rounded up (Cesar & Rogers 2021, from its bounded range).

    It needs a privacy loss that varies by at most ε over the outputs. The exponential mechanism has it,
    with P(r) ∝ exp(ε u(r)/(2Δ)) or, for monotone scores, without the 2. Any other ε-DP mechanism needs
    `pure_to_zcdp`, permute-and-flip too.
    """
    check_cost(cost, PureDP)
    return _zcdp(Fraction(cost.epsilon) ** 2 / 8)


def gaussian_zcdp(sensitivity: float, sigma: float) -> ZCDP:
    """Gaussian noise of standard deviation σ on L2 sensitivity Δ ⇒ Δ²/(2σ²)-zCDP, rounded up.

    For the continuous Gaussian (Bun & Steinke 2016), and for independent discrete Gaussians on integer
    vectors (Canonne, Kamath & Steinke 2020).
    """
    ratio = Fraction(positive("sensitivity", sensitivity)) / Fraction(positive("sigma", sigma))
    return _zcdp(ratio**2 / 2)


def gaussian_variance(sensitivity: float, cost: ZCDP) -> Fraction:
    """The exact variance Δ²/(2ρ) at which Gaussian noise on L2 sensitivity Δ costs ρ-zCDP."""
    check_cost(cost, ZCDP)
    return Fraction(positive("sensitivity", sensitivity)) ** 2 / (2 * Fraction(cost.rho))


def gaussian_delta(sensitivity: float, sigma: float, epsilon: float) -> float:
    """The exact δ of *continuous* Gaussian noise σ on L2 sensitivity Δ at ε ≥ 0, rounded up.

    Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) (Balle & Wang 2018, Theorem 8). Several Gaussians compose to one
    whose (Δ/σ)² is the sum of theirs. It says nothing of the discrete Gaussian, whose δ can be larger.
    """
    from scipy.special import erfcx, ndtr

    ratio = positive("sensitivity", sensitivity) / positive("sigma", sigma)
    half, shift = ratio / 2, _non_negative("epsilon", epsilon) / ratio
    near, far = half - shift, half + shift
    # The densities at both points differ by the factor e^ε, which therefore need not be computed. The error
    # of exp(-near²/2) is that of its exponent.
    second = math.exp(-near * near / 2) * float(erfcx(far / math.sqrt(2))) / 2
    first = float(ndtr(near))
    rounding = _ROUNDING * (1 + abs(near) * far) * (first + second)
    # Below the smallest normal float errors are no longer relative.
    return min(1.0, math.nextafter(max(first - second, 0.0) + rounding + sys.float_info.min, 1.0))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The smallest proved ε such that ρ-zCDP implies (ε, δ)-DP, rounded up; 0 < δ < 1.

    ε = min over α > 1 of ρα + ln(1 − 1/α) + ln(1/(αδ))/(α − 1), or 0 where that is negative.
    """
    rho, delta = positive("rho", rho), positive_probability("delta", delta)
    # The derivative in α has the sign of ρ(α − 1)² − ln(1/(αδ)), which increases.
    t = _root(lambda t: rho * t * t + math.log1p(t) + math.log(delta))
    exact = Fraction(rho) * (1 + Fraction(t)) + Fraction(_offset(t, delta))
    return round_up(max(exact, Fraction(0)))


def epsilon_told(cost: Cost) -> float:
    """ε of a cost for who is to judge it: of a cost in ρ, that at a δ which nobody minds."""
    return zcdp_epsilon(cost.rho, _TINY_DELTA) if isinstance(cost, ZCDP) else cost.epsilon


_TINY_DELTA = 1e-9


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The smallest proved δ such that ρ-zCDP implies (ε, δ)-DP, rounded up and at most 1; ε ≥ 0.

    δ = min over α > 1 of exp((α − 1)(αρ − ε))/(α − 1) · (1 − 1/α)^α.
    """
    rho = positive("rho", rho)
    epsilon = min(_non_negative("epsilon", epsilon), 1e150)  # δ falls in ε; nothing below overflows
    # The derivative of ln δ in α is (2α − 1)ρ − ε + ln(1 − 1/α), which increases.
    t = _root(lambda t: (2 * t + 1) * rho - epsilon - math.log1p(1 / t))
    terms = (t * rho, t * t * rho, -t * epsilon, -(1 + t) * math.log1p(1 / t), -math.log(t))
    exponent = math.fsum(terms) + _ROUNDING * math.fsum(map(abs, terms))
    if exponent >= 0:
        return 1.0
    return min(1.0, math.nextafter(math.exp(exponent) * (1 + _ROUNDING), 1.0))


def zcdp_of(cost: ApproxDP) -> ZCDP:
    """The largest ρ whose zCDP provably implies (ε, δ)-DP, rounded down; `InvalidInput` at δ = 0."""
    check_cost(cost, ApproxDP)
    if cost.delta == 0:
        raise InvalidInput("delta must be above 0 to be spent as zCDP, got 0")
    alpha, room = zcdp_account(cost.epsilon, cost.delta)
    rho = round_down(room / alpha)
    if rho <= 0:
        raise InvalidInput(f"the cost must be large enough to be spent as zCDP, got {cost}")
    return ZCDP(rho)


def zcdp_account(epsilon: float, delta: float) -> tuple[Fraction, Fraction]:
    """The Rényi order best for spending all of (ε, δ) as zCDP, and its room; 0 < δ < 1.

    Returns (α, room), exact: privacy losses whose Rényi divergences of order α sum to at most `room` are
    (ε, δ)-DP. ρ-zCDP has divergence αρ, e-DP at most e.
    """
    epsilon, delta = positive("epsilon", epsilon), positive_probability("delta", delta)
    log_delta = math.log(delta)

    def excess(t: float) -> float:
        """ε minus the least ε at the ρ for which this α is the best; increases."""
        return epsilon + (2 * t + 1) / t / t * (math.log1p(t) + log_delta) + math.log1p(1 / t)

    t = _root(excess)
    return 1 + Fraction(t), max(Fraction(epsilon) - Fraction(_offset(t, delta)), Fraction(0))


def zcdp_offset(alpha: Fraction, delta: float) -> Fraction:
    """What ε needs beyond a Rényi divergence of order α > 1, for (ε, δ)-DP; rounded up. α − 1 must be a float.

    ln(1 − 1/α) + ln(1/(αδ))/(α − 1) (Canonne, Kamath & Steinke 2020, §2.3).
    """
    return Fraction(_offset(float(alpha - 1), positive_probability("delta", delta)))


def _offset(t: float, delta: float) -> float:
    """What ε needs beyond the divergence of order α = 1 + t: ln(1 − 1/α) + ln(1/(αδ))/(α − 1), rounded up."""
    near, above, below = -math.log1p(1 / t), math.log1p(t), math.log(delta)
    rounding = _ROUNDING * (abs(near) + (above + abs(below)) / t)
    return near - (above + below) / t + rounding


def _root(increasing: Callable[[float], float]) -> float:
    """Where a function of t = α − 1 turns positive, by bisection in ln t.

    The bounds are flat near their minimum: an error of 1e-9 in ln t is beyond what their floats can show.
    """
    low, high = -400.0, 300.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(math.exp(middle)) < 0 else (low, middle)
    return math.exp((low + high) / 2)


def _non_negative(name: str, value: object) -> float:
    number = real(name, value)
    if number < 0:
        raise InvalidInput(f"{name} must not be negative, got {value}")
    return number


def _zcdp(rho: Fraction) -> ZCDP:
    rounded = round_up(rho)
    if rounded == math.inf:
        raise InvalidInput("the zCDP cost must be below 1.8e308, got more")
    return ZCDP(rounded)


def guessing_chance(cost: Cost) -> float:
    """The best chance to tell two equally likely neighbours apart, (1 + total variation) / 2.

    Under (ε, δ) it is at most (e^ε + δ) / (e^ε + 1) [Kairouz, Oh & Viswanath 2015]; under ρ the total variation is at
    most √(ρ/2) (Pinsker) and √(1 - e^-ρ) (Bretagnolle & Huber).
    """
    if isinstance(cost, ZCDP):
        return (1 + min(math.sqrt(cost.rho / 2), math.sqrt(-math.expm1(-cost.rho)))) / 2
    delta = cost.delta if isinstance(cost, ApproxDP) else 0.0
    inverse = math.exp(-cost.epsilon)
    return (1 + delta * inverse) / (1 + inverse)
