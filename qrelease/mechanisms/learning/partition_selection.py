"""Which of the keys that occur may be named: partition selection (Desfontaines, Voss, Gipson & Mandayam, PoPETs 2022).

Each record has one key. A key that nobody has is never named, and one that a single record has is named with a chance
of at most δ; so a δ above 0 is needed, and the list of all possible keys is not.

**The rule.** Every key that n ≥ 1 records have gets its own noise X with P(X = x) ∝ e^(-ε|x|) on the whole numbers
-k..k, and is named, with n + X, if n + X > k. The reach k is the smallest with P(X = k) ≤ δ:

    P(X = k) = q^k (1 - q) / (1 + q - 2 q^(k + 1)),   q = e^(-ε).

**It is (ε, δ)-DP.** Neighbours differ in the count of one key, n and n + 1, and other keys' noise is independent. Let
n ≥ 1. The value y = n + X is n + 1 + X' for X' = X - 1, and P(X = x) ≤ e^ε P(X = x - 1) while x - 1 ≥ -k; the one x
that is left, -k, has the chance δ at most. So P(y ∈ S) ≤ e^ε P(y' ∈ S) + δ for every set S, and as X is symmetric, the
same holds the other way round. What is published is a function of y. For n = 0 nothing is published, and for n + 1 = 1
something is only if X = k: the two laws differ by a chance of at most δ.

**It is optimal** among all rules that say whether a key is named: it names a key that n records have with the largest
chance there is (their Theorem 1), up to how far P(X = k) is below δ because k is whole. Its values n + X come on top.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from qrelease._util.typing import Floats, Ints, Mask
from qrelease.errors import InvalidInput
from qrelease.noise.distributions import MAX_SCALE
from qrelease.noise.entropy import WordSource
from qrelease.noise.samplers import discrete_laplace

_DIGITS = 60  # of the arithmetic that decides a reach
_MARGIN = Decimal("1e-40")  # more than what is rounded in it
_MAX_REACH = 1 << 40
_LEAST_KEPT = Fraction(1, 1 << 10)  # of the reach, in scales of the noise: about that part of all draws is within it


@lru_cache(1 << 6)
def reach(epsilon: float | Fraction, delta: float | Fraction) -> int:
    """k, the largest noise, which is also the number of records that a named key seems to have at least, less one.

    Raises
    ------
    InvalidInput
        For an ε that is not positive, a δ that is not inside (0, 1), and a reach above 2^40.

    Examples
    --------
    >>> reach(1.0, 1e-5)
    11
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise InvalidInput("keys that nobody listed need an epsilon and a delta above 0 (and below 1)")
    low, high = 0, 1
    while _chance_of_reach(Fraction(epsilon), high) > _decimal(Fraction(delta)):
        low, high = high, 2 * high
        if high > _MAX_REACH:
            raise InvalidInput(f"epsilon {float(epsilon):.3g} is too small to name any key")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if _chance_of_reach(Fraction(epsilon), middle) > _decimal(Fraction(delta)) else (low, middle)
        )
    return high


def check(epsilon: float | Fraction, delta: float | Fraction) -> None:
    """Raise `InvalidInput` where there is no reach, and where noise would hardly ever be drawn that is within it."""
    if epsilon * MAX_SCALE < 1:
        raise InvalidInput(f"epsilon {float(epsilon):.3g} is too small to name any key")
    if reach(epsilon, delta) * epsilon < _LEAST_KEPT:
        raise InvalidInput(
            f"keys that nobody listed need a delta far below epsilon, got {float(delta):.3g} and {float(epsilon):.3g}"
        )


def _decimal(value: Fraction) -> Decimal:
    with localcontext(Context(prec=_DIGITS)):
        return Decimal(value.numerator) / Decimal(value.denominator)


def _chance_of_reach(epsilon: Fraction, k: int) -> Decimal:
    """P(X = k), rounded up."""
    with localcontext(Context(prec=_DIGITS)):
        rate = _decimal(epsilon)
        q = (-rate).exp()
        return (-rate * k).exp() * (1 - q) / (1 + q - 2 * (-rate * (k + 1)).exp()) * (1 + _MARGIN)


def noise(epsilon: float | Fraction, k: int, size: int, entropy: WordSource) -> Ints:
    """Draws (size,) of X: of the discrete Laplace distribution, drawn again while they are beyond -k..k."""
    drawn = discrete_laplace(1 / Fraction(epsilon), size, entropy)
    beyond = np.flatnonzero(np.abs(drawn) > k)
    while len(beyond):
        drawn[beyond] = discrete_laplace(1 / Fraction(epsilon), len(beyond), entropy)
        beyond = beyond[np.abs(drawn[beyond]) > k]
    return drawn


def select(counts: Ints, epsilon: float | Fraction, delta: float | Fraction, entropy: WordSource) -> tuple[Mask, Ints]:
    """Which keys may be named, (m,), and about how many records have each of those, (m,).

    Parameters
    ----------
    counts
        How many records have each key, (m,); private. Those that nobody has are not named.
    epsilon, delta
        The cost, where one record more or less changes one count by 1.
    """
    k = reach(epsilon, delta)
    noisy = counts + noise(epsilon, k, len(counts), entropy)
    return (noisy > k) & (counts > 0), noisy


def chance(counts: Ints, epsilon: float | Fraction, delta: float | Fraction) -> Floats:
    """How likely each key is named, (m,): P(X > k - n), as floats."""
    k, q = reach(epsilon, delta), np.exp(-float(epsilon))
    n = np.minimum(counts, 2 * k + 1).astype(float)
    whole = 1 + q - 2 * q ** (k + 1)
    above = np.where(n <= k, q ** np.clip(k + 1 - n, 0, None) - q ** (k + 1), 0) / whole  # x from k + 1 - n > 0 on
    below = np.where(n > k, q ** np.clip(n - k, 0, None) - q ** (k + 1), 0) / whole  # x up to k - n < 0
    return np.where(n < 1, 0.0, np.where(n <= k, above, 1 - below))
