"""The auditor turned on distinguishers and on whole runs of iterative construction, each beside its broken twins."""

import broken
import numpy as np
import pytest
from audits import CUBE, DOMAIN, SINGLES, SWAP, TIPPED, audited, hashable, listed, table
from rules import Heaviest

from qrelease.evaluation.audit import compare, enumerated, released
from qrelease.inference.histogram import Histogram
from qrelease.inference.median_rule import MedianRule
from qrelease.inference.nets import Listed, small_databases
from qrelease.inference.update_rules import Hedge, Perceptron, Projection
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader, Select
from qrelease.mechanisms.private_data import Private
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.queries.oracles import ConjunctionOracle, PredicateOracle
from qrelease.queries.workload import Workload


@pytest.fixture
def _listed(monkeypatch):
    listed(monkeypatch)


# --- one draw of a distinguisher, exactly ------------------------------------------------------------------------

COLUMN = Workload.marginals(DOMAIN, [["a"]])
FLIPPED = table((0, 0), (0, 0), (0, 0), (0, 0)), table((1, 0), (0, 0), (0, 0), (0, 0))


def drawn(distinguisher, workload, cost):
    """Which query it draws, from the uniform table of as many records."""

    def run(records, choices):
        private = Private(records, SWAP, Filter(cost), choices)
        state = Histogram(DOMAIN, workload.sets, float(len(records)))
        (group,) = distinguisher.distinguish(private, state, workload, cost, cost).groups
        return group.axes, str(group.queries.to_json())

    return run


@pytest.mark.usefixtures("_listed")
@pytest.mark.parametrize(
    ("distinguisher", "workload", "pair"),
    [
        (Select("group"), SINGLES, TIPPED),
        (Select("query"), SINGLES, TIPPED),
        (Select("group", "permute-and-flip"), SINGLES, TIPPED),
        (Select("query", "permute-and-flip"), SINGLES, TIPPED),
        (PerturbedLeader(PredicateOracle()), COLUMN, FLIPPED),
    ],
    ids=["group", "query", "group by permute-and-flip", "query by permute-and-flip", "leader"],
)
def test_one_draw_is_private_and_for_half_the_sensitivity_it_is_not(distinguisher, workload, pair):
    claim = PureDP(4.0)

    def found(tried):
        run = drawn(tried, workload, claim)
        return compare(*(enumerated(run, data, least=1e-9) for data in pair), claim)

    right, wrong = found(distinguisher), found(broken.HalfTheSensitivity(distinguisher))
    assert not right.convicted
    assert right.epsilon > 0.8 * claim.epsilon
    assert wrong.convicted


@pytest.mark.usefixtures("_listed")
@pytest.mark.parametrize("oracle", [ConjunctionOracle(), Heaviest()], ids=str)
def test_a_leader_is_private_whatever_its_oracle(oracle):
    claim = PureDP(4.0)
    run = drawn(PerturbedLeader(oracle), COLUMN, claim)
    assert not compare(*(enumerated(run, data, least=1e-9) for data in FLIPPED), claim).convicted


# --- a whole run -------------------------------------------------------------------------------------------------

CLAIM = PureDP(8.0)
TWO = Listed(tuple(WeightedRecords.equal(DOMAIN, np.array(cells), 1.0) for cells in ([0, 1, 2, 3], [0, 0, 0, 3])))
"""Two candidates are halved once: one round."""


@pytest.mark.usefixtures("_listed")
@pytest.mark.parametrize(
    "distinguisher", [Select("query"), Select("query", "permute-and-flip"), Select("group")], ids=str
)
def test_a_whole_run_of_one_round_is_private_and_its_broken_twins_are_not(distinguisher):
    def found(mechanism):
        run = released(mechanism, SINGLES, CLAIM, SWAP)
        laws = (enumerated(lambda d, c: hashable(run(d, c)), d, least=1e-8) for d in TIPPED)
        return compare(*laws, CLAIM)

    rule = MedianRule(TWO, 0.3)
    right = found(IterativeConstruction(rule, distinguisher))
    assert not right.convicted
    assert right.epsilon > 0.95 * CLAIM.epsilon
    # Half of ε is forgotten: each draw takes ε/T, not ε/2T.
    assert found(broken.Overspending(IterativeConstruction(rule, distinguisher))).convicted
    assert found(IterativeConstruction(rule, broken.HalfTheSensitivity(distinguisher))).convicted


