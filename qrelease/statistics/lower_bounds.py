"""How small the error of a private mean can be at all: rates of the texts, and bounds with proved constants.

**The rates** are minimax up to a constant, for n of at least about √(d ln(1/δ))/ε: σ²(d/n + d² ln(1/δ)/(nε)²) for a
mean in d dimensions, σ²(s ln d/n + (s ln d)² ln(1/δ)/(nε)²) where only s coordinates are not 0 (Cai, Wang & Zhang
2021).

**Of a population, with constants** (`mean_bound`). This is for rows of d signs ±1 whose means p are drawn uniformly on
[−1, 1]ᵈ, n public, one row replaced. It holds on average over p, hence for the worst p. Let M be any private estimate,
cut to [−1, 1]ᵈ, and dα² = E‖M − p‖², dβ² = E‖M − X̄‖².

1. *Fingerprinting* (Bun, Steinke & Ullman 2017): in each coordinate E[(M − p) Σ_i (x_i − p)] + β² ≥ 1/3. For with
   g(p) = E[M | p] the sum has mean (1 − p²)g'(p), whose average over p is 2E[p g(p)] by parts; E[p Σ(x_i − p)] = 0; and
   E[(M − X̄)²] ≥ E[(g(p) − p)²] ≥ 1/3 − 2E[p g(p)].
2. *Privacy.* Z_i = ⟨M − p, x_i − p⟩ is what a tracing attack scores. With x_i replaced by a fresh row in the input of
   M, but not in the score, it is Z' of mean 0, and E Z'² = Σ_j E[(M_j − p_j)²(1 − p_j²)] ≤ dα². Under ρ-zCDP the χ²
   divergence of both inputs is at most e^{2ρ} − 1, so E Z_i ≤ √(e^{2ρ} − 1) √d α. Under (ε, δ), E Z_i ≤
   e^ε E Z'⁺ − e^{−ε} E Z'⁻ + 2δ·4d, and E Z'⁺ = E Z'⁻ ≤ √d α/2: E Z_i ≤ sinh(ε) √d α + 8δd.
3. So d(1/3 − β²) ≤ n(c √d α + 8δd) with c = √(e^{2ρ} − 1) or sinh ε, and β ≤ α + √(2/(3n)), as E(X̄ − p)² = 2/(3n).
   The least α for which this holds is the bound. Beside it stands the Bayes risk without privacy, α² ≥ 2/(3(n + 2)).

For small ρ and n above √(d/ρ) that is about d²/(18ρn²), where the Gaussian mechanism has 2d²/(ρn²), 36 times more.

**Of the records of a table** (`least_error`), which is what an estimate is compared with. Two bounds hold on the worst
table, and the larger counts.

*Many columns.* 3. bounds β too, as α ≤ β + √(2/(3n)): the least β for which it holds. Of n records, let m have random
signs and all others be at the lower end of each column. Whoever knows the others gets the mean of the m from that of
all, with an error that is n/m times as large. So the mean of all has at least m/n times the β of m records.

*Two tables* (Le Cam's method). Let the values of column j have a width of w_j. n records are at the lower end of every
column, and in a second table m of them at the upper end (or m more, where records come and go). The means differ by
w_j m/n (or w_j m/(n + m)), by D in L2, and privacy for groups of m holds for both outputs, p and q. Whatever is
estimated, its squared error, averaged over both tables, is at least D²/2 ∫pq/(p + q).

- Under ρ-zCDP the integral is at least (∫√(pq))²/2 by the Cauchy–Schwarz inequality, which is at least exp(−m²ρ)/2, as
  −2 ln ∫√(pq) is a Rényi divergence of order 1/2, and that of order 1 is at most m²ρ. So the error is D² exp(−m²ρ)/4.
- Under (ε, δ) for groups of m, p and q are at best the two outputs of a randomised response that tells the truth with
  probability δ (Kairouz, Oh & Viswanath 2015). So it is D² (1 − δ)/(4 cosh²(ε/2)), which one bit of one record attains.

For one column of width w, ρ and a large n that is .30 w/(n√ρ), where the Gaussian mechanism has .71 w/(n√ρ).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from qrelease._util.validate import natural, positive
from qrelease.errors import InvalidInput
from qrelease.privacy.composition import group_privacy
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost

_LARGEST_EXPONENT: Final = 300.0
"""Of exp, cosh and sinh: with a larger one a bound is 0 in any case."""


def mean_rate(dimension: int, records: int, cost: Cost, deviation: float = 1.0) -> float:
    """The minimax rate of E‖M − μ‖² up to a constant: σ²(d/n + d² ln(1/δ)/(nε)²), or d²/(n²ρ) for its second term.

    Without a δ, for pure ε, the second term is d³/(nε)²: Laplace noise for Δ₁ (see Hardt & Talwar 2010).

    Examples
    --------
    >>> mean_rate(10, 1000, ZCDP(0.1))
    0.011
    """
    d, n, variance = natural("dimension", dimension), natural("records", records), positive("deviation", deviation) ** 2
    return variance * (d / n + d**2 * _price(cost, d) / n**2)


def sparse_mean_rate(dimension: int, support: int, records: int, cost: Cost, deviation: float = 1.0) -> float:
    """The minimax rate of E‖M − μ‖² up to a constant, for s coordinates that are not 0; in two or more dimensions.

    Examples
    --------
    >>> round(sparse_mean_rate(10_000, 5, 1000, ZCDP(0.1)), 4)
    0.0673
    """
    d, s, n = natural("dimension", dimension), natural("support", support), natural("records", records)
    if d < 2 or s > d:
        raise InvalidInput(f"support must be at most the dimension, which is at least 2, got {support} of {dimension}")
    terms = s * math.log(d)
    return positive("deviation", deviation) ** 2 * (terms / n + terms**2 * _price(cost, s) / n**2)


def _price(cost: Cost, d: int) -> float:
    """What stands beside d²/n²."""
    match cost:
        case ZCDP(rho):
            return 1 / rho
        case ApproxDP(epsilon, delta) if delta > 0:
            return math.log(1 / delta) / epsilon**2
        case PureDP(epsilon) | ApproxDP(epsilon):
            return d / epsilon**2
    raise InvalidInput(f"the cost must be a cost, got {cost!r}")


def mean_bound(dimension: int, records: int, cost: Cost, neighbours: Neighbours = Neighbours.REPLACE_ONE) -> float:
    """What E‖M − p‖² is at least, for any private estimate of the means p of d signs, on average over p; proved above.

    Parameters
    ----------
    dimension
        d.
    records
        n.
    cost
        Of the estimate.
    neighbours
        Under add-remove a row is replaced by two changes, so the cost counts for a group of two.

    Returns
    -------
    float
        At least the Bayes risk 2d/(3(n + 2)) without privacy.

    Examples
    --------
    >>> round(mean_bound(1000, 1000, ZCDP(0.001)), 1)
    39.9
    """
    check_cost(cost)
    d, n = natural("dimension", dimension), natural("records", records)
    return d * max(_by_fingerprints(d, n, cost, neighbours, of_records=False) ** 2, 2 / (3 * (n + 2)))


def least_error(widths: Sequence[float], records: int, cost: Cost, neighbours: Neighbours) -> float:
    """What no private estimate of the means of some columns undercuts on all tables of at least n records.

    Parameters
    ----------
    widths
        How far apart two values of each column can be, in its unit, (d,).
    records
        n.
    cost
        Of the estimate.
    neighbours
        Which tables the promise compares.

    Returns
    -------
    float
        A bound on the root mean square error, over the noise and over the columns, on the worst table; proved above.

    Raises
    ------
    InvalidInput
        For no column, a width that is not positive, or a number or cost that is none.

    Examples
    --------
    >>> round(least_error([100.0], 10_000, PureDP(1.0), Neighbours.REPLACE_ONE), 4)
    0.0065
    >>> round(least_error([100.0] * 1000, 10_000, ZCDP(0.001), Neighbours.REPLACE_ONE), 2)
    0.96
    """
    check_cost(cost)
    n, falling = natural("records", records), sorted((positive("a width", w) for w in widths), reverse=True)
    if not falling:
        raise InvalidInput("there must be at least one width")
    d = len(falling)
    squares = math.fsum(w * w for w in falling) * _by_two_tables(n, cost, neighbours)
    first = d  # of the widest columns, each as wide as the last of them: all, the first half, the first quarter …
    while first:
        differing = max(_by_fingerprints(first, m, cost, neighbours, of_records=True) * m for m in _sizes(n))
        squares = max(squares, first * (falling[first - 1] / 2 * differing / n) ** 2)
        first //= 2
    return math.sqrt(squares / d)


def _sizes(n: int) -> Iterator[int]:
    """From 1 to n, each about 2^(1/4) times the one before."""
    size = 1
    while size < n:
        yield size
        size = max(size + 1, round(size * 2**0.25))
    yield n


def _by_fingerprints(d: int, n: int, cost: Cost, neighbours: Neighbours, *, of_records: bool) -> float:
    """The least α, or the least β of the records themselves, for d signs; see 3. above."""
    try:
        held = group_privacy(cost, 2) if neighbours is Neighbours.ADD_REMOVE else cost
    except InvalidInput:
        return 0.0  # two changes are promised nothing
    match held:
        case ZCDP(rho):
            c, delta = math.sqrt(math.expm1(min(2 * rho, _LARGEST_EXPONENT))), 0.0
        case ApproxDP(epsilon, delta):
            c = math.sinh(min(epsilon, _LARGEST_EXPONENT))
        case PureDP(epsilon):
            c, delta = math.sinh(min(epsilon, _LARGEST_EXPONENT)), 0.0
    spread = math.sqrt(2 / (3 * n))  # between the means and those of the records
    slope = n * c / math.sqrt(d)
    if of_records:
        linear, left = slope, 1 / 3 - 8 * n * delta - slope * spread
    else:
        linear, left = slope + 2 * spread, 1 / 3 - 8 * n * delta - spread**2
    # Where x² + linear x = left.
    return 2 * left / (linear + math.sqrt(linear**2 + 4 * left)) if left > 0 else 0.0


def _by_two_tables(n: int, cost: Cost, neighbours: Neighbours) -> float:
    """The squared error of a mean of values of width 1, from the best size of a group that differs; see above."""
    best = 0.0
    for size in _sizes(n):
        try:
            held = group_privacy(cost, size)
        except InvalidInput:
            break  # a group of so many is promised nothing
        match held:
            case ZCDP(rho):
                unsure = math.exp(-rho)
            case ApproxDP(epsilon, delta):
                unsure = (1 - delta) / math.cosh(min(epsilon / 2, _LARGEST_EXPONENT)) ** 2
            case PureDP(epsilon):
                unsure = 1 / math.cosh(min(epsilon / 2, _LARGEST_EXPONENT)) ** 2
        apart = size / (n + size if neighbours is Neighbours.ADD_REMOVE else n)
        best = max(best, apart**2 * unsure / 4)
    return best
