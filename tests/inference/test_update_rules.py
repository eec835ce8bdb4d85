"""Update rules with a bound on their updates: no adversary gets more, and each step is that of its text."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules import (
    ADVERSARIES,
    BOUNDED,
    EXACT,
    NET,
    ProjectedPerceptron,
    barely,
    cells_of,
    divergence,
    largest,
    measured,
    updates_made,
)
from worlds import PEOPLE, PROPERTY, coded, full_matrix, mixed

from qrelease.errors import InvalidInput
from qrelease.inference.hypotheses import Dual
from qrelease.inference.median_rule import MedianRule
from qrelease.inference.update_rules import Hedge, Perceptron, Projection, furthest_off
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.queries.workload import Workload

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


@pytest.mark.parametrize("kind", [Hedge, Projection, Perceptron, lambda alpha: MedianRule(NET, alpha)])
@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan, math.inf, True, "0.1", None])
def test_bad_alpha(kind, alpha):
    with pytest.raises(InvalidInput, match="alpha must be"):
        kind(alpha)
