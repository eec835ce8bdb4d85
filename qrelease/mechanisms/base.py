"""What a mechanism and a session are, and what is handed between them: the contract for whoever adds one.

A mechanism is a frozen dataclass of public parameters with three members, `name`, `check` and `release`. Nothing is
inherited and nothing is registered: `Curator.release` takes any object that has them.

    @dataclass(frozen=True)
    class CountOnly:
        name = "count-only"

        def check(self, workload, cost, neighbours):
            if not isinstance(cost, PureDP | ZCDP):
                raise InvalidInput(f"count-only takes a pure epsilon or a rho, got {cost}")

        def release(self, private, workload, cost):
            total, measured = private.count(cost)
            ...
            return MechanismResult(synopsis, measurements)

What may never change, and what a mechanism must keep to:

1. `check` sees public values alone, and raises whatever can be known to be wrong. It is called before the charge.
2. In `release` every look at the table goes through `Private`, whose methods spend from the charge before they draw.
   What a mechanism draws in any other way it first pays for by `Private.spend`.
3. What is returned is public: nothing in the synopsis, the measurements and the choices may come from the table except
   through the noise. Errors raised in `release` may come from noisy and public values alone.
4. Parameters are public. They stand in the manifest as `plain` writes them, under names that are never changed: a class
   that is renamed keeps the name it is stored by in a class attribute `stored_name`, and a field in its metadata
   (`stored`).

Who holds the table and the budget is in `qrelease.release.curator`, and what is given away in
`qrelease.release.release`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from qrelease._util.typing import Axes
from qrelease._util.validate import kind_of
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, UnusableResult
from qrelease.inference.measurement import Measurement
from qrelease.inference.synopsis import OfMeasurements, Scaled, Synopsis
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.journals import Journal, SharedJournal
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.workload import Workload

if TYPE_CHECKING:
    from qrelease.inference.number_tables import MeasuredSums
    from qrelease.mechanisms.private_data import Private
    from qrelease.queries.measures import Measure


@dataclass(frozen=True)
class MechanismResult:
    """What a mechanism hands to the curator, all of it public.

    Parameters
    ----------
    synopsis : Synopsis
        What answers the workload and further queries, as counts. A release of a class of one's own cannot be saved,
        unless its `to_json` gives what a synopsis of the package gives.
    measurements : sequence of Measurement
        The noisy answers that were drawn, in the order of the draws; those that `fitted` made the synopsis of last.
    choices : mapping
        What the mechanism chose from public and noisy values, by name; the manifest lists it beside the parameters.
    constrained : bool
        Whether the synopsis respects the rules of the domain about impossible records.
    measured_sums : MeasuredSums, optional
        What was measured for questions about numbers.

    Examples
    --------
    >>> from qrelease.inference.histogram import Histogram
    >>> result = MechanismResult(Histogram(Domain.coded({"sex": 2}), [(0,)], 500.0), (), {"rounds": 0})
    >>> result.synopsis.answer(Workload.marginals(Domain.coded({"sex": 2}), 1))
    array([250., 250.])
    """

    synopsis: Synopsis
    measurements: Sequence[Measurement]
    choices: Mapping[str, Any] = field(default_factory=dict)
    constrained: bool = False
    measured_sums: MeasuredSums | None = None


def check_result(result: object, name: str) -> None:
    """`UnusableResult` for what is no `MechanismResult`, or one that no release can be made of.

    name  of the mechanism that returned it
    """
    told = _why_unusable(result, name)
    if told is not None:
        raise UnusableResult(told, result)


def _why_unusable(result: object, name: str) -> str | None:
    """What is wrong with what a mechanism returned, if anything is, and what to return instead."""
    whole = "its release must return MechanismResult(synopsis, measurements, choices), see qr.MechanismResult"
    if not isinstance(result, MechanismResult):
        return f"{name} returned {kind_of(result)}: {whole}"
    synopsis: object = result.synopsis
    lacking = [part for part in _SYNOPSIS if not hasattr(synopsis, part)]
    if lacking:
        return (
            f"{name} returned {kind_of(synopsis)} as the synopsis, which has no {' and no '.join(lacking)}: take"
            " what qr.fitted makes of the measurements, or a qr.WeightedRecords"
        )
    measured: object = result.measurements
    if not isinstance(measured, list | tuple) or not all(isinstance(part, Measurement) for part in measured):
        return f"{name} returned measurements that are no list of Measurement, as private.measure gives them"
    choices: object = result.choices
    if not isinstance(choices, Mapping):
        return f"{name} returned {kind_of(choices)} as the choices, which are a mapping of names to values"
    part = synopsis.synopsis if isinstance(synopsis, Scaled) else synopsis
    made_of = part.made_of if isinstance(part, OfMeasurements) else ()
    if made_of and {*map(id, made_of)} != {*map(id, measured[-len(made_of) :])}:
        return (
            f"{name} returned a synopsis that qr.fitted made of {len(made_of):,} measurements, and these are not the"
            f" last of the {len(measured):,} that it returned, of which a saved release makes it again: return"
            " MechanismResult(synopsis, tuple(measurements)), in which those that qr.fitted got are at the end (this"
            " error keeps them, as error.returned.synopsis.made_of)"
        )
    return None


_SYNOPSIS: Final = ("domain", "total", "has_table", "answer", "sample", "to_json")


@runtime_checkable
class Mechanism(Protocol):
    """A way to make a release for one charge: a frozen dataclass of public parameters.

    Examples
    --------
    Any object with these three members is one:

    >>> import qrelease as qr
    >>> from qrelease.mechanisms.base import Mechanism
    >>> isinstance(qr.Laplace(), Mechanism), isinstance(qr.Online(0.1, 0.05), Mechanism)
    (True, False)
    """

    @property
    def name(self) -> str:
        """The stored name: in the manifest, in the ledger and on the command line. It never changes."""

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise whatever can be known to be wrong before anything is charged or drawn.

        Parameters
        ----------
        workload : Workload
            The k queries to answer.
        cost : Cost
            What the release may cost: `PureDP`, `ApproxDP` or `ZCDP`.
        neighbours : Neighbours
            Which tables the promise compares.

        Raises
        ------
        InvalidInput
            For a workload or a cost that this mechanism cannot take.
        TooLarge, OutOfMemory
            For what never fits in memory, or does not fit now.
        """

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Draw noisy answers within the cost, and make a synopsis of them.

        Parameters
        ----------
        private : Private
            The table behind its budget: each of its methods spends before it draws.
        workload, cost
            As `check` had them.

        Returns
        -------
        MechanismResult
            The synopsis, the measurements and the public choices.

        Raises
        ------
        BudgetExceeded
            Where the draws would cost more than was charged.
        """


@runtime_checkable
class Untabled(Protocol):
    """A mechanism some of whose releases have answers, and no synthetic table."""

    def no_table(self, workload: Workload) -> str | None:
        """Why there will be no synthetic records.

        Parameters
        ----------
        workload : Workload
            The queries to answer.

        Returns
        -------
        str or None
            A reason from public facts; None where there will be synthetic records.
        """


@runtime_checkable
class OfParts(Protocol):
    """A mechanism that takes a table in which persons count once, each of their records in part (`privacy.unit`).

    All that it draws is noise on linear queries, or a choice by scores that move by no more than such queries do, with
    `Private.weight_bits` taken into account: its exact counts are no whole numbers of records.
    """

    counts_parts: ClassVar[bool]


def check_parts(mechanism: object, domain: Domain) -> None:
    """`InvalidInput` for a mechanism, or another kind of question, that takes no table in which persons count once."""
    if not domain.counts_once or (isinstance(mechanism, OfParts) and mechanism.counts_parts):
        return
    if isinstance(mechanism, OfValues):
        raise InvalidInput(
            "questions about numbers are measured by sums over records, and here each person counts once: leave out"
            " --numbers (a release of counts answers them, too: --workload marginals:…, with their columns), or set"
            ' weights = "records" in [person]'
        )
    raise InvalidInput(
        f"{getattr(mechanism, 'name', mechanism)} counts records, and here each person counts once: take a release by"
        ' laplace, gaussian, matrix, maxent, records or auto, or set weights = "records" in [person]'
    )


@runtime_checkable
class OfValues(Protocol):
    """A mechanism that reads the values of columns, which a table of bins alone does not have."""

    def measures(self, workload: Workload) -> Sequence[Measure]:
        """What is summed over the records.

        Parameters
        ----------
        workload : Workload
            The queries to answer.

        Returns
        -------
        sequence of Measure
            What a record adds to each table of sums.
        """


@runtime_checkable
class MeasuresNumbers(Protocol):
    """A mechanism that answers questions about numbers beside a workload of counts."""

    def measuring(self, asked: NumberWorkload) -> tuple[Mechanism, Workload]:
        """What measures the questions and the counts.

        Parameters
        ----------
        asked : NumberWorkload
            What is to be answered.

        Returns
        -------
        tuple of Mechanism and Workload
            Its `release` is asked for this workload of counts: those of the questions' groups where there are no
            others.

        Raises
        ------
        InvalidInput
            For a question that the mechanism has already.
        """


@runtime_checkable
class CountsMore(Protocol):
    """A mechanism that counts marginals of more columns together than a workload names."""

    def counted(self, workload: Workload) -> Sequence[Axes]:
        """The sets of columns that are counted.

        Parameters
        ----------
        workload : Workload
            The queries to answer.

        Returns
        -------
        sequence of tuple of int
            All that a release will count, or sets that are part of those of the workload.
        """


def sets_counted(mechanism: Mechanism, workload: Workload) -> list[Axes]:
    """The sets of columns that a release counts, or parts of which it counts: for who has counts alone."""
    return [*workload.sets, *(mechanism.counted(workload) if isinstance(mechanism, CountsMore) else ())]


def why_no_table(mechanism: Mechanism, workload: Workload) -> str | None:
    """Why a release will have no synthetic records, from public facts; None where it will have some."""
    return mechanism.no_table(workload) if isinstance(mechanism, Untabled) else None


def check_table(mechanism: Mechanism, workload: Workload) -> None:
    """Raise `InvalidInput` where a release would have no synthetic records: for who wants them, before the charge."""
    why = why_no_table(mechanism, workload)
    if why is not None:
        raise InvalidInput(f"a synthetic table is wanted, and {mechanism.name} would give none: {why}")


@dataclass(frozen=True)
class Answer:
    """The answer to one query, as a count.

    Attributes
    ----------
    value
        What the synopsis says: the one to use.
    noisy
        The unbiased noisy answer, where the query was measured; else NaN.
    error
        The half-width of the 95 % error bar around `noisy`; else NaN.
    model_error
        The same around `value`, where the synopsis is a model that can tell; else NaN.
    """

    value: float
    noisy: float
    error: float
    model_error: float = math.nan

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if math.isnan(self.error) and math.isnan(self.model_error):
            return f"{self.value:.1f} (no error bar: nobody can tell how far off it is)"
        said = f"{self.value:.1f}" + ("" if math.isnan(self.model_error) else f" ± {self.model_error:.1f}")
        return said if math.isnan(self.error) else f"{said} (measured {self.noisy:.1f} ± {self.error:.1f})"


@dataclass(frozen=True)
class OnlineAnswer:
    """The answer to one query of a session, as a count.

    Attributes
    ----------
    value
        The answer.
    error
        With the session's probability 1 - β the answer is off by at most this, a count. `pmw` promises it of all its
        answers together, `online` of each.
    source
        Whether it was `measured`, given before (`cached`), or read off the `hypothesis` that earlier answers made or a
        `synopsis` that was bought.
    cost
        What was charged for it; None if nothing was, or if one charge pays for the whole session.
    """

    value: float
    error: float
    source: Literal["cached", "hypothesis", "measured", "synopsis"]
    cost: Cost | None = None

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.1f} ± {self.error:.1f} ({self.source})"


class Session(Protocol):
    """An online mechanism at work: it answers an adaptive stream of queries. Closed by a `with`."""

    @property
    def key(self) -> str:
        """Its name in the ledger: `Curator.open` with this key goes on with it, in another process too."""

    @property
    def synopsis(self) -> Synopsis:
        """What it has learned so far: public, and free to ask anything. Later answers change it."""

    def answer(self, query: str | Workload) -> OnlineAnswer:
        """Answer one query. The answer is stored durably before it is returned.

        Parameters
        ----------
        query : str or Workload
            A condition, or a workload of one query. What was asked before has the same answer as before.

        Returns
        -------
        OnlineAnswer
            A count, and how far off it may be.

        Raises
        ------
        StreamHalted
            Where there are no more answers.
        LedgerError
            Where another process took the session over.
        """

    def close(self) -> None:
        """Give no more answers."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Opened = TypeVar("Opened", bound=Session, covariant=True)


