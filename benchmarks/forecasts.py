"""How long a release takes, beside what is told of it beforehand.

    python -m benchmarks.forecasts [--quick] [--data DIR] [--only TABLE] [--mechanism NAME] [--epsilon E]

Tables from DIR (as for `benchmarks.error`), the nine categorical columns of the bundled Adult table, and one of three
million records and six columns, made up; all three-way marginals at (ε, 1e-9), add-remove; by `records`, and by
`maxent` where the universe has a histogram. Each row is one release in a process of its own, which has compiled
nothing:

    told   seconds, as `qrelease plan` and `qrelease release` tell them: by public facts, times the pace
    pace   how many times slower this machine was just before than the one that forecasts were measured on
    s      of the release with its fit, its synthetic records and its files, by the clock
    ratio  s over told; a row beyond a factor of 1.5 ends with <
    cpu    seconds of all cores

`--quick` is nltcs and the nine columns at ε = 1. Noise comes from a fixed seed: it protects nobody. Exit code 1 where a
row is beyond a factor of 3: other processes come and go while a release runs, so that single rows say little.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from qrelease.data.bundled import CATEGORICAL, adult
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import TooLarge
from qrelease.inference.histogram import check_size
from qrelease.mechanisms.forecasts import pace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.forecasts import seconds

NINE = "adult (demo columns)"
MANY = "three million records"
TABLES = (NINE, "nltcs", "acs", "br2000", "adult", MANY)
QUICK = (NINE, "nltcs")
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-9
NEAR, FAR = 1.5, 3.0
"""Factors between what is told and what is taken: that is asked for; that ends with exit code 1."""


@dataclass(frozen=True)
class Row:
    """One release, and what was told of it."""

    dataset: str
    epsilon: float
    mechanism: str
    told: float
    pace: float
    seconds: float
    cpu: float

    @property
    def ratio(self) -> float:
        """What was taken, over what was told."""
        return self.seconds / self.told

    def __str__(self) -> str:
        far = "" if 1 / NEAR <= self.ratio <= NEAR else "  <"
        return (
            f"{self.dataset:21}{self.epsilon:8g} {self.mechanism:9}{self.told:8.1f}{self.pace:7.2f}{self.seconds:8.1f}"
            f"{self.ratio:7.2f}{self.cpu:8.1f}{far}"
        )


def table_named(name: str, data: Path) -> Table:
    """One of `TABLES`."""
    if name == NINE:
        return adult(CATEGORICAL)
    if name == MANY:
        rng = np.random.default_rng(0)
        sizes = {"a": 40, "b": 24, "c": 12, "d": 8, "e": 5, "f": 2}
        near = rng.random(3_000_000)
        columns = (((near + rng.random(len(near))) ** 2 / 4 * size).astype(np.uint8) for size in sizes.values())
        return Table(Domain.coded(sizes), tuple(columns))
    return Table.read_csv(data / f"{name}.csv.gz", data / f"{name}-domain.json")


def released(job: tuple[str, Path, float, str]) -> Row:
    """Tell, and release."""
    dataset, data, epsilon, name = job
    table = table_named(dataset, data)
    asked, cost = Workload.marginals(table.domain, 3), ApproxDP(epsilon, DELTA)
    mechanism = MaxEnt() if name == "maxent" else FittedRecords()
    now = pace()
    told = seconds(mechanism, asked, cost, len(table))
    with Ledger.open(None, cost) as ledger, tempfile.TemporaryDirectory() as folder:
        begin, worked = time.perf_counter(), time.process_time()
        Curator(table, ledger, Entropy.insecure(0)).release(mechanism, asked, cost).save(Path(folder) / "out")
        taken, cpu = time.perf_counter() - begin, time.process_time() - worked
    return Row(dataset, epsilon, name, told, now, taken, cpu)


def rows(tables: list[str], data: Path, epsilons: list[float], mechanism: str | None) -> Iterator[Row]:
    """One after another; a table that is not there is skipped, aloud."""
    for name in tables:
        if name not in (NINE, MANY) and not (data / f"{name}.csv.gz").exists():
            print(f"SKIPPED {name}: no {name}.csv.gz; give its folder as --data DIR", file=sys.stderr)
            continue
        mechanisms = ["records"]
        try:
            check_size(table_named(name, data).domain)
            mechanisms.append("maxent")
        except TooLarge:
            pass
        for epsilon in epsilons:
            for made in mechanisms:
                if mechanism in (None, made):
                    with get_context("spawn").Pool(1) as process:
                        yield process.apply(released, [(name, data, epsilon, made)])


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each release."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forecasts")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--mechanism", choices=["records", "maxent"])
    parser.add_argument("--epsilon", type=float)
    given = parser.parse_args(arguments)
    tables = [given.only] if given.only else [*(QUICK if given.quick else TABLES)]
    epsilons = [given.epsilon] if given.epsilon else [1.0] if given.quick else [*EPSILONS]
    print(f"{'table':21}{'epsilon':>8} {'mechanism':9}{'told':>8}{'pace':>7}{'s':>8}{'ratio':>7}{'cpu':>8}", flush=True)
    far = 0
    for row in rows(tables, given.data, epsilons, given.mechanism):
        print(row, flush=True)
        far += not 1 / FAR <= row.ratio <= FAR
    return int(far > 0)


if __name__ == "__main__":
    sys.exit(main())
