"""Turns the JSON of analysts' questions into queries of a session, and describes the public schema to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import UNSET, json

from qrelease._util.typing import Axes
from qrelease.apps.server import shapes
from qrelease.data.conditions import cell_text, name_text
from qrelease.data.domain import Domain
from qrelease.data.predicates import Predicate, parse
from qrelease.errors import InvalidInput, TooLarge
from qrelease.mechanisms.online import hypothesis
from qrelease.mechanisms.online.canonical_group import CanonicalGroup
from qrelease.mechanisms.online.numbers import check_online
from qrelease.mechanisms.online.quotes import price_of
from qrelease.privacy import Neighbours
from qrelease.privacy.costs import Cost, cost_from_json
from qrelease.queries.families import Vectors
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Group, Workload
from qrelease.release.frames import cells_of
from qrelease.statistics.catalogue import IN_SESSIONS, as_a_statistic, parse_statistic

if TYPE_CHECKING:
    from qrelease.data.attribute import Attribute
    from qrelease.mechanisms.online.session import Online
    from qrelease.privacy.ledger import Ledger
    from qrelease.statistics.base import Statistic

MAX_CONDITION_CELLS: Final = 1 << 16
"""Cells of the marginal that one condition is about."""

MAX_ANSWERS: Final = 1000
"""Answers to one request."""


MIN_PRICE: Final = 1e-12
"""In ε or ρ: an estimate that costs less is of no use to anybody, and its error is beyond all floats."""

_OF_POINTS: Final = frozenset(IN_SESSIONS) - {"most-common", "above-thresholds", "independence-test", "fit-test"}
"""Statistics of the numbers of one column, however fine its grid; the others are of a table of cells."""

MAX_NUMBER_ENTRIES: Final = 1 << 20
"""Weights of a question about numbers: each group has a query of its own over all cells of the question's columns."""


@dataclass(frozen=True)
class PublicFacts:
    """What anybody with a token may know from the start.

    Parameters
    ----------
    domain
        The columns of the table and their cells.
    description
        The response to a request for the schema.
    """

    domain: Domain
    description: shapes.Domain

    @property
    def has_synthetic_records(self) -> bool:
        """Whether synthetic records are given: a session keeps no hypothesis over more cells than a bound."""
        return self.domain.size <= hypothesis.MAX_HYPOTHESIS_CELLS

    @cached_property
    def examples(self) -> shapes.Queries:
        """A query of each kind that can be asked of this table: see `example_queries`."""
        return shapes.Queries(list(example_queries(self.domain)))

    @classmethod
    def of(cls, domain: Domain, ledger: Ledger, mechanism: Online) -> PublicFacts:
        """The universe of a ledger's dataset, and what is promised of answers."""
        columns = [
            shapes.Column(
                a.name,
                a.kind,
                a.ordered,
                a.size,
                [cell_text(a, code) for code in range(min(a.size, MAX_ANSWERS))],
                a.missing[0] if a.missing else UNSET,
            )
            for a in domain
        ]
        person = UNSET if domain.person is None else shapes.Person(domain.person.column, domain.person.at_most)
        relation: Literal["add-remove", "replace-one"]
        relation = "add-remove" if ledger.neighbours is Neighbours.ADD_REMOVE else "replace-one"
        alpha, beta = mechanism.alpha, mechanism.beta
        return cls(domain, shapes.Domain(ledger.dataset, relation, alpha, beta, domain.size, columns, person))


def example_queries(domain: Domain) -> Iterator[shapes.Query]:
    """At most one query of each kind, in terms of the first columns that have one; a condition in any case."""
    columns = [a for a in domain if a.size > 1] or [*domain]
    found = [shapes.Query(where=" and ".join(cell_text(a, 0) for a in columns[:2]))]
    found += [shapes.Query(marginal=[a.name]) for a in columns]
    for a in columns:
        ends = _RANGE.fullmatch(cell_text(a, 0).removeprefix(name_text(a.name)))
        low, high = ends.groups() if ends else ("0", f"{a.size - 1}")
        found.append(shapes.Query(range=shapes.Range(a.name, low, high)))
    found += [shapes.Query(numbers=f"mean:{name_text(a.name)}") for a in columns]
    kinds = set[str]()
    for query in found:
        (kind,) = (name for name in shapes.QUERY_FORMS if getattr(query, name) is not UNSET)
        if kind in kinds or not _fits(query):
            continue
        try:
            read_question(domain, query)
        except (InvalidInput, TooLarge):
            continue
        kinds.add(kind)
        yield query