@runtime_checkable
class OnlineMechanism(Protocol[Opened]):
    """A frozen dataclass of public parameters, from which `Curator.open` makes sessions."""

    @property
    def name(self) -> str:
        """The name that the ledger shows."""

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int | None) -> None:
        """Raise whatever can be known to be wrong before anything is charged or drawn.

        Parameters
        ----------
        domain : Domain
            The universe of the queries.
        cost : Cost
            What the session may cost.
        neighbours : Neighbours
            Which tables the promise compares.
        records : int or None
            The number of records n, where it is public.

        Raises
        ------
        InvalidInput, TooLarge
            For what this mechanism cannot do.
        """

    def open(self, private: Private, cost: Cost, journal: Journal) -> Opened:
        """Open a session, or resume one.

        Parameters
        ----------
        private : Private
            The table behind its budget: each of its methods spends before it draws.
        cost : Cost
            What the session may cost, as `check` had it. It is charged by now.
        journal : Journal
            What the session has written down so far, empty for a new one; a resumed one goes on where it ends.

        Returns
        -------
        Session
            Ready to answer.
        """


@runtime_checkable
class PayingMechanism(Protocol[Opened]):
    """An online mechanism whose sessions pay for each answer when it is asked, up to a cap."""

    @property
    def name(self) -> str:
        """The name that the ledger shows."""

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int | None) -> None:
        """Raise whatever can be known to be wrong before anything is charged or drawn.

        Parameters
        ----------
        domain, neighbours, records
            As in `OnlineMechanism.check`.
        cost : Cost
            The most that the session may spend.

        Raises
        ------
        InvalidInput, TooLarge
            For what this mechanism cannot do.
        """

    def join(self, private: Private, journal: SharedJournal) -> Opened:
        """Open a session, or join one that other processes may be in as well.

        Parameters
        ----------
        private : Private
            The table. What is drawn is drawn from a `Private` with a filter of its own, after that filter's total was
            bought.
        journal : SharedJournal
            What the session has bought so far, and the way to buy more, up to its cap.

        Returns
        -------
        Session
            Ready to answer.
        """


