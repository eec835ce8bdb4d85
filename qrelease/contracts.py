"""What a mechanism, a synopsis and a session are, and what is handed between them: protocols and frozen values.

Whoever writes one of these needs this module alone; who holds the table and the budget is in `curator`, and what is
given away in `release`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from qrelease.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.histogram import Histogram
from qrelease.ledger import Journal, SharedJournal
from qrelease.measure import Measurement, Private
from qrelease.privacy import Cost, Neighbours
from qrelease.workload import Workload

Floats = npt.NDArray[np.float64]


@runtime_checkable
class Synopsis(Protocol):
    """Something public that answers queries."""

    @property
    def domain(self) -> Domain:
        """The universe its queries are over."""

    @property
    def total(self) -> float:
        """Its number of records: exact where that is public, else an estimate."""

    @property
    def has_table(self) -> bool:
        """Whether `sample` has records to give."""

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. `InvalidInput` for queries it cannot answer."""

    def sample(self, rows: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Codes of that many synthetic records, one (rows,) array a column. `InvalidInput` if it has none."""

    def to_json(self) -> dict[str, Any]:
        """A description from which `qrelease.load` makes it again."""


@runtime_checkable
class Estimator(Protocol):
    """A synopsis that knows the unbiased answers which all its measurements together give, and how far off they are."""

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """Answers (k,) and half-widths (k,) of their 95 % error bars, counts; NaN for queries it has no answers to."""


@runtime_checkable
class Model(Protocol):
    """A synopsis that knows how far off its own answers are."""

    def model_bars(self, workload: Workload) -> Floats:
        """Half-widths (k,) of 95 % error bars around what it answers, counts; NaN where it cannot tell."""


@runtime_checkable
class Tabulated(Protocol):
    """A synopsis that has a histogram over the whole universe, or fits one."""

    @property
    def histogram(self) -> Histogram:
        """What its records are drawn from. `TooLarge` for a universe that has none."""


@runtime_checkable
class Weighted(Protocol):
    """A synopsis that is records, each with a weight."""

    @property
    def codes(self) -> Iterable[npt.NDArray[np.integer[Any]]]:
        """The records, one array (r,) a column."""

    @property
    def weights(self) -> Floats:
        """(r,) non-negative, with sum 1."""


@dataclass(frozen=True)
class Draft:
    """What a mechanism hands to the curator: the synopsis, what was measured, and what it chose in public.

    constrained  whether it keeps to what the domain says is impossible
    """

    synopsis: Synopsis
    measurements: tuple[Measurement, ...]
    choices: Mapping[str, Any] = field(default_factory=dict)
    constrained: bool = False


@runtime_checkable
class Mechanism(Protocol):
    """A frozen dataclass of public parameters."""

    @property
    def name(self) -> str:
        """As in the manifest and on the command line."""

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise whatever can be known to be wrong before anything is charged or drawn."""

    def release(self, private: Private, workload: Workload, cost: Cost) -> Draft:
        """Draw, within the cost."""


@runtime_checkable
class Untabled(Protocol):
    """A mechanism whose releases may have answers alone."""

    def no_table(self, workload: Workload) -> str | None:
        """Why there will be no synthetic records, from public facts; None where there will be."""


def check_table(mechanism: Mechanism, workload: Workload) -> None:
    """`InvalidInput` where a release would have no synthetic records: for who wants them, before the charge."""
    why = mechanism.no_table(workload) if isinstance(mechanism, Untabled) else None
    if why is not None:
        raise InvalidInput(f"a synthetic table is wanted, and {mechanism.name} would give none: {why}")


@dataclass(frozen=True)
class Answer:
    """The answer to one query, as a count.

    value        what the synopsis says: the one to use
    noisy        the unbiased noisy answer, where the query was measured; else NaN
    error        the half-width of the 95 % error bar around `noisy`; else NaN
    model_error  the same around `value`, where the synopsis is a model that can tell; else NaN
    """

    value: float
    noisy: float
    error: float
    model_error: float = math.nan

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        said = f"{self.value:.1f}" + ("" if math.isnan(self.model_error) else f" ± {self.model_error:.1f}")
        return said if math.isnan(self.error) else f"{said} (measured {self.noisy:.1f} ± {self.error:.1f})"


@dataclass(frozen=True)
class OnlineAnswer:
    """The answer to one query of a session, as a count.

    error   with the session's probability 1 - β it is within that of the truth, a count; `pmw` promises it to all its
            answers together, `online` to each
    source  whether it was `measured`, given before (`cached`), or read off the `hypothesis` that earlier answers made
            or a `synopsis` that was bought
    cost    what was charged for it; None if nothing was, or if one charge pays for the whole session
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
        """The answer to a condition, or to a workload of one query; the same as before if it was asked before.

        Durable before it is returned. Raises `StreamHalted` when there are no more answers, `LedgerError` when another
        process took the session over.
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
        """As in the ledger."""

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int | None) -> None:
        """Raise whatever can be known to be wrong before anything is charged or drawn.

        records  n, where it is public
        """

    def open(self, private: Private, cost: Cost, journal: Journal) -> Opened:
        """A session within the cost, which goes on where the journal ends."""


@runtime_checkable
class PayingMechanism(Protocol[Opened]):
    """An online mechanism whose sessions pay for each answer when it is asked, up to a cap."""

    @property
    def name(self) -> str:
        """As in the ledger."""

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int | None) -> None:
        """As that of `OnlineMechanism`; the cost is the cap."""

    def join(self, private: Private, journal: SharedJournal) -> Opened:
        """A session within the journal's cap, one of perhaps several on it, which goes on where it ends.

        What it draws it draws from a `Private` with a filter of its own, after that filter's total was bought.
        """


def plain(value: object) -> Any:
    """A value as JSON has it. What it does not know describes itself: a rule, a distinguisher, a net, a user's own."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if is_dataclass(value):
        return {"type": type(value).__name__, **{f.name: plain(getattr(value, f.name)) for f in fields(value)}}
    if type(value).__repr__ is object.__repr__:  # an address; and what such an object holds may be private by now
        return f"{type(value).__module__}.{type(value).__qualname__}"
    return repr(value)


def parameters(mechanism: Mechanism) -> dict[str, Any]:
    """A mechanism's public parameters, by name, as JSON has them."""
    return {f.name: plain(getattr(mechanism, f.name)) for f in fields(mechanism)}  # type: ignore[arg-type]
