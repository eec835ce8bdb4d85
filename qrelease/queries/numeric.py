"""Questions about numbers: sums, means, variances, quantiles, shares and histograms of a column, by group.

    question = kind ":" column [ "by" column { "*" column } ] [ "where" condition ]
    kind     = "sum" | "mean" | "variance" | "histogram" | "quantile" "(" probability { "," probability } ")"
             | "median", which is quantile(.5)
             | "ratio", whose column is a condition: the share of records for which it holds
             | "count", which has no column and no colon

as in `mean:arr_delay by carrier*origin where dep_delay >= 0`, `quantile(.5,.9):air_time by dest`,
`ratio:arr_delay > 15 by carrier`, `histogram:age` and `count by carrier`. Conditions are those of `data.predicates`;
names with other characters go in double quotes.

A record without a value in the column (its missing cell) is in no sum, mean, variance, quantile or histogram of it.
Where a schema clips, a value beyond the bounds counts as the nearest bound.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, final, get_args

import numpy as np

from qrelease._util.texts import meant, quoted
from qrelease._util.typing import Axes, Floats, Ints, Mask
from qrelease.data import predicates
from qrelease.data.bin_pieces import BinPieces
from qrelease.data.conditions import cell_text, name_text
from qrelease.data.spelling import shown
from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.queries.met_shares import met_shares
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.question_hints import questions_meant

if TYPE_CHECKING:
    from qrelease.data.domain import Attribute, Domain

Kind = Literal["sum", "mean", "variance", "quantile", "ratio", "histogram", "count"]

Label = str | float
"""What names a cell of a column: its label, or the number or truth value that this spells."""

MAX_GROUPS: Final = 1 << 16
"""Groups of one question, at most."""

MAX_PROBABILITIES: Final = 100
"""Quantiles of one question, at most."""

_EVEN: Final = 1e-9
"""The logarithm of a density that changes by less across a bin is even."""

_OF_NUMBERS: Final = ("sum", "mean", "variance", "quantile")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_HEAD: Final = re.compile(r"\s*(?P<kind>\w+)\s*(?:\((?P<inside>[^)]*)\))?\s*(?P<colon>:)?")
_PARTS: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|(?<![\w.])(?i:by|where)(?![\w.])""")
_QUOTED: Final = re.compile(r"""("(?:[^"]|"")*"|`(?:[^`]|``)*`)""")
_FORM: Final = (
    "a question is sum:COLUMN, mean:COLUMN, variance:COLUMN, median:COLUMN, quantile(.5,.9):COLUMN,"
    " ratio:CONDITION, histogram:COLUMN or count, each with `by COLUMN*COLUMN` and `where CONDITION` if wanted"
)


def _kind(word: str) -> Kind | None:
    """The kind that the first word of a question names; a median is a quantile, by default that of 0.5."""
    if word == "median":
        return "quantile"
    return next((kind for kind in get_args(Kind) if kind == word), None)


@final
@dataclass(frozen=True)
class CellValues:
    """The numbers that the value cells of a column stand for, each array (m,).

    low, high  the least and the largest number that a record in the cell may have
    mean       the mean of the cell, by the column's shape where it has one, else of its points
    square     the mean of the square
    """

    low: Floats
    high: Floats
    mean: Floats
    square: Floats

    @property
    def exact(self) -> bool:
        """Whether each cell holds a single number."""
        return bool((self.low == self.high).all())

    @property
    def slack(self) -> Floats:
        """How far a number of each cell may be from the cell's mean, (m,)."""
        found: Floats = np.maximum(self.mean - self.low, self.high - self.mean)
        return found


def check_numbers(attribute: Attribute, kind: str) -> None:
    """Raise `InvalidInput` unless a column holds numbers within public bounds, as a sum or a quantile needs."""
    name = attribute.name
    if attribute.kind == "category":
        named, share = name_text(name), ""
        if attribute.values:
            true = next((c for c, text in enumerate(attribute.categories) if text.lower() == "true"), 0)
            share = f", or for a share by ratio:{cell_text(attribute, true)}"
        holds = "holds texts"
        if attribute.values and all(map(_WHOLE.fullmatch, attribute.categories)):
            holds = "is listed as categories"
            share += f'; for a {kind} the schema needs kind = "number" with bins for it'
        raise InvalidInput(f"column {name!r} {holds} and has no {kind}; ask for count or histogram:{named}{share}")
    if attribute.kind == "date":
        asked = f"histogram:{name_text(name)}"
        raise InvalidInput(
            f"column {name!r} holds dates and has no {kind}; ask for {asked}, its counts by bin: of a release by"
            f" release.table({asked!r}), or `qrelease answer FOLDER {shlex.quote(asked)}`"
        )
    if attribute.undecided:
        raise InvalidInput(
            f"column {name!r} has no bins yet: give them in the schema, or learn them by `qrelease schema learn`"
        )


