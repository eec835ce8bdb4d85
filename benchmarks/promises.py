"""Are promises kept, and how tight are they? Many runs of each mechanism that has a theorem, on real and cruel inputs.

    python -m benchmarks.promises [--runs 200] [--only WORDS] [--data DIR] [--json]

A mechanism promises that no answer is off by more than a fraction of the table, with probability 1 - β, β = 0.1. Each
runs at the least power of two of ε at which its promise is at most a half, or near the best it can be. The failure rate
is how often an answer was off by more, with its 99 % interval (Clopper-Pearson); it fails if all of the interval is
above β. Tightness is the measured 1 - β quantile of the error over the promise. Inputs: columns of the bundled Adult
table; of nltcs, from DIR; cruel tables over the cells of the first: records all alike, which is as far from a uniform
start as can be, as even as can be, and in two opposite cells; for the sessions, an asker who knows the table and asks
where the hypothesis is furthest off, and for whom a session may not halt before its last query. Where an oracle asks,
errors are those of the worst of its class. Noise comes from fixed seeds.

All of it takes a quarter of an hour or so on two cores; `--only "pmw on even"` takes one part, `--only "on nltcs"` one
table. Exit code 1 if a promise is broken.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy.stats import binomtest
from tqdm import tqdm

from qrelease.data.bundled import adult
from qrelease.data.table import Table
from qrelease.errors import StreamHalted
from qrelease.inference.median_rule import MedianRule
from qrelease.inference.nets import ProductNet, grid, quantiles, small_databases
from qrelease.inference.update_rules import Hedge, Perceptron, Projection
from qrelease.mechanisms.accuracy import Promising
from qrelease.mechanisms.base import Mechanism
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader, Select
from qrelease.mechanisms.iterative.pmw import PMWSession, PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.simulation import ask
from qrelease.mechanisms.small_db.net import Net
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Cost, Neighbours
from qrelease.privacy.costs import cost_of
from qrelease.privacy.ledger import Ledger
from qrelease.queries.oracles import ConjunctionOracle, Oracle
from qrelease.queries.vc import small_database_error, vc_dimension
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

BETA = 0.1
RECORDS = 5  # of small databases
SEARCHED = 9  # of those that are too many to be listed
DELTA = 1e-9
NLTCS = ["bathing", "dressing", "using toilet", "traveling"]

Promise = Callable[[Workload, int, Cost, Neighbours], float]
Run = Callable[["World", Cost, Neighbours, int], float]
Contender = tuple[str, float, Promise, Run]  # its name, and δ


class Proved(Mechanism, Promising, Protocol):
    """A mechanism with a theorem."""


@dataclass(frozen=True, eq=False)
class World:
    """A table, its queries, and their exact answers.

    contenders  which of the functions below names who runs here
    """

    table: Table
    workload: Workload
    contenders: Callable[["World"], Iterator[Contender]]
    answers: np.ndarray
    histogram: np.ndarray

    @classmethod
    def of(cls, table: Table, workload: Workload, contenders: Callable[["World"], Iterator[Contender]]) -> "World":
        marginals = dict(zip(workload.sets, table.counts(workload.sets), strict=True))
        answers = np.concatenate([g.queries.apply(marginals[g.axes]) for g in workload.groups])
        return cls(table, workload, contenders, answers, table.histogram())


def inputs(data: Path | None) -> Iterator[tuple[str, World]]:
    table = adult(["race", "sex", "income"])
    pairs, cells = Workload.marginals(table.domain, 2), table.domain.size
    cruel = {
        "all alike": np.zeros(len(table), np.int64),
        "even": np.arange(len(table)) % cells,
        "two cells": np.where(np.arange(len(table)) % 3, 0, cells - 1),
    }
    yield "adult", World.of(table, pairs, searching)
    for name, codes in cruel.items():
        columns = tuple(c.astype(np.uint8) for c in np.unravel_index(codes, table.domain.shape))
        yield name, World.of(Table(table.domain, columns), pairs, everybody)
    ordered = adult(["capital-loss", "hours-per-week"])
    ranges = [Workload.ranges(ordered.domain, name) for name in ordered.domain.names]
    yield "adult ranges", World.of(ordered, ranges[0] + ranges[1], nets)
    if data is None or not (data / "nltcs.csv.gz").exists():
        print("SKIPPED nltcs: no nltcs.csv.gz; give its folder as --data DIR", file=sys.stderr)
    else:
        table = Table.read_csv(data / "nltcs.csv.gz", data / "nltcs-domain.json", NLTCS)
        yield "nltcs", World.of(table, Workload.marginals(table.domain, 2), searching)


def released(mechanism: Mechanism, world: World, cost: Cost, neighbours: Neighbours, seed: int) -> float:
    """The largest error of a release, a fraction."""
    with Ledger.open(None, cost, neighbours=neighbours) as ledger:
        release = Curator(world.table, ledger, Entropy.insecure(seed)).release(mechanism, world.workload, cost)
    gaps = world.answers - release.answers()
    oracle = getattr(getattr(mechanism, "distinguisher", None), "oracle", None)
    return (float(np.abs(gaps).max()) if oracle is None else worst_of_class(oracle, world, gaps)) / len(world.table)


def worst_of_class(oracle: Oracle, world: World, gaps: np.ndarray) -> float:
    """The largest error over an oracle's class, whose queries on a marginal are sums of its cells."""
    largest = 0.0
    for group, part in zip(world.workload.groups, np.split(gaps, world.workload.bounds[1:-1]), strict=True):
        marginal = world.table.domain.project(group.axes)
        largest = max(largest, *(float(oracle.best(marginal, w) @ w) for w in (part, -part)))
    return largest


