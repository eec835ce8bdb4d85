"""`Workload`: the linear queries that a release is to answer, and their sensitivities."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain, combinations, product
from math import comb
from typing import Any, Final, cast, overload

import numpy as np
import numpy.typing as npt

from qrelease._util.texts import meant, quoted
from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data import predicates
from qrelease.data.domain import Domain, check_domain
from qrelease.data.marginals.plan import MarginalPlan
from qrelease.errors import InvalidInput, TooLarge
from qrelease.queries.distinct_records import share
from qrelease.queries.families import Cells, Intervals, Queries, Residuals, Vectors
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.numeric import Kind, NumericQuestion
from qrelease.queries.products import Factor, IntegerRows, Product

MAX_QUERIES = 1 << 28
_MAX_SETS = 1 << 20
_KINDS: Final = ("marginals", "ranges", "prefixes", "boxes", "where")
_MAX_DIGITS = 9  # of a number of columns


@dataclass(frozen=True)
class Group:
    """A family of queries on the marginal of some columns.

    Attributes
    ----------
    axes
        Their positions, ascending.
    queries
        The family, over the cells of that marginal.

    Examples
    --------
    >>> Group((0, 2), Cells(6)).queries.count
    6
    """

    axes: Axes
    queries: Queries


@dataclass(frozen=True)
class Workload:
    """Linear queries over a domain, in groups that share a marginal. Answers are counts, in the groups' order.

    `len(workload)` is k, the number of queries; `a + b` asks both. Two families may share a query, as a marginal and a
    condition do that names one of its cells: it is measured and answered for each.

    Attributes
    ----------
    domain
        The universe.
    groups
        At least one family on a set of columns.

    Raises
    ------
    InvalidInput
        For a family that does not fit its columns, or is asked twice.
    TooLarge
        For more than 2^28 queries.

    Examples
    --------
    >>> domain = Domain.coded({"age": 4, "sex": 2, "income": 3})
    >>> workload = Workload.marginals(domain, 2) + Workload.prefixes(domain, "age")
    >>> len(workload), len(workload.sets)
    (30, 4)
    >>> next(workload.texts())
    'age = 0 and sex = 0'
    """

    domain: Domain
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise InvalidInput("a workload needs at least one query")
        self.domain.check_decided()
        seen: set[Group] = set()
        for group in self.groups:
            if list(group.axes) != sorted(set(group.axes)) or not set(group.axes) <= set(range(len(self.domain))):
                raise InvalidInput(f"a group needs distinct columns in the domain's order, got {group.axes}")
            if group.queries.cells != self.domain.cells(group.axes):
                raise InvalidInput(
                    f"queries over {group.queries.cells:,} cells do not fit a marginal of"
                    f" {self.domain.cells(group.axes):,}"
                )
            if group in seen:
                raise InvalidInput(f"the workload asks the same queries on {self.domain.named(group.axes)} twice")
            seen.add(group)
        if len(self) > MAX_QUERIES:
            raise TooLarge(f"the workload has {len(self):,} queries; at most {MAX_QUERIES:,} fit")

    @classmethod
    def marginals(cls, domain: Domain, k: int | Sequence[Sequence[str]]) -> Workload:
        """Ask for every cell of all k-way marginals, or of the marginals on chosen lists of columns.

        Parameters
        ----------
        domain
            The universe.
        k
            How many columns each marginal has; or lists of column names.

        Returns
        -------
        Workload

        Raises
        ------
        InvalidInput
            For an order that is not from 1 to the number of columns, and for an unknown column.
        TooLarge
            For more than 2^20 marginals, or 2^28 cells.
        """
        check_domain(domain)
        if isinstance(k, bool | np.bool_ | float | str | None):
            raise InvalidInput(f"marginals are asked by their order or as lists of columns, got {k!r}")
        if isinstance(k, int | np.integer):
            if not 1 <= k <= len(domain):
                raise InvalidInput(f"marginals of 1 to {len(domain)} of the columns exist, got {k}")
            if comb(len(domain), int(k)) > _MAX_SETS:
                raise TooLarge(f"{comb(len(domain), int(k)):,} marginals are too many; at most {_MAX_SETS:,} fit")
            sets = list(combinations(range(len(domain)), int(k)))
        else:
            sets = [domain.axes(names) for names in k]
        return cls(domain, tuple(Group(s, Cells(domain.cells(s))) for s in sets))

    @classmethod
    def ranges(cls, domain: Domain, column: str) -> Workload:
        """All m(m+1)/2 ranges of consecutive cells of an ordered column of m cells.

        Parameters
        ----------
        domain : Domain
            The universe.
        column : str
            The column.

        Returns
        -------
        Workload
            One group of queries, each with entries 0 and 1.

        Raises
        ------
        InvalidInput
            For a column that is unknown or not ordered.
        """
        return cls(domain, (_intervals(domain, column, prefixes=False),))

    @classmethod
    def prefixes(cls, domain: Domain, column: str) -> Workload:
        """All m ranges of an ordered column of m cells that begin at its first cell.

        Parameters
        ----------
        domain, column
            As in `ranges`.

        Returns
        -------
        Workload
            As `ranges` does.
        """
        return cls(domain, (_intervals(domain, column, prefixes=True),))

    @classmethod
    def boxes(cls, domain: Domain, columns: Sequence[str]) -> Workload:
        """All boxes on some ordered columns, such as `age in 30..39 and hours in 40..49`: one range for each column.

        Parameters
        ----------
        domain : Domain
            The universe.
        columns : sequence of str
            The columns.

        Returns
        -------
        Workload
            One group of queries, each with entries 0 and 1.

        Raises
        ------
        InvalidInput
            For a column that is unknown, not ordered, or named twice.
        """
        check_domain(domain)
        axes = domain.axes(columns)
        ranges = tuple(_ranges(domain, domain.names[a], prefixes=False) for a in axes)
        return cls(domain, (Group(axes, Product(ranges)),))

    @classmethod
    def predicates(cls, domain: Domain, *texts: str) -> Workload:
        """How many records meet each condition, as in `age in 30..39 and income = '>50K'`.

        Parameters
        ----------
        domain : Domain
            The universe.
        *texts : str
            Conditions, see `qrelease.data.predicates`.

        Returns
        -------
        Workload
            One query for each condition, in their order.

        Raises
        ------
        InvalidInput
            For a text that is no condition, or names a column or a value that there is not.
        """
        check_domain(domain)
        parsed = [predicates.parse(text, domain) for text in texts]
        return cls(domain, tuple(Group(p.axes, Vectors.of_predicate(p)) for p in parsed))

    @classmethod
    def vectors(cls, domain: Domain, vectors: npt.ArrayLike, columns: Sequence[str] | None = None) -> Workload:
        """Ask for explicit queries over the marginal on some columns.

        Parameters
        ----------
        domain
            The universe.
        vectors
            (k, cells), entries in [0, 1], over the cells in C order of the columns as named; rounded to multiples of
            2^-20.
        columns
            Their names; all columns by default.

        Returns
        -------
        Workload

        Raises
        ------
        InvalidInput
            For another shape, entries outside [0, 1], and a query that is there twice.
        """
        check_domain(domain)
        named = [domain.axis(n) for n in (domain.names if columns is None else columns)]
        axes = domain.axes(domain.names[a] for a in named)
        family = Vectors.rounded(vectors, domain.cells(axes))
        _, first, times = np.unique(family.rows, axis=0, return_index=True, return_counts=True)
        if (times > 1).any():
            raise InvalidInput(f"the workload asks query vector {int(first[times > 1].min())} twice")
        cube = family.rows.reshape(-1, *(domain.shape[a] for a in named))
        rows = cube.transpose(0, *(1 + named.index(a) for a in axes)).reshape(family.rows.shape)
        return cls(domain, (Group(axes, Vectors(np.ascontiguousarray(rows), family.unit)),))

    # Numbers: what these make is joined with counts by `+`

    @staticmethod
    def sums(
        domain: Domain, column: str | Sequence[str], by: str | Sequence[str] = (), where: str = ""
    ) -> NumberWorkload:
        """Sums of a column of numbers, by group: `sum:income by region where age >= 18`.

        Parameters
        ----------
        domain : Domain
            The universe.
        column : str or sequence of str
            The column; a question for each, of several.
        by : str or sequence of str
            The columns whose cells are the groups.
        where : str
            A condition that the records meet; empty for all records.

        Returns
        -------
        NumberWorkload
            To be released as it is, or with others: `Workload.marginals(…) + Workload.sums(…)`.

        Raises
        ------
        InvalidInput, TooLarge
            As `NumericQuestion` does.
        """
        return _asked(domain, "sum", column, by, where)

    @staticmethod
    def means(
        domain: Domain, column: str | Sequence[str], by: str | Sequence[str] = (), where: str = ""
    ) -> NumberWorkload:
        """Means of a column of numbers, by group: `mean:arr_delay by carrier*origin where dep_delay >= 0`.

        Parameters
        ----------
        domain, column, by, where
            As in `sums`.

        Returns
        -------
        NumberWorkload
            As of `sums`.

        Examples
        --------
        >>> domain = Domain.coded({"hours": 100, "sex": 2, "age": 90})
        >>> named = Workload.means(domain, "hours", by="sex", where="age >= 18")
        >>> named == Workload.numbers(domain, "mean:hours by sex where age >= 18")
        True
        """
        return _asked(domain, "mean", column, by, where)

    @staticmethod
    def variances(
        domain: Domain, column: str | Sequence[str], by: str | Sequence[str] = (), where: str = ""
    ) -> NumberWorkload:
        """Variances of a column of numbers, by group.

        Parameters
        ----------
        domain, column, by, where
            As in `sums`.

        Returns
        -------
        NumberWorkload
            As of `sums`.
        """
        return _asked(domain, "variance", column, by, where)

    @staticmethod
    def quantiles(
        domain: Domain,
        column: str | Sequence[str],
        probabilities: float | Sequence[float] = 0.5,
        by: str | Sequence[str] = (),
        where: str = "",
    ) -> NumberWorkload:
        """Quantiles of a column of numbers, by group: `quantile(.5,.9):air_time by dest`.

        Parameters
        ----------
        domain, column, by, where
            As in `sums`.
        probabilities : float or sequence of float
            Which ones; the median by default.

        Returns
        -------
        NumberWorkload
            As of `sums`.
        """
        wanted = tuple(probabilities) if isinstance(probabilities, Sequence) else (probabilities,)
        return _asked(domain, "quantile", column, by, where, wanted)

    @staticmethod
    def ratios(
        domain: Domain, condition: str | Sequence[str], by: str | Sequence[str] = (), where: str = ""
    ) -> NumberWorkload:
        """Shares of the records that meet a condition, by group: `ratio:arr_delay > 15 by carrier`.

        Parameters
        ----------
        domain, by, where
            As in `sums`.
        condition : str or sequence of str
            The condition; a question for each, of several.

        Returns
        -------
        NumberWorkload
            As of `sums`.
        """
        return _asked(domain, "ratio", condition, by, where)

    @staticmethod
    def numbers(domain: Domain, *texts: str) -> NumberWorkload:
        """Questions about numbers as texts, such as `mean:age by sex`, of any kind.

        Parameters
        ----------
        domain : Domain
            The universe.
        *texts : str
            As `NumericQuestion.parse` takes them.

        Returns
        -------
        NumberWorkload
            As of `sums`.

        Raises
        ------
        InvalidInput, TooLarge
            As `NumericQuestion.parse` does.
        """
        check_domain(domain)
        return NumberWorkload(domain, tuple(NumericQuestion.parse(domain, text) for text in texts))

    @classmethod
    def parse(cls, domain: Domain, text: str) -> Workload:
        """The workload that a command line spells.

        Parameters
        ----------
        domain
            The universe.
        text
            `marginals:3`, `marginals:age*sex,age*income`, `ranges:age`, `prefixes:age`, `boxes:age*hours`, or
            `where:age in 30..39`.

        Returns
        -------
        Workload

        Raises
        ------
        InvalidInput
            For any other text.

        Examples
        --------
        >>> Workload.parse(Domain.coded({"age": 4, "sex": 2}), "marginals:age*sex")
        Workload(8 queries on 1 marginal of age, sex)
        """
        kind, _, rest = text.partition(":")
        rest = rest.strip()
        match kind.strip():
            case "marginals" if rest.isdecimal() and len(rest) <= _MAX_DIGITS:
                return cls.marginals(domain, int(rest))
            case "marginals" if rest:
                return cls.marginals(domain, [[n.strip() for n in s.split("*")] for s in rest.split(",")])
            case "ranges" if rest:
                return cls.ranges(domain, rest)
            case "prefixes" if rest:
                return cls.prefixes(domain, rest)
            case "boxes" if rest:
                return cls.boxes(domain, [n.strip() for n in rest.split("*")])
            case "where" if rest:
                return cls.predicates(domain, rest)
        if NumericQuestion.names_kind(text):
            raise InvalidInput(
                f"{quoted(text.strip())} is a question about numbers: ask it by Workload.numbers, or --numbers"
            )
        raise InvalidInput(
            f"{_no_kind(domain, text)}a workload is marginals:K, marginals:a*b,c*d, ranges:COLUMN, prefixes:COLUMN,"
            f" boxes:a*b or where:CONDITION, got {text!r}"
        )

    @overload
    def __add__(self, other: Workload) -> Workload: ...
    @overload
    def __add__(self, other: NumberWorkload) -> NumberWorkload: ...
    def __add__(self, other: Workload | NumberWorkload) -> Workload | NumberWorkload:
        if isinstance(other, NumberWorkload):
            return NumberWorkload(other.domain, other.questions, _joined(self, other.counts))
        if other.domain != self.domain:
            raise InvalidInput("workloads over two different domains cannot be joined")
        return Workload(self.domain, self.groups + other.groups)

    def __len__(self) -> int:
        return sum(g.queries.count for g in self.groups)

    def __repr__(self) -> str:
        return f"Workload({self.said} of {', '.join(self.columns) or 'no column'})"

    @cached_property
    def sets(self) -> tuple[Axes, ...]:
        """The distinct sets of columns that queries are about, in order of first appearance."""
        return tuple(dict.fromkeys(g.axes for g in self.groups))

    def asks_within_one(self, sets: Iterable[Axes]) -> bool:
        """Whether the columns of each of some sets are all in one of those that queries are about.

        Parameters
        ----------
        sets : iterable of tuple of int
            Positions of columns.

        Returns
        -------
        bool
        """
        asked = {*self.sets}
        others = [s for s in sets if s not in asked]
        by_column: dict[int, list[set[int]]] = {}  # any one column of a set leaves few of those asked
        for axes in asked if others else ():
            for a in axes:
                by_column.setdefault(a, []).append({*axes})
        return all(any(within.issuperset(s) for within in by_column.get(s[0], ())) if s else asked for s in others)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that queries are about, in the domain's order."""
        about = {a for axes in self.sets for a in axes}
        return tuple(name for a, name in enumerate(self.domain.names) if a in about)

    @property
    def said(self) -> str:
        """How much is asked, for people: `136 queries on 1 marginal`."""
        queries, marginals = len(self), len(self.sets)
        return (
            f"{queries:,} {'query' if queries == 1 else 'queries'} on {marginals:,}"
            f" {'marginal' if marginals == 1 else 'marginals'}"
        )

    @cached_property
    def marginal_plan(self) -> MarginalPlan:
        """The plan by which a histogram gives all those marginals; chosen once."""
        return MarginalPlan.choose(self.domain.shape, self.sets)

    @cached_property
    def bounds(self) -> Ints:
        """Where the answers of each group begin, and the length of all, (groups + 1,)."""
        return np.cumsum([0, *(g.queries.count for g in self.groups)], dtype=np.int64)

    def cuts(self, most: int) -> list[tuple[int, int]]:
        """The workload's groups as consecutive runs of a limited number of queries.

        Parameters
        ----------
        most : int
            The number of queries that a run may have, unless it is a single group.

        Returns
        -------
        list of tuple of int
            For each run its first group, and the one after its last.
        """
        cuts, first = [], 0
        while first < len(self.groups):
            end = int(np.searchsorted(self.bounds, self.bounds[first] + most, "right"))
            cuts.append((first, max(end - 1, first + 1)))
            first = cuts[-1][1]
        return cuts

    def parts(self, most: int) -> Iterator[Workload]:
        """The same queries as smaller workloads, made of whole groups.

        Parameters
        ----------
        most : int
            The number of queries that a part may have, unless it is a single group.

        Returns
        -------
        iterator of Workload
            The workload itself, if it has no more.
        """
        cuts = self.cuts(most)
        if len(cuts) == 1:
            yield self
            return
        yield from (Workload(self.domain, self.groups[first:last]) for first, last in cuts)

    @cached_property
    def _slices(self) -> dict[Axes, slice]:
        offsets = self.marginal_plan.offsets
        return {s: slice(a, b) for s, a, b in zip(self.sets, offsets, offsets[1:], strict=False)}

    def table(self, marginals: npt.NDArray[Any], group: int) -> npt.NDArray[Any]:
        """The marginal that a group of queries reads.

        Parameters
        ----------
        marginals : ndarray, shape (cells,)
            All marginals, one after the other, as `marginal_plan` gives them.
        group : int
            The group, by position.

        Returns
        -------
        ndarray
            A view of its marginal, flat in C order.
        """
        return marginals[self._slices[self.groups[group].axes]]

    def answers(self, marginals: Floats) -> Floats:
        """The answers to all queries, from the marginals that they read.

        Parameters
        ----------
        marginals : ndarray of float, shape (cells,)
            All marginals, one after the other, as `marginal_plan` gives them; counts.

        Returns
        -------
        ndarray of float, shape (k,)
            Counts.
        """
        if len(marginals) == len(self) and all(isinstance(g.queries, Cells) for g in self.groups):
            return marginals  # the marginals are the answers
        parts = [g.queries.apply(self.table(marginals, i)) * g.queries.unit for i, g in enumerate(self.groups)]
        return np.concatenate(parts)

    def check_bounded(self) -> None:
        """Raise for queries that only mechanisms measure: residuals, whose entries are not within [0, 1].

        Raises
        ------
        InvalidInput
            Where a query of the workload has entries outside [0, 1].
        """
        if not all(g.queries.bounded for g in self.groups):
            raise InvalidInput("queries with entries outside [0, 1], as residuals have, cannot be asked for")

    def sensitivity(self, order: int, *, replace: bool) -> float:
        """The sensitivity, or a bound on it: how far one record can move the vector of all answers.

        Exact for one group, and where all groups are marginals; else the sum over groups, an upper bound. All units are
        powers of two, so the float is exact or, past 2^53, rounded up.

        Parameters
        ----------
        order
            1 for the L1 norm, 2 for the square of the L2 norm.
        replace
            Whether the record is replaced by another; else it is added or removed.

        Returns
        -------
        float
            In counts; squared counts under order 2.
        """
        total = 0.0
        for g in self.groups:
            total += g.queries.sensitivity(order, replace=replace) * g.queries.unit**order
        return total

    def moved(self, order: int, *, replace: bool) -> int | Fraction:
        """How far one record moves all answers together, as an exact number, in units of the finest grid of the groups.

        Joint for residuals, and for pairs of signs. Where records of a person differ in some columns, by order 2, it is
        the part of one record in what all of hers move together (`distinct_records`).

        Parameters
        ----------
        order : int
            1 for the sum of the absolute changes, 2 for the sum of their squares.
        replace : bool
            Whether a neighbour has another record in place of one, rather than one more or fewer.

        Returns
        -------
        int or Fraction
            In units, or for order 2 in units squared.
        """
        residuals = [(g.axes, g.queries) for g in self.groups if isinstance(g.queries, Residuals)]
        if replace and order == 2 and len(residuals) == len(self.groups):
            return squares_replaced(tuple(residuals))
        if replace and order == 2:
            signs = signs_replaced([(g.axes, g.queries) for g in self.groups])
            if signs is not None:
                return signs
        unit = min(g.queries.unit for g in self.groups)
        steps: list[int] = [
            g.queries.sensitivity(order, replace=replace) * int(g.queries.unit / unit) ** order for g in self.groups
        ]
        if order == 1 or replace or not self.domain.distinct:
            return sum(steps)
        parts = (share(self.domain, g.axes, g.queries) * n for g, n in zip(self.groups, steps, strict=True))
        return sum(parts, Fraction(0))

    def texts(self) -> Iterator[str]:
        """Each query as text, in the order of the answers."""
        for g in self.groups:
            yield from g.queries.texts(self.domain.project(g.axes)) if g.axes else ["all records"] * g.queries.count

    def to_json(self) -> list[dict[str, Any]]:
        """A plain description; `from_json` makes the same workload of it."""
        names = self.domain.names
        return [{"columns": [names[a] for a in g.axes], **g.queries.to_json()} for g in self.groups]

    @classmethod
    def from_json(cls, domain: Domain, content: Sequence[Mapping[str, Any]]) -> Workload:
        """The workload that `to_json` described.

        Parameters
        ----------
        domain : Domain
            The universe.
        content : sequence of dict
            What `to_json` gave.

        Returns
        -------
        Workload
            With the same queries, in the same order.

        Raises
        ------
        InvalidInput
            For a query that the domain cannot have.
        """
        return cls(domain, tuple(_group_from_json(domain, entry) for entry in content))


