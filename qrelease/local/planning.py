"""Which local mechanism to take: by the exact variances of all of them, before anybody reports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from scipy import stats

from qrelease._util.validate import whole
from qrelease.errors import InvalidInput
from qrelease.local.categories import MAX_BITS, CategoryClient, Hadamard, KAry, LocalHashing, OptimisedUnary, Unary
from qrelease.local.client import Client
from qrelease.local.draws import checked_epsilon
from qrelease.local.means import MeanServer
from qrelease.local.numeric import Coin, Hybrid, LocalLaplace, NumberClient, Piecewise
from qrelease.local.serving import serve
from qrelease.local.several import MAX_QUESTIONS, OneOf, even_share

MAX_PEOPLE = 1 << 40
"""More than there are; the exact mean of 1/nⱼ is a sum over all nⱼ that are likely."""

_CATEGORIES: tuple[type[CategoryClient], ...] = (KAry, Unary, OptimisedUnary, LocalHashing, Hadamard)
_NUMBERS: tuple[type[NumberClient], ...] = (Coin, Piecewise, Hybrid, LocalLaplace)


@final
@dataclass(frozen=True)
class Choice:
    """A mechanism with what it would give.

    Attributes
    ----------
    client : Client
        Of one question; `sampled` says whether each person answers one of the m, or all m at ε/m each.
    deviation : float
        The standard deviation of one estimate, at most: of the share of a category that nobody has, or of the mean of
        a number, where it is largest; in fractions, or in the number's units.
    octets : int
        Bytes that each person sends.
    """

    client: Client
    sampled: bool
    deviation: float
    octets: int

    def of_all(self, m: int) -> Client | tuple[Client, ...]:
        """The client of m such questions, or the m clients where each person answers all."""
        return OneOf(self.client.epsilon, (self.client,) * m) if self.sampled else (self.client,) * m


def plan(
    epsilon: float | Fraction,
    *,
    n: int,
    k: int | None = None,
    m: int = 1,
    low: float = 0.0,
    high: float = 1.0,
) -> list[Choice]:
    """All mechanisms for m questions of one kind to n people, the most accurate first.

    Parameters
    ----------
    epsilon
        What each person gives for all m questions together.
    n
        How many people report, at most 2^40.
    k
        The categories of each question; None for numbers.
    m
        How many questions, at most 4 096.
    low, high
        The range of a number.

    Returns
    -------
    list of Choice
        By `deviation`, which is exact: the largest variance over all values of the noise, and, where a person answers
        one question only, of the chance of who answers which, with the exact mean of 1/nⱼ.

    Examples
    --------
    >>> plan(0.5, n=10_000, k=2)[0].client.name
    'k-ary'
    >>> plan(4.0, n=10_000)[0].client.name
    'hybrid'
    """
    if whole("n", n, least=1) > MAX_PEOPLE:
        raise InvalidInput(f"n must be at most 2^40, got {n}")
    if whole("m", m, least=1) > MAX_QUESTIONS:
        raise InvalidInput(f"m must be at most {MAX_QUESTIONS:,} questions, got {m:,}")
    total = checked_epsilon(epsilon)
    ways = [(True, total)] if m == 1 else [(True, total), (False, even_share(total, m))]
    found = []
    for sampled, each in ways:
        for client in _clients(each, k, low, high):
            noise, spread = _variances(client)
            asked = mean_inverse(n, m) if sampled else 1 / n
            deviation = math.sqrt(noise * asked + spread * (asked - 1 / n))
            octets = (OneOf(each, (client,) * m).width if sampled else m * client.width) + 4 * (1 if sampled else m)
            found.append(Choice(client, sampled and m > 1, deviation, octets))
    return sorted(found, key=lambda c: (c.deviation, c.octets))


def _clients(epsilon: Fraction, k: int | None, low: float, high: float) -> Iterator[Client]:
    if k is None:
        yield from (kind(epsilon, low, high) for kind in _NUMBERS)
        return
    whole("k", k, least=2)
    for of_categories in _CATEGORIES:
        if k <= MAX_BITS or of_categories not in (Unary, OptimisedUnary):
            yield of_categories(epsilon, k)


def _variances(client: Client) -> tuple[float, float]:
    """The largest variances of one report's noise, and of the values themselves."""
    server: Any = serve(client)
    if isinstance(server, MeanServer):
        return server.largest_variance, float(server.client.high - server.client.low) ** 2 / 4
    return float(server.variance(0)), 0.0


def mean_inverse(n: int, m: int) -> float:
    """The mean of 1/nⱼ for nⱼ people of n, each there with probability 1/m, given that there is one."""
    if m == 1:
        return 1 / n
    law = stats.binom(n, 1 / m)
    low, high = max(1, int(law.ppf(1e-15))), int(law.isf(1e-15)) + 1
    counts = np.arange(low, high + 1)
    weights = law.pmf(counts)
    if not weights.sum() > 0:
        raise InvalidInput(f"{n} people are too few for {m} questions")
    return float((weights / counts).sum() / weights.sum())