def cell_values(attribute: Attribute) -> CellValues:
    """What the cells of a column of numbers stand for, without the missing one.

    Raises
    ------
    InvalidInput
        For a column of texts or dates, and for one without bins.

    Examples
    --------
    >>> from qrelease.data.domain import Attribute
    >>> cell_values(Attribute("age", "number", edges=(0, 18, 65), integer=True)).mean.tolist()
    [8.5, 41.0]
    """
    check_numbers(attribute, "number")
    return _of_pieces(_pieces(attribute))


def _even(low: Floats, high: Floats, points: Floats) -> tuple[Floats, Floats]:
    """The mean and the mean square of so many evenly spaced points, (m,) each; ∞ for an interval."""
    middle = (low + high) / 2
    # The variance of p points from -1/2 to 1/2 is (p + 1)/(12 (p - 1)), of one point 0.
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(np.isinf(points), 1 / 12, np.where(points > 1, (points + 1) / (12 * (points - 1)), 0.0))
    return middle, middle**2 + (high - low) ** 2 * part


def _of_pieces(pieces: _Pieces) -> CellValues:
    """What the cells stand for that are made of these."""
    first = np.flatnonzero(np.diff(pieces.cells, prepend=-1))
    mean, square = (
        np.add.reduceat(pieces.shares * part, first) for part in _even(pieces.low, pieces.high, pieces.points)
    )
    low, high = pieces.low[first], np.append(pieces.high[first[1:] - 1], pieces.high[-1])
    return CellValues(low, high, np.clip(mean, low, high), square)


@final
@dataclass(frozen=True)
class _Pieces:
    """Runs of points in which values lie evenly, each array (r,), ascending.

    cells      the cell that each is in
    shares     the part that it has of its cell's records
    low, high  its first and last number
    points     how many points it has; ∞ for an interval
    """

    cells: Any
    shares: Floats
    low: Floats
    high: Floats
    points: Floats


def _pieces(attribute: Attribute) -> _Pieces:
    """The bins of a column of numbers, cut where its shape changes."""
    grid = attribute.grid
    if grid is not None:
        runs = BinPieces.of(attribute)
        low, high = grid.values(runs.starts), grid.values(runs.starts + runs.lengths - 1)
        return _Pieces(runs.cells, runs.shares, low, high, runs.lengths.astype(np.float64))
    if attribute.kind == "coded":
        low = high = np.arange(attribute.codes, dtype=np.float64)
        points = np.ones(len(low))
    else:
        low, high = np.array(attribute.edges[:-1]), np.array(attribute.edges[1:]) - attribute.whole
        points = high - low + 1 if attribute.whole else np.full(len(low), np.inf)
    return _Pieces(np.arange(len(low)), np.ones(len(low)), low, high, points)


def cell_quantiles(
    attribute: Attribute, counts: Floats, probabilities: Floats, together: Floats | None = None
) -> Floats:
    """The quantiles (groups, p) of records (groups, m) in the cells of a column; NaN for a group without any.

    Inside a bin records go by the column's shape where it has one. Else the logarithm of their density is a straight
    line, with the slope that it has from bin to bin: a group's quantile in a last bin of 300 to 800 is near 300 where
    the bins before it have ever fewer records. Noisy counts may be negative: the running counts are then those of the
    nearest ones that never fall (isotonic regression).

    Parameters
    ----------
    attribute
        The column, of numbers.
    counts
        Records of each group in each cell, (groups, m).
    probabilities
        Which quantiles, (p,).
    together
        Records whose density says how values lie inside bins, (m,); by default those of all groups together, which
        noise changes the least.

    Examples
    --------
    >>> from qrelease.data.domain import Attribute
    >>> age = Attribute("age", "number", edges=(0, 10, 20))
    >>> cell_quantiles(age, np.array([[3.0, 1.0]]), np.array([0.5, 0.875])).round(2).tolist()
    [[6.67, 14.15]]
    """
    pieces = _pieces(attribute)
    tilts = _tilts(pieces, counts.sum(axis=0) if together is None else together)
    split = _increasing(counts)[:, pieces.cells] * pieces.shares
    running = split.cumsum(axis=1)
    total = running[:, -1]
    found = np.full((len(counts), len(probabilities)), np.nan)
    for group in np.flatnonzero(total > 0):
        wanted = probabilities * total[group]
        place = np.searchsorted(running[group], np.maximum(wanted, running[group][running[group] > 0][0] * 1e-12))
        place = np.minimum(place, np.flatnonzero(split[group])[-1])
        inside = np.clip((wanted - running[group][place]) / split[group][place] + 1, 0, 1)
        found[group] = tilts.at(place, inside)
    return found


