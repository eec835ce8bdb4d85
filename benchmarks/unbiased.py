"""Optimal linear measurement: whether errors and error bars are what they are said to be, and how far from the optimum.

    python -m benchmarks.unbiased [--data DIR] [--draws N] [--json]

For all three-way marginals of the nine categorical ones of the bundled Adult table, and from DIR (as for
`benchmarks.error`) of nltcs and acs; at (1, 1e-9), add-remove:

    bound      the predicted root mean squared error over that of the SVD bound, at most 1.001
    rmse       the measured one over the predicted, over all draws, within 2 %
    bars       the share of cells within their 95 % error bars, 95 ± 1 %
    seconds    of one measurement, with its answers

`ranges` is all ranges of 1024 cells, whose strategy is within 0.5 % of its certificate; `wide` is 100 columns of ten
values, 162 million cells in all, no universe and no fit. The lines after it are of a whole release of those, in a
process of its own: what each step takes, and the most memory, with a limit as `reference`. Noise is from fixed seeds
and protects nobody. Exit code 1 where something is not as said.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import numpy as np

from benchmarks.frontier import ADULT, DELTA, Job
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.evaluate import peak_mb
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.mechanisms import matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.private_data import Private
from qrelease.noise.distributions import half_widths
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Filter, Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load

COST = ApproxDP(1.0, DELTA)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """A line of the table; NaN where a column does not apply."""

    name: str
    answers: int
    bound: float
    rmse: float
    bars: float
    seconds: float
    mib: float

    @property
    def good(self) -> bool:
        """Whether all is as it is said to be."""
        near = abs(self.rmse - 1) <= 0.02 and abs(self.bars - 0.95) <= 0.01
        return self.bound <= 1.005 if self.name == "ranges" else near and self.bound <= 1.001

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.name:22}{self.answers:13,}{self.bound:9.5f}{self.rmse:9.4f}{self.bars:9.4f}{self.seconds:9.2f}"
            f"{self.mib:7.0f}"
        )


class Step(NamedTuple):
    """A line about the whole release; `reference` is what it may take."""

    name: str
    value: float
    unit: str
    reference: float

    @property
    def good(self) -> bool:
        """Whether it took no more."""
        return self.value <= self.reference

    def to_json(self) -> dict[str, Any]:
        """With the ratio."""
        return {**self._asdict(), "ratio": self.value / self.reference}

    def __str__(self) -> str:
        return (
            f"{self.name:22}{self.value:13,.3f} {self.unit:4} of at most {self.reference:g}, ratio"
            f" {self.value / self.reference:.3f}"
        )


def marginals(name: str, table: Table, draws: int) -> Row:
    """All three-way marginals, drawn so often."""
    asked = Workload.marginals(table.domain, 3)
    truth = np.concatenate([c.reshape(-1) for c in table.counts(asked.sets)])
    begun = time.perf_counter()
    plan = ResidualPlan.choose(table.domain, asked.sets)
    chosen = time.perf_counter() - begun
    squares, inside, took, predicted = [], [], [], 0.0
    for seed in range(draws):
        begun = time.perf_counter()
        private = Private(table, Neighbours.ADD_REMOVE, Filter(COST), Entropy.insecure(seed))
        values, variances = Estimates.of(table.domain, private.measure(plan.workload, COST)).answer(asked)
        took.append(time.perf_counter() - begun)
        values -= truth
        squares.append(float(np.mean(values**2)))
        inside.append(float(np.mean(np.abs(values) <= half_widths(variances))))
        predicted = float(np.mean(variances))
    rmse = math.sqrt(float(np.mean(squares)) / predicted)
    bound = plan.error / plan.bound
    return Row(name, len(asked), bound, rmse, float(np.mean(inside)), chosen + float(np.median(took)), peak_mb())


def ranges(cells: int) -> Row:
    """All ranges of one ordered column."""
    asked = Workload.ranges(Domain.coded({"a": cells}), "a")
    begun = time.perf_counter()
    found = matrix.best_strategy(asked)
    seconds = time.perf_counter() - begun
    return Row("ranges", len(asked), found.error / found.bound, math.nan, math.nan, seconds, peak_mb())


def wide(columns: int, values: int) -> Table:
    """A universe of which nothing can be kept."""
    domain, rng = Domain.coded({f"a{i}": values for i in range(columns)}), np.random.default_rng(0)
    return Table(domain, tuple(rng.integers(0, values, 10_000).astype(np.uint8) for _ in range(columns)))


def road(columns: int, values: int) -> list[Step]:
    """All three-way marginals of a wide table from the charge to a loaded release."""
    table, steps = wide(columns, values), []
    asked = Workload.marginals(table.domain, 3)

    def took(name: str, limit: float, work: Callable[[], Result]) -> Result:
        begun = time.perf_counter()
        found = work()
        steps.append(Step(f"wide: {name}", time.perf_counter() - begun, "s", limit))
        return found

    with Ledger.open(None, COST) as ledger, TemporaryDirectory() as folder:
        curator = Curator(table, ledger, Entropy.insecure(0))
        release = took("release", 60, lambda: curator.release(MaxEnt(), asked, COST))
        query = "a1 = 3 and a7 = 2"
        release.answer(query)  # and whatever is loaded on first need
        answer = took("an answer", 0.05, lambda: release.answer(query))
        took("save", 30, lambda: release.save(Path(folder) / "out"))
        steps.append(Step("wide: files", sum(f.stat().st_size for f in Path(folder).rglob("*.*")) / 1e9, "GB", 1.5))
        loaded = took("load", 30, lambda: load(Path(folder) / "out"))
        again = took("the answer again", 0.05, lambda: loaded.answer(query))
        if str(again) != str(answer):
            raise SystemExit("the loaded release answers otherwise")
    return [*steps, Step("wide: peak memory", peak_mb() / 1024, "GiB", 6)]


def rows(data: Path | None, draws: int) -> Iterator[Row | Step]:
    """A table that is not there is skipped, aloud."""
    for name in (ADULT, "nltcs", "acs"):
        if name != ADULT and (data is None or not (data / f"{name}.csv.gz").exists()):
            print(f"SKIPPED {name}: no {name}.csv.gz; give its folder as --data DIR", file=sys.stderr)
            continue
        folder = None if name == ADULT else data
        yield marginals(name, Job(name, folder, COST.epsilon, "maxent", 0).table(), draws)
    yield ranges(1024)
    yield marginals("wide", wide(100, 10), 1)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield from pool.submit(road, 100, 10).result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of NAME.csv.gz and NAME-domain.json")
    parser.add_argument("--draws", type=int, default=100, help="measurements of each table")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    good = True
    if not arguments.json:
        print(f"{'name':22}{'answers':>13}{'bound':>9}{'rmse':>9}{'bars':>9}{'seconds':>9}{'MiB':>7}")
    for row in rows(arguments.data, arguments.draws):
        print(json.dumps(row.to_json()) if arguments.json else row, flush=True)
        good &= row.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