_GROUPED: Final = re.compile(r"(?P<kind>sum|mean)\s*:.+\sby\s.+", re.DOTALL)
_MAX_MEANT: Final = 256  # characters of a statistic that another one is told for

_RANGE: Final = re.compile(r" in ([^'\"]+)\.\.([^'\"]+)")


def _fits(query: shapes.Query) -> bool:
    """Whether it is within the bounds of its shape, which only what is read from JSON is sure to be."""
    try:
        return bool(shapes.read_json(json.encode(query), shapes.Query))
    except InvalidInput:
        return False


@dataclass(frozen=True)
class Question:
    """What a query of the API means: a condition, or all cells of a marginal. Nothing large is made before `group`.

    synopsis  whether a synopsis may be bought for it
    columns   those of a marginal, in the order that they were asked for
    """

    domain: Domain
    meant: Predicate | Workload
    synopsis: bool = True
    columns: tuple[str, ...] = ()

    @property
    def axes(self) -> Axes:
        """The positions of the columns that it is about."""
        return self.meant.axes if isinstance(self.meant, Predicate) else self.meant.sets[0]

    @property
    def cells(self) -> int:
        """Cells of the marginal that it is about."""
        return self.domain.cells(self.axes)

    @property
    def answers(self) -> int:
        """How many answers it has."""
        return 1 if isinstance(self.meant, Predicate) else self.cells

    @property
    def given(self) -> int:
        """How many of its answers are given: all."""
        return self.answers

    @cached_property
    def group(self) -> CanonicalGroup:
        """The queries as a session takes them."""
        if isinstance(self.meant, Predicate):
            row = self.meant.mask().astype(np.int64)
            return CanonicalGroup.of(self.domain, Group(self.meant.axes, Vectors(row[None, :], 1.0, self.texts)))
        return CanonicalGroup.of(self.domain, self.meant.groups[0])

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The condition of each answer, in its one fixed spelling."""
        return (str(self.meant),) if isinstance(self.meant, Predicate) else tuple(self.meant.texts())

    @cached_property
    def labels(self) -> tuple[dict[str, Any], ...]:
        """What each cell of a marginal is by the columns, one after the other; nothing of a condition."""
        if not self.columns:
            return ({},)
        names = self.domain.names
        cells = _groups(self.domain, [names[axis] for axis in self.axes])
        return tuple({name: cell[name] for name in self.columns} for cell in cells)


@dataclass(frozen=True)
class NumberQuestion:
    """What a query of the API means that asks for numbers by group, and how many of the groups are given.

    synopsis  as of `Question`
    """

    asked: NumericQuestion
    top: int | None = None
    synopsis: bool = True

    @property
    def cells(self) -> int:
        """Cells of the marginal that it is about."""
        return self.asked.domain.cells(self.asked.axes)

    @property
    def axes(self) -> Axes:
        """The positions of the columns that it is about."""
        return self.asked.axes

    @property
    def labels(self) -> Iterator[dict[str, Any]]:
        """What the group of each answer is by the columns; nothing without groups."""
        for group in _groups(self.asked.domain, self.asked.by):
            yield from [group] * max(len(self.asked.probabilities), 1)

    @property
    def answers(self) -> int:
        """How many answers it has: of each group, or each of its quantiles."""
        return self.asked.groups * max(len(self.asked.probabilities), 1)

    @property
    def given(self) -> int:
        """How many of its answers are given."""
        return self.answers if self.top is None else min(self.top, self.answers)


def _groups(domain: Domain, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What each cell of the marginal on some columns is by these, the cells of the last one in turn."""
    for cell in product(*(_cell_values(domain[name]) for name in names)):
        yield dict(zip(names, cell, strict=True))


def _cell_values(attribute: Attribute) -> list[Any]:
    """The value of each cell as JSON, or the label of its bin; None for a missing one."""
    cells = None if attribute.kind == "date" else cells_of(attribute)
    found = [*attribute.labels] if cells is None else cells.values.tolist()
    return [*found[: attribute.values], *[None] * (attribute.size - attribute.values)]


def read_question(domain: Domain, query: shapes.Query) -> Question | NumberQuestion:
    """What a query of the API means.

    `InvalidInput` for one that means nothing, `TooLarge` for one about too many cells.
    """
    synopsis = query.synopsis is UNSET or query.synopsis
    if query.marginal is not UNSET:
        cells = domain.cells(domain.axes(query.marginal))
        if cells > MAX_ANSWERS:
            raise TooLarge(f"the marginal has {cells:,} cells; at most {MAX_ANSWERS:,} are allowed")
        return Question(domain, Workload.marginals(domain, [query.marginal]), synopsis, tuple(query.marginal))
    if query.numbers is not UNSET:
        return _read_numbers(domain, query.numbers, None if query.top is UNSET else query.top, synopsis=synopsis)
    text = _range_text(query.range) if query.range is not UNSET else query.where
    assert text is not UNSET  # a query has one of the four
    found = Question(domain, parse(text, domain), synopsis)
    if found.cells > MAX_CONDITION_CELLS:
        raise TooLarge(
            f"the columns of the condition span {found.cells:,} cells; at most {MAX_CONDITION_CELLS:,} are allowed"
        )
    return found


