"""One suite that every mechanism has to pass; a new mechanism adds a line to MECHANISMS."""

import dataclasses
import json
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from worlds import (
    BOTH,
    PEOPLE,
    PROPERTY,
    SpyEntropy,
    coded,
    full_matrix,
    mixed,
    private,
    random_table,
    table_of,
    true_answers,
)

from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.inference.noisy_answers import Answers
from qrelease.mechanisms.additive_noise import project
from qrelease.mechanisms.base import MechanismResult, parameters, plain
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import Round, iterate
from qrelease.mechanisms.iterative.mwem import MWEM, rounds_for
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import Records
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator

PURE, APPROX, CONCENTRATED = PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1)

MECHANISMS = [
    (Laplace(), [PURE, APPROX, ApproxDP(1.0, 0.0)]),
    (Gaussian(), [APPROX, CONCENTRATED]),
    (MaxEnt(), [PURE, APPROX, ApproxDP(1.0, 0.0), CONCENTRATED]),
    (Records(records=500), [APPROX, CONCENTRATED]),
    (Records(records=500, at_once=False), [APPROX, CONCENTRATED]),
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


def run(mechanism, table, workload, cost, relation=Neighbours.ADD_REMOVE, seed=0):
    door = private(table, cost, relation, Entropy.insecure(seed))
    mechanism.check(workload, cost, relation)
    return mechanism.release(door, workload, cost), door


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
    assert kinds in ({PureDP}, {ZCDP}) or (ApproxDP in kinds and isinstance(mechanism, Gaussian | MaxEnt | Records))
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
    elif isinstance(mechanism, Records):
        selected = result.choices["selected"]
        counts = relation is Neighbours.ADD_REMOVE
        assert sum(s.what.startswith("select") for s in door.spends) == len(selected)
        signs = not result.choices["pairs"]  # after the columns, how often the signs of two agree
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
    if isinstance(mechanism, Records) and domain.size == 1:
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
    assert mechanism.name == type(mechanism).__name__.lower()
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.extra = 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("rounds", v) for v in (0, -1, True, np.True_, 2.5, math.nan, math.inf, "3", [3])],
        *[("sweeps", v) for v in (0, -1, True, np.True_, 2.5, math.nan, math.inf, "3", None)],
        *[("selection", v) for v in (0, 1, -0.1, math.nan, True, "0.5", None)],
        *[("singles", v) for v in (-0.1, 0.99, 1, math.nan, True, "0.5", None)],
        *[("choice", v) for v in ("marginal", None, 1)],
        *[("rule", v) for v in ("gumbel", 1)],
    ],
)
def test_bad_parameters_of_mwem(name, value):
    with pytest.raises(InvalidInput, match=name):
        MWEM(**{name: value})


def test_numpy_parameters_of_mwem():
    found = MWEM(rounds=np.int64(3), selection=np.float64(0.5), singles=np.float64(0.25), sweeps=np.int32(2))
    assert found == MWEM(rounds=3, selection=0.5, singles=0.25, sweeps=2)
    json.dumps(parameters(found))


def test_a_universe_too_large_is_refused_by_mwem_and_not_by_the_baselines():
    domain = coded(*[2] * 55)
    asked = Workload.marginals(domain, 1)
    with pytest.raises(TooLarge, match=r"2\^55"):
        MWEM().check(asked, PURE, BOTH[0])
    result, _ = run(Laplace(), random_table(domain, 50, 0), asked, PURE)
    assert result.synopsis.answer(asked).shape == (110,)


def test_too_many_separate_answers_are_refused():
    asked = Workload.ranges(coded(12_000), "a")
    with pytest.raises(TooLarge, match="separate answers are too many"):
        Laplace().check(asked, PURE, BOTH[0])


def test_answers_that_do_not_fit_are_refused_by_mwem(monkeypatch):
    """Of 12 000 cells there are 72 million ranges: half a gibibyte for each copy of their answers."""
    monkeypatch.setattr("qrelease._util.memory.room", lambda: 1 << 30)
    with pytest.raises(TooLarge):
        MWEM().check(Workload.ranges(coded(12_000), "a"), PURE, BOTH[0])


def test_rounds_beyond_counting_are_refused():
    with pytest.raises(QReleaseError):
        MWEM(rounds=10**30).check(mixed(), PURE, BOTH[0])


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
        return self.honest.release(private(door._table, more, door.neighbours, door.entropy), workload, more)


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


