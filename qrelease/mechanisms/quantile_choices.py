"""Quantiles by group by the exponential mechanism: what it is expected to be off by, and the choices themselves.

`inference.chosen_quantiles` says what is chosen among, and why one choice in every group costs what one of everybody
does: the losses of two groups never depend on the same record, or, where one is replaced, each of two moves by at most
half of what they are taken to move by (`statistics.quantile`, *Groups*). Every quantile takes three choices, of the
value and of the two ends of its interval, for `_SHARES` of what the quantile may cost: ε adds up, and so does ρ, of
which the exponential mechanism at ε costs ε²/8. Where the unit is a person, costs here are those of one of her m
records, ε/m or ρ/m²: her m records move a loss by mΔ, so at that ε/m the choice has a bounded range of ε.

**What is expected**, of either way, from public facts alone, in ranks of a group squared:

- *groups* are of the sizes of Zipf's law, the k-th largest having a k-th of the largest's records: as many together as
  there are by the public number, else `ASSUMED` to a group, by which only the share is found where quantiles are to be
  chosen anyway. Errors are in parts of a group, as it is these that say how far a value is off, and those of groups of
  several sizes, squared, are added up: a way that loses the small groups is no good for the large ones' sake;
- *by counts*: the variance of the noise on the records up to the quantile less its part of all, as planned, where
  records are even over bins; and that a value is off inside its bin by a tenth of it, where the bin has several values:
  an assumption, as what it is off by depends on how records lie in the bin. In a bin wider than most it is a larger
  part, as wide bins are those that few records are in, at one end: of a last bin of 300 to 800 the middle says nothing.
  `benchmarks.numbers_quantiles` prints how often the better way is taken;
- *by choice*: the mean squared distance of the chosen cell, where the records are even over half of the cells, in the
  middle, and nobody is in the others: they are as far as so many of the dense cells, so that a choice far out is
  taken for as bad as it is. The quantile is anywhere in its cell, with the same chance: near an end of it the choice is
  easily of the next cell, so that no finite cost is predicted to buy the exact value. And that a value is off inside
  its cell.

Neither error is larger than that of a value drawn evenly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.errors import InvalidInput
from qrelease.inference.chosen_quantiles import CHOICES, PARTS, ChosenQuantiles, QuantileCells, exact_probability
from qrelease.mechanisms.private_data import SELECT, Private
from qrelease.noise.calibration import Rule, better_rule, selection_epsilon
from qrelease.privacy.costs import ZCDP, Neighbours, PureDP, Spend, split
from qrelease.queries.measures import Measure
from qrelease.queries.numeric import NumericQuestion

ASSUMED: Final = 1_000
"""Records of a group, where their number is not public."""

MAX_SCORED: Final = 1 << 22
"""Cells of all groups together that are scored for one question."""

_SHARES: Final = (4, 1, 1)
"""Of what a quantile may cost: for the value, and for each end of its interval."""

_BETA: Final = 0.05
"""With what probability an interval may miss, in each group."""

_OFF: Final = 0.1
"""Of a bin's width, by which a quantile read off counts is off inside it, where the bin has several values."""

_MOST_OFF: Final = 0.5
"""The same of a bin that is much wider than most."""

_TINY: Final = 1e-9

_SIZES: Final = 9
"""Groups, of all by their size, for which errors are predicted."""

_SLIGHT: Final = 0.02
"""Of a candidate cell: errors below it are alike."""

_DENSE: Final = 2
"""The records are in one of so many cells."""

_HALVINGS: Final = 12
_HALVED: Final = 0.75 * 2.0 ** -np.arange(1, _HALVINGS + 1)
_PLACES: Final = np.concatenate([_HALVED, 1 - _HALVED])
_CHANCES: Final = np.tile(2.0 ** -np.arange(1, _HALVINGS + 1), 2) / (2 * (1 - 2.0**-_HALVINGS))
"""Where in its cell a quantile is, from 0 to 1, with what chance: evenly, and finer at the ends, where it is missed."""


@final
@dataclass(frozen=True)
class _Choice:
    """One quantile's exact probability q = a/b, and what its losses are taken to move by."""

    q: Fraction
    moved: int

    @classmethod
    def of(cls, question: NumericQuestion, p: float, neighbours: Neighbours) -> _Choice:
        q = exact_probability(p)
        assert q is not None
        a, b = q.numerator, q.denominator
        if neighbours is Neighbours.ADD_REMOVE:
            return cls(q, max(a, b - a))
        return cls(q, 2 * max(a, b - a) if question.by else b)

    def bound(self, cells: int, cost: PureDP | ZCDP, beta: float) -> int:
        """What the loss of the chosen one of so many candidates is at most, with probability 1 - beta."""
        epsilon = float(selection_epsilon(cost, better_rule(cost)))
        return math.floor(2 * self.moved / epsilon * (math.log(cells) - math.log(beta)) * (1 + 1e-9))