def asked(adversary: bool, world: World, cost: Cost, neighbours: Neighbours, seed: int) -> float:
    """The largest error of a session."""
    k, rng = len(world.workload), np.random.default_rng(seed)
    mechanism = PrivateMultiplicativeWeights(beta=BETA, queries=k)
    with Ledger.open(None, cost, neighbours=neighbours) as ledger:
        session = Curator(world.table, ledger, Entropy.insecure(seed)).open(mechanism, cost)
        order = rng.permutation(k)
        try:
            if adversary:
                off = max(cruel(session, world, rng) for _ in range(k))
            else:
                off = float(np.abs(ask(session, world.workload, order) - world.answers[order]).max())
        except StreamHalted:  # more updates than the promise has room for: it is broken
            return math.inf
    return off / len(world.table)


def cruel(session: PMWSession, world: World, rng: np.random.Generator) -> float:
    """The error of an answer to about the query that the hypothesis answers worst."""
    gaps = world.histogram - session.synopsis.values * (len(world.table) / session.synopsis.total)
    row = (gaps > 0) ^ (rng.random(len(gaps)) < 0.05)
    answer = session.answer(Workload.vectors(world.table.domain, row[None, :].astype(float)))
    return abs(answer.value - float(row @ world.histogram))


@dataclass(frozen=True)
class Kept:
    """What became of a promise."""

    mechanism: str
    input: str
    neighbours: str
    epsilon: float
    delta: float
    promised: float
    runs: int
    failures: int
    low: float
    high: float
    tightness: float
    seconds: float

    @property
    def broken(self) -> bool:
        return self.low > BETA


def standing(named: list[tuple[str, float, Proved]]) -> Iterator[Contender]:
    for name, delta, mechanism in named:
        yield name, delta, partial(mechanism.error, beta=BETA), partial(released, mechanism)


def everybody(world: World) -> Iterator[Contender]:
    domain, k = world.table.domain, len(world.workload)
    yield from standing(
        [
            ("laplace", 0.0, Laplace()),
            ("gaussian", DELTA, Gaussian()),
            ("iterative", DELTA, IterativeConstruction(beta=BETA)),
            ("iterative", 0.0, IterativeConstruction(beta=BETA)),
            ("iterative, flip", 0.0, IterativeConstruction(Projection(0.2), Select("query", "permute-and-flip"))),
            ("iterative, leader", DELTA, IterativeConstruction(Projection(0.2), PerturbedLeader(ConjunctionOracle()))),
            ("iterative, hedge", DELTA, IterativeConstruction(Hedge(0.2))),
            ("iterative, perceptron", DELTA, IterativeConstruction(Perceptron(0.2))),
            ("smalldb", 0.0, SmallDB(size=RECORDS)),
            ("smalldb, alpha", 0.0, SmallDB(alpha=0.7)),
            ("smalldb, dimension", 0.0, SmallDB(alpha=0.7, dimension=vc_dimension(world.workload))),
            ("net", 0.0, Net(small_databases(domain, RECORDS), small_database_error(RECORDS, k))),
        ]
    )
    session = partial(PrivateMultiplicativeWeights().error, beta=BETA)
    for delta in (0.0, DELTA):
        yield "pmw", delta, session, partial(asked, False)
        yield "pmw, adversary", delta, session, partial(asked, True)


