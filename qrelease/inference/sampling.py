"""Draws from public synopses, by an ordinary generator; systematic sampling gives each cell its expected number of
records, rounded up or down."""

from bisect import bisect_left
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease._util.parallel import at_once, in_parallel
from qrelease.data.marginals import kernels


def generator(seed: int | None) -> np.random.Generator:
    """An ordinary generator for post-processing, from any integer or from the system."""
    return np.random.default_rng(None if seed is None else seed % (1 << 256))


def systematic(weights: npt.NDArray[np.floating[Any]], rows: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """The numbers (rows,) of cells drawn from weights (n,), not negative and not all zero, in ascending order.

    A cell that expects 2.3 records gets 2 or 3, and 2.3 on average over all draws; so does a run of cells. One uniform
    number decides: marks at equal distances on the running sum. Large vectors are cut into pieces, each with the marks
    that fall on it, and the same on however many cores.
    """
    found = np.empty(rows, np.int64)
    pieces = in_parallel(
        lambda _, cut: (cut.start, float(weights[cut].sum(dtype=np.float64))), len(weights), len(weights)
    )
    ends = [*accumulate((total for _, total in pieces), initial=0.0)]
    start, step = rng.random(), ends[-1] / max(rows, 1)
    # What lies behind the last weight gets no mark, though rounding may put one there.
    marks = [
        rows if end == ends[-1] else bisect_left(range(rows), end, key=lambda j: (j + start) * step) for end in ends
    ]

    def draw(i: int) -> None:
        first, last = pieces[i][0], [*pieces, (len(weights), 0.0)][i + 1][0]
        kernels.systematic_marks(
            weights[first:last], first, ends[i], step, start, marks[i], found[marks[i] : marks[i + 1]]
        )

    at_once(draw, range(len(pieces)))
    return found
