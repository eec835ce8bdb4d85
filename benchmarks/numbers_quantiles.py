"""Quantiles by group, read off planned counts or chosen by the exponential mechanism: is the better way taken?

    python -m benchmarks.numbers_quantiles [--quick] [--data DIR] [--only TABLE] [--seeds N] [--epsilon E] [--each]
                                           [--together]

The tables are those of `benchmarks.numbers`; the questions, `QUESTIONS`, have one to nine quantiles, of everybody and
of up to some hundreds of groups. A table's are asked together, and each by itself, at ε in {.1, 1, 10}, pure and with a
δ of 1e-9, of a record and of a person. The number of records is told: without it quantiles are read off counts. Of the
share of the plan that is for counts (`SHARE`) the groups' sizes are measured, which nobody asked for.

    counts, chosen, best   the root mean squared error of the answers to publish over the groups that somebody is in:
                           `NumberSums(quantiles="counts")`, `"exponential"` and `"best"`, which decides from public
                           facts. In the unit of the column; at least a hundredth of its step
    ratio                  best over the smaller one of the other two
    one at a time          one question of several by itself, as OpenDP and Tumult choose quantiles: by this engine's
                           exponential mechanism or permute-and-flip, among the points of the grid or among the cells
                           that bins are cut into, whichever is off by less in the end. A question has an even part of
                           the cost, in ε or in ρ, whichever is more; it is all for the value, and buys no interval and
                           no size of a group
    over one at a time     best over that, of the questions that are asked together
    rounded                the same where both are off by rounding to the step besides, step²/12: a quantile in whole
                           years that is hit every time is no nearer than that to one in days
    within                 the share of these groups that the intervals to publish contain, of `best`

Errors are from the quantiles of all records; intervals are about the records kept of each person. Noise is from fixed
seeds: it protects nobody, and the tables are public. Exit code 1 where the median ratio is above 1.05.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.numbers import DELTA, EPSILONS, table_of
from qrelease._util.typing import Floats, Ints, Mask
from qrelease.data.table import Table
from qrelease.inference.chosen_quantiles import PARTS, ChosenQuantiles, QuantileCells, exact_probability
from qrelease.inference.number_tables import MeasuredSums, NumberTable
from qrelease.mechanisms.number_sums import NumberSums, divided, division_plan
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.quantile_choices import choose_quantiles, losses
from qrelease.noise.calibration import better_rule, currency, selection_epsilon
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.costs import split
from qrelease.privacy.filters import Filter
from qrelease.privacy.unit import Unit
from qrelease.queries.measures import grid_of
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Workload

SHARE = 0.95
WAYS = ("counts", "exponential", "best")
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "rwm5yr": (
        "quantile(.5):age",
        "quantile(.5):age by edlevel",
        "quantile(.9):docvis by year*female",
        "quantile(.25,.5,.75):educ by age",
        "quantile(.1,.2,.3,.4,.5,.6,.7,.8,.9):age by year*married",
    ),
    "adult": (
        "quantile(.5):age",
        "quantile(.5):hours-per-week by education",
        "quantile(.5):age by education",
        "quantile(.25,.5,.75):age by occupation*sex",
        "quantile(.5,.9):hours-per-week by education*sex",
    ),
    "flights": (
        "quantile(.5):arr_delay",
        "quantile(.5):arr_delay by carrier",
        "quantile(.25,.5,.75):arr_delay by carrier",
        "quantile(.5,.9):air_time by carrier*origin",
        "quantile(.9):dep_delay by sched_dep_time",
    ),
}


@dataclass(frozen=True)
class Row:
    """Some questions at one cost."""

    table: str
    unit: str
    question: str
    together: bool
    cost: Cost
    chosen: int
    errors: Mapping[str, float]
    within: float
    one_at_a_time: float
    step: float

    @property
    def epsilon(self) -> float:
        assert isinstance(self.cost, PureDP | ApproxDP)
        return self.cost.epsilon

    @property
    def ratio(self) -> float:
        return self.errors["best"] / min(self.errors["counts"], self.errors["exponential"])

    @property
    def rounded(self) -> float:
        ours, other = (math.hypot(e, self.step / math.sqrt(12)) for e in (self.errors["best"], self.one_at_a_time))
        return ours / other

    @property
    def over_one(self) -> float:
        return self.errors["best"] / self.one_at_a_time


@dataclass(frozen=True, eq=False)
class Truth:
    """The quantiles of each group that somebody is in, by `inverted_cdf`: NaN of the others."""

    question: NumericQuestion
    values: Floats
    least: float

    @classmethod
    def of(cls, table: Table, text: str) -> "Truth":
        question = NumericQuestion.parse(table.domain, text)
        grid = grid_of(question.attribute)
        points, there, groups = _located(table, question)
        found = np.full((question.groups, len(question.probabilities)), np.nan)
        for group in range(question.groups):
            some = points[there & (groups == group)]
            if len(some):
                found[group] = grid.values(np.quantile(some, question.probabilities, method="inverted_cdf"))
        return cls(question, found.reshape(-1), float(grid.step) / 100)

    def off(self, answers: Sequence[NumberTable]) -> float:
        """The root mean squared error of some answers."""
        squares = [((a.model - self.values)[~np.isnan(self.values)] ** 2).mean() for a in answers]
        return max(float(np.sqrt(np.mean(squares))), self.least)

    def within(self, answers: Sequence[NumberTable]) -> float:
        """The share of the groups, over all answers, that their intervals contain."""
        there = ~np.isnan(self.values)
        slack = self.least * 1e-6
        inside = [(a.model_low - slack <= self.values) & (self.values <= a.model_high + slack) for a in answers]
        return float(np.mean([one[there].mean() for one in inside]))


def _located(table: Table, question: NumericQuestion) -> tuple[Ints, Mask, Ints]:
    """Of each record the point of its value on the grid, whether it has one, and its group."""
    axis = table.domain.axis(question.column)
    points = table.points[axis] if table.points is not None and table.points[axis] is not None else table.codes(axis)
    assert points is not None
    groups = np.zeros(len(table), np.int64)
    for name in question.by:
        groups = groups * table.domain[name].size + table.codes(table.domain.axis(name))
    return points.astype(np.int64), table.codes(axis) < question.attribute.values, groups


@dataclass(frozen=True, eq=False)
class OneAtATime:
    """One question by itself, as OpenDP and Tumult choose quantiles by group: how many records are on each candidate.

    values  what each candidate says, (K,)
    tables  (groups, K)
    """

    question: NumericQuestion
    values: Floats
    table: Ints

    @classmethod
    def of(cls, table: Table, question: NumericQuestion, parts: int | None) -> "OneAtATime":
        """parts: cells of a bin at most, as `chosen_quantiles` cuts them; None for all points of the grid."""
        grid, axis = grid_of(question.attribute), table.domain.axis(question.column)
        points, there, groups = _located(table, question)
        first = np.arange(grid.size)
        if parts is not None and table.points is not None and table.points[axis] is not None:
            first = QuantileCells.of(question.attribute, parts).first
        middle = (first + np.append(first[1:], grid.size) - 1) / 2
        low = np.searchsorted(first, points[there], side="right") - 1
        found = np.bincount(groups[there] * len(first) + low, minlength=question.groups * len(first))
        values = np.interp(middle, np.arange(grid.size), grid.values(np.arange(grid.size)))
        return cls(question, values, found.reshape(question.groups, len(first)))

    def off(self, truth: "Truth", cost: PureDP | ZCDP, draws: int) -> float:
        """The root mean squared error of choices for a cost, all of which is for the values."""
        rng, some = np.random.default_rng(0), self.table.sum(axis=1) > 0
        wanted = truth.values.reshape(self.question.groups, -1)[some]
        squares = []
        for i, (p, share) in enumerate(
            zip(self.question.probabilities, split(cost, len(self.question.probabilities)), strict=True)
        ):
            q = exact_probability(p)
            assert q is not None
            rule = better_rule(share)
            epsilon = float(selection_epsilon(share, rule)) / (2 * max(q.numerator, q.denominator - q.numerator))
            scores = -epsilon * losses(self.table[some], q)
            for _ in range(draws):  # the largest with such noise: permute-and-flip, or the exponential mechanism
                noise = rng.exponential if rule == "permute-and-flip" else rng.gumbel
                found = self.values[(scores + noise(size=scores.shape)).argmax(axis=1)]
                squares.append(((found - wanted[:, i]) ** 2).mean())
        return max(float(np.sqrt(np.mean(squares))), truth.least)


def one_at_a_time(
    tables: Sequence[OneAtATime], truth: "Truth", cost: Cost, questions: int, choices: int, draws: int
) -> float:
    """The least error of the candidates, for one question's part of a cost, in ε or in ρ: what gives the larger ε."""
    ways: list[PureDP | ZCDP] = [currency(cost)]
    if isinstance(cost, ApproxDP):
        ways.append(PureDP(cost.epsilon))
    best = max(
        (split(way, questions)[0] for way in ways),
        key=lambda c: selection_epsilon(split(c, choices)[0], better_rule(c)),
    )
    return min(table.off(truth, best, draws) for table in tables)


