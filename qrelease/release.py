"""`Release`: what is given away. It knows no table, no ledger and no mechanism."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease import memory
from qrelease.contracts import Answer, Estimator, Model, Synopsis, Tabulated, Weighted, plain
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.histogram import Histogram
from qrelease.measure import RECORDS, Measurement, Spend
from qrelease.privacy import Cost, Neighbours
from qrelease.queries import Cells
from qrelease.sampling import generator
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]

MAX_ROWS = 1 << 26
"""Synthetic records in one table."""

FEW_ROWS = 100_000
"""Where the number of records is unknown, a table has no more by default: its noise alone may be billions."""

WEIGHTED_ROWS = 1 << 20
"""Rows of a weighted table at most, by default: a universe of so few cells is written out as it is."""

_NOTHING = 1e-6  # records: all cells that a weighted table leaves out come to one at most, by default


def check_rows(rows: object) -> None:
    """`InvalidInput` unless so many synthetic rows can be drawn."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InvalidInput(f"rows must be a positive whole number, got {rows!r}")
    if rows > MAX_ROWS:
        raise InvalidInput(f"rows must be at most {MAX_ROWS:,}, got {rows:,}")


def _versions() -> dict[str, str]:
    """What a third party needs to run the same code."""
    packages = ("qrelease", "numpy", "numba", "cryptography")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


