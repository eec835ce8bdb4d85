"""Whether synthetic records are copies: matches of unique records and distances to the nearest real ones.

No figure here is a proof of privacy, which is the release's guarantee; they are what approvers ask for. Each is set
beside what a second sample of the same people would give: the real table is halved at random, one half is what is
compared with, and synthetic records are judged as the other half is.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qrelease._util.typing import Axes, Floats
from qrelease.data.table import Table
from qrelease.evaluation.quality.marginals import record_cells

_SEARCHED_RECORDS = 500  # records whose nearest neighbours are searched
_COMPARED_RECORDS = 20_000  # and the real records that these are searched among


@dataclass(frozen=True)
class Copies:
    """What was found of some records beside the first half of the real table.

    unique    the share of the half's unique records, those that no other of it equals, that are among them
    nearest   the 5 % quantile and the median of the distances to the nearest record of the half, from 0 to 1: the mean
              over the columns of whether codes differ, or, of an ordered one, by what share of its range
    same      the share of these distances that are 0
    """

    unique: float
    nearest_low: float
    nearest_median: float
    same: float

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def copies(
    real: Table, synthetic: Table, independent: Table, rng: np.random.Generator
) -> tuple[Copies, Copies, Copies]:
    """How many synthetic records copy real ones, how many of a second real sample do, and of independent columns."""
    order = rng.permutation(len(real))
    half, other = order[: len(real) // 2], order[len(real) // 2 :]
    size = min(len(other), len(synthetic))
    first, second = part(real, half), part(real, other[:size])
    drawn, apart = (part(t, rng.choice(len(t), size, replace=False)) for t in (synthetic, independent))
    ours, theirs, others = (
        Copies(_unique(first, some), *_nearest(first, some, np.random.default_rng(1)))
        for some in (drawn, second, apart)
    )
    return ours, theirs, others


def part(table: Table, rows: Any) -> Table:
    """Some records of a table."""
    return Table(table.domain, tuple(column[rows] for column in table.columns))


def _keys(tables: tuple[Table, Table]) -> list[Any]:
    """A number for each record, equal for equal records only, (n,) for each table."""
    domain, numbers = tables[0].domain, [np.zeros(len(t), np.int64) for t in tables]
    axes: Axes = ()
    for a in range(len(domain)):
        axes = (*axes, a)
        last = a == len(domain) - 1
        if last or math.prod(domain.shape[i] for i in (*axes, a + 1)) * 2**31 > 2**62:
            cells = [record_cells(t, axes) for t in tables]
            sizes = math.prod(domain.shape[i] for i in axes)
            joined = np.concatenate([n * sizes + c for n, c in zip(numbers, cells, strict=True)])
            ranks = np.unique(joined, return_inverse=True)[1]
            numbers, axes = np.split(ranks.astype(np.int64), [len(tables[0])]), ()
    return numbers


def _unique(first: Table, some: Table) -> float:
    ours, theirs = _keys((first, some))
    values, times = np.unique(ours, return_counts=True)
    single = values[times == 1]
    return float(np.isin(single, theirs).mean()) if len(single) else 0.0


def _nearest(first: Table, some: Table, rng: np.random.Generator) -> tuple[float, float, float]:
    among = part(first, rng.permutation(len(first))[:_COMPARED_RECORDS])
    looked = part(some, rng.permutation(len(some))[:_SEARCHED_RECORDS])
    scales = [1 / max(a.size - 1, 1) if a.ordered else None for a in first.domain.attributes]
    columns = [c.astype(np.float32) for c in among.columns]
    found: Floats = np.empty(len(looked))
    for i in range(len(looked)):
        total = np.zeros(len(among), np.float32)
        for column, mine, scale in zip(columns, looked.columns, scales, strict=True):
            gap = column - np.float32(mine[i])
            total += (gap != 0) if scale is None else np.abs(gap) * np.float32(scale)
        found[i] = total.min() / len(columns)
    low, middle = np.quantile(found, [0.05, 0.5])
    return float(low), float(middle), float((found == 0).mean())
