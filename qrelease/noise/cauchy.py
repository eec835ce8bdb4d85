"""Exact Cauchy noise on the integers: P(z) ∝ 1/(b² + z²). For smooth sensitivity under pure ε.

**Sampling** for b >= 1, by rejection from |z| in blocks, h = ⌊b⌋: with probability 1/2 the block 0..h-1, with 1/4,
1/8, … the blocks h2^j..h2^(j+1)-1, j = 0, 1, …, in each uniformly; then a fair sign, of which -0 is rejected. In the
first block z is accepted with probability h²/(2(b² + z²)) <= 1/2, in the others with h² 4^j/(b² + z²) <= 1. A try ends
in z ≠ 0 with probability (1/2)(1/h)(1/2)h²/(2(b² + z²)) = h/(8(b² + z²)), or (2^-(j+2)/(h2^j))(1/2)h² 4^j/(b² + z²),
which is the same. All of these are coins and uniform integers, drawn exactly.

**The law.** By Poisson summation Σ 1/(b² + z²) = (π/b) coth(πb), so P(z) = (b/π) tanh(πb)/(b² + z²). Hence

    |∂ ln P/∂z| = |2z/(b² + z²)| <= 1/b,
    ∂ ln P/∂ ln b = 1 + 2πb/sinh(2πb) - 2b²/(b² + z²), between -1 and 1 + 2πb/sinh(2πb), below 1.03 from b = 1 on.

The number of tries is independent of what comes out, as in any rejection sampling; the time of the last one grows with
the logarithm of |z|.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import rational, whole
from qrelease.errors import InvalidInput
from qrelease.noise.distributions import MAX_SCALE
from qrelease.noise.entropy import WordSource
from qrelease.noise.exact_reals import uniform_below

DILATION: Final = 1.03
"""∂ ln P/∂ ln b is at most this from b = 1 on."""


def discrete_cauchy(scale: float | Fraction, size: int, entropy: WordSource) -> Ints:
    """Independent draws of P(z) ∝ 1/(scale² + z²) on the integers, exactly.

    Parameters
    ----------
    scale
        b, a number from 1 to 2^50, taken at face value.
    size
        How many draws, at least 0.
    entropy
        The source of random words.

    Returns
    -------
    ndarray
        int64, (size,); a draw outside int64, of probability below b/2^62, is the nearest number of int64.

    Raises
    ------
    InvalidInput
        Before anything is drawn, for numbers out of range.

    References
    ----------
    Nissim, Raskhodnikova & Smith 2007 for such noise; the sampler and its bounds are the module's.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> discrete_cauchy(3, 5, Entropy.insecure(0)).shape
    (5,)
    """
    b = rational("scale", scale)
    if not 1 <= b <= MAX_SCALE:
        raise InvalidInput(f"scale must be from 1 to 2^50, got {scale}")
    limit = (1 << 63) - 1
    drawn = (_draw(b, entropy) for _ in range(whole("size", size, least=0)))
    return np.array([min(max(z, -limit), limit) for z in drawn], np.int64)


def _draw(b: Fraction, entropy: WordSource) -> int:
    square, h = b * b, math.floor(b)
    while True:
        block = _coins(entropy)
        width = h << max(block - 1, 0)
        z = uniform_below(width, int(entropy.words(1)[0]), entropy) + (width if block else 0)
        negative = int(entropy.words(1)[0]) & 1
        accepted = Fraction(width * width, 1 if block else 2) / (square + z * z)
        coin = uniform_below(accepted.denominator, int(entropy.words(1)[0]), entropy)
        if coin < accepted.numerator and not (negative and z == 0):
            return -z if negative else z


def _coins(entropy: WordSource) -> int:
    """How many heads come before the first tail."""
    heads = 0
    while True:
        word = int(entropy.words(1)[0])
        ones = ((word + 1) & -(word + 1)).bit_length() - 1
        heads += min(ones, 64)
        if ones < 64:
            return heads
