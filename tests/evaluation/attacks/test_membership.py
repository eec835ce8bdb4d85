"""Membership shows what is published exactly, and a twin that overspends; correct mechanisms stay below their bound."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import qrelease as qr
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.membership import (
    drawn,
    known,
    play,
    published_by,
    published_exactly,
    published_in_session,
)
from qrelease.evaluation.attacks.scores import Shadow, Tracing
from qrelease.mechanisms.base import Mechanism
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Filter, Neighbours
from tests.evaluation.attacks.members import (
    APPROX,
    DOMAIN,
    OTHERS,
    PAIRS,
    POPULATION,
    PURE,
    TARGET,
    attacks,
    game,
    table_of,
)


@dataclass(frozen=True)
class Overspending:
    """Claims a cost, and has noise an eighth as wide: it spends eight times the ε, or 64 times the ρ."""

    mechanism: Mechanism

    @property
    def name(self):
        return self.mechanism.name

    def check(self, workload, cost, neighbours):
        self.mechanism.check(workload, cost, neighbours)

    def release(self, private, workload, cost):
        spent = qr.ZCDP(64 * cost.rho) if isinstance(cost, qr.ZCDP) else replace(cost, epsilon=8 * cost.epsilon)
        return self.mechanism.release(replace(private, filter=Filter(spent), spends=[]), workload, spent)


def test_exact_marginals_tell_whether_a_rare_record_is_in():
    found = game(published_exactly(PAIRS), None, runs=200)
    assert found["tracing"].value == found["shadow models"].value == 1.0


@pytest.mark.parametrize(
    ("mechanism", "cost"),
    [
        (qr.Laplace(), PURE),
        (qr.Gaussian(), APPROX),
        (qr.Matrix(), APPROX),
        (qr.MaxEnt(), APPROX),
        (qr.MWEM(rounds=3), PURE),
        (qr.SmallDB(size=3), PURE),
        (qr.IterativeConstruction(), APPROX),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_no_mechanism_is_above_its_bound(mechanism, cost):
    publish = published_by(mechanism, PAIRS, cost, Neighbours.ADD_REMOVE, Entropy.insecure(2))
    found = game(publish, cost, runs=160)
    assert found
    assert not [name for name, advantage in found.items() if advantage.convicts]


SWAP, MANY, ONE = Neighbours.REPLACE_ONE, table_of(400), qr.Workload.marginals(DOMAIN, [["income"]])


def session_game(alpha, spent, claim):
    """A session that answers all questions, at nearly all that it may spend; and what it answered in two runs."""
    publish = published_in_session(qr.Online(alpha=alpha), ONE, spent, SWAP, Entropy.insecure(2))
    world = known(MANY, TARGET, SWAP)
    seen = np.array([publish(world(np.random.default_rng(0)).within).answers for _ in range(8)])
    assert np.isfinite(seen).all()
    assert (np.ptp(seen, axis=0) > 0).all()
    tracing = [Tracing(POPULATION, known=True), Shadow()]
    found = play("it", world, publish, tracing, claim, runs=200, rng=np.random.default_rng(1))
    assert {m.attack for m in found} == {"tracing", "shadow models"}
    return {m.attack for m in found if m.advantage.convicts}


def test_a_session_is_not_above_its_bound():
    assert not session_game(0.05, PURE, PURE)


def test_a_session_that_spends_eight_times_what_it_claims_is_above_the_bound():
    """It promises answers eight times as near, which cost it eight times as much."""
    assert session_game(0.05 / 8, qr.PureDP(8.0), PURE)


@pytest.mark.parametrize(
    ("mechanism", "cost", "seen_by"),
    [
        (qr.Laplace(), PURE, {"tracing", "shadow models", "nearest"}),
        (qr.Gaussian(), qr.ZCDP(0.05), {"tracing", "shadow models", "nearest"}),
        (qr.MaxEnt(), qr.ZCDP(0.05), {"tracing", "likelihood"}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_a_twin_that_spends_eight_times_is_above_the_bound(mechanism, cost, seen_by):
    publish = published_by(Overspending(mechanism), PAIRS, cost, Neighbours.ADD_REMOVE, Entropy.insecure(3))
    found = game(publish, cost, runs=400)
    assert seen_by <= {name for name, advantage in found.items() if advantage.convicts}


def test_mistakes_are_told():
    world = known(OTHERS, TARGET, Neighbours.ADD_REMOVE)
    for runs, said in ((20, "runs"), (42, "multiple of 4, got 42")):
        with pytest.raises(InvalidInput, match=said):
            play("it", world, published_exactly(PAIRS), attacks(), PURE, runs=runs, rng=np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="fewer than the population"):
        drawn(OTHERS, 60, Neighbours.ADD_REMOVE)
