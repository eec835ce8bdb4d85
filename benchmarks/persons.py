"""A person as the unit: error at equal (ε, δ, m) beside OpenDP's own pipeline, and what reading with persons takes.

    python -m benchmarks.persons [--quick] [--data DIR] [--only TABLE] [--seeds N] [--json]

Raw tables from DIR/raw: flights (a person is an aircraft, `tailnum`) and rwm5yr (doctor visits of persons by year). All
two-way marginals; δ = 1e-9, add-remove of a person with at most m records.

    auto       this engine: `Curator` with `Auto`
    opendp     of each marginal OpenDP's pipeline: `truncate_per_group(m)`, then group sizes over public keys with
               discrete Gaussian noise, the ρ of (ε, δ) split evenly among the marginals
    by hand    that pipeline with this engine's exact noise, where OpenDP does not run here (it needs its own version of
               polars): of each marginal m records a person, kept at random, and Gaussian noise of L2 sensitivity m

    l1         mean L1 distance of normalised marginals from those of all records: what is left out counts too
    kept       the share of the records that was kept
    ratio      of l1, the engine's over the other's

Then of the same tables, with each person counted once (`weights = "persons"`), the l1 from the marginals of all records
in equal parts of their persons, beside that of one record a person, which has the same noise; and what
`distinct = ["year"]` leaves of the planned error of two-way marginals of rwm5yr, five records a person, as a share.

Then the seconds (of processor time) of reading flights with its persons and keeping m records of each, over those of
plain reading; and the same of the columns of `benchmarks.learning`, where bins and categories are learned as well, over
those of reading these columns with public ones: 2 at most. Noise comes from fixed seeds, so that errors can be
repeated: it protects nobody, and the tables are public. Exit code 1 where a ratio is above 1, or of seconds above 2.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import learning
from qrelease._util.typing import Floats
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.evaluation.evaluate import Truth
from qrelease.inference.residuals import ResidualPlan
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.learning import schema
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_gaussian
from qrelease.privacy import ApproxDP, Neighbours
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

DELTA = 1e-9
EPSILONS = (0.1, 1.0, 10.0)
SLOWER = 2.0
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")


def _bins(name: str, edges: Sequence[float], *, missing: tuple[str, ...] = ()) -> Attribute:
    return Attribute(name, "number", edges=tuple(edges), integer=True, ordered=True, outside="clip", missing=missing)


_DELAYS = (-60, -15, -5, 0, 5, 15, 30, 60, 120, 240, 480)
FLIGHTS = (
    Attribute("carrier", "category", categories=CARRIERS),
    Attribute("origin", "category", categories=("EWR", "JFK", "LGA")),
    _bins("sched_dep_time", range(0, 2401, 200)),
    _bins("dep_delay", _DELAYS, missing=("", "NA")),
    _bins("arr_delay", _DELAYS, missing=("", "NA")),
    _bins("distance", (0, 250, 500, 750, 1000, 1500, 2000, 3000, 5000)),
)
DOCTOR_VISITS = (
    _bins("docvis", (0, 1, 2, 3, 5, 8, 12, 20, 40, 122)),
    _bins("hospvis", (0, 1, 2, 5, 60)),
    _bins("year", range(1984, 1990)),
    _bins("edlevel", range(1, 6)),
    _bins("age", range(25, 66, 5)),
    *(_bins(name, (0, 1, 2)) for name in ("outwork", "female", "married", "kids")),
)
TABLES = {
    "flights": (FLIGHTS, Person("tailnum", 5, ("", "NA")), (5, 20)),
    "rwm5yr": (DOCTOR_VISITS, Person("id", 5), (1, 3, 5)),
}
"""Columns, the person, and the bounds that are compared."""


@dataclass(frozen=True)
class Row:
    """One table at one bound and ε."""

    table: str
    at_most: int
    epsilon: float
    kept: float
    auto: float
    other: float
    rival: str
    seconds: float

    @property
    def ratio(self) -> float:
        return self.auto / self.other

    def __str__(self) -> str:
        return (
            f"{self.table:9}{self.at_most:4}{self.epsilon:7g}{self.kept:7.1%}{self.auto:9.4f}{self.other:9.4f}"
            f"  {self.rival:8}{self.ratio:7.3f}{self.seconds:8.1f}"
        )


def distance(
    domain: Domain, sets: Sequence[tuple[int, ...]], found: Sequence[Floats], truth: Sequence[Floats]
) -> float:
    """The mean L1 distance of normalised marginals."""
    normal = [[m / max(m.sum(), 1.0) for m in side] for side in (found, truth)]
    return float(np.mean([np.abs(a - b).sum() for a, b in zip(*normal, strict=True)]))


def opendp(table: Table, sets: Sequence[tuple[int, ...]], epsilon: float, at_most: int) -> list[Floats] | None:
    """Noisy marginals by OpenDP's pipeline; None where it does not run here."""
    try:
        dp: Any = import_module("opendp.prelude")  # whose types say less than it takes
        pl: Any = import_module("polars")
    except ImportError:
        return None
    assert table.persons is not None
    names = table.domain.names
    codes = {name: np.asarray(column, np.int32) for name, column in zip(names, table.columns, strict=True)}
    frame = pl.DataFrame({"person": table.persons.codes, **codes}).lazy()
    dp.enable_features("contrib")
    rho = zcdp_of(ApproxDP(epsilon, DELTA)).rho
    context = None
    found = []
    try:
        for axes in sets:
            if context is None:
                context = dp.Context.compositor(
                    data=frame,
                    privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("person")),
                    privacy_loss=dp.loss_of(rho=rho),
                    split_evenly_over=len(sets),
                )
            shape = [table.domain.shape[a] for a in axes]
            grid = np.unravel_index(np.arange(math.prod(shape)), shape)
            by = [names[a] for a in axes]
            keys = pl.LazyFrame({name: np.asarray(part, np.int32) for name, part in zip(by, grid, strict=True)})
            query = context.query().truncate_per_group(at_most).group_by(by).agg(dp.len(signed=True)).with_keys(keys)
            found.append(query.release().collect().sort(by)["len"].to_numpy().astype(np.float64))
    except Exception as error:  # of whatever kind: another version of polars, say
        print(f"opendp does not run here: {str(error).strip().splitlines()[0][:120]}", file=sys.stderr)
        return None
    return found


