"""Servers for categories: from reports to the share of people in each, unbiased.

A report *supports* some categories. With p the probability that it supports the true one, q that it supports another
one, and s the share of reports that support v, the estimate of v's share is (s - q)/(p - q); its variance is that of s
over (p - q)². p and q are rational numbers, those that the clients really use.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.typing import Ints
from qrelease.errors import TooLarge
from qrelease.local.categories import CategoryClient, Hadamard, KAry, LocalHashing, OptimisedUnary, Unary
from qrelease.local.kernels import count_left, support_parts
from qrelease.local.server import Batch, LocalEstimate, Server, normal_estimate, proportion_interval

K = TypeVar("K", bound=CategoryClient)

_MAX_CATEGORIES = 1 << 20
_BLOCK = 1 << 22  # bits that are worked on at once
_TABLE_ROWS = 1 << 12  # of tables of hash values, at most
_COUNTS = 1 << 22  # of what is left of reports, at once, or of one category
_REPORT_BYTES = 24  # for each different report: how often it came, and as a complex number
_SEED_BYTES = 80  # for each hash function, to transform these
_ADVICE = "take Hadamard response, or a smaller epsilon"


@dataclass(frozen=True, eq=False)
class FrequencyServer(Server[K]):
    """Estimates the share of each category, (k,), fractions of the people; they may be negative."""

    @property
    @abstractmethod
    def support(self) -> tuple[Fraction, Fraction]:
        """p and q: the probabilities with which a report supports the true category, and any other one."""

    @abstractmethod
    def supports(self, batch: Batch) -> Ints:
        """How many reports support each category, (k,)."""

    def _estimate(self, batch: Batch) -> LocalEstimate:
        return self.from_supports(self.supports(batch), len(batch))

    def from_supports(self, supports: npt.NDArray[Any], n: int) -> LocalEstimate:
        """The estimates, from how many of n reports support each category."""
        p, q = self.support
        gap, away = float(p - q), float(q)
        share = supports / n
        low, high = proportion_interval(supports.astype(np.float64), n)
        # Of a share that was never or always seen, the deviation is not 0: it is no smaller than that of one report.
        variance = np.maximum(share * (1 - share), (1 - 1 / (n + 1)) / (n + 1))
        return LocalEstimate(
            (share - away) / gap, ((low - away) / gap, (high - away) / gap), np.sqrt(variance / n) / gap, n
        )

    def variance(self, share: Fraction | float = 0) -> Fraction:
        """n times the exact variance of the estimate of a category that has this share of the n people."""
        p, q = self.support
        f = Fraction(share)
        return (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2

    @property
    def reach(self) -> float:
        """1/(p - q): a report either supports a category or does not."""
        p, q = self.support
        return float(1 / (p - q))


def _check_size(client: CategoryClient) -> None:
    if client.k > _MAX_CATEGORIES:
        raise TooLarge(f"shares of {client.k:,} categories do not fit; at most {_MAX_CATEGORIES:,}")


@final
class KAryServer(FrequencyServer[KAry]):
    """A report supports the category that it names."""

    @property
    def support(self) -> tuple[Fraction, Fraction]:
        """E/(E + k - 1) and 1/(E + k - 1)."""
        e = self.client.odds
        return e / (e + self.client.k - 1), 1 / (e + self.client.k - 1)

    def supports(self, batch: Batch) -> Ints:
        """How often each was named."""
        _check_size(self.client)
        return np.bincount(batch.codes.astype(np.int64), minlength=self.client.k)


@dataclass(frozen=True, eq=False)
class _BitServer(FrequencyServer[K]):
    """A report supports the categories whose bits are 1."""

    def supports(self, batch: Batch) -> Ints:
        """Sums of the bits; bit v is category v, so that the last byte comes first."""
        k, total = self.client.k, np.zeros(8 * batch.octets.shape[1], np.int64)
        rows = max(1, _BLOCK // len(total))
        for start in range(0, len(batch), rows):
            piece = batch.octets[start : start + rows, ::-1]
            total += np.unpackbits(piece, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
        return total[:k]


@final
class UnaryServer(_BitServer[Unary]):
    """The collector's half of `Unary`."""

    @property
    def support(self) -> tuple[Fraction, Fraction]:
        """H/(H + 1) and 1/(H + 1), H the rational number just below e^(ε/2)."""
        h = self.client.half_odds
        return h / (h + 1), 1 / (h + 1)


@final
class OptimisedUnaryServer(_BitServer[OptimisedUnary]):
    """The collector's half of `OptimisedUnary`."""

    @property
    def support(self) -> tuple[Fraction, Fraction]:
        """1/2 and 1/(E + 1)."""
        return Fraction(1, 2), 1 / (self.client.odds + 1)