def rows(name: str, read: Table, unit: str, epsilons: Sequence[float], seeds: int, *, apart: bool) -> Iterator[Row]:
    """All questions together, and, where asked for, every one by itself."""
    questions = QUESTIONS[name]
    whole = Table(read.domain.of_rows, read.columns, None, read.points)
    table, at_most = whole, None
    if unit == "person":
        kept, at_most = read.bounded(b"benchmark"), read.domain.at_most
        assert isinstance(kept, Table)  # in these schemas records count
        table = Table(read.domain.of_rows, kept.columns, None, kept.points)
    truths = {text: Truth.of(whole, text) for text in questions}
    about = truths if unit == "record" else {text: Truth.of(table, text) for text in questions}
    alone = {t: [OneAtATime.of(table, truths[t].question, parts) for parts in (None, PARTS)] for t in questions}
    for asked in [questions, *((q,) for q in questions if apart)]:
        for epsilon in epsilons:
            for told in (PureDP(epsilon), ApproxDP(epsilon, DELTA)):
                cost = Unit(Neighbours.ADD_REMOVE, at_most).of_a_record(told)
                found = {way: _answers(table, asked, cost, way, seeds, truths) for way in WAYS}
                sums, workload = NumberSums(asked, records=len(table), share=SHARE), _workload(table, asked, truths)
                chosen = divided(sums, workload, cost, Neighbours.ADD_REMOVE).chosen
                for text in asked:
                    errors = {way: truths[text].off(found[way][text]) for way in WAYS}
                    within = about[text].within(found["best"][text])
                    many = len(truths[text].question.probabilities)
                    one = one_at_a_time(alone[text], truths[text], cost, len(asked), many, 10 * seeds)
                    yield Row(
                        name,
                        unit,
                        text,
                        len(asked) > 1,
                        told,
                        int(text in chosen),
                        errors,
                        within,
                        one,
                        100 * truths[text].least,
                    )


