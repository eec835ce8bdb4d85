"""What `records` promises besides its error: more rounds change nothing, wide tables fit, impossible rows never come.

    python -m benchmarks.records [--only PART ...] [--data DIR] [--epsilon E] [--records N] [--rows N] [--json]

beyond  adult, from DIR (as for `benchmarks.large`), at (ε, 1e-9), ε in {0.1, 1, 10}: a release, and then the fit that
        it ended goes on with half as many rounds again, and with as many again. Each time all records
        are fitted as the release does, with three seeds of the fit's generator, which tell what records scatter by from
        where the fit goes. Fails where the mean L1 distance of all three-way marginals changes by 1 % or more
wide    35 columns of up to 181 values, 2^111 cells, and a million rows in which each column follows others: a release
        of all three-way marginals at ε = 1 with a million weighted records, and a million rows drawn from it. The L1
        distance is the mean over 300 marginals, beside that of independent columns. Fails above 4 GiB, where seconds
        are not within a factor of four of their forecast, where more memory was taken than foretold, and where
        independent columns are nearer. It takes a quarter of an hour on two cores, with --records 65536 a minute
zeros   twelve of those columns with rules about one, two and three of them, which rows of the table break:
        a million synthetic rows and all weighted ones, as they are written to files, and every answer of the release.
        Fails where any breaks a rule
many    six columns, one of 400 cells, and 20 million rows (--rows): five marginals at (1, 1e-10). The mean error of the
        answers that have an unbiased one, over that of the unbiased ones. Fails where it is above 1.1
ruled   as many rows of people whose district has one province, by a rule; children have no job, and who has none no
        income. The same of `maxent`, of whose fit that is the hard part: columns determine each other. Fails where it
        is above 1.1, or any of a million synthetic rows breaks the rule

Noise comes from fixed seeds, so that errors can be repeated: it protects nobody. Exit code 1 where something fails.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from qrelease.data.domain import Domain
from qrelease.data.structural_zeros import masks
from qrelease.data.table import Table
from qrelease.evaluation.evaluate import peak_mb
from qrelease.inference.log_linear import LogLinear
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.mechanisms import record_selection as mechanism
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator
from qrelease.release.release import Release

DELTA = 1e-9
PARTS = ("beyond", "wide", "zeros", "many", "ruled")
EPSILONS = (0.1, 1.0, 10.0)
SEEDS = 3
MILLION = 1_000_000
LAST = 1 << 18  # weighted records of the first part
CHANGE = 0.01
ANSWERS = 1.1  # times the error of measurements
MIB = 4096.0
FORECAST = 4.0
WIDE = (181, 100, 42, 24, 20, 16, 15, 12, 10, 10, 9, 9, *[8] * 3, *[7] * 3, *[6] * 7, *[5] * 7, *[4] * 3)
SAMPLED = 300  # three-way marginals
NARROW = WIDE[8:20]
RULES = ("c1 = 5", "c0 < 2 and c2 = 3", "c3 = 5 and c4 = 5 and c11 in 2..4")

Line = dict[str, Any]
Errors = tuple[float, float]


@dataclass(frozen=True)
class Job:
    """One part's run, small enough to be sent to a process."""

    part: str
    data: Path | None
    epsilon: float
    records: int
    rows: int


def released(
    table: Table, workload: Workload, kind: FittedRecords | MaxEnt, epsilon: float, delta: float = DELTA
) -> tuple[Release, Line]:
    """With its seconds, of clocks and of cores."""
    cost = ApproxDP(epsilon, delta)
    with Ledger.open(None, cost) as ledger:
        wall, cores = time.perf_counter(), time.process_time()
        made = Curator(table, ledger, Entropy.insecure(0)).release(kind, workload, cost)
        taken = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cores}
    return made, {**taken, "load": os.getloadavg()[0]}