# --- the loop ----------------------------------------------------------------------------------------------------


class Always:
    """A distinguisher that chooses the same group, for nothing."""

    def __init__(self, number):
        self.number = number

    def distinguish(self, private, state, workload, cost, measurement):
        return Workload(workload.domain, (workload.groups[self.number],))


def test_a_group_that_is_measured_again_is_averaged():
    asked = Workload.marginals(PEOPLE, 1)
    door = private(TABLE, PureDP(10.0))
    rule = MultiplicativeWeights()
    state = rule.start(PEOPLE, asked.sets, 200.0)
    kept = []
    rounds = Round.equal(PureDP(10.0), 5, 0.2)
    state = iterate(door, asked, state, rule, Always(1), rounds, kept)
    (m,) = kept
    assert (m.repeats, m.group) == (5, asked.groups[1])
    assert [s.cost for s in door.spends] == [r.measurement for r in rounds]
    again = [private(TABLE, PureDP(10.0)).measure(asked, rounds[0].measurement)[1] for _ in range(1)]
    assert m.noise.scale == pytest.approx(again[0].noise.scale / 3)  # one group, not three
    assert isinstance(state, Histogram)


def test_a_measurement_under_other_noise_is_kept_apart():
    asked = Workload.marginals(PEOPLE, 1)
    rule = MultiplicativeWeights()
    earlier = Measurement(asked.groups[1], np.full(4, 50.0), Noise("discrete Laplace", 77.0))
    kept = [earlier]
    iterate(private(TABLE), asked, rule.start(PEOPLE, asked.sets, 200.0), rule, Always(1),
            Round.equal(PureDP(1.0), 2, 0.5), kept)  # fmt: skip
    assert kept[0] is earlier
    assert [m.repeats for m in kept] == [1, 2]


@given(st.floats(1e-6, 1e6), st.integers(1, 300), st.floats(0.001, 0.999), st.sampled_from([PureDP, ZCDP]))
@PROPERTY
def test_rounds_share_a_cost_exactly(amount, number, selection, kind):
    cost = kind(amount)
    rounds = Round.equal(cost, number, selection)
    assert len(rounds) == number
    parts = [Fraction(*next(iter(c.to_json().values())).as_integer_ratio()) for r in rounds
             for c in (r.selection, r.measurement)]  # fmt: skip
    assert Fraction(amount) * (1 - Fraction(1, 10**12)) <= sum(parts) <= Fraction(amount)
    assert rounds[0] == rounds[-1]
    assert float(parts[0] / (parts[0] + parts[1])) == pytest.approx(selection)


@pytest.mark.parametrize("choice", ["group", "query"])
@pytest.mark.parametrize("cost", [PURE, CONCENTRATED])
def test_the_number_of_rounds_grows_with_records_and_budget(cost, choice):
    asked = Workload.marginals(PEOPLE, 2)
    more = type(cost)(10 * next(iter(cost.to_json().values())))
    few, many, richer = (rounds_for(asked, c, BOTH[0], n, choice) for c, n in ((cost, 1e3), (cost, 1e5), (more, 1e3)))
    assert 1 <= few < many
    assert few < richer
    assert rounds_for(asked, type(cost)(1e-9), BOTH[0], 1.0, choice) == 1
    assert isinstance(few, int)


@pytest.mark.parametrize("cost", [PURE, APPROX])
def test_mwem_learns_what_the_columns_alone_do_not_tell(cost):
    domain = coded(4, 4, 4)
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 20_000)
    table = table_of(domain, np.stack([first, (first + rng.integers(0, 2, 20_000)) % 4, first], axis=1))
    asked = Workload.marginals(domain, 2)
    truth = full_matrix(asked) @ table.histogram()
    result, _ = run(MWEM(), table, asked, cost)
    alone = Histogram(domain, [(0,), (1,), (2,)], 20_000.0).answer(asked)
    assert np.abs(result.synopsis.answer(asked) - truth).sum() < 0.15 * np.abs(alone - truth).sum()


# --- separate answers --------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    st.floats(1e-3, 1e6),
    st.integers(0, 2**32 - 1),
)
@PROPERTY
def test_project_gives_the_nearest_table(values, total, seed):
    values = np.array(values)
    found = project(values, total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, rel=1e-6, abs=1e-6)
    for other in np.random.default_rng(seed).dirichlet(np.full(len(values), 0.3), 20) * total:
        assert np.linalg.norm(values - found) <= np.linalg.norm(values - other) * (1 + 1e-9) + 1e-6


