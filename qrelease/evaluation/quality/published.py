"""How far off what a release publishes is from the real table, beside the bars that it states. Not private."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from qrelease._util.texts import aligned
from qrelease._util.typing import Floats
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.exact_answers import exact_answers, record_parts
from qrelease.inference.number_tables import NumberTable
from qrelease.mechanisms.measured_values import record_values
from qrelease.queries.measures import Measure, grid_of
from qrelease.release.answer_table import MAX_ANSWERS
from qrelease.release.release import Release
from qrelease.release.writer import WEIGHT, header

_ROUNDING = 1e-9  # of the truth: what floating point may put outside of an interval that ends there
_LEFT_OUT = (
    "the truth is of all records, and the bars do not count those of persons with more than at_most that were left out"
)


def as_released(table: Table, release: Release, folder: Path | str = "the release") -> Table:
    """The table that a release was made from, with what was learned for it.

    folder  where the release is stored, for who is told that it was made with another schema, by `InvalidInput`
    """
    if table.domain.undecided:
        table = table.viewed(release.domain)
    if release.domain != table.domain:
        raise InvalidInput(f"{folder} was made with another schema or other columns: give those of the release")
    return table


def synthetic_table(release: Release, folder: Path) -> Table:
    """The synthetic table that was given away; records drawn from the manifest, where that is weighted or was not."""
    for file in (folder / "synthetic.csv", folder / "synthetic.parquet"):
        if file.is_file() and WEIGHT not in header(file):
            return Table.read(file, release.domain.of_rows)
    return drawn_table(release, folder)


def drawn_table(release: Release, folder: Path | str = "the release") -> Table:
    """Synthetic records of a release, the same each time.

    folder  where it is stored, for who is told that it has none, by `InvalidInput`
    """
    if not release.has_table:
        raise InvalidInput(f"{folder} has no synthetic table to judge")
    codes = release.codes(None, np.random.default_rng(0))
    return Table(release.domain.of_rows, tuple(c.astype(np.uint32) for c in codes))


@final
@dataclass(frozen=True)
class Published:
    """What was published under one name, against the real table.

    what    a column of answers, or a question about numbers
    lines   how many were compared: those of groups without a record have no mean
    rmse    the root mean square of their errors; NaN where there are none
    bars    how many of them have a stated bar, of 95 %
    bar     the median half-width of these; NaN where there are none
    within  the share of these bars that hold the real value; NaN where there are none
    note    what no bar counts, or why nothing was compared
    """

    what: str
    lines: int
    rmse: float
    bars: int
    bar: float
    within: float
    note: str = ""

    @classmethod
    def of(cls, what: str, real: Floats, given: Floats, low: Floats, high: Floats, note: str = "") -> Published:
        """Compare lines, (k,) each; what is NaN is left out."""
        there = np.isfinite(real) & np.isfinite(given)
        gaps = (given - real)[there]
        rmse = math.sqrt(float(gaps @ gaps) / len(gaps)) if len(gaps) else math.nan
        barred = there & np.isfinite(low) & np.isfinite(high)
        real, low, high = real[barred], low[barred], high[barred]
        slack = _ROUNDING * np.maximum(1.0, np.abs(real))
        held = (low - slack <= real) & (real <= high + slack)
        some = bool(len(real))
        bar = float(np.median(high - low)) / 2 if some else math.nan
        return cls(what, int(there.sum()), rmse, len(real), bar, float(held.mean()) if some else math.nan, note)

    def to_json(self) -> dict[str, Any]:
        """Plain types; null for what there is not."""
        numbers = {"rmse": self.rmse, "median_bar_95": self.bar, "bars_that_hold": self.within}
        told = {name: None if math.isnan(value) else value for name, value in numbers.items()}
        return {"what": self.what, "lines": self.lines, "bars": self.bars, **told, "note": self.note}

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        if not self.lines:
            return f"{self.what}: {self.note or 'no group has a record'}"
        return "  ".join([*filter(None, self.cells)]) + note

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """What it is, its error, the median bar and how many bars hold, as a line of a table has them."""
        bars = (f"{self.bar:.4g}", f"{self.within:.1%} of {self.bars:,}") if self.bars else ("", "")
        return self.what, f"{self.rmse:.4g}", *bars


def published_lines(found: Sequence[Published]) -> list[str]:
    """A table of what was published, with its header; under it what was not compared, and why."""
    told = [p for p in found if p.lines]
    rows = aligned(
        [("published, against the real table", "RMSE", "median bar", "bars that hold"), *(p.cells for p in told)]
    )
    notes = {p.note for p in told if p.note}
    if len(notes) == 1 and all(p.note for p in told):  # the same of all: said once
        return [*rows, *notes, *(str(p) for p in found if not p.lines)]
    noted = [f"{row} ({p.note})" if p.note else row for row, p in zip(rows[1:], told, strict=True)]
    return [rows[0], *noted, *(str(p) for p in found if not p.lines)]


def published(real: Table, release: Release) -> tuple[Published, ...]:
    """The errors of all that a release publishes of a table: its answers, then its numbers, in their order.

    Raises `InvalidInput` for a release over another universe.
    """
    if release.domain != real.domain:
        raise InvalidInput("the release is over another universe than the real table")
    person = real.domain.person
    note = _LEFT_OUT if person is not None and not real.domain.counts_once else ""
    return (*_answers(real, release, note), *(_numbers(real, answer, note) for answer in release.number_tables()))


def _answers(real: Table, release: Release, note: str) -> Iterator[Published]:
    size = len(release.workload)
    if size > MAX_ANSWERS:
        yield Published("answer", 0, math.nan, 0, math.nan, math.nan, f"{size:,} answers: too many to compare here")
        return
    truth = exact_answers(real, release.workload)
    answers, bars = release.answers(), release.model_bars()
    yield Published.of("answer ± model_95", truth, answers, answers - bars, answers + bars, note)
    noisy, widths = release.error_bars()
    if not np.isnan(widths).all():
        noisy = np.where(np.isnan(widths), np.nan, noisy)
        yield Published.of("noisy ± error_95", truth, noisy, noisy - widths, noisy + widths, note)


def _numbers(real: Table, answer: NumberTable, note: str) -> Published:
    question = str(answer.question)
    try:
        truth = exact_numbers(real, answer)
    except InvalidInput as error:
        return Published(question, 0, math.nan, 0, math.nan, math.nan, f"not compared: {error}")
    notes = "; ".join(filter(None, (answer.note, note)))
    return Published.of(question, truth, answer.model, answer.model_low, answer.model_high, notes)


def exact_numbers(real: Table, answer: NumberTable) -> Floats:
    """What the records say to each line of an answer, (k,); NaN where a group has none. Private.

    Raises `InvalidInput` for a column of bins, whose exact values no table keeps.
    """
    question, domain = answer.question, real.domain
    axes = [domain.axis(name) for name in answer.names]
    shape = [domain.shape[axis] for axis in axes]
    cells = math.prod(shape)
    if axes:
        lines = np.ravel_multi_index(tuple(answer.keys.T), shape)
        groups = np.ravel_multi_index([real.columns[axis].astype(np.int64) for axis in axes], shape)
    else:
        lines, groups = np.zeros(len(answer), np.int64), np.zeros(len(real), np.int64)
    valued = question.kind in ("sum", "mean", "variance", "quantile")
    weights = record_values(real, Measure(question.column if valued else "", where=question.where)).astype(np.float64)
    parts = record_parts(real)
    weights = weights if parts is None else weights * parts
    records = np.bincount(groups, weights, cells)
    if question.kind in ("count", "histogram"):
        return np.asarray(records[lines], np.float64)
    values = (
        _values(real, question.column)
        if valued
        else (record_values(real, Measure(met=question.threshold)) > 0).astype(np.float64)
    )
    if question.kind == "quantile":
        return _quantiles(groups, weights, values, lines, question.probabilities)
    sums = np.bincount(groups, weights * values, cells)
    if question.kind == "sum":
        return np.asarray(sums[lines], np.float64)
    with np.errstate(invalid="ignore"):
        means = sums / records
        if question.kind == "variance":
            return np.asarray((np.bincount(groups, weights * (values - means[groups]) ** 2, cells) / records)[lines])
    return np.asarray(means[lines])


def _values(real: Table, column: str) -> Floats:
    """The exact values of a column, (n,); anything where it is missing."""
    attribute = real.domain[column]
    grid = grid_of(attribute)
    places = real.columns[real.domain.axis(column)] if attribute.grid is None else real.grid(column)
    return float(grid.low) + float(grid.step) * places.astype(np.float64)


def _quantiles(groups: Any, weights: Floats, values: Floats, lines: Any, probabilities: Any) -> Floats:
    """The least value that a share p of the group's weight is at or below, for each line; p goes round and round."""
    order = np.lexsort((values, groups))
    order = order[weights[order] > 0]
    groups, values, running = groups[order], values[order], np.cumsum(weights[order])
    found = np.full(len(lines), np.nan)
    for i, group in enumerate(lines.tolist()):
        first, last = np.searchsorted(groups, [group, group + 1])
        if first < last:
            before = running[first - 1] if first else 0.0
            goal = before + probabilities[i % len(probabilities)] * (running[last - 1] - before)
            at = first + int(np.searchsorted(running[first:last], goal - _ROUNDING))
            found[i] = values[min(at, last - 1)]
    return found
