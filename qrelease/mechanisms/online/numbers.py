"""Sums, means, variances, quantiles and shares by group in a session: of linear queries that it prices and remembers.

Let E = αr be the session's error, a count. Every question is answered from families of queries, one query a group or
several whose weights add up to at most 1, so that a record that is added or removed moves all of them together by at
most 1: a family costs what one answer by itself costs (and up to twice that in ε or ρ where a record is replaced, since
it may change groups). Each is a conjunction, or an average of conjunctions (`CanonicalQuery.weighted_sets`), so a
synopsis of conjunctions gives it too, free.

*Sums* are U Σ v⁺/U - L Σ v⁻/L for bounds -L <= v <= U: within (U + L)E. *Means* are S/(S + R) of the range, S the sum
of u = (v - low)/(high - low) over a group and R that of 1 - u: within E/(S + R), α of the range where the group is
everybody. *Shares* are of those that meet a condition and those that do not, in the same way, or of all, where the
condition is on several columns; *variances* are m(1 - m) - V/(S + R) of the square of the range, for the mean m and the
sum V of u(1 - u). What is said to hold follows from numbers that are each within E, with probability 1 - kβ for k
numbers a group.

No answer, and no end of an interval, is beyond what the column's bounds allow: a count is not below 0, and a sum not
below n times the least number of the column, nor above n times the largest, for the n that is known of the group.

*Bins* that hold several numbers count as their means. A number in the bin c may be as far from that as h(c), so a sum
is off by B = Σ h at most, a mean by B/(S + R), and a standard deviation by the root of Σ h²/(S + R), as it is the
distance from the records to the nearest constant. Where some bins are much wider than others, these sums are asked for
too, a family more: few records in a wide bin make the ends hardly further apart. Else every record counts with the
largest h.

Where a share's condition runs through bins of exact values, those that meet it are at least the records of the bins
that lie in it, and at most those of the bins that touch it.

*Quantiles* are found by halving: at each step a family asks how many records of each group are in the cells up to one
in the middle, which decides where each group goes on. The cell that is found has a rank within E(1 + p) of p N. They
pay step by step, and a synopsis is bought on the way only within what was quoted. What they lie between is read off
those numbers C(c), and those that are known besides: above every cell c with C(c) + E <= p(N - E) - 1, and up to every
one with C(c) - E >= p(N + E) + 1, to the ends of the bins. A count that is near p N decides where the halving goes on,
and not where the quantile cannot be. Where so no count rules anything out on one side, further ones are bought for that
side with what is left of the quote; where nothing is left, a note says so. The one record is for the definitions of a
quantile, which take the record before or behind the rank p N, or a point between the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, Protocol, final

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints, Mask
from qrelease.data.conditions import cell_text
from qrelease.data.domain import Domain
from qrelease.data.predicates import Predicate
from qrelease.errors import BudgetExceeded, InvalidInput, StreamHalted, TooLarge
from qrelease.mechanisms.base import OnlineAnswer
from qrelease.mechanisms.online.canonical_group import CanonicalGroup
from qrelease.mechanisms.online.quotes import Purse, Quote, price_of, total_cost
from qrelease.privacy.costs import ZCDP, Cost
from qrelease.queries.families import GRID, Vectors
from qrelease.queries.numeric import ONLY_BOUNDS, NumericQuestion, only_bounds
from qrelease.queries.workload import Group, Workload

MAX_ONLINE_ENTRIES: Final = 1 << 22
"""Entries of one family: groups times cells of its marginal."""

MAX_ONLINE_GROUPS: Final = 1000
"""Groups of a question in a session, times its quantiles."""

_WHOLE_RANGE: Final = 0.5
"""The same, from which on a mean that is in the middle may be anywhere: its sum is off by as much of the range."""

MAX_GROUP_ERROR: Final = 0.25
"""The error of a count, as a part of an average group, from which on a quote says that answers will be rough."""

ALIKE_BINS: Final = 0.5
"""Where the narrowest bin is wider than this part of the widest, each record is taken to be in the widest."""

CUT: Final = "the interval ends where the column's bounds end it, and so is not as wide on one side as on the other"
"""What is noted of a sum whose interval was cut to what is possible."""

ONE_END: Final = "one end of the interval is that of the column: no count that was bought rules out more on that side"
"""What is noted of a quantile that is not at that end itself."""

Source = Literal["cached", "hypothesis", "measured", "synopsis"]


class AnsweringSession(Protocol):
    """What a session does for a question: `OnlineSession`."""

    domain: Domain
    cost: Cost

    def answers(self, workload: Workload | CanonicalGroup, purse: Purse | None = None) -> list[OnlineAnswer]:
        """The answers to a workload."""

    def quotes(self, groups: Sequence[CanonicalGroup], purse: Purse | None = None) -> list[Quote]:
        """What the answers to each family would cost."""

    def price(self, group: CanonicalGroup) -> Cost:
        """What a family costs by itself."""

    def missing(self, group: CanonicalGroup) -> bool:
        """Whether the answer to some query of a family is not known."""

    def check_covered(self, costs: Sequence[Cost], purse: Purse | None = None) -> None:
        """Raise `BudgetExceeded` unless the budgets hold all of some costs."""


@final
@dataclass(frozen=True)
class NumberAnswer:
    """The answer to a question about numbers, of one group.

    Parameters
    ----------
    text
        The question about this group alone, as `mean:age where sex = 'F'`.
    value
        The answer.
    low, high
        What it lies between, with probability 1 - kβ for the k numbers that it is made of; of a quantile the ends of
        the bins that it may be in, as far as its rank may be off.
    source
        Where it came from, as in `OnlineAnswer`: the dearest of its parts.
    cost
        What was charged for it; None if nothing was. It stands with the first group.
    rank_error
        Of a quantile: how far its rank may be off, a count.
    note
        `ONLY_BOUNDS` where the answer may be anything that the column's bounds allow, `CUT` where the interval of a sum
        ends at them, `ONE_END` where that of a quantile does on one side; else nothing.
    """

    text: str
    value: float
    low: float
    high: float
    source: Source
    cost: Cost | None = None
    rank_error: float | None = None
    note: str = ""

    @property
    def error(self) -> float:
        """How far off the answer may be."""
        return max(self.high - self.value, self.value - self.low)

    def __str__(self) -> str:
        ends = f"{self.value:.6g} ({self.low:.6g} to {self.high:.6g})"
        told = ends if self.rank_error is None else f"{ends}, rank within {self.rank_error:.6g}"
        return f"{told}; {self.note}" if self.note else told


UP_TO: Final = "at most: a quantile is looked for step by step, and often takes a part of that"

EQUAL_GROUPS: Final = (
    "the quoted error is that of groups of one size, since theirs is private: of half as many records, twice as far off"
)

NONE_MISSING: Final = (
    "the quoted error is as if no record lacked the number, since how many do is private: where half lack it, twice as"
    " far off"
)

PRIVATE_SIZE: Final = (
    "no error is quoted, since it goes by how many records meet the condition, or are in the bins that it cuts, which"
    " is private: of half of all records it is twice as large as without a condition"
)


def forewarning(question: NumericQuestion, alpha: float, records: int) -> str:
    """What to know before a question is paid for; nothing where there is nothing to know.

    Answers about groups will be rough, if their records are as many as the average's: a count is off by alpha of all
    records at most, and divided among the groups that is public; the quoted error of a mean is of such groups, too. A
    quantile may cost less than its quote. Why no error is quoted is told, or that it is as if no number were missing.
    And wide bins may put the ends further apart than alpha does: by how much at most follows from the schema, and is
    told.
    """
    found = [UP_TO] if question.kind == "quantile" else []
    if question.groups > 1 and question.kind in ("mean", "ratio") and not _counts_some(question):
        found.append(EQUAL_GROUPS)
    if question.kind in ("sum", "mean", "variance") and _reaches(question, alpha):
        found.append(_wide(question, records))
    part = alpha * question.groups
    if question.groups > 1 and part >= MAX_GROUP_ERROR:
        found.append(_rough(question, alpha, part))
    if question.kind in ("mean", "ratio") and _counts_some(question):
        found.append(PRIVATE_SIZE)
    elif question.kind == "mean" and question.attribute.missing:
        found.append(NONE_MISSING)
    return "; ".join(found)


def _counts_some(question: NumericQuestion) -> bool:
    """Whether how many records count, or are in the bins that the condition cuts, is private."""
    return bool(question.where) or question.through_bins


def foretold_error(question: NumericQuestion, error: float, records: int) -> float | None:
    """About how far off the answers will be, for what is public: see `Quote.error`.

    error    how far off a count may be
    records  how many there are, as far as that is public
    """
    if question.kind in ("mean", "ratio") and _counts_some(question):
        return None
    part = min(error * question.groups / max(records, 1), 1.0)  # of a group
    match question.kind:
        case "count":
            return error
        case "sum":
            mean = question.values.mean
            far = error * float(max(mean.max(), 0.0) + max(-mean.min(), 0.0))
            return far + records * float(question.values.slack.max())
        case "mean":
            values = question.values
            return part * float(values.high.max() - values.low.min()) + float(values.slack.max())
        case "ratio":  # of what meets it and of what does not, or of what meets it and of all
            split = question.met is not None and len(question.met.axes) == 1
            return part if split else min(2 * part, 1.0)
    return None


def _reaches(question: NumericQuestion, alpha: float) -> bool:
    """Whether numbers may be further from their bins' means than a mean of everybody may be off by alpha."""
    values = question.values
    return float(values.slack.max()) > alpha * float(values.high.max() - values.low.min())


