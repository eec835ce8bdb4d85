"""Are promises kept, and how tight are they? Many runs of each mechanism that has a theorem, on real and cruel inputs.

    python -m benchmarks.promises [--runs 200] [--data DIR] [--json]

A mechanism promises that no answer is off by more than a fraction of the table, with probability 1 - β, β = 0.1. Each
runs at the least power of two of ε at which its promise is at most a half, or near the best it can be. The failure rate
is how often an answer was off by more, with its 99 % interval (Clopper-Pearson); it fails if all of the interval is
above β. Tightness is the measured 1 - β quantile of the error over the promise. Inputs: columns of the bundled Adult
table; of nltcs, from DIR; a table whose records are all alike, which is as far from a uniform start as can be; for the
sessions, an asker who knows the table and asks where the hypothesis is furthest off. Noise comes from fixed seeds.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from tqdm import tqdm

from qrelease.data import adult
from qrelease.entropy import Entropy
from qrelease.ledger import Ledger
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative import IterativeConstruction
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.net import Net
from qrelease.mechanisms.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.smalldb import SmallDB
from qrelease.nets import small_databases
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.rehearsal import ask
from qrelease.release import Curator
from qrelease.table import Table
from qrelease.updates import Hedge, Perceptron
from qrelease.vc import cover_radius
from qrelease.workload import Workload

BETA = 0.1
RECORDS = 5  # of small databases
DELTA = 1e-9
NLTCS = ["bathing", "dressing", "using toilet", "traveling"]


def inputs(data: Path | None) -> Iterator[tuple[str, Table]]:
    table = adult(["race", "sex", "income"])
    yield "adult", table
    yield "all alike", Table(table.domain, tuple(np.zeros_like(column) for column in table.columns))
    if data is None or not (data / "nltcs.csv.gz").exists():
        print("SKIPPED nltcs: no nltcs.csv.gz; give its folder as --data DIR", file=sys.stderr)
    else:
        yield "nltcs", Table.read_csv(data / "nltcs.csv.gz", data / "nltcs-domain.json", NLTCS)


@dataclass(frozen=True, eq=False)
class World:
    """A table, its queries, and their exact answers."""

    table: Table
    workload: Workload
    answers: np.ndarray
    histogram: np.ndarray

    @classmethod
    def of(cls, table: Table) -> "World":
        workload = Workload.marginals(table.domain, 2)
        return cls(table, workload, np.concatenate(table.counts(workload.sets)), table.histogram())


def released(mechanism, world: World, cost, neighbours: Neighbours, seed: int) -> float:
    """The largest error of a release, a fraction."""
    with Ledger.open(None, cost, neighbours=neighbours) as ledger:
        release = Curator(world.table, ledger, Entropy.insecure(seed)).release(mechanism, world.workload, cost)
    return float(np.abs(release.answers() - world.answers).max()) / len(world.table)


def asked(adversary: bool, world: World, cost, neighbours: Neighbours, seed: int) -> float:
    """The largest error of a session."""
    k, rng = len(world.workload), np.random.default_rng(seed)
    mechanism = PrivateMultiplicativeWeights(beta=BETA, queries=k)
    with Ledger.open(None, cost, neighbours=neighbours) as ledger:
        session = Curator(world.table, ledger, Entropy.insecure(seed)).open(mechanism, cost)
        if adversary:
            off = max(cruel(session, world, rng) for _ in range(k))
        else:
            order = rng.permutation(k)
            off = float(np.abs(ask(session, world.workload, order) - world.answers[order]).max())
        if session.updates - session.updates_left > 4 * math.log(world.table.domain.size) / session.alpha**2:
            raise AssertionError("more updates than there can be")
    return off / len(world.table)


def cruel(session, world: World, rng: np.random.Generator) -> float:
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

    @property
    def broken(self) -> bool:
        return self.low > BETA


def contenders(world: World) -> Iterator[tuple]:
    """Name, δ, the promise (cost, neighbours) and the run."""
    net = Net(small_databases(world.table.domain, RECORDS))
    radius = cover_radius(RECORDS, len(world.workload))
    for name, delta, mechanism in [
        ("laplace", 0.0, Laplace()),
        ("gaussian", DELTA, Gaussian()),
        ("iterative", DELTA, IterativeConstruction()),
        ("iterative, hedge", DELTA, IterativeConstruction(Hedge(0.2))),
        ("iterative, perceptron", DELTA, IterativeConstruction(Perceptron(0.2))),
        ("smalldb", 0.0, SmallDB(size=RECORDS)),
    ]:
        yield name, delta, partial(mechanism.error, beta=BETA), partial(released, mechanism)
    yield "net", 0.0, partial(net.error, alpha=radius, beta=BETA), partial(released, net)
    session = partial(PrivateMultiplicativeWeights().error, beta=BETA)
    yield "pmw", 0.0, session, partial(asked, False)
    yield "pmw", DELTA, session, partial(asked, False)
    yield "pmw, adversary", 0.0, session, partial(asked, True)
    yield "pmw, adversary", DELTA, session, partial(asked, True)


def cost_of(epsilon: float, delta: float) -> PureDP | ApproxDP:
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def check(world: World, where: str, neighbours: Neighbours, runs: int) -> Iterator[Kept]:
    n = len(world.table)
    for name, delta, promise, run in contenders(world):
        error = {e: promise(world.workload, n, cost_of(e, delta), neighbours) for e in 2.0 ** np.arange(-4, 8)}
        epsilon = next(e for e, promised in error.items() if promised <= max(0.5, 1.1 * min(error.values())))
        cost, promised = cost_of(float(epsilon), delta), error[epsilon]
        trials = tqdm(range(runs), desc=f"{name} on {where}", disable=None, leave=False)
        errors = np.array([run(world, cost, neighbours, seed) for seed in trials])
        failures = int((errors > promised).sum())
        interval = binomtest(failures, runs).proportion_ci(0.99)
        tightness = float(np.quantile(errors, 1 - BETA)) / promised
        relation = neighbours.value
        bounds = interval.low, interval.high
        yield Kept(name, where, relation, float(epsilon), delta, promised, runs, failures, *bounds, tightness)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--data", type=Path, help="folder of nltcs.csv.gz and nltcs-domain.json")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    if not arguments.json:
        print(f"beta={BETA:g}, {arguments.runs} runs each")
        print(f"{'mechanism':22}{'input':10}{'neighbours':12}{'cost':>22}{'promised':>9}{'failed':>7}  99 %, tightness")
    broken = []
    for where, table in inputs(arguments.data):
        for neighbours in Neighbours:
            for found in check(World.of(table), where, neighbours, arguments.runs):
                if arguments.json:
                    print(json.dumps({"name": "promises", "beta": BETA, **asdict(found)}), flush=True)
                else:
                    cost = f"{found.epsilon:g}" + (f", {found.delta:g}" if found.delta else "")
                    print(
                        f"{found.mechanism:22}{where:10}{neighbours.value:12}{cost:>22}{found.promised:9.3f}"
                        f"{found.failures:7}  {found.low:.3f}..{found.high:.3f}  {found.tightness:.3f}",
                        flush=True,
                    )
                broken += [found] if found.broken else []
    for found in broken:
        print(f"BROKEN {found}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