def _asked(
    domain: Domain,
    kind: Kind,
    columns: str | Sequence[str],
    by: str | Sequence[str],
    where: str,
    probabilities: Sequence[float] = (),
) -> NumberWorkload:
    """Questions of one kind about one or several columns; of shares, about conditions."""
    check_domain(domain)
    if isinstance(columns, str):
        columns = (columns,)
    if kind == "ratio":
        return NumberWorkload(domain, tuple(NumericQuestion(domain, kind, "", by, where, (), c) for c in columns))
    return NumberWorkload(domain, tuple(NumericQuestion(domain, kind, c, by, where, probabilities) for c in columns))


def _no_kind(domain: Domain, text: str) -> str:
    """What was meant by a text whose word before the colon is no kind of workload; else nothing."""
    word, colon, _ = (part.strip() for part in text.partition(":"))
    if not colon or word in _KINDS:
        return ""
    question = "" if f"{word}s" in _KINDS else NumericQuestion.meant(domain, text)
    told = f" (did you mean {question}?)" if question else meant(word, _KINDS)
    return f"{quoted(word)} is no kind of question{told}: "


def _joined(first: Workload, second: Workload | None) -> Workload:
    return first if second is None else first + second


def _ranges(domain: Domain, column: str, *, prefixes: bool) -> Intervals:
    attribute = domain[column]
    if not attribute.ordered:
        raise InvalidInput(f"column {column!r} has no order, so no ranges; declare `ordered = true` in the schema")
    return Intervals(attribute.values, attribute.size, prefixes)


