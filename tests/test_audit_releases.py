"""The auditor turned on whole releases, and on the sensitivities that they declare."""

import math
from dataclasses import dataclass, replace
from functools import partial

import broken
import numpy as np
import pytest
from audits import DOMAIN, SINGLES, SWAP, TIPPED, audited, listed, table

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.audit import (
    audit,
    audit_mechanism,
    audit_sensitivity,
    compare,
    enumerated,
    table_pairs,
)
from qrelease.inference import dense_fit, log_linear, maxent
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import noise_for
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.inference.pure_plan import PurePlan
from qrelease.mechanisms import record_selection, weighted_records
from qrelease.mechanisms.iterative.construction import Round, iterate
from qrelease.mechanisms.iterative.distinguishers import Select
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.queries.workload import Workload

ONE = PureDP(1.0)

BOTH = Workload.marginals(DOMAIN, 2)

MOVED = table((0, 0), (0, 1), (1, 1)), table((1, 1), (0, 1), (1, 1))


@pytest.fixture
def _listed(monkeypatch):
    listed(monkeypatch)


def measured(cost):
    def run(records, source):
        return [m.values for m in Private(records, SWAP, Filter(cost), source).measure(SINGLES, cost)]

    return run


def hashable(run):
    return lambda data, choices: tuple(np.concatenate([*run(data, choices)]).tolist())


@pytest.mark.usefixtures("_listed")
@pytest.mark.parametrize("cost", [PureDP(8.0), ZCDP(3.0)])
def test_a_measurement_spends_exactly_its_cost(cost):
    first, second = (enumerated(hashable(measured(cost)), data, least=1e-9) for data in MOVED)
    found = compare(first, second, cost)
    assert not found.convicted
    limit = cost.epsilon if isinstance(cost, PureDP) else cost.rho
    assert found.bound > 0.75 * limit


def one_round(cost, distinguisher, share=0.5):
    """One round of MWEM on two columns, from the uniform table: which column was chosen, and its noisy counts."""
    plan = Round.equal(cost, 1, share)

    def run(records, source):
        private = Private(records, SWAP, Filter(cost), source)
        found = []
        start = Histogram(DOMAIN, SINGLES.sets, float(len(records)))
        iterate(private, SINGLES, start, MultiplicativeWeights(), distinguisher, plan, found)
        return (found[0].group.axes[0], *found[0].values.tolist())

    return run


# A record that makes one column stand out more and the other less, and shows in the counts of either one.


@pytest.mark.usefixtures("_listed")
@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
def test_one_round_of_mwem_is_private_and_half_the_sensitivity_is_not(rule):
    claim = PureDP(8.0)

    def found(distinguisher):
        run = one_round(claim, distinguisher)
        return compare(*(enumerated(run, data, least=1e-8) for data in TIPPED), claim)

    right = found(Select(rule=rule))
    wrong = found(broken.HalfTheSensitivity(Select(rule=rule)))
    assert not right.convicted
    assert right.epsilon > 0.9 * claim.epsilon
    assert wrong.convicted


def test_half_the_sensitivity_of_a_distinguisher_is_convicted_from_runs():
    claim = PureDP(2.0)

    def found(distinguisher):
        run = one_round(claim, distinguisher, share=0.9)
        return audit(run, *TIPPED, claim, samples=1_500, entropy=Entropy.insecure(8))

    assert not found(Select()).convicted
    assert found(broken.HalfTheSensitivity(Select())).convicted


def test_measurements_that_replay_their_noise_are_convicted_from_runs():
    columns = [Workload.marginals(DOMAIN, [[name]]) for name in DOMAIN.names]
    pair = table((0, 1), (0, 1), (1, 1)), table((0, 1), (0, 1), (0, 1))

    def run(records, source, *, twin):
        private = twin(Private(records, SWAP, Filter(ONE), source))
        return [private.measure(column, PureDP(0.5))[0].values for column in columns]

    def found(twin):
        return audit(partial(run, twin=twin), *pair, ONE, samples=2_000, entropy=Entropy.insecure(9))

    assert not found(lambda private: private).convicted
    # The difference of the two columns has no noise left.
    assert found(broken.SameNoise).epsilon > 4


