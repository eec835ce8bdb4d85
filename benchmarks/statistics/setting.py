"""What sections share: tables of one column, runs of a statistic, and how rows are printed."""

import csv
import gzip
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from qrelease._util.typing import Ints
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.filters import Filter
from qrelease.statistics.base import EstimateResult, Statistic
from qrelease.statistics.noise_source import ExactNoise
from qrelease.statistics.private_columns import PrivateColumns


@dataclass(frozen=True)
class Setting:
    """Where the tables are, None for nowhere, and whether to be quick."""

    data: Path | None
    quick: bool

    def runs(self, many: int) -> int:
        """How many runs; a fifth of them where it is to be quick."""
        return max(many // 5, 5) if self.quick else many

    def column(self, file: str, name: str) -> list[float]:
        """The numbers of a column, without those that are missing."""
        assert self.data is not None
        header, rows = _rows(self.data / f"{file}.csv.gz")
        place = header.index(name)
        return [float(row[place]) for row in rows if row[place]]

    def texts(self, file: str, names: Sequence[str]) -> dict[str, list[str]]:
        """Columns as they are written."""
        assert self.data is not None
        header, rows = _rows(self.data / f"{file}.csv.gz")
        places = [header.index(name) for name in names]
        return {name: [row[place] for row in rows] for name, place in zip(names, places, strict=True)}


@lru_cache(1)
def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as source:
        rows = csv.reader(source)
        return next(rows), list(rows)


Row = dict[str, Any]
Section = Callable[[Setting], Iterator[Row]]


def column(codes: Ints | Sequence[int], cells: int) -> Table:
    """A table of one column of codes, x."""
    return Table(Domain.coded({"x": cells}), (np.asarray(codes),))


def results(
    statistic: Statistic,
    table: Table,
    cost: Cost,
    runs: int,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    *,
    first: int = 0,
) -> list[EstimateResult]:
    """Of so many runs, with the seeds `first`, `first` + 1, …"""
    seeds = range(first, first + runs)
    doors = (PrivateColumns(table, neighbours, Filter(cost), ExactNoise(Entropy.insecure(s))) for s in seeds)
    return [statistic.estimate(door, cost) for door in doors]


def rmse(values: Sequence[Any], truth: float) -> float:
    """Of numbers."""
    return math.sqrt(np.mean((np.array(values, float) - truth) ** 2)) if len(values) else math.nan


def printed(rows: Sequence[Row]) -> str:
    """As a table; a few words where there are none."""
    if not rows:
        return "  left out: no --data\n"
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_spelled(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in [names, *cells]) for i in range(len(names))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in [names, *cells]]
    return "\n".join(f"  {line}" for line in lines) + "\n"


def _spelled(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
