"""The holder's study: one secret bit of some real people, attacked through answers given in several ways.

"Is rounding not enough?": the same questions are answered exactly, rounded, with small counts hidden, with records
swapped, with sticky noise, and from a release; each is attacked. Beside them stands what other people's records tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, final

import numpy as np

from qrelease._util.typing import CodeColumns, Floats, Mask
from qrelease._util.validate import natural
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.answered import Answered, Publisher, base_rate
from qrelease.evaluation.attacks.differencing import differencing
from qrelease.evaluation.attacks.inference import Guesser, infer
from qrelease.evaluation.attacks.publishers import Exact, Rounded, Sticky, Suppressed, Swapped
from qrelease.evaluation.attacks.reconstruction import least_squares, linear_programme, questions, reconstruct
from qrelease.evaluation.attacks.results import NotPrivate
from qrelease.evaluation.results import NOTICE
from qrelease.inference.sampling import generator
from qrelease.release.release import Release

PEOPLE = 2000
"""How many are attacked by default."""

_PROGRAMMED = 200
"""People that the linear programme is for: it takes a second for so many, and a minute for 2 000."""

_DIFFERED, _PAIRS = 1000, 10
"""People who are attacked by differences, and pairs of questions about each."""

_OTHER_PEOPLE = 100_000
"""Other people's records to learn from, at most."""

_READING = "What is guessed no better than from other people's records alone was not learned about these people."

_OTHERS_ALONE, _COMMONER = "other people's records alone", "the commoner bit for everybody"


@final
@dataclass(frozen=True)
class Recovered(NotPrivate):
    """What one attack recovered from one kind of answers. Not private.

    Attributes
    ----------
    answers, attack : str
        How the questions were answered, and how the answers were attacked.
    people : int
        Whose bits were guessed.
    recovered, base_rate : float
        The fraction of them guessed right, and the fraction who have the commoner bit.
    """

    answers: str
    attack: str
    people: int
    recovered: float
    base_rate: float


@final
@dataclass(frozen=True, repr=False)
class Study:
    """All attacks on one secret. Not private; its text is a table.

    Attributes
    ----------
    dataset : str
        Of the release.
    secret : str
        The condition that was guessed of each person.
    people, records : int
        How many were attacked, of how many.
    units : str
        What they are: "people", or "records" where a person has several.
    release : str
        The name of the release among the kinds of answers.
    population : float
        The fraction guessed right by who knows other people's records, and of each person all other columns; NaN where
        all people are attacked, so that there is nobody else.
    base_rate : float
        The fraction who have the commoner bit.
    rows : tuple of Recovered
    """

    dataset: str
    secret: str
    people: int
    records: int
    units: str
    release: str
    population: float
    base_rate: float
    rows: tuple[Recovered, ...]

    def __str__(self) -> str:
        attacks = [*dict.fromkeys(r.attack for r in self.rows)]
        kinds = [*dict.fromkeys(r.answers for r in self.rows)]
        found = {(r.answers, r.attack): r for r in self.rows}
        people = {a: next(r.people for r in self.rows if r.attack == a) for a in attacks}
        width = max(len(_OTHERS_ALONE), len(_COMMONER), *map(len, kinds))
        cells = [[_percent(found.get((k, a))).rjust(len(_head(a, people[a]))) for a in attacks] for k in kinds]
        lines = [
            NOTICE,
            f"{self.dataset}: whether {self.secret}, of {self.people:,} of {self.records:,} {self.units}.",
            f"How many are guessed right, by each attack (on so many {self.units}):",
            "  ".join(["answers".ljust(width), *(_head(a, people[a]) for a in attacks)]),
            *("  ".join([kind.ljust(width), *row]) for kind, row in zip(kinds, cells, strict=True)),
            f"{_OTHERS_ALONE.ljust(width)}  {_rate(self.population)}{self._why_no_others}",
            f"{_COMMONER.ljust(width)}  {_rate(self.base_rate)}",
            _READING,
        ]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def _why_no_others(self) -> str:
        """Why it is not known what other people's records tell, where it is not."""
        all_of = "all" if self.people == self.records else f"those {self.people:,} of"
        attacked = f"{all_of} {self.records:,} {self.units} are attacked"
        said = f"  ({attacked}, which leaves no others: attack fewer, --people)"
        return said if math.isnan(self.population) else ""

    def to_json_lines(self) -> str:
        """One JSON object a line for each attack, each with the notice."""
        return "\n".join(json.dumps(record) for record in self._records())

    def _records(self) -> Iterator[dict[str, Any]]:
        for row in self.rows:
            population = None if math.isnan(self.population) else self.population
            named = {"name": "attack", "dataset": self.dataset, "secret": self.secret}
            yield {**named, **row.to_json(), "population": population}

    def picture(self) -> str:
        """A drawing of what least squares recovered, as an SVG file."""
        from qrelease.evaluation.attacks.picture import Bar, draw_picture

        shown = [r for r in self.rows if r.attack == self.rows[0].attack]
        bars = [Bar(r.answers, r.recovered, safe=r.answers == self.release) for r in shown]
        marks = {"guessing the commoner answer": self.base_rate}
        if not math.isnan(self.population):
            marks["knowing other people's records"] = self.population
        return draw_picture(f"Secret bits recovered ({self.secret}, {self.people:,} {self.units})", bars, marks, NOTICE)


def _head(attack: str, people: int) -> str:
    return f"{attack} ({people:,})"


def _percent(row: Recovered | None) -> str:
    return "-" if row is None else _rate(row.recovered)


def _rate(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1%}"