def _wide(question: NumericQuestion, records: int) -> str:
    """How much further off an answer may be by the bins of its column, and what to do about it."""
    values, attribute = question.values, question.attribute
    most, widest = float(values.slack.max()), int(values.slack.argmax())
    of = {"sum": "a sum", "mean": "a mean", "variance": "the root of a variance"}[question.kind]
    far = most * records if question.kind == "sum" else most
    return (
        f"a record tells no more of {question.column} than its bin: for that the ends of {of} are up to {far:,.6g}"
        f" further off on each side, less where few records are in the widest bins, as {cell_text(attribute, widest)};"
        " to have them nearer, the data's owner can give the schema narrower bins there: more edges in `bins`, or"
        " within, step and more bins"
    )


def _rough(question: NumericQuestion, alpha: float, part: float) -> str:
    little = "the answers may tell little"
    if question.kind not in ("sum", "count") and part >= _WHOLE_RANGE:
        little = "the intervals of most groups will be nearly the whole range that is possible"
    return (
        f"{question.groups:,} groups at alpha={alpha:g}: a count may be off by {part:.0%} of the records of an average"
        f" group, so that {little}; fewer groups, or a session with a smaller alpha, tell more"
    )


def check_online(question: NumericQuestion) -> None:
    """Raise `TooLarge` for a question that a session does not take, `InvalidInput` for a histogram."""
    if question.kind == "histogram":
        raise InvalidInput("a session gives counts of cells by itself: ask for the marginal, or for count by")
    lines = question.groups * max(len(question.probabilities), 1)
    if lines > MAX_ONLINE_GROUPS:
        raise TooLarge(f"{question} has {lines:,} answers; a session takes {MAX_ONLINE_GROUPS:,} at a time")
    entries = question.groups * question.domain.cells(question.axes)
    if entries > MAX_ONLINE_ENTRIES:
        raise TooLarge(f"{question} is of {entries:,} weights; at most {MAX_ONLINE_ENTRIES:,} are asked at a time")


