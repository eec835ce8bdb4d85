"""Private distinguishers: how far one record moves their scores, and which queries they choose how often."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import reference
from scipy import stats
from worlds import (
    BOTH,
    PEOPLE,
    coded,
    full_matrix,
    matrix,
    mixed,
    moved,
    neighbouring,
    private,
    random_table,
    repeated,
    table_of,
    true_answers,
)

from qrelease.errors import BudgetExceeded, InvalidInput, TooLarge
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import noise_for
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader, Select
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_gaussian, discrete_laplace
from qrelease.privacy import ZCDP, Neighbours, PureDP
from qrelease.queries.families import Cells
from qrelease.queries.oracles import ConjunctionOracle, PredicateOracle
from qrelease.queries.workload import Group, Workload


@dataclass
class Says:
    """A synopsis that answers whatever it was told to."""

    values: np.ndarray

    def answer(self, workload):
        assert len(workload) == len(self.values)
        return self.values


@dataclass
class Watched:
    """A door that keeps the scores it is given and chooses as it was told to."""

    table: object
    neighbours: Neighbours
    choice: int = 0
    asked: list = field(default_factory=list)

    def exact(self, workload):
        return private(self.table).exact(workload)

    def select(self, scores, sensitivity, cost, rule):
        self.asked.append((np.array(scores), sensitivity, cost, rule))
        return self.choice


DRAW = PureDP(0.5)


def scores_of(table, workload, values, choice, relation, measurement=DRAW):
    door = Watched(table, relation)
    Select(choice).distinguish(door, Says(values), workload, PureDP(1.0), measurement)
    ((scores, sensitivity, _, _),) = door.asked
    assert scores.dtype == np.int64
    return [int(s) for s in scores], sensitivity


def widest_move(workload, table, values, choice, relation):
    """The most that any score moves between a table and its neighbours, and the sensitivity it was sold with."""
    scores, sensitivity = scores_of(table, workload, values, choice, relation)
    widest = 0
    for other in neighbouring(table, relation):
        moved_scores, again = scores_of(other, workload, values, choice, relation)
        assert again == sensitivity
        widest = max(widest, *(abs(a - b) for a, b in zip(scores, moved_scores, strict=True)))
    return widest, sensitivity


HYPOTHESES = {
    "nothing": lambda asked, truth: np.zeros(len(asked)),
    "truth": lambda asked, truth: truth,
    "half off": lambda asked, truth: truth + 0.5,
    "scattered": lambda asked, truth: truth + np.random.default_rng(3).normal(0, 4, len(asked)),
    "alternating": lambda asked, truth: np.arange(len(asked)) % 2 * 1000.0,
    "huge": lambda asked, truth: np.full(len(asked), 1e9),
    "negative": lambda asked, truth: np.full(len(asked), -7.3),
}


# --- sensitivity -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("choice", ["group", "query"])
@pytest.mark.parametrize("hypothesis", HYPOTHESES)
def test_one_record_moves_no_score_further_than_its_sensitivity(hypothesis, choice, relation):
    """Marginals, ranges, prefixes, a predicate and real-valued vectors in one workload; all neighbours."""
    asked, table = mixed(), random_table(PEOPLE, 12, 7)
    values = HYPOTHESES[hypothesis](asked, true_answers(asked, table))
    widest, sensitivity = widest_move(asked, table, values, choice, relation)
    assert 0 < widest <= sensitivity


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("choice", ["group", "query"])
@pytest.mark.parametrize(
    "asked",
    [
        Workload.marginals(PEOPLE, 2),
        Workload.ranges(PEOPLE, "grade") + Workload.prefixes(PEOPLE, "age"),
        Workload.vectors(PEOPLE, np.random.default_rng(0).random((6, 8)), ["sex", "age"]),
        Workload.vectors(PEOPLE, [[1, 0, 0.5], [0, 1, 0.25]], ["grade"]) + Workload.marginals(PEOPLE, 1),
        Workload.predicates(PEOPLE, "sex = F", "age in 0..19", "grade in {}"),
    ],
    ids=["marginals", "intervals", "vectors", "vectors and marginals", "predicates"],
)
def test_sensitivity_holds_and_is_no_larger_than_it_need_be(asked, choice, relation):
    table = random_table(PEOPLE, 8, 8)
    truth = true_answers(asked, table)
    moves = []
    for hypothesis in HYPOTHESES.values():
        widest, sensitivity = widest_move(asked, table, hypothesis(asked, truth), choice, relation)
        assert widest <= sensitivity
        moves.append(widest / sensitivity)
    assert max(moves) > 0.7


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("seed", range(4))
def test_sensitivity_on_random_domains(relation, seed):
    rng = np.random.default_rng(seed)
    domain = coded(*rng.integers(1, 4, 3))
    columns = domain.names[0]
    asked = (
        Workload.marginals(domain, 2)
        + Workload.ranges(domain, columns)
        + Workload.vectors(domain, rng.random((2, domain.size)))
    )
    table = random_table(domain, 5, seed)
    for choice in ("group", "query"):
        for scale in (0.3, 5.0):
            values = true_answers(asked, table) + rng.normal(0, scale, len(asked))
            widest, sensitivity = widest_move(asked, table, values, choice, relation)
            assert widest <= sensitivity


@pytest.mark.parametrize("relation", BOTH)
def test_many_real_queries_on_many_records_do_not_overflow(relation):
    """65 536 queries in units of 2^-28, each off by half of a million records: their sum is 2^63."""
    domain = coded(2)
    asked = repeated(domain, np.tile([1.0, 0.5], (1 << 16, 1)))
    table = table_of(domain, np.zeros((1 << 20, 1)))
    changed = np.zeros(((1 << 20) - (relation is Neighbours.ADD_REMOVE), 1))
    changed[0] = relation is Neighbours.REPLACE_ONE
    values = np.full(1 << 16, 2.0**19)
    (score,), sensitivity = scores_of(table, asked, values, "group", relation)
    (other,), _ = scores_of(table_of(domain, changed), asked, values, "group", relation)
    assert score > 0
    assert abs(score - other) <= sensitivity


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("choice", ["group", "query"])
@pytest.mark.parametrize("answer", [2.0**35, 1e12, 1e30])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_hypothesis_beyond_all_records_does_not_break_the_sensitivity(answer, choice, relation):
    """The noisy number of records, and with it any answer, is as large as the noise: about 100/ε under a tiny ε."""
    asked = Workload.vectors(PEOPLE, [[0.5, 1.0], [1.0, 0.25]], ["sex"])
    table = table_of(PEOPLE, [[1, 0, 0]])
    widest, sensitivity = widest_move(asked, table, np.full(2, answer), choice, relation)
    assert widest <= sensitivity


@pytest.mark.parametrize("measurement", [PureDP(1e-8), ZCDP(1e-10)])
def test_expected_noise_may_be_large(measurement):
    asked, table = mixed(), random_table(PEOPLE, 12, 7)
    scores, _ = scores_of(table, asked, np.zeros(len(asked)), "group", BOTH[0], measurement)
    assert max(scores) < 0


# --- the choice --------------------------------------------------------------------------------------------------

ASKED = Workload.marginals(PEOPLE, [["sex"], ["age", "grade"]]) + Workload.ranges(PEOPLE, "grade")
TABLE = random_table(PEOPLE, 40, 9)
STATE = Histogram(PEOPLE, ASKED.sets, 40.0)
MEASUREMENT = PureDP(2.0)
PICKS = 5000


def float_scores(choice, relation):
    """The scores of the docstring, in plain floats: largest is worst answered."""
    gaps = np.abs(true_answers(ASKED, TABLE) - STATE.answer(ASKED))
    if choice == "query":
        return gaps
    scores = []
    for group, part in zip(ASKED.groups, np.split(gaps, ASKED.bounds[1:-1]), strict=True):
        most = moved(matrix(group.queries), 1, relation)
        noise, _ = noise_for(Workload(PEOPLE, (group,)), MEASUREMENT, relation)
        scores.append((part.sum() - len(part) * noise.magnitude) / most)
    return np.array(scores)


def law_of(rule, scores, gamma):
    if rule == "exponential":
        weights = np.exp(gamma * (scores - scores.max()))
        return weights / weights.sum()
    return permute_and_flip_law(scores, gamma)


def permute_and_flip_law(scores, gamma):
    """P(r) = heads_r ∫ Π_{i≠r} (1 - t heads_i) dt over [0, 1]: r is uniform among those whose coin falls heads."""
    heads = np.exp(gamma * (scores - scores.max()))
    points, weights = np.polynomial.legendre.leggauss(40)
    t = (points + 1) / 2
    misses = 1 - t[:, None] * heads
    return np.array([h * (weights / 2) @ np.delete(misses, r, axis=1).prod(axis=1) for r, h in enumerate(heads)])


def test_the_law_of_permute_and_flip_is_that_of_the_reference():
    scores = [3, 1, 4, 1, 5]
    np.testing.assert_allclose(
        permute_and_flip_law(np.array(scores, float), 0.4), reference.permute_and_flip_law(scores, 0.4), rtol=1e-12
    )


def choices(select, cost, relation, seed):
    """How often each group, or each query of the workload, was chosen."""
    door = private(TABLE, type(cost)(1e9), relation, Entropy.insecure(seed))
    rows = full_matrix(ASKED)
    counts = np.zeros(len(ASKED.groups) if select.choice == "group" else len(ASKED), int)
    numbers = {}
    for _ in range(PICKS):
        found = select.distinguish(door, STATE, ASKED, cost, MEASUREMENT)
        (group,) = found.groups
        if group not in numbers and select.choice == "group":
            numbers[group] = ASKED.groups.index(group)
        elif group not in numbers:
            same = (rows == full_matrix(found)).all(axis=1)
            numbers[group] = int(np.flatnonzero(same)[0])
        counts[numbers[group]] += 1
    return counts


@pytest.mark.parametrize(("cost", "relation"), [(PureDP(0.5), BOTH[0]), (ZCDP(0.06), BOTH[1])])
@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("choice", ["group", "query"])
def test_choices_have_the_law_of_the_mechanism(choice, rule, cost, relation):
    rate = cost.epsilon if isinstance(cost, PureDP) else math.sqrt((8 if rule == "exponential" else 2) * cost.rho)
    found = choices(Select(choice, rule), cost, relation, 31)
    scores = float_scores(choice, relation)
    expected, strong, weak = (law_of(rule, scores, f * rate / 2) for f in (1, 1.3, 1 / 1.3))
    if choice == "query":  # one range and one marginal may be the same query: take equal rows together
        _, first = np.unique(full_matrix(ASKED), axis=0, return_inverse=True)
        found, expected, strong, weak = (np.bincount(first, v) for v in (found, expected, strong, weak))
    assert stats.chisquare(found, expected * PICKS).pvalue > 1e-3
    assert stats.chisquare(found, strong * PICKS).pvalue < 1e-4
    assert stats.chisquare(found, weak * PICKS).pvalue < 1e-4


# --- what comes out ----------------------------------------------------------------------------------------------


def test_the_chosen_group_is_one_of_the_workload():
    asked = mixed()
    for i, group in enumerate(asked.groups):
        door = Watched(TABLE, BOTH[0], choice=i)
        found = Select("group").distinguish(door, Says(np.zeros(len(asked))), asked, PureDP(1.0), PureDP(1.0))
        assert found == Workload(PEOPLE, (group,))


def test_the_chosen_query_is_one_of_the_workload():
    asked = mixed()
    rows = full_matrix(asked)
    for i, row in enumerate(rows):
        door = Watched(TABLE, BOTH[0], choice=i)
        found = Select("query").distinguish(door, Says(np.zeros(len(asked))), asked, PureDP(1.0), PureDP(1.0))
        np.testing.assert_array_equal(full_matrix(found), row[None, :])


@pytest.mark.parametrize("choice", ["group", "query"])
def test_one_selection_is_all_that_is_spent(choice):
    door = private(TABLE, PureDP(1.0))
    Select(choice).distinguish(door, STATE, ASKED, PureDP(0.75), PureDP(9.0))
    assert [s.cost for s in door.spends] == [PureDP(0.75)]
    with pytest.raises(BudgetExceeded):
        Select(choice).distinguish(door, STATE, ASKED, PureDP(0.75), PureDP(9.0))


def test_the_worst_answered_is_chosen_when_the_budget_is_large():
    door = private(TABLE, PureDP(1e9))
    (group,) = Select("query").distinguish(door, STATE, ASKED, PureDP(1e6), MEASUREMENT).groups
    worst = int(np.argmax(float_scores("query", BOTH[0])))
    np.testing.assert_array_equal(full_matrix(Workload(PEOPLE, (group,))), full_matrix(ASKED)[worst][None, :])


@pytest.mark.parametrize("wrong", [{"choice": "marginal"}, {"choice": None}, {"rule": "gumbel"}, {"rule": None}])
def test_bad_parameters(wrong):
    with pytest.raises(InvalidInput, match=f"{next(iter(wrong))} must be"):
        Select(**wrong)


# --- the perturbed leader ----------------------------------------------------------------------------------------


@dataclass
class Seen:
    """An oracle that keeps the weights it is given and answers with a fixed query."""

    query: object
    weights: list = field(default_factory=list)

    def best(self, marginal, weights):
        self.weights.append((marginal, np.array(weights)))
        return np.asarray(self.query(marginal) if callable(self.query) else self.query)

    def log_count(self, marginal):
        return 0.0


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", [PureDP(1.0), ZCDP(0.5)])
def test_the_oracle_sees_measured_marginals_less_the_hypothesis_and_nothing_else(cost, relation):
    """So all that it does is post-processing of one measurement, whatever it does."""
    oracle = Seen(lambda marginal: np.eye(marginal.size)[0])
    door = private(TABLE, type(cost)(1e9), relation, Entropy.insecure(1))
    PerturbedLeader(oracle).distinguish(door, STATE, ASKED, cost, PureDP(9.0))
    assert [s.cost for s in door.spends] == [cost]
    again = private(TABLE, type(cost)(1e9), relation, Entropy.insecure(1))
    cells = Workload.marginals(PEOPLE, [["sex"], ["age", "grade"], ["grade"]])
    measured = again.measure(cells, cost)
    expected = [m.values - y for m, y in zip(measured, np.split(STATE.answer(cells), cells.bounds[1:-1]), strict=True)]
    for (marginal, plus), (_, minus), gaps in zip(oracle.weights[::2], oracle.weights[1::2], expected, strict=True):
        assert marginal.size == len(gaps)
        np.testing.assert_array_equal(plus, gaps)
        np.testing.assert_array_equal(minus, -gaps)


@pytest.mark.parametrize("oracle", [ConjunctionOracle(), PredicateOracle()], ids=str)
@pytest.mark.parametrize("low", [True, False])
def test_with_a_large_budget_the_leader_is_the_worst_query_of_the_class(oracle, low):
    door = private(TABLE, PureDP(1e9))
    total = 90.0 if low else 4.0  # the hypothesis has too many records, or too few
    state = Histogram(PEOPLE, ASKED.sets, total)
    found = PerturbedLeader(oracle).distinguish(door, state, ASKED, PureDP(1e6), MEASUREMENT)
    gap = abs(float((true_answers(found, TABLE) - state.answer(found))[0]))
    best = 0.0
    for axes in ASKED.sets:
        cells = Workload(PEOPLE, (Group(axes, Cells(PEOPLE.cells(axes))),))
        gaps = true_answers(cells, TABLE) - state.answer(cells)
        for weights in (gaps, -gaps):
            best = max(best, float(oracle.best(PEOPLE.project(axes), weights) @ weights))
    assert gap == pytest.approx(best)


@pytest.mark.parametrize(
    "query", [np.ones(3), np.full(2, np.nan), np.array([0.5, 1.5]), np.array([-0.1, 0.5]), np.array(["a", "b"]), 0.5]
)
def test_an_oracle_that_gives_no_query_is_refused(query):
    asked = Workload.marginals(PEOPLE, [["sex"]])
    with pytest.raises(InvalidInput, match="query vectors must"):
        PerturbedLeader(Seen(query)).distinguish(private(TABLE), STATE, asked, PureDP(1.0), MEASUREMENT)


# --- what they promise -------------------------------------------------------------------------------------------

DRAWS = 500


@pytest.mark.parametrize("cost", [PureDP(0.2), ZCDP(0.02)])
@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
def test_the_query_found_falls_short_of_the_worst_by_no_more_than_promised(rule, cost):
    """Where that is hardest: one query is off by just more than that, and all others are not."""
    domain = coded(64)
    asked = Workload.marginals(domain, 1)
    select, beta = Select("query", rule), 0.2
    promised = select.shortfall(asked, cost, BOTH[0], beta)
    epsilon = cost.epsilon if isinstance(cost, PureDP) else math.sqrt((8 if rule == "exponential" else 2) * cost.rho)
    assert promised == pytest.approx(2 * math.log(64 / beta) / epsilon, rel=1e-3)
    misses = []
    for factor in (1.0, 0.4):
        off = math.ceil(factor * promised) + 1
        table = table_of(domain, np.zeros((off, 1)))
        door = private(table, type(cost)(1e9), BOTH[0], Entropy.insecure(5))
        values = np.zeros(64)
        found = [select.distinguish(door, Says(values), asked, cost, PureDP(1.0)) for _ in range(DRAWS)]
        misses.append(np.mean([not f.groups[0].queries.rows[0, 0] for f in found]))
    assert misses[0] <= beta
    assert misses[1] > 1.5 * beta  # it could fail


def test_a_whole_group_is_promised_nothing():
    assert Select("group").shortfall(ASKED, PureDP(1.0), BOTH[0], 0.1) == math.inf


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", [PureDP(0.5), ZCDP(0.05)])
@pytest.mark.parametrize("oracle", [ConjunctionOracle(), PredicateOracle()], ids=str)
def test_the_leader_falls_short_by_no_more_than_promised(oracle, cost, relation):
    """2 max |q(noise)|, over many draws of the noise; and it is no more than ten times what it need be."""
    asked = Workload.marginals(coded(4, 5), [["a", "b"], ["a"]])
    leader, beta = PerturbedLeader(oracle), 0.1
    promised = leader.shortfall(asked, cost, relation, beta)
    noise, parameter = noise_for(asked, cost, relation)
    sampler = discrete_laplace if isinstance(cost, PureDP) else discrete_gaussian
    drawn = sampler(parameter, 400 * len(asked), Entropy.insecure(6)).reshape(400, -1) * noise.unit
    reached = []
    for row in drawn:
        largest = 0.0
        for axes, part in zip(asked.sets, np.split(row.astype(float), asked.bounds[1:-1]), strict=True):
            for weights in (part, -part):
                largest = max(largest, float(oracle.best(asked.domain.project(axes), weights) @ weights))
        reached.append(2 * largest)
    assert np.mean(np.array(reached) > promised) <= beta
    assert promised < 10 * np.quantile(reached, 1 - beta)


@pytest.mark.parametrize("leader", [PerturbedLeader(ConjunctionOracle()), Select("query")])
def test_a_promise_is_worse_for_a_smaller_cost_or_beta(leader):
    def promised(epsilon, beta):
        return leader.shortfall(ASKED, PureDP(epsilon), BOTH[0], beta)

    assert promised(0.5, 0.1) > promised(1.0, 0.1) > promised(1.0, 0.2) > 0
    assert promised(0.5, 0.1) == pytest.approx(2 * promised(1.0, 0.1), rel=1e-3)


def test_a_leader_that_cannot_work_says_so_beforehand():
    with pytest.raises(InvalidInput, match=r"noise beyond 2\^40"):
        PerturbedLeader(ConjunctionOracle()).shortfall(ASKED, PureDP(1e-20), BOTH[0], 0.1)
    wide = Workload.marginals(coded(100, 100, 100), [["a", "b", "c"]])
    with pytest.raises(TooLarge, match="fewer columns"):
        PerturbedLeader(ConjunctionOracle()).shortfall(wide, PureDP(1.0), BOTH[0], 0.1)
