"""Digests of persons: 128 bits that depend on what a key stands for alone, by which persons are known in all files.

A whole number below 2^53 in size is mixed to two words of 64 bits, each of which tells it from all others. Of every
other key it is BLAKE2b (RFC 7693): nobody finds two that have the same digest, nor one that has a whole number's.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from qrelease.data.mixing import mixed

Digests = npt.NDArray[np.uint64]

Identity = tuple[str, str]
"""The kind of a key, and what it stands for."""

MAX_EXACT: Final = 2.0**53
"""Whole numbers of a data frame are exact as floats below it."""

NAMED: Final = 1 << 62
"""The words of persons from here on are numbers of digests; those below it are keys, which are whole numbers."""

_BEGIN: Final = (0x9E3779B97F4A7C15, 0x6A09E667F3BCC908)
"""Of each half, bits of the golden ratio and of the root of two."""

_LONGEST: Final = 20  # characters of a whole number that is below 2^53, or more


def word_digests(words: npt.NDArray[np.int64], named: Digests) -> Digests:
    """The digests (n, 2) of persons by their words (n,); `named` has those of persons whose words are no keys."""
    found = whole_digests(words)
    other = words >= NAMED
    if other.any():
        found[other] = named[words[other] - NAMED]
    return found


def whole_digests(numbers: npt.NDArray[np.int64]) -> Digests:
    """The digests (n, 2) of whole numbers (n,)."""
    return np.stack([mixed(numbers.view(np.uint64) ^ np.uint64(begin)) for begin in _BEGIN], axis=1)


def digests_of(identities: Iterable[Identity]) -> Digests:
    """The digests (n, 2) of what keys stand for."""
    given = list(identities)
    numbers = list(map(whole_number, given))
    whole = np.array([number is not None for number in numbers], np.bool_)
    others = [repr(identity).encode() for identity, number in zip(given, numbers, strict=True) if number is None]
    found = np.empty((len(given), 2), np.uint64)
    found[whole] = whole_digests(np.array([number for number in numbers if number is not None], np.int64))
    hashed = b"".join(blake2b(text, digest_size=16).digest() for text in others)
    found[~whole] = np.frombuffer(hashed, "<u8").reshape(-1, 2)
    return found


def whole_number(identity: Identity) -> int | None:
    """The whole number that a key stands for, if it is one and below 2^53 in size."""
    kind, spelled = identity
    digits, exponent, zeros = spelled.partition("e")
    if kind != "number" or not digits.lstrip("-").isdigit() or (exponent and not (zeros.isdigit() and len(zeros) < 3)):
        return None
    if len(digits) + int(zeros or 0) > _LONGEST:
        return None
    number = int(digits) * 10 ** int(zeros or 0)
    return number if abs(number) < MAX_EXACT else None