def quote(session: AnsweringSession, question: NumericQuestion, purse: Purse | None = None) -> Quote:
    """The most that a question would cost now. Raises as the session's `quote` does, and where all is too much."""
    found = _quotes(session, Families(session.domain, question), purse)
    costs = [q.cost for q in found if q.cost is not None]
    session.check_covered(costs, purse)
    source = next((q.source for q in found if q.cost is not None), found[0].source)
    return Quote(total_cost(session.cost, costs), source)


def answer(session: AnsweringSession, question: NumericQuestion, purse: Purse | None = None) -> list[NumberAnswer]:
    """The answers to a question, one a group, or one for each of its quantiles, for no more than the quote.

    Raises as the session's `answer` does; what was bought before a budget ended is kept, and free when it is asked
    again.
    """
    families = Families(session.domain, question)
    most = _UpTo(_quotes(session, families, purse), purse)
    if question.kind == "quantile":
        return _Quantiles(session, families, most).answers()
    return _Linear(session, families, most).answers()


def price(session: AnsweringSession, question: NumericQuestion) -> Cost | None:
    """What the families of a question that are not known cost by themselves, whether or not that is covered."""
    families = Families(session.domain, question)
    wanted = [session.price(family) for family in families.fixed() if session.missing(family)]
    return total_cost(session.cost, wanted + _steps(session, families))


def parts(session: AnsweringSession, question: NumericQuestion) -> tuple[list[CanonicalGroup], list[Cost]]:
    """The families that are asked for a question whatever comes out, and what each step after them costs at most."""
    families = Families(session.domain, question)
    return families.fixed(), _steps(session, families)


def _quotes(session: AnsweringSession, families: Families, purse: Purse | None) -> list[Quote]:
    """What the families of a question would cost now that are asked whatever comes out, and each step after them."""
    return [*session.quotes(families.fixed(), purse), *(Quote(cost, "measured") for cost in _steps(session, families))]


def _steps(session: AnsweringSession, families: Families) -> list[Cost]:
    """What the steps of a search for quantiles cost at most that are not known, each at the price of one family."""
    question, records = families.question, families.records()
    if question.kind != "quantile":
        return []
    n = None if session.missing(records) else _values(session.answers(records))
    left = 0
    for p in question.probabilities:
        search = _QuantileSearch(families, p)
        while n is not None and not search.done and not session.missing(search.family):
            search.take(_values(session.answers(search.family)), n)
        left += search.steps
    return [session.price(families.prefixes(np.zeros(question.groups, np.int64)))] * left


