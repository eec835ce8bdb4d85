"""Corrects a model's answers towards its own measurements, by shrinking the residuals between them.

Let y be the measured residual of a set S of columns, of variance s in each of its D coordinates, and m what the model
says of it. If the model were right up to the noise, ‖y - m‖² / sD would be about 1, or less where it was fitted to y. A
model that is off by more than noise explains has a larger one, x, and then

    m + (1 - 1/x) (y - m)

has the least expected squared error of what lies between the two: the positive-part rule of James & Stein (1961), which
is never worse than y by itself where D > 2. Up to x = 2 the model is as near to the truth as y is, without its noise in
every cell, and stays as it is. Each residual is corrected once and marginals are sums of residuals, so
that corrected answers are consistent with each other: a sum over a column of one marginal is the other marginal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Final, final

from qrelease._util.typing import Axes, Floats
from qrelease.inference.residuals import Estimates, centred

SIGNIFICANT: Final = 6.0
"""Standard deviations of ‖y - m‖² / sD by which it must be above 1 before anything is corrected."""

WORSE: Final = 2.0
"""‖y - m‖² / sD from which the model is farther from the truth than y is: where it is so without chance."""


@final
@dataclass(frozen=True, eq=False)
class Corrections:
    """What is added to a model's residuals, and how far the model is from what was measured.

    tables  (n_i for i in axes) counts, whose sums along each axis are zero, of the sets that are corrected
    misfit  root mean squared distance of all measured coordinates from the model, in units of their noise
    """

    shape: tuple[int, ...]
    tables: dict[Axes, Floats]
    misfit: float

    @classmethod
    def of(cls, estimates: Estimates, said: Callable[[Sequence[Axes]], Sequence[Floats]]) -> Corrections:
        """The corrections that follow from measured residuals and a model's marginals, counts, for sets of columns."""
        shape, found = estimates.domain.shape, {}
        measured = [r for s, r in estimates.residuals.items() if s and r.variance > 0]
        squares, coordinates = 0.0, 0
        for residual, table in zip(measured, said([r.axes for r in measured]), strict=True):
            off = residual.values - centred(table.reshape([shape[a] for a in residual.axes]), len(residual.axes))
            dimensions = prod(shape[a] - 1 for a in residual.axes)
            distance = float((off**2).sum()) / residual.variance
            if distance / dimensions > max(1 + SIGNIFICANT * sqrt(2 / dimensions), WORSE):
                found[residual.axes] = (1 - dimensions / distance) * off
            squares, coordinates = squares + distance, coordinates + dimensions
        return cls(shape, found, sqrt(squares / max(coordinates, 1)))

    def apply(self, axes: Axes, marginal: Floats) -> Floats:
        """A model's marginal (cells,) on some columns, corrected."""
        inside = {s: table for s, table in self.tables.items() if set(s) <= set(axes)}
        if not inside:
            return marginal
        found = marginal.reshape([self.shape[a] for a in axes]).copy()
        for s, table in inside.items():
            others = prod(self.shape[a] for a in axes if a not in s)
            found += table.reshape([self.shape[a] if a in s else 1 for a in axes]) / others
        return found.reshape(-1)