@final
@dataclass(frozen=True)
class _Tilts:
    """How values lie inside pieces: the logarithm of their density changes evenly, each array (r,).

    low, high      the first and the last number of each
    start, width   from where and how far its values are spread: half a step beyond its first and its last point
    change         by how much the logarithm of the density is larger at its end than at its start
    """

    low: Floats
    high: Floats
    start: Floats
    width: Floats
    change: Floats

    def at(self, place: Ints, inside: Floats) -> Floats:
        """The values up to which such parts of the records of some pieces are."""
        change = self.change[place]
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(np.abs(change) < _EVEN, inside, np.log1p(inside * np.expm1(change)) / change)
        found: Floats = np.clip(self.start[place] + far * self.width[place], self.low[place], self.high[place])
        return found


def _tilts(pieces: _Pieces, counts: Floats) -> _Tilts:
    """How records of the cells (m,) lie inside the pieces: evenly where the column's shape says where they are.

    At the edge of two bins the logarithm of the density is between those of their middles. Of the two slopes that a bin
    so has to its neighbours it takes the flatter one, and none where one goes up and the other down (the minmod
    limiter; Roe, *Characteristic-based schemes for the Euler equations*, 1986). The first bin and the last one have one
    neighbour; their density does not rise outwards, as it hardly does in tails, while noise may say so. A cell of a
    single number, which many may have, says nothing of those beside it.
    """
    several = pieces.points > 1
    steps = (pieces.high - pieces.low)[several] / (pieces.points[several] - 1)
    half = float(steps.min(initial=math.inf)) / 2 if several.any() else 0.0
    start, width = pieces.low - half, pieces.high - pieces.low + 2 * half
    change = np.zeros(len(width))
    if len(pieces.cells) == len(counts) and several.any():
        middle = start + width / 2
        density = np.log((np.maximum(counts, 0.0) + 1) / np.where(several, width, 1.0))
        slope = np.diff(density) / np.diff(middle)
        slope[~(several[1:] & several[:-1])] = np.nan
        before, after = np.append(np.nan, slope), np.append(slope, np.nan)
        before, after = np.where(np.isnan(before), after, before), np.where(np.isnan(after), before, after)
        flatter = np.where(np.abs(before) < np.abs(after), before, after)
        flatter[0], flatter[-1] = max(flatter[0], 0.0), min(flatter[-1], 0.0)
        change = np.where(several & (before * after > 0), flatter, 0.0) * width
    return _Tilts(pieces.low, pieces.high, start, width, change)


def _increasing(counts: Floats) -> Floats:
    """Counts (groups, m) that are not negative, with the nearest running counts."""
    if counts.min(initial=0.0) >= 0:
        return counts
    from scipy.optimize import isotonic_regression

    running = np.stack([isotonic_regression(row).x for row in counts.cumsum(axis=1)])
    return np.diff(np.maximum(running, 0.0), axis=1, prepend=0.0)


