"""How small the error of a private mean can be at all: rates of the texts, and a bound with proved constants.

**The rates** are minimax up to a constant, for n of at least about √(d ln(1/δ))/ε: σ²(d/n + d² ln(1/δ)/(nε)²) for a
mean in d dimensions, σ²(s ln d/n + (s ln d)² ln(1/δ)/(nε)²) where only s coordinates are not 0 (Cai, Wang & Zhang
2021).

**The bound with constants** is for rows of d signs ±1 whose means p are drawn uniformly from [−1, 1]ᵈ, n public, one
row replaced. It holds on average over p, hence for the worst p. Let M be any private estimate, cut to [−1, 1]ᵈ, and
dα² = E‖M − p‖², dβ² = E‖M − X̄‖².

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
"""

from __future__ import annotations

import math

from qrelease._util.validate import natural, positive
from qrelease.errors import InvalidInput
from qrelease.privacy.composition import group_privacy
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost


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
    try:
        held = group_privacy(cost, 2) if neighbours is Neighbours.ADD_REMOVE else cost
    except InvalidInput:
        return 2 * d / (3 * (n + 2))  # two changes are promised nothing
    match held:
        case ZCDP(rho):
            c, delta = math.sqrt(math.expm1(min(2 * rho, 500.0))), 0.0
        case ApproxDP(epsilon, delta):
            c = math.sinh(min(epsilon, 500.0))
        case PureDP(epsilon):
            c, delta = math.sinh(min(epsilon, 500.0)), 0.0
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        alpha = (low + high) / 2
        needed = 1 / 3 - (alpha + math.sqrt(2 / (3 * n))) ** 2 - 8 * n * delta
        low, high = (alpha, high) if n * c * alpha < math.sqrt(d) * needed else (low, alpha)
    return d * max(low**2, 2 / (3 * (n + 2)))
