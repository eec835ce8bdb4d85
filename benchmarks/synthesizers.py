"""Synthetic tables of this package and of others, side by side: one object a line, kept in benchmarks/results.

    python -m benchmarks.synthesizers --data DIR --only titanic,nltcs --epsilon 0.1,1,10 [--methods qrelease,mst] \
        [--peers peers/bin/python] [--opendp opendp/bin/python] [--out benchmarks/results/synthesizers.jsonl]

DIR holds NAME.csv.gz and NAME-domain.json (`{"column": size}`) of tables of integer codes, and in DIR/raw the tables
flights, planes and rwm5yr as text, of which the columns in `RAW` are read, a record as the unit. Each measurement runs
in a process of its own. `l1` is the mean L1 distance, from 0 to 2, of the densities of all marginals on three columns
(up to 500 of them, always the same ones). `tstr_auc` is how well boosted trees that learnt from the synthetic table
foretell a column of a fifth of the real records; `real_auc` how well such trees tell synthetic records from real ones
(0.5: not at all). `floor` is as many real records drawn again, `independent` the same with each column drawn by
itself; they depend on no epsilon, so each is run at the first one alone. `gaussian` has independent noise on every
answer and no table. Seconds are CPU seconds of the process, so that a busy
machine counts less; memory is its peak. Noise is from a fixed seed and protects nobody; the tables are public.

Others run in environments of their own, dpmm's that of --peers and OpenDP's that of --opendp, by the files in
benchmarks/adapters, which say how to make them: on one thread, as far as --limit CPU seconds and --memory GiB of
addresses. What is stopped there is a line too, with `failed` in place of its figures and what it had used by then.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import qrelease as qr
from benchmarks.keep import machine
from benchmarks.persons import DOCTOR_VISITS, FLIGHTS
from qrelease.data.attribute import Attribute
from qrelease.evaluation.quality.copies import part
from qrelease.evaluation.quality.marginals import cell_counts, distances, sets_of
from qrelease.evaluation.quality.models import prediction_scores, told_apart
from qrelease.privacy.costs import cost_of

DELTA = 1e-9
BESIDE = ("floor", "independent")
OURS = ("qrelease", "gaussian", *BESIDE)
PEERS = {
    "aim": ("dpmm_tables.py", "aim"),
    "mst": ("dpmm_tables.py", "mst"),
    "privbayes": ("dpmm_tables.py", "privbayes"),
    "aim-opendp": ("opendp_tables.py", "aim"),
    "mst-opendp": ("opendp_tables.py", "mst"),
}
"""The adapter of each mechanism of others, and what that calls it."""

OPTIONS = {"aim": "--degree 3 --model-size 4", "aim-opendp": "--degree 3 --model-size 4"}
CPU_LIMIT, MEMORY_LIMIT = 900, 12
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
TARGETS = {"titanic": "Survived", "nltcs": "traveling", "acs": "0", "br2000": "0", "adult": "income>50K"} | {
    "flights": "origin",
    "planes": "engine",
    "rwm5yr": "outwork",
}
_ENGINES = ("4 Cycle", "Reciprocating", "Turbo-fan", "Turbo-jet", "Turbo-prop", "Turbo-shaft")
_AIRCRAFT = ("Fixed wing multi engine", "Fixed wing single engine", "Rotorcraft")
PLANES = (
    Attribute("year", "number", edges=(1950, 1970, *range(1980, 2013, 2), 2014), integer=True, missing=("", "NA")),
    Attribute("type", "category", categories=_AIRCRAFT),
    Attribute("engines", "number", edges=(1, 2, 3, 4, 5), integer=True),
    Attribute("seats", "number", edges=(0, 5, 10, 20, 50, 100, 150, 200, 250, 300, 500), integer=True),
    Attribute("engine", "category", categories=_ENGINES),
)
RAW = {"flights": FLIGHTS, "planes": PLANES, "rwm5yr": DOCTOR_VISITS}
"""The columns of raw tables that are read: public bins and categories, the same that `benchmarks.persons` has."""

MAX_SETS = 500


@dataclass(frozen=True)
class Job:
    """One measurement, small enough to be sent to a process."""

    data: Path
    table: str
    method: str
    epsilon: float
    seed: int
    peers: str | None
    limit: int = CPU_LIMIT
    memory: int = MEMORY_LIMIT

    def read(self) -> qr.Table:
        if self.table in RAW:
            return qr.Table.read_csv(self.data / "raw" / f"{self.table}.csv.gz", qr.Domain(RAW[self.table]))
        return qr.Table.read_csv(self.data / f"{self.table}.csv.gz", self.data / f"{self.table}-domain.json")

    @property
    def command(self) -> str:
        asked = f"--only {self.table} --epsilon {self.epsilon:g} --methods {self.method} --seed {self.seed}"
        if self.method in PEERS and self.limit != CPU_LIMIT:
            asked += f" --limit {self.limit}"
        if self.method in PEERS and self.memory != MEMORY_LIMIT:
            asked += f" --memory {self.memory}"
        return f"python -m benchmarks.synthesizers --data DIR {asked}"


def resampled(table: qr.Table, method: str, rng: np.random.Generator) -> qr.Table:
    """The floor, or independent columns."""
    n = len(table)
    if method == "floor":
        return part(table, rng.integers(n, size=n))
    return qr.Table(table.domain, tuple(c[rng.integers(n, size=n)] for c in table.columns))


def release_of(table: qr.Table, method: str, cost: qr.Cost, seed: int) -> qr.Release:
    mechanism: Any = qr.Auto(table=True) if method == "qrelease" else qr.Gaussian()
    with qr.Ledger.open(None, cost, dataset="benchmark") as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(seed))
        return curator.release(mechanism, qr.Workload.marginals(table.domain, 3), cost)


def distance_of_answers(table: qr.Table, release: qr.Release) -> float:
    """The mean L1 distance of noisy answers themselves, negative ones taken for 0."""
    answers, start, found = np.maximum(release.answers(), 0.0), 0, []
    for axes in release.workload.sets:
        (truth,) = cell_counts([table], axes)
        size = table.domain.cells(axes)
        density = answers[start : start + size]
        start += size
        found.append(np.abs(density / max(density.sum(), 1.0) - truth / len(table)).sum())
    return float(np.mean(found))


def options_of(job: Job) -> str:
    return OPTIONS.get(job.method, "")


def objects_in(printed: str) -> dict[str, Any]:
    """What an adapter printed, line by line, as one object."""
    found: dict[str, Any] = {}
    for line in printed.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    return found


def of_peer(job: Job, table: qr.Table) -> tuple[qr.Table, dict[str, Any]]:
    """What an adapter made, and what it says of itself."""
    name, mechanism = PEERS[job.method]
    adapter = Path(__file__).parent / "adapters" / name
    with TemporaryDirectory() as folder:
        source, sizes, out = (Path(folder, name) for name in ("table.csv", "sizes.json", "out.csv"))
        sizes.write_text(json.dumps(dict(zip(table.domain.names, table.domain.shape, strict=True))), encoding="utf-8")
        header = ",".join(f'"{name}"' for name in table.domain.names)
        np.savetxt(source, np.column_stack(table.columns), fmt="%d", delimiter=",", header=header, comments="")
        asked = [str(adapter), mechanism, str(source), str(sizes), str(out)]
        cost = ["--epsilon", f"{job.epsilon:g}", "--delta", f"{DELTA:g}", "--seed", str(job.seed)]
        limits = ["--cpu-limit", str(job.limit), "--memory-limit", str(job.memory)]
        done = subprocess.run(
            [str(job.peers), *asked, *cost, *limits, *options_of(job).split()],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | ONE_THREAD,
        )
        said = objects_in(done.stdout)
        codes = qr.Table.read_csv(out, sizes)
        return qr.Table(table.domain, codes.columns), said | {"options": options_of(job)}


def why_stopped(job: Job, error: subprocess.CalledProcessError, seconds: float) -> str:
    """What is told in place of the figures of one that did not end well.

    The seconds are those measured: the system's limit is by its ticks, which may be some percent off.
    """
    said = [line.strip() for line in str(error.stderr).splitlines() if any(map(str.isalpha, line))]
    last = (said or [f"it ended with {error.returncode}"])[-1]
    if error.returncode == -signal.SIGXCPU:
        return f"not done after {seconds:,.0f} CPU seconds"
    if "MemoryError" in last:
        return f"out of memory, at a limit of {job.memory} GiB"
    return last[:200]


def used_by_others(wall: float) -> dict[str, float]:
    """What the adapter had used when it was stopped: this process has had no other child."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {"cpu_seconds": used.ru_utime + used.ru_stime, "wall_seconds": wall, "peak_mib": used.ru_maxrss / unit}


