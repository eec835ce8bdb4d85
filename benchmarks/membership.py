"""The games of `benchmarks.attacks`: whether one person is in, against all mechanisms, and twins that overspend."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import qrelease
from benchmarks.membership_curator import STATISTICS, curator_games
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
from qrelease.inference.nets import small_databases
from qrelease.inference.update_rules import Projection
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.base import Mechanism, MechanismResult, OnlineMechanism
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.iterative.pmw import PMWSession, PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.online.session import Online
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.small_db.net import Net
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Cost, Filter, Neighbours, PureDP
from qrelease.privacy.journals import Journal
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


@dataclass(frozen=True)
class Contender:
    """A mechanism, what it claims, and how many runs it and its twin play; `quickly` are those of the quick form.

    A twin that is plainly above its bound needs few; 0 leaves it out.
    """

    mechanism: Mechanism
    claim: Cost
    runs: int
    quickly: int
    twin_runs: int
    twin_quickly: int


def contenders() -> list[Contender]:
    """Mechanisms that release marginals, each with the runs that there is time for."""
    pure, gaussian = PureDP(1.0), ZCDP(0.05)
    return [
        Contender(Laplace(), pure, 1600, 80, 400, 120),
        Contender(Gaussian(), gaussian, 1600, 80, 400, 160),
        Contender(Matrix(), gaussian, 1600, 200, 400, 200),
        Contender(MaxEnt(), gaussian, 640, 40, 320, 120),
        Contender(MWEM(rounds=3), pure, 1600, 80, 1200, 480),
        Contender(FittedRecords(weighted_records=1 << 10), gaussian, 320, 40, 240, 120),
        Contender(Auto(), pure, 400, 40, 320, 120),
        Contender(Auto(), gaussian, 320, 0, 320, 0),
    ]


CAUGHT = (
    *("laplace", "gaussian", "matrix", "maxent", "mwem", "records", "auto", "sums", "smalldb", "net", "iterative"),
    *("online", "pmw", "learned categories", "persons", *(text.partition(":")[0] for text in STATISTICS)),
)
"""Whose twins are played; each has to be caught."""


def unplayed() -> list[str]:
    """The package's mechanisms and sessions that no game is about."""
    public = [getattr(qrelease, name) for name in dir(qrelease)]
    publishing = [p for p in public if hasattr(p, "name") and any(hasattr(p, a) for a in ("release", "open", "join"))]
    played = {NumberSums, SmallDB, Net, IterativeConstruction, Online, PrivateMultiplicativeWeights}
    played |= {type(c.mechanism) for c in contenders()}
    played |= {qrelease.Mechanism}  # what all of them have, and none by itself
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
    pairs, add = Workload.marginals(population.domain, 2), Neighbours.ADD_REMOVE
    world = known(others, target, add)
    rows = play("exact", world, published_exactly(pairs), attacks, None, runs=100, rng=rng)
    for c in contenders():
        numbers = (c.quickly, c.twin_quickly) if quick else (c.runs, c.twin_runs)
        for one, runs in zip((c.mechanism, Overspending(c.mechanism)), numbers, strict=True):
            publish = published_by(one, pairs, c.claim, add, entropy)
            if runs:
                rows += play(f"{one.name}, {c.claim:.6g}", world, publish, attacks, c.claim, runs=runs, rng=rng)
    play_sums(rows, rng, entropy, 120 if quick else 800)
    play_choices(rows, rng, entropy, 200 if quick else 1600)
    play_online(rows, rng, entropy, 160 if quick else 800)
    play_pmw(rows, rng, entropy, (80, 320) if quick else (400, 400))
    trace(rows, rng, entropy, 160 if quick else 400)
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


@dataclass(frozen=True)
class OverspendingUpdates:
    """A twin of private multiplicative weights that takes 8 ε for each update that it may make, and not for all.

    Eight times ε for all of them shows in no game: it is shared by dozens of updates, of which few are ever made.
    """

    mechanism: PrivateMultiplicativeWeights

    @property
    def name(self) -> str:
        return f"{self.mechanism.name}, 8 times for each update"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int | None) -> None:
        self.mechanism.check(domain, cost, neighbours, records)

    def open(self, private: Private, cost: Cost, journal: Journal) -> PMWSession:
        session = self.mechanism.open(private, cost, journal)
        spent = PureDP(8 * session.terms.cost.epsilon * session.updates)
        session._private = replace(private, filter=Filter(spent), spends=[])
        session.terms = replace(session.terms, cost=spent)
        return session


def play_pmw(rows: list[Membership], rng: np.random.Generator, entropy: Entropy, runs: tuple[int, int]) -> None:
    """Private multiplicative weights, of as many people as its promise needs, asked about what one of them decides.

    With her each of eight counts is above the threshold of an update, and without her below.
    """
    people, claim, near = 150_000, ApproxDP(1.0, 1e-6), Neighbours.REPLACE_ONE
    domain = Domain.coded({f"question{i}": 2 for i in range(8)})
    beyond = 72_000  # twice α people, and a little less
    ones = (np.arange(people) < people // 2 + beyond).astype(np.uint8)
    others = Table(domain, (ones,) * len(domain))
    alpha = (beyond + 0.5) / (2 * people)
    mechanism = PrivateMultiplicativeWeights(alpha=alpha, beta=0.1, queries=len(domain))
    asked = Workload.predicates(domain, *(f"{name} = 1" for name in domain.names))
    world, attacks = known(others, np.ones(len(domain), np.int64), near), [Shadow()]
    both: tuple[OnlineMechanism[PMWSession], ...] = (mechanism, OverspendingUpdates(mechanism))
    for one, number in zip(both, runs, strict=True):
        publish = answering(one.name, published_in_session(one, asked, claim, near, entropy), others)
        rows += play(f"{one.name}, {claim:.6g}", world, publish, attacks, claim, runs=number, rng=rng)


def play_choices(rows: list[Membership], rng: np.random.Generator, entropy: Entropy, runs: int) -> None:
    """Mechanisms of one choice, among synopses of which one fits best with the person and another without her.

    Of five people two are ill, and she is a third: nobody is ill, or all are, says a synopsis of one record.
    """
    domain, claim, near = Domain.coded({"ill": 2}), PureDP(1.0), Neighbours.REPLACE_ONE
    others = Table(domain, (np.array([0, 0, 1, 1, 0], np.uint8),))
    asked, world = Workload.predicates(domain, "ill = 1"), known(others, np.array([1]), near)
    construction = IterativeConstruction(Projection(0.9))  # one round, of one measurement
    attacks: list[Attack] = [ModelLikelihood(others), Shadow()]
    choices: tuple[Mechanism, ...] = (SmallDB(size=1), Net(small_databases(domain, 1)), construction)
    for mechanism in choices:
        for one in (mechanism, Overspending(mechanism)):
            publish = answering(one.name, published_by(one, asked, claim, near, entropy), others)
            rows += play(f"{one.name}, {claim:.6g}", world, publish, attacks, claim, runs=runs, rng=rng)
