"""Quantiles by group, read off planned counts or chosen by the exponential mechanism: is the better way taken?

    python -m benchmarks.numbers_quantiles [--quick] [--data DIR] [--only TABLE] [--seeds N] [--epsilon E] [--each]

The tables are those of `benchmarks.numbers`; the questions, `QUESTIONS`, have one to nine quantiles, of everybody and
of up to some hundreds of groups. Each is released by itself, with the counts of its groups, as pure ε and with a δ of
1e-9, and all of a table's together. The number of records is told: without it quantiles are read off counts.

    counts, chosen, best   the root mean squared error of the answers to publish over the groups that somebody is in:
                           `NumberSums(quantiles="counts")`, `"exponential"` and `"best"`, which decides from public
                           facts. In the unit of the column; at least a hundredth of its step
    ratio                  best over the smaller one of the other two
    within                 the share of these groups that the intervals to publish contain, of `best`; a line for all of
                           a table has the mean over its questions

Noise is from fixed seeds: it protects nobody, and the tables are public. Exit code 1 where the median ratio is above
1.05.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.numbers import DELTA, table_of
from qrelease._util.typing import Floats
from qrelease.data.table import Table
from qrelease.inference.number_tables import NumberTable
from qrelease.mechanisms.number_sums import NumberSums, divided
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.measures import grid_of
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

EPSILONS = (0.1, 1.0)
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
    questions: tuple[str, ...]
    cost: Cost
    chosen: int
    errors: Mapping[str, float]
    within: float

    @property
    def ratio(self) -> float:
        return self.errors["best"] / min(self.errors["counts"], self.errors["exponential"])


@dataclass(frozen=True, eq=False)
class Truth:
    """The quantiles of each group that somebody is in, by `inverted_cdf`: NaN of the others."""

    question: NumericQuestion
    values: Floats
    least: float

    @classmethod
    def of(cls, table: Table, text: str) -> "Truth":
        question = NumericQuestion.parse(table.domain, text)
        grid, axis = grid_of(question.attribute), table.domain.axis(question.column)
        points = (
            table.points[axis] if table.points is not None and table.points[axis] is not None else table.codes(axis)
        )
        assert points is not None
        there = table.codes(axis) < question.attribute.values
        groups = np.zeros(len(table), np.int64)
        for name in question.by:
            groups = groups * table.domain[name].size + table.codes(table.domain.axis(name))
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


def rows(name: str, table: Table, epsilons: Sequence[float], seeds: int) -> Iterator[Row]:
    """Every question by itself, and all together."""
    questions = QUESTIONS[name]
    truths = {text: Truth.of(table, text) for text in questions}
    for asked in [*((q,) for q in questions), questions]:
        for epsilon in epsilons:
            for cost in (PureDP(epsilon), ApproxDP(epsilon, DELTA)):
                found = {way: _answers(table, asked, cost, way, seeds, truths) for way in WAYS}
                sums, workload = NumberSums(asked, records=len(table)), _workload(table, asked, truths)
                chosen = divided(sums, workload, cost, Neighbours.ADD_REMOVE).chosen
                for text in asked:
                    errors = {way: truths[text].off(found[way][text]) for way in WAYS}
                    within = truths[text].within(found["best"][text])
                    yield Row(name, (text,), cost, int(text in chosen), errors, within)


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
    workload = _workload(table, asked, truths)
    answers: dict[str, list[NumberTable]] = {text: [] for text in asked}
    for seed in range(seeds):
        with Ledger.open(None, cost) as ledger:
            mechanism = NumberSums(asked, quantiles=way, records=len(table))  # type: ignore[arg-type]
            release = Curator(table, ledger, Entropy.insecure(seed)).release(mechanism, workload, cost)
        assert release.measured_sums is not None
        for text in asked:
            answers[text].append(release.measured_sums.answer(text, release.measurements))
    return answers


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="rwm5yr and Adult, with two seeds")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", choices=list(QUESTIONS))
    parser.add_argument("--seeds", type=int, help="of the noise; default: 4, or 2 with --quick")
    parser.add_argument("--epsilon", type=float, action="append", help="default: .1 and 1")
    parser.add_argument("--each", action="store_true", help="a line for each question and cost")
    given = parser.parse_args(arguments)
    names = [given.only] if given.only else [n for n in QUESTIONS if not (given.quick and n == "flights")]
    seeds = given.seeds or (2 if given.quick else 4)
    everything: list[Row] = []
    print("table     rows  chosen  ratio: median   90 %  largest   counts/best: median   chosen/best: median  within")
    for name in names:
        read = table_of(name, given.data)
        if read is None:
            continue
        table = Table(read.domain.of_rows, read.columns, None, read.points)
        here = []
        for row in rows(name, table, given.epsilon or EPSILONS, seeds):
            here.append(row)
            if given.each:
                shown = "  ".join(f"{way} {error:9.4g}" for way, error in row.errors.items())
                told = f"{row.ratio:7.3f}  {shown}  {'chosen' if row.chosen else 'counts'}"
                print(f"    {told}  {row.within:.3f}  {row.cost}  {row.questions[0]}", flush=True)
        everything += here
        print(told_of(name, here), flush=True)
    if not everything:
        return 0
    print(told_of("all", everything))
    median = float(np.median([row.ratio for row in everything]))
    print(f"median ratio: {median:.3f} (asked 1.05)")
    return int(median > 1.05)


def told_of(name: str, found: Sequence[Row]) -> str:
    """One line for some rows."""
    ratios = np.array([row.ratio for row in found])
    counts, choices = (
        float(np.median([row.errors[way] / row.errors["best"] for row in found])) for way in ("counts", "exponential")
    )
    within = np.mean([row.within for row in found])
    return (
        f"{name:8} {len(found):5}  {sum(row.chosen for row in found):6}  {np.median(ratios):13.3f}"
        f"  {np.quantile(ratios, 0.9):5.2f}  {ratios.max():7.2f}  {counts:20.2f}  {choices:20.2f}  {within:6.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