@pytest.fixture
def _hardly_fitted(monkeypatch):
    """Few rounds of the fit to what `FittedRecords` measured: post-processing, which every release of an audit runs."""
    sizes = replace(record_selection.SIZES, first_rounds=1, refit_rounds=1, last_rounds=1)
    monkeypatch.setattr(record_selection, "SIZES", sizes)
    monkeypatch.setattr(weighted_records, "SIZES", sizes)
    monkeypatch.setattr(log_linear, "SETTINGS", replace(log_linear.SETTINGS, last_passes=1))
    monkeypatch.setattr(dense_fit, "SETTINGS", replace(dense_fit.SETTINGS, level_rounds=1, fallback_rounds=1))
    monkeypatch.setattr(maxent, "SOLVER", replace(maxent.SOLVER, max_rounds=1))


WEIGHTED, RUNS = ApproxDP(2.0, 1e-3), 200


@pytest.mark.slow
@pytest.mark.usefixtures("_hardly_fitted")
@pytest.mark.parametrize("at_once", [True, False])
def test_weighted_records_are_acquitted_where_they_show_most(at_once):
    mechanism = FittedRecords(weighted_records=16, at_once=at_once)
    found = audit_mechanism(mechanism, ApproxDP(4.0, 1e-3), SWAP, samples=1_000, entropy=Entropy.insecure(9))
    assert not found.convicted


@pytest.mark.slow
@pytest.mark.usefixtures("_hardly_fitted")
@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("at_once", [True, False])
def test_weighted_records_are_acquitted_and_overspending_ones_convicted(at_once, neighbours):
    """Of two columns, and from few runs, as each takes long: so twenty times ε, to be seen in what has many parts."""
    mechanism = FittedRecords(weighted_records=16, at_once=at_once)
    assert not audited(mechanism, WEIGHTED, neighbours, RUNS, DOMAIN).convicted
    assert audited(broken.Overspending(mechanism, 20), WEIGHTED, neighbours, RUNS, DOMAIN).convicted


@pytest.mark.slow
@pytest.mark.usefixtures("_hardly_fitted")
@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_weighted_records_under_pure_epsilon_are_acquitted_and_overspending_ones_convicted(neighbours):
    mechanism = FittedRecords(weighted_records=16)
    assert not audited(mechanism, PureDP(2.0), neighbours, RUNS, DOMAIN).convicted
    assert audited(broken.Overspending(mechanism, 20), PureDP(2.0), neighbours, RUNS, DOMAIN).convicted


@pytest.mark.slow
@pytest.mark.usefixtures("_hardly_fitted")
@pytest.mark.parametrize("at_once", [True, False])
def test_weights_that_were_fitted_do_not_hide_whose_records_they_are(at_once):
    wrong = broken.PrivateSupport(FittedRecords(weighted_records=16, at_once=at_once))
    assert audited(wrong, WEIGHTED, SWAP, RUNS, DOMAIN).convicted


# --- declared against actual sensitivity -------------------------------------------------------------------------

WIDE = Domain.coded({"a": 2, "b": 3, "c": 4})
WORKLOADS = {
    "marginals": Workload.marginals(WIDE, 1) + Workload.marginals(WIDE, 2),
    "ranges and prefixes": Workload.ranges(WIDE, "c") + Workload.prefixes(WIDE, "b"),
    "conditions": Workload.predicates(WIDE, "a = 1 and c in 1..2", "a = 0", "b in 1..2"),
    "vectors": Workload.vectors(WIDE, np.random.default_rng(1).random((5, 12)), ["b", "c"]),
    "all": Workload.marginals(WIDE, 2)
    + Workload.ranges(WIDE, "c")
    + Workload.vectors(WIDE, np.random.default_rng(2).random((3, 4)), ["c"]),
}