def _workload(table: Table, asked: Sequence[str], truths: Mapping[str, Truth]) -> Workload:
    """The counts of the groups; without any, those of a column that no quantile is of, as its counts would be free."""
    names, questions = table.domain.names, [truths[text].question for text in asked]
    sets = dict.fromkeys(tuple(sorted(q.by_axes)) for q in questions if q.by)
    other = next(name for name in names if all(name != q.column for q in questions))
    return Workload.marginals(table.domain, [[names[a] for a in s] for s in sets] or [[other]])


def _answers(
    table: Table,
    asked: Sequence[str],
    cost: Cost,
    way: str,
    seeds: int,
    truths: Mapping[str, Truth],
) -> dict[str, list[NumberTable]]:
    """As a release measures and answers them, without the histogram that it fits to the counts."""
    workload = _workload(table, asked, truths)
    answers: dict[str, list[NumberTable]] = {text: [] for text in asked}
    sums = NumberSums(asked, quantiles=way, records=len(table), share=SHARE)  # type: ignore[arg-type]
    division = divided(sums, workload, cost, Neighbours.ADD_REMOVE)
    plan = division_plan(sums, workload, {}, division, Neighbours.ADD_REMOVE)
    chosen = tuple(NumericQuestion.parse(table.domain, text) for text in division.chosen)
    for seed in range(seeds):
        private = Private(table, Neighbours.ADD_REMOVE, Filter(cost), Entropy.insecure(seed))
        drawn = tuple(private.measure_sums(plan.parts, division.sums))
        choices: tuple[ChosenQuantiles, ...] = ()
        if division.choosing is not None:
            choices = choose_quantiles(private, chosen, division.choosing, division.weights)
        measured = MeasuredSums(table.domain, tuple(asked), {}, plan.parts, drawn, None, choices)
        for text in asked:
            answers[text].append(measured.answer(text))
    return answers


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="rwm5yr and Adult, with two seeds")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", choices=list(QUESTIONS))
    parser.add_argument("--seeds", type=int, help="of the noise; default: 4, or 2 with --quick")
    parser.add_argument("--epsilon", type=float, action="append", help="default: .1, 1 and 10")
    parser.add_argument("--each", action="store_true", help="a line for each question and cost")
    parser.add_argument("--together", action="store_true", help="no question by itself")
    given = parser.parse_args(arguments)
    names = [given.only] if given.only else [n for n in QUESTIONS if not (given.quick and n == "flights")]
    seeds = given.seeds or (2 if given.quick else 4)
    everything: list[Row] = []
    over = "over one at a time: median  largest  rounded"
    print(f"table    unit        eps  rows  chosen   ratio: median  largest  {over}  within")
    for name in names:
        read = table_of(name, given.data)
        if read is None:
            continue
        for unit in ("record", "person") if read.domain.person is not None else ("record",):
            here = []
            for row in rows(name, read, unit, given.epsilon or EPSILONS, seeds, apart=not given.together):
                here.append(row)
                if given.each:
                    shown = "  ".join(f"{way} {error:9.4g}" for way, error in row.errors.items())
                    told = f"{row.ratio:7.3f} {row.over_one:7.3f}  {shown}  {'chosen' if row.chosen else 'counts'}"
                    told = f"{told}  one at a time {row.one_at_a_time:9.4g}  {row.within:.3f}"
                    print(f"    {told}  {row.cost}  {row.question}{' with others' * row.together}", flush=True)
            everything += here
            for epsilon in given.epsilon or EPSILONS:
                print(told_of([row for row in here if row.epsilon == epsilon]), flush=True)
    if not everything:
        return 0
    median = float(np.median([row.ratio for row in everything]))
    largest = max((row for row in everything if row.together), key=lambda row: row.over_one)
    print(
        f"median ratio: {median:.3f} (asked 1.05); largest over one at a time: {largest.over_one:.3f} (asked 1.05),"
        f" of {largest.question} for {largest.cost} by {largest.unit}"
    )
    return int(median > 1.05)


def told_of(found: Sequence[Row]) -> str:
    """One line for some rows of a table, a unit and an ε."""
    ratios, one = [row.ratio for row in found], [row.over_one for row in found if row.together]
    rounded = [row.rounded for row in found if row.together]
    first = found[0]
    return (
        f"{first.table:8} {first.unit:6} {first.epsilon:8g} {len(found):5}  {sum(row.chosen for row in found):6}"
        f"  {np.median(ratios):14.3f} {max(ratios):8.2f}  {np.median(one):25.3f} {max(one):8.2f} {max(rounded):8.2f}"
        f"  {np.mean([row.within for row in found]):6.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
