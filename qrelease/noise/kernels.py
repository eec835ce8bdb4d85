# mypy: disallow-untyped-decorators=False
"""The numba kernels under `samplers` and `selection`: random words in, integers out, no floating point.

A kernel is a function of its words alone. It computes in 64-bit integers within the error bounds stated here, and
where a comparison is closer than its bound it decides nothing: it leaves the row to its caller, who resolves the
very same words in `exact_reals`. So no probability is ever rounded. A kernel reads the same number of words for every
row, and takes the same steps whatever value comes out.
"""

from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

from qrelease._util.typing import Ints, Words
from qrelease.noise.exact_reals import exp_negative, log2e

WEIGHT_ERROR: Final = 1 << 8
"""Bound on |weight(d) - 2^63 e^(-γd)|: below 90 for the exponent (2 units of 2^-57), 20 for roots and series."""

TABLE_ERROR: Final = 1 << 23
"""Bound on the error of a threshold before it is lowered by as much, in units of 2^-64; see `thresholds`."""

GAP: Final = np.uint64(2 * TABLE_ERROR)
"""What a kernel treats as too close to call: far above every bound here, and still a chance below 2^-29 a draw."""

MAX_TABLE: Final = 1024
"""Entries of the largest search table."""

_ONE: Final = np.uint64(1 << 63)
_LN2: Final = np.uint64((1 << 192) // log2e(128))
_ROOTS: Final = np.array(
    [2 * exp_negative(Fraction(i << 192, 64 * log2e(192)), 62)[0] for i in range(64)], dtype=np.uint64
)
"""2^(63 - i/64), within two units."""

_LOW: Final = np.uint64((1 << 32) - 1)
_U0, _U1, _U6, _U7, _U10, _U11, _U32 = (np.uint64(i) for i in (0, 1, 6, 7, 10, 11, 32))
_U51, _U53, _U57, _U63, _U64 = (np.uint64(i) for i in (51, 53, 57, 63, 64))


def rate(gamma: Fraction) -> Words:
    """What `weight` needs to know of γ > 0: (cut, shift, multiplier), (3,).

    Beyond `cut` a weight is below 2^-63 and counts as 0. Up to it, with κ = γ / ln 2, the exponent κd is at most
    63 and `(d << shift) * multiplier` is κd on the scale 2^121: its upper word has 57 fractional bits.
    """
    kappa = gamma * Fraction(log2e(256), 1 << 256)
    cut = min(63 * kappa.denominator // kappa.numerator, (1 << 64) - 1)
    shift = 64 - cut.bit_length() if cut else 0
    multiplier = (kappa.numerator << (121 - shift)) // kappa.denominator if cut else 0
    return np.array([cut, shift, multiplier], dtype=np.uint64)


@njit(cache=True, nogil=True)
def _high(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper word of the product of two words."""
    a0, a1, b0, b1 = a & _LOW, a >> _U32, b & _LOW, b >> _U32
    middle = a1 * b0 + (a0 * b0 >> _U32)
    return a1 * b1 + (middle >> _U32) + ((a0 * b1 + (middle & _LOW)) >> _U32)


@njit(cache=True, nogil=True)
def _power(x: np.uint64) -> np.uint64:
    """2^(63 - x / 2^57), x < 2^63: a shift, a tabulated root, and Taylor's series of e^-y at y < ln 2 / 64."""
    y = _high((x << _U7) << _U6 >> _U6, _LN2)
    series = _ONE
    for divisor in (7, 6, 5, 4, 3, 2, 1):
        series = _ONE - _high(y, series) // np.uint64(divisor)
    return (_high(_ROOTS[np.intp((x >> _U51) & _U63)], series) << _U1) >> (x >> _U57)


@njit(cache=True, nogil=True)
def weight(d: np.uint64, gamma: Words) -> np.uint64:
    """2^63 e^(-γd) within `WEIGHT_ERROR`, and exactly 2^63 at d = 0; `gamma` comes from `rate`."""
    if d > gamma[0]:
        return _U0
    return _power(_high(d << gamma[1], gamma[2]))


@njit(cache=True, nogil=True)
def cumulative(gamma: Words, squared: bool, folded: bool, size: int) -> Words:
    """Partial sums over v < 0, 1, …, size of the weights of v, or of v² if `squared`, (size + 1,).

    Every v > 0 counts twice if `folded`. On the scale 2^52 a term is off by less than 2.5 and `MAX_TABLE` terms
    stay below 2^63.
    """
    sums = np.zeros(size + 1, dtype=np.uint64)
    for v in range(size):
        d = np.uint64(v)
        term = weight(d * d if squared else d, gamma) >> _U11
        sums[v + 1] = sums[v] + (term << _U1 if folded and v > 0 else term)
    return sums


def thresholds(sums: Words) -> Words:
    """A search table from the n + 1 partial sums: T_0 = 0 and T_v <= 2^64 C_v <= T_v + GAP, (n,).

    Where the sums total at least n/80, and the values from n on carry at most 2^-42 of the mass, a quotient is
    off by at most 2 · 2.5 n · 2^12 / (n/80) + 2^22 + 1 < TABLE_ERROR units of 2^-64.
    """
    total = int(sums[-1])
    lowered = [max(0, (part << 64) // total - TABLE_ERROR) for part in sums[:-1].tolist()]
    return np.array(lowered, dtype=np.uint64)


@njit(cache=True, nogil=True)
def _search(table: Words, word: np.uint64) -> np.intp:
    """The last index with table[index] <= word, in log2(n) branchless steps; n a power of two, table[0] = 0."""
    index = np.intp(0)
    step = table.shape[0] >> 1
    while step:
        index += step * np.intp(table[index + step] <= word)
        step >>= 1
    return index


@njit(cache=True, nogil=True)
def _close(a: np.uint64, b: np.uint64) -> np.bool_:
    return (a - b if a >= b else b - a) <= GAP


@njit(cache=True, nogil=True)
def narrow_rows(words: Words, row: int, out: Ints, filled: int, table: Words, signed: bool) -> tuple[int, int]:
    """Draws from `words[row:]`, (m, 2), into `out[filled:]`, one a row: a magnitude and, if `signed`, a sign.

    Returns (m, filled), or earlier (row, filled) at an undecided row.
    """
    while row < words.shape[0]:
        key = words[row, 0]
        k = _search(table, key)
        if key - table[k] <= GAP:
            break
        out[filled] = -np.int64(k) if signed and words[row, 1] & _U1 else np.int64(k)
        filled += 1
        row += 1
    return row, filled


@njit(cache=True, nogil=True)
def wide_rows(
    words: Words,
    row: int,
    out: Ints,
    filled: int,
    table: Words,
    signed: bool,
    squared: bool,
    layer: np.uint64,
    multiplier: np.uint64,
) -> tuple[int, int]:
    """Draws from `words[row:]`, (m, 3), into `out[filled:]`, a try a row; `samplers` has the algorithm and the names.

    The acceptance exponent is κL, or κL(2hK + L) if `squared`, both on the scale 2^57 after `multiplier`: the
    upper word of L 2^(64 - layer) times κ 2^(57 + layer), or of L(2hK + L) 2^(53 - 2 layer) times κ 2^(68 + 2 layer).
    Returns (m, filled), or earlier (row, filled) at an undecided row.
    """
    while row < words.shape[0]:
        key, coin = words[row, 0], words[row, 2]
        k = _search(table, key)
        high = np.uint64(k) << layer
        low = words[row, 1] >> (_U64 - layer)
        exponent = low << (_U64 - layer)
        if squared:
            exponent = _high(exponent, (high + high + low) << (_U53 - layer))
        bound = _power(_high(exponent, multiplier))
        level = coin >> _U1
        if key - table[k] <= GAP or _close(level, bound):
            break
        row += 1
        negative = signed and coin & _U1
        if level < bound and (high | low or not negative):
            out[filled] = -np.int64(high | low) if negative else np.int64(high | low)
            filled += 1
    return row, filled


@njit(cache=True, nogil=True)
def rounded_rows(
    words: Words, row: int, out: Ints, filled: int, table: Words, layer: int, multiplier: np.uint64
) -> tuple[int, int]:
    """Draws from `words[row:]`, (m, 3), into `out[filled:]`, a try a row: ±h(K + u), rounded; see `samplers`.

    The exponent κu(2K + u) is on the scale 2^57 after `multiplier`, κ 2^68, whatever the bits of u to come.
    Returns (m, filled), or earlier (row, filled) at an undecided row.
    """
    while row < words.shape[0]:
        key, u, coin = words[row, 0], words[row, 1], words[row, 2]
        k = _search(table, key)
        bound = _power(_high(_high(u, (np.uint64(k) << _U1 << _U53) + (u >> _U11)), multiplier))
        level = coin >> _U1
        if key - table[k] <= GAP or _close(level, bound):
            break
        row += 1
        if level < bound:
            if layer < 0:
                doubled = np.uint64(k) >> np.uint64(-layer - 1)
            else:
                doubled = np.uint64(k) << np.uint64(layer + 1) | u >> np.uint64(63 - layer)
            magnitude = np.int64((doubled + _U1) >> _U1)
            out[filled] = -magnitude if coin & _U1 else magnitude
            filled += 1
    return row, filled


@njit(cache=True, nogil=True)
def accept(scores: Ints, top: int, gamma: Words, words: Words) -> npt.NDArray[np.int8]:
    """For each candidate, (k,): 1 with probability e^(-γ (top - score)), else 0, and 2 where undecided."""
    verdict = np.empty(scores.size, dtype=np.int8)
    for r in range(scores.size):
        bound = weight(np.uint64(top) - np.uint64(scores[r]), gamma)
        level = words[r] >> _U1
        verdict[r] = 2 if _close(level, bound) else level < bound
    return verdict


@njit(cache=True, nogil=True)
def pick(scores: Ints, top: int, gamma: Words, word: np.uint64) -> tuple[int, np.bool_ | bool]:
    """The candidate r with S_r <= U S_k < S_{r+1}, S the sums of e^(-γ (top - score)), and whether it is sure.

    Sums are pairs of words on the scale 2^63. Each of the k terms is off by at most 2^8 and U by 2^-64 of a total
    of at most 2^63 k, so S_r and U S_k together are off by less than 2^10 k.
    """
    weights = np.empty(scores.size, dtype=np.uint64)
    high = low = _U0
    for r in range(scores.size):
        weights[r] = weight(np.uint64(top) - np.uint64(scores[r]), gamma)
        low += weights[r]
        high += np.uint64(low < weights[r])
    carry = _high(low, word)
    low = high * word + carry
    high = _high(high, word) + np.uint64(low < carry)
    margin = np.uint64(scores.size) << _U10
    for r in range(scores.size):
        # (high, low) is what the first r weights leave of U S_k.
        if high == _U0 and low < weights[r]:
            return r, (r == 0 or low > margin) and weights[r] - low > margin
        high -= np.uint64(low < weights[r])
        low -= weights[r]
    return 0, False
