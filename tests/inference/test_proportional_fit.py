"""Iterative proportional fitting to noisy marginals: what it fits that steps by the curvature do not."""

import numpy as np
import pytest
from worlds import coded, private

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.inference.histogram import Histogram
from qrelease.inference.maxent import fit_histogram, keeps_rules
from qrelease.inference.proportional_fit import NEAR, fit_in_proportion, has_plenty
from qrelease.inference.residual_synopses import Modelled
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours
from qrelease.queries.workload import Workload

COST = ApproxDP(1.0, 1e-9)
AGE, PROVINCE, PLACE, JOB, INCOME = range(5)
SETS = [[AGE, PROVINCE], [AGE, PLACE], [PLACE, JOB], [AGE, JOB], [JOB, INCOME]]


def people(records, *, rules):
    """Children have no job, and who has none no income; each place lies in one province."""
    rng = np.random.default_rng(0)
    age, place = rng.integers(0, 6, records), rng.choice(12, records, p=np.arange(1, 13) / 78)
    job = np.where(age < 2, 0, 1 + rng.binomial(3, 0.2 + 0.1 * (place % 3)))
    income = np.where(job == 0, 0, 1 + rng.binomial(5, 0.1 + 0.15 * job))
    domain = coded(6, 3, 12, 5, 7)
    if rules:
        lies = [f"b = {p} and c not in {{{p}, {p + 3}, {p + 6}, {p + 9}}}" for p in range(3)]
        domain = Domain(domain.attributes, impossible=lies)
    return Table(domain, (age, place % 3, place, job, income))


def measured(table, seed=0):
    """Estimates from residuals of the marginals `SETS`, the workload of these, and its true answers."""
    plan = ResidualPlan.choose(table.domain, [tuple(s) for s in SETS], neighbours=Neighbours.ADD_REMOVE)
    door = private(table, COST, Neighbours.ADD_REMOVE, Entropy.insecure(seed))
    workload = Workload.marginals(table.domain, [[table.domain.names[a] for a in s] for s in SETS])
    truth = np.concatenate([counts.reshape(-1) for counts in table.counts(workload.sets)])
    return Estimates.of(table.domain, door.measure(plan.workload, COST)), workload, truth


def plenty(estimates):
    """Of what was measured, and how many records it says there are."""
    return has_plenty(estimates.domain.shape, estimates.variances, float(estimates.residuals[()].values))


def by_marginal(off, workload):
    """The root mean square of each marginal's part."""
    return np.array([np.sqrt((part**2).mean()) for part in np.split(off, workload.bounds[1:-1])])


@pytest.mark.parametrize("rules", [False, True])
def test_columns_that_determine_each_other_are_fitted_up_to_the_noise(rules):
    """Of millions of records the curvature is all but singular there: the fit by it was off by thousands of records."""
    table = people(4_000_000, rules=rules)
    estimates, workload, truth = measured(table)
    assert plenty(estimates)
    histogram, _ = fit_histogram(estimates)
    linear = by_marginal(estimates.answer(workload)[0] - truth, workload)
    found = by_marginal(histogram.answer(workload) - truth, workload)
    assert (found <= 1.35 * linear).all(), (found, linear)
    assert keeps_rules(histogram)
    if rules:
        codes = histogram.sample(10_000, np.random.default_rng(0))
        assert np.array_equal(codes[PROVINCE], codes[PLACE] % 3)


@pytest.mark.parametrize("rules", [False, True])
def test_its_error_bars_hold(rules):
    """Also where rules and noise contradict each other, so that not all marginals can be as measured."""
    held = []
    for seed in range(4):
        estimates, workload, truth = measured(people(4_000_000, rules=rules), seed)
        model = Modelled.of(estimates, workload)
        held.append(np.mean(np.abs(model.answer(workload) - truth) <= model.model_bars(workload)))
    assert np.mean(held) > 0.94


def test_it_comes_to_the_log_linear_model_of_the_measured_marginals():
    """Two marginals with one column in common: the likeliest model has the two others independent, given it."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 3, 200_000)
    table = Table(coded(3, 2, 4), (a, rng.binomial(1, 0.2 + 0.2 * a), rng.binomial(3, 0.2 + 0.25 * a)))
    ab, ac = table.counts([(0, 1), (0, 2)])
    plan = ResidualPlan.choose(table.domain, [(0, 1), (0, 2)], neighbours=Neighbours.ADD_REMOVE)
    door = private(table, ApproxDP(60.0, 1e-2), Neighbours.ADD_REMOVE, Entropy.insecure(0))
    estimates = Estimates.of(table.domain, door.measure(plan.workload, ApproxDP(60.0, 1e-2)))
    histogram = Histogram(table.domain, tuple(s for s in estimates.residuals if s), float(len(a)))
    assert fit_in_proportion(histogram, estimates) <= NEAR
    ab, ac = ab.reshape(3, 2), ac.reshape(3, 4)
    exact = ab[:, :, None] * ac[:, None, :] / ab.sum(axis=1)[:, None, None]
    assert np.abs(histogram.values.reshape(3, 2, 4) - exact).max() < 5


@pytest.mark.parametrize(("records", "found"), [(20_000, False), (4_000_000, True)])
def test_it_is_for_cells_with_many_more_records_than_noise(records, found):
    assert plenty(measured(people(records, rules=False))[0]) is found


def test_nothing_measured_is_not_plenty():
    assert not has_plenty((2, 3), {(): 1.0}, 1e9)