def can_choose(question: NumericQuestion) -> bool:
    """Whether a question is of quantiles that losses in whole numbers are of, and few enough cells are to be scored."""
    if question.kind != "quantile" or any(exact_probability(p) is None for p in question.probabilities):
        return False
    cells = len(QuantileCells.of(question.attribute, PARTS))
    return cells > 1 and question.groups * cells <= MAX_SCORED


@final
@dataclass(frozen=True)
class Foretold:
    """The squared errors that a question of quantiles is expected to have by each way: public.

    They are in parts of a group, summed up over groups of several sizes; what is less than `_SLIGHT` of a cell counts
    as that: a release is no better for an answer that is predicted to be nearer than anybody can tell.

    spread  as `of_counts` takes it
    sizes   of the groups
    """

    question: NumericQuestion
    spread: tuple[Floats, ...]
    neighbours: Neighbours
    sizes: tuple[float, ...]

    @classmethod
    def of(
        cls, question: NumericQuestion, spread: Sequence[Floats], neighbours: Neighbours, records: int | None
    ) -> Foretold:
        """records: of all groups together; None where that is not public."""
        sizes = group_sizes(question.groups, ASSUMED * question.groups if records is None else records)
        return cls(question, tuple(spread), neighbours, tuple(sizes.tolist()))

    @cached_property
    def _least(self) -> float:
        return (_SLIGHT / len(QuantileCells.of(self.question.attribute, PARTS))) ** 2

    @cached_property
    def _of_bins(self) -> tuple[Floats, Floats]:
        return _noise_and_bins(self.question, self.spread)

    def by_counts(self, times: float = 1.0) -> float:
        """Read off counts, whose noise has so many times the variance of what it has as planned."""
        noise, bins = self._of_bins
        size = np.array(self.sizes)
        found = np.minimum(times * noise / size[:, None] ** 2 + bins, _even(1.0)).mean(axis=1)
        return float(np.maximum(found, self._least).sum())

    def by_choice(self, cost: PureDP | ZCDP, *, value_alone: bool = False) -> float:
        """Chosen, for a cost of all choices; infinite where it is too small for any.

        value_alone  without the ends of intervals: all of the cost is for the values
        """
        found = 0.0
        for size in self.sizes:
            error = of_choices(self.question, cost, self.neighbours, size, value_alone=value_alone)
            found += max(error / size**2, self._least)
        return found


def group_sizes(groups: int, records: int) -> Floats:
    """How many records some of the groups have, from the largest to the smallest, by Zipf's law: at least one."""
    rank = np.arange(1, groups + 1)
    sizes: Floats = np.maximum(records / (rank * (1 / rank).sum()), 1.0)
    return sizes[np.unique(np.linspace(0, groups - 1, min(groups, _SIZES)).round().astype(np.int64))]


def of_counts(question: NumericQuestion, spread: Sequence[Floats], records: float) -> float:
    """The mean over the quantiles of the squared error in ranks that planned counts are expected to have.

    spread   of each quantile: the standard deviations of the count up to each bin less its part of all, (groups, m)
    records  of a group
    """
    noise, bins = _noise_and_bins(question, spread)
    return float(np.minimum(noise + bins * records**2, _even(records)).mean())