def measure(job: Job) -> dict[str, Any]:
    """One line of the results."""
    table, rng = job.read(), np.random.default_rng(job.seed)
    made: qr.Table | None = None
    found: dict[str, Any] = {}
    started = time.process_time(), time.monotonic()
    if job.method in PEERS:
        try:
            made, found = of_peer(job, table)
        except subprocess.CalledProcessError as error:
            theirs = used_by_others(time.monotonic() - started[1])
            why = why_stopped(job, error, theirs["cpu_seconds"])
            found = objects_in(error.stdout) | theirs | {"options": options_of(job), "failed": why}
    elif job.method in ("floor", "independent"):
        made = resampled(table, job.method, rng)
    else:
        release = release_of(table, job.method, cost_of(job.epsilon, DELTA), job.seed)
        if job.method == "qrelease":
            codes = release.codes(None, np.random.default_rng(job.seed))
            made = qr.Table(table.domain, tuple(c.astype(np.uint32) for c in codes))
            found["mechanism"] = release.parameters.get("chosen", release.mechanism)
        else:
            found["l1"] = distance_of_answers(table, release)
    if "cpu_seconds" not in found and job.method in ("qrelease", "gaussian"):
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
        spent = time.process_time() - started[0], time.monotonic() - started[1]
        found |= {"cpu_seconds": spent[0], "wall_seconds": spent[1], "peak_mib": used}
    if made is not None:
        found |= judged(table, made, TARGETS.get(job.table), rng)
    return described(job, table) | rounded(found)


