"""The maximum-entropy fit: what it converges to, how accurate it is, and what its error bars cover."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from models import ADD, SWAP, log_linear, truth
from worlds import BOTH, coded, private

from qrelease import data
from qrelease.data import structural_zeros
from qrelease.data.table import Table
from qrelease.inference import maxent
from qrelease.inference.histogram import Histogram
from qrelease.inference.maxent import fit_histogram
from qrelease.inference.residual_synopses import Modelled
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, PureDP
from qrelease.queries.workload import Workload


def estimated(table, order, cost, seed, neighbours=ADD):
    sets = list(combinations(range(len(table.domain)), order))
    plan = ResidualPlan.choose(table.domain, sets, neighbours=neighbours)
    door = private(table, cost, neighbours, Entropy.insecure(seed))
    return Estimates.of(table.domain, door.measure(plan.workload, cost), len(table) if neighbours is SWAP else None)


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
def test_without_noise_it_has_the_measured_marginals(dense):
    table = log_linear((2, 3, 4, 2), 20_000, 1)
    histogram, _ = fit_histogram(estimated(table, 2, ApproxDP(60.0, 1e-2), 0), dense)
    asked, true = truth(table, 2)
    assert np.abs(histogram.answer(asked) - true).max() < 10


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(("records", "epsilon"), [(10**7, 20.0), (1000, 1e4), (1, 1e9), (0, 1e9)])
def test_no_table_makes_the_fit_fail(records, epsilon, neighbours):
    """All records in one cell, and next to no noise: the curvature is singular but for rounding."""
    table = Table(coded(2, 4, 3), (np.zeros(records, np.uint8),) * 3)
    histogram, _ = fit_histogram(estimated(table, 2, PureDP(epsilon), 3, neighbours), maxent.DENSE)
    asked, true = truth(table, 2)
    # Of ten million the fit ends a little early.
    assert np.abs(histogram.answer(asked) - true).max() < max(10, 3e-6 * records)


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
def test_where_the_noise_drowns_everything_it_is_nearly_uniform(dense):
    table = log_linear((2, 3, 4, 2), 50, 1)
    histogram, _ = fit_histogram(estimated(table, 3, ApproxDP(0.01, 1e-9), 0, SWAP), dense)
    shares = histogram.values / histogram.total
    assert np.abs(shares - 1 / 48).max() < 0.02


@pytest.mark.parametrize("neighbours", BOTH)
def test_it_is_more_accurate_than_the_linear_answers(neighbours):
    table = log_linear((2,) * 8, 5_000, 3)
    asked, true = truth(table, 3)
    for epsilon, gain in ((0.2, 1.6), (1.0, 1.1)):
        errors = []
        for seed in range(3):
            estimates = estimated(table, 3, ApproxDP(epsilon, 1e-9), seed, neighbours)
            histogram, _ = fit_histogram(estimates)
            errors.append([np.abs(a - true).mean() for a in (estimates.answer(asked)[0], histogram.answer(asked))])
        linear, model = np.mean(errors, axis=0)
        assert model * gain < linear


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
@pytest.mark.parametrize(("records", "epsilon", "width"), [(3_000, 0.2, 0.96), (100, 1.0, 0.85), (100, 5.0, 1.05)])
def test_the_models_error_bars_cover_and_are_hardly_longer_than_the_linear_ones(dense, records, epsilon, width):
    cover, widths = [], []
    for seed in range(4):
        table = log_linear((2, 3, 2, 4, 2, 2), records, 5 + seed, strength=0.6)
        asked, true = truth(table, 3)
        estimates = estimated(table, 3, ApproxDP(epsilon, 1e-9), seed)
        made = Modelled.of(estimates, asked, dense=dense)
        bars, linear = made.model_bars(asked), made.error_bars(asked)[1]
        cover.append(np.abs(made.answer(asked) - true) <= bars)
        widths.append(bars.mean() / linear.mean())
    # Without the whole of J a marginal's bars are at least those of itself alone, which are longer.
    assert 0.95 < np.mean(cover) < (0.9995 if dense else 1.0001)
    assert np.mean(widths) < (width if dense else width + 0.05)


def test_columns_that_depend_on_each_other_are_fitted_to_the_noise():
    """There J of independent columns is off by orders of magnitude."""
    rng = np.random.default_rng(0)
    first = rng.choice(12, 20_000, p=rng.dirichlet(np.full(12, 0.3)))
    others = [np.where(rng.random(20_000) < 0.03, rng.integers(0, n, 20_000), first * n // 12) for n in (12, 6, 4, 3)]
    table = Table(coded(12, 12, 6, 4, 3), [c.astype(np.uint8) for c in (first, *others)])
    asked, true = truth(table, 3)
    estimates = estimated(table, 3, ApproxDP(10.0, 1e-9), 0)
    histogram, posterior = fit_histogram(estimates, dense=0)
    linear, variances = estimates.answer(asked)
    off = np.abs(histogram.answer(asked) - true)
    assert off.mean() < 0.7 * np.abs(linear - true).mean()
    large = true > 300
    assert off[large].mean() < 2.5 * np.abs(linear - true)[large].mean()
    assert np.mean(off <= 2.4 * np.sqrt(posterior.variances(asked))) > 0.95
    assert (posterior.variances(asked) <= variances).all()


def test_bars_hold_in_large_cells_where_j_is_that_of_independent_columns():
    """Of Adult, with too many coordinates for the whole of J. Without each marginal's own J they hold 89 % there."""
    adult = data.adult(["education", "occupation", "relationship", "marital-status", "sex"])
    table = Table(adult.domain, tuple(column[:3_000] for column in adult.columns))
    asked, true = truth(table, 3)
    large, every = [], []
    for seed in range(2):
        made = Modelled.of(estimated(table, 3, ApproxDP(0.3, 1e-9), seed), asked)
        answers = made.answer(asked)
        within = np.abs(answers - true) <= made.model_bars(asked)
        large.append(within[answers > 5])
        every.append(within)
    assert np.mean(np.concatenate(large)) > 0.95
    assert 0.97 < np.mean(every) < 0.995


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
def test_variances_of_other_queries_agree_with_those_of_cells(dense):
    table = log_linear((2, 3, 4), 2_000, 7)
    _, posterior = fit_histogram(estimated(table, 2, ApproxDP(1.0, 1e-6), 0), dense)
    cells = Workload.marginals(table.domain, [["a", "b"]])
    alone = Workload.vectors(table.domain, np.eye(6), ["a", "b"])
    np.testing.assert_allclose(posterior.variances(alone), posterior.variances(cells), rtol=1e-9)


