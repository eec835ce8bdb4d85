"""Multiplicative weights: what every update keeps, and what it learns."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules import (
    EXACT,
    divergence,
    measured,
)
from worlds import PEOPLE, PROPERTY, coded, full_matrix, mixed, random_table, true_answers

from qrelease.errors import InvalidInput
from qrelease.inference.measurement import Measurement
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.noise.distributions import Noise
from qrelease.queries.workload import Workload


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


WORKLOADS = {
    "one": Workload.marginals(PEOPLE, [["sex", "age"]]),
    "pairs": Workload.marginals(PEOPLE, 2),
    "all": Workload.marginals(PEOPLE, 1) + Workload.marginals(PEOPLE, 2) + Workload.marginals(PEOPLE, 3),
    "mixed": mixed(),
}


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
