"""Exact comparisons of real numbers by lazy refinement, for the draws that the 64-bit kernels cannot decide.

A *law* is a distribution on 0, 1, 2, … given by its thresholds C_v = P(V < v), v = 1, 2, …, real numbers that
can be had to any precision. Inverting it at a uniform real U, whose bits are drawn only as they are needed, gives
V exactly: V = v once the interval known to hold U lies inside [C_v, C_{v+1}). While the interval straddles a
threshold, U gets 64 more random bits and the thresholds 64 more true bits. Both intervals shrink to points, and U
meets a threshold with probability zero, so the search ends with probability one; what it returns has exactly the
law, whatever precisions were used on the way. Precision is speed here, never correctness.

Everything is Python integers: an interval is a pair of integers that encloses a real on the scale 2^bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from qrelease.noise.entropy import WordSource


if TYPE_CHECKING:  # numpy is not loaded for this: a person's device may not have it (`local`)
    from qrelease.noise.entropy import WordSource

Enclosure = tuple[int, int]
"""Integers (lo, hi) with lo <= real * 2^bits <= hi."""

ExactCDF = Callable[[int], tuple[Enclosure, ...]]
"""`law(bits)`: enclosures of C_1, C_2, … in ascending order, on the scale 2^bits.

A law on 0..n lists all of C_1..C_n. A law with infinitely many values goes on until an enclosure reaches 1, so
that a U beyond the list is undecided, never cut off.
"""

GUARD: Final = 64
"""Extra bits of intermediate results, so that roundings stay far below the last bit asked for."""


@lru_cache(maxsize=8)
def log2e(bits: int) -> int:
    """2^bits / ln 2 within one unit, from ln 2 = 2 artanh(1/3) = 2 Σ 3^-(2i+1) / (2i+1)."""
    scale = bits + GUARD
    power = (2 << scale) // 3
    total, i = 0, 1
    while power:
        total += power // i
        power //= 9
        i += 2
    return (1 << (bits + scale)) // total


def exp_negative(x: Fraction, bits: int) -> Enclosure:
    """An enclosure of e^-x on the scale 2^bits, for x >= 0: Taylor's series below 2^-8, then squarings."""
    if not x:
        return (1 << bits, 1 << bits)
    if x > bits:  # e^-x < 2^-x < 2^-bits
        return (0, 1)
    halvings = math.ceil(x).bit_length() + 8
    scale = bits + halvings + GUARD
    y = (x.numerator << (scale - halvings)) // x.denominator
    term = total = 1 << scale
    i = 0
    while term:
        i += 1
        term = (term * y >> scale) // i
        total += term if i % 2 == 0 else -term
    # y is floored (1 unit), each of the i terms is off by less than 1.01, the rest of the series is below 2.
    lo, hi = total - 2 * i - 4, total + 2 * i + 4
    for _ in range(halvings):
        lo, hi = lo * lo >> scale, (hi * hi >> scale) + 1
    return rescale((lo, hi), scale, bits)


def rescale(interval: Enclosure, scale: int, bits: int) -> Enclosure:
    """An enclosure of a real in [0, 1] on the scale 2^scale, taken outwards to 2^bits, bits <= scale."""
    lo, hi = interval
    return (lo >> (scale - bits), min(-(-hi >> (scale - bits)), 1 << bits))


def invert(law: ExactCDF, word: int, bits: int, source: WordSource) -> int:
    """The value of `law` at the uniform U in [word, word + 1) / 2^bits; more bits of U are drawn if needed."""
    while (value := _locate(law(bits), word)) is None:
        word, bits = word << 64 | int(source.words(1)[0]), bits + 64
    return value


def _locate(thresholds: tuple[Enclosure, ...], word: int) -> int | None:
    for value, (lo, hi) in enumerate(thresholds):
        if word + 1 <= lo:
            return value
        if word < hi:
            return None
    return len(thresholds)


def uniform_below(size: int, word: int, source: WordSource) -> int:
    """A uniform integer below `size`: floor(U size), U starting with `word`, more of it until the floor is sure."""
    bits = 64
    while word * size >> bits != ((word + 1) * size - 1) >> bits:
        word, bits = word << 64 | int(source.words(1)[0]), bits + 64
    return word * size >> bits
