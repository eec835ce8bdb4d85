"""One suite that every mechanism has to pass; a new mechanism adds a line to MECHANISMS."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from worlds import (
    BOTH,
    PEOPLE,
    SpyEntropy,
    coded,
    full_matrix,
    mixed,
    private,
    random_table,
    run,
    table_of,
    true_answers,
)

from qrelease.errors import InvalidInput, QReleaseError
from qrelease.inference.measurement import RECORDS
from qrelease.mechanisms.base import MechanismResult, parameters
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.privacy.costs import is_pure
from qrelease.privacy.ledger import Ledger
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

PURE, APPROX, CONCENTRATED = PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1)
MECHANISMS = [
    (Laplace(), [PURE, APPROX, ApproxDP(1.0, 0.0)]),
    (Gaussian(), [APPROX, CONCENTRATED]),
    (MaxEnt(), [PURE, APPROX, ApproxDP(1.0, 0.0), CONCENTRATED]),
    (FittedRecords(weighted_records=500), [PURE, APPROX, ApproxDP(1.0, 0.0), CONCENTRATED]),
    (FittedRecords(weighted_records=500, at_once=False), [PURE, APPROX, CONCENTRATED]),
    (MWEM(), [PURE, APPROX, CONCENTRATED]),
    (MWEM(rounds=3, choice="query", sweeps=1), [PURE, APPROX, CONCENTRATED]),
    (MWEM(rounds=2, rule="exponential", singles=0), [PURE, CONCENTRATED]),
    (MWEM(rounds=2, rule="permute-and-flip", selection=0.5), [PURE, CONCENTRATED]),
]
RUNS = [pytest.param(m, cost, id=f"{m}-{cost}") for m, costs in MECHANISMS for cost in costs]
REFUSED = [
    pytest.param(m, cost, id=f"{m}-{cost}")
    for m, costs in MECHANISMS
    for cost in (PURE, APPROX, CONCENTRATED)
    if cost not in costs and not isinstance(m, MWEM)
]
TABLE = random_table(PEOPLE, 200, 0)


def truth_of(measurement, table):
    return true_answers(Workload(table.domain, (measurement.group,)), table)


# --- what it costs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("asked", [Workload.marginals(PEOPLE, 2), mixed()], ids=["marginals", "mixed"])
@pytest.mark.parametrize(("mechanism", "cost"), RUNS)
def test_spends_add_up_to_no_more_than_the_cost_and_hardly_less(mechanism, cost, asked, relation):
    result, door = run(mechanism, TABLE, asked, cost, relation)
    again = Filter(cost)
    for spend in door.spends:
        again.spend(spend.cost)
    kinds = {type(spend.cost) for spend in door.spends}
    assert kinds in ({PureDP}, {ZCDP}) or (
        ApproxDP in kinds and isinstance(mechanism, Gaussian | MaxEnt | FittedRecords)
    )
    if kinds == {ZCDP} and isinstance(cost, ApproxDP):
        assert again.spent.epsilon <= cost.epsilon
        assert again.spent.epsilon >= 0.95 * cost.epsilon
    else:
        part = Fraction(next(iter(again.spent.to_json().values())))
        whole = Fraction(next(iter(cost.to_json().values())))
        assert Fraction(999, 1000) * whole <= part <= whole
    assert not again.admits(cost)
    assert isinstance(result, MechanismResult)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), RUNS)
def test_every_measurement_was_paid_for(mechanism, cost, relation):
    result, door = run(mechanism, TABLE, mixed(), cost, relation)
    drawn = sum(m.repeats for m in result.measurements)
    if isinstance(mechanism, MWEM):
        paid = [s for s in door.spends if s.what.startswith("measure")]
        columns = len(PEOPLE) if mechanism.singles else 0
        at_once = result.choices["rounds"] == 0  # everything was measured together
        counts = relation is Neighbours.ADD_REMOVE
        assert drawn == counts + (len(mixed().groups) if at_once else result.choices["rounds"] + columns)
        assert sum(m.group == RECORDS for m in result.measurements) == counts
        assert len(paid) == (1 if at_once else result.choices["rounds"] + bool(mechanism.singles))
        assert sum(s.what.startswith("select") for s in door.spends) == result.choices["rounds"]
        assert sum(s.what.startswith("count") for s in door.spends) == counts
    elif isinstance(mechanism, MaxEnt) and not isinstance(cost, ZCDP):  # few marginals: with Laplace noise, in parts
        counts = relation is Neighbours.ADD_REMOVE
        assert {type(s.cost) for s in door.spends} == {PureDP}
        assert {(0, 1), (0, 2)} <= {m.group.axes for m in result.measurements}
        sets = [m.group.axes for m in result.measurements if m.group != RECORDS]
        assert len(sets) == len(set(sets))
        assert sum(s.what.startswith("count") for s in door.spends) == counts
    elif isinstance(mechanism, MaxEnt) or result.choices.get("at_once"):
        counts = relation is Neighbours.ADD_REMOVE
        assert len(door.spends) == 1 + counts
        residuals = {(0,), (1,), (2,), (0, 1), (0, 2)} | ({()} if counts else set())
        assert {m.group.axes for m in result.measurements if isinstance(m.group.queries, Residuals)} == residuals
        assert drawn == len(residuals) + counts
    elif isinstance(mechanism, FittedRecords):
        selected = result.choices["selected"]
        pure = is_pure(cost)  # the columns tell how many records there are, and no signs are measured
        counts = relation is Neighbours.ADD_REMOVE and not pure
        assert sum(s.what.startswith("select") for s in door.spends) == len(selected)
        signs = not result.choices["pairs"] and not pure  # after the columns, how often the signs of two agree
        assert sum(s.what.startswith("measure") for s in door.spends) == counts + 1 + signs + len(selected)
    else:
        assert len(door.spends) == 1
        assert drawn == len(mixed().groups)


@pytest.mark.parametrize(("mechanism", "cost"), REFUSED)
def test_a_kind_of_cost_it_cannot_spend_is_refused(mechanism, cost):
    with pytest.raises(InvalidInput, match="got"):
        mechanism.check(mixed(), cost, Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("mechanism", [m for m, _ in MECHANISMS], ids=str)
@pytest.mark.parametrize("cost", [None, 1.0, "epsilon=1", (1.0, 1e-9)])
def test_what_is_no_cost_is_refused(mechanism, cost):
    spy = SpyEntropy(0)
    with Ledger.open(None, APPROX) as ledger:
        with pytest.raises(InvalidInput):
            Curator(TABLE, ledger, spy).release(mechanism, mixed(), cost)
        assert ledger.spent is None
    assert spy.taken == 0


TINY = [cost for e in range(4, 20) for cost in (PureDP(10.0**-e), PureDP(5 * 10.0**-e))]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(
    "cost", [*TINY, PureDP(1e-310), ZCDP(1e-15), ZCDP(1e-25), ZCDP(1e-310), ApproxDP(1e-9, 1e-12)], ids=str
)
@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(), MWEM(), MWEM(rounds=50), MWEM(choice="query")], ids=str)
def test_a_budget_too_small_is_refused_before_the_charge_or_works(mechanism, cost):
    """Nothing is charged unless a draw happened, and what is charged is released."""
    spy = SpyEntropy(2)
    with Ledger.open(None, ApproxDP(1.0, 1e-3)) as ledger:
        try:
            found = Curator(TABLE, ledger, spy).release(mechanism, mixed(), cost)
        except QReleaseError:
            assert ledger.spent is None
            assert spy.taken == 0
        else:
            assert np.isfinite(found.answers()).all()


# --- what it releases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), RUNS)
def test_a_seed_gives_the_same_release_again_and_another_seed_another(mechanism, cost, relation):
    asked = mixed()
    first, again, other = (run(mechanism, TABLE, asked, cost, relation, seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.synopsis.answer(asked), again.synopsis.answer(asked))
    assert json.dumps(first.synopsis.to_json()) == json.dumps(again.synopsis.to_json())
    assert dict(first.choices) == dict(again.choices)
    assert not np.array_equal(first.synopsis.answer(asked), other.synopsis.answer(asked))


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), RUNS)
def test_answers_are_possible_counts(mechanism, cost, relation):
    result, _ = run(mechanism, TABLE, mixed(), cost, relation)
    answers = result.synopsis.answer(mixed())
    assert answers.shape == (len(mixed()),)
    assert answers.dtype == np.float64
    assert (answers >= 0).all()
    assert (answers <= result.synopsis.total * (1 + 1e-9)).all()
    assert result.synopsis.domain == PEOPLE
    if relation is Neighbours.REPLACE_ONE:
        assert result.synopsis.total == 200
    sums = [part.sum() for g, part in zip(mixed().groups, np.split(answers, mixed().bounds[1:-1]), strict=True)
            if isinstance(g.queries, Cells)]  # fmt: skip
    np.testing.assert_allclose(sums, result.synopsis.total, rtol=1e-9)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(
    ("mechanism", "cost"),
    [(Laplace(), PureDP(1e6)), (Gaussian(), ZCDP(1e6)), (MWEM(rounds=60), PureDP(1e6)), (MWEM(rounds=60), ZCDP(1e6))],
    ids=str,
)
def test_a_large_budget_gives_the_truth(mechanism, cost, relation):
    """Every measurement is exact then; the histogram has fitted them closely."""
    asked = mixed() + Workload.vectors(PEOPLE, [[0.9, 0.0, 0.1], [0.3, 0.3, 0.3]], ["grade"])
    result, _ = run(mechanism, TABLE, asked, cost, relation)
    for m in result.measurements:
        np.testing.assert_allclose(m.values, truth_of(m, TABLE), atol=0.01)
    tolerance = 2.0 if isinstance(mechanism, MWEM) else 0.01
    np.testing.assert_allclose(result.synopsis.answer(asked), full_matrix(asked) @ TABLE.histogram(), atol=tolerance)


@pytest.mark.parametrize("records", [[], [[0, 0, 0]], [[1, 3, 2]] * 3])
@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), RUNS)
def test_no_table_is_too_small(mechanism, cost, relation, records):
    """A mechanism that failed on an empty table would tell that it is empty."""
    result, _ = run(mechanism, table_of(PEOPLE, records), mixed(), cost, relation)
    assert np.isfinite(result.synopsis.answer(mixed())).all()


@pytest.mark.parametrize("sizes", [(1,), (2,), (1, 1), (300,), (2, 1, 3)])
@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), RUNS)
def test_small_and_long_domains(mechanism, cost, relation, sizes):
    domain = coded(*sizes)
    asked = Workload.marginals(domain, 1) + Workload.prefixes(domain, "a")
    if isinstance(mechanism, FittedRecords) and domain.size == 1:
        with pytest.raises(InvalidInput, match="one cell"):
            mechanism.check(asked, cost, relation)
        return
    result, _ = run(mechanism, random_table(domain, 30, 0), asked, cost, relation)
    assert np.isfinite(result.synopsis.answer(asked)).all()


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("text", ["grade in {}", "sex in {F, M}", "sex = F"])
@pytest.mark.parametrize(("mechanism", "cost"), RUNS)
def test_a_single_condition_even_an_empty_one(mechanism, cost, relation, text):
    asked = Workload.predicates(PEOPLE, text)
    result, _ = run(mechanism, TABLE, asked, cost, relation)
    assert np.isfinite(result.synopsis.answer(asked)).all()
    json.dumps(result.synopsis.to_json(), allow_nan=False)


# --- what it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [m for m, _ in MECHANISMS], ids=str)
def test_it_is_a_frozen_value_of_public_parameters(mechanism):
    assert dataclasses.replace(mechanism) == mechanism
    assert hash(dataclasses.replace(mechanism)) == hash(mechanism)
    found = {k: list(v) if isinstance(v, tuple) else v for k, v in parameters(mechanism).items()}
    assert json.loads(json.dumps(found)) == found
    assert mechanism.name == {FittedRecords: "records"}.get(type(mechanism), type(mechanism).__name__.lower())
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.extra = 1


# --- the audit ---------------------------------------------------------------------------------------------------
TRIALS = 600
CONFIDENCE = 0.999
TINY_DOMAIN = coded(2)
NEIGHBOURS_OF_THREE = {
    Neighbours.ADD_REMOVE: ([[0], [1], [1]], [[0], [0], [1], [1]]),
    Neighbours.REPLACE_ONE: ([[0], [1], [1]], [[0], [0], [1]]),
}


def evidence(mechanism, cost, relation, rows, seed):
    """For the larger table (or the changed record), from every value released: linear, weighted by precision."""
    moves = np.array([1, 0 if relation is Neighbours.ADD_REMOVE else -1])
    asked = Workload.marginals(TINY_DOMAIN, 1)
    door = private(table_of(TINY_DOMAIN, rows), cost, relation, Entropy.insecure(seed))
    found = 0.0
    for m in mechanism.release(door, asked, cost).measurements:
        found += m.values @ full_matrix(Workload(TINY_DOMAIN, (m.group,))) @ moves / math.sqrt(m.variance)
    return found


def epsilon_found(mechanism, cost, relation):
    """A lower bound on ε at `CONFIDENCE`: the event is chosen on one half of the runs and counted on the other."""
    runs = [np.array([evidence(mechanism, cost, relation, rows, 2 * seed + i) for seed in range(TRIALS)])
            for i, rows in enumerate(NEIGHBOURS_OF_THREE[relation])]  # fmt: skip
    delta = cost.delta if isinstance(cost, ApproxDP) else 0.0
    first, second = ([r[half::2] for r in runs] for half in (0, 1))
    marks = np.unique(np.concatenate(first))
    marks = marks[np.linspace(0, len(marks) - 1, 60).astype(int)]
    events = [(a, sign, t) for a in (0, 1) for sign in (1, -1) for t in marks]

    def found(half, a, sign, t):
        more, fewer = (int((sign * x >= sign * t).sum()) for x in (half[a], half[1 - a]))
        return bound(more, fewer, len(half[0]), delta)

    return found(second, *max(events, key=lambda event: found(first, *event)))


def bound(more, fewer, n, delta):
    """Clopper and Pearson's: ln of a lower bound of one probability, less δ, over an upper bound of the other."""
    slack = (1 - CONFIDENCE) / 2  # two probabilities
    low = stats.beta.ppf(slack, more, n - more + 1) if more else 0.0
    high = stats.beta.ppf(1 - slack, fewer + 1, n - fewer) if fewer < n else 1.0
    return math.log((low - delta) / high) if low > delta else 0.0


@dataclasses.dataclass(frozen=True)
class Broken:
    """A mechanism that claims a cost and spends a multiple of it."""

    honest: object
    factor: float = 10.0

    def release(self, door, workload, cost):
        more = dataclasses.replace(cost, epsilon=cost.epsilon * self.factor)
        richer = dataclasses.replace(door, filter=Filter(more), spends=[])
        return self.honest.release(richer, workload, more)


AUDITED = [
    (Laplace(), PURE),
    (Gaussian(), ApproxDP(1.0, 0.01)),
    (MWEM(rounds=2, sweeps=1), PURE),
    (MWEM(rounds=1, singles=0, selection=0.01, sweeps=1), PURE),
]


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), AUDITED, ids=str)
def test_neighbours_are_not_told_apart_beyond_epsilon(mechanism, cost, relation):
    assert epsilon_found(mechanism, cost, relation) <= cost.epsilon


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), AUDITED, ids=str)
def test_the_audit_convicts_a_mechanism_that_spends_more_than_it_says(mechanism, cost, relation):
    assert epsilon_found(Broken(mechanism), cost, relation) > cost.epsilon