def _values(answers: Sequence[OnlineAnswer]) -> Floats:
    return np.array([a.value for a in answers])


class _UpTo:
    """A purse that admits no more than was quoted, beside another."""

    def __init__(self, quoted: Sequence[Quote], inner: Purse | None) -> None:
        costs = [q.cost for q in quoted if q.cost is not None]
        self._inner = inner
        self._left = {kind: sum(price_of(c) for c in costs if isinstance(c, ZCDP) == kind) for kind in (True, False)}

    def admits(self, cost: Cost) -> None:
        if price_of(cost) > self._left[isinstance(cost, ZCDP)] * (1 + 1e-9):
            raise BudgetExceeded("it would cost more than was quoted; ask for a new quote")
        if self._inner is not None:
            self._inner.admits(cost)

    def spend(self, cost: Cost) -> None:
        self._left[isinstance(cost, ZCDP)] -= price_of(cost)
        if self._inner is not None:
            self._inner.spend(cost)


@final
class Families:
    """The queries of a question over the marginal on its columns, a family at a time.

    Raises `InvalidInput` and `TooLarge` as `check_online` does, and for a question over another domain.
    """

    def __init__(self, domain: Domain, question: NumericQuestion) -> None:
        if question.domain != domain:
            raise InvalidInput("the question is over another domain than the table")
        check_online(question)
        self.question, self.domain = question, domain
        self.axes: Axes = question.axes
        shape = [domain.shape[a] for a in self.axes]
        codes = np.indices(shape).reshape(len(shape), math.prod(shape))
        of = dict(zip(self.axes, codes, strict=True))
        by = [of[a] for a in question.by_axes]
        sizes = [domain.shape[a] for a in question.by_axes]
        self._group: Ints = np.ravel_multi_index(by, sizes) if by else np.zeros(math.prod(shape), np.int64)
        self._kept = np.ones(len(self._group), np.bool_)
        if question.predicate is not None:
            self._kept = self._spread(question.predicate, question.predicate.mask())
        self._column: Ints = np.zeros(len(self._group), np.int64)
        if question.column:
            self._column = of[domain.axis(question.column)]
            self._kept = self._kept & (self._column < question.attribute.values)
        self.cells = question.attribute.values if question.column else 1

    def _spread(self, predicate: Predicate, of_cells: Mask) -> Mask:
        """What is true of the cells of a condition's columns, over the marginal."""
        shape = [self.domain.shape[a] for a in self.axes]
        narrow = [n if a in predicate.axes else 1 for a, n in zip(self.axes, shape, strict=True)]
        return np.broadcast_to(of_cells.reshape(narrow), shape).reshape(-1)

    def _met(self, *, perhaps: bool = False) -> Mask:
        """Which cells have only records that meet the condition of a ratio; or, perhaps, some."""
        question = self.question
        assert question.met is not None
        share = question.met_values.high if perhaps else question.met_values.low
        return self._spread(question.met, share[question.met_cells] == 1)

    def _family(self, *weights: Floats) -> CanonicalGroup:
        """One query a group for each of the weights, (cells of the marginal,) in [0, 1], where the records count."""
        unit = 1.0 if all((w == np.rint(w)).all() for w in weights) else GRID
        rows = [np.where(self._kept, np.rint(w / unit), 0).astype(np.int64) for w in weights]
        groups = np.arange(self.question.groups)[:, None]
        family = np.concatenate([np.where(groups == self._group, row, 0) for row in rows])
        return CanonicalGroup.of(self.domain, Group(self.axes, Vectors(family, unit)))

    def _of_column(self, of_cells: Floats) -> Floats:
        """A number for each cell of the column, over the marginal."""
        return of_cells[np.minimum(self._column, len(of_cells) - 1)]

    def records(self) -> CanonicalGroup:
        """How many records of each group count."""
        return self._family(np.ones(len(self._group)))

    def weighted(self, of_cells: Floats) -> CanonicalGroup:
        """The sum of a number in [0, 1] for each cell of the column."""
        return self._family(self._of_column(of_cells))

    def divided(self, of_cells: Floats) -> CanonicalGroup:
        """The sum of a number in [0, 1] for each cell of the column, and after it that of what each lacks of 1."""
        return self._family(self._of_column(of_cells), self._of_column(1 - of_cells))

    def off(self, power: int) -> CanonicalGroup | None:
        """How far numbers may be from their cells' means, to this power: a sum for each part of `reach`, in its most.

        None where that is hardly less than how many records there are.
        """
        return self._family(*(self._of_column(part**power) for _, part in self.reach)) if self.reach else None

    def meeting(self, *, perhaps: bool = False) -> CanonicalGroup:
        """How many records meet the condition of a ratio: surely, or perhaps, where it runs through bins."""
        return self._family(self._met(perhaps=perhaps).astype(np.float64))

    @property
    def halves(self) -> bool:
        """Whether the records that meet the condition of a ratio and those that do not are conjunctions, both."""
        question = self.question
        return question.met is not None and len(question.met.axes) == 1 and not question.through_bins

    @property
    def partly(self) -> float:
        """About which part of the records meets the condition in the bins that it runs through."""
        met = self.question.met_values
        return float(met.mean[met.low < met.high].mean())

    def both(self) -> CanonicalGroup:
        """How many records meet the condition of a ratio, and after that how many do not."""
        met = self._met().astype(np.float64)
        return self._family(met, 1.0 - met)

    def prefixes(self, upto: Ints) -> CanonicalGroup:
        """How many records of each group are in the cells of the column up to one, (groups,)."""
        return self._family((self._column <= upto[self._group]).astype(np.float64))

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest number of the column."""
        return float(self.question.values.low.min()), float(self.question.values.high.max())

    def scaled(self) -> Floats:
        """Each cell's mean as a part of the range, (m,)."""
        low, high = self.bounds
        return (self.question.values.mean - low) / ((high - low) or 1.0)

    def signed(self) -> list[tuple[float, Floats]]:
        """The numbers of the cells as those above 0 and those below: a bound, and the parts of it, for each."""
        mean = self.question.values.mean
        found = [(float(v.max()), v / v.max()) for v in (np.maximum(mean, 0), np.maximum(-mean, 0)) if v.max() > 0]
        signs = [1.0] * bool((mean > 0).any()) + [-1.0] * bool((mean < 0).any())
        return [(sign * bound, parts) for sign, (bound, parts) in zip(signs, found, strict=True)]

    def fixed(self) -> list[CanonicalGroup]:
        """The families that are asked whatever comes out."""
        u = self.scaled() if self.question.kind in ("mean", "variance") else np.zeros(1)
        match self.question.kind:
            case "sum":
                parts = [self.weighted(part) for _, part in self.signed()]
                return parts if parts and not self.slack else [*parts, self.off(1) or self.records()]
            case "mean" | "variance" as kind:
                off = self.off(1 if kind == "mean" else 2)
                parts = [self.divided(u)] if kind == "mean" else [self.divided(u), self.weighted(u * (1 - u))]
                return parts if off is None else [*parts, off]
            case "ratio" if self.halves:
                return [self.both()]
            case "ratio":
                perhaps = [self.meeting(perhaps=True)] if self.question.through_bins else []
                return [self.meeting(), self.records(), *perhaps]
        return [self.records()]

    @property
    def slack(self) -> float:
        """The most that a number may be from its cell's mean."""
        return float(self.question.values.slack.max())

    @cached_property
    def reach(self) -> list[tuple[float, Floats]]:
        """How far numbers may be from their cells' means: the most, and parts of it, (m,), for some of the cells each.

        Nothing where bins are about as wide as each other, by the schema. Where they are narrowest in the middle, those
        before and those after it are told apart: each part is then an average of counts of ranges, which synopses know.
        """
        slack = self.question.values.slack
        if slack.min() >= ALIKE_BINS * slack.max():
            return []
        steps, is_before = np.diff(slack), np.arange(len(slack)) < slack.argmin()
        parts = [slack] if (steps >= 0).all() or (steps <= 0).all() else [slack * is_before, slack * ~is_before]
        return [(float(part.max()), part / part.max()) for part in parts if part.any()]

    def note(self, low: float, high: float) -> str:
        """What is noted of an answer between these ends."""
        return ONLY_BOUNDS if only_bounds(np.array(low), np.array(high), self.question.limits) else ""

    def texts(self) -> list[str]:
        """The question about each group alone."""
        question = self.question
        if not question.by:
            return [str(question)]
        labelled, found = [question.domain[name] for name in question.by], []
        for codes in question.group_codes():
            parts = [cell_text(a, code) for a, code in zip(labelled, codes, strict=True)]
            parts += [f"({question.where})" if " or " in question.where else question.where] if question.where else []
            head = str(question).partition(" by ")[0]
            found.append(f"{head} where {' and '.join(parts)}")
        return found