@pytest.mark.parametrize("values", [[1e17, 0.0], [1e17, 1e17], [-1e17, -1e17], [3e15, 1.0, -3e15]])
def test_project_survives_noise_beyond_all_records(values):
    found = project(np.array(values), 1.0)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1.0)


def test_answers_are_read_from_the_narrowest_marginal_that_holds_them():
    asked = Workload.marginals(PEOPLE, [["sex", "age"], ["age"], ["sex", "grade"]])
    values = np.concatenate([np.arange(8.0), np.full(4, 100.0), np.arange(6.0)])
    held = Answers(asked, values, 28.0, ())
    assert held.answer(Workload.marginals(PEOPLE, [["age"]])).tolist() == [100.0] * 4
    assert held.answer(Workload.predicates(PEOPLE, "age in 0..39")).tolist() == [200.0]
    assert held.answer(Workload.marginals(PEOPLE, [["grade"]])).tolist() == [3.0, 5.0, 7.0]
    assert held.answer(Workload.predicates(PEOPLE, "sex = M and age is missing")).tolist() == [7.0]
    for wrong in (
        Workload.marginals(PEOPLE, [["age", "grade"]]),
        Workload.predicates(PEOPLE, "age in 0..19 or grade = 1"),
    ):
        with pytest.raises(InvalidInput, match="no released marginal contains the columns age, grade"):
            held.answer(wrong)


def test_answers_of_another_domain_are_refused():
    """Codes of equal sizes but other meanings: the number would be right, and the answer wrong."""
    held = Answers(Workload.marginals(coded(2, 3), 1), np.arange(5.0), 10.0, ())
    with pytest.raises(InvalidInput, match="another domain"):
        held.answer(Workload.marginals(PEOPLE, [["sex"]]))


def test_a_group_need_not_be_in_the_order_of_the_workload():
    asked = Workload.marginals(PEOPLE, 1)
    held = Answers(asked, np.arange(9.0), 10.0, ())
    turned = Workload(PEOPLE, tuple(Group(g.axes, g.queries) for g in reversed(asked.groups)))
    assert held.answer(turned).tolist() == [6, 7, 8, 2, 3, 4, 5, 0, 1]


@pytest.mark.parametrize(("cost", "kind"), [(ApproxDP(1.0, 1e-9), PureDP), (ApproxDP(1.0, 0.0), PureDP)])
def test_few_groups_are_bought_in_pure_epsilon(cost, kind):
    _, door = run(MWEM(rounds=3), TABLE, Workload.marginals(PEOPLE, 2), cost, BOTH[0])
    assert {type(s.cost) for s in door.spends} == {kind}


def test_many_groups_are_bought_in_zcdp():
    domain = coded(*[2] * 7)
    _, door = run(
        MWEM(rounds=3), random_table(domain, 40, 0), Workload.marginals(domain, 3), ApproxDP(1.0, 1e-9), BOTH[0]
    )
    assert {type(s.cost) for s in door.spends} == {ZCDP}


def test_a_small_workload_is_measured_at_once_and_comes_close_to_the_baseline():
    """Where nothing need be selected, the fit to everything loses little to plain noise, and gives a table too."""
    domain = coded(4, 3, 5)
    table = random_table(domain, 5_000, 1)
    asked = Workload.marginals(domain, 2)
    truth = true_answers(asked, table)

    def error(mechanism):
        drafts = [run(mechanism, table, asked, PureDP(1.0), BOTH[0], seed=s)[0] for s in range(10)]
        return np.mean([np.abs(d.synopsis.answer(asked) - truth).sum() for d in drafts])

    assert error(MWEM()) < 1.3 * error(Laplace())


@dataclass(frozen=True)
class RenamedRule:
    stored_name = "Rule of old"
    alpha: float


class RenamedOracle:
    stored_name = "Oracle of old"


def test_a_class_that_is_renamed_keeps_its_name_in_manifests():
    assert plain(RenamedRule(0.5)) == {"type": "Rule of old", "alpha": 0.5}
    assert plain(RenamedOracle()) == plain(RenamedOracle) == "Oracle of old"
    assert plain(MWEM) == "qrelease.mechanisms.iterative.mwem.MWEM"