def by_hand(table: Table, sets: Sequence[tuple[int, ...]], epsilon: float, at_most: int, seed: int) -> list[Floats]:
    """The same pipeline with this engine's noise."""
    variance = Fraction(at_most) ** 2 * len(sets) / (2 * Fraction(zcdp_of(ApproxDP(epsilon, DELTA)).rho))
    source = Entropy.insecure(seed)
    found = []
    for number, axes in enumerate(sets):
        (exact,) = table.bounded(f"by hand {seed} {number}".encode()).counts([axes])
        found.append(np.maximum(exact + discrete_gaussian(variance, len(exact), source), 0).astype(np.float64))
    return found


def rows(data: Path, names: Sequence[str], seeds: int, epsilons: Sequence[float], bounds: int) -> Iterator[Row]:
    """Of the tables of these names that are there."""
    for name in names:
        columns, person, at_mosts = TABLES[name]
        file = data / "raw" / f"{name}.csv.gz"
        if not file.exists():
            print(f"SKIPPED {name}: no raw/{name}.csv.gz; give its folder as --data DIR", file=sys.stderr)
            continue
        read = Table.read(file, Domain(columns, person=person))
        workload = Workload.marginals(read.domain, 2)
        truth = [c.astype(np.float64) for c in read.counts(workload.sets)]
        for at_most in at_mosts[-bounds:]:
            domain = replace(read.domain, person=replace(person, at_most=at_most))
            table = Table(domain, read.columns, read.persons)
            workload = Workload.marginals(domain, 2)
            kept = len(table.bounded(b"share")) / len(table)
            for epsilon in epsilons:
                ours, others, begin, rival = [], [], time.perf_counter(), "opendp"
                for seed in range(seeds):
                    cost = ApproxDP(epsilon, DELTA)
                    with Ledger.open(None, cost, person=person.column) as ledger:
                        release = Curator(table, ledger, Entropy.insecure(seed)).release(Auto(), workload, cost)
                    answers = np.split(release.answers(), workload.bounds[1:-1])
                    ours.append(distance(domain, workload.sets, answers, truth))
                seconds = (time.perf_counter() - begin) / seeds
                for seed in range(seeds):
                    noisy = opendp(table, workload.sets, epsilon, at_most) if rival == "opendp" else None
                    if noisy is None:
                        rival, noisy = "by hand", by_hand(table, workload.sets, epsilon, at_most, seed)
                    clipped = [np.maximum(part, 0) for part in noisy]
                    others.append(distance(domain, workload.sets, clipped, truth))
                told = float(np.mean(ours)), float(np.mean(others))
                yield Row(name, at_most, epsilon, kept, *told, rival, seconds)


@dataclass(frozen=True)
class Once:
    """One table at one bound and ε, where each person counts once."""

    table: str
    at_most: int
    epsilon: float
    persons: float
    one_record: float

    def __str__(self) -> str:
        return (
            f"{self.table:9}{self.at_most:4}{self.epsilon:7g} persons count once: {self.persons:.4f}, one record each:"
            f" {self.one_record:.4f}"
        )