@final
class _Asked:
    """Answers of a session as arrays, with what they cost and where they came from."""

    def __init__(self, session: AnsweringSession, purse: Purse | None) -> None:
        self._session, self._purse = session, purse
        self._costs: list[Cost] = []
        self._sources: list[Source] = []
        self.error = 0.0

    def values(self, family: CanonicalGroup) -> tuple[Floats, Floats]:
        """The answers (k,) to a family and how far off each may be, counts."""
        found = self._session.answers(family, self._purse)
        self._costs += [a.cost for a in found if a.cost is not None]
        self._sources += [a.source for a in found]
        return np.array([a.value for a in found]), np.array([a.error for a in found])

    @property
    def cost(self) -> Cost | None:
        """What all of them cost."""
        return total_cost(self._session.cost, self._costs)

    @property
    def source(self) -> Source:
        """The dearest source of any of them."""
        order: tuple[Source, ...] = ("measured", "synopsis", "hypothesis", "cached")
        return next(s for s in order if s in self._sources)


@final
class _Linear:
    """Everything but quantiles."""

    def __init__(self, session: AnsweringSession, families: Families, purse: Purse | None) -> None:
        self._session, self._families, self._asked = session, families, _Asked(session, purse)
        self._cut = np.zeros(families.question.groups, np.bool_)  # whose interval ends at what is possible

    def answers(self) -> list[NumberAnswer]:
        makers: dict[str, Callable[[], tuple[Floats, Floats, Floats]]] = {
            "sum": self._sum,
            "mean": self._mean,
            "variance": self._variance,
            "ratio": self._ratio,
            "count": self._count,
        }
        value, low, high = makers[self._families.question.kind]()
        cost, source = self._asked.cost, self._asked.source
        rows = zip(self._families.texts(), value.tolist(), low.tolist(), high.tolist(), strict=True)
        notes = [
            self._families.note(*ends) or CUT * is_cut
            for *ends, is_cut in zip(low, high, self._cut.tolist(), strict=True)
        ]
        return [
            NumberAnswer(*row, source, cost if i == 0 else None, note=note)
            for i, (row, note) in enumerate(zip(rows, notes, strict=True))
        ]

    def _numbers(self, family: CanonicalGroup) -> tuple[Floats, Floats, Floats]:
        """The answers to a family and what they lie between: none is below 0."""
        values, error = self._asked.values(family)
        return np.maximum(values, 0.0), np.maximum(values - error, 0.0), np.maximum(values + error, 0.0)

    def _count(self) -> tuple[Floats, Floats, Floats]:
        return self._numbers(self._families.records())

    def _two(self, family: CanonicalGroup) -> tuple[tuple[Floats, Floats, Floats], ...]:
        """The answers to a family of two queries a group, those of the first and of the second."""
        found = [part.reshape(2, -1) for part in self._numbers(family)]
        return tuple((value, low, high) for value, low, high in zip(*found, strict=True))

    def _off_each(self, power: int, fewest: Floats) -> Floats:
        """How far numbers are off on average at most, to this power, where each group has at least so many records."""
        most = np.full(len(fewest), self._families.slack**power)
        if self._families.reach:
            with np.errstate(divide="ignore"):
                most = np.minimum(most, self._off(power) / fewest)
        return most

    def _off(self, power: int) -> Floats:
        """How far numbers are off together at most, to this power, in each group."""
        families = self._families
        family = families.off(power)
        if family is None:
            return families.slack**power * self._numbers(families.records())[2]
        each = np.array([far**power for far, _ in families.reach])
        return np.asarray(each @ self._numbers(family)[2].reshape(len(each), -1))

    def _sum(self) -> tuple[Floats, Floats, Floats]:
        families = self._families
        total, low, high = np.zeros((3, families.question.groups))
        parts = families.signed()
        for bound, part in parts:
            ends = [bound * x for x in self._numbers(families.weighted(part))]
            total, low, high = total + ends[0], low + np.minimum(ends[1], ends[2]), high + np.maximum(ends[1], ends[2])
        if not parts:  # every number is 0
            self._numbers(families.records())
        if families.slack:
            off = self._off(1)
            low, high = low - off, high + off
        least, most = self._possible_sums()
        self._cut = (low < least) | (high > most)
        return np.clip(total, least, most), np.clip(low, least, most), np.clip(high, least, most)

    def _possible_sums(self) -> tuple[Floats, Floats]:
        """The least and the largest sum that as many records can have as each group may have: free, or unlimited."""
        families = self._families
        records = families.records()
        fewest, largest = np.zeros(families.question.groups), np.full(families.question.groups, np.inf)
        if not self._session.missing(records):
            _, fewest, largest = self._numbers(records)
        least, most = families.bounds
        lowest = least * largest if least < 0 else least * fewest
        highest = most * largest if most > 0 else most * fewest
        return lowest, highest

    def _part(self, family: CanonicalGroup) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The part that the first of two queries has in both: its ends, and those of both; anything, if of none."""
        (s, s_low, s_high), (r, r_low, r_high) = self._two(family)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(s + r > 0, s / (s + r), 0.5)
            low = np.where(s_low + r_high > 0, s_low / (s_low + r_high), 0.0)
            high = np.where((s_high + r_low > 0) & (s_low + r_low > 0), s_high / (s_high + r_low), 1.0)
        return value, np.minimum(low, value), np.maximum(high, value), s_low + r_low, s_high + r_high

    def _mean(self) -> tuple[Floats, Floats, Floats]:
        families = self._families
        least, most = families.bounds
        *ends, fewest, _ = self._part(families.divided(families.scaled()))
        value, low, high = (least + (most - least) * part for part in ends)
        off = self._off_each(1, fewest)
        return value, np.maximum(low - off, least), np.minimum(high + off, most)

    def _ratio(self) -> tuple[Floats, Floats, Floats]:
        families = self._families
        if families.halves:
            return self._part(families.both())[:3]
        met, met_low, met_high = self._numbers(families.meeting())
        n, fewest, most = self._numbers(families.records())
        if families.question.through_bins:  # of the bins that it runs through nobody is in the least, all in the most
            all_met, _, met_high = self._numbers(families.meeting(perhaps=True))
            met = met + families.partly * np.maximum(all_met - met, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(n > 0, np.clip(met / n, 0, 1), 0.5)
            low = np.where(most > 0, np.clip(met_low / most, 0, 1), 0.0)
            high = np.where(fewest > 0, np.clip(met_high / fewest, 0, 1), 1.0)
        return value, np.minimum(low, value), np.maximum(high, value)

    def _variance(self) -> tuple[Floats, Floats, Floats]:
        families = self._families
        (least, most), u = families.bounds, families.scaled()
        m, m_low, m_high, fewest, largest = self._part(families.divided(u))
        v, v_low, v_high = self._numbers(families.weighted(u * (1 - u)))
        with np.errstate(invalid="ignore", divide="ignore"):
            within = np.where(fewest + largest > 0, np.clip(2 * v / (fewest + largest), 0, 0.25), 0.0)
            within_low = np.where(largest > 0, np.clip(v_low / largest, 0, 0.25), 0.0)
            within_high = np.where(fewest > 0, np.clip(v_high / fewest, 0, 0.25), 0.25)
        ends = [m_low * (1 - m_low), m_high * (1 - m_high)]
        peak = np.where((m_low <= 0.5) & (m_high >= 0.5), 0.25, np.maximum(*ends))
        spread, off = (most - least) ** 2, np.sqrt(self._off_each(2, fewest))
        value = spread * np.clip(m * (1 - m) - within, 0.0, 0.25)
        low, high = (spread * np.clip(x, 0.0, 0.25) for x in (np.minimum(*ends) - within_high, peak - within_low))
        low, high = np.maximum(np.sqrt(low) - off, 0.0) ** 2, np.minimum(np.sqrt(high) + off, spread**0.5 / 2) ** 2
        return value, np.minimum(low, value), np.maximum(high, value)


@final
class _Quantiles:
    """Quantiles by halving, of all groups at once."""

    def __init__(self, session: AnsweringSession, families: Families, purse: Purse) -> None:
        self._session, self._families, self._purse = session, families, purse
        self._asked = _Asked(session, purse)
        self._counted: list[tuple[Ints, Floats, Floats]] = []

    def answers(self) -> list[NumberAnswer]:
        question, texts = self._families.question, self._families.texts()
        n, error = self._asked.values(self._families.records())
        found = [(p, *self._cells(p, n)) for p in question.probabilities]
        within = [self._ends(p, cells, n, error) for p, cells, _ in found]
        values, cost, source = question.values, self._asked.cost, self._asked.source
        answers: list[NumberAnswer] = []
        for group, text in enumerate(texts):
            for (p, cells, off), (lows, highs) in zip(found, within, strict=True):
                cell, low, high = (int(codes[group]) for codes in (cells, lows, highs))
                ends = float(values.mean[cell]), float(values.low[low]), float(values.high[high])
                rank = float(off[group] + p * error[group])
                named = f"quantile({p!r}){text[text.index(':') :]}"
                is_open = low == 0 < cell or cell < high == self._families.cells - 1
                note = self._families.note(*ends[1:]) or (ONE_END if is_open else "")
                answers.append(NumberAnswer(named, *ends, source, None if answers else cost, rank, note))
        return answers

    def _cells(self, p: float, n: Floats) -> tuple[Ints, Floats]:
        """The first cell of each group up to which there are p of its records; and the largest error on the way."""
        search, most = _QuantileSearch(self._families, p), np.zeros(len(n))
        while not search.done:
            upto = search.middle
            running, error = self._asked.values(self._families.prefixes(upto))
            self._counted.append((upto, running, error))
            search.take(running, n)
            most = np.maximum(most, error)
        return search.high, most

    def _known(self, family: CanonicalGroup) -> tuple[Floats, Floats] | None:
        """The answers to a family and how far off each may be; None where they would have to be bought."""
        if self._session.missing(family):
            return None
        answers = self._session.answers(family)
        return _values(answers), np.array([a.error for a in answers])

    def _bought(self, family: CanonicalGroup) -> tuple[Floats, Floats] | None:
        """The same, bought if need be; None where no budget, or not what is left of the quote, holds that.

        That is looked at first: a sparse vector, which others paid for and which gives few answers, is not asked about
        what nobody can pay for.
        """
        try:
            self._session.quotes([family], self._purse)
            return self._asked.values(family)
        except (BudgetExceeded, StreamHalted):  # what was found holds without them
            return None

    def _ends(self, p: float, cells: Ints, n: Floats, error: Floats) -> tuple[Ints, Ints]:
        """The first and the last cell that the quantile of each group may be in, where it was found in these."""
        ends = _QuantileEnds(self._families, p, n, error)
        for counted in self._counted:
            ends.take(*counted)
        ends.narrow(self._known, cells)
        ends.narrow(self._bought, cells, only_open_sides=True)
        return np.minimum(ends.low, cells), np.maximum(ends.high, cells)


@final
class _QuantileEnds:
    """The cells, of each group, that its quantile lies in or between, by numbers that are as near as they say.

    Parameters
    ----------
    families
        The queries of the question.
    p
        Which quantile.
    n, error
        How many records each group has, (groups,), and how far off that may be.

    Attributes
    ----------
    low, high : ndarray of shape (groups,), int64
        The first and the last cell.
    """

    def __init__(self, families: Families, p: float, n: Floats, error: Floats) -> None:
        self._families = families
        fewest, most = np.maximum(n - error, 0.0), n + error
        self._below, self._upto = p * fewest - 1, np.minimum(p * most + 1, most)
        self.low = np.zeros(len(n), np.int64)
        self.high = np.full(len(n), families.cells - 1)
        self._last_asked = np.zeros(len(n), np.int64)

    def take(self, upto: Ints, running: Floats, error: Floats) -> None:
        """Learn how many records, (groups,), are in the cells up to one, and how far off that may be."""
        self._last_asked = upto
        is_above = (running + error <= self._below) | (running + error < 1)
        self.low = np.where(is_above, np.maximum(self.low, upto + 1), self.low)
        self.high = np.where(running - error >= self._upto, np.minimum(self.high, upto), self.high)

    def narrow(
        self,
        ask: Callable[[CanonicalGroup], tuple[Floats, Floats] | None],
        found: Ints,
        *,
        only_open_sides: bool = False,
    ) -> None:
        """Ask for more such numbers, by halving, below the cells that were found and from them on.

        ask              answers to a family and how far off they may be; None ends it
        found            the cells, (groups,)
        only_open_sides  only for the sides of groups on which nothing is ruled out yet
        """
        for is_low in (True, False):
            first, last = (self.low, found) if is_low else (found, self.high)
            while True:
                is_open = first < last
                if only_open_sides:
                    is_open &= (self.low == 0) if is_low else (self.high == self._families.cells - 1)
                if not is_open.any():
                    break
                middle = np.where(is_open, (first + last) // 2, self._last_asked)  # of others a number that is known
                answers = ask(self._families.prefixes(middle))
                if answers is None:
                    break
                self.take(middle, *answers)
                is_beyond = self.low > middle if is_low else self.high > middle
                first = np.where(is_open & is_beyond, middle + 1, first)
                last = np.where(is_open & ~is_beyond, middle, last)
                first = np.minimum(first, last)


@final
class _QuantileSearch:
    """The cells, of each group, that its quantile may still be in: `low` to `high`, halved at each step."""

    def __init__(self, families: Families, p: float) -> None:
        self._families, self._p = families, p
        self.low = np.zeros(families.question.groups, np.int64)
        self.high = np.full(len(self.low), families.cells - 1)

    @property
    def done(self) -> bool:
        """Whether one cell is left of each group."""
        return bool((self.low == self.high).all())

    @property
    def steps(self) -> int:
        """How many more there are."""
        return int((self.high - self.low).max()).bit_length()

    @property
    def middle(self) -> Ints:
        """Up to which cell of each group the records are counted next."""
        middle: Ints = (self.low + self.high) // 2
        return middle

    @property
    def family(self) -> CanonicalGroup:
        """What is asked next: how many records are in the cells up to the middle."""
        return self._families.prefixes(self.middle)

    def take(self, running: Floats, n: Floats) -> None:
        """Go on by its answers, where each group has so many records."""
        middle = self.middle
        enough = running >= self._p * n
        self.high = np.where(enough, middle, self.high)
        self.low = np.where(enough, self.low, np.minimum(middle + 1, self.high))
