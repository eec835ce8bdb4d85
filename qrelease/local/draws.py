"""Exact random choices for a person's own device, from any stream of random words; Python integers only, no numpy.

A probability such as e^ε/(e^ε + k - 1) is irrational. A client therefore replaces e^ε by a rational number a little
below it (`factor`) and chooses with whole-number weights: the ratio of two probabilities is then at most e^ε exactly,
and the server divides by the very same rational numbers, so that its estimates stay unbiased.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from qrelease._util.validate import rational
from qrelease.errors import InvalidInput
from qrelease.noise import exact_cdfs
from qrelease.noise.exact_reals import exp_negative, invert

if TYPE_CHECKING:
    from qrelease.noise.entropy import WordSource

LARGEST_EPSILON: Final = 32
"""Beyond it a report is the truth but for one time in 10^13: that is no randomised answer any more."""

SMALLEST_EPSILON: Final = Fraction(1, 1 << 40)
"""Below it nothing can be learned from all people on earth."""

_BITS: Final = 32  # of the denominator of `factor`: it costs less than 2^-31 of ε


@final
class DeviceEntropy:
    """The operating system's random words: all that a client needs on a person's device."""

    insecure_seed = None

    def words(self, n: int) -> Any:
        """`n` fresh uniform 64-bit words, a list of integers."""
        octets = os.urandom(8 * n)
        return [int.from_bytes(octets[i : i + 8], "little") for i in range(0, 8 * n, 8)]


class DeviceDraws(Protocol):
    """The random choices that clients make: `ExactDraws`, or a test that tries every path."""

    def pick(self, weights: Sequence[int]) -> int:
        """An index, with a probability proportional to its weight."""

    def below(self, size: int) -> int:
        """A uniform integer from 0 to size - 1."""

    def fades(self, gamma: Fraction) -> bool:
        """Whether a coin falls that falls with probability e^-γ, γ >= 0."""


@final
class ExactDraws:
    """Choices with exactly their probabilities, from a source of uniform 64-bit words (`Entropy`, `DeviceEntropy`)."""

    def __init__(self, source: WordSource) -> None:
        self._source = source

    def pick(self, weights: Sequence[int]) -> int:
        """An index, with a probability proportional to its weight."""
        place = self.below(sum(weights))
        for index, weight in enumerate(weights):
            if place < weight:
                return index
            place -= weight
        raise InvalidInput("weights must not be negative, and one must be positive")

    def below(self, size: int) -> int:
        """A uniform integer from 0 to size - 1: random bits until they are below `size`.

        How many tries it takes depends on `size` alone, which is public.
        """
        if size < 1:
            raise InvalidInput(f"there is no integer from 0 to {size - 1}")
        bits = (size - 1).bit_length()
        while True:
            word = 0
            for part in self._source.words(-(-bits // 64)):
                word = word << 64 | int(part)
            word >>= -bits % 64
            if word < size:
                return word

    def fades(self, gamma: Fraction) -> bool:
        """Whether a coin falls that falls with probability e^-γ, γ >= 0; the bits of a uniform are drawn as needed."""
        word = int(self._source.words(1)[0])
        return invert(partial(exact_cdfs.coin, gamma), word, 64, self._source) == 0


def checked_epsilon(epsilon: object) -> Fraction:
    """ε as an exact fraction. `InvalidInput` unless it is a number from 2^-40 to 32."""
    exact = rational("epsilon", epsilon)
    if not SMALLEST_EPSILON <= exact <= LARGEST_EPSILON:
        raise InvalidInput(f"epsilon of a local report must be from 2^-40 to {LARGEST_EPSILON}, got {epsilon}")
    return exact


@lru_cache(maxsize=256)
def factor(epsilon: Fraction) -> Fraction:
    """A rational number above 1 and at most e^ε, below it by less than 2^-31 of e^ε - 1."""
    bits = _BITS + max(0, (epsilon.denominator // epsilon.numerator).bit_length())
    scale = bits + 2 * LARGEST_EPSILON + 64
    return Fraction((1 << (bits + scale)) // exp_negative(epsilon, scale)[1], 1 << bits)


@lru_cache(maxsize=256)
def share_of(whole: int, gamma: Fraction) -> int:
    """The integer nearest to whole · e^-γ: the same on every device, whatever its floating-point library."""
    scale = whole.bit_length() + 128
    low, high = exp_negative(gamma, scale)
    return (whole * (low + high) + (1 << scale)) >> (scale + 1)


def two_sided_geometric(gamma: Fraction, draws: DeviceDraws) -> int:
    """An integer Y with P(y) ∝ e^(-γ|y|), exactly (Canonne, Kamath & Steinke 2020, Algorithm 2).

    With γ = s/t: U uniform below t is kept with probability e^(-U/t), V counts the coins of probability e^-1 that fall
    in a row, and (U + tV) // s is geometric. A sign is added, and minus zero drawn again.
    """
    s, t = gamma.numerator, gamma.denominator
    while True:
        u = draws.below(t)
        if not draws.fades(Fraction(u, t)):
            continue
        v = 0
        while draws.fades(Fraction(1)):
            v += 1
        magnitude = (u + t * v) // s
        negative = draws.below(2)
        if magnitude or not negative:
            return -magnitude if negative else magnitude
