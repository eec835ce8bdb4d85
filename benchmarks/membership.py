"""The games of `benchmarks.attacks`: whether one person is in, against all mechanisms, and twins that overspend."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import qrelease
from benchmarks.membership_curator import curator_games
from qrelease.data import adult
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.attacks.membership import (
    Membership,
    Publish,
    drawn,
    known,
    play,
    published_by,
    published_exactly,
    published_in_session,
)
from qrelease.evaluation.attacks.scores import Attack, ModelLikelihood, NearestNeighbour, Shadow, Tracing
from qrelease.inference.nets import quantiles
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.base import Mechanism, MechanismResult
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.online.session import Online
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.small_db.net import Net
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import Records
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Cost, Filter, Neighbours, PureDP
from qrelease.queries.workload import Workload

DELTA = 1e-9


@dataclass(frozen=True)
class Overspending:
    """A twin that is not private: it claims a cost, and has noise an eighth as wide, for 8 ε or 64 ρ."""

    mechanism: Mechanism

    @property
    def name(self) -> str:
        return f"{self.mechanism.name}, 8 times"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        self.mechanism.check(workload, cost, neighbours)

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        spent = ZCDP(64 * cost.rho) if isinstance(cost, ZCDP) else replace(cost, epsilon=8 * cost.epsilon)
        twin = Private(private._table, private.neighbours, Filter(spent), private.entropy)
        return self.mechanism.release(twin, workload, spent)


def contenders() -> list[tuple[Mechanism, Cost, float]]:
    """Mechanisms, what they claim, and which part of the runs they have time for."""
    pure, gaussian = PureDP(1.0), ZCDP(0.05)
    return [
        (Laplace(), pure, 1.0),
        (Gaussian(), gaussian, 1.0),
        (Matrix(), gaussian, 1.0),
        (MaxEnt(), gaussian, 0.5),
        (MWEM(rounds=3), pure, 1.0),
        (Records(weighted_records=1 << 10), gaussian, 0.2),
        (SmallDB(size=3), pure, 1.0),
        (IterativeConstruction(), ApproxDP(1.0, 1e-6), 0.5),
        (Auto(), pure, 0.25),
        (Auto(), gaussian, 0.2),
        (Overspending(Laplace()), pure, 1.0),
        (Overspending(Gaussian()), gaussian, 1.0),
        (Overspending(MaxEnt()), gaussian, 1.0),
        (Overspending(MWEM(rounds=3)), pure, 4.0),
        (Overspending(Auto()), pure, 1.5),
    ]


CAUGHT = ("laplace", "gaussian", "maxent", "mwem", "auto", "sums", "online", "mean:", "learned categories")
"""Whose twins are played; each has to be caught."""


def unplayed() -> list[str]:
    """The package's mechanisms and sessions that no game is about."""
    public = [getattr(qrelease, name) for name in dir(qrelease)]
    publishing = [p for p in public if hasattr(p, "name") and any(hasattr(p, a) for a in ("release", "open", "join"))]
    played = {NumberSums, Net, Online, PrivateMultiplicativeWeights, *(type(m) for m, _, _ in contenders())}
    return [p.__name__ for p in publishing if p not in played]


