"""Numba loops over reports: arrays in, arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

_jit: Any = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def count_left(
    codes: npt.NDArray[np.uint64],
    g: np.uint64,
    lowest: np.uint64,
    powers: npt.NDArray[np.uint64],
    tables: npt.NDArray[np.uint16],
    total: npt.NDArray[np.int64],
) -> None:  # pragma: no cover
    """Count what is left of reports of a linear hash, once what each of some categories adds to it is taken off.

    codes    (n,), seed · g + hash value; the lowest digits of the seed are its remainder modulo `lowest`
    powers   (pieces,), by which the other digits are cut into pieces
    tables   (pieces, rows, categories), what a piece takes off, from 0 to g - 1
    total    (lowest, categories, g), counts that are added to
    """
    pieces, categories = len(powers), tables.shape[2]
    modulo = np.empty((pieces + 1) * (g - 1) + 1, np.int64)
    for i in range(len(modulo)):
        modulo[i] = i % g
    value = np.empty(categories, np.uint16)
    for code in codes:
        own = code // g
        value[:] = code - own * g
        rest = own // lowest
        low = own - rest * lowest
        for i in range(pieces):
            further = rest // powers[i]
            row = tables[i, rest - further * powers[i]]
            for j in range(categories):
                value[j] += row[j]
            rest = further
        counts = total[low]
        for j in range(categories):
            counts[j, modulo[value[j]]] += 1


@_jit
def support_parts(
    left: npt.NDArray[np.int64], g: int, digits: int, parts: int
) -> npt.NDArray[np.int64]:  # pragma: no cover
    """How many reports of a linear hash support each category below `parts`, (parts,), digit by digit.

    Once a category's highest digit is chosen, what it adds is taken off: what is left is a table for fewer digits.

    left   (g^digits, g), how often each seed and hash value were reported
    """
    table = left.copy().reshape(1, len(left), g)
    for i in range(digits - 1, -1, -1):
        size = g**i
        found = np.zeros((-(-parts // size), size, g), np.int64)
        for value in range(len(found)):
            for b in range(g):
                added = b * (value % g) % g
                for low in range(size):
                    into, out_of = found[value, low], table[value // g, b * size + low]
                    for z in range(g - added):
                        into[z] += out_of[z + added]
                    for z in range(g - added, g):
                        into[z] += out_of[z + added - g]
        table = found
    return table[:, 0, 0].copy()
