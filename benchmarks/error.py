"""Error against the truth of MWEM and the two baselines, on all three-way marginals.

    python -m benchmarks.error [--quick] [--data DIR] [--json]

The demo columns are the nine categorical ones of the bundled Adult table. DIR holds NAME.csv.gz and NAME-domain.json
(`{"column": size}`) of further tables of integer codes: nltcs, and without --quick acs. Each measurement runs in a
fresh process, so that its peak memory is its own, imports and table included; its seconds are those of the release and
its answers, with the kernels in numba's cache. Noise comes from fixed seeds, so that errors can be repeated: it
protects nobody, and the tables are public. Exit code 1 if MWEM does not beat both baselines.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from qrelease.data.bundled import CATEGORICAL, adult
from qrelease.data.table import Table
from qrelease.evaluation.evaluate import Truth, describe, with_baselines
from qrelease.evaluation.results import BASELINES, Evaluation, Run
from qrelease.mechanisms.base import Mechanism
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Neighbours
from qrelease.privacy.costs import cost_of
from qrelease.queries.workload import Workload

DEMO = "adult (demo columns)"
DEFAULT = "mwem"
DELTA = 1e-9
NEIGHBOURS = Neighbours.ADD_REMOVE


@dataclass(frozen=True)
class Job:
    """One measurement, small enough to be sent to a process; `data` is None for the demo."""

    dataset: str
    data: Path | None
    delta: float | None
    epsilon: float
    mechanism: str
    seed: int

    def table(self) -> Table:
        if self.data is None:
            return adult(CATEGORICAL)
        return Table.read_csv(self.data / f"{self.dataset}.csv.gz", self.data / f"{self.dataset}-domain.json")


def contenders(epsilon: float, delta: float | None) -> dict[str, Mechanism]:
    return with_baselines({DEFAULT: MWEM()}, cost_of(epsilon, delta))


def measure(job: Job) -> tuple[Run, str]:
    """The run, and what it was about in words."""
    table, cost = job.table(), cost_of(job.epsilon, job.delta)
    truth = Truth.of(table, Workload.marginals(table.domain, 3))
    mechanism = contenders(job.epsilon, job.delta)[job.mechanism]
    run = truth.run(job.mechanism, mechanism, cost, NEIGHBOURS, Entropy.insecure(job.seed), job.seed)
    return run, describe(job.dataset, truth, cost, NEIGHBOURS)


def plan(quick: bool, data: Path | None) -> list[Job]:
    """All measurements, those of one table and one δ together. A table that is not there is skipped, aloud."""
    folders: dict[str, Path | None] = {DEMO: None}
    for name in ["nltcs"] if quick else ["nltcs", "acs"]:
        if data is None or not (data / f"{name}.csv.gz").exists():
            print(f"SKIPPED {name}: no {name}.csv.gz; give its folder as --data DIR", file=sys.stderr)
        else:
            folders[name] = data
    return [
        Job(dataset, folder, delta, epsilon, mechanism, seed)
        for dataset, folder in folders.items()
        for delta in ([DELTA] if quick else [DELTA, None])
        for epsilon in ([0.1, 1.0] if quick else [0.1, 1.0, 10.0])
        for mechanism in contenders(epsilon, delta)
        for seed in ([0] if quick else [0, 1, 2])
    ]


def results(jobs: list[Job]) -> Iterator[Evaluation]:
    """One evaluation for each table and δ."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        measured = tqdm(pool.imap(measure, jobs), total=len(jobs), desc="measurements", disable=None, leave=False)
        pairs = zip(jobs, measured, strict=True)
        for (dataset, _), group in groupby(pairs, key=lambda pair: (pair[0].dataset, pair[0].delta)):
            runs, subjects = zip(*(found for _, found in group), strict=True)
            yield Evaluation(dataset, subjects[0], runs)


def losses(found: Evaluation) -> Iterator[str]:
    """Where the default does not beat a baseline."""
    for epsilon in found.epsilons:
        for baseline in BASELINES:
            ratio = found.ratio(DEFAULT, baseline, epsilon)
            if ratio >= 1:
                yield f"{found.dataset} at epsilon={epsilon:g}: {DEFAULT} has {ratio:.3f} times the error of {baseline}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, epsilon 0.1 and 1, no acs, no pure epsilon")
    parser.add_argument("--data", type=Path, help="folder of NAME.csv.gz and NAME-domain.json")
    parser.add_argument("--json", action="store_true", help="one object a line instead of tables")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    lost: list[str] = []
    for found in results(plan(arguments.quick, arguments.data)):
        print(found.to_json_lines("error") if arguments.json else f"{found}\n", flush=True)
        lost += losses(found)
    for line in lost:
        print(f"FAILED {line}", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