def games(quick: bool) -> list[Membership]:
    """All mechanisms, their twins, and people drawn anew."""
    population = adult(["race", "sex", "income"])
    rng, entropy = np.random.default_rng(5), Entropy.insecure(5)
    chosen = np.random.default_rng(0).choice(len(population), 60, replace=False)
    others = Table(population.domain, tuple(c[chosen] for c in population.columns))
    target = np.array(np.unravel_index(np.argmin(others.histogram()), population.domain.shape))
    attacks: list[Attack] = [
        Tracing(population, known=True),
        ModelLikelihood(population),
        NearestNeighbour(rng),
        Shadow(),
    ]
    pairs, most = Workload.marginals(population.domain, 2), 200 if quick else 1600
    add = Neighbours.ADD_REMOVE
    rows: list[Membership] = []

    def against(name: str, publish: Publish, claim: Cost | None, near: Neighbours, share: float) -> None:
        world, runs = known(others, target, near), max(40, 4 * round(share * most / 4))
        rows.extend(play(name, world, publish, attacks, claim, runs=runs, rng=rng))

    against("exact", published_exactly(pairs), None, add, 0.5)
    for mechanism, claim, share in contenders():
        publish = published_by(mechanism, pairs, claim, add, entropy)
        against(f"{mechanism.name}, {claim:.6g}", publish, claim, add, share)
    play_sums(rows, rng, entropy, most)
    play_online(rows, rng, entropy, max(600, most))
    play_pmw(rows, rng, entropy, most // 2)
    play_net(rows, rng, entropy, most)
    trace(rows, rng, entropy, max(200, most // 4))
    rows += curator_games(np.random.default_rng(6), Entropy.insecure(6), quick)
    return rows


def failures(rows: list[Membership]) -> Iterator[str]:
    """Correct mechanisms above their bound, and twins that are not."""
    for row in rows:
        if "8 times" not in row.mechanism and not row.mechanism.startswith("exact") and row.advantage.convicts:
            yield f"membership: {row}"
    twins = {row.mechanism for row in rows if "8 times" in row.mechanism}
    for twin in sorted(twins):
        if not any(row.mechanism == twin and row.advantage.convicts for row in rows):
            yield f"membership: the twin {twin} was not caught"
    for name in CAUGHT:
        if not any(twin.startswith(name) for twin in twins):
            yield f"membership: no twin of {name} was played"
    yield from (f"membership: {name} was not played" for name in unplayed())


def trace(rows: list[Membership], rng: np.random.Generator, entropy: Entropy, runs: int) -> None:
    """People drawn anew from a population in each run: few of them, with many columns, as where genomes were traced."""
    population = adult(["age", "education", "occupation", "race", "sex", "hours-per-week"])
    workload, near = Workload.marginals(population.domain, 3), Neighbours.REPLACE_ONE
    world, attacks = drawn(population, 50, near), [Tracing(population)]
    publishers: dict[str, tuple[Publish, Cost | None]] = {"exact, 50 people drawn": (published_exactly(workload), None)}
    for epsilon in (1.0, 10.0):
        claim = ApproxDP(epsilon, DELTA)
        publish = published_by(Gaussian(), workload, claim, near, entropy)
        publishers[f"gaussian, {claim:.6g}, 50 people drawn"] = publish, claim
    for name, (publish, made) in publishers.items():
        rows += play(name, world, publish, attacks, made, runs=runs, rng=rng)


def answering(name: str, publish: Publish, table: Table) -> Publish:
    """The same publisher, if it answers all questions and not always alike: one that does not is no opponent.

    A twin that spends eight times as much may answer exactly, and so always alike.
    """
    seen = np.array([publish(table).numbers for _ in range(8)])
    varies = "8 times" in name or bool((np.ptp(seen, axis=0) > 0).any())
    if not np.isfinite(publish(table).answers).all() or not varies:
        raise RuntimeError(f"{name} does not answer, or always alike: {seen}")
    return publish


def play_online(rows: list[Membership], rng: np.random.Generator, entropy: Entropy, runs: int) -> None:
    """Sessions of so many people that two questions are answered at ε = 1; and at 8, for answers so much nearer."""
    population, claim, near = adult(["race", "sex", "income"]), PureDP(1.0), Neighbours.REPLACE_ONE
    chosen = np.random.default_rng(0).choice(len(population), 400, replace=False)
    others = Table(population.domain, tuple(c[chosen] for c in population.columns))
    singles = Workload.marginals(population.domain, [["income"]])
    world = known(others, np.array([1, 0, 1]), near)
    attacks: list[Attack] = [Tracing(population, known=True), Shadow()]
    for name, times in (("online", 1), ("online, 8 times", 8)):
        session = published_in_session(Online(alpha=0.05 / times), singles, PureDP(1.0 * times), near, entropy)
        publish = answering(name, session, others)
        rows += play(f"{name}, {claim:.6g}", world, publish, attacks, claim, runs=runs, rng=rng)


def play_sums(rows: list[Membership], rng: np.random.Generator, entropy: Entropy, runs: int) -> None:
    """Sums and counts by group, of somebody with the largest number there is."""
    classes, near = adult(["hours-per-week", "sex"]), Neighbours.ADD_REMOVE
    population = Table(Domain.coded({"hours": classes.domain.shape[0], "sex": 2}), classes.columns)
    others = Table(population.domain, tuple(c[:60] for c in population.columns))
    world = known(others, np.array([population.domain.shape[0] - 1, 1]), near)
    workload = Workload.marginals(population.domain, [["sex"]])
    mechanism = NumberSums(["mean:hours by sex", "variance:hours"])
    attacks: list[Attack] = [Tracing(population, known=True), ModelLikelihood(population), Shadow()]
    costs: tuple[Cost, ...] = (PureDP(1.0), ZCDP(0.05))
    for one in (mechanism, Overspending(mechanism)):
        for claim in costs:
            publish = answering(one.name, published_by(one, workload, claim, near, entropy), others)
            rows += play(f"{one.name}, {claim:.6g}", world, publish, attacks, claim, runs=runs, rng=rng)


def play_pmw(rows: list[Membership], rng: np.random.Generator, entropy: Entropy, runs: int) -> None:
    """Private multiplicative weights, whose promise is for many records alone."""
    population = adult(["race", "sex", "income"])
    others = Table(population.domain, tuple(c[:40_000] for c in population.columns))
    # Most people are of one race, so that the uniform start is too far off and learns.
    singles = Workload.marginals(population.domain, [["race"], ["income"]])
    mechanism = PrivateMultiplicativeWeights(beta=0.1, queries=len(singles))
    claim, near = ApproxDP(1.0, 1e-6), Neighbours.REPLACE_ONE
    publish = answering("pmw", published_in_session(mechanism, singles, claim, near, entropy), others)
    world = known(others, np.array([1, 0, 1]), near)
    attacks: list[Attack] = [Tracing(population, known=True), Shadow()]
    rows += play(f"pmw, {claim:.6g}", world, publish, attacks, claim, runs=runs, rng=rng)


def play_net(rows: list[Membership], rng: np.random.Generator, entropy: Entropy, most: int) -> None:
    """Net, whose list of synopses is of one column."""
    population = adult(["hours-per-week"])
    hours = population.columns[0]
    others = Table(population.domain, (hours[:400],))
    target = np.array([int(hours.max())])
    workload = Workload.predicates(population.domain, "hours-per-week >= 40", "hours-per-week >= 60")
    mechanism, claim, near = (
        Net(quantiles(population.domain, alpha=1 / 4), radius=1 / 4),
        PureDP(1.0),
        Neighbours.ADD_REMOVE,
    )
    publish = answering("net", published_by(mechanism, workload, claim, near, entropy), others)
    world = known(others, target, near)
    attacks: list[Attack] = [ModelLikelihood(population), Shadow()]
    rows += play("net, epsilon=1", world, publish, attacks, claim, runs=most, rng=rng)