@final
@dataclass(frozen=True)
class NumericQuestion:
    """A question about the numbers of a column, by group: checked against the domain when it is made.

    Parameters
    ----------
    domain : Domain
        The universe of the records.
    kind : {"sum", "mean", "variance", "quantile", "ratio", "histogram", "count"}
        What is asked. A variance is that of the group's records, the mean square distance from their mean.
    column : str
        The column of numbers; of any kind for a histogram; empty for a ratio and a count.
    by : sequence of str
        The columns whose cells are the groups, in this order; missing cells are groups too.
    where : str
        A condition that the records meet; empty for all records, and where every record that there may be meets it.
    probabilities : sequence of float
        Which quantiles, each in [0, 1]; the median by default. For no other kind.
    threshold : str
        The condition of a ratio: which share of a group's records meets it. For no other kind.

    Raises
    ------
    InvalidInput
        For what means nothing over the domain: an unknown column, a text averaged, a quantile of 1.2, a column that is
        asked about and grouped by.
    TooLarge
        For more than 2^16 groups, or a marginal of more than 2^24 cells.

    Examples
    --------
    >>> from qrelease.data.domain import Domain
    >>> domain = Domain.coded({"age": 90, "sex": 2})
    >>> question = NumericQuestion.parse(domain, "mean:age by sex where age >= 18")
    >>> question.kind, question.by, question.groups
    ('mean', ('sex',), 2)
    >>> str(question)
    'mean:age by sex where age in 18..89'
    >>> NumericQuestion(domain, "quantile", "age", by=["sex"], probabilities=[0.25, 0.75]) == NumericQuestion.parse(
    ...     domain, "quantile(.25,.75):age by sex"
    ... )
    True
    """

    domain: Domain
    kind: Kind
    column: str = ""
    by: Sequence[str] = ()
    where: str = ""
    probabilities: Sequence[float] = ()
    threshold: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"a question asks for {', '.join(get_args(Kind))}, got {self.kind!r}")
        by: Any = self.by
        if not isinstance(by, Iterable):
            raise InvalidInput(f"by takes the name of a column, or a list of names, got {by!r}")
        object.__setattr__(self, "by", (by,) if isinstance(by, str) else tuple(by))
        self._check_column()
        self._check_by()
        self._check_conditions()
        object.__setattr__(self, "probabilities", self._checked_probabilities())
        cells = self.domain.cells(self.axes)
        if cells > predicates.MAX_MASK_CELLS:
            raise TooLarge(
                f"the columns of {str(self)!r} span {cells:,} cells; at most {predicates.MAX_MASK_CELLS:,} are allowed"
            )

    def _check_column(self) -> None:
        if self.kind in ("ratio", "count"):
            if self.column:
                told = "a condition, as in ratio:age > 17" if self.kind == "ratio" else "no column"
                raise InvalidInput(f"{self.kind} takes {told}, got the column {self.column!r}")
            return
        attribute = self.domain.attributes[_axis(self.domain, self.column)]
        if self.kind in _OF_NUMBERS:
            check_numbers(attribute, self.kind)
        elif attribute.undecided:
            raise InvalidInput(f"column {self.column!r} must be learned first, by `qrelease schema learn`")

    def _check_by(self) -> None:
        for name in self.by:
            apart = [part.strip() for part in name.split(",")] if isinstance(name, str) else []
            if name not in self.domain.names and len(apart) > 1 and set(apart) <= set(self.domain.names):
                joined = "*".join(map(name_text, apart))
                raise InvalidInput(f"no column {name!r}: columns are joined by *, as in by {joined}")
            if self.domain.attributes[_axis(self.domain, name)].undecided:
                raise InvalidInput(f"column {name!r} must be learned first, by `qrelease schema learn`")
            if name == self.column:
                raise InvalidInput(f"column {name!r} is asked about and grouped by: leave it out of one of them")
        if len(set(self.by)) != len(self.by):
            raise InvalidInput(f"a column is grouped by twice: {', '.join(self.by)}")
        if self.groups > MAX_GROUPS:
            raise TooLarge(f"by {'*'.join(self.by)} makes {self.groups:,} groups; at most {MAX_GROUPS:,} are allowed")

    def _check_conditions(self) -> None:
        if (self.kind == "ratio") != bool(self.threshold):
            told = "needs a condition, as in ratio:age > 17" if self.kind == "ratio" else "takes no threshold"
            raise InvalidInput(f"{self.kind} {told}")
        for part in ("where", "threshold"):
            text = getattr(self, part)
            if not isinstance(text, str):
                raise InvalidInput(f"{part} must be a condition, got {text!r}")
            if text.strip():
                read = predicates.parse if part == "where" else predicates.parse_finely
                found = read(text, self.domain)
                is_none = part == "where" and bool(found.mask().all())  # it holds of every record that there may be
                object.__setattr__(self, part, "" if is_none else str(found))

    def _checked_probabilities(self) -> tuple[float, ...]:
        given = self.probabilities
        if self.kind != "quantile":
            if len(given):
                raise InvalidInput(f"{self.kind} takes no probabilities")
            return ()
        found = (0.5,) if not len(given) else tuple(given)
        for p in found:
            if isinstance(p, bool) or not isinstance(p, int | float | np.floating) or not 0 <= p <= 1:
                raise InvalidInput(f"a quantile is of a probability from 0 to 1, got {p!r}")
        if len(found) > MAX_PROBABILITIES:
            raise InvalidInput(f"at most {MAX_PROBABILITIES} quantiles are asked at a time, got {len(found)}")
        return tuple(float(p) for p in found)

    @classmethod
    def parse(cls, domain: Domain, text: str) -> NumericQuestion:
        """The question that a text spells.

        Parameters
        ----------
        domain : Domain
            The universe.
        text : str
            In the language that `qrelease.queries.numeric` describes, such as `mean:age by sex`.

        Returns
        -------
        NumericQuestion
            Equal for all spellings of the same question.

        Raises
        ------
        InvalidInput
            For a text that is no question, and what the class raises; one line that says what is wrong, and which
            question was probably meant.
        """
        with _hint(domain, text):
            return cls(domain, **cls._parts(text))

    @classmethod
    def meant(cls, domain: Domain, text: str) -> str:
        """A question that a text which is none probably means.

        Parameters
        ----------
        domain : Domain
            The universe.
        text : str
            Such as `quantile:age,q=0.5` or `average age group by sex`.

        Returns
        -------
        str
            A question that `parse` takes; empty where none can be told.

        Examples
        --------
        >>> from qrelease.data.domain import Domain
        >>> NumericQuestion.meant(Domain.coded({"age": 90, "sex": 2}), "average age group by sex")
        'mean:age by sex'
        """
        for question in questions_meant(domain, text):
            with suppress(QReleaseError):
                cls(domain, **cls._parts(question))
                return question
        return ""

    @classmethod
    def of(cls, domain: Domain, asked: str | NumericQuestion | NumberWorkload) -> NumericQuestion:
        """The question that is asked: as a text, by itself, or as a workload of it alone.

        Parameters
        ----------
        domain : Domain
            The universe that texts are about.
        asked : str, NumericQuestion or NumberWorkload
            The question.

        Returns
        -------
        NumericQuestion

        Raises
        ------
        InvalidInput
            For anything else, for several questions, and what `parse` raises.
        """
        if isinstance(asked, str):
            return cls.parse(domain, asked)
        found = asked.single if isinstance(asked, NumberWorkload) else asked
        if not isinstance(found, NumericQuestion):
            raise InvalidInput(
                f"a question about numbers is a text, such as 'mean:age by sex', got {type(asked).__name__}"
            )
        return found

    @classmethod
    def _parts(cls, text: object) -> dict[str, Any]:
        """What a text says, by the names of the parameters of the class."""
        if not isinstance(text, str):
            raise InvalidInput(f"{_FORM}, got {type(text).__name__}")
        head = _HEAD.match(text)
        kind: Any = None if head is None else _kind(head["kind"])
        if head is None or kind is None:
            raise InvalidInput(f"{_FORM}, got {text!r}")
        takes_none = head["kind"] != "quantile"
        if (kind == "count") != (head["colon"] is None) or (head["inside"] is not None and takes_none):
            raise InvalidInput(f"{_FORM}, got {text!r}")
        parts = _clauses(text[head.end() :], text)
        given: dict[str, Any] = {"kind": kind, "by": tuple(_names(parts["by"])) if "by" in parts else ()}
        given |= {"where": parts.get("where") or "", "threshold": ""}
        if kind == "quantile":
            given["probabilities"] = _probabilities(head["inside"])
        asked = parts["asked"]
        if kind == "ratio":
            given["threshold"] = asked or ""
        elif kind == "count":
            given["column"] = asked
        else:
            columns = list(_names(asked)) if asked else [""]
            if len(columns) > 1:
                raise InvalidInput(f"a question is about one column, got {asked!r}")
            given["column"] = columns[0]
        return given

    @classmethod
    def before_learning(cls, domain: Domain, text: str, learned: Collection[str]) -> NumericQuestion:
        """A question as `parse` makes it, without conditions on columns of which more may be learned.

        Parameters
        ----------
        domain : Domain
            The universe as it may be once the columns are learned.
        text : str
            As `parse` takes it.
        learned : collection of str
            The names of the columns.

        Returns
        -------
        NumericQuestion
            The question, if no condition is about these columns. Else the one without that condition; the count for
            the share of records that meets it.

        Raises
        ------
        InvalidInput, TooLarge
            What `parse` would raise whatever is learned.
        """
        with _hint(domain, text):
            given = cls._parts(text)
            for part in ("where", "threshold"):
                condition = given[part]
                if not condition.strip():
                    continue
                read = predicates.before_learning if part == "where" else predicates.parse_finely
                about = read(condition, domain, learned).axes
                if not {domain.names[axis] for axis in about}.isdisjoint(learned):
                    given |= {part: ""} | ({"kind": "count"} if part == "threshold" else {})
            return cls(domain, **given)

    @classmethod
    def spells(cls, text: str, names: Collection[str] = ()) -> bool:
        """Whether a text begins as a question about numbers does, and not as a condition.

        Parameters
        ----------
        text : str
            Such as `mean:age`, `quantile(0.5):age` or `count by sex`.
        names : collection of str
            Those of the columns: a condition may begin with one that has a colon.

        Returns
        -------
        bool
            True also for a question that `parse` refuses: for what follows, or because there is no such kind.
        """
        head = _HEAD.match(text)
        if head is None:
            return False
        if head["kind"] == "count" and head["colon"] is None:
            return re.match(r"\s*count\s*($|(by|where)\b)", text) is not None
        if head["kind"] in get_args(Kind):
            return head["colon"] is not None
        return predicates.like_question(text, names)

    @classmethod
    def names_kind(cls, text: str) -> bool:
        """Whether a text begins as a question of a kind that there is, such as `mean:age`; narrower than `spells`.

        Parameters
        ----------
        text : str
            Any text, such as that of a workload, which may have a colon too.

        Returns
        -------
        bool
        """
        head = _HEAD.match(text)
        return head is not None and _kind(head["kind"]) is not None and cls.spells(text)

    def __str__(self) -> str:
        """The one spelling that `parse` makes the same question of."""
        inside = f"({','.join(map(repr, self.probabilities))})" if self.kind == "quantile" else ""
        asked = self.threshold or (name_text(self.column) if self.column else "")
        by = f" by {'*'.join(map(name_text, self.by))}" if self.by else ""
        where = f" where {self.where}" if self.where else ""
        return f"{self.kind}{inside}{':' if asked else ''}{asked}{by}{where}"

    def __repr__(self) -> str:
        return f"NumericQuestion({str(self)!r})"

    # What it is about

    @property
    def attribute(self) -> Attribute:
        """The column that is asked about; `InvalidInput` for a ratio and a count, which have none."""
        return self.domain[self.column]

    @cached_property
    def by_axes(self) -> Axes:
        """The positions of the grouping columns, in the order given."""
        return tuple(self.domain.axis(name) for name in self.by)

    @property
    def groups(self) -> int:
        """How many groups there are: 1 without `by`."""
        return self.domain.cells(self.by_axes)

    @cached_property
    def predicate(self) -> predicates.Predicate | None:
        """Which records are asked about; None for all."""
        return predicates.parse(self.where, self.domain) if self.where else None

    @cached_property
    def met(self) -> predicates.Predicate | None:
        """The condition of a ratio: over a domain of finer bins, where it runs through bins of exact values."""
        return predicates.parse_finely(self.threshold, self.domain) if self.threshold else None

    @property
    def through_bins(self) -> bool:
        """Whether the condition of a ratio runs through bins, so that counts of cells do not tell who meets it."""
        return self.met is not None and not self.met_values.exact

    @property
    def met_values(self) -> CellValues:
        """Which part of the records meets the condition of a ratio, in each kind of cell, (m,) from 1 down to 0.

        Two kinds, those that meet it and those that do not; and further ones, of bins that it runs through.
        """
        return self._met_cells[0]

    @property
    def met_cells(self) -> Ints:
        """The kind of each cell of the marginal on the columns of a ratio's condition, (cells,) in C order."""
        return self._met_cells[1]

    @cached_property
    def _met_cells(self) -> tuple[CellValues, Ints]:
        assert self.met is not None
        shares = met_shares(self.met, self.domain)
        both = np.array([[0.0, 1.0]] * 3)  # of which each is there, although no cell may be of it
        kinds, found = np.unique(np.concatenate([both, np.stack(shares)], axis=1), axis=1, return_inverse=True)
        low, mean, high = kinds[:, ::-1]
        cells = len(low) - 1 - found.reshape(-1)[2:]
        return CellValues(low, high, mean, np.minimum(mean, high)), cells.astype(np.int64)

    @cached_property
    def axes(self) -> Axes:
        """The positions of all columns that it depends on, ascending: the marginal on them answers it."""
        found = {*self.by_axes}
        found |= {self.domain.axis(self.column)} if self.column else set()
        for predicate in (self.predicate, self.met):
            found |= set(predicate.axes) if predicate is not None else set()
        return tuple(sorted(found))

    @cached_property
    def values(self) -> CellValues:
        """The numbers that the value cells of the column stand for."""
        return cell_values(self.attribute)

    @property
    def bins_told(self) -> str:
        """That quantiles read off counts of bins are known no nearer than a bin, and how wide these are.

        Empty for other kinds, and where each cell is a single number.
        """
        if self.kind != "quantile" or self.values.exact:
            return ""
        widths = np.diff(self.attribute.edges)
        least, most = float(widths.min()), float(widths.max())
        wide = f"{most:,.6g}" if math.isclose(least, most) else f"{least:,.6g} to {most:,.6g}"
        return (
            f"quantiles of {self.column} are read off counts of its bins, so their intervals are no narrower than a"
            f" bin, here {wide}: narrower bins, or an estimate (qr.Quantile, qr.TreeQuantiles; qrelease estimate), can"
            " give narrower ones"
        )

    @property
    def limits(self) -> tuple[float, float]:
        """What an answer lies between whatever the records are, by the column's bounds; ±∞ where these say nothing.

        A sum of numbers of which none is below 0 is not below 0 either, and of those not above 0 not above it.
        """
        if self.kind in ("mean", "quantile", "variance"):
            low, high = float(self.values.low.min()), float(self.values.high.max())
            return (0.0, (high - low) ** 2 / 4) if self.kind == "variance" else (low, high)
        if self.kind == "sum":
            least, most = float(self.values.low.min()), float(self.values.high.max())
            return (0.0 if least >= 0 else -np.inf, 0.0 if most <= 0 else np.inf)
        if self.kind == "count":
            return 0.0, np.inf
        return (0.0, 1.0) if self.kind == "ratio" else (-np.inf, np.inf)

    def group_codes(self) -> Iterator[tuple[int, ...]]:
        """The codes of each group's cells, in the order of `by`."""
        return np.ndindex(*(self.domain.shape[a] for a in self.by_axes))

    def place(self, labels: Label | Sequence[Label]) -> int:
        """The position of a group among all groups.

        Parameters
        ----------
        labels : sequence of str, or str
            One for each grouping column; of a single column also the label itself. A number or a truth value stands for
            the category that is spelled as it.

        Returns
        -------
        int
            From 0, in C order of the grouping columns.

        Raises
        ------
        InvalidInput
            Where there is no such group.
        """
        texts = list(labels) if isinstance(labels, Iterable) and not isinstance(labels, str) else [labels]
        if not self.by or len(texts) != len(self.by):
            raise InvalidInput(f"a group of {str(self)!r} has {len(self.by)} labels, got {texts!r}")
        codes = []
        for text, axis in zip(texts, self.by_axes, strict=True):
            codes.append(_cell_of(self.domain.attributes[axis], text))
        return int(np.ravel_multi_index(codes, [self.domain.shape[a] for a in self.by_axes]))

    def tabulated(self, marginal: Floats) -> Floats:
        """How many records of each group are in each cell of the column.

        Parameters
        ----------
        marginal : ndarray of float, shape (cells,)
            The marginal on `axes`, flat in C order; counts.

        Returns
        -------
        ndarray of float, shape (groups, m)
            Without the missing cell. For a ratio m is 2, those that meet the condition, and those that do not; or more,
            see `met_values`. For a count it is 1.

        Examples
        --------
        >>> from qrelease.data.domain import Domain
        >>> domain = Domain.coded({"age": 3, "sex": 2})
        >>> question = NumericQuestion.parse(domain, "mean:age by sex where age >= 1")
        >>> question.tabulated(np.array([5.0, 6, 7, 8, 9, 10])).tolist()
        [[0.0, 7.0, 9.0], [0.0, 8.0, 10.0]]
        """
        cube = np.asarray(marginal, np.float64).reshape([self.domain.shape[a] for a in self.axes])
        if self.predicate is not None:
            cube = np.where(self._mask(self.predicate), cube, 0.0)
        if self.met is not None:
            of_cells = self.met_cells.reshape(self._broadcast(self.met))
            kinds = range(len(self.met_values.mean))
            return np.concatenate([self._by_group(np.where(of_cells == k, cube, 0.0)) for k in kinds], axis=1)
        return self._by_group(cube)

    def _by_group(self, cube: Floats) -> Floats:
        """A table on all columns summed to (groups, cells of the column)."""
        kept = [*self.by_axes, *([self.domain.axis(self.column)] if self.column else [])]
        away = tuple(i for i, a in enumerate(self.axes) if a not in kept)
        left = [a for a in self.axes if a in kept]
        table = np.asarray(cube.sum(axis=away)).transpose([left.index(a) for a in kept])
        found: Floats = table.reshape(self.groups, -1)
        return found[:, : self.attribute.values] if self.column else found

    def _mask(self, predicate: predicates.Predicate) -> Any:
        """Where a condition holds, of a shape that a table on `axes` is broadcast with."""
        return predicate.mask().reshape(self._broadcast(predicate))

    def _broadcast(self, predicate: predicates.Predicate) -> list[int]:
        """The shape in which what is known of a condition's cells goes with a table on `axes`."""
        return [self.domain.shape[a] if a in predicate.axes else 1 for a in self.axes]


