"""Membership: whether one person's record is among those that a release was made from.

A game is played many times: a table is published with the target's record or without it, and an attack scores what it
sees. On the first half of the runs it learns, and its threshold is set; on the other half its advantage is measured,
and compared with the largest that the privacy allows, (e^ε - 1 + 2δ)/(e^ε + 1), whatever the attack. No attack on a
correct mechanism is above that bound, but for the luck that the confidence leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import whole
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, StreamHalted, TooLarge
from qrelease.evaluation.attacks.games import Advantage, advantage_bound_of
from qrelease.evaluation.attacks.results import NotPrivate
from qrelease.evaluation.attacks.scores import Attack, Observation, Published, RecordScore
from qrelease.mechanisms.base import Mechanism, OnlineMechanism, PayingMechanism
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload, single
from qrelease.release.curator import Curator


@final
@dataclass(frozen=True, eq=False)
class Case:
    """A table without the target's record, one with it, and that record as codes (d,)."""

    without: Table = field(repr=False)
    within: Table = field(repr=False)
    target: Ints = field(repr=False)


World = Callable[[np.random.Generator], Case]
"""Draws the case of one run."""


def known(others: Table, target: Ints, neighbours: Neighbours) -> World:
    """The strongest attacker's world, the same in each run: all records but the target's are known.

    Under the replacement of one record the target's takes the place of the last one.
    """
    last = len(others) - (neighbours is Neighbours.REPLACE_ONE)
    columns = tuple(np.append(c[:last], t).astype(c.dtype) for c, t in zip(others.columns, target, strict=True))
    case = Case(others, Table(others.domain, columns), target)
    return lambda rng: case


def drawn(population: Table, people: int, neighbours: Neighbours) -> World:
    """The usual attacker's world: people and target are drawn anew from a population in each run."""
    whole("people", people, least=1)
    if people >= len(population):
        raise InvalidInput("the people must be fewer than the population that they are drawn from")

    def draw(rng: np.random.Generator) -> Case:
        chosen = rng.choice(len(population), people + 1, replace=False)
        target = np.array([c[chosen[-1]] for c in population.columns], np.int64)
        others = Table(population.domain, tuple(c[chosen[:-1]] for c in population.columns))
        return known(others, target, neighbours)(rng)

    return draw


Publish = Callable[[Table], Published]
"""Publishes one table, with new noise each time."""


def published_exactly(workload: Workload) -> Publish:
    """The true answers."""

    def publish(table: Table) -> Published:
        return Published(workload, workload.answers(np.concatenate(table.counts(workload.sets)).astype(np.float64)))

    return publish


def published_by(
    mechanism: Mechanism, workload: Workload, cost: Cost, neighbours: Neighbours, entropy: WordSource | None = None
) -> Publish:
    """A release of the package, within a cost."""
    source = Entropy() if entropy is None else entropy
    mechanism.check(workload, cost, neighbours)

    def publish(table: Table) -> Published:
        draft = mechanism.release(Private(table, neighbours, Filter(cost), source), workload, cost)
        measured = {m.group: m.values for m in draft.measurements}
        modelled = np.split(draft.synopsis.answer(workload), workload.bounds[1:-1])
        answers = [measured.get(g, m) for g, m in zip(workload.groups, modelled, strict=True)]
        sums = () if draft.measured_sums is None else draft.measured_sums.measured
        return Published(
            workload, np.concatenate(answers), draft.synopsis, np.concatenate([np.empty(0), *(m.values for m in sums)])
        )

    return publish


def published_in_session(
    mechanism: OnlineMechanism[Any] | PayingMechanism[Any],
    workload: Workload,
    cost: Cost,
    neighbours: Neighbours,
    entropy: WordSource | None = None,
) -> Publish:
    """The answers of an online session that is asked the queries of a workload, one after the other."""
    source = Entropy() if entropy is None else entropy
    queries = [Workload(workload.domain, (single(g, i),)) for g in workload.groups for i in range(g.queries.count)]

    def publish(table: Table) -> Published:
        answers = np.full(len(queries), np.nan)
        with (
            Ledger.open(None, cost, dataset="people", neighbours=neighbours) as ledger,
            Curator(table, ledger, source).open(mechanism, cost) as session,
            suppress(BudgetExceeded, StreamHalted),
        ):
            for i, query in enumerate(queries):
                answers[i] = session.answer(query).value
        return Published(workload, answers)

    return publish


