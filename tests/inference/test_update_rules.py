"""Update rules: what every update keeps, and what it learns."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules import ADVERSARIES, BOUNDED, NET, ProjectedPerceptron, barely, cells_of, distribution, largest, updates_made
from worlds import PEOPLE, PROPERTY, coded, full_matrix, mixed, random_table, true_answers

from qrelease.errors import InvalidInput
from qrelease.inference.hypotheses import Dual
from qrelease.inference.measurement import Measurement
from qrelease.inference.median_rule import MedianRule
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.inference.nets import Listed
from qrelease.inference.update_rules import Hedge, Perceptron, Projection, furthest_off
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.noise.distributions import Noise
from qrelease.queries.workload import Workload


def measured(workload, answers, noise):
    """One measurement a group with the given answers (k,)."""
    parts = np.split(np.asarray(answers, float), workload.bounds[1:-1])
    return [Measurement(g, v, noise) for g, v in zip(workload.groups, parts, strict=True)]


def noisy(workload, table, scale, seed):
    """Measurements of a table with Gaussian noise; its law's fine print does not matter here."""
    truth = true_answers(workload, table)
    return measured(
        workload,
        truth + np.random.default_rng(seed).normal(0, scale, len(truth)),
        Noise("discrete Gaussian", scale),
    )


def squared_error(state, workload, measurements):
    """In units of the noise's variance: what an update must never raise."""
    gaps = np.split(full_matrix(workload) @ state.values, workload.bounds[1:-1])
    return sum(float(((m.values - a) ** 2).sum()) / m.variance for m, a in zip(measurements, gaps, strict=True))


def divergence(truth, state):
    """KL(truth ‖ state) of the two as distributions."""
    p, q = truth / truth.sum(), state.values / state.total
    where = p > 0
    return float((p[where] * np.log(p[where] / q[where])).sum())


WORKLOADS = {
    "one": Workload.marginals(PEOPLE, [["sex", "age"]]),
    "pairs": Workload.marginals(PEOPLE, 2),
    "all": Workload.marginals(PEOPLE, 1) + Workload.marginals(PEOPLE, 2) + Workload.marginals(PEOPLE, 3),
    "mixed": mixed(),
}


# --- invariants --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.01, 1.0, 30.0, 1e4]),
    total=st.sampled_from([1.0, 60.0, 1e7]),
    sweeps=st.integers(1, 6),
    caution=st.sampled_from([0.0, 1.0, 16.0]),
)
@PROPERTY
def test_an_update_keeps_the_total_stays_positive_and_never_raises_the_error(name, seed, scale, total, sweeps, caution):
    asked = WORKLOADS[name]
    rule = MultiplicativeWeights(sweeps, caution)
    state = rule.start(PEOPLE, asked.sets, total)
    measurements = noisy(asked, random_table(PEOPLE, 60, seed), scale, seed)
    error = squared_error(state, asked, measurements)
    for _ in range(3):
        state = rule.update(state, measurements)
        values = state.values
        assert np.isfinite(values).all()
        assert values.min() >= 0
        assert state.total == total
        assert values.sum() == pytest.approx(total, rel=1e-9)
        after = squared_error(state, asked, measurements)
        assert after <= error * (1 + 1e-9)
        error = after


def test_an_update_only_moves_what_the_queries_see():
    """Independent of sex, and uniform within each cell of the measured marginal, it stays so."""
    asked = Workload.marginals(PEOPLE, [["age"]])
    rule = MultiplicativeWeights()
    state = rule.start(PEOPLE, [(1,)], 60.0)
    state = rule.update(state, noisy(asked, random_table(PEOPLE, 60, 0), 1.0, 0))
    y = state.values.reshape(PEOPLE.shape)
    np.testing.assert_allclose(y, np.broadcast_to(y.sum(axis=(0, 2))[None, :, None] / 6, y.shape), rtol=1e-12)


def test_what_already_agrees_stays():
    asked = mixed()
    rule = MultiplicativeWeights()
    state = rule.start(PEOPLE, asked.sets, 48.0)
    before = state.values
    state = rule.update(state, measured(asked, full_matrix(asked) @ before, Noise("discrete Gaussian", 1.0)))
    np.testing.assert_allclose(state.values, before, rtol=1e-9)


# --- learning ----------------------------------------------------------------------------------------------------

EXACT = Noise("discrete Gaussian", 1e-3)


