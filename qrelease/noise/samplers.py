"""Exact noise on the integers: discrete Laplace, discrete and rounded Gaussian, geometric, Bernoulli(e^-γ).

Given independent uniform words, every sampler here has exactly the law it states; nothing is rounded, truncated or
approximated. The laws are P(y) ∝ w(|y|) with w(y) = e^(-γy) or e^(-γy²), γ > 0 rational. Let h = 2^layer.

**Narrow laws** (layer 0): |y| by inversion of its distribution at a uniform U, then a fair sign.

**Wide laws** (layer > 0), by rejection. A try draws K with P(K = k) ∝ w(hk), k >= 0; L uniform on 0..h-1; a fair
sign. It is accepted with probability w(hK + L) / w(hK), which is e^(-γL) or e^(-γL(2hK + L)), and yields ±(hK + L);
-0 is rejected. The chance of a try to end in the integer y ≠ 0, which stems from one (K, L, sign) only, is
w(hK) · 1/h · w(|y|)/w(hK) · 1/2 up to one constant, hence ∝ w(|y|), and the same for 0 since one of its two ways is
rejected. h is chosen so that tables have at most 1 024 entries and at least 95 % of the tries are accepted.

**The rounded Gaussian** is the nearest integer to a real normal X, by the same rejection: |X| = h(K + u), where
K is as above, h = 2^layer may be a fraction, and u is a real uniform on [0, 1), accepted with probability
e^(-γh² u(2K + u)). The leading bits of u give the nearest integer to h(K + u), the later ones are drawn as needed.

**Why it is exact.** All kinds compare uniform reals with real numbers: a key with the thresholds of K, a coin with
the acceptance probability. A kernel (`kernels`) does so on the first 64 bits, with every real enclosed to within
2^24 units of 2^-64; a comparison that the enclosure leaves open, an event of probability below 2^-29 a draw and the
only one that involves the infinite tail of K, is resolved from the same words in exact arithmetic with as many
further bits as it takes (`exact_reals`). What comes out is the same function of infinite bit strings either way.

**What time and consumption tell.** A try takes a fixed number of words and steps, and the number of tries is
independent of the value that comes out, as in any rejection sampling. So neither tells the noise, but for the rare
row that is left open: its longer time tells that it was one of them.

**Range.** Scales up to 2^50 and variances up to 2^80 (σ up to 2^40); any positive rational below. A draw outside
int64, of probability below e^-8000, is reduced modulo 2^64. Added to an int64 count with numpy's wrapping sum this is
the exact noisy count modulo 2^64: post-processing, so even then no privacy is lost.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Ints, Words
from qrelease._util.validate import rational, whole
from qrelease.errors import InvalidInput
from qrelease.noise import exact_cdfs
from qrelease.noise.distributions import MAX_SCALE, MAX_VARIANCE, NoiseLaw
from qrelease.noise.entropy import WordSource
from qrelease.noise.exact_reals import ExactCDF, exp_negative, invert, log2e
from qrelease.noise.kernels import (
    MAX_TABLE,
    cumulative,
    narrow_rows,
    rate,
    rounded_rows,
    thresholds,
    wide_rows,
)

Integers = npt.NDArray[Any]
"""An array of int64, or of Python integers where one of them does not fit."""


_MAX_TABLE_SCALE: Final = 31
_MAX_TABLE_SIGMA: Final = 127
"""Largest scale, and largest σ, that one table covers: 32 scales, or 8 σ, leave less than 2^-42 outside."""

_BLOCK_ROWS: Final = 1 << 12
"""Rows drawn at once: their words stay in the cache."""


def discrete_laplace(scale: float | Fraction, size: int, entropy: WordSource) -> Ints:
    """Independent draws of the discrete Laplace distribution P(y) ∝ e^(-|y|/scale), exactly.

    Added to an integer query of L1 sensitivity Δ, at scale Δ/ε, it is ε-DP.

    Parameters
    ----------
    scale
        b, a positive number up to 2^50, taken at face value.
    size
        How many draws, at least 0.
    entropy
        The source of random words.

    Returns
    -------
    ndarray
        int64, (size,). A draw outside int64, of probability below e^-8000, is reduced modulo 2^64.

    Raises
    ------
    InvalidInput
        Before anything is drawn, for numbers out of range.

    References
    ----------
    Ghosh, Roughgarden & Sundararajan 2009; Canonne, Kamath & Steinke 2020.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> discrete_laplace(2.0, 5, Entropy.insecure(0))
    array([ 5,  3, -8, -4,  1])
    """
    return _int64(unreduced("discrete Laplace", scale, size, entropy))


def geometric(scale: float | Fraction, size: int, entropy: WordSource) -> Ints:
    """Independent draws of the geometric distribution P(y) ∝ e^(-y/scale) on y = 0, 1, 2, …, exactly.

    Parameters, result and errors are those of `discrete_laplace`.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> geometric(2.0, 5, Entropy.insecure(0))
    array([4, 3, 8, 3, 1])
    """
    sampler = laplace_sampler(_checked("scale", scale, MAX_SCALE), signed=False)
    return _int64(draw(sampler, size, entropy))


def discrete_gaussian(variance: float | Fraction, size: int, entropy: WordSource) -> Ints:
    """Independent draws of the discrete Gaussian distribution P(y) ∝ e^(-y²/(2 variance)), exactly.

    Added, independently in every coordinate, to integer queries of L2 sensitivity Δ it is Δ²/(2 variance)-zCDP
    (Canonne, Kamath & Steinke 2020). The variance of what is drawn is at most `variance`, and close to it from 1 on.

    Parameters
    ----------
    variance
        σ², a positive number up to 2^80, taken at face value; the other parameters, the result and the errors are those
        of `discrete_laplace`.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> discrete_gaussian(4.0, 5, Entropy.insecure(0))
    array([ 3,  3, -5, -3,  1])
    """
    return _int64(unreduced("discrete Gaussian", variance, size, entropy))


def rounded_gaussian(variance: float | Fraction, size: int, entropy: WordSource) -> Ints:
    """Independent draws of a real normal of mean 0, rounded to the nearest integer, exactly.

    P(y) = Φ((y + ½)/σ) - Φ((y - ½)/σ), where σ² = `variance`. Added to integer queries it is the *continuous* Gaussian
    mechanism, post-processed: x + round(X) = round(x + X). So every guarantee proved for the continuous Gaussian holds
    as it stands, for vectors and under composition too: the analytic Gaussian of Balle & Wang 2018, Gaussian
    differential privacy with its exact composition, Δ²/(2σ²)-zCDP.

    Parameters
    ----------
    variance
        σ², a number from 2^-80 to 2^80, taken at face value; the rest is as in `discrete_gaussian`.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> rounded_gaussian(4.0, 5, Entropy.insecure(0))
    array([-3, -1,  3, -1,  1])
    """
    return _int64(unreduced("rounded Gaussian", variance, size, entropy))


def unreduced(law: NoiseLaw, parameter: float | Fraction, size: int, entropy: WordSource) -> Integers:
    """The draws of `SAMPLERS`, exact however large: for sums that do not wrap around.

    Parameters
    ----------
    law
        The name of the distribution.
    parameter
        The scale b of a Laplace distribution, or the variance σ² of a Gaussian, in the range of its own sampler.
    size, entropy
        As those of `discrete_laplace`.

    Returns
    -------
    ndarray
        (size,), int64, or Python's integers where a draw is outside int64.

    Raises
    ------
    InvalidInput
        Before anything is drawn, for numbers out of range.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> unreduced("discrete Laplace", 2.0, 5, Entropy.insecure(0)).tolist()
    [5, 3, -8, -4, 1]
    """
    if law == "discrete Laplace":
        return draw(laplace_sampler(_checked("scale", parameter, MAX_SCALE), signed=True), size, entropy)
    variance = _checked("variance", parameter, MAX_VARIANCE)
    if law == "discrete Gaussian":
        return draw(gaussian_sampler(variance), size, entropy)
    if variance * MAX_VARIANCE < 1:
        raise InvalidInput(f"variance must be at least 2^-80 for rounded noise, got {parameter}")
    return draw(rounded_sampler(variance), size, entropy)


@dataclass(frozen=True, eq=False)
class Sampler:
    """A law made ready for drawing; the module's docstring has the names and the algorithm.

    `law` and `table` give K, exactly and to 64 bits; `multiplier` is for the kernel's acceptance test.
    """

    gamma: Fraction
    squared: bool
    signed: bool
    layer: int
    law: ExactCDF
    table: Words
    multiplier: np.uint64

    @property
    def width(self) -> int:
        """Words a row: key and sign, or key, L, and coin with sign."""
        return 3 if self.layer else 2

    def rows(self, words: Words, row: int, out: Ints, filled: int) -> tuple[int, int]:
        """Draw from `words[row:]` into `out[filled:]` up to an undecided row; returns the (row, filled) reached."""
        reached: tuple[int, int]
        if self.layer:
            layer = np.uint64(self.layer)
            reached = wide_rows(words, row, out, filled, self.table, self.signed, self.squared, layer, self.multiplier)
        else:
            reached = narrow_rows(words, row, out, filled, self.table, self.signed)
        return reached

    def resolve(self, words: list[int], source: WordSource) -> int | None:
        """What one row of words yields, exactly: an integer of any size, or None for a rejected try."""
        high = invert(self.law, words[0], 64, source) << self.layer
        if not self.layer:
            return -high if self.signed and words[1] & 1 else high
        low = words[1] >> (64 - self.layer)
        gamma = self.gamma * low * (2 * high + low if self.squared else 1)
        rejected = invert(partial(exact_cdfs.coin, gamma), words[2] >> 1, 63, source)
        negative = self.signed and words[2] & 1
        if rejected or (negative and not high + low):
            return None
        return -(high + low) if negative else high + low


@dataclass(frozen=True, eq=False)
class RoundedSampler:
    """The rounded Gaussian made ready for drawing; `gamma` is γh², `law` and `table` give K."""

    gamma: Fraction
    layer: int
    law: ExactCDF
    table: Words
    multiplier: np.uint64
    width: int = 3

    def rows(self, words: Words, row: int, out: Ints, filled: int) -> tuple[int, int]:
        """Draw rows; see `Sampler.rows`."""
        reached: tuple[int, int] = rounded_rows(words, row, out, filled, self.table, self.layer, self.multiplier)
        return reached

    def resolve(self, words: list[int], source: WordSource) -> int | None:
        """Decide what the kernels left open; see `Sampler.resolve`."""
        k = invert(self.law, words[0], 64, source)
        if not self._accepted(k, words[1], words[2] >> 1, source):
            return None
        doubled = (k << 64 | words[1]) >> (63 - self.layer)
        return -((doubled + 1) >> 1) if words[2] & 1 else (doubled + 1) >> 1

    def _accepted(self, k: int, u: int, coin: int, source: WordSource) -> bool:
        """Whether a uniform beginning with the 63 bits of `coin` is below e^(-γh² u(2K + u)), u of 64 bits so far."""
        bits = 64
        while True:
            least, most = (self.gamma * v * ((k << (bits + 1)) + v) / (1 << 2 * bits) for v in (u, u + 1))
            if coin + 1 <= exp_negative(most, bits - 1)[0]:
                return True
            if coin >= exp_negative(least, bits - 1)[1]:
                return False
            more = source.words(2).tolist()
            u, coin, bits = u << 64 | more[0], coin << 64 | more[1], bits + 64


@lru_cache(maxsize=1024)
def laplace_sampler(scale: Fraction, *, signed: bool) -> Sampler:
    """The discrete Laplace law of a checked scale, or, not `signed`, its half on 0, 1, 2, …: the geometric law."""
    layer = 0
    while scale > _MAX_TABLE_SCALE << layer:
        layer += 1
    return _sampler(1 / scale, False, signed, layer, math.ceil(32 * scale / 2**layer) + 2)


@lru_cache(maxsize=1024)
def gaussian_sampler(variance: Fraction) -> Sampler:
    """The discrete Gaussian law of a checked variance."""
    layer = 0
    while variance > _MAX_TABLE_SIGMA**2 << 2 * layer:
        layer += 1
    size = math.isqrt(math.ceil(64 * variance / 4**layer)) + 3
    return _sampler(1 / (2 * variance), True, True, layer, size)


@lru_cache(maxsize=1024)
def rounded_sampler(variance: Fraction) -> RoundedSampler:
    """The rounded Gaussian of a checked variance: σ/h above 63.5 and at most 127."""
    layer = -50
    while variance > _MAX_TABLE_SIGMA**2 * Fraction(4) ** layer:
        layer += 1
    wide = _sampler(Fraction(4) ** layer / (2 * variance), True, False, 0, MAX_TABLE)
    return RoundedSampler(wide.gamma, layer, wide.law, wide.table, _multiplier(wide.gamma, 68))


def _sampler(gamma: Fraction, squared: bool, signed: bool, layer: int, size: int) -> Sampler:
    coarse = gamma * (4 if squared else 2) ** layer
    folded = signed and not layer
    table = thresholds(cumulative(rate(coarse), squared, folded, 1 << (size - 1).bit_length()))
    law = partial(exact_cdfs.gaussian if squared else exact_cdfs.laplace, coarse, folded)
    multiplier = _multiplier(coarse, 68 if squared else 57) if layer else np.uint64(0)
    return Sampler(gamma, squared, signed, layer, law, table, multiplier)


def _multiplier(gamma: Fraction, bits: int) -> np.uint64:
    """γ / ln 2 on the scale 2^bits."""
    return np.uint64((gamma.numerator * log2e(256) << bits) // (gamma.denominator << 256))


def draw(sampler: Sampler | RoundedSampler, size: int, source: WordSource) -> Integers:
    """`size` draws, (size,)."""
    out = np.empty(whole("size", size, least=0), dtype=np.int64)
    large: dict[int, int] = {}
    filled = 0
    while filled < out.size:
        rows = min(out.size - filled, _BLOCK_ROWS)
        words = source.words(rows * sampler.width).reshape(rows, sampler.width)
        row, filled = sampler.rows(words, 0, out, filled)
        while row < rows:
            value = sampler.resolve(words[row].tolist(), source)
            if value is not None:
                fits = -(1 << 63) <= value < 1 << 63
                out[filled] = value if fits else 0
                large |= {} if fits else {filled: value}
                filled += 1
            row, filled = sampler.rows(words, row + 1, out, filled)
    return _with(large, out) if large else out


def _with(large: dict[int, int], out: Ints) -> Integers:
    wide = out.astype(object)
    for i, value in large.items():
        wide[i] = value
    return wide


def _int64(draws: Integers) -> Ints:
    if draws.dtype == np.int64:
        return draws.astype(np.int64, copy=False)
    return np.array([y % (1 << 64) for y in draws.tolist()], dtype=np.uint64).view(np.int64)


def _checked(name: str, value: float | Fraction, largest: int) -> Fraction:
    exact = rational(name, value)
    if exact > largest:
        raise InvalidInput(f"{name} must be at most 2^{largest.bit_length() - 1}, got {value}")
    return exact


SAMPLERS: Final[dict[NoiseLaw, Callable[[Fraction, int, WordSource], Ints]]] = {
    "discrete Laplace": discrete_laplace,
    "discrete Gaussian": discrete_gaussian,
    "rounded Gaussian": rounded_gaussian,
}
"""For each law of noise its draws: exact parameter (b, or σ²), how many, and the random words."""