def _noise_and_bins(question: NumericQuestion, spread: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Of each quantile the variance of the noise, in ranks, and the square of what it is off in its bin, in parts."""
    values, bins = question.values, question.attribute.values
    widths, noise, parts = values.high - values.low, list[float](), list[float]()
    for p, deviations in zip(question.probabilities, spread, strict=True):
        at = min(int(p * bins), bins - 1)
        wide = max(float(widths[at] / max(np.median(widths), _TINY)), 1.0)
        parts.append(min(_OFF * wide, _MOST_OFF) / bins if not values.exact else 0.0)
        noise.append(float(np.median(deviations[:, [max(at - 1, 0), at]] ** 2)) if bins > 1 else 0.0)
    return np.array(noise), np.array(parts) ** 2


def of_choices(
    question: NumericQuestion, cost: PureDP | ZCDP, neighbours: Neighbours, records: float, *, value_alone: bool = False
) -> float:
    """The same of choices that together cost so much: the mean squared error over the quantiles, in ranks.

    value_alone  the ends of intervals cost nothing, as there are none

    Infinite, where the cost is too small for any choice.
    """
    try:
        check_choices([question], cost)
    except InvalidInput:
        return math.inf
    return _expected(question, cost, neighbours, float(records), value_alone)


def check_choices(questions: Sequence[NumericQuestion], cost: PureDP | ZCDP, weights: Sequence[int] = (1,)) -> None:
    """Raise `InvalidInput` for a cost whose parts are too small for choices; weights of the questions' shares in it."""
    for question, whole in zip(questions, split(cost, weights), strict=True):
        for share in split(split(whole, len(question.probabilities))[-1], _SHARES):
            selection_epsilon(share, better_rule(share))


@lru_cache(maxsize=4096)
def _expected(
    question: NumericQuestion, cost: PureDP | ZCDP, neighbours: Neighbours, records: float, value_alone: bool
) -> float:
    among = QuantileCells.of(question.attribute, PARTS)
    cells, found = len(among), list[float]()
    inside = 0.0 if (among.low == among.high).all() else (records / cells) ** 2 / 12
    dense = max(cells // _DENSE, 1)
    place = np.arange(cells) - (cells - dense) // 2
    before, upto = (np.clip(part / dense, 0, 1) * records for part in (place, place + 1))
    for p, share in zip(question.probabilities, split(cost, len(question.probabilities)), strict=True):
        choice = _Choice.of(question, p, neighbours)
        spent = share if value_alone else split(share, _SHARES)[0]
        epsilon = float(selection_epsilon(spent, better_rule(spent)))
        at = min(math.floor(p * dense), dense - 1)
        wanted = (at + _PLACES[:, None]) * records / dense
        off = np.maximum(np.maximum(before - wanted, wanted - upto), 0.0)
        with np.errstate(under="ignore"):
            likely = np.exp(-epsilon * choice.q.denominator * off / (2 * choice.moved))
        distance = np.abs(place - at) * records / dense
        expected = _CHANCES @ (likely @ distance**2 / likely.sum(axis=1))
        found.append(min(float(expected) + inside, _even(records)))
    return float(np.mean(found))


def _even(records: float) -> float:
    """Of a value drawn evenly among a group's."""
    return records**2 / 6


@final
@dataclass(frozen=True)
class PlannedChoice:
    """One choice in every group, as everybody can know it beforehand.

    what    what the part of the cost that buys it is called
    exact   its quantile
    side    0 of the value, -1 and 1 of the ends of the interval
    offset  by how many b-ths of a rank the target is shifted, to that side
    cost    what it spends
    """

    what: str
    exact: _Choice
    side: int
    offset: int
    cost: PureDP | ZCDP


@final
@dataclass(frozen=True)
class ChoicePlan:
    """All choices for one question, `CHOICES` for each of its quantiles, and the public facts that come of their costs.

    rule     by which each is drawn
    choices  in the order of the draws
    reach    as `ChosenQuantiles` has it
    """

    rule: Rule
    choices: tuple[PlannedChoice, ...]
    reach: tuple[float, ...]

    @classmethod
    def of(cls, question: NumericQuestion, cells: int, cost: PureDP | ZCDP, neighbours: Neighbours) -> ChoicePlan:
        """Of quantiles among so many cells, for one cost; `InvalidInput` for one that is too small."""
        rule, choices, reach = better_rule(cost), list[PlannedChoice](), list[float]()
        for p, whole in zip(question.probabilities, split(cost, len(question.probabilities)), strict=True):
            exact, shares = _Choice.of(question, p, neighbours), split(whole, _SHARES)
            told = str(replace(question, probabilities=(p,)))
            for side, share in zip((0, -1, 1), shares, strict=True):
                offset = exact.bound(cells + 1, share, _BETA / 2) if side else 0
                what = told if not side else f"{told}, {side * offset / exact.q.denominator:+g} ranks"
                choices.append(PlannedChoice(what, exact, side, offset, share))
            reach.append(exact.bound(cells, shares[0], 0.5) / exact.q.denominator)
        return cls(rule, tuple(choices), tuple(reach))


def choose_quantiles(
    private: Private, questions: Sequence[NumericQuestion], cost: PureDP | ZCDP, weights: Sequence[int]
) -> tuple[ChosenQuantiles, ...]:
    """Choose the quantiles of each question, for shares of a cost by weights.

    Raises `BudgetExceeded` before any draw.
    """
    shares = split(cost, weights)
    return tuple(_chosen(private, question, share) for question, share in zip(questions, shares, strict=True))


def contradiction(
    chosen: Sequence[ChosenQuantiles],
    cost: PureDP | ZCDP,
    weights: Sequence[int],
    spends: Sequence[Spend],
    neighbours: Neighbours,
) -> str | None:
    """What of some choices does not follow from their cost, in words: the rule, the reach, or what they spent.

    cost        of all of them together
    weights     of the shares that each question has in it
    spends      the parts of a cost that bought them, in the order of the draws
    neighbours  the relation of records that they were drawn under
    """
    planned = list[Spend]()
    try:
        shares = split(cost, weights)
    except InvalidInput as error:
        return str(error)
    for choices, share in zip(chosen, shares, strict=True):
        question = choices.question
        if not can_choose(question) or choices.parts not in (1, PARTS):
            return f"quantiles of {question} are not chosen among {len(choices.cells):,} cells"
        try:
            plan = ChoicePlan.of(question, len(choices.cells), share, neighbours)
        except InvalidInput as error:
            return str(error)
        if choices.rule != plan.rule:
            return f"{share} buys choices of {question} by {plan.rule}, and not by {choices.rule}"
        if any(not math.isclose(*pair, rel_tol=_TINY) for pair in zip(choices.reach, plan.reach, strict=True)):
            said, found = (", ".join(f"{r:g}" for r in reach) for reach in (choices.reach, plan.reach))
            return f"choices of {question} for {share} are off by {found} ranks at the most, and not by {said}"
        planned += [Spend(f"{SELECT}{choice.what}", choice.cost) for choice in plan.choices]
    if planned != list(spends):
        return f"the parts of the cost that buy choices of quantiles are not the {len(planned):,} that {cost} comes to"
    return None


def _chosen(private: Private, question: NumericQuestion, cost: PureDP | ZCDP) -> ChosenQuantiles:
    parts = PARTS if private.has_points(question.column) else 1
    cells = QuantileCells.of(question.attribute, parts)
    table = private.values_by_group(
        question.by, question.column, cells.first, Measure(question.column, 0, where=question.where)
    )
    plan = ChoicePlan.of(question, len(cells), cost, private.neighbours)
    picks: dict[int, list[Ints]] = {0: [], -1: [], 1: []}
    for planned in plan.choices:
        scores = -losses(table, planned.exact.q, planned.side, planned.offset)
        place = private.select_apart(planned.what, scores, planned.exact.moved, planned.cost, plan.rule)
        if planned.side:
            place = np.maximum(place - 1, 0) if planned.side < 0 else np.minimum(place, len(cells) - 1)
        picks[planned.side].append(place)
    value, low, high = (np.stack(part, axis=1) for part in picks.values())
    return ChosenQuantiles(question, parts, plan.rule, value, low, high, plan.reach)


def foreseen_choices(
    questions: Sequence[NumericQuestion],
    cost: PureDP | ZCDP | None,
    weights: Sequence[int],
    neighbours: Neighbours,
    records: int,
) -> Iterator[ChosenQuantiles]:
    """What would be chosen without noise, with the ends that are typical, were records even over groups and bins."""
    for question, whole in zip(questions, split(cost, weights) if cost is not None else (), strict=True):
        cells, n = QuantileCells.of(question.attribute, PARTS), records / question.groups
        bins = question.attribute.values
        _, first, sizes = np.unique(_bins(question, cells), return_inverse=True, return_counts=True)
        upto = (n / bins / sizes[first]).cumsum()
        plan, picks = ChoicePlan.of(question, len(cells), whole, neighbours), list[Ints]()
        for p, end in zip(question.probabilities, plan.choices[1::CHOICES], strict=True):
            far = end.offset + end.exact.bound(len(cells) + 1, end.cost, 0.5)
            ranks = p * n + np.array([0.0, -far, far]) / end.exact.q.denominator
            picks.append(np.clip(np.searchsorted(upto, ranks * (1 - _TINY)), 0, len(cells) - 1))
        value, low, high = (np.tile(part, (question.groups, 1)) for part in np.stack(picks, axis=1))
        yield ChosenQuantiles(question, PARTS, plan.rule, value, low, high, plan.reach)


def _bins(question: NumericQuestion, cells: QuantileCells) -> Ints:
    """The bin that each cell is in, (K,)."""
    found: Ints = np.searchsorted(question.values.low, cells.low, side="right") - 1
    return found


def losses(table: Ints, q: Fraction, side: int = 0, offset: int = 0) -> Ints:
    """How far each cell is from being a q-quantile of its group, (groups, K), in b-ths of a rank: see the module.

    table   how many records of each group are in each cell, (groups, K)
    side    -1 or 1 for an end of an interval: then there is one candidate more, before the cells or after them
    offset  by how many b-ths of a rank the target is shifted, to that side
    """
    a, b = q.numerator, q.denominator
    upto, n = table.cumsum(axis=1), table.sum(axis=1, keepdims=True)
    less, more, shift = upto - table, n - upto, -side * offset
    inside: Ints = np.maximum(np.maximum(b * less - a * n + shift, b * more - (b - a) * n - shift), 0)
    if not side:
        return inside
    beyond = np.maximum((a if side < 0 else b - a) * n - offset, 0)
    found: Ints = np.concatenate([beyond, inside] if side < 0 else [inside, beyond], axis=1)
    return found
