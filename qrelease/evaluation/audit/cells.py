"""One number of the output cut into cells, and the likelihood ratio of each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.evaluation.audit.features import MAX_SINGLE_VALUES, spell

_SHOWN_RANGES: Final = 3


def log_ratio(first: Ints, second: Ints) -> Floats:
    """Logarithms of likelihood ratios from counts, (k,), drawn towards 0 by their standard errors."""
    a, b = first + 0.5, second + 0.5
    ratio, error = np.log(a) - np.log(b), np.sqrt(1 / a + 1 / b)
    shrunk: Floats = np.sign(ratio) * np.maximum(np.abs(ratio) - error, 0)
    return shrunk


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """A column cut into cells: 0 below the first edge, i from edge i - 1 to below edge i, and a last one for NaN.

    edges   (k,) ascending: each value where there are few, and `single` then, else quantiles
    ratio   (k + 2,) the estimated logarithm of the likelihood ratio of each cell
    apart   the total variation distance between the cells of both inputs
    words   what is no number, by the number that stands for it
    """

    column: int
    name: str
    edges: Floats
    single: bool
    ratio: Floats
    apart: float
    words: Mapping[float, str]

    @classmethod
    def of(cls, column: int, name: str, first: Floats, second: Floats, words: Mapping[float, str]) -> BinnedColumn:
        """The cells of a column and their likelihood ratios, from its values on both inputs."""
        both = np.concatenate([first, second])
        known = both[~np.isnan(both)]
        edges = np.unique(known)
        single = edges.size <= MAX_SINGLE_VALUES
        if not single:
            edges = np.unique(np.quantile(known, np.linspace(0, 1, MAX_SINGLE_VALUES), method="nearest"))
        counts = [np.bincount(_place(edges, values), minlength=edges.size + 2) for values in (first, second)]
        shares = [count / max(count.sum(), 1) for count in counts]
        apart = float(np.abs(shares[0] - shares[1]).sum()) / 2
        return cls(column, name, edges, single, log_ratio(*counts), apart, words)

    @property
    def count(self) -> int:
        """The number of cells."""
        return self.edges.size + 2

    def codes(self, columns: Floats) -> Ints:
        """The cell of each output, (n, m) to (n,)."""
        return _place(self.edges, columns[:, self.column])

    def ratios(self, columns: Floats) -> Floats:
        """The logarithm of the likelihood ratio of its cell."""
        return self.ratio[self.codes(columns)]

    def describe_ratios(self, low: float, high: float) -> str:
        """A sentence: the number lies in cells whose ratio is between two numbers."""
        held = np.flatnonzero((self.ratio >= low) & (self.ratio <= high))
        runs = np.split(held, np.flatnonzero(np.diff(held) > 1) + 1)
        parts = [self.describe_codes(int(run[0]), int(run[-1])) for run in runs if run.size]
        more = f" or in {len(parts) - _SHOWN_RANGES} more ranges" if len(parts) > _SHOWN_RANGES else ""
        return f"{self.name} is {' or '.join(parts[:_SHOWN_RANGES]) or 'nothing learned'}{more}"

    def describe_codes(self, first: int, last: int) -> str:
        """Some consecutive cells in words."""
        missing = last == self.edges.size + 1
        if missing and first == 0:
            return "anything"
        parts = [self._range(first, last - missing)] if first <= last - missing else []
        return " or ".join(parts + ["missing"] * missing)

    def _range(self, first: int, last: int) -> str:
        """BinnedColumn of values in words."""
        if self.single and first and last - first < _SHOWN_RANGES:
            return " or ".join(spell(value, self.words) for value in self.edges[first - 1 : last])
        low = f"from {spell(self.edges[first - 1], self.words)}" if first else ""
        high = f"below {spell(self.edges[last], self.words)}" if last < self.edges.size else ""
        return " ".join(part for part in (low, high) if part) or "not missing"


def _place(edges: Floats, values: Floats) -> Ints:
    placed = np.searchsorted(edges, values, side="right")
    return np.where(np.isnan(values), edges.size + 1, placed)
