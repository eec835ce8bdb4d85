"""XᵀX of rows of indicators and numbers: the entries that have to be measured, and what the noise leaves of them.

Of each column with indicators one is 1 in every row. So the products of two of them are 0, their squares are
themselves, and their sum is the constant: within the block of such a column only the diagonal is measured, and the
products with the constant are that diagonal. What is left moves by 1 for the constant, 1 for each column of indicators,
2 for each number (its sum and its square), and 1 for each pair of columns. Neither the entries that are known nor the
directions in which all rows are 0 (the constant less the sum of a block) carry noise into the solution.

The block of two columns of indicators is their contingency table: what it is where they are independent, plus an
interaction, whose rows and columns sum to 0. Its noise is a random matrix of known deviation s, of which no singular
value is much above s(√k + √l). So each singular value is shrunk as Gavish & Donoho (2017, *Optimal shrinkage of
singular values*) prove best in squared error: those that noise explains go to 0. All of it is post-processing of noisy
numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.statistics.design import UNIT, Design


@final
@dataclass(frozen=True)
class SecondMoments:
    """Which entries of XᵀX are measured for a design; public."""

    design: Design

    @property
    def square(self) -> int:
        """The largest squared length of what one row adds to the measured entries."""
        columns = len(self.design.features)
        numbers = columns - sum(self.design.indicators)
        return (1 + columns + numbers + columns * (columns - 1) // 2) * UNIT**4

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """Rows and columns of the measured entries, in the upper triangle."""
        measured = np.triu(np.ones((self.design.width, self.design.width), np.bool_))
        for place, indicators in zip(self.design.places, self.design.indicators, strict=True):
            if indicators:
                measured[0, place] = False
                measured[place, place] = np.eye(place.stop - place.start, dtype=np.bool_)
        rows, columns = np.nonzero(measured)
        return rows.astype(np.int64), columns.astype(np.int64)

    @cached_property
    def directions(self) -> Floats:
        """An orthonormal basis of the directions in which rows can lie, (p, r)."""
        null = np.zeros((self.design.width, sum(self.design.indicators)))
        blocks = [p for p, i in zip(self.design.places, self.design.indicators, strict=True) if i]
        for column, place in enumerate(blocks):
            null[0, column], null[place, column] = 1.0, -1.0
        basis, _ = np.linalg.qr(null, mode="complete")
        return np.asarray(basis[:, len(blocks) :], np.float64)

    def completed(self, measured: Ints, deviation: float) -> Floats:
        """XᵀX from its noisy entries, (p, p): symmetric, with what is known in its place and less noise in pairs."""
        found = np.zeros((self.design.width, self.design.width))
        found[self.places] = measured
        found = np.triu(found) + np.triu(found, 1).T
        for place, indicators in zip(self.design.places, self.design.indicators, strict=True):
            if indicators:
                found[0, place] = found[place, 0] = np.diag(found)[place]
        total = max(float(found[0, 0]), float(UNIT**2))
        blocks = [p for p, i in zip(self.design.places, self.design.indicators, strict=True) if i]
        for at, place in enumerate(blocks):
            for other in blocks[:at]:
                independent = np.outer(found[0, place], found[0, other]) / total
                found[place, other] = independent + shrunk_interaction(found[place, other] - independent, deviation)
                found[other, place] = found[place, other].T
        return found


def shrunk_interaction(noisy: Floats, deviation: float) -> Floats:
    """The part of an interaction that its noise does not explain: rows and columns sum to 0, singular values shrunk."""
    centred = noisy - noisy.mean(axis=0, keepdims=True)
    centred = np.asarray(centred - centred.mean(axis=1, keepdims=True), np.float64)
    low, high = min(noisy.shape) - 1, max(noisy.shape) - 1
    if low == 0 or deviation == 0:
        return centred
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    ratio, unit = low / high, deviation * math.sqrt(high)
    scaled = np.maximum(values / unit, 1.0 + math.sqrt(ratio))
    kept = np.sqrt(np.maximum((scaled**2 - ratio - 1) ** 2 - 4 * ratio, 0.0)) / scaled * unit
    found: Floats = (left * kept) @ right
    return found