def counted_once(
    data: Path, names: Sequence[str], seeds: int, epsilons: Sequence[float], bounds: int
) -> Iterator[Once]:
    """Of the tables of these names that are there."""
    for name in names:
        columns, person, at_mosts = TABLES[name]
        file = data / "raw" / f"{name}.csv.gz"
        if not file.exists():
            continue
        read = Table.read(file, Domain(columns, person=person))
        for at_most in at_mosts[-bounds:]:
            for epsilon in epsilons:
                cost, found = ApproxDP(epsilon, DELTA), {}
                for kept in (at_most, 1):
                    domain = replace(read.domain, person=replace(person, at_most=kept, weights="persons"))
                    table, workload = Table(domain, read.columns, read.persons), Workload.marginals(domain, 2)
                    truth = Truth.of(table, workload)
                    errors = []
                    for seed in range(seeds):
                        with Ledger.open(None, cost, person=person.column) as ledger:
                            release = Curator(table, ledger, Entropy.insecure(seed)).release(Auto(), workload, cost)
                        errors.append(truth.errors(release.answers()).avg_l1)
                    found[kept] = float(np.mean(errors))
                yield Once(name, at_most, epsilon, found[at_most], found[1])


def noise_left(at_most: int) -> float:
    """The share of Gaussian noise that is left of two-way marginals of rwm5yr where records differ by year."""
    columns, person, _ = TABLES["rwm5yr"]
    errors = []
    for distinct in ((), ("year",)):
        domain = Domain(columns, person=replace(person, at_most=at_most, distinct=distinct))
        errors.append(ResidualPlan.choose(domain, Workload.marginals(domain, 2).sets).error)
    return errors[1] / errors[0]


def reading(data: Path, repeats: int) -> dict[str, float]:
    """Seconds of reading flights with what persons and learning take, over those of plain reading; if it is there."""
    file = data / "raw" / "flights.csv.gz"
    if not file.exists():
        return {}
    columns, person, _ = TABLES["flights"]
    _, open_columns = learning.flights(data)
    known = learning.perfect(Table.read(file, open_columns))
    compared: dict[str, tuple[Domain, Domain, Callable[[Table], object]]] = {
        "persons": (Domain(columns), Domain(columns, person=person), lambda table: table.bounded(b"key")),
        "persons and learning": (known, replace(open_columns, person=person), learned),
    }
    ratios = {}
    for what, (plain, whole, then) in compared.items():
        best = [math.inf, math.inf]
        for _ in range(repeats):
            for place in range(2):
                begin = time.process_time()
                if place:
                    then(Table.read(file, whole))
                else:
                    Table.read(file, plain)
                best[place] = min(best[place], time.process_time() - begin)
        print(f"reading flights: {best[0]:.2f} s plain, {best[1]:.2f} s with {what}", file=sys.stderr)
        ratios[what] = best[1] / best[0]
    return ratios


def learned(table: Table) -> object:
    """Its bins and categories, of records that were bounded, for a part of one (ε, δ)."""
    unit = Unit.of(Neighbours.ADD_REMOVE, table.domain).of_records
    account = schema.one_account(table.domain, ApproxDP(1.0, DELTA), unit)
    assert account is not None
    purse = Filter(schema.purse(table.domain, account))
    private = Private(table.bounded(b"key"), unit.relation, purse, Entropy.insecure(1), unit=unit)
    return schema.learn(private, account)


def main() -> int:
    """Print the tables; 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one seed, one epsilon, the largest bound of each table")
    parser.add_argument("--data", type=Path, default=Path(), help="the folder with raw/; default: here")
    parser.add_argument("--only", choices=[*TABLES], help="of the tables")
    parser.add_argument("--seeds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="one object a line")
    arguments = parser.parse_args()
    seeds, epsilons, bounds = (1, (1.0,), 1) if arguments.quick else (arguments.seeds, EPSILONS, 3)
    if not arguments.json:
        print(f"{'table':9}{'m':>4}{'eps':>7}{'kept':>7}{'auto':>9}{'other':>9}  {'rival':8}{'ratio':>7}{'seconds':>8}")
    missed = 0
    names = list(TABLES) if arguments.only is None else [arguments.only]
    for row in rows(arguments.data, names, seeds, epsilons, bounds):
        print(json.dumps({**asdict(row), "ratio": row.ratio}) if arguments.json else row, flush=True)
        missed += row.ratio > 1
    for once in counted_once(arguments.data, names, seeds, epsilons, bounds):
        print(json.dumps(asdict(once)) if arguments.json else once, flush=True)
        missed += once.persons > once.one_record
    left = noise_left(5)
    print(
        json.dumps({"distinct": left})
        if arguments.json
        else f"distinct = ['year'] leaves {left:.3f} of the planned error"
    )
    for what, slower in reading(arguments.data, 3 if arguments.quick else 5).items():
        print(
            json.dumps({"reading": slower, "with": what})
            if arguments.json
            else f"reading with {what} takes {slower:.2f} times as long"
        )
        missed += slower > SLOWER
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
