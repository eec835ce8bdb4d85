"""Universes that no memory holds: `records` against what is known of the graphical models, on all three-way marginals.

    python -m benchmarks.large [--quick] [--data DIR] [--only TABLE] [--epsilon E] [--seeds N] [--records N,N,…]
                               [--picture FILE] [--json]
    python -m benchmarks.frontier --large …     is the same

Tables from DIR (as for `benchmarks.error`): adult (2^55 cells), br2000, titanic, and acs, whose universe also fits in
memory, by `maxent` too; at (ε, 1e-9), ε in {0.1, 1, 10}, add-remove, three seeds. Each row is one run in a process of
its own:

    l1, max       of the answers: the mean L1 distance of normalised marginals, and the largest difference of a cell
    records       weighted records that are released: fewer take less time, so that --records 32768,131072,524288 gives
                  error against seconds, which --picture FILE draws (.svg or .png)
    seconds, mib  of the release with its fit; the most memory the process has held

`asked` is the most that each may be, and AIM's figure beside it the one to beat (McKenna, Mullins, Sheldon & Miklau
2022, numpy private-pgm, 1 MB model). Noise comes from fixed seeds, so that errors can be repeated: it protects nobody,
and the tables are public. Exit code 1 where a limit is missed.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.evaluate import peak_mb
from qrelease.evaluation.results import check_picture
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import Records
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

DELTA = 1e-9
TABLES = ("adult", "br2000", "titanic", "acs")
EPSILONS = (0.1, 1.0, 10.0)
LIMITS = {("adult", 0.1): (0.255, 0.037), ("adult", 1.0): (0.098, 0.0063), ("adult", 10.0): (0.044, 0.0033)}
AIM = {("adult", 0.1): (0.309, 0.056), ("adult", 1.0): (0.132, 0.0171), ("adult", 10.0): (0.0965, 0.0141)}
SECONDS, MIB = 30.0, 2048.0  # of adult at ε = 1, on two cores
OF_DENSE = 1.1  # times the error of `maxent`, where it runs too


@dataclass(frozen=True)
class Job:
    """One release, small enough to be sent to a process."""

    dataset: str
    data: Path
    epsilon: float
    mechanism: str
    seed: int
    records: int


@dataclass(frozen=True)
class Row:
    """What came out of a job."""

    dataset: str
    epsilon: float
    mechanism: str
    seed: int
    records: int
    l1: float
    max: float
    seconds: float
    mib: float


def release(job: Job) -> Row:
    """Release, and compare with the truth."""
    table = Table.read_csv(job.data / f"{job.dataset}.csv.gz", job.data / f"{job.dataset}-domain.json")
    asked = Workload.marginals(table.domain, 3)
    truth = np.concatenate([c.reshape(-1) for c in table.counts(asked.sets)]) / len(table)
    mechanism = MaxEnt() if job.mechanism == "maxent" else Records(records=job.records or None)
    cost = ApproxDP(job.epsilon, DELTA)
    with Ledger.open(None, cost) as ledger:
        begin = time.perf_counter()
        made = Curator(table, ledger, Entropy.insecure(job.seed)).release(mechanism, asked, cost)
        seconds = time.perf_counter() - begin
    gaps = np.abs(made.answers() / made.synopsis.total - truth)
    l1 = float(np.add.reduceat(gaps, asked.bounds[:-1]).mean())
    worst = float(gaps.max())
    return Row(job.dataset, job.epsilon, job.mechanism, job.seed, job.records, l1, worst, seconds, peak_mb())


def jobs(
    tables: Sequence[str], epsilons: Sequence[float], data: Path | None, seeds: int, records: Sequence[int]
) -> Iterator[Job]:
    """A table that is not there is skipped, aloud."""
    for dataset in tables:
        if data is None or not (data / f"{dataset}.csv.gz").exists():
            print(f"SKIPPED {dataset}: no {dataset}.csv.gz; give its folder as --data DIR", file=sys.stderr)
            continue
        for epsilon in epsilons:
            if dataset == "acs":
                yield from (Job(dataset, data, epsilon, "maxent", seed, 0) for seed in range(seeds))
            for number in records:
                yield from (Job(dataset, data, epsilon, "records", seed, number) for seed in range(seeds))


Found = dict[tuple[str, float, str, int], list[Row]]


def misses(found: Found) -> Iterator[str]:
    """What is above its limit, in means over the seeds."""
    for (dataset, epsilon, _, records), rows in found.items():
        if records:
            continue
        l1, worst = np.mean([r.l1 for r in rows]), np.mean([r.max for r in rows])
        asked = LIMITS.get((dataset, epsilon), (np.inf, np.inf))
        dense = found.get((dataset, epsilon, "maxent", 0))
        if dense:
            asked = (OF_DENSE * float(np.mean([r.l1 for r in dense])), np.inf)
        name = f"{dataset} at epsilon={epsilon:g}"
        if l1 > asked[0]:
            yield f"{name}: l1 {l1:.4f} is above {asked[0]:.4f}"
        if worst > asked[1]:
            yield f"{name}: max {worst:.4f} is above {asked[1]:.4f}"
        if (dataset, epsilon) == ("adult", 1.0):
            for r in rows:
                if r.seconds > SECONDS or r.mib > MIB:
                    yield f"{name}: {r.seconds:.0f} s and {r.mib:.0f} MiB are above {SECONDS:.0f} s or {MIB:.0f} MiB"


def table_of(found: Found) -> str:
    """Means over the seeds, and what is asked."""
    head = f"{'table':10}{'epsilon':>8} {'mechanism':10}{'records':>8}{'l1':>9}{'asked':>8}{'AIM':>8}"
    lines = [f"{head}{'max':>9}{'asked':>8}{'s':>8}{'MiB':>7}"]
    for (dataset, epsilon, mechanism, records), rows in found.items():
        asked = [f"{x:8.4f}" for x in LIMITS.get((dataset, epsilon), ())] or [" " * 8] * 2
        aim, _ = AIM.get((dataset, epsilon), (None, None))
        lines.append(
            f"{dataset:10}{epsilon:8g} {mechanism:10}{records:8}{np.mean([r.l1 for r in rows]):9.5f}{asked[0]}"
            f"{' ' * 8 if aim is None else f'{aim:8.4f}'}{np.mean([r.max for r in rows]):9.5f}{asked[1]}"
            f"{max(r.seconds for r in rows):8.1f}{max(r.mib for r in rows):7.0f}"
        )
    return "\n".join(lines)


def draw(found: Found, path: Path) -> None:
    """Both errors against seconds: a line for each table and ε, a point for each number of records, AIM's line across.

    A point is the mean over the seeds, its bar their span.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator

    with mpl.rc_context({"svg.hashsalt": "large", "svg.fonttype": "none"}):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        for panel, (axes, label) in enumerate(zip(figure.subplots(1, 2), ("l1", "max"), strict=True)):
            for (dataset, epsilon, mechanism), keys in groupby(sorted(found), lambda key: key[:3]):
                runs = [found[key] for key in keys]
                seconds = [float(np.mean([r.seconds for r in rows])) for rows in runs]
                errors = [[r.max if panel else r.l1 for r in rows] for rows in runs]
                means = [float(np.mean(e)) for e in errors]
                spans = [[m - min(e), max(e) - m] for m, e in zip(means, errors, strict=True)]
                name = f"{dataset}, epsilon {epsilon:g}"
                (line, *_) = axes.errorbar(
                    seconds, means, np.transpose(spans), marker="o", capsize=3, label=f"{name}: {mechanism}"
                )
                for x, y, rows in zip(seconds, means, runs, strict=True):
                    axes.annotate(f"{rows[0].records:,}", (x, y), (4, 4), textcoords="offset points", fontsize=7)
                if (dataset, epsilon) in AIM:
                    aim = AIM[dataset, epsilon][panel]
                    axes.axhline(aim, linestyle="--", color=line.get_color(), label=f"{name}: AIM, {aim:g}")
            axes.set(xscale="log", xlabel="seconds", ylabel=label)
            axes.xaxis.set_major_locator(FixedLocator([15 * 2.0**k for k in range(-4, 9)]))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.legend(frameon=False, fontsize=8)
        figure.suptitle("error against seconds, by the number of weighted records")
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def run(todo: Sequence[Job], as_json: bool, picture: Path | None) -> int:
    """Run all jobs, print and draw; the exit code."""
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    found: Found = defaultdict(list)
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for row in pool.imap(release, todo):
            found[row.dataset, row.epsilon, row.mechanism, row.records].append(row)
            if as_json:
                print(json.dumps(asdict(row)), flush=True)
    if not as_json and found:
        print(table_of(found))
    if picture and found:
        draw(found, picture)
    missed = list(misses(found))
    for line in missed:
        print(f"FAILED {line}", file=sys.stderr)
    return 1 if missed else 0


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="titanic alone, one seed")
    parser.add_argument("--data", type=Path, help="folder of NAME.csv.gz and NAME-domain.json")
    parser.add_argument("--only", choices=TABLES, help="one table")
    parser.add_argument("--epsilon", type=float, choices=EPSILONS, help="one ε")
    parser.add_argument("--seeds", type=int, default=3, help="releases for each ε; 3 by default")
    parser.add_argument("--records", default="0", help="how many to release, by commas; 0: its own number")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw error against seconds (.svg or .png)")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    arguments = parser.parse_args(given)
    try:
        picture = arguments.picture and check_picture(arguments.picture)
    except InvalidInput as error:
        parser.error(str(error))
    tables, seeds = (["titanic"], 1) if arguments.quick else (TABLES, arguments.seeds)
    tables = [arguments.only] if arguments.only else tables
    epsilons = EPSILONS if arguments.epsilon is None else (arguments.epsilon,)
    records = [int(number) for number in arguments.records.split(",")]
    return run(list(jobs(tables, epsilons, arguments.data, seeds, records)), arguments.json, picture)


if __name__ == "__main__":
    sys.exit(main())