ONLY_BOUNDS: Final = "too much noise for so few records: the interval is all that the column's bounds allow"
"""What is noted of a number of which `only_bounds` is true."""


def only_bounds(low: Floats, high: Floats, limits: tuple[float, float]) -> Mask:
    """Whether intervals are all that some limits allow, whatever was measured; not where these leave one number."""
    least, most = limits
    slack = 1e-9 * (most - least) if math.isfinite(most - least) else 0.0
    found: Mask = (low <= least + slack) & (high >= most - slack) & (most > least)
    return found


AT_A_BOUND: Final = "noise moved the value to a bound of the column: only the interval says something"
"""What is noted of a number of which `at_a_bound` is true."""

_WIDE: Final = 0.1  # the part of what limits allow, from which on an interval is wide


def at_a_bound(question: NumericQuestion, value: Floats, low: Floats, high: Floats) -> Mask:
    """Whether means, variances and shares are at a limit because noise moved them there, with wide intervals.

    What was measured is then beyond what is possible, and the nearest possible value tells nothing of the records; of a
    narrow interval it does. Not where an interval is all that is allowed, which `only_bounds` says.
    """
    if question.kind not in ("mean", "variance", "ratio"):
        return np.zeros(value.shape, np.bool_)
    least, most = question.limits
    slack = 1e-9 * (most - least)
    outer = (value <= least + slack) | (value >= most - slack)
    found: Mask = outer & (high - low > _WIDE * (most - least)) & ~only_bounds(low, high, question.limits)
    return found