def searching(world: World) -> Iterator[Contender]:
    yield from everybody(world)
    yield from standing([("smalldb, searched", 0.0, SmallDB(size=SEARCHED)), ("smalldb, default", 0.0, SmallDB())])


def nets(world: World) -> Iterator[Contender]:
    """Nets with theorems of their own, on two ordered columns."""
    columns = [world.table.domain.project((axis,)) for axis in (0, 1)]
    thirds, halves = (ProductNet(world.table.domain, tuple(quantiles(c, 1 / m) for c in columns)) for m in (3, 2))
    # Bins of one cell, so that all ranges begin and end where bins do.
    grids = ProductNet(world.table.domain, tuple(grid(c, c.attributes[0].values, 1 / 2) for c in columns))
    yield from standing(
        [
            ("net, quantiles", 0.0, Net(thirds, 1 / 3)),
            ("net, grids", 0.0, Net(grids, 1 / 2)),
            ("iterative, median", 0.0, IterativeConstruction(MedianRule(halves, 0.51, 1 / 2))),
            ("iterative, median", DELTA, IterativeConstruction(MedianRule(halves, 0.51, 1 / 2))),
        ]
    )


def check(world: World, where: str, neighbours: Neighbours, runs: int, only: str) -> Iterator[Kept]:
    n = len(world.table)
    for name, delta, promise, run in world.contenders(world):
        if only not in f"{name} on {where}":
            continue
        error = {e: promise(world.workload, n, cost_of(e, delta), neighbours) for e in 2.0 ** np.arange(-4, 8)}
        epsilon = next(e for e, promised in error.items() if promised <= max(0.5, 1.1 * min(error.values())))
        cost, promised = cost_of(float(epsilon), delta), error[epsilon]
        began = time.perf_counter()
        trials = tqdm(range(runs), desc=f"{name} on {where}", disable=None, leave=False)
        errors = np.array([run(world, cost, neighbours, seed) for seed in trials])
        failures = int((errors > promised).sum())
        interval = binomtest(failures, runs).proportion_ci(0.99)
        tightness = float(np.quantile(errors, 1 - BETA)) / promised
        relation = neighbours.value
        bounds = interval.low, interval.high
        measured = promised, runs, failures, *bounds, tightness, time.perf_counter() - began
        yield Kept(name, where, relation, float(epsilon), delta, *measured)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", default="", help="those with this in MECHANISM on INPUT: pmw, on nltcs")
    parser.add_argument("--data", type=Path, help="folder of nltcs.csv.gz and nltcs-domain.json")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    if not arguments.json:
        print(f"beta={BETA:g}, {arguments.runs} runs each")
        print(
            f"{'mechanism':22}{'input':13}{'neighbours':12}{'cost':>22}{'promised':>9}{'failed':>7}  99 %, tightness, s"
        )
    broken = []
    for where, world in inputs(arguments.data):
        for neighbours in Neighbours:
            for found in check(world, where, neighbours, arguments.runs, arguments.only):
                if arguments.json:
                    print(json.dumps({"name": "promises", "beta": BETA, **asdict(found)}), flush=True)
                else:
                    cost = f"{found.epsilon:g}" + (f", {found.delta:g}" if found.delta else "")
                    print(
                        f"{found.mechanism:22}{where:13}{neighbours.value:12}{cost:>22}{found.promised:9.3f}"
                        f"{found.failures:7}  {found.low:.3f}..{found.high:.3f}  {found.tightness:.3f}"
                        f"{found.seconds:7.1f}",
                        flush=True,
                    )
                broken += [found] if found.broken else []
    for found in broken:
        print(f"BROKEN {found}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
