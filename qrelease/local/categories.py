"""Clients for one of k categories: what each reports, and with which whole-number weights. No numpy.

With E the client's `odds`, a rational number just below e^ε:

    k-ary           the truth E times as often as each other category (Warner 1965; Kairouz, Bonawitz & Ramage 2016)
    unary           k bits, each flipped at ε/2 (RAPPOR: Erlingsson, Pihur & Korolova 2014)
    optimised       k bits: one's own at a fair coin, the others at 1/(E + 1) (OUE: Wang, Blocki, Li & Jha 2017)
    local hashing   a random hash to about e^ε + 1 values, and k-ary on these (OLH: the same)
    Hadamard        one of K numbers, those of a Hadamard row's +1 likelier (Acharya, Sun & Zhang 2019)

All proofs are one line: the total weight is the same for every category, and two weights differ at most by E.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Final, final

from qrelease._util.validate import whole
from qrelease.errors import InvalidInput
from qrelease.local.client import Client, checked_place
from qrelease.local.draws import DeviceDraws, checked_epsilon, factor

MAX_CATEGORIES: Final = 1 << 62
MAX_BITS: Final = 1 << 16
"""Categories of a unary report, which has as many bits."""


@dataclass(frozen=True)
class CategoryClient(Client):
    """One of k categories, 0..k-1.

    Parameters
    ----------
    epsilon
        As of every `Client`.
    k
        How many categories there are, at least 2.
    """

    k: int
    most: ClassVar[int] = MAX_CATEGORIES

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("k", whole("k", self.k, least=2))
        if self.k > self.most:
            raise InvalidInput(f"k must be at most {self.most:,} for {self.name}, got {self.k}")

    @property
    def inputs(self) -> int:
        """k, the number of categories."""
        return self.k

    def place(self, value: object) -> int:
        """The category itself."""
        return checked_place("the category", value, self.k)


@final
@dataclass(frozen=True)
class KAry(CategoryClient):
    """k-ary randomised response: the true category, or one of the others.

    Examples
    --------
    >>> from qrelease.local import DeviceEntropy, KAry
    >>> 0 <= KAry(1.0, 4).report(2, DeviceEntropy()).code < 4
    True
    """

    name: ClassVar[str] = "k-ary"

    @property
    def size(self) -> int:
        """The number of reports, k."""
        return self.k

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """The place with weight E, each other with weight 1."""
        return truth_or_other(self.odds, self.k, place, draws)


def truth_or_other(odds: Fraction, size: int, place: int, draws: DeviceDraws) -> int:
    """A number below `size`: `place` with the weight `odds`, each other with weight 1."""
    if draws.pick((odds.numerator, (size - 1) * odds.denominator)) == 0:
        return place
    other = draws.below(size - 1)
    return other + (other >= place)


@final
@dataclass(frozen=True)
class Unary(CategoryClient):
    """k bits, of which one's own category is 1, each flipped with probability 1/(e^(ε/2) + 1). Bit v is category v."""

    name: ClassVar[str] = "unary"
    most: ClassVar[int] = MAX_BITS

    @property
    def size(self) -> int:
        """The number of reports, 2^k."""
        return 1 << self.k

    @cached_property
    def half_odds(self) -> Fraction:
        """A rational number just below e^(ε/2): two categories differ in two bits, so its square is at most e^ε."""
        return factor(checked_epsilon(self.epsilon) / 2)

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """Each bit as it is with weight e^(ε/2), flipped with weight 1."""
        keep, flip = self.half_odds.as_integer_ratio()
        code = 0
        for bit in range(self.k):
            code |= ((bit == place) ^ draws.pick((keep, flip))) << bit
        return code