def distance(answers: np.ndarray, truth: np.ndarray, workload: Workload) -> float:
    """The mean L1 distance of normalised marginals."""
    return float(np.add.reduceat(np.abs(answers - truth), workload.bounds[:-1]).mean())


def normalised(table: Table, workload: Workload) -> np.ndarray:
    """All marginals of a table, one after another, as fractions."""
    return np.concatenate([c.reshape(-1) for c in table.counts(workload.sets)]) / len(table)


# --- beyond the stopping rule


def beyond(job: Job) -> Line:
    """The errors at the end, and beyond it."""
    assert job.data is not None
    table = Table.read_csv(job.data / "adult.csv.gz", job.data / "adult-domain.json")
    return going_on(table, Workload.marginals(table.domain, 3), job.records, job.epsilon)


def going_on(table: Table, workload: Workload, records: int, epsilon: float, seeds: int = SEEDS) -> Line:
    """Errors (3 stages, seeds) at the stop and beyond, in `l1`; the largest change of their mean, over the first."""
    fits: list[tuple[Any, dict[str, Any], LogLinear]] = []
    last: list[tuple[Any, dict[str, Any]]] = []
    fit: Callable[..., LogLinear] = vars(mechanism)["fit_records"]  # its module does not export them
    finish: Callable[..., LogLinear] = vars(mechanism)["finish"]

    def watched(estimates: Any, count: int, **options: Any) -> LogLinear:
        found = fit(estimates, count, **options)
        fits[:] = [((estimates, count), options, found)]
        return found

    def finished(estimates: Any, count: int, **options: Any) -> LogLinear:
        last[:] = [((estimates, count), options)]
        return finish(estimates, count, **options)

    with patch.object(mechanism, "fit_records", watched), patch.object(mechanism, "finish", finished):
        _, taken = released(table, workload, FittedRecords(weighted_records=records), epsilon)
    ((few, settling, stopped),), ((everybody, closing),) = fits, last
    truth = normalised(table, workload)
    more = max(stopped.rounds // 2, 1)
    errors: list[list[float]] = []
    for seed in range(seeds):
        rng, at = np.random.default_rng(seed), stopped
        found = []
        for stage in range(3):
            if stage:
                at = fit(*few, **{**settling, "rounds": more, "rng": rng, "start": at})
            chains = finish(*everybody, **{**closing, "rng": rng, "start": at}).chains
            made = WeightedCodes(table.domain, chains.codes, chains.weights, 1.0)
            found.append(distance(made.answer(workload), truth, workload))
        errors.append(found)
    stages = np.transpose(errors)
    means = stages.mean(axis=1)
    change = float((np.abs(means - means[0]) / means[0]).max())
    scatter = float(stages.std(axis=1, ddof=1).max() / means[0])
    rounds = {"stopped": stopped.rounds, "more": more}
    return {**taken, **rounds, "l1": stages.tolist(), "means": means.tolist(), "scatter": scatter, "change": change}


# --- a wide table


def made_up(domain: Domain, rows: int) -> Table:
    """Skewed columns: each copies the one before, the sum of the two before, or neither, by chance."""
    rng = np.random.default_rng(0)
    columns: list[np.ndarray] = []
    for size in domain.shape:
        column = rng.choice(size, rows, p=rng.permutation(rng.dirichlet(np.full(size, 0.5))))
        if columns:
            copied, added = rng.random(rows) < 0.4, rng.random(rows) < 0.3
            column = np.where(copied, columns[-1] % size, column)
            column = np.where(added, (columns[-1] + columns[-min(2, len(columns))]) % size, column)
        columns.append(column)
    return Table(domain, tuple(columns))


def wide(job: Job) -> Line:
    """What a release of a wide table takes, and its errors."""
    domain = Domain.coded({f"c{i}": n for i, n in enumerate(WIDE)})
    return measured(made_up(domain, job.rows), job.records, job.epsilon)


def measured(table: Table, records: int, epsilon: float) -> Line:
    """Seconds and memory beside what was foretold; the errors of weights, rows, and independent columns."""
    domain, kind = table.domain, FittedRecords(weighted_records=records)
    workload = Workload.marginals(domain, 3)
    before = peak_mb()
    made, taken = released(table, workload, kind, epsilon)
    rows = Table(domain, tuple(c.astype(np.uint16) for c in made.codes(len(table), np.random.default_rng(0))))
    memory = {"mib": peak_mb(), "added_mib": peak_mb() - before}
    rng = np.random.default_rng(0)
    which = np.sort(rng.choice(len(workload.sets), min(SAMPLED, len(workload.sets)), replace=False))
    asked = Workload(domain, tuple(workload.groups[i] for i in which))
    truth = normalised(table, asked)
    alone = [np.bincount(c, minlength=n) / len(table) for c, n in zip(table.columns, domain.shape, strict=True)]
    independent = np.concatenate([np.einsum("i,j,k->ijk", *(alone[a] for a in s)).reshape(-1) for s in asked.sets])
    return {
        **taken,
        **memory,
        "forecast": kind.seconds(workload, ApproxDP(epsilon, DELTA), len(table)),
        "forecast_mib": kind.memory(workload) / 2**20,
        "selected": len(made.parameters["selected"]),
        "l1": distance(made.synopsis.answer(asked) / made.synopsis.total, truth, asked),
        "l1_rows": distance(normalised(rows, asked), truth, asked),
        "l1_independent": distance(independent, truth, asked),
    }


# --- structural zeros


def zeros(job: Job) -> Line:
    """Rows and answers that break a rule."""
    domain = Domain.coded({f"c{i}": n for i, n in enumerate(NARROW)})
    return broken(made_up(domain, job.rows), RULES, job.records, job.epsilon, job.rows)


def broken(table: Table, rules: Sequence[str], records: int, epsilon: float, rows: int) -> Line:
    """How many rows break a rule: of the table, and of the files of a release; and the answers to what is impossible.

    answers  the sum of all of them, over the marginals that can tell
    """
    domain = replace(table.domain, impossible=tuple(rules))
    table, workload = Table(domain, table.columns), Workload.marginals(domain, 3)
    made, taken = released(table, workload, FittedRecords(weighted_records=records), epsilon)
    forbidden = masks(domain, rules)

    def breaking(found: Table) -> int:
        wrong = np.zeros(len(found), bool)
        for axes, mask in forbidden.items():
            shape = [domain.shape[a] for a in axes]
            wrong |= mask[np.ravel_multi_index([found.columns[a].astype(np.int64) for a in axes], shape)]
        return int(wrong.sum())

    with TemporaryDirectory() as folder:
        files = []
        for weighted in (False, True):
            made.save(Path(folder) / str(weighted), None if weighted else rows, weighted=weighted, answers=False)
            # Under the rules a table with a record that breaks one would be refused.
            files.append(Table.read_csv(Path(folder) / str(weighted) / "synthetic.csv", replace(domain, impossible=())))
    impossible = 0.0
    for axes, answers in zip(workload.sets, np.split(made.answers(), workload.bounds[1:-1]), strict=True):
        for columns, mask in forbidden.items():
            if set(columns) <= set(axes):
                cells = answers.reshape([domain.shape[a] for a in axes])
                inside = mask.reshape([domain.shape[a] if a in columns else 1 for a in axes])
                impossible += float(np.abs(cells * inside).sum())
    return {
        **taken,
        "table": breaking(table),
        "rows": len(files[0]),
        "broken": breaking(files[0]),
        "weighted": len(files[1]),
        "weighted_broken": breaking(files[1]),
        "answers": impossible,
    }


# --- many rows


def many(job: Job) -> Line:
    """Errors of answers beside those of the measurements that they come from, where noise is small beside counts."""
    table = districts(job.rows)
    sets = [(0, 1), (0, 3), (2, 4), (3, 4, 5), (1, 4)]
    workload = Workload(table.domain, tuple(Group(s, Cells(table.domain.cells(s))) for s in sets))
    made, taken = released(table, workload, FittedRecords(), job.epsilon, delta=1e-10)
    synopsis = made.synopsis
    assert isinstance(synopsis, WeightedCodes)
    return {**taken, **over_noisy(table, made), "misfit": synopsis.misfit}


def over_noisy(table: Table, made: Release) -> Line:
    """The mean errors of a release's answers, and of the unbiased ones where there are these."""
    true = np.concatenate([c.reshape(-1) for c in table.counts(made.workload.sets)])
    off, noisy = np.abs(made.answers() - true), np.abs(made.error_bars()[0] - true)
    given = ~np.isnan(noisy)
    error, unbiased = float(off[given].mean()), float(noisy[given].mean())
    return {"error": error, "noisy": unbiased, "ratio": error / unbiased}


def districts(rows: int) -> Table:
    """People in 400 districts of 12 provinces, by age, sex, employment, which follows age, and sector."""
    rng = np.random.default_rng(1)
    sizes = {"district": 400, "province": 12, "age": 100, "sex": 2, "employment": 8, "sector": 20}
    district = rng.choice(400, rows, p=rng.dirichlet(np.full(400, 0.3)))
    age, sex = rng.choice(100, rows, p=rng.dirichlet(np.full(100, 2.0))), rng.integers(0, 2, rows)
    employment = (age // 15 + (rng.random(rows) < 0.3) * rng.integers(0, 8, rows)) % 8
    sector = np.where(employment < 3, employment, (2 * employment + sex + rng.integers(0, 5, rows)) % 20)
    columns = (district, district * 12 // 400, age, sex, employment, sector)
    return Table(Domain.coded(sizes), tuple(c.astype(np.uint16) for c in columns))


def ruled(job: Job) -> Line:
    """The same of `maxent`, where columns determine each other, and how many of a million rows break the rule."""
    table = families(job.rows)
    sets = [(0, 2, 3), (1, 2, 3), (0, 4), (2, 4, 5), (5, 6)]
    workload = Workload(table.domain, tuple(Group(s, Cells(table.domain.cells(s))) for s in sets))
    made, taken = released(table, workload, MaxEnt(), job.epsilon, delta=1e-10)
    district, province, *_ = made.codes(MILLION, np.random.default_rng(0))
    return {**taken, **over_noisy(table, made), "broken": int((np.asarray(district) * 12 // 400 != province).sum())}


def families(rows: int) -> Table:
    """People in 400 districts of 12 provinces, by age, sex, job, education and income: children have only the first."""
    rng = np.random.default_rng(1)
    district = rng.choice(400, rows, p=(sizes := 1 / np.arange(1, 401)) / sizes.sum())
    age, sex = rng.binomial(8, 0.45, rows), rng.integers(0, 2, rows)
    job = np.where(age < 2, 0, np.where(age == 8, 1, rng.binomial(2, 0.2 + 0.1 * (district % 5), rows) + 2))
    education = np.where(age < 2, 0, rng.binomial(4, 0.4 + 0.1 * sex))
    income = np.where(job == 0, 0, 1 + rng.binomial(11, 0.1 + 0.1 * education + 0.1 * (job == 4)))
    shape = {"district": 400, "province": 12, "age": 9, "sex": 2, "job": 5, "education": 5, "income": 13}
    lies = [f"province = {p} and district in {{{', '.join(map(str, outside(p)))}}}" for p in range(12)]
    domain = replace(Domain.coded(shape), impossible=tuple(lies))
    return Table(
        domain, tuple(c.astype(np.uint16) for c in (district, district * 12 // 400, age, sex, job, education, income))
    )


def outside(province: int) -> list[int]:
    """The districts of all other provinces."""
    return [d for d in range(400) if d * 12 // 400 != province]


# --- all of them


def failures(part: str, line: Line) -> Iterator[str]:
    """What a line shows that is not as promised."""
    if part == "beyond" and not line["change"] < CHANGE:
        yield f"at epsilon={line['epsilon']:g} more rounds change l1 by {line['change']:.2%}"
    if part == "wide":
        if line["mib"] > MIB:
            yield f"{line['mib']:.0f} MiB are above {MIB:.0f}"
        if line["added_mib"] > line["forecast_mib"]:
            yield f"{line['added_mib']:.0f} MiB were added, foretold as {line['forecast_mib']:.0f}"
        if not 1 / FORECAST <= line["seconds"] / line["forecast"] <= FORECAST:
            yield f"{line['seconds']:.0f} s were foretold as {line['forecast']:.0f}"
        if max(line["l1"], line["l1_rows"]) >= line["l1_independent"]:
            yield f"l1 {line['l1']:.4f} is no nearer than independent columns, {line['l1_independent']:.4f}"
    if part in ("many", "ruled") and line["ratio"] > ANSWERS:
        yield f"answers are off by {line['ratio']:.2f} times what their measurements are"
    if part == "ruled" and line["broken"]:
        yield f"{line['broken']:,} synthetic rows break the rule"
    if part == "zeros":
        if line["broken"] or line["weighted_broken"] or line["answers"]:
            yield f"rules are broken by {line['broken']} rows, {line['weighted_broken']} weighted ones, or an answer"
        if not line["table"]:
            yield "no row of the table breaks a rule: nothing is shown"


def run(job: Job) -> Line:
    """What came out of a job."""
    part = {"beyond": beyond, "wide": wide, "zeros": zeros, "many": many, "ruled": ruled}[job.part]
    return {"part": job.part, "epsilon": job.epsilon, "records": job.records, **part(job)}


def jobs(parts: Sequence[str], data: Path | None, epsilons: Sequence[float], records: int, rows: int) -> Iterator[Job]:
    """A part whose table is not there is skipped, aloud."""
    for part in parts:
        if part in ("many", "ruled"):
            yield Job(part, data, 1.0, 0, rows or 20 * MILLION)
        elif part != "beyond":
            yield Job(part, data, 1.0, records or (MILLION if part == "wide" else 1 << 16), rows or MILLION)
        elif data is None or not (data / "adult.csv.gz").exists():
            print("SKIPPED beyond: no adult.csv.gz; give its folder as --data DIR", file=sys.stderr)
        else:
            yield from (Job(part, data, epsilon, records or LAST, rows) for epsilon in epsilons)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts")
    parser.add_argument("--data", type=Path, help="folder of adult.csv.gz and adult-domain.json")
    parser.add_argument("--epsilon", type=float, choices=EPSILONS, help="one ε of the first part")
    parser.add_argument("--records", type=int, default=0, help="weighted ones; by default as above")
    parser.add_argument("--rows", type=int, default=0, help="of tables that are made up, and what is drawn")
    parser.add_argument("--json", action="store_true", help="one object a line")
    arguments = parser.parse_args(given)
    epsilons = EPSILONS if arguments.epsilon is None else (arguments.epsilon,)
    todo = list(jobs(arguments.only, arguments.data, epsilons, arguments.records, arguments.rows))
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    failed = []
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for line in pool.imap(run, todo):
            print(json.dumps(line) if arguments.json else text(line), flush=True)
            failed += [f"{line['part']}: {why}" for why in failures(line["part"], line)]
    for why in failed:
        print(f"FAILED {why}", file=sys.stderr)
    return 1 if failed else 0


def text(line: Line) -> str:
    """One line for people: lists are left out."""
    shown = {name: value for name, value in line.items() if name != "part" and not isinstance(value, list)}
    parts = (f"{name} {f'{v:.4g}' if isinstance(v, float) else f'{v:,}'}" for name, v in shown.items())
    return f"{line['part']}: {', '.join(parts)}"


if __name__ == "__main__":
    sys.exit(main())