@contextmanager
def _hint(domain: Domain, text: str) -> Iterator[None]:
    """Let a refusal of a text say first which question was probably meant, where that can be told."""
    try:
        yield
    except InvalidInput as wrong:
        question = NumericQuestion.meant(domain, text) if isinstance(text, str) else ""
        if not question:
            raise
        raise InvalidInput(f"{quoted(text)} is no question about numbers (did you mean {question}?): {wrong}") from None


def _axis(domain: Domain, name: object) -> int:
    """The position of a column; an unknown name is an error that says which is near."""
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a column is needed, one of {', '.join(map(name_text, domain.names))}")
    if name not in domain.names:
        names = ", ".join(map(name_text, domain.names))
        raise InvalidInput(f"no column {name!r}{meant(name, domain.names)}; there are {names}")
    return domain.axis(name)


def _cell_of(attribute: Attribute, label: object) -> int:
    """The cell of a label; a number or a truth value, as data frames have them, is the category that spells it."""
    text = str(label)
    if text in attribute.labels:
        return attribute.labels.index(text)
    if not isinstance(label, str) and attribute.kind == "category":
        spelled = attribute.listed(attribute.meaning(shown(label)))
        if len(spelled) == 1:
            return next(iter(spelled))
    raise InvalidInput(f"column {attribute.name!r} has no cell {label!r}{meant(text, attribute.labels)}")