@final
@dataclass(frozen=True)
class Membership(NotPrivate):
    """What one attack made of a game. Not private.

    Attributes
    ----------
    mechanism, attack : str
        Who published, and who scored.
    runs : int
        On which the advantage was measured, half of them with the target.
    advantage : Advantage
        Beside what the claimed privacy allows.
    """

    mechanism: str
    attack: str
    runs: int
    advantage: Advantage


def play(
    name: str,
    world: World,
    publish: Publish,
    attacks: Sequence[Attack],
    claim: Cost | None,
    *,
    runs: int,
    rng: np.random.Generator,
    confidence: float = 0.99,
) -> list[Membership]:
    """Play the game, and measure each attack that can tell anything from what is published.

    Parameters
    ----------
    name : str
        What to call the publisher in a table.
    world : World
        `known` or `drawn`.
    publish : Publish
        `published_by`, `published_in_session`, `published_exactly`, or one's own.
    attacks : sequence of Attack
        Those that need a model or records are left out where there are none.
    claim : Cost, optional
        What the publisher claims to cost; without one every advantage is allowed.
    runs : int
        A multiple of 4: on half of them the attacks learn, and half of each half are with the target.
    rng : numpy.random.Generator
        Draws the cases.
    confidence : float
        Of the bounds on each advantage.

    Raises
    ------
    InvalidInput
        For fewer than 40 runs, or a number that is no multiple of 4.

    Examples
    --------
    >>> import qrelease as qr
    >>> from qrelease.evaluation.attacks.scores import Tracing
    >>> domain = qr.Domain.coded({"ill": 2, "old": 2})
    >>> others = qr.Table(domain, (np.zeros(9, np.uint8), np.ones(9, np.uint8)))
    >>> near, pairs = qr.Neighbours.ADD_REMOVE, qr.Workload.marginals(domain, 2)
    >>> world = known(others, np.array([1, 0]), near)
    >>> rng, seen = np.random.default_rng(0), published_exactly(pairs)
    >>> (found,) = play("exact", world, seen, [Tracing(others, known=True)], None, runs=40, rng=rng)
    >>> found.advantage.value
    1.0

    References
    ----------
    Homer et al. 2008; Dwork et al. 2015, "Robust traceability from trace amounts"; Stadler, Oprisanu & Troncoso 2022,
    "Synthetic data: anonymisation groundhog day".
    """
    whole("runs", runs, least=40)
    if runs % 4:
        raise InvalidInput(f"runs must be a multiple of 4, got {runs}")
    observed = [_observe(world(rng), publish, member=i % 2 == 0) for i in range(runs)]
    pilot, rest = observed[: runs // 2], observed[runs // 2 :]
    bound = 1.0 if claim is None else advantage_bound_of(claim)
    found = []
    for attack in attacks:
        with suppress(InvalidInput, TooLarge):
            score = attack.learn(pilot)
            threshold = _threshold(*_scores(score, pilot))
            sides = [side > threshold for side in _scores(score, rest)]
            advantage = Advantage.of(int(sides[0].sum()), int(sides[1].sum()), runs // 4, confidence, bound)
            found.append(Membership(name, attack.name, runs // 2, advantage))
    return found


def _observe(case: Case, publish: Publish, *, member: bool) -> Observation:
    return Observation(publish(case.within if member else case.without), case.target, member)


def _scores(score: RecordScore, runs: Sequence[Observation]) -> tuple[Floats, Floats]:
    """The scores of the runs with the target, and of those without."""
    scores = np.array([score(run) for run in runs])
    member = np.array([run.member for run in runs])
    return scores[member], scores[~member]


def _threshold(inside: Floats, outside: Floats) -> float:
    """The score above which "in" is said: where the two frequencies are farthest apart."""
    values = np.unique(np.concatenate([inside, outside]))
    cuts = np.append((values[:-1] + values[1:]) / 2, values[-1])
    hits, false = (1 - np.searchsorted(np.sort(s), cuts, "right") / len(s) for s in (inside, outside))
    return float(cuts[np.argmax(hits - false)])
