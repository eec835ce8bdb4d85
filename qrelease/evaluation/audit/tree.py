"""A small decision tree over the cells of all numbers of an output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats, Ints
from qrelease.evaluation.audit.cells import BinnedColumn, log_ratio

RowIndices = npt.NDArray[np.intp]

_MAX_LEAVES: Final = 16
_MIN_GAIN: Final = 4.0
"""In units of log-likelihood: less is noise."""

_SHOWN_BOXES: Final = 2


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A box of cells, for each column the range of codes first..last, and the runs of both inputs that fall in it."""

    box: dict[int, tuple[int, int]]
    rows: tuple[RowIndices, RowIndices]

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.rows[0]), len(self.rows[1])


@dataclass(frozen=True, eq=False)
class RatioTree:
    """Boxes that part all outputs, and the estimated logarithm of the likelihood ratio of each."""

    cells: Sequence[BinnedColumn]
    boxes: Sequence[dict[int, tuple[int, int]]]
    ratio: Floats

    def ratios(self, columns: Floats) -> Floats:
        """The logarithm of the likelihood ratio of each output's box, (n, m) columns to (n,)."""
        codes = {c: self.cells[c].codes(columns) for box in self.boxes for c in box}
        total = np.zeros(len(columns))
        for box, ratio in zip(self.boxes, self.ratio, strict=True):
            inside = np.ones(len(columns), bool)
            for c, (first, last) in box.items():
                inside &= (codes[c] >= first) & (codes[c] <= last)
            total[inside] = ratio
        return total

    def describe(self, low: float, high: float) -> str:
        """The boxes whose ratio is between two numbers, in words."""
        held = [i for i in np.argsort(-np.abs(self.ratio), kind="stable") if low <= self.ratio[i] <= high]
        texts = [
            " and ".join(self._condition(c, codes) for c, codes in self.boxes[i].items()) for i in held[:_SHOWN_BOXES]
        ]
        more = f", or in {len(held) - _SHOWN_BOXES} more boxes" if len(held) > _SHOWN_BOXES else ""
        return ", or ".join(text or "anything happens" for text in texts) + more

    def _condition(self, column: int, codes: tuple[int, int]) -> str:
        return f"{self.cells[column].name} is {self.cells[column].describe_codes(*codes)}"


def grow(cells: Sequence[BinnedColumn], first: Floats, second: Floats) -> RatioTree:
    """The tree that best tells outputs on one input from those on the other, leaf by leaf, (n, m) columns each."""
    codes = [np.stack([table.codes(columns) for table in cells]) for columns in (first, second)]
    done: list[_Leaf] = []
    root = _Leaf({}, (np.arange(len(first)), np.arange(len(second))))
    open_leaves = [(root, *_best_split(root, cells, codes))]
    while open_leaves and len(done) + len(open_leaves) < _MAX_LEAVES:
        best = max(range(len(open_leaves)), key=lambda i: open_leaves[i][1])
        leaf, gain, column, code = open_leaves.pop(best)
        if gain < _MIN_GAIN:
            done.append(leaf)
            continue
        parts = _parts(leaf, column, code, cells, codes)
        open_leaves += [(part, *_best_split(part, cells, codes)) for part in parts]
    leaves = done + [leaf for leaf, *_ in open_leaves]
    counts = np.array([leaf.counts for leaf in leaves])
    return RatioTree(cells, [leaf.box for leaf in leaves], log_ratio(counts[:, 0], counts[:, 1]))


def _best_split(leaf: _Leaf, cells: Sequence[BinnedColumn], codes: Sequence[Ints]) -> tuple[float, int, int]:
    """(gain in log-likelihood, column, last code of the lower part)."""
    best = (0.0, 0, 0)
    whole = _likelihood(*(np.array(float(n)) for n in leaf.counts))
    for c, table in enumerate(cells):
        below = [
            np.bincount(part[c, rows], minlength=table.count).cumsum()
            for part, rows in zip(codes, leaf.rows, strict=True)
        ]
        gains = _likelihood(*below) + _likelihood(*(n[-1] - n for n in below)) - whole
        code = int(np.argmax(gains))
        best = max(best, (float(gains[code]), c, code))
    return best


def _likelihood(first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]) -> Floats:
    """The largest log-likelihood of coins with so many heads and tails, elementwise."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    n = a + b
    parts = [np.where(k > 0, k * np.log(np.maximum(k, 1) / np.maximum(n, 1)), 0.0) for k in (a, b)]
    total: Floats = parts[0] + parts[1]
    return total


def _parts(leaf: _Leaf, column: int, code: int, cells: Sequence[BinnedColumn], codes: Sequence[Ints]) -> list[_Leaf]:
    first, last = leaf.box.get(column, (0, cells[column].count - 1))
    below = [part[column, rows] <= code for part, rows in zip(codes, leaf.rows, strict=True)]
    parts = []
    for bounds, chosen in (((first, code), below), ((code + 1, last), [~b for b in below])):
        rows = leaf.rows[0][chosen[0]], leaf.rows[1][chosen[1]]
        parts.append(replace(leaf, box={**leaf.box, column: bounds}, rows=rows))
    return parts
