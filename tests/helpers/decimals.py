"""Formulas of zCDP in decimals of as many digits as the context has."""

from collections.abc import Callable
from decimal import Decimal


def bound_epsilon(alpha: Decimal, rho: float, delta: float) -> Decimal:
    a = alpha
    return a * Decimal(rho) + (1 - 1 / a).ln() - (a * Decimal(delta)).ln() / (a - 1)


def bound_log_delta(alpha: Decimal, rho: float, epsilon: float) -> Decimal:
    a = alpha
    return (a - 1) * (a * Decimal(rho) - Decimal(epsilon)) - (a - 1).ln() + a * (1 - 1 / a).ln()


def least(function: Callable[[Decimal], Decimal]) -> Decimal:
    """The minimum over α > 1 by golden-section search in ln(α − 1), to 25 digits of the argument."""
    golden = (Decimal(5).sqrt() - 1) / 2
    low, high = Decimal(-60), Decimal(60)
    f = lambda u: function(1 + u.exp())  # noqa: E731
    x, y = high - golden * (high - low), low + golden * (high - low)
    fx, fy = f(x), f(y)
    while high - low > Decimal("1e-25"):
        if fx < fy:
            high, y, fy = y, x, fx
            x = high - golden * (high - low)
            fx = f(x)
        else:
            low, x, fx = x, y, fy
            y = low + golden * (high - low)
            fy = f(y)
    return min(fx, fy)
