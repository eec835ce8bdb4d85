"""Digests of whole numbers as keys of persons: BLAKE2b (RFC 7693) of what they stand for, of many at once.

Of each the first 128 bits of `blake2b(repr(person_identity(str(number))), digest_size=16)`, which tests compare.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numba import njit

Words = npt.NDArray[np.uint64]

_jit: Any = njit(cache=True, nogil=True, error_model="numpy")
_jit_inlined: Any = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)

_TOGETHER: Final = 64  # messages that are hashed one beside another, by vector instructions
_MAX_LENGTH: Final = 40  # bytes of a message at most: five words, and those of the block after them are 0

_INITIAL: Final = (
    *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
    *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
)
_PARAMETERS: Final = 0x01010000 ^ 16  # no key, one leaf, 16 bytes of digest
_BEFORE: Final = np.frombuffer(b"('number', '", np.uint8)


NAMED: Final = 1 << 62
"""The words of persons from here on are numbers of digests; those below it are keys, which are whole numbers."""


def word_digests(words: npt.NDArray[np.int64], named: Words) -> Words:
    """The digests (n, 2) of persons by their words (n,); `named` has those of persons whose words are no keys."""
    other = words >= NAMED
    if not other.any():
        return whole_digests(words)
    found = np.empty((len(words), 2), np.uint64)
    found[other], found[~other] = named[words[other] - NAMED], whole_digests(words[~other])
    return found


def whole_digests(numbers: npt.NDArray[np.int64]) -> Words:
    """The digests (n, 2) of what whole numbers (n,) stand for, each less than 2^53 in size."""
    found = np.empty((2, len(numbers)), np.uint64)
    _digests(np.ascontiguousarray(numbers, np.int64), found)
    return np.ascontiguousarray(found.T)


@_jit_inlined
def _quarter(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:  # pragma: no cover
    """Four words mixed with two of a message: G of the RFC."""
    a = a + b + x
    d ^= a
    d = (d >> np.uint64(32)) | (d << np.uint64(32))
    c = c + d
    b ^= c
    b = (b >> np.uint64(24)) | (b << np.uint64(40))
    a = a + b + y
    d ^= a
    d = (d >> np.uint64(16)) | (d << np.uint64(48))
    c = c + d
    b ^= c
    b = (b >> np.uint64(63)) | (b << np.uint64(1))
    return a, b, c, d


@_jit_inlined
def _round(
    v: Any,
    s0: Any,
    s1: Any,
    s2: Any,
    s3: Any,
    s4: Any,
    s5: Any,
    s6: Any,
    s7: Any,
    s8: Any,
    s9: Any,
    s10: Any,
    s11: Any,
    s12: Any,
    s13: Any,
    s14: Any,
    s15: Any,
) -> Any:  # pragma: no cover
    """The state of 16 words after a round, by the message's words in the round's order."""
    a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 = v
    a0, b0, c0, d0 = _quarter(a0, b0, c0, d0, s0, s1)
    a1, b1, c1, d1 = _quarter(a1, b1, c1, d1, s2, s3)
    a2, b2, c2, d2 = _quarter(a2, b2, c2, d2, s4, s5)
    a3, b3, c3, d3 = _quarter(a3, b3, c3, d3, s6, s7)
    a0, b1, c2, d3 = _quarter(a0, b1, c2, d3, s8, s9)
    a1, b2, c3, d0 = _quarter(a1, b2, c3, d0, s10, s11)
    a2, b3, c0, d1 = _quarter(a2, b3, c0, d1, s12, s13)
    a3, b0, c1, d2 = _quarter(a3, b0, c1, d2, s14, s15)
    return a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3


@_jit
def _digests(numbers: npt.NDArray[np.int64], found: Words) -> None:  # pragma: no cover
    """See `whole_digests`; `found` is (2, n)."""
    words, lengths = np.empty((5, _TOGETHER), np.uint64), np.empty(_TOGETHER, np.uint64)
    text = np.empty(_MAX_LENGTH, np.uint8)
    for first in range(0, len(numbers), _TOGETHER):
        count = min(_TOGETHER, len(numbers) - first)
        words[:] = 0
        for lane in range(count):
            length = _spelled(numbers[first + lane], text)
            lengths[lane] = length
            for i in range(length):
                words[i >> 3, lane] |= np.uint64(text[i]) << np.uint64(8 * (i & 7))
        _compress(words, lengths, found[0, first : first + count], found[1, first : first + count])


@_jit
def _compress(words: Words, lengths: Words, one: Words, two: Words) -> None:  # pragma: no cover
    """The first two words of the digests (n,) of messages, by their words (5, n or more) and their lengths in bytes."""
    h0, h1, h2, h3 = np.uint64(_INITIAL[0]), np.uint64(_INITIAL[1]), np.uint64(_INITIAL[2]), np.uint64(_INITIAL[3])
    h4, h5, h6, h7 = np.uint64(_INITIAL[4]), np.uint64(_INITIAL[5]), np.uint64(_INITIAL[6]), np.uint64(_INITIAL[7])
    begin, o = h0 ^ np.uint64(_PARAMETERS), np.uint64(0)
    w0, w1, w2, w3, w4 = words[0], words[1], words[2], words[3], words[4]
    for k in range(len(one)):
        m0, m1, m2, m3, m4 = w0[k], w1[k], w2[k], w3[k], w4[k]
        v = (begin, h1, h2, h3, h4, h5, h6, h7, h0, h1, h2, h3, h4 ^ lengths[k], h5, ~h6, h7)
        v = _round(v, m0, m1, m2, m3, m4, o, o, o, o, o, o, o, o, o, o, o)
        v = _round(v, o, o, m4, o, o, o, o, o, m1, o, m0, m2, o, o, o, m3)
        v = _round(v, o, o, o, m0, o, m2, o, o, o, o, m3, o, o, m1, o, m4)
        v = _round(v, o, o, m3, m1, o, o, o, o, m2, o, o, o, m4, m0, o, o)
        v = _round(v, o, m0, o, o, m2, m4, o, o, o, m1, o, o, o, o, m3, o)
        v = _round(v, m2, o, o, o, m0, o, o, m3, m4, o, o, o, o, o, m1, o)
        v = _round(v, o, o, m1, o, o, o, m4, o, m0, o, o, m3, o, m2, o, o)
        v = _round(v, o, o, o, o, o, m1, m3, o, o, m0, o, m4, o, o, m2, o)
        v = _round(v, o, o, o, o, o, m3, m0, o, o, m2, o, o, m1, m4, o, o)
        v = _round(v, o, m2, o, m4, o, o, m1, o, o, o, o, o, m3, o, o, m0)
        v = _round(v, m0, m1, m2, m3, m4, o, o, o, o, o, o, o, o, o, o, o)
        v = _round(v, o, o, m4, o, o, o, o, o, m1, o, m0, m2, o, o, o, m3)
        one[k], two[k] = begin ^ v[0] ^ v[8], h1 ^ v[1] ^ v[9]


@_jit
def _spelled(number: int, text: npt.NDArray[np.uint8]) -> int:  # pragma: no cover
    """Write how a number's identity is spelled, as `('number', '12e1')` of 120; its length."""
    length = len(_BEFORE)
    for i in range(length):
        text[i] = _BEFORE[i]
    if number < 0:
        text[length] = ord("-")
        length += 1
        number = -number
    zeros = 0
    while number and number % 10 == 0:
        number //= 10
        zeros += 1
    begin = length
    while number or length == begin:
        text[length] = ord("0") + number % 10
        number //= 10
        length += 1
    left, right = begin, length - 1
    while left < right:
        text[left], text[right] = text[right], text[left]
        left, right = left + 1, right - 1
    if text[begin] != ord("0"):  # which is spelled without an exponent
        text[length] = ord("e")
        length += 1
        if zeros >= 10:
            text[length] = ord("1")
            length += 1
        text[length] = ord("0") + zeros % 10
        length += 1
    text[length], text[length + 1] = ord("'"), ord(")")
    return length + 2
