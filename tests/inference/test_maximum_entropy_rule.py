"""The maximum-entropy fit in rounds: what marginals say about residuals, what an update learns, and MWEM with it."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import BOTH, PEOPLE, PROPERTY, coded, full_matrix, random_table, true_answers

from qrelease.errors import InvalidInput
from qrelease.inference import maxent
from qrelease.inference.histogram import Histogram
from qrelease.inference.maxent import fit_histogram
from qrelease.inference.maximum_entropy_rule import MaximumEntropy, with_subsets
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.inference.residuals import Estimates
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

PAIRS = Workload.marginals(PEOPLE, 2)


def noisy(asked, table, scales, seed):
    """One measurement a group, each with Gaussian noise of its own scale; its law's fine print does not matter here."""
    rng = np.random.default_rng(seed)
    parts = np.split(true_answers(asked, table).astype(float), asked.bounds[1:-1])
    return [
        Measurement(g, v + rng.normal(0, scale, len(v)), Noise("discrete Gaussian", scale))
        for g, v, scale in zip(asked.groups, parts, scales, strict=True)
    ]


# --- marginals as estimates


@st.composite
def marginals(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    every = [s for k in range(1, len(shape) + 1) for s in combinations(range(len(shape)), k)]
    sets = draw(st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True))
    domain = coded(*shape)
    asked = Workload.marginals(domain, [[domain.names[a] for a in s] for s in sets])
    return asked, draw(st.lists(st.sampled_from([0.5, 1.0, 7.0]), min_size=len(sets), max_size=len(sets)))


@given(marginals(), st.integers(0, 2**32 - 1))
@PROPERTY
def test_overlapping_marginals_are_combined_as_by_least_squares(world, seed):
    """Against plain weighted least squares over the universe: the same values, and the variance of each cell."""
    asked, scales = world
    found = noisy(asked, random_table(asked.domain, 50, 0), scales, seed)
    weights = np.concatenate([np.full(len(m.values), m.variance**-0.5) for m in found])
    rows = full_matrix(asked)
    inverse = np.linalg.pinv(rows * weights[:, None], rcond=1e-10)
    best = rows @ inverse @ (np.concatenate([m.values for m in found]) * weights)
    spread = ((rows @ inverse) ** 2).sum(axis=1)
    values, variances = Estimates.of(asked.domain, found).answer(asked)
    np.testing.assert_allclose(values, best, atol=1e-7)
    np.testing.assert_allclose(variances, spread, rtol=1e-7)


def test_a_known_number_of_records_stays():
    found = noisy(PAIRS, random_table(PEOPLE, 60, 0), [5.0] * 3, 0)
    assert Estimates.of(PEOPLE, found, 60.0).marginal(())[0] == 60
    assert Estimates.of(PEOPLE, found).marginal(())[0] != 60
    count = Measurement(RECORDS, np.array([61.0]), Noise("discrete Gaussian", 1e-6))
    assert Estimates.of(PEOPLE, [*found, count]).marginal(())[0] == pytest.approx(61)


# --- the rule


def learnt(asked, measurements, total, updates, sweeps=4):
    rule = MaximumEntropy(sweeps)
    state = rule.start(asked.domain, asked.sets, total)
    for _ in range(updates):
        state = rule.update(state, measurements)
    return state


@pytest.mark.parametrize("seed", range(3))
def test_exact_marginals_are_fitted(seed):
    table = random_table(PEOPLE, 2000, seed)
    state = learnt(PAIRS, noisy(PAIRS, table, [0.1] * 3, seed), 2000.0, 3, sweeps=60)
    np.testing.assert_allclose(state.answer(PAIRS), true_answers(PAIRS, table), atol=1.0)
    assert state.values.sum() == pytest.approx(2000)


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_measured_one_by_one_it_comes_to_the_same_fit(scale, monkeypatch):
    """The fit with the diagonal ridge is one point, whatever the way there: the last state's interactions are kept."""
    monkeypatch.setattr(maxent, "SOLVER", replace(maxent.SOLVER, final_error=1e-9))
    measurements = noisy(PAIRS, random_table(PEOPLE, 2000, 1), [scale, 2 * scale, scale], 2)
    rule = MaximumEntropy()
    state = rule.start(PEOPLE, PAIRS.sets, 2000.0)
    for end in range(1, 4):
        state = rule.update(state, measurements[:end])
    for _ in range(30):
        state = rule.update(state, measurements)
    whole, _ = fit_histogram(Estimates.of(PEOPLE, measurements, 2000.0), dense=0)
    np.testing.assert_allclose(state.values, whole.values, atol=0.02 * scale)
    before = state.values
    np.testing.assert_allclose(rule.update(state, measurements).values, before, atol=0.01 * scale)