def _intervals(domain: Domain, column: str, *, prefixes: bool) -> Group:
    check_domain(domain)
    return Group((domain.axis(column),), _ranges(domain, column, prefixes=prefixes))


def _group_from_json(domain: Domain, entry: Mapping[str, Any]) -> Group:
    columns = entry["columns"]
    match entry["type"]:
        case "cells":
            axes = domain.axes(columns)
            return Group(axes, Cells(domain.cells(axes)))
        case "ranges" | "prefixes" as kind:
            return _intervals(domain, columns[0], prefixes=kind == "prefixes")
        case "predicates":
            (group,) = Workload.predicates(domain, *entry["texts"]).groups
            return group
        case "vectors":
            axes = domain.axes(columns)
            rows = np.array(entry["rows"], np.int64)
            if rows.shape != (len(rows), domain.cells(axes)):
                raise InvalidInput(f"query vectors must have shape (k, {domain.cells(axes)}), got {rows.shape}")
            return Group(axes, Vectors(rows, float(entry["unit"])))
        case "rows":
            return Group(domain.axes(columns), IntegerRows(np.array(entry["rows"], np.int64), float(entry["unit"])))
        case "product":
            parts = [{**f, "columns": [c]} for f, c in zip(entry["factors"], columns, strict=True)]
            factors = (_group_from_json(domain, part).queries for part in parts)
            return Group(domain.axes(columns), Product(tuple(cast(Factor, f) for f in factors)))
        case "residuals":
            axes = domain.axes(columns)
            return Group(axes, Residuals(tuple(domain.shape[a] for a in axes), int(entry["multiplier"])))
    raise InvalidInput(f"a workload cannot have queries of type {entry['type']!r}")