@final
class LocalHashingServer(FrequencyServer[LocalHashing]):
    """A report supports the categories whose hash value it names."""

    @property
    def support(self) -> tuple[Fraction, Fraction]:
        """E/(E + g - 1) and 1/g."""
        e, g = self.client.odds, self.client.g
        return e / (e + g - 1), Fraction(1, g)

    def supports(self, batch: Batch) -> Ints:
        """How many reports support each category, by Fourier's transform over the digits modulo g.

        A report (seed, y) supports v where seed · v = y, which is the mean of ω^(t(seed · v - y)) over t = 0..g-1, ω
        being a g-th root of unity: so the supports are sums over t of transforms of the reports, at t times v.
        """
        _check_size(self.client)
        g, shape, n = self.client.g, (self.client.g,) * self.client.digits, len(batch)
        needed = _REPORT_BYTES * self.client.size + _SEED_BYTES * self.client.seeds
        memory.check(needed, f"shares of {self.client.k:,} categories from {g} hash values", _ADVICE, ahead=False)
        table = np.bincount(batch.codes.astype(np.int64), minlength=self.client.size).reshape(-1, g)
        total = np.full(shape, n / g)
        for t in range(1, g):
            phases = np.exp(-2j * np.pi * t * np.arange(g) / g)
            found = np.fft.ifftn((table @ phases).reshape(shape), norm="forward")
            multiples = np.arange(g) * t % g
            total += found[np.ix_(*[multiples] * self.client.digits)].real / g
        supports: Ints = np.rint(total.reshape(-1)[: self.client.k]).astype(np.int64)
        return supports

    def supports_below(self, codes: npt.NDArray[np.uint64], upper: npt.NDArray[np.uint64], parts: int) -> Ints:
        """How many of the reports (n,) support each category with these upper digits, (upper, parts).

        The lowest digits of a category are its part, a number below `parts`, which has as many digits as it takes. A
        hash is the sum of what the upper and the lowest digits add to it. What the upper ones add is taken off each
        report: what is left is as many reports about parts alone, for each of `upper`.
        """
        g, digits = self.client.g, LocalHashing(self.client.epsilon, max(parts, 2)).digits
        lowest, piece = g**digits, max(1, int(math.log(_TABLE_ROWS, g)))
        lengths = [min(piece, self.client.digits - start) for start in range(digits, self.client.digits, piece)]
        powers = np.array([g**length for length in lengths], np.uint64)
        low = codes // np.uint64(g) % np.uint64(lowest)
        # In the order of the lowest digits, counts that are added to one after another are near each other.
        codes = codes[np.argsort(low.astype(np.uint16) if lowest <= 1 << 16 else low, kind="stable")]
        found = np.empty((len(upper), parts), np.int64)
        together = max(1, _COUNTS // (lowest * g))
        for start in range(0, len(upper), together):
            some = upper[start : start + together]
            total = np.zeros((lowest, len(some), g), np.int64)
            count_left(codes, np.uint64(g), np.uint64(lowest), powers, _tables(some, g, lengths), total)
            for i in range(len(some)):
                found[start + i] = support_parts(total[:, i].copy(), g, digits, parts)
        return found


def _tables(categories: npt.NDArray[np.uint64], g: int, lengths: Sequence[int]) -> npt.NDArray[np.uint16]:
    """What pieces of so many digits take off a hash, (pieces, seeds, categories), from 0 to g - 1."""
    tables = np.zeros((len(lengths), g ** max(lengths), len(categories)), np.uint16)
    taken, rest = -np.arange(g)[:, None] * np.arange(g) % g, categories  # by the seed's digit and the category's
    for table, length in zip(tables, lengths, strict=True):
        for i in range(length):
            rest, digit = np.divmod(rest, np.uint64(g))
            further = taken.take(digit.astype(np.int64), axis=1)[:, None]
            table[: g ** (i + 1)] = ((table[: g**i] + further) % g).reshape(-1, len(categories))
    return tables


@final
class HadamardServer(Server[Hadamard]):
    """Estimates the share of each category, (k,), as `FrequencyServer` does.

    With s = b/2 and Z = sE + K - s: a report is one of a category's numbers with probability sE/Z if the category is
    true, s(E + 1)/2Z for another one of its block, and s/Z for one of another block. So a report among a category's
    numbers counts Z/s(E - 1), one among the rest of its block as much with a minus, and others 0: the expectation is 1
    for the category and 0 for all others.
    """

    @cached_property
    def _unit(self) -> Fraction:
        half = Fraction(self.client.block, 2)
        return (half * self.client.odds + self.client.size - half) / half / (self.client.odds - 1)

    def _estimate(self, batch: Batch) -> LocalEstimate:
        inside, blocks = self.tables(batch)
        n, unit = len(batch), float(self._unit)
        mean = unit * (2 * inside - blocks) / n
        return normal_estimate(mean, unit**2 * np.maximum(blocks, 1) / n - mean**2, n)

    def tables(self, batch: Batch) -> tuple[Ints, Ints]:
        """How many reports are among each category's numbers, and how many among those of its block, (k,) each."""
        _check_size(self.client)
        block, k = self.client.block, self.client.k
        table = np.bincount(batch.codes.astype(np.int64), minlength=self.client.size).reshape(-1, block)
        signs = _walsh(table)[:, 1:].reshape(-1)[:k]
        blocks = np.repeat(table.sum(axis=1), block - 1)[:k]
        return (blocks + signs) // 2, blocks

    def variance(self, share: Fraction | float = 0) -> Fraction:
        """n times the variance of the estimate of a category with this share, where it is largest.

        That is where everybody else is in its block too: the second moment of what a report counts is then unit²
        (E + 1)s/Z = unit (E + 1)/(E - 1).
        """
        return self._unit * (self.client.odds + 1) / (self.client.odds - 1) - Fraction(share)

    @property
    def reach(self) -> float:
        """The difference between a report that counts most against the category and one that counts most for it."""
        return float(2 * self._unit)


def _walsh(table: Ints) -> Ints:
    """Walsh's and Hadamard's transform of each row, (blocks, b): Σ_y table[y] (-1)^(bits of row & y)."""
    found = table
    step = 1
    while step < table.shape[1]:
        pairs = found.reshape(len(table), -1, 2, step)
        both = [pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]]
        found = np.stack(both, axis=2).reshape(table.shape)
        step *= 2
    return found