def _clauses(rest: str, whole: str) -> dict[str, str]:
    """What is asked, and the parts after `by` and `where`, outside of quotes."""
    found, name, start = {"asked": ""}, "asked", 0
    for match in _PARTS.finditer(rest):
        word = match.group().lower()
        if word not in ("by", "where"):
            continue
        found[name] = rest[start : match.start()].strip()
        if word in found or "where" in found:
            raise InvalidInput(f"{word!r} stands twice or out of order in {whole!r}; {_FORM}")
        name, start = word, match.end()
        found[name] = ""
    found[name] = rest[start:].strip()
    for word in ("by", "where"):
        if word in found and not found[word]:
            raise InvalidInput(f"nothing follows {word!r} in {whole!r}")
    return found


def _names(text: str) -> Iterator[str]:
    """Column names between asterisks; one in quotes may have any characters."""
    pieces = _QUOTED.split(text)
    names, quoted = [""], [False]
    for i, piece in enumerate(pieces):
        if i % 2:
            names[-1] += piece[1:-1].replace(piece[0] * 2, piece[0])
            quoted[-1] = True
            continue
        first, *others = piece.split("*")
        names[-1] += first.strip()
        names += [other.strip() for other in others]
        quoted += [False] * len(others)
    for name in names:
        if not name:
            _no_name(text)
        yield name


def _no_name(text: str) -> NoReturn:
    raise InvalidInput(f"column names stand between asterisks, as in carrier*origin, got {text!r}")


def _probabilities(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"quantiles are of probabilities, as in quantile(.5,.9), got ({text})") from None
