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

from qrelease._util.typing import Ints
from qrelease.errors import TooLarge
from qrelease.local.categories import CategoryClient, Hadamard, KAry, LocalHashing, OptimisedUnary, Unary
from qrelease.local.server import Batch, LocalEstimate, Server, normal_estimate, proportion_interval

K = TypeVar("K", bound=CategoryClient)

_MOST_CATEGORIES = 1 << 20
_BLOCK = 1 << 22  # bits that are worked on at once
_TABLE_ROWS, _TABLE_COLUMNS = 1 << 12, 1 << 9  # of tables of hash values, at most
_ROWS = 255  # reports at a time, whose supports are counted in one byte


@dataclass(frozen=True, eq=False)
class FrequencyServer(Server[K]):
    """Estimates the share of each category, (k,), fractions of the people; they may be negative."""

    @property
    @abstractmethod
    def support(self) -> tuple[Fraction, Fraction]:
        """p and q."""

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
    if client.k > _MOST_CATEGORIES:
        raise TooLarge(f"shares of {client.k:,} categories do not fit; at most {_MOST_CATEGORIES:,}")


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
        table = np.bincount(batch.codes.astype(np.int64), minlength=self.client.size).reshape(-1, g)
        total = np.full(shape, n / g)
        for t in range(1, g):
            phases = np.exp(-2j * np.pi * t * np.arange(g) / g)
            found = np.fft.ifftn((table @ phases).reshape(shape), norm="forward")
            multiples = np.arange(g) * t % g
            total += found[np.ix_(*[multiples] * self.client.digits)].real / g
        supports: Ints = np.rint(total.reshape(-1)[: self.client.k]).astype(np.int64)
        return supports

    def supports_of(self, batch: Batch, categories: npt.NDArray[np.uint64]) -> Ints:
        """How many reports support each of some categories, (candidates,).

        A hash is a sum over pieces of the digits, and what a piece adds stands in a table by the seed's digits in it.
        """
        g, digits, codes = self.client.g, self.client.digits, batch.codes
        seeds, said = codes // np.uint64(g), codes % np.uint64(g)
        total = np.zeros(len(categories), np.int64)
        piece = max(1, int(math.log(_TABLE_ROWS, g)))
        lengths = [min(piece, digits - start) for start in range(0, digits, piece)]
        places = []
        for length in lengths:
            seeds, own = np.divmod(seeds, np.uint64(g**length))
            places.append(own.astype(np.int64))
        for first in range(0, len(categories), _TABLE_COLUMNS):
            some = slice(first, first + _TABLE_COLUMNS)
            total[some] = _supporting(_tables(categories[some], g, lengths), places, said, g)
        return total

    def estimate_of(self, batch: Batch, categories: npt.NDArray[np.uint64]) -> LocalEstimate:
        """The shares of some categories only, (candidates,), as `estimate`."""
        return self.from_supports(self.supports_of(batch, categories), len(batch))


def _tables(categories: npt.NDArray[np.uint64], g: int, lengths: Sequence[int]) -> list[npt.NDArray[Any]]:
    """For each piece of so many digits what it adds to a hash, below g: by the seed's digits in it, and by category."""
    found, rest = [], categories
    narrow = np.uint8 if max(len(lengths), 2) * (g - 1) < 256 else np.uint16
    multiples = np.arange(g)[:, None] * np.arange(g) % g  # of the seed's digit and the category's
    for length in lengths:
        table = np.zeros((1, len(categories)), narrow)
        for _ in range(length):
            rest, digit = np.divmod(rest, np.uint64(g))
            table = table + multiples.take(digit.astype(np.int64), axis=1).astype(narrow)[:, None]
            table = np.where(table < g, table, table - narrow(g)).reshape(-1, len(categories))
        found.append(table)
    return found


def _supporting(
    tables: Sequence[npt.NDArray[Any]], places: Sequence[npt.NDArray[np.int64]], said: npt.NDArray[np.uint64], g: int
) -> Ints:
    """How many of the reports named the hash value of each category, (candidates,)."""
    total = np.zeros(tables[0].shape[1], np.int64)
    named = said.astype(tables[0].dtype)[:, None]
    for start in range(0, len(said), _ROWS):
        rows = slice(start, start + _ROWS)
        hashed = tables[0][places[0][rows]]
        for table, place in zip(tables[1:], places[1:], strict=True):
            hashed += table[place[rows]]
        hits = hashed == named[rows]
        for turn in range(1, len(tables)):  # a sum of p numbers below g is one of p numbers that are equal modulo g
            hits |= hashed == named[rows] + hashed.dtype.type(turn * g)
        total += hits.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return total


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