_MAX_TRIED = 1 << 26  # residuals times sets of columns in which two records may differ: a second


_MAX_RESULTS = 16


@lru_cache(_MAX_RESULTS)
def squares_replaced(residuals: tuple[tuple[Axes, Residuals], ...]) -> int:
    """The largest sum of the squared distances of two records' columns, in units squared; exact or rounded up.

    residuals  distinct sets of columns, and what is measured of them

    It depends on the set of columns in which the records differ. All sets are tried, or, where columns of one length
    can be exchanged, one for each number of them; where even these are too many, each residual is taken at its own
    worst, an upper bound. Sums are of non-negative integers in floats: exact below 2^53, and else off by less than one
    part in 2^52 a term.
    """
    size = {a: n for axes, queries in residuals for a, n in zip(axes, queries.shape, strict=True)}
    columns = sorted(size, key=lambda a: (size[a], a))
    counts = Counter(size.values())
    exchangeable = _exchangeable(residuals, counts)
    tried = math.prod(n + 1 for n in counts.values()) if exchangeable else 1 << min(len(columns), 64)
    if tried * len(residuals) > _MAX_TRIED:
        return sum(queries.sensitivity(2, replace=True) for _, queries in residuals)
    apart = _firsts(counts) if exchangeable else np.array(list(product([0, 1], repeat=len(columns))))
    place = {a: i for i, a in enumerate(columns)}
    total = np.zeros(len(apart))
    for axes, queries in residuals:
        patterns = product([0, 1], repeat=len(axes))
        squares = [queries.replaced([n for n, off in zip(queries.shape, p, strict=True) if off]) for p in patterns]
        pattern = np.zeros(len(apart), np.int64)
        for a in axes:
            pattern = 2 * pattern + apart[:, place[a]]
        total += np.array(squares, np.float64)[pattern]
    worst = Fraction(float(total.max()))
    return int(worst) if worst < 1 << 53 else math.ceil(worst + worst * (len(residuals) + 1) / (1 << 52))