@final
@dataclass(frozen=True)
class Release:
    """What is given away: public by construction, and it never sees the table again.

    cost            the whole privacy cost; `spends` are its parts
    parameters      of the mechanism, and what it chose in public: values as JSON has them, the same once it is saved
    insecure        whether the noise came from anything but the system's entropy: then it protects nobody
    insecure_seed   the seed, where it was a seeded generator
    """

    synopsis: Synopsis
    workload: Workload
    cost: Cost
    neighbours: Neighbours
    dataset: str
    mechanism: str
    parameters: Mapping[str, Any]
    measurements: tuple[Measurement, ...]
    spends: tuple[Spend, ...]
    insecure: bool = False
    insecure_seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=_versions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", plain(self.parameters))

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.synopsis.domain

    def answer(self, query: str | Workload) -> Answer | Floats:
        """The answer to a condition such as `age in 30..39 and income = '>50K'`, or counts (k,) for a workload."""
        if isinstance(query, Workload):
            return self.synopsis.answer(query)
        asked = Workload.predicates(self.domain, query)
        found = (self.synopsis.answer(asked), *self.error_bars(asked), self.model_bars(asked))
        return Answer(*(float(part[0]) for part in found))

    def answers(self) -> Floats:
        """Answers to the release's own workload, (k,) counts. Of very many, ask for some: `workload.parts(10**6)`."""
        return self.synopsis.answer(self.workload)

    def error_bars(self, workload: Workload | None = None) -> tuple[Floats, Floats]:
        """Unbiased noisy answers (k,) and half-widths (k,) of their 95 % error bars; NaN where nothing was measured.

        A synopsis that is an `Estimator` answers from all measurements together. Else each query is answered from the
        measurement that gives it with the least variance: of the same queries, of a marginal that contains its columns,
        or of the number of records where it asks for just that.
        """
        asked = self.workload if workload is None else workload
        if asked.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this release")
        if isinstance(self.synopsis, Estimator):
            return self.synopsis.error_bars(asked)
        # A marginal on more columns or on just these may contain a group: looked up, because the baselines measure
        # thousands on three columns each.
        sizes = {len(g.axes) for g in asked.groups}
        wider = {k: [m for m in self.measurements if len(m.group.axes) > k] for k in sizes}
        alike: dict[Axes, list[Measurement]] = {}
        for m in self.measurements:
            alike.setdefault(m.group.axes, []).append(m)
        counted = alike.get(RECORDS.axes, [])
        parts = [
            _measured(g, [*alike.get(g.axes, []), *wider[len(g.axes)], *counted], self.domain) for g in asked.groups
        ]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def model_bars(self, workload: Workload | None = None) -> Floats:
        """Half-widths (k,) of 95 % error bars around the release's own answers; NaN where it has no model that tells.

        They count what the model smooths over as well as the noise. Those of `error_bars` are around the unbiased
        answers, and count the noise alone.
        """
        asked = self.workload if workload is None else workload
        if asked.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this release")
        return self.synopsis.model_bars(asked) if isinstance(self.synopsis, Model) else np.full(len(asked), np.nan)

    def synthetic(self, rows: int | None = None, *, seed: int | None = None) -> dict[str, npt.NDArray[np.object_]]:
        """Synthetic records as columns of labels, {name: (rows,)}; `pandas.DataFrame(...)` takes it as it is.

        rows    by default the (noisy) number of records, and at most `FEW_ROWS` where that drowns in its noise
        seed    of an ordinary generator: this is post-processing, and reveals nothing that the release does not

        Raises `InvalidInput` where the release has no table, `TooLarge` where the rows do not fit in memory, or, for
        separate answers, the universe that a table is fitted over.
        """
        rng = generator(self.insecure_seed if seed is None else seed)
        codes = self.codes(rows, rng)
        return {a.name: a.decode(c, rng) for a, c in zip(self.domain, codes, strict=True)}

    def codes(self, rows: int | None, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Synthetic records as codes, one array (rows,) a column; see `synthetic`."""
        if rows is None:
            rows = min(max(1, round(self.synopsis.total)), MAX_ROWS if self._counted else FEW_ROWS)
        check_rows(rows)
        needed = 8 * (len(self.domain) + 2) * int(rows)
        memory.check(needed, f"{rows:,} synthetic records", "ask for fewer rows", ahead=False)
        return self.synopsis.sample(int(rows), rng)

    def weighted(self, rows: int | None = None, *, seed: int | None = None) -> tuple[dict[str, Any], Floats]:
        """A weighted table: its rows as columns of labels, {name: (r,)}, and how many records each stands for, (r,).

        Whole records cannot hold what a histogram says of a cell that expects a third of one; weights can. A universe
        of at most `rows` cells is written out, all but those of less than a millionth of a record; of a larger one it
        is the records that were fitted, or else so many synthetic ones, of which equal ones are one row. The weights
        sum to the (noisy) number of records.

        rows    `WEIGHTED_ROWS` by default

        Raises what `synthetic` does.
        """
        rng = generator(self.insecure_seed if seed is None else seed)
        codes, weights = self.weighted_codes(rows, rng)
        return {a.name: a.decode(c, rng) for a, c in zip(self.domain, codes, strict=True)}, weights

    def weighted_codes(
        self, rows: int | None, rng: np.random.Generator
    ) -> tuple[Sequence[npt.NDArray[np.integer[Any]]], Floats]:
        """A weighted table as codes, one array (r,) a column, and weights (r,); see `weighted`."""
        rows = WEIGHTED_ROWS if rows is None else rows
        check_rows(rows)
        needed = 16 * (len(self.domain) + 2) * min(rows, self.domain.size)
        memory.check(needed, f"{rows:,} weighted records", "ask for fewer rows", ahead=False)
        if self.has_table and not self.synopsis.total > 0:  # there is nobody
            return [np.empty(0, np.int64)] * len(self.domain), np.empty(0)
        if self.domain.size <= rows and isinstance(self.synopsis, Histogram | Tabulated):
            table = self.synopsis if isinstance(self.synopsis, Histogram) else self.synopsis.histogram
            values = table.values.astype(np.float64, copy=False)
            kept = np.flatnonzero(values >= _NOTHING)
            return np.unravel_index(kept, self.domain.shape), values[kept]
        if isinstance(self.synopsis, Weighted) and len(self.synopsis.weights) <= rows:
            codes, weights = list(self.synopsis.codes), self.synopsis.weights
        else:
            codes, weights = list(self.codes(rows, rng)), np.full(rows, 1 / rows)
        order = np.lexsort(codes[::-1])
        first = np.arange(len(order)) == 0  # of equal records
        for column in codes:
            first[1:] |= np.diff(column[order]) != 0
        together = np.add.reduceat(weights[order], np.flatnonzero(first))
        return [column[order[first]] for column in codes], together * self.synopsis.total

    @property
    def _counted(self) -> bool:
        """Whether the number of records is known: public, or more than twice the error bar of the best estimate."""
        if self.neighbours is Neighbours.REPLACE_ONE:
            return True
        half = self.error_bars(Workload(self.domain, (RECORDS,)))[1]
        return bool(self.synopsis.total > 2 * half[0])

    @property
    def has_table(self) -> bool:
        """Whether there are synthetic records. Even then the universe may be too large for them, see `synthetic`."""
        return self.synopsis.has_table

    def save(
        self,
        folder: str | os.PathLike[str],
        rows: int | None = None,
        *,
        weighted: bool = False,
        answers: bool | None = None,
    ) -> None:
        """Write `synthetic.csv`, `answers.csv`, `release.json` and `report.html` into a new folder, all or nothing.

        weighted  whether the synthetic table is the one of `weighted`, with a last column `weight`
        answers   whether `answers.csv` is written; by default where it has at most `archive.MOST_ANSWERS` lines. A
                  release that was saved without it gives every answer all the same, and can be saved with it later
        """
        from qrelease import archive

        if weighted:
            archive.check_weighted(self.domain)
        with archive.new_folder(folder) as part:
            archive.save(self, part, rows, weighted=weighted, answers=answers)

    def __repr__(self) -> str:
        insecure = f", INSECURE seed {self.insecure_seed}" if self.insecure else ""
        return (
            f"Release({self.mechanism} on {self.dataset!r}: {len(self.workload):,} queries,"
            f" {self.cost:.6g}, {self.neighbours.value}{insecure})"
        )

    def _repr_html_(self) -> str:
        from qrelease.report import html

        return html(self, page=False)


def _measured(group: Group, measurements: Sequence[Measurement], domain: Domain) -> tuple[Floats, Floats]:
    """The best unbiased answers to the queries of a group, and their half-widths."""
    best, widths, least = (np.full(group.queries.count, v) for v in (np.nan, np.nan, np.inf))
    for m in measurements:
        if m.group == group:
            values, terms = m.values, np.ones(len(m.values))
        elif m.group == RECORDS:
            values, terms = _constant(group, m)
        elif isinstance(m.group.queries, Cells) and set(group.axes) <= set(m.group.axes):
            values, terms = _derived(group, m, domain)
        else:
            continue
        better = m.variance * terms < least
        distinct, which = np.unique(terms[better], return_inverse=True)
        halves = np.array([m.noise.half_width(t * m.repeats) / m.repeats for t in distinct.tolist()])
        best[better], widths[better], least[better] = values[better], halves[which], m.variance * terms[better]
    return best, widths


def _constant(group: Group, m: Measurement) -> tuple[Floats, Floats]:
    """The answers to those queries that weigh all records alike, from the number of records; ∞ terms for the others."""
    cells = group.queries.cells
    weight = group.queries.apply(np.ones(cells)) * group.queries.unit / cells
    alike = np.isclose(group.queries.squares(), cells * weight**2, rtol=1e-12, atol=0)  # equality in Cauchy & Schwarz
    return weight * m.values[0], np.where(alike, weight**2, np.inf)


def _derived(group: Group, m: Measurement, domain: Domain) -> tuple[Floats, Floats]:
    """A group's answers from a measured marginal on more columns, and how many noisy cells each sums over."""
    shape = [domain.shape[a] for a in m.group.axes]
    away = tuple(i for i, a in enumerate(m.group.axes) if a not in group.axes)
    marginal = m.values.reshape(shape).sum(axis=away).reshape(-1)
    terms = group.queries.squares() * math.prod(shape[i] for i in away)
    return group.queries.apply(marginal) * group.queries.unit, terms
