"""Tables over some columns of a universe of any size, into which weighted records are counted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import final

import numpy as np
import numpy.typing as npt

from qrelease._util.parallel import cores, in_parallel
from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.marginals import record_kernels

Codes16 = npt.NDArray[np.uint16]

LARGEST_COLUMN = 1 << 16
"""Cells of a column."""

_MAX_EXACT_SUM = 2.0**52  # sums of whole weights up to here are exact, so that no order of summation changes them

_Layout = tuple[Ints, Ints, Ints, Ints]
"""Axes, steps, firsts and begins of tables, as `record_kernels` takes them."""


@final
class Tables:
    """Tables over some sets of columns of a universe, one after another in a flat vector, each in C order."""

    def __init__(self, shape: Sequence[int], sets: Sequence[Axes]) -> None:
        self.shape, self.sets = tuple(shape), tuple(sets)
        self.offsets = [*accumulate((prod(shape[a] for a in s) for s in sets), initial=0)]
        self.layout = self._laid_out(self.sets, self.offsets[:-1])

    def _laid_out(self, orders: Sequence[Axes], begins: Sequence[int]) -> _Layout:
        """The tables as the kernels take them, with their axes in these orders."""
        steps = [[prod(self.shape[b] for b in s[i + 1 :]) for i in range(len(s))] for s in orders]
        return (
            np.array([a for s in orders for a in s], np.int64),
            np.array([step for row in steps for step in row], np.int64),
            np.array([*accumulate(map(len, orders), initial=0)], np.int64),
            np.array(begins, np.int64),
        )

    def marginals(self, codes: Codes16, weights: Floats) -> Floats:
        """The sums of the weights (n,), of which all sum to 1 at most, of the records (d, n) in each cell: (cells,)."""
        whole = np.rint(weights * _MAX_EXACT_SUM)

        def work(_: int, cut: slice) -> Floats:
            found = np.zeros(self.offsets[-1])
            record_kernels.spread(codes[:, cut], whole[cut], *self.layout, found)
            return found

        first, *others = in_parallel(work, len(weights), len(weights) * len(self.sets), cores())
        for other in others:
            first += other
        return first / _MAX_EXACT_SUM

    def sums(self, codes: Codes16, tables: Floats) -> Floats:
        """The sum for each record (d, n) of what the tables (cells,) say at its cells: (n,), the adjoint."""
        found = np.zeros(codes.shape[1])

        def work(_: int, cut: slice) -> None:
            record_kernels.gather(codes[:, cut], tables, *self.layout, found[cut])

        in_parallel(work, len(found), len(found) * len(self.sets))
        return found