def judged(table: qr.Table, made: qr.Table, target: str | None, rng: np.random.Generator) -> dict[str, float]:
    """The figures of a synthetic table."""
    sets = sets_of(len(table.domain), 3, MAX_SETS)
    found = {"l1": float(distances(table, [made], sets).mean()), "real_auc": told_apart(table, made, rng).auc}
    if target in table.domain.names:
        test = part(table, np.random.default_rng(0).permutation(len(table))[: len(table) // 5])
        found["tstr_auc"] = prediction_scores(made, test, table.domain.axis(str(target)))[0]
    return found


def described(job: Job, table: qr.Table) -> dict[str, Any]:
    about = {"table": job.table, "records": len(table), "columns": len(table.domain)}
    asked = {"method": job.method, "epsilon": job.epsilon, "delta": DELTA, "seed": job.seed}
    return about | asked | {"version": f"qrelease {version('qrelease')}", "machine": machine(), "command": job.command}


def rounded(found: dict[str, Any]) -> dict[str, Any]:
    return {key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in found.items()}


def with_line(kept: Sequence[str], line: str) -> list[str]:
    """The lines with one more, in the place of that of the same table, method, ε and seed."""
    lines = {tuple(json.loads(x)[key] for key in ("table", "method", "epsilon", "seed")): x for x in [*kept, line]}
    return list(lines.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="titanic,nltcs,acs", help="tables; default: %(default)s")
    parser.add_argument("--epsilon", default="0.1,1,10")
    parser.add_argument("--methods", default=",".join((*OURS, *PEERS)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", help="the Python of the environment that dpmm is installed in")
    parser.add_argument("--opendp", help="the Python of that of OpenDP")
    limit, memory = "CPU seconds for a table of others", "GiB of addresses for it"
    parser.add_argument("--limit", type=int, default=CPU_LIMIT, help=f"{limit}; default: %(default)s")
    parser.add_argument("--memory", type=int, default=MEMORY_LIMIT, help=f"{memory}; default: %(default)s")
    parser.add_argument("--out", type=Path, help="a file of lines: each replaces the one it measures anew")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    pythons = {"dpmm_tables.py": arguments.peers, "opendp_tables.py": arguments.opendp}
    peers = {method: pythons[adapter] for method, (adapter, _) in PEERS.items()}
    limits = arguments.limit, arguments.memory
    jobs = [
        Job(arguments.data, table, method, float(epsilon), arguments.seed, peers.get(method), *limits)
        for table in arguments.only.split(",")
        for i, epsilon in enumerate(arguments.epsilon.split(","))
        for method in arguments.methods.split(",")
        if (method in OURS and not (i and method in BESIDE)) or peers.get(method)
    ]
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for found in pool.imap(measure, jobs):
            line = json.dumps(found, ensure_ascii=False)
            print(line, flush=True)
            if arguments.out is not None:
                kept = arguments.out.read_text(encoding="utf-8").splitlines() if arguments.out.exists() else []
                text = "".join(f"{x}\n" for x in with_line(kept, line))
                arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