def signs_replaced(pairs: Sequence[tuple[Axes, Queries]]) -> int | None:
    """The same for products of the signs of two columns, distinct pairs of them; None for other queries.

    The sign of a column is +1 or -1 at each of its cells, and the same in all pairs. A product changes, by 2, where one
    of its signs changes and the other does not. If h of d signs change these are h (d - h) pairs, where all pairs are
    there, and a part of them, where not: at most ⌊d/2⌋⌈d/2⌉, and no more than there are. Each adds 2², in units
    squared. It is reached where all pairs are there and no sign is constant.
    """
    signs: dict[int, npt.NDArray[np.int64]] = {}
    for axes, queries in pairs:
        if not isinstance(queries, Product) or len(axes) != 2:
            return None
        for a, factor in zip(axes, queries.factors, strict=True):
            if not isinstance(factor, IntegerRows) or factor.count != 1 or (np.abs(factor.rows) != 1).any():
                return None
            if not np.array_equal(signs.setdefault(a, factor.rows), factor.rows):
                return None
    if len({axes for axes, _ in pairs}) < len(pairs) or len({queries.unit for _, queries in pairs}) > 1:
        return None
    half = len(signs) // 2
    return 4 * min(len(pairs), half * (len(signs) - half))


def _exchangeable(residuals: Sequence[tuple[Axes, Residuals]], counts: Counter[int]) -> bool:
    """Whether columns of one length can be exchanged: sets of the same lengths are all there, at one scale, or none."""
    scales = defaultdict(list)
    for _, queries in residuals:
        scales[tuple(sorted(queries.shape))].append(queries.scale)
    return all(
        len(set(found)) == 1 and len(found) == math.prod(math.comb(counts[n], k) for n, k in Counter(lengths).items())
        for lengths, found in scales.items()
    )


def _firsts(counts: Counter[int]) -> npt.NDArray[np.int64]:
    """Sets of columns that stand for all sets with as many columns of each length: (sets, columns) of 0 and 1."""
    choices = [[[1] * k + [0] * (counts[n] - k) for k in range(counts[n] + 1)] for n in sorted(counts)]
    return np.array([[*chain(*parts)] for parts in product(*choices)], np.int64)


def single(group: Group, index: int) -> Group:
    """A group that has one query of a group alone."""
    queries = group.queries
    if queries.count == 1:
        return group
    if isinstance(queries, Vectors):
        return Group(group.axes, Vectors(queries.rows[index : index + 1], queries.unit))
    row = np.zeros(queries.count)
    row[index] = 1
    # Entries are below 2^53: exact as floats.
    return Group(group.axes, Vectors(np.rint(queries.adjoint(row)).astype(np.int64)[None, :], queries.unit))