def tables():
    rng = np.random.default_rng(3)
    return [Table(WIDE, tuple(rng.integers(0, n, size) for n in WIDE.shape)) for size in (1, 5)]


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("name", WORKLOADS)
def test_measured_answers_move_as_far_as_their_noise_is_made_for(name, neighbours):
    workload, cost = WORKLOADS[name], PureDP(1.0)
    pairs = [pair for records in tables() for pair in table_pairs(records, neighbours)]

    def run(records, entropy):
        private = Private(records, neighbours, Filter(cost), entropy)
        return np.concatenate([m.values for m in private.measure(workload, cost)])

    law, scale = noise_for(workload, cost, neighbours)
    found = audit_sensitivity(run, pairs, float(scale) * law.unit)  # ε = 1: the scale is the sensitivity
    assert not found.convicted
    assert found.found >= 0.6 * found.declared
    variance = float(noise_for(workload, ZCDP(0.5), neighbours)[1]) * law.unit**2  # ρ = 1/2: it is its square
    found = audit_sensitivity(run, pairs, math.sqrt(variance), order=2)
    assert not found.convicted
    assert found.found >= 0.6 * found.declared


@dataclass
class Scores:
    """A `Private` whose selection shows the scores and the declared sensitivity."""

    inner: Private
    seen: tuple = ()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def select(self, scores, sensitivity, cost, rule):
        self.seen = scores, sensitivity
        return 0


@pytest.mark.parametrize("choice", ["group", "query"])
@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("name", WORKLOADS)
def test_scores_of_the_distinguisher_move_at_most_as_far_as_declared(name, neighbours, choice):
    workload, cost = WORKLOADS[name], PureDP(1.0)
    rng = np.random.default_rng(4)
    state = Histogram(WIDE, workload.sets, 4.3)
    most = 0.0
    for _ in range(4):
        state.multiply(rng.normal(size=len(state.marginals)))
        for records in tables():
            for pair in table_pairs(records, neighbours):
                views = [Scores(Private(side, neighbours, Filter(cost), Entropy.insecure(1))) for side in pair]
                for view in views:
                    Select(choice).distinguish(view, state, workload, cost, cost)
                (one, declared), (two, again) = (view.seen for view in views)
                assert declared == again
                most = max(most, int(np.abs(one - two).max()) / declared)
    assert 0.6 < most <= 1


# --- marginals under pure ε ----------------------------------------------------------------------------------------


def contrasted(cost, neighbours, which, factor=1):
    """All that is measured for both columns and their pair, planned for a cost that may be too large by a factor."""
    planned = PureDP(cost.epsilon * factor)
    plan = PurePlan.choose(DOMAIN, BOTH.sets, planned, neighbours)[which]

    def run(records, source):
        private = Private(records, neighbours, Filter(planned), source)
        return tuple(float(v) for part, price in plan.parts for m in private.measure(part, price) for v in m.values)

    return run


NEIGHBOURING = {
    Neighbours.ADD_REMOVE: (Table(DOMAIN, (np.zeros(0, np.uint8),) * 2), table((0, 1))),  # of no records, and of one
    SWAP: MOVED,
}


@pytest.mark.usefixtures("_listed")
@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("which", [0, 1], ids=["contrasts", "whole"])
def test_what_is_measured_under_pure_epsilon_is_private_and_twice_as_much_is_not(neighbours, which):
    claim = PureDP(8.0)

    def found(factor):
        run = contrasted(claim, neighbours, which, factor)
        return compare(*(enumerated(run, data, least=1e-9) for data in NEIGHBOURING[neighbours]), claim)

    right = found(1)
    assert not right.convicted
    assert right.bound > 0.75 * claim.epsilon * (0.5 if neighbours is SWAP and which == 0 else 1)
    assert found(2).convicted
