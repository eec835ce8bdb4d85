"""Composition of mechanisms whose number and costs are fixed in advance, and group privacy; all rounded up.

The mechanisms themselves may be chosen adaptively. Where their costs or their number are, use `filters`.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from qrelease._util.validate import natural, positive_probability, probability, real
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP, check_cost, round_up

_ROUNDING = 2.0**-47  # covers a dozen roundings, each below 2^-51 of its result


def compose(costs: Iterable[Cost]) -> Cost:
    """Basic composition: the sum of costs, rounded up.

    Parameters
    ----------
    costs
        At least one. Pure and approximate costs may be mixed, and pure and zCDP ones, where a pure ε counts as ε²/2.

    Returns
    -------
    Cost
        Σε, or (Σε, Σδ) if a cost is approximate, or Σρ if one is zCDP.

    Raises
    ------
    InvalidInput
        Without costs, where approximate costs meet zCDP, and where Σδ reaches 1.

    References
    ----------
    Dwork & Roth 2014, Theorem 3.16; Bun & Steinke 2016, Lemma 1.7.

    Examples
    --------
    >>> compose([PureDP(0.5), ApproxDP(0.5, 1e-9)])
    ApproxDP(epsilon=1.0, delta=1e-09)
    """
    parts = list(costs)
    for cost in parts:
        check_cost(cost)
    if not parts:
        raise InvalidInput("compose needs at least one cost, got none")
    if any(isinstance(cost, ZCDP) for cost in parts):
        return ZCDP(round_up(sum((_rho(cost) for cost in parts), Fraction(0))))
    sums = [cost.to_json() for cost in parts]
    epsilon, delta = (
        round_up(sum((Fraction(part.get(name, 0.0)) for part in sums), Fraction(0))) for name in ("epsilon", "delta")
    )
    return ApproxDP(epsilon, delta) if any(isinstance(cost, ApproxDP) for cost in parts) else PureDP(epsilon)


def _rho(cost: Cost) -> Fraction:
    match cost:
        case ZCDP(rho):
            return Fraction(rho)
        case PureDP(epsilon) | ApproxDP(epsilon, 0.0):
            return Fraction(epsilon) ** 2 / 2
    raise InvalidInput(f"a cost summed with zCDP must be ZCDP or PureDP, got {cost}")


def group_privacy(cost: Cost, size: int) -> Cost:
    """What a cost means for a group of g = `size` people: gε, (gε, δ(e^{gε} − 1)/(e^ε − 1)), or g²ρ.

    The δ is the sum of e^{iε}δ over i < g, which iterating the definition gives; Dwork & Roth 2014, after
    Theorem 2.2, bound it by g·e^{(g−1)ε}δ. For zCDP see Bun & Steinke 2016. `InvalidInput` if δ would reach
    1: no promise.

    Parameters
    ----------
    cost
        What one person is promised.
    size
        g, the number of people in the group, at least 1.

    Returns
    -------
    Cost
        Of the same kind, rounded up.

    Examples
    --------
    >>> group_privacy(PureDP(0.25), 4)
    PureDP(epsilon=1.0)
    """
    check_cost(cost)
    g = natural("a group's size", size)
    match cost:
        case PureDP(epsilon):
            return PureDP(round_up(g * Fraction(epsilon)))
        case ZCDP(rho):
            return ZCDP(round_up(g * g * Fraction(rho)))
        case ApproxDP(epsilon, delta):
            return ApproxDP(round_up(g * Fraction(epsilon)), _grown(epsilon, delta, g))


def _grown(epsilon: float, delta: float, g: int) -> float:
    """δ(e^{gε} − 1)/(e^ε − 1), rounded up."""
    if delta == 0 or g == 1:
        return delta
    power, ratio = (g - 1) * epsilon, math.expm1(-g * epsilon) / math.expm1(-epsilon)
    exponent = power + math.log(delta) + math.log(ratio)
    if exponent >= 0:
        raise InvalidInput(f"delta {delta} must be smaller to promise a group of {g} anything: theirs reaches 1")
    return min(_up(math.exp(exponent), 1 + power - math.log(delta)), math.nextafter(1.0, 0.0))


def _up(value: float, size: float) -> float:
    """A computed value raised by its roundings, for intermediate results of that size relative to it."""
    return math.nextafter(value * (1 + _ROUNDING * size), math.inf)


def advanced_composition(cost: PureDP | ApproxDP, k: int, slack: float) -> ApproxDP:
    """k-fold (ε, δ) is (ε√(2k ln(1/δ')) + kε(e^ε − 1), kδ + δ'), with 0 < δ' = `slack` < 1; rounded up.

    Dwork & Roth 2014, Theorem 3.20. `compose` can be better for few mechanisms, `optimal_composition`
    always is.

    Parameters
    ----------
    cost
        Of each mechanism.
    k
        How many there are, at least 1.
    slack
        δ', in (0, 1).

    Returns
    -------
    ApproxDP
        The cost of all of them together, rounded up.

    Raises
    ------
    InvalidInput
        For numbers out of range, and for an ε above 700.

    Examples
    --------
    >>> print(f"{advanced_composition(PureDP(0.01), 1000, 1e-6):.4g}")
    epsilon=1.763, delta=1e-06
    """
    check_cost(cost, PureDP, ApproxDP)
    k, slack = natural("k", k), positive_probability("slack", slack)
    delta = round_up(k * Fraction(cost.delta if isinstance(cost, ApproxDP) else 0.0) + Fraction(slack))
    return ApproxDP(_advanced_epsilon(cost.epsilon, k, slack), delta)


def _advanced_epsilon(epsilon: float, k: int, slack: float) -> float:
    if epsilon > 700:
        raise InvalidInput(f"epsilon must be at most 700 in advanced composition, got {epsilon}")
    return _up(epsilon * math.sqrt(-2 * k * math.log(slack)) + k * epsilon * math.expm1(epsilon), 1.0)


def advanced_share(total: ApproxDP, k: int) -> PureDP:
    """The largest ε such that k mechanisms, each ε-DP, fit in (ε', δ') by advanced composition; rounded down.

    The inverse of Dwork & Roth 2014, Theorem 3.20, with all of δ' > 0 as its slack. Their rule of thumb
    (Corollary 3.21, ε' ≤ 1), ε'/(2√(2k ln(1/δ'))), gives about half. Their Example 3.7 (k = 10 000, ε' = 1,
    δ' = e^−32) says 1/801, where the theorem's ε' is 1.014; here it is 1/812.3.
    """
    check_cost(total, ApproxDP)
    k, slack = natural("k", k), positive_probability("delta", total.delta)
    share = _largest(lambda epsilon: _advanced_epsilon(epsilon, k, slack) <= total.epsilon, min(total.epsilon, 700.0))
    return PureDP(share)


def _largest(admits: Callable[[float], bool], high: float) -> float:
    """The largest float in [0, high] that a predicate admits which holds up to some point; 0 if none is."""
    if admits(high):
        return high
    low = 0.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if admits(middle) else (low, middle)
    return low


def optimal_delta(cost: PureDP, k: int, epsilon: float) -> float:
    """The smallest δ such that k-fold adaptive composition of ε₀-DP is (ε, δ)-DP, rounded up; ε ≥ 0.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3: Σ over i with (k − 2i)ε₀ > ε of
    C(k, i)(e^{(k−i)ε₀} − e^ε e^{iε₀})/(1 + e^ε₀)^k, attained by k randomised responses. Time O(k).
    """
    check_cost(cost, PureDP)
    target = real("epsilon", epsilon)
    if target < 0:
        raise InvalidInput(f"epsilon must not be negative, got {epsilon}")
    return _Responses(cost.epsilon, natural("k", k)).delta(target)


def optimal_composition(cost: PureDP, k: int, delta: float) -> ApproxDP:
    """The smallest ε such that k-fold adaptive composition of ε₀-DP is (ε, δ)-DP, rounded up; 0 ≤ δ < 1.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3, inverted by bisection. At δ = 0 it is basic composition.
    Time O(k).

    Parameters
    ----------
    cost
        ε₀, of each mechanism.
    k
        How many there are, at least 1.
    delta
        The δ at which the ε is wanted.

    Returns
    -------
    ApproxDP
        The cost of all of them together, rounded up.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Examples
    --------
    >>> print(f"{optimal_composition(PureDP(0.01), 1000, 1e-6):.4g}")
    epsilon=1.365, delta=1e-06
    """
    check_cost(cost, PureDP)
    delta, k = probability("delta", delta), natural("k", k)
    high = round_up(k * Fraction(cost.epsilon))
    if delta == 0:
        return ApproxDP(high, 0.0)
    low, responses = 0.0, _Responses(cost.epsilon, k)
    while high - low > 2.0**-40 * high and high > 2.0**-1000:
        middle = (low + high) / 2
        low, high = (low, middle) if responses.delta(middle) <= delta else (middle, high)
    return ApproxDP(high, delta)


class _Responses:
    """k randomised responses, each ε₀-DP: the worst case of k-fold composition."""

    def __init__(self, epsilon: float, k: int) -> None:
        self._epsilon, self._k = epsilon, k
        # The probability of i answers against the truth; the privacy loss is then (k − 2i)ε₀.
        every = math.lgamma(k + 1) - k * math.log1p(math.exp(-epsilon))
        self._probabilities = [
            math.exp(every - math.lgamma(i + 1) - math.lgamma(k - i + 1) - i * epsilon) for i in range(k // 2 + 1)
        ]

    def delta(self, epsilon: float) -> float:
        """E[(1 − e^{ε − loss})₊], rounded up."""
        losses = ((self._k - 2 * i) * self._epsilon for i in range(self._k // 2 + 1))
        above = [(p, loss) for p, loss in zip(self._probabilities, losses, strict=True) if loss > epsilon]
        exact = math.fsum(p * -math.expm1(epsilon - loss) for p, loss in above)
        # Rounded are the exponents of the probabilities, the differences ε − loss, and what is below all floats.
        size = 1 + self._k * (2 * math.log(self._k + 1) + self._epsilon)
        differences = self._k * self._epsilon * math.fsum(p for p, _ in above)
        rounding = _ROUNDING * (size * exact + differences) + self._k * math.ulp(0.0)
        return min(1.0, math.nextafter(exact + rounding, 1.0)) if above else 0.0