@final
@dataclass(frozen=True)
class OptimisedUnary(CategoryClient):
    """k bits: that of one's own category from a fair coin, every other 1 with probability 1/(e^ε + 1)."""

    name: ClassVar[str] = "optimised unary"
    most: ClassVar[int] = MAX_BITS

    @property
    def size(self) -> int:
        """The number of reports, 2^k."""
        return 1 << self.k

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """Own bit fair, the others by weights E for 0 and 1 for 1; the two bits that differ make a ratio of E."""
        weights = self.odds.as_integer_ratio()
        code = 0
        for bit in range(self.k):
            code |= (draws.below(2) if bit == place else draws.pick(weights)) << bit
        return code


@final
@dataclass(frozen=True)
class LocalHashing(CategoryClient):
    """A random hash of the category to g values, and k-ary randomised response among these.

    The hash is linear: the digits of the category to the base g, times random digits, summed modulo the prime g. Two
    categories then fall together with probability 1/g exactly, and estimates are unbiased exactly. g is the prime
    nearest to e^ε + 1, where the variance is least.
    """

    name: ClassVar[str] = "local hashing"

    @cached_property
    def g(self) -> int:
        """The number of hash values: the prime nearest to e^ε + 1, at most 251."""
        best = min(float(self.odds) + 1, 251.0)
        return min((p for p in range(2, 252) if all(p % d for d in range(2, p))), key=lambda p: abs(p - best))

    @cached_property
    def digits(self) -> int:
        """How many digits to the base g a category has."""
        count = 1
        while self.g**count < self.k:
            count += 1
        return count

    @property
    def seeds(self) -> int:
        """How many hash functions there are."""
        return int(self.g**self.digits)

    @property
    def size(self) -> int:
        """Hash functions times hash values."""
        return self.seeds * self.g

    def hashed(self, seed: int, category: int) -> int:
        """The hash value of a category under the function of this number."""
        total = 0
        for _ in range(self.digits):
            seed, a = divmod(seed, self.g)
            category, b = divmod(category, self.g)
            total += a * b
        return total % self.g

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """seed · g + the randomised hash value; the seed has nothing to do with the category."""
        seed = draws.below(self.seeds)
        return seed * self.g + truth_or_other(self.odds, self.g, self.hashed(seed, place), draws)


@final
@dataclass(frozen=True)
class Hadamard(CategoryClient):
    """One of K numbers, in blocks; a category has half of the numbers of its block, and these are E times as likely.

    A block of b numbers, a power of two, serves b - 1 categories: the rows 1..b-1 of the Hadamard matrix, whose signs
    agree for two of them at half of the numbers. The more blocks, the better for large ε.
    """

    name: ClassVar[str] = "hadamard"

    @cached_property
    def blocks(self) -> int:
        """The largest power of two at most min(e^ε, 2k)/2, and at least 1."""
        most = math.floor(min(self.odds, Fraction(2 * self.k))) // 2
        return 1 << max(most.bit_length() - 1, 0)

    @cached_property
    def block(self) -> int:
        """b, the numbers of a block: the least power of two above k/blocks."""
        return 1 << (-(-self.k // self.blocks)).bit_length()

    @property
    def size(self) -> int:
        """The number of reports, K = blocks · b."""
        return self.blocks * self.block

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """A number of the category's half with weight E each, any other with weight 1 each."""
        block, row = divmod(place, self.block - 1)
        row, half = row + 1, self.block // 2
        inside, outside = half * self.odds.numerator, (self.size - half) * self.odds.denominator
        if draws.pick((inside, outside)) == 0:
            return block * self.block + _of_parity(row, draws.below(half), 0)
        other = draws.below(self.size - half)
        if other < half:
            return block * self.block + _of_parity(row, other, 1)
        other -= half
        return other + self.block * (other >= block * self.block)


def _of_parity(row: int, number: int, parity: int) -> int:
    """The number-th y for which row & y has an even (0) or odd (1) number of bits.

    The lowest bit of the row is not free: it makes the parity right.
    """
    low = row & -row
    y = (number & (low - 1)) | (number & -low) << 1
    return y | low if (row & y).bit_count() % 2 != parity else y