@final
@dataclass(frozen=True, eq=False)
class FromRelease:
    """Answers from a release: the sum of each person's chance, by its synthetic records and all other columns."""

    name: str
    chances: Floats = field(repr=False)

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        return Answered(subsets @ self.chances, 0.0)


def study(
    table: Table,
    release: Release,
    secret: str,
    value: str | None = None,
    *,
    people: int = PEOPLE,
    seed: int = 0,
) -> Study:
    """Attack one secret bit of some people of a table, by answers given in several ways and by a release.

    By least squares, by differences, and, where cvxpy is installed (extra: attack), by a linear programme.

    Parameters
    ----------
    table : Table
        The true records that the release was made from, over its domain.
    release : Release
        One that has synthetic records.
    secret : str
        The column that the attacker does not know; she knows all others of each person.
    value : str, optional
        The cell of it that is guessed, by its label; by default the one that nearest to half of the people are in.
    people : int
        How many are attacked, a random sample of the table: of its records, where a person has several.
    seed : int
        Of the sample and the questions: nothing here is private.

    Raises
    ------
    InvalidInput
        For a table over another domain, a release without synthetic records, an unknown column or value.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.data.adult(["sex", "income"])
    >>> workload, cost = qr.Workload.marginals(table.domain, 2), qr.PureDP(1.0)
    >>> with qr.Ledger.open(None, cost, dataset="adult") as ledger:
    ...     release = qr.Curator(table, ledger).release(qr.MWEM(), workload, cost)
    >>> found = study(table, release, "income", people=100)
    >>> print(str(found).splitlines()[0])
    NOT PRIVATE: compares with the true table; do not publish
    >>> found.rows[0].answers, found.rows[0].recovered
    ('exact', 1.0)
    """
    if table.domain != release.domain:
        raise InvalidInput("the release is over other columns, labels or bins than the table")
    if not release.has_table:
        raise InvalidInput(f"an attack learns from synthetic records, and this release by {release.mechanism} has none")
    if len(table.domain) < 2:
        raise InvalidInput("an attacker knows all columns but the secret one, and this table has no other")
    axis = table.domain.axis(secret)
    code = _code(table, axis, value)
    rng = generator(seed)
    order = rng.permutation(len(table))
    chosen = order[: min(natural("people", people), len(table))]
    rest = order[len(chosen) :]
    if table.persons is not None:  # nobody's further records are other people's
        rest = rest[~np.isin(table.persons.codes[rest], table.persons.codes[chosen])]
    rest = rest[:_OTHER_PEOPLE]
    shape = [n for a, n in enumerate(table.domain.shape) if a != axis]

    def split(columns: Sequence[Any]) -> tuple[CodeColumns, Mask]:
        return [c for a, c in enumerate(columns) if a != axis], np.asarray(columns[axis] == code)

    attacked = split([c[chosen] for c in table.columns])
    codes, weights = release.weighted_codes(None, generator(seed))
    if not len(weights):
        raise InvalidInput("an attack learns from synthetic records, and this release has none: its total is 0")
    chances = Guesser.of(*split(codes), shape, weights).chances(attacked[0])
    others = split([c[rest] for c in table.columns])
    known = infer("other people", Guesser.of(*others, shape), attacked).members if len(rest) else math.nan
    name = f"this release ({release.mechanism}, {release.cost:.6g})"
    label = table.domain.attributes[axis].labels[code]
    return Study(
        release.dataset,
        f"{secret} is {label or 'missing'}",
        len(chosen),
        len(table),
        "people" if table.persons is None else "records",
        name,
        known,
        base_rate(attacked[1]),
        tuple(_attacks(attacked[1], name, chances, rng)),
    )


def _code(table: Table, axis: int, value: str | None) -> int:
    """The cell that is guessed: of its label, or the one with nearest to half of the records."""
    attribute = table.domain.attributes[axis]
    if value is not None:
        if value not in attribute.labels:
            raise InvalidInput(
                f"column {attribute.name!r} has no value {value!r}; its values are {_some(attribute.labels)}"
            )
        return attribute.labels.index(value)
    (counts,) = table.counts([(axis,)])
    return int(np.argmin(np.abs(counts - len(table) / 2)))


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels[:20]) + (", …" if len(labels) > 20 else "")


Maker = Callable[[int], Publisher]
"""The publisher that answers about the first so many people."""


def _attacks(secret: Mask, name: str, chances: Floats, rng: np.random.Generator) -> Iterator[Recovered]:
    """Every attack on every kind of answers."""
    makers: list[Maker] = [
        lambda n: Exact(secret[:n]),
        lambda n: Rounded(secret[:n], 5),
        lambda n: Rounded(secret[:n], 10),
        lambda n: Suppressed(secret[:n], 10),
        lambda n: Swapped(secret[:n], 0.1),
        lambda n: Sticky(secret[:n], 2.0),
        lambda n: FromRelease(name, chances[:n]),
    ]
    everybody = questions(len(secret), 2 * len(secret), rng)
    few = min(_PROGRAMMED, len(secret))
    some = questions(few, 4 * few, rng)
    for make in makers:
        found = reconstruct(make(len(secret)), secret, everybody, least_squares)
        yield Recovered(found.publisher, "least squares", len(secret), found.recovered, found.base_rate)
    if find_spec("cvxpy") is not None:
        for make in makers:
            found = reconstruct(make(few), secret[:few], some, linear_programme)
            yield Recovered(found.publisher, "linear programme", few, found.recovered, found.base_rate)
    targets = min(_DIFFERED, len(secret))
    for make in makers:
        told = differencing(make(len(secret)), secret, targets, np.random.default_rng(0), repeats=_PAIRS)
        yield Recovered(told.publisher, "differences", targets, told.recovered, told.base_rate)
