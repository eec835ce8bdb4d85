"""Predictions of the seconds that a release takes with its files, from public facts, before anything is charged.

A mechanism knows what its measurements and its fit take. Beside them, synthetic records are drawn, which for millions
of them takes as long as the fit, and files are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from qrelease._util import memory
from qrelease._util.elapsed import elapsed
from qrelease.inference.controlled_rounding import marginals
from qrelease.inference.histogram import MAX_HISTOGRAM_CELLS
from qrelease.inference.synopsis import Weighted
from qrelease.mechanisms.base import Mechanism, why_no_table
from qrelease.mechanisms.forecasts import MAGNITUDES, Choosing, CountsByAnother, Forecasting, pace, rough
from qrelease.privacy.costs import Cost
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload
from qrelease.release.answer_table import MAX_ANSWERS
from qrelease.release.synthetic import MAX_ROWS, default_rows

if TYPE_CHECKING:
    from qrelease.data.attribute import Attribute
    from qrelease.data.domain import Domain
    from qrelease.release.release import Release

NOTICED: Final = 5.0
"""Seconds from which on a release is worth a forecast that nobody asked for."""


@dataclass(frozen=True)
class _Seconds:
    """On one core of the machine that all forecasts were measured on."""

    move: float = 3.2e-7
    """Of one of the three moves of a synthetic record along a column, in a histogram whose cells are in the caches."""
    far_cells: float = 1e8
    """Cells of a universe in which a move takes twice as long."""
    exchange: float = 1.3e-7
    """Of all exchanges of a synthetic record for others, in one marginal."""
    synopsis: float = 1.0
    """Of storing weighted records."""
    value: float = 1.6e-7
    """Of writing a value of a synthetic record."""
    answer: float = 6e-6
    """Of writing an answer."""
    shown: float = 1e-5
    """Of what the page shows of an answer, up to `most_shown`."""
    most_shown: int = 200_000


_SECONDS: Final = _Seconds()
_TOLD: Final = (
    *MAGNITUDES,
    10_000_000,
    100_000_000,
)  # numbers of records that a forecast names, where theirs is private
_LONG: Final = 20.0  # seconds from which on a table is worth a line of its own
_LOOKED_AT: Final = 1000  # labels of a column
_MOVES: Final = 3  # passes over the records


@dataclass(frozen=True)
class Files:
    """What is written beside the measurements.

    rows      synthetic records; None for as many as there are records
    answers   whether answers are written; None for unless they are very many
    written   whether there are any files; False where a release stays in memory for now
    """

    rows: int | None = None
    answers: bool | None = None
    written: bool = True

    def seconds(self, mechanism: Forecasting, workload: Workload, records: int) -> float:
        """About how long drawing the synthetic records of `records` private ones takes, and writing all files.

        Parameters
        ----------
        mechanism : Forecasting
            What makes the release.
        workload : Workload
            The queries that are answered.
        records : int
            The number of private records n.

        Returns
        -------
        float
            Seconds, as `Forecasting.seconds`.
        """
        if not self.written:
            return 0.0
        domain, found = workload.domain, _SECONDS.shown * min(len(workload), _SECONDS.most_shown)
        if len(workload) <= MAX_ANSWERS if self.answers is None else self.answers:
            found += _SECONDS.answer * len(workload)
        if why_no_table(mechanism, workload) is not None:
            return found
        rows = min(records if self.rows is None else self.rows, MAX_ROWS)
        weighted = mechanism.name == "records"
        return found + _drawing_seconds(domain, rows, weighted=weighted) + _SECONDS.value * rows * len(domain)


def _drawing_seconds(domain: Domain, rows: int, *, weighted: bool) -> float:
    """Of drawing synthetic records from weighted ones, or from a histogram where the universe is small enough."""
    if not weighted and domain.size <= MAX_HISTOGRAM_CELLS:
        moved = _MOVES * min(rows, domain.size) * len(domain)
        return _SECONDS.move * moved * (1 + domain.size / _SECONDS.far_cells)
    return _SECONDS.synopsis + _SECONDS.exchange * rows * len(marginals(domain.shape, rows))


def table_forecast(release: Release, rows: int | None = None) -> str:
    """One line about the synthetic table of a release, from what is released, where it takes long; else empty.

    rows  how many records it will have; None for as many as by default
    """
    if not release.has_table:
        return ""
    rows, domain = default_rows(release) if rows is None else rows, release.domain
    weighted = isinstance(release.synopsis, Weighted)
    taken = pace() * (_drawing_seconds(domain, rows, weighted=weighted) + _SECONDS.value * rows * len(domain))
    if taken <= _LONG:
        return ""
    return (
        f"the synthetic table will have {rows:,} records of {len(domain)} columns, about"
        f" {memory.size(round(rows * sum(map(_width, domain))))} as CSV; drawing and writing them takes about"
        f" {rough(taken)} s; --rows N writes fewer"
    )


def _width(attribute: Attribute) -> float:
    """About how many bytes a value of a column has in a CSV file, with the comma."""
    if attribute.kind == "date":
        return len("2000-01-31,")
    if attribute.kind == "number":
        return len(f"{max(map(abs, attribute.edges)):.0f},")
    codes = range(0, attribute.size, 1 + attribute.size // _LOOKED_AT)
    return sum(len(attribute.label(code).encode()) for code in codes) / len(codes) + 1


def seconds(mechanism: Forecasting, workload: Workload, cost: Cost, records: int, files: Files = Files()) -> float:
    """About how long a release takes with its files on this machine, now: the data are read by then."""
    return pace() * (mechanism.seconds(workload, cost, records) + files.seconds(mechanism, workload, records))


def takes_long(
    mechanism: Forecasting, workload: Workload, cost: Cost, records: int | None, files: Files = Files()
) -> bool:
    """Whether a release may take more than `NOTICED`, of as many records as `forecast` is for."""
    numbers = MAGNITUDES if records is None else (records,)
    return any(seconds(mechanism, workload, cost, n, files) > NOTICED for n in numbers)


def forecast(
    mechanism: Forecasting, workload: Workload, cost: Cost, records: int | None, files: Files = Files()
) -> str:
    """One line: about how many seconds a release takes on this machine, and how much memory.

    The data are read by then, and compiling, which only a first run does, is not counted.

    records  how many private ones there are, where that is public; None: the line is for some powers of ten
    """
    numbers = _TOLD if records is None else (records,)
    seconds_of = {n: rough(seconds(mechanism, workload, cost, n, files)) for n in numbers}
    first, *others = {*seconds_of.values()}
    times = f"{first} s"
    if others:
        each = [f"{taken} s with {n:,}" for n, taken in seconds_of.items()]
        times = f"{', '.join(each[:-1])} or {each[-1]} records (--records N, where that is public: for N)"
    drawing = "drawing synthetic records and " if why_no_table(mechanism, workload) is None else ""
    writing = f", with {drawing}writing files," if files.written else ""
    return (
        f"from here on {mechanism.name}{writing} takes about {times}, and"
        f" {memory.size(mechanism.memory(workload))} of memory"
    )


@dataclass(frozen=True)
class ReleaseForetold:
    """What a release will be like, and how long it will take, before it is charged: lines for people.

    choice  what `Auto` would take, and what a δ would gain; nothing of another mechanism
    times   how long it takes, and how much memory: of `Auto` where it takes long
    among   the mechanisms of which one will be taken; none where that is not known
    """

    choice: tuple[str, ...]
    times: tuple[str, ...]
    among: tuple[Mechanism, ...]


def foretold(
    mechanism: Mechanism,
    workload: Workload,
    cost: Cost,
    unit: Unit,
    records: int | None,
    files: Files = Files(),
    *,
    verbose: bool = False,
) -> ReleaseForetold:
    """What can be told of a release, from public facts, while it costs nothing to call it off.

    Where numbers are measured beside the workload, it is told of the part that answers the workload.

    records  how many private ones there are, where that is public
    verbose  whether it is said why `Auto` would take what it takes
    """
    whole = own = unit.of_a_record(cost)
    part, of_counts = None, ""
    if isinstance(mechanism, CountsByAnother) and mechanism.mechanism is not None:
        part = partial(mechanism.of_counts, workload, neighbours=unit.relation)
        own, mechanism, of_counts = part(whole), mechanism.mechanism, "counts: "
    choice: tuple[str, ...] = ()
    among: tuple[Mechanism, ...] = (mechanism,)
    chooses = isinstance(mechanism, Choosing)
    if isinstance(mechanism, Choosing):
        with elapsed("predicting errors"):
            found = mechanism.foretold(workload, whole, unit.relation, records, part)
        choice, among = found.lines if verbose else found.brief, found.among
    times = tuple(
        forecast(each, workload, own, records, files)
        for each in among
        if isinstance(each, Forecasting) and (not chooses or takes_long(each, workload, own, records, files))
    )
    told = [tuple(f"{of_counts}{line}" for line in lines) for lines in (choice, times)]
    return ReleaseForetold(told[0], told[1], among)
