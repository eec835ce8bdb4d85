"""Synthetic records beside questions about numbers: what do they gain by what is measured for these?

    python -m benchmarks.numbers_synthetic [--quick] [--data DIR] [--only TABLE] [--seeds N] [--epsilon E] [--json]

The tables and questions are those of `benchmarks.numbers`, with all marginals of two columns (three of Adult) as the
workload, of a record, at ε in {.1, 1, 10} and δ = 1e-9. The mechanism that counts is the one that `Auto` chooses.

    workload   the mean L1 distance of the model's marginals to the true ones, as fractions: of the workload
    groups     of the groups by which the questions ask
    means      how far the means of the questions' groups are off in as many synthetic records: the root mean square
               over the records, in standard deviations of the column, on average over the questions
    with       as `NumberSums` releases them: the model is fitted to the counts that were measured for the questions
               too, follows the measured means, and numbers lie inside their bins by these means
    without    under the same draws, fitted to the workload's counts alone before it follows the measured means, and
               with numbers evenly in their bins

Noise is from fixed seeds: it protects nobody, and the tables are public. Exit code 1 where the model or the means are
further off with what was measured for the questions than without, by more than 2 %.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.numbers import DELTA, EPSILONS, TABLES, table_of
from qrelease._util.typing import Ints
from qrelease.data.attribute import Attribute
from qrelease.data.decoding import decode
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.inference.synopsis import Synopsis
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours
from qrelease.privacy.costs import Cost
from qrelease.privacy.ledger import Ledger
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.release import Release

WORSE = 1.02
"""How far off a model may be with the counts of the questions, over without them."""


@dataclass(frozen=True)
class Row:
    """Mean distances over the seeds, fractions, of one table at one ε."""

    table: str
    epsilon: float
    mechanism: str
    workload: float
    workload_without: float
    groups: float
    groups_without: float
    means: float
    means_without: float

    @property
    def is_worse(self) -> bool:
        """Whether the counts of the questions took the model further off."""
        pairs = (
            (self.workload, self.workload_without),
            (self.groups, self.groups_without),
            (self.means, self.means_without),
        )
        return any(with_them > WORSE * without for with_them, without in pairs)


@dataclass(frozen=True)
class WorkloadAlone:
    """Counts as `Auto` does, and leaves alone what was measured for the questions."""

    counting: Auto
    either_noise: ClassVar[bool] = Auto.either_noise

    @property
    def name(self) -> str:
        """`auto`, as it draws the same."""
        return self.counting.name

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """As `Auto` does."""
        self.counting.check(workload, cost, neighbours)

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """As `Auto` does, without the counts that were measured before."""
        return self.counting.release(replace(private, known=()), workload, cost)


def by_record(table: Table) -> Table:
    """The same records, where one of them is the unit."""
    return Table(replace(table.domain, person=None), table.columns, points=table.points)


def grouped(domain: Domain, questions: Sequence[str]) -> Workload:
    """The marginals of the groups that questions ask by."""
    by = {frozenset(NumericQuestion.parse(domain, text).by) for text in questions}
    return Workload.marginals(domain, [sorted(columns, key=domain.axis) for columns in by if columns])


def distance(model: Synopsis, table: Table, workload: Workload) -> float:
    """The mean L1 distance of marginals, fractions."""
    said = np.split(model.answer(workload), workload.bounds[1:-1])
    exact = table.counts(workload.sets)
    return float(np.mean([np.abs(a - b.reshape(-1)).sum() for a, b in zip(said, exact, strict=True)])) / len(table)


def off_means(release: Release, table: Table, seed: int, *, even: bool) -> float:
    """How far the means of groups are off in synthetic records: see the module."""
    rng = np.random.default_rng(seed)
    codes = release.codes(None, rng)
    found, drawn = [], release.points(codes, rng)
    for bins in release.tilted_bins:
        attribute = table.domain.attributes[bins.axis]
        true = np.asarray(table.points[bins.axis])
        points = decoded(attribute, np.asarray(codes[bins.axis]), rng) if even else drawn[attribute.name]
        values = [np.clip(part, *bins.clip).astype(np.float64) for part in (true, points)]
        valued = [np.asarray(columns[bins.axis]) < attribute.values for columns in (table.columns, codes)]
        for asked in bins.tables:
            sums, sizes = np.zeros((2, 2, len(asked.means)))
            for i, columns in enumerate((table.columns, codes)):
                of = asked.groups(columns)
                kept = valued[i] & (of >= 0)
                sums[i] = np.bincount(of[kept], values[i][kept], len(asked.means))
                sizes[i] = np.bincount(of[kept], minlength=len(asked.means))
            both = (sizes > 0).all(axis=0)
            off = np.diff(sums[:, both] / sizes[:, both], axis=0)[0]
            found.append(np.sqrt(np.average(off**2, weights=sizes[0, both])) / values[0][valued[0]].std())
    return float(np.mean(found))


def decoded(attribute: Attribute, codes: Ints, rng: np.random.Generator) -> Ints:
    """The points of cells as they are drawn where nothing was measured but their counts; 0 for a missing one."""
    assert attribute.grid is not None
    values = decode(attribute, codes, rng)
    values[codes == attribute.values] = float(attribute.grid.low)
    found: Ints = np.rint((values.astype(np.float64) - float(attribute.grid.low)) / float(attribute.grid.step))
    return found.astype(np.int64)


def rows(name: str, table: Table, epsilons: Sequence[float], seeds: int) -> Iterator[Row]:
    """A line for each ε."""
    domain, questions = table.domain, TABLES[name].questions
    workload, groups = Workload.marginals(domain, 3 if name == "adult" else 2), grouped(domain, questions)
    sums = NumberSums(questions, clip=TABLES[name].clips, mechanism=Auto(len(table)), records=len(table))
    ways = [sums, replace(sums, mechanism=WorkloadAlone(Auto(len(table))))]
    for epsilon in epsilons:
        cost = ApproxDP(epsilon, DELTA)
        found, chosen = np.zeros((2, 3)), ""
        for seed in range(seeds):
            for i, mechanism in enumerate(ways):
                curator = Curator(table, Ledger.open(None, cost), Entropy.insecure(seed))
                release = curator.release(mechanism, workload, cost)
                chosen = str(release.parameters["chosen"])
                far = [distance(release.synopsis, table, asked) for asked in (workload, groups)]
                found[i] += np.array([*far, off_means(release, table, seed, even=i == 1)]) / seeds
        yield Row(name, epsilon, chosen, *found.T.reshape(-1).tolist())


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="rwm5yr at one epsilon, with one seed")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", choices=list(TABLES))
    parser.add_argument("--seeds", type=int, help="of the noise; default: 3, or 1 with --quick")
    parser.add_argument("--epsilon", type=float, action="append", help="default: .1, 1 and 10, or 1 with --quick")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    names = [given.only] if given.only else ["rwm5yr"] if given.quick else list(TABLES)
    epsilons = given.epsilon or ((1.0,) if given.quick else EPSILONS)
    worse = False
    if not given.json:
        print("                         workload           groups             means")
        print("table    eps  chosen     with     without   with     without   with     without")
    for name in names:
        read = table_of(name, given.data)
        for row in (
            () if read is None else rows(name, by_record(read), epsilons, given.seeds or (1 if given.quick else 3))
        ):
            worse |= row.is_worse
            if given.json:
                print(json.dumps(asdict(row)), flush=True)
            else:
                numbers = "  ".join(f"{value:7.5f}" for value in list(asdict(row).values())[3:])
                print(f"{row.table:8} {row.epsilon:<4g} {row.mechanism:9}  {numbers}", flush=True)
    return int(worse)


if __name__ == "__main__":
    raise SystemExit(main())