FOUR = Listed(tuple(WeightedRecords.equal(DOMAIN, np.array([cell]), 1.0) for cell in range(4)))
"""Four candidates are halved twice: two rounds."""


class Replayed:
    """A source of noise that gives the same value of the same law again."""

    def __init__(self, choices):
        self._choices, self._given = choices, {}

    def draw(self, law):
        key = tuple(law.masses.items())
        if key not in self._given:
            self._given[key] = self._choices.draw(law)
        return self._given[key]


@pytest.mark.usefixtures("_listed")
def test_a_run_of_two_rounds_is_private_and_one_that_replays_its_noise_is_not():
    """Of two answers under one noise the difference has none."""
    run = released(IterativeConstruction(MedianRule(FOUR, 0.1)), SINGLES, CLAIM, SWAP)

    def found(source):
        def told(data, choices):
            return hashable(run(data, source(choices)))

        return compare(*(enumerated(told, data, least=1e-5) for data in TIPPED), CLAIM)

    right = found(lambda choices: choices)
    assert not right.convicted
    assert right.epsilon > 0.6 * CLAIM.epsilon
    assert found(Replayed).convicted


@pytest.mark.usefixtures("_listed")
def test_a_whole_run_with_a_leader_is_private_and_its_broken_twins_are_not():
    """One more record like the others: the count, the choice and the answer all tell of it."""
    mechanism = IterativeConstruction(MedianRule(TWO, 0.3), PerturbedLeader(PredicateOracle()))
    alike = table(*[(0, 0)] * 3), table(*[(0, 0)] * 4)

    def found(tried, source=lambda choices: choices):
        run = released(tried, COLUMN, CLAIM, Neighbours.ADD_REMOVE)

        def told(data, choices):
            return hashable(run(data, source(choices)))

        return compare(*(enumerated(told, data, least=1e-5) for data in alike), CLAIM)

    right = found(mechanism)
    assert not right.convicted
    assert right.epsilon > 0.8 * CLAIM.epsilon
    assert found(broken.Overspending(mechanism)).convicted
    assert found(IterativeConstruction(mechanism.rule, broken.HalfTheSensitivity(mechanism.distinguisher))).convicted
    assert found(mechanism, Replayed).convicted


RUNS = {
    "default": (IterativeConstruction(), PureDP(2.0), Neighbours.ADD_REMOVE),
    "default in zCDP": (IterativeConstruction(), ApproxDP(2.0, 1e-3), Neighbours.ADD_REMOVE),
    "multiplicative weights": (IterativeConstruction(Hedge(0.5)), ZCDP(0.5), SWAP),
    "perceptron": (
        IterativeConstruction(Perceptron(0.4), Select("query", "permute-and-flip")),
        PureDP(2.0),
        Neighbours.ADD_REMOVE,
    ),
    "median": (IterativeConstruction(MedianRule(small_databases(CUBE, 2), 0.2), Select("group")), PureDP(2.0), SWAP),
    "leader": (IterativeConstruction(Projection(0.4), PerturbedLeader(ConjunctionOracle())), PureDP(2.0), SWAP),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_whole_runs_of_many_rounds_are_acquitted_and_those_without_fresh_noise_convicted(name):
    """An event of which one input has a quarter, and the other nothing, is enough at 300 runs."""
    mechanism, cost, neighbours = RUNS[name]
    assert not audited(mechanism, cost, neighbours, 300).convicted
    assert audited(broken.Replayed(mechanism), cost, neighbours, 300).convicted