@given(st.integers(0, 2**32 - 1), st.sampled_from([["sex"], ["age", "grade"], ["sex", "age", "grade"]]))
@PROPERTY
def test_one_exact_measurement_of_a_marginal_is_fitted(seed, columns):
    table = random_table(PEOPLE, 200, seed)
    asked = Workload.marginals(PEOPLE, [columns])
    truth = true_answers(asked, table)
    rule = MultiplicativeWeights()
    state = rule.start(PEOPLE, asked.sets, 200.0)
    for _ in range(25):
        state = rule.update(state, measured(asked, truth, EXACT))
    np.testing.assert_allclose(state.answer(asked), truth, atol=0.05)


@pytest.mark.parametrize(
    "asked",
    [
        Workload.ranges(PEOPLE, "grade"),
        Workload.prefixes(PEOPLE, "age"),
        Workload.predicates(PEOPLE, "sex = F and age in 0..39 or grade = 2"),
        Workload.vectors(PEOPLE, [[1, 0.5, 0.25], [0, 0.5, 0.75]], ["grade"]),
        Workload.marginals(PEOPLE, 2),
    ],
    ids=["ranges", "prefixes", "predicate", "vectors", "marginals"],
)
def test_exact_measurements_of_any_queries_are_fitted(asked):
    table = random_table(PEOPLE, 200, 1)
    truth = true_answers(asked, table)
    rule = MultiplicativeWeights()
    state = rule.start(PEOPLE, asked.sets, 200.0)
    for _ in range(200):
        state = rule.update(state, measured(asked, truth, EXACT))
    np.testing.assert_allclose(state.answer(asked), truth, atol=0.5)


@given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(["one", "marginal", "ranges", "vectors"]),
    caution=st.sampled_from([0.0, 0.1, 16.0, 1000.0]),
)
@PROPERTY
def test_each_sweep_by_one_group_brings_it_closer_to_a_truth_that_agrees(seed, name, caution):
    """The potential of the multiplicative weights argument: KL(x ‖ y) falls at every sweep by one group.

    With s the exponents of a sweep, q|s| <= |v - q| and |s| <= 1, it changes by at most
    Σ(q - v)s + Σ q s² <= 0, as e^s <= 1 + s + s².
    """
    asked = {
        "one": Workload.marginals(PEOPLE, [["sex"]]),
        "marginal": Workload.marginals(PEOPLE, [["age", "grade"]]),
        "ranges": Workload.ranges(PEOPLE, "grade"),
        "vectors": Workload.vectors(PEOPLE, np.random.default_rng(0).random((4, 24))),
    }[name]
    table = random_table(PEOPLE, 300, seed)
    truth = table.histogram().astype(float)
    rule = MultiplicativeWeights(sweeps=1, caution=caution)
    state = rule.start(PEOPLE, asked.sets, 300.0)
    measurements = measured(asked, full_matrix(asked) @ truth, Noise("discrete Gaussian", 1.0))
    before = divergence(truth, state)
    for _ in range(10):
        state = rule.update(state, measurements)
        after = divergence(truth, state)
        assert after <= before + 1e-12
        before = after


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["pairs", "all", "mixed"])
def test_many_groups_at_once_bring_it_closer_to_a_truth_that_agrees(name, seed):
    asked = WORKLOADS[name]
    truth = random_table(PEOPLE, 300, seed).histogram().astype(float)
    rule = MultiplicativeWeights()
    state = rule.start(PEOPLE, asked.sets, 300.0)
    measurements = measured(asked, full_matrix(asked) @ truth, Noise("discrete Gaussian", 1.0))
    first = before = divergence(truth, state)
    for _ in range(10):
        state = rule.update(state, measurements)
        after = divergence(truth, state)
        assert after <= before + 1e-9
        before = after
    assert after < 0.3 * first


def test_noise_is_not_fitted():
    """Of measurements that are mostly noise it takes little; of the same values without noise, all."""
    asked = Workload.marginals(coded(64), 1)
    values = 100 + np.random.default_rng(0).normal(0, 50, 64)
    moves = {}
    for scale in (50.0, 0.1):
        rule = MultiplicativeWeights()
        state = rule.start(asked.domain, asked.sets, 6400.0)
        state = rule.update(state, measured(asked, values, Noise("discrete Gaussian", scale)))
        moves[scale] = np.abs(state.values - 100).mean()
    assert moves[50.0] < 0.4 * moves[0.1]


