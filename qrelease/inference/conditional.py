"""The records of a synopsis that meet a condition, drawn from its conditional distribution, without rejection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.typing import Floats, Ints, Mask
from qrelease.data.predicates import Predicate
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.inference.hypotheses import Dual
from qrelease.inference.synopsis import Scaled, Synopsis, Tabulated, Weighted

_CELL_BYTES = 24  # of a cell of a box: its weight, the running sum, and the mask


@final
@dataclass(frozen=True, eq=False)
class Conditional:
    """The distribution of a synopsis's records, given a condition.

    codes    (n,) each: a column of the records that there may be, or, of a box, its own codes
    weights  (n,), counts; of a box in C order of its codes
    box      whether the records are all combinations of the codes, one array a column
    """

    codes: Sequence[npt.NDArray[np.integer[Any]]]
    weights: Floats
    box: bool

    @property
    def total(self) -> float:
        """How many records of the synopsis meet the condition."""
        return float(self.weights.sum())

    def sample(self, rows: int, rng: np.random.Generator) -> list[Ints]:
        """Codes of independent records, one (rows,) array a column: one uniform number each, looked up."""
        running = np.cumsum(self.weights)
        which = np.searchsorted(running, rng.random(rows) * running[-1], side="right")
        which = np.minimum(which, np.flatnonzero(self.weights)[-1])
        if not self.box:
            return [np.asarray(column)[which].astype(np.int64) for column in self.codes]
        inside = np.unravel_index(which, [len(column) for column in self.codes])
        return [column[place].astype(np.int64) for column, place in zip(self.codes, inside, strict=True)]


def conditional(synopsis: Synopsis, predicate: Predicate) -> Conditional:
    """The records of a synopsis that meet a condition.

    A histogram is cut to the smallest box of codes that has all of them, so what a rare cell takes depends on the cell
    and not on the universe; of weighted records those are kept that meet it.

    Raises
    ------
    InvalidInput
        For a synopsis without records, or whose records are no distribution that can be conditioned; and where it has
        no record that meets the condition.
    TooLarge
        For a universe without a histogram.
    """
    while isinstance(synopsis, Scaled):
        synopsis = synopsis.synopsis
    if not synopsis.has_table:
        raise InvalidInput("this release has answers but no table: no records can be drawn from it")
    if isinstance(synopsis, Weighted):
        found = _kept(synopsis, predicate, synopsis.total)
    elif isinstance(synopsis, Histogram | Dual):
        found = _cut(synopsis, predicate)
    elif isinstance(synopsis, Tabulated):
        found = _cut(synopsis.histogram, predicate)
    else:
        raise InvalidInput(f"records under a condition cannot be drawn from {type(synopsis).__name__.lower()}")
    if not found.total > 0:
        raise InvalidInput(f"the release has no records with {predicate}")
    return found


def _kept(synopsis: Weighted, predicate: Predicate, total: float) -> Conditional:
    """The weighted records that meet a condition."""
    codes = list(synopsis.codes)
    axes = predicate.axes
    shape = [predicate.domain.shape[a] for a in axes]
    meets = predicate.mask()[np.ravel_multi_index([np.asarray(codes[a], np.int64) for a in axes], shape)]
    return Conditional([column[meets] for column in codes], synopsis.weights[meets] * total, box=False)


def _cut(histogram: Histogram | Dual, predicate: Predicate) -> Conditional:
    """The box of a histogram around the cells that meet a condition, the others in it with weight 0."""
    domain, axes = predicate.domain, predicate.axes
    mask: Mask = predicate.mask().reshape([domain.shape[a] for a in axes])
    codes = [np.arange(n) for n in domain.shape]
    for place, axis in enumerate(axes):
        codes[axis] = np.flatnonzero(mask.any(axis=tuple(i for i in range(len(axes)) if i != place)))
    cells = math.prod(len(column) for column in codes)
    memory.check(_CELL_BYTES * cells, f"{cells:,} cells that meet the condition", "ask for fewer", ahead=False)
    inside = mask[np.ix_(*(codes[a] for a in axes))]
    wide = inside.reshape([len(codes[a]) if a in axes else 1 for a in range(len(codes))])
    weights = np.where(wide, histogram.box(codes), 0.0)
    return Conditional(codes, weights.reshape(-1), box=True)