def plain(value: object) -> Any:
    """A public value as JSON has it.

    Numbers and arrays of numpy are Python's numbers and lists. What has a `to_json` describes itself. Another
    dataclass, such as an update rule, is its fields and its stored name; any other object is its stored name alone, for
    what it holds may be private by now.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "__qualname__"):
        return _stored_name(value, f"{value.__module__}.{value.__qualname__}")
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    kind = type(value)
    if is_dataclass(value):
        return {"type": _stored_name(kind, kind.__name__), **parameters(value)}
    if kind.__repr__ is object.__repr__:  # an address
        return _stored_name(kind, f"{kind.__module__}.{kind.__qualname__}")
    return repr(value)


def _stored_name(kind: object, otherwise: str) -> str:
    """The name that a class is stored by: its attribute `stored_name`, so that it can be renamed, or else its own."""
    return str(getattr(kind, "stored_name", otherwise))


def parameters(mechanism: Any) -> dict[str, Any]:
    """The public parameters of a mechanism, or of a part of one, by name, as JSON has them: the manifest lists them.

    A field whose `metadata` has `stored` is listed under that name: the one that it had when the format was made.
    """
    if not is_dataclass(mechanism):
        name = type(mechanism).__name__
        raise InvalidInput(
            f"{name} must be a dataclass of its public parameters: write @dataclass(frozen=True) above its class, and"
            f" each parameter as a field, as in `rounds: int = 5`"
        )
    return {f.metadata.get("stored", f.name): plain(getattr(mechanism, f.name)) for f in fields(mechanism)}