def test_more_repeats_weigh_more():
    asked = Workload.marginals(coded(2), 1)
    (weak,) = measured(asked, [80.0, 20.0], Noise("discrete Gaussian", 10.0))
    strong = Measurement(weak.group, weak.values, weak.noise, repeats=100)
    found = []
    for m in (weak, strong):
        rule = MultiplicativeWeights()
        found.append(rule.update(rule.start(asked.domain, asked.sets, 100.0), [m]).values[0])
    assert 50 < found[0] < found[1] <= 80 + 1e-9


def test_updates_are_deterministic():
    asked = mixed()
    measurements = noisy(asked, random_table(PEOPLE, 60, 0), 2.0, 0)
    rule = MultiplicativeWeights()
    first, second = (rule.update(rule.start(PEOPLE, asked.sets, 60.0), measurements).values for _ in range(2))
    np.testing.assert_array_equal(first, second)


# --- parameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeps", [0, -1, True, np.True_, 2.5, math.nan, math.inf, "3", None])
def test_bad_sweeps(sweeps):
    with pytest.raises(InvalidInput, match="sweeps must be"):
        MultiplicativeWeights(sweeps=sweeps)


@pytest.mark.parametrize("caution", [-1.0, math.nan, math.inf, True, "3", None])
def test_bad_caution(caution):
    with pytest.raises(InvalidInput, match="caution must be"):
        MultiplicativeWeights(caution=caution)


def test_numpy_parameters():
    assert MultiplicativeWeights(np.int64(3), np.float64(2.0)) == MultiplicativeWeights(3, 2.0)


# --- how often a rule can be updated -----------------------------------------------------------------------------


def tables(domain):
    """Tables as distributions: all in one record, on half of the cells, skewed, and what every rule starts from."""
    cells = np.arange(domain.size)
    rng = np.random.default_rng(1)
    for weights in (cells == 2 % domain.size, cells % 2 == 0, rng.dirichlet(0.2 * np.ones(domain.size)), cells >= 0):
        yield WeightedRecords(domain, cells, weights / weights.sum(), 50.0)


DOMAINS = [coded(2), coded(3, 2), PEOPLE, coded(4, 4, 4)]


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda a: a.__name__)
@pytest.mark.parametrize("kind", [Hedge, Projection, Perceptron, ProjectedPerceptron], ids=lambda k: k.__name__)
def test_no_adversary_gets_more_updates_out_of_a_rule_than_its_bound(kind, adversary):
    tightness = []
    for domain in DOMAINS:
        for x in tables(domain):
            for alpha in (0.1, 0.3):
                made, bound = updates_made(kind(alpha), x, adversary, 3)
                assert made <= bound
                tightness.append(made / max(bound, 1))
    assert max(tightness) > 0.02  # the adversary is one: it gets some