def _read_numbers(domain: Domain, text: str, top: int | None, *, synopsis: bool) -> NumberQuestion:
    asked = NumberQuestion(NumericQuestion.parse(domain, text), top, synopsis)
    check_online(asked.asked)
    if top is not None and len(asked.asked.probabilities) > 1:
        raise InvalidInput("top: groups are ranked by one number each, and several quantiles are asked for")
    entries = asked.cells * asked.asked.groups
    if entries > MAX_NUMBER_ENTRIES:
        raise TooLarge(
            f"each of its {asked.asked.groups:,} groups has a query over all {asked.cells:,} cells of its columns,"
            f" together {entries:,} weights; at most {MAX_NUMBER_ENTRIES:,} are allowed: ask for fewer groups, in"
            " several questions or by fewer columns, or use a schema with coarser bins"
        )
    return asked


@dataclass(frozen=True)
class EstimateQuestion:
    """What a request for an estimate means: a statistic, and what it may cost."""

    statistic: Statistic
    cost: Cost


def read_estimate(domain: Domain, asked: shapes.EstimateQuery) -> EstimateQuestion:
    """What a request for an estimate means.

    `InvalidInput` for one that means nothing, and for a statistic that is not for analysts, of which nothing is made;
    `TooLarge` for one that may have more results than a response, or is about too many cells.
    """
    name = asked.statistic.partition(":")[0]
    if name not in IN_SESSIONS:
        raise InvalidInput(
            f"a statistic is NAME:COLUMN with a name of {', '.join(IN_SESSIONS)}, got {name[: shapes.MAX_SHOWN]!r}"
            f"{_statistic_meant(asked.statistic)}"
        )
    statistic = parse_statistic(asked.statistic)
    of_column = getattr(statistic, "column", "")
    if name in _OF_POINTS and of_column not in domain.names and (meant := _statistic_meant(asked.statistic)):
        raise InvalidInput(f"no column {of_column[: shapes.MAX_SHOWN]!r}{meant}")
    columns = getattr(statistic, "columns", None) or [
        getattr(statistic, part) for part in ("column", "first", "second") if getattr(statistic, part, "")
    ]
    cells = domain.cells(domain.axes(tuple(columns))) if name not in _OF_POINTS else 1
    if cells > MAX_CONDITION_CELLS:
        raise TooLarge(f"the columns span {cells:,} cells; at most {MAX_CONDITION_CELLS:,} are allowed")
    by = getattr(statistic, "by", ())
    counts = [getattr(statistic, part, 1) for part in ("positives", "k")] + [domain.cells(domain.axes(by))]
    given = max(n for n in counts if isinstance(n, int))
    if given > MAX_ANSWERS:
        raise TooLarge(f"an estimate has at most {MAX_ANSWERS:,} groups, got {given:,}")
    cost = cost_from_json(asked.cost)
    if price_of(cost) < MIN_PRICE:
        raise InvalidInput(f"an estimate costs at least {MIN_PRICE:g} in epsilon or rho, got {price_of(cost):g}")
    return EstimateQuestion(statistic, cost)


def _statistic_meant(text: str) -> str:
    """What a text that is a question about numbers, and no statistic, is asked as; else nothing."""
    if len(text) > _MAX_MEANT:
        return ""
    wanted = as_a_statistic(text)
    if wanted:
        return f" (did you mean {wanted}?)"
    grouped = _GROUPED.fullmatch(text.strip())
    if grouped is None:
        return ""
    by_groups = f'; {grouped["kind"]} takes no groups here: ask {{"numbers": {json.encode(text.strip()).decode()}}}'
    return (
        f"{by_groups} at /v1/query; groups of quantile are given as by=COLUMN, those above a threshold as"
        " above-thresholds:COLUMN,…,measure=mean,column=NUMBERS"
    )


def _range_text(asked: shapes.Range) -> str:
    name = '"' + asked.column.replace('"', '""') + '"'
    low, high = ("'" + text.replace("'", "''") + "'" for text in (asked.low, asked.high))
    return f"{name} in {low}..{high}"