def test_what_is_mostly_noise_is_hardly_fitted():
    asked = Workload.marginals(coded(8, 8), 2)
    measurements = noisy(asked, random_table(asked.domain, 0, 0), [100.0], 0)
    (loud,) = measurements
    quiet = Measurement(loud.group, loud.values, Noise("discrete Gaussian", 1.0))
    moves = [np.abs(learnt(asked, [m], 3200.0, 10).values - 50.0).mean() for m in (loud, quiet)]
    assert moves[0] < 0.75 * moves[1]


def test_it_starts_uniform_on_all_subsets():
    state = MaximumEntropy().start(PEOPLE, [(0, 1, 2)], 24.0)
    assert isinstance(state, Histogram)
    np.testing.assert_allclose(state.values, 1.0)
    assert set(state.sets) == {(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)}
    assert with_subsets([(0, 2), (1,), (1, 2)]) == ((0, 2), (1,), (1, 2), (0,), (2,))


def test_columns_of_one_value_say_nothing():
    asked = Workload.marginals(coded(1, 1), 2)
    state = learnt(asked, noisy(asked, random_table(asked.domain, 9, 0), [1.0], 0), 9.0, 2)
    np.testing.assert_allclose(state.values, 9.0)


def test_other_queries_are_refused():
    asked = Workload.ranges(PEOPLE, "grade")
    with pytest.raises(InvalidInput, match="residuals or whole marginals are needed"):
        learnt(asked, noisy(asked, random_table(PEOPLE, 9, 0), [1.0], 0), 9.0, 1)


@pytest.mark.parametrize("sweeps", [0, -1, True, 2.5, "3", None])
def test_bad_sweeps(sweeps):
    with pytest.raises(InvalidInput, match="sweeps"):
        MaximumEntropy(sweeps)


# --- in MWEM


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("rounds", [None, 6])
def test_mwem_learns_by_it(rounds, neighbours):
    table, cost = random_table(PEOPLE, 3000, 0), ApproxDP(5.0, 1e-6)
    curator = Curator(table, Ledger.open(None, cost, neighbours=neighbours), Entropy.insecure(0))
    made = curator.release(MWEM(rounds=rounds, update="maximum-entropy"), PAIRS, cost)
    assert made.parameters["update"] == "maximum-entropy"
    json.dumps(dict(made.parameters), allow_nan=False)
    truth = true_answers(PAIRS, table)
    assert np.abs(made.answers() - truth).mean() < 0.05 * np.abs(3000 / 8 - truth).mean()


@pytest.mark.parametrize(
    ("make", "asked", "message"),
    [
        (lambda: MWEM(update="entropy"), PAIRS, "update must be one of multiplicative-weights, maximum-entropy"),
        (lambda: MWEM(update="maximum-entropy", choice="query"), PAIRS, "choice must be 'group'"),
        (lambda: MWEM(update="maximum-entropy"), Workload.ranges(PEOPLE, "grade"), "ask for marginals only"),
    ],
)
def test_what_mwem_refuses_is_refused_before_the_charge(make, asked, message):
    ledger = Ledger.open(None, PureDP(1.0))
    curator = Curator(random_table(PEOPLE, 9, 0), ledger, Entropy.insecure(0))
    with pytest.raises(InvalidInput, match=message):
        curator.release(make(), asked, PureDP(1.0))
    assert not any(e.kind == "charge" for e in ledger.history())