@pytest.mark.parametrize("kind", [Hedge, Projection, Perceptron, ProjectedPerceptron], ids=lambda k: k.__name__)
def test_the_bounds_are_within_a_small_factor_of_what_an_adversary_gets(kind):
    made = [updates_made(kind(0.2), x, a, 3) for x in tables(coded(4, 4)) for a in ADVERSARIES]
    assert max(m / bound for m, bound in made) > 0.25


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1, 2, 3, 8, 31, 200])
def test_halving_ends_with_the_candidate_that_is_close(size, seed):
    rng = np.random.default_rng(seed)
    cells = np.arange(PEOPLE.size)
    others = [WeightedRecords(PEOPLE, cells, rng.dirichlet(np.full(24, 0.3)), 7.0) for _ in range(size - 1)]
    near = distribution(random_table(PEOPLE, 100, seed))
    net = Listed((*others[: size // 2], near, *others[size // 2 :]))
    found = [updates_made(MedianRule(net, 0.1), near, adversary, seed) for adversary in ADVERSARIES]
    assert {bound for _, bound in found} == {math.floor(math.log2(size))}
    assert all(made <= bound for made, bound in found)
    assert any(made >= 2 for made, _ in found) or size < 8


@pytest.mark.parametrize("kind", [Hedge, Projection, Perceptron])
def test_wrong_rules_are_driven_past_their_bound(kind):
    """The adversaries have power: against steps the wrong way, and against steps of a tenth."""

    class Wrong:
        alpha = 0.2

        def __init__(self, factor):
            self._right, self._factor = kind(self.alpha), factor

        def __getattr__(self, name):
            return getattr(self._right, name)

        def update(self, state, measurements):
            before = Dual.from_json(state.domain, state.to_json())
            query, _ = furthest_off(before, measurements[-1])
            after = self._right.update(before, measurements).to_json()["coefficients"]
            state.move(query, self._factor * (sum(after) - sum(state.to_json()["coefficients"])))
            return state

    x = next(tables(coded(4, 4)))
    for factor in (-1.0, 0.1):
        assert any(made > bound for made, bound in (updates_made(Wrong(factor), x, a, 3) for a in ADVERSARIES))


@given(seed=st.integers(0, 2**32 - 1), alpha=st.sampled_from([0.05, 0.2, 0.5]), index=st.integers(0, 1))
@PROPERTY
def test_an_update_lowers_the_divergence_by_as_much_as_the_proof_says(seed, alpha, index):
    """α²/4 for the text's step, 2α² for the projection, at every update about a gap of at least α."""
    rule, least = ((Hedge(alpha), alpha**2 / 4), (Projection(alpha), 2 * alpha**2))[index]
    rng = np.random.default_rng(seed)
    x = rng.dirichlet(np.full(24, 0.1))
    state = rule.start(PEOPLE, [], 10.0)
    for _ in range(8):
        query = barely(x, state, alpha, rng) if rng.random() < 0.5 else largest(x, state, alpha, rng)
        asked = Workload.vectors(PEOPLE, [query])
        truth, p = query @ x, query @ cells_of(state)
        if abs(truth - p) < alpha:
            break
        before = divergence(x, state)
        state = rule.update(state, measured(asked, [10 * truth], EXACT))
        assert divergence(x, state) <= before - least + 1e-9


@given(seed=st.integers(0, 2**32 - 1), alpha=st.sampled_from([0.05, 0.2, 0.5]))
@PROPERTY
def test_an_additive_update_lowers_the_distance_by_as_much_as_the_proof_says(seed, alpha):
    rng = np.random.default_rng(seed)
    x = rng.dirichlet(np.full(24, 0.1))
    rule = Perceptron(alpha)
    state = rule.start(PEOPLE, [], 10.0)
    for _ in range(8):
        query = np.clip(rng.normal(0.5, 1, 24), 0, 1)
        asked = Workload.vectors(PEOPLE, [query])
        (row,) = full_matrix(asked)
        truth, p = row @ x, row @ cells_of(state)
        if abs(truth - p) < alpha:
            continue
        before = ((x - cells_of(state)) ** 2).sum()
        state = rule.update(state, measured(asked, [10 * truth], EXACT))
        assert ((x - cells_of(state)) ** 2).sum() <= before - alpha**2 / ((row - row.mean()) ** 2).sum() + 1e-9


def test_the_bounds_in_numbers():
    domain = coded(10, 10)
    assert Hedge(0.1).update_bound(domain) == 1842  # 4 ln 100 / 0.01
    assert Projection(0.1).update_bound(domain) == 230
    assert Perceptron(0.5).update_bound(domain) == 99  # (1 - 1/100) 100/4 / 0.25
    cells = Workload.marginals(domain, 1)  # ‖q̄‖² = 10 (1 - 1/10)
    assert Perceptron(0.5).update_bound(domain, cells) == 35
    assert Perceptron(0.5).update_bound(domain, Workload.predicates(domain, "a in 0..9")) == 0
    assert MedianRule(NET, 0.1).update_bound(PEOPLE) == 4


@pytest.mark.parametrize("rule", [r for r in BOUNDED if not isinstance(r, MedianRule)], ids=lambda r: type(r).__name__)
def test_the_bound_of_a_workload_is_that_of_its_queries(rule):
    """Never above the one for any queries; of the perceptron, from the dense matrix."""
    for asked in (mixed(), Workload.marginals(PEOPLE, 3)):
        assert rule.update_bound(PEOPLE, asked) <= rule.update_bound(PEOPLE)
        if isinstance(rule, Perceptron):
            rows = full_matrix(asked)
            squares = ((rows - rows.mean(axis=1, keepdims=True)) ** 2).sum(axis=1).max()
            assert rule.update_bound(PEOPLE, asked) == math.floor((1 - 1 / 24) * squares / rule.alpha**2)


# --- one step ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["sex = F", "age in 0..39 and grade = 2", "sex = F or grade in 1..2"])
def test_the_step_of_the_text(text):
    asked = Workload.predicates(PEOPLE, text)
    (q,) = full_matrix(asked)
    for value, sign in ((0.0, -1), (60.0, 1)):
        state = Hedge(0.3).start(PEOPLE, [], 60.0)
        state = Hedge(0.3).update(state, measured(asked, [value], EXACT))
        # As printed: y ∝ y e^(-η r) with r = q where v is below, 1 - q where it is not.
        weights = np.exp(-0.15 * (q if sign < 0 else 1 - q)) / 24
        np.testing.assert_allclose(state.values, 60 * weights / weights.sum(), rtol=1e-12)


def test_a_projection_answers_a_counting_query_with_alpha_more():
    asked = Workload.predicates(PEOPLE, "age in 0..39 and grade = 2")
    rule = Projection(0.1)
    state = rule.start(PEOPLE, [], 60.0)
    before = state.answer(asked)[0]
    state = rule.update(state, measured(asked, [before + 1], EXACT))
    assert state.answer(asked)[0] == pytest.approx(before + 6)
    state = rule.update(state, measured(asked, [0.0], EXACT))
    assert state.answer(asked)[0] == pytest.approx(before)


def test_a_projection_stays_finite_at_the_edges():
    asked = Workload.predicates(PEOPLE, "sex = F")
    for value in (-1e9, 1e9):
        rule = Projection(0.4)
        state = rule.start(PEOPLE, [], 60.0)
        for _ in range(50):
            state = rule.update(state, measured(asked, [value], EXACT))
        assert np.isfinite(state.values).all()
        assert state.answer(asked)[0] == pytest.approx(60.0 * (value > 0), abs=1e-3)


def test_of_a_marginal_the_worst_answered_cell_is_learned():
    asked = Workload.marginals(PEOPLE, [["grade"]])
    state = Hedge(0.2).start(PEOPLE, [], 60.0)
    state = Hedge(0.2).update(state, measured(asked, [21.0, 35.0, 4.0], EXACT))
    low, high, after = state.answer(asked)
    assert low == pytest.approx(high)
    assert after == pytest.approx(60 * math.exp(-0.1) / (2 + math.exp(-0.1)))


def test_the_additive_rule_keeps_the_sum_and_forgets_constant_queries():
    constant = Workload.predicates(PEOPLE, "grade in 0..2")
    state = Perceptron(0.2).start(PEOPLE, [], 60.0)
    state = Perceptron(0.2).update(state, measured(constant, [90.0], EXACT))
    np.testing.assert_allclose(state.values, 2.5)
    rare = Workload.predicates(PEOPLE, "grade = 2 and sex = F")
    state = Perceptron(0.2).update(state, measured(rare, [0.0], EXACT))
    assert state.answer(rare)[0] == pytest.approx(60 * (1 / 6 - 0.2))
    assert state.values.sum() == pytest.approx(60)
    assert state.values.min() < 0


def test_halving_keeps_those_on_the_side_of_the_answer():
    asked = Workload.predicates(PEOPLE, "sex = F")
    shares = NET.synopses
    answers = np.array([y.answer(asked)[0] / y.total for y in shares])
    rule = MedianRule(NET, 0.1)
    state = rule.start(PEOPLE, [], 60.0)
    assert state.answer(asked)[0] == pytest.approx(60 * np.median(answers))
    above = rule.update(state, measured(asked, [60.0], EXACT))
    below = rule.update(state, measured(asked, [0.0], EXACT))
    np.testing.assert_array_equal(above.kept, np.flatnonzero(answers > np.median(answers)))
    np.testing.assert_array_equal(below.kept, np.flatnonzero(answers < np.median(answers)))


def test_if_no_candidate_agrees_all_stay():
    asked = Workload.predicates(PEOPLE, "sex = F")
    rule = MedianRule(Listed(NET.synopses[:1] * 3), 0.1)
    state = rule.update(rule.start(PEOPLE, [], 60.0), measured(asked, [1e6], EXACT))
    assert len(state.kept) == 3


@pytest.mark.parametrize("kind", [Hedge, Projection, Perceptron, lambda alpha: MedianRule(NET, alpha)])
@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan, math.inf, True, "0.1", None])
def test_bad_alpha(kind, alpha):
    with pytest.raises(InvalidInput, match="alpha must be"):
        kind(alpha)


def test_a_median_needs_candidates_over_the_same_domain():
    with pytest.raises(InvalidInput, match="another domain"):
        MedianRule(NET, 0.1).start(coded(4), [], 10.0)

    class Nothing:
        domain = fractions = synopsis = to_json = NotImplemented

        def __len__(self):
            return 0

    with pytest.raises(InvalidInput, match="candidates must hold at least one synopsis"):
        MedianRule(Nothing(), 0.1)
    for wrong in (None, [1, 2], MultiplicativeWeights()):
        with pytest.raises(InvalidInput, match="candidates must be as qrelease"):
            MedianRule(wrong, 0.1)
