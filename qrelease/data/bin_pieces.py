"""How records lie inside the bins of a column on a grid: runs of its points, each point of a run as likely as another.

Without a shape a bin is one run. A shape (`Attribute.shape`) has cuts of its own, which cut bins into several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from qrelease._util.typing import Floats, Ints

if TYPE_CHECKING:
    from qrelease.data.attribute import Attribute


@final
@dataclass(frozen=True)
class BinPieces:
    """Runs of points, ascending; each array (r,).

    cells    the bin that a run is in
    shares   the part of its bin's records that it has: those of a bin have 1 together
    starts   its first point
    lengths  how many points it has
    """

    cells: Ints
    shares: Floats
    starts: Ints
    lengths: Ints

    @classmethod
    def of(cls, attribute: Attribute) -> BinPieces:
        """Those of a column that has a grid and bins.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from qrelease.data.attribute import Attribute
        >>> grid = {"within": (Fraction(0), Fraction(99)), "step": Fraction(1)}
        >>> age = Attribute("age", "number", edges=(0, 20, 100), integer=True, shape=((0, 3), (60, 1)), **grid)
        >>> pieces = BinPieces.of(age)
        >>> pieces.cells.tolist(), pieces.starts.tolist(), pieces.shares.round(2).tolist()
        ([0, 1, 1], [0, 20, 60], [1.0, 0.67, 0.33])
        """
        cuts = np.array(attribute.cuts, np.int64)
        if not attribute.shape:
            return cls(np.arange(len(cuts) - 1), np.ones(len(cuts) - 1), cuts[:-1], np.diff(cuts))
        ends = np.array([*(point for point, _ in attribute.shape), cuts[-1]])
        heights = np.array([weight for _, weight in attribute.shape]) / np.diff(ends)
        starts = np.union1d(ends[:-1], cuts[:-1])
        lengths = np.diff(starts, append=cuts[-1])
        weights = heights[np.searchsorted(ends, starts, side="right") - 1] * lengths
        first = np.searchsorted(starts, cuts[:-1])
        cells = np.searchsorted(cuts, starts, side="right") - 1
        nobody = np.add.reduceat(weights, first) <= 0  # bins of which the shape knows nothing: they are even
        weights = np.where(nobody[cells], lengths, weights)
        return cls(cells, weights / np.add.reduceat(weights, first)[cells], starts, lengths)

    @property
    def first(self) -> Ints:
        """The first run of each bin, (m,)."""
        found: Ints = np.searchsorted(self.cells, np.arange(self.cells[-1] + 1))
        return found