def test_the_same_estimates_give_the_same_histogram():
    table = log_linear((2, 3, 4), 500, 2)
    estimates = estimated(table, 2, ApproxDP(1.0, 1e-6), 0)
    first, second = (fit_histogram(estimates)[0].values for _ in range(2))
    np.testing.assert_array_equal(first, second)


def linked(records, seed):
    """Records of five columns that nearly follow from each other, so that most cells are empty."""
    rng = np.random.default_rng(seed)
    first = rng.choice(10, records, p=rng.dirichlet(np.full(10, 0.5)))
    others = [np.where(rng.random(records) < 0.05, rng.integers(0, n, records), first * n // 10) for n in (8, 6, 4)]
    last = rng.choice(5, records, p=rng.dirichlet(np.ones(5)))
    return Table(coded(10, 8, 6, 4, 5), [c.astype(np.uint8) for c in (first, *others, last)])


def test_sets_that_tell_something_are_fitted_with_the_whole_curvature_where_all_have_too_many_coordinates():
    errors, covered = [], []
    for seed in range(2):
        table = linked(20_000, seed)
        asked, true = truth(table, 3)
        estimates = estimated(table, 3, ApproxDP(1.0, 1e-9), seed)
        made = [Modelled.of(estimates, asked, dense=dense) for dense in (0, 1_500)]
        errors.append([np.abs(m.answer(asked) - true).sum() for m in made])
        covered.append(np.abs(made[1].answer(asked) - true) <= made[1].model_bars(asked))
    diagonal, whole = np.mean(errors, axis=0)
    assert whole < 0.7 * diagonal
    assert 0.95 < np.mean(covered) < 0.9999


def test_where_these_have_too_many_coordinates_too_the_curvature_is_diagonal():
    table = linked(200_000, 0)
    estimates = estimated(table, 3, ApproxDP(10.0, 1e-9), 0)
    none, few = (fit_histogram(estimates, dense)[0] for dense in (0, 150))
    assert (none.values == few.values).all()


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
def test_columns_that_nothing_is_asked_of_change_nothing_and_are_uniform(dense):
    """The fit is on the other columns alone, and is that over the whole universe, with bars for all that is asked."""
    table = log_linear((3, 4, 2, 3), 4_000, 5)
    sets = [(0, 2), (2, 3)]
    plan = ResidualPlan.choose(table.domain, sets)
    cost = ApproxDP(1.0, 1e-9)
    measured = private(table, cost, ADD, Entropy.insecure(0)).measure(plan.workload, cost)
    estimates = Estimates.of(table.domain, measured)
    histogram, posterior = fit_histogram(estimates, dense)
    cells = histogram.values.reshape(table.domain.shape)
    np.testing.assert_allclose(cells, np.broadcast_to(cells.mean(axis=1, keepdims=True), cells.shape), rtol=1e-9)
    asked = Workload.marginals(table.domain, [["a", "c"], ["c", "d"]])
    linear, variances = estimates.answer(asked)
    whole = Histogram(table.domain, [s for s in estimates.residuals if s], histogram.total)
    maxent.improve(whole, estimates, 200)  # over the whole universe
    assert np.abs((histogram.answer(asked) - whole.answer(asked)) / np.sqrt(variances)).max() < 0.5
    assert np.abs((histogram.answer(asked) - linear) / np.sqrt(variances)).max() < 4
    found = posterior.variances(asked)
    assert (found > 0).all()
    assert (found <= variances).all()


RULED = dataclasses.replace(
    coded(6, 3, 4, 2), impossible=("a = 0 and b in {1, 2}", "a in {1, 2} and b = 0", "c = 3 and d = 1")
)


def ruled(records, seed=1):
    """Records that keep the rules of `RULED`."""
    rng = np.random.default_rng(seed)
    a = rng.integers(6, size=records)
    b = np.where(a == 0, 0, np.where(a < 3, rng.integers(1, 3, records), rng.integers(3, size=records)))
    c = rng.integers(4, size=records)
    return Table(RULED, (a, b, c, np.where(c == 3, 0, (rng.random(records) < 0.2 + 0.1 * a).astype(int))))


@pytest.mark.parametrize(("dense", "epsilon", "near"), [(maxent.DENSE, 60.0, 15), (0, 2.0, 60)])
@pytest.mark.parametrize("columns", [(0, 1, 2, 3), (0, 2), (2, 3), (1,)])
def test_cells_that_rules_forbid_are_empty_whatever_is_measured(columns, dense, epsilon, near):
    """Also where only one of a rule's columns is measured, or none: and the others are as without the rules."""
    table = ruled(20_000)
    cost, names = ApproxDP(epsilon, 1e-2), RULED.names
    sets = list(combinations(columns, 2)) or [columns]
    plan = ResidualPlan.choose(RULED, sets)
    door = private(table, cost, ADD, Entropy.insecure(0))
    estimates = Estimates.of(RULED, door.measure(plan.workload, cost), None)
    histogram, _ = fit_histogram(estimates, dense)
    again = Histogram.from_json(RULED, histogram.to_json())
    for axes, mask in structural_zeros.masks(RULED, RULED.impossible).items():
        asked = Workload.marginals(RULED, [[names[i] for i in axes]])
        for found in (histogram, again):
            assert not found.answer(asked)[mask].any()
    asked = Workload.marginals(RULED, [[names[i] for i in s] for s in sets])
    true = np.concatenate([t.reshape(-1) for t in table.counts(asked.sets)])
    assert np.abs(histogram.answer(asked) - true).max() < near
    sampled = Table(RULED, histogram.sample(5_000, np.random.default_rng(0)))
    for axes, mask in structural_zeros.masks(RULED, RULED.impossible).items():
        assert not sampled.counts([axes])[0].reshape(-1)[mask].any()


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
@pytest.mark.parametrize("records", [0, 1, 10**6])
def test_records_that_break_the_rules_make_no_fit_fail(records, dense):
    table = Table(RULED, (np.zeros(records, np.uint8), *(np.ones(records, np.uint8),) * 3))
    histogram, posterior = fit_histogram(estimated(table, 2, ApproxDP(20.0, 1e-2), 0), dense)
    assert np.isfinite(histogram.values).all()
    assert np.isfinite(Histogram.from_json(RULED, histogram.to_json()).values).all()
    assert maxent.keeps_rules(histogram) == (records < 2)
    assert np.isfinite(posterior.variances(Workload.marginals(RULED, 2))).all()


def test_rules_that_leave_nothing_are_passed_over():
    domain = dataclasses.replace(coded(2, 2), impossible=("a = 0", "b = 0", "a = 1 and b = 1"))
    table = Table(domain, (np.array([0, 1]), np.array([1, 0])))
    histogram, _ = fit_histogram(estimated(table, 2, ApproxDP(60.0, 1e-2), 0))
    assert histogram.values.sum() == pytest.approx(histogram.total)


def test_a_histogram_with_exponents_that_no_factor_can_have_is_read_as_it_was():
    """A fit may give factors of two marginals huge exponents that cancel out in every cell."""
    table = Table(coded(6, 3, 4, 2), [ruled(20_000).codes(axis) for axis in range(4)])
    histogram = Histogram(table.domain, tuple(combinations(range(4), 2)), 20_000.0)
    logs = np.random.default_rng(0).normal(size=len(histogram.logs)) / 400
    logs[histogram.slice((0, 1))][:3] += 2  # of a = 0
    logs[histogram.slice((0, 2))][:4] -= 2
    for _ in range(400):
        histogram.multiply(logs)
    assert histogram.logs.max() > 750
    asked, _ = truth(table, 2)
    again = Histogram.from_json(table.domain, histogram.to_json())
    np.testing.assert_allclose(again.answer(asked), histogram.answer(asked), rtol=1e-6, atol=1e-6)
