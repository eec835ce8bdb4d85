"""Which categories may be named, where a person has several: partition selection by persons with Gaussian noise.

Each person divides one vote among her d <= k categories, 1/√d to each (`data.named_categories`). Each category that
anybody has gets the sum of its votes, and its own Gaussian noise X of standard deviation σ, and is named, with what
that comes to, if it comes to t or more (Gopi, Gulhane, Kulkarni, Shen, Shokouhi & Yekhanin 2020, *Differentially
private set union*, §5). Here the votes are whole units, w = `WEIGHT` for the first, and X is rounded.

**The promise.** With σ² = w²/(2ρ), and t the smallest for which

    d · P(w(d) + X >= t) <= δ   for each d <= k,

it is δ-approximate ρ-zCDP of persons: but for an event of probability δ, decided by coins that do not depend on
the rest, it is ρ-zCDP (Bun & Steinke 2016, Definition 8.1). So with ρ converted at δ', it is (ε(ρ, δ'), δ' + δ)-DP, and
of several such selections, and any other use of ρ, the ρ and the δ add up, also where later ones are chosen in view of
earlier ones.

*Proof.* Let T' be T with one person more, who names D categories, C the categories that somebody has in T, and d how
many she alone has. Her votes do not depend on others, nor others' on hers. On the categories of C the sums of T' and T
differ by a vector of length √D · w(D) <= w at most, so what comes of C, which is post-processing of sums with noise on
one list, has a Rényi divergence of αρ at most at every order α, either way (`samplers`: rounded noise is such
post-processing, too). Of T nothing else comes. Of T' something does only if one of her d own categories comes to t:
with a probability p <= d · P(w(D) + X >= t) <= D · P(w(D) + X >= t) <= δ, independently of the noise on C. So the law
of T' is that of what comes of C, but for an event of probability p, which a coin raises to δ; and so is that of T, but
for a coin of probability δ. ∎

In terms of (ε, δ'): let Q and Q' be the laws of what comes of C in T and in T'. For every set S, P(S) = Q(S) and
(1 - δ) Q'(S) <= P'(S) <= Q'(S) + δ. So P'(S) <= e^ε P(S) + δ' + δ, and P(S) <= (1 - δ) Q(S) + δ <= e^ε P'(S) + δ' + δ.

*Where a person is replaced*, C is what others have, and the sums on C differ by v - v' with v, v' >= 0, of length √2 w
at most: so σ² = w²/ρ. On either side her own categories are named with a probability of at most δ, and the proof is the
same, with such an event on both.

Nothing is gained by a smaller k for persons with many categories: what one of d counts is 1/√d, and of those who name k
of them 1/√k with probability k/d, which is less on average. What k costs is in t alone, and little.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import sqrt

import numpy as np

from qrelease._util.typing import Floats, Ints, Mask
from qrelease.data.named_categories import MAX_NAMED, WEIGHT, weight
from qrelease.errors import InvalidInput
from qrelease.noise.distributions import MAX_VARIANCE
from qrelease.noise.entropy import WordSource
from qrelease.noise.samplers import rounded_gaussian

_LEAST_VARIANCE = Fraction(1, 1 << 80)  # of rounded noise that is drawn: more than an enormous ρ needs
_MARGIN = 1e-9
"""More than the relative error of a normal tail in floats, which is some 1e-13."""


def variance(rho: float | Fraction, moved: int = 1) -> Fraction:
    """σ², in squared units.

    rho    what the noise costs a person
    moved  the persons in whom neighbours differ: 1, or 2 where one is replaced
    """
    if not rho > 0:
        raise InvalidInput(f"categories of persons need a rho above 0, got {rho}")
    found = Fraction(WEIGHT * WEIGHT * moved) / (2 * Fraction(rho))
    if found > MAX_VARIANCE:
        raise InvalidInput(f"rho {float(rho):.3g} is too small to name any category")
    return max(found, _LEAST_VARIANCE)


@lru_cache(1 << 6)
def threshold(rho: float | Fraction, delta: float | Fraction, moved: int = 1, most: int = MAX_NAMED) -> int:
    """t, in units: what a category that is named comes to at least.

    Parameters
    ----------
    rho, moved
        As `variance` takes them.
    delta
        The largest probability with which any of the categories that one person alone has is named.
    most
        k, how many categories a person names at most.

    Raises
    ------
    InvalidInput
        For a ρ that is not positive or too small for the noise there is, and a δ outside (0, 1).

    Examples
    --------
    >>> [round(threshold(rho, 1e-10, most=k) / WEIGHT, 1) for rho in (0.5, 0.005) for k in (1, 64)]
    [7.4, 7.4, 64.6, 69.8]
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"categories that nobody listed need a delta above 0 (and below 1), got {delta}")
    sigma = sqrt(variance(rho, moved))
    low, high = 0, 1
    while _of_one_person(high, sigma, most) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _of_one_person(middle, sigma, most) > delta else (low, middle)
    return high


def _of_one_person(t: int, sigma: float, most: int) -> float:
    """The largest probability, over d, that one of d categories that only one person has is named; rounded up."""
    from scipy.special import ndtr

    named = np.arange(1, most + 1)
    votes = np.array([weight(d) for d in named.tolist()])
    # A rounded X is t - w or more where the real one is t - w - 1/2 or more.
    tails = ndtr(-(t - votes - 0.5) / sigma)
    return float((named * tails).max()) * (1 + _MARGIN)


def passed(sums: Ints, noise: Ints, least: int) -> tuple[Mask, Ints]:
    """Which categories come to the threshold with their noise, (m,), and what each comes to, (m,).

    Examples
    --------
    >>> passed(np.array([0, 5, 9]), np.array([20, 1, 3]), 10)[0].tolist()
    [False, False, True]
    """
    noisy = sums + noise
    return (noisy >= least) & (sums > 0), noisy


def select(
    sums: Ints, rho: float | Fraction, delta: float | Fraction, entropy: WordSource, moved: int = 1
) -> tuple[Mask, Ints]:
    """Which categories may be named, (m,), and what each of those comes to, (m,), in units.

    Parameters
    ----------
    sums
        Of the votes for each category, (m,), in units; private. Those without are not named.
    rho, delta, moved
        As in `threshold`.
    entropy
        Where the noise comes from.
    """
    least = threshold(rho, delta, moved)
    return passed(sums, rounded_gaussian(variance(rho, moved), len(sums), entropy), least)


def chance(sums: Ints, rho: float | Fraction, delta: float | Fraction, moved: int = 1) -> Floats:
    """How likely each category is named, (m,), as floats."""
    from scipy.special import ndtr

    least, sigma = threshold(rho, delta, moved), sqrt(variance(rho, moved))
    return np.where(sums > 0, ndtr((sums - least + 0.5) / sigma), 0.0)
