"""The cells of a universe that a query on some columns sees: to be summed or scaled without touching the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from qrelease._util.parallel import in_parallel
from qrelease._util.typing import Axes, Floats, Ints, Reals
from qrelease.data.marginals import kernels

_MAX_LAYOUTS = 256  # layouts that are kept for further queries on the same columns
_TARGET_RUN = 64  # cells that are read in one go where they lie together: fewer cost as much
_MAX_RUN = 1 << 14  # such cells of several columns at most: layouts are kept


@dataclass(frozen=True)
class Support:
    """A vector over a marginal, as a vector over the universe that is mostly zeros; arguments of `sum_support`.

    `run` adjacent cells of the universe make a row, so many as `tile` says which of the numbers they have.
    """

    starts: Ints
    numbers: Floats
    run: int
    tile: Ints
    shape: Ints
    strides: Ints

    @classmethod
    def of(cls, shape: tuple[int, ...], axes: Axes, numbers: Floats) -> Support:
        """The support of a vector (cells,) over the marginal on sorted `axes` of a universe of that shape."""
        outer, run, tile, sizes, strides = _layout(shape, axes)
        rows = numbers.reshape(prod(n for n, _ in outer), -1)
        seen = np.flatnonzero(rows.any(axis=1))
        starts, left = np.zeros(len(seen), np.int64), seen
        for n, step in reversed(outer):
            starts += left % n * step
            left = left // n
        return cls(starts, rows[seen], run, tile, sizes, strides)

    @cached_property
    def cells(self) -> int:
        """How many cells of the universe it touches, at most."""
        return len(self.starts) * self.run * int(self.shape.prod())

    def times(self, factor: float) -> Support:
        """The support of the vector times a factor."""
        return replace(self, numbers=self.numbers * factor)

    def sum(self, y: Reals) -> float:
        """Σ numbers · y over the universe (|X|,)."""
        return self._apply(kernels.sum_support, y)

    def scale(self, y: Reals) -> float:
        """y *= e^numbers in place; by how much the sum of y grew."""
        return self._apply(kernels.scale_support, y)

    def _apply(self, kernel: Callable[..., float], y: Reals) -> float:
        by_row = len(self.starts) > 1
        length = len(self.starts) if by_row else int(self.shape[0])

        def work(_: int, cut: slice) -> float:
            whole = cut.stop - cut.start == length
            part = self if whole else self._rows(cut) if by_row else self._steps(cut)
            return kernel(y, part.starts, part.numbers, part.run, part.tile, part.shape, part.strides)

        return sum(in_parallel(work, length, self.cells))

    def _rows(self, cut: slice) -> Support:
        return replace(self, starts=self.starts[cut], numbers=self.numbers[cut])

    def _steps(self, cut: slice) -> Support:
        """Some of the steps along the first of the other axes."""
        shape = self.shape.copy()
        shape[0] = cut.stop - cut.start
        return replace(self, starts=self.starts + cut.start * self.strides[0], shape=shape)


@lru_cache(_MAX_LAYOUTS)
def _layout(shape: tuple[int, ...], axes: Axes) -> tuple[list[tuple[int, int]], int, Ints, Ints, Ints]:
    """Size and stride of the mentioned axes outside a run, and what else is the same for all queries on `axes`."""
    first, run = len(shape), 1  # the axes from `first` on make a run
    while first > 0:
        alike = first - 1 not in axes and not any(a >= first for a in axes)  # all have one number, and need no tile
        if not alike and (run >= _TARGET_RUN or (run > 1 and run * shape[first - 1] > _MAX_RUN)):
            break
        first -= 1
        run *= shape[first]
    step = [prod(shape[a + 1 :]) for a in range(len(shape))]
    inner = [a for a in axes if a >= first]
    tile = np.zeros(0, np.int64)
    if inner:
        codes = np.indices(shape[first:]).reshape(len(shape) - first, -1)
        tile = np.ravel_multi_index([codes[a - first] for a in inner], [shape[a] for a in inner]).astype(np.int64)
    free = [*_merged((shape[a], step[a]) for a in range(first) if a not in axes)] or [(1, 0)]
    sizes, strides = (np.array(numbers, np.int64) for numbers in zip(*free, strict=True))
    return [(shape[a], step[a]) for a in axes if a < first], run, tile, sizes, strides


def _merged(axes: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """(size, stride) of axes, adjacent ones as one."""
    size, stride = 1, 0
    for n, step in axes:
        if stride == n * step:
            size, stride = size * n, step
        else:
            if stride:
                yield size, stride
            size, stride = n, step
    if stride:
        yield size, stride
