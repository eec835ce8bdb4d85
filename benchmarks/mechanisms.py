"""Error of every mechanism against plain Laplace noise, on small real domains where all of them run.

    python -m benchmarks.mechanisms [--quick] [--data DIR] [--json]

Two of the domains are columns of the bundled Adult table; DIR holds nltcs.csv.gz and nltcs-domain.json (`{"column":
size}`) for the third. Costs are (ε, 1e-9) under add-remove; what has no use for δ leaves it. Each mechanism runs in a
fresh process for each domain and ε, so that its peak memory is its own, imports and table included; errors are means
over its trials, and seconds those of one release and its answers. Noise comes from fixed seeds: it protects nobody, and
the tables are public.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tqdm import tqdm

from qrelease.data.bundled import adult
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.evaluate import peak_mb
from qrelease.inference.nets import quantiles, small_databases
from qrelease.mechanisms.base import Mechanism, OnlineMechanism, Session
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.simulation import ask
from qrelease.mechanisms.small_db.net import Net
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

BASELINE = "laplace"
DELTA = 1e-9
EPSILONS = (0.1, 0.5, 1.0, 2.0)
NLTCS = ["bathing", "dressing", "traveling"]


def sets_of_cells() -> tuple[Table, Workload]:
    table = adult(["race", "sex", "income"])
    rows = np.unique(np.random.default_rng(0).integers(0, 2, (500, table.domain.size)), axis=0)
    return table, Workload.vectors(table.domain, rows.astype(float))


def ranges() -> tuple[Table, Workload]:
    table = adult(["age"])
    return table, Workload.ranges(table.domain, "age")


def marginals(data: Path) -> tuple[Table, Workload]:
    table = Table.read_csv(data / "nltcs.csv.gz", data / "nltcs-domain.json", NLTCS)
    return table, Workload.marginals(table.domain, 2)


BUNDLED = {"adult: 500 sets of cells of race, sex, income": sets_of_cells, "adult: all ranges of age": ranges}
OF_NLTCS = "nltcs: 2-way marginals of 3 columns"

CONTENDERS: dict[str, Callable[[Workload], Mechanism | OnlineMechanism[Session]]] = {
    BASELINE: lambda workload: Laplace(),
    "gaussian": lambda workload: Gaussian(),
    "mwem": lambda workload: MWEM(choice="query" if len(workload.groups) == 1 else "group"),
    "iterative": lambda workload: IterativeConstruction(),
    "smalldb": lambda workload: SmallDB(),
    "net": lambda workload: Net(
        quantiles(workload.domain, 1 / 5) if len(workload.domain) == 1 else small_databases(workload.domain, 5)
    ),
    "pmw": lambda workload: PrivateMultiplicativeWeights(queries=len(workload)),
}


@dataclass(frozen=True)
class Job:
    """Some trials, small enough to be sent to a process; `data` is None for what is bundled."""

    dataset: str
    data: Path | None
    epsilon: float
    mechanism: str
    trials: int


@dataclass(frozen=True)
class Line:
    """What was measured: errors are fractions of the table, means over the trials; None where it refused."""

    dataset: str
    epsilon: float
    delta: float
    mechanism: str
    worst: float | None = None
    mean: float | None = None
    seconds: float | None = None
    peak_mb: float | None = None
    refusal: str = ""


def answers(
    curator: Curator, mechanism: Mechanism | OnlineMechanism[Session], workload: Workload, cost: ApproxDP
) -> np.ndarray:
    if not isinstance(mechanism, OnlineMechanism):
        return curator.release(mechanism, workload, cost).answers()
    with curator.open(mechanism, cost) as session:
        return ask(session, workload, np.arange(len(workload)))


def measure(job: Job) -> Line:
    table, workload = BUNDLED[job.dataset]() if job.data is None else marginals(job.data)
    counts = dict(zip(workload.sets, table.counts(workload.sets), strict=True))
    truth = np.concatenate([g.queries.apply(counts[g.axes]) for g in workload.groups])
    cost = ApproxDP(job.epsilon, DELTA)
    gaps, seconds = [], []
    for seed in range(job.trials):
        mechanism = CONTENDERS[job.mechanism](workload)
        with Ledger.open(None, cost) as ledger:
            started = time.perf_counter()
            try:
                found = answers(Curator(table, ledger, Entropy.insecure(seed)), mechanism, workload, cost)
            except InvalidInput as error:
                return Line(job.dataset, job.epsilon, DELTA, job.mechanism, refusal=str(error).partition(";")[0])
            seconds.append(time.perf_counter() - started)
        gaps.append(np.abs(found - truth) / len(table))
    worst, mean = float(np.mean([g.max() for g in gaps])), float(np.mean(gaps))
    return Line(job.dataset, job.epsilon, DELTA, job.mechanism, worst, mean, min(seconds), peak_mb())


def jobs(quick: bool, data: Path | None) -> list[Job]:
    """All measurements. A table that is not there is skipped, aloud."""
    folders: dict[str, Path | None] = dict.fromkeys(BUNDLED)
    if data is None or not (data / "nltcs.csv.gz").exists():
        print("SKIPPED nltcs: no nltcs.csv.gz; give its folder as --data DIR", file=sys.stderr)
    else:
        folders[OF_NLTCS] = data
    return [
        Job(dataset, folder, epsilon, name, 2 if quick else 3)
        for dataset, folder in folders.items()
        for epsilon in ((1.0,) if quick else EPSILONS)
        for name in CONTENDERS
    ]


def results(todo: list[Job]) -> Iterator[Line]:
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        yield from tqdm(pool.imap(measure, todo), total=len(todo), desc="measurements", disable=None, leave=False)


def table_text(lines: list[Line]) -> Iterator[str]:
    yield f"{'mechanism':12}{'worst error':>12}{'/ laplace':>11}{'mean error':>12}{'/ laplace':>11}{'s':>8}{'MiB':>6}"
    base = next(line for line in lines if line.mechanism == BASELINE)
    assert base.worst is not None
    assert base.mean is not None
    for line in lines:
        if line.worst is None or line.mean is None:
            yield f"{line.mechanism:12}  refused: {line.refusal}"
            continue
        worst, mean = line.worst / base.worst, line.mean / base.mean
        yield (
            f"{line.mechanism:12}{line.worst:12.5f}{worst:11.2f}{line.mean:12.6f}{mean:11.2f}"
            f"{line.seconds:8.3f}{line.peak_mb:6.0f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="epsilon 1 only, two trials")
    parser.add_argument("--data", type=Path, help="folder of nltcs.csv.gz and nltcs-domain.json")
    parser.add_argument("--json", action="store_true", help="one object a line instead of tables")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    for (dataset, epsilon), lines in groupby(
        results(jobs(arguments.quick, arguments.data)), key=lambda line: (line.dataset, line.epsilon)
    ):
        if arguments.json:
            for line in lines:
                print(json.dumps({"name": "mechanisms", **asdict(line)}), flush=True)
            continue
        print(f"\n{dataset}, epsilon={epsilon:g}, delta={DELTA:g}, add-remove", flush=True)
        print("\n".join(table_text(list(lines))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
