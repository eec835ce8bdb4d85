"""The fit of weighted records to residuals and to signs: what was measured, the largest entropy, noise."""

from itertools import combinations

import numpy as np
import pytest
from fits import answers, estimates_of
from worlds import coded, private, random_table, true_answers

from qrelease.data.marginals.record_tables import Tables
from qrelease.data.table import Table
from qrelease.inference.log_linear import SETTINGS, FitProblem, finish, fit_records
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.inference.single_columns import singles
from qrelease.mechanisms.record_plan import agreements
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP
from qrelease.queries.workload import Workload


def fitted_to(estimates, records, rounds=30, **options):
    """A fit, and its last records."""
    moving = fit_records(estimates, records // 2, rounds=rounds, rng=np.random.default_rng(0), **options)
    return finish(estimates, records, rng=np.random.default_rng(1), start=moving, **options)


def test_without_noise_the_fit_has_what_was_measured():
    table = random_table(coded(3, 2, 5, 4), 4_000, 2)
    estimates, workload = estimates_of(table, ZCDP(100.0))
    fitted = fitted_to(estimates, 20_000)
    off = np.abs(answers(fitted, table.domain, workload) - true_answers(workload, table))
    assert off.max() < 0.004 * 4_000


def test_of_distributions_with_those_pairs_it_is_the_one_of_largest_entropy():
    table = random_table(coded(3, 2, 3), 4_000, 7)
    estimates, workload = estimates_of(table, ZCDP(100.0))
    p = np.full((3, 2, 3), 1 / 18)  # by iterative proportional fitting (Deming & Stephan 1940)
    tables = np.split(true_answers(workload, table) / 4_000, workload.bounds[1:-1])
    for _ in range(500):
        for axes, q in zip(workload.sets, tables, strict=True):
            (away,) = {0, 1, 2} - set(axes)
            now = p.sum(axis=away, keepdims=True)
            p = p * np.divide(q.reshape(now.shape), now, out=np.zeros_like(now), where=now > 0)
    fitted = fitted_to(estimates, 40_000)
    whole = Workload.marginals(table.domain, 3)
    assert np.abs(answers(fitted, table.domain, whole) / fitted.total - p.reshape(-1)).max() < 0.01


def test_noise_is_not_fitted_and_more_rounds_change_hardly_anything():
    table = random_table(coded(4, 4, 4, 4), 500, 1)
    estimates, workload = estimates_of(table, ZCDP(1e-3))
    true = true_answers(workload, table)
    found = [answers(fitted_to(estimates, 20_000, rounds), table.domain, workload) for rounds in (20, 60)]
    noisy = np.abs(estimates.answer(workload)[0] - true).sum()
    errors = [np.abs(said - true).sum() for said in found]
    assert max(errors) < 0.5 * noisy
    assert errors[1] == pytest.approx(errors[0], rel=0.1)


def test_a_fit_goes_on_where_another_ended():
    table = random_table(coded(3, 2, 3), 2_000, 7)
    first, _ = estimates_of(table, ZCDP(10.0), order=1)
    both, workload = estimates_of(table, ZCDP(10.0))
    begun = fit_records(first, 10_000, rounds=3, rng=np.random.default_rng(0))
    done = fit_records(both, 10_000, rounds=20, rng=np.random.default_rng(1), start=begun)
    assert done.rounds == 23
    done = finish(both, 20_000, rng=np.random.default_rng(2), start=done)
    assert np.abs(answers(done, table.domain, workload) - true_answers(workload, table)).max() < 30


def test_records_that_move_no_more_have_what_was_measured_of_columns_that_say_the_same():
    rng = np.random.default_rng(5)
    a = rng.integers(12, size=4_000)
    b = np.where(rng.random(4_000) < 0.3, a % 5, rng.integers(5, size=4_000))
    table = Table(coded(12, 12, 5, 4), (a, (5 * a) % 12, b, rng.integers(4, size=4_000)))
    estimates, workload = estimates_of(table, ZCDP(100.0))
    true = true_answers(workload, table)
    off = answers(fitted_to(estimates, 10_000), table.domain, workload) - true
    assert np.abs(off).sum() < 0.02 * len(workload.sets) * 4_000


@pytest.mark.parametrize("rho", [0.001, 0.01])
def test_cells_that_are_empty_under_noise_are_found(rho):
    """Of columns that determine each other; what is measured of them has a record in every other cell."""
    a = np.random.default_rng(0).integers(16, size=20_000)
    table = Table(coded(16, 16), (a, (a * 5) % 16))
    estimates, workload = estimates_of(table, ZCDP(rho))
    true = true_answers(workload, table)
    measured = np.maximum(estimates.answer(workload)[0], 0)
    found = answers(fitted_to(estimates, 10_000), table.domain, workload)
    assert found[true == 0].sum() < 0.1 * measured[true == 0].sum()
    assert np.abs(found - true).sum() < 0.5 * np.abs(measured - true).sum()


def agreements_of(table, cost, signs):
    """Residuals of single columns, how often the signs of two agree, and the latter's exact values."""
    domain, made = table.domain, private(table, ZCDP(1_000.0), entropy=Entropy.insecure(0))
    columns = Estimates.of(
        domain, made.measure(ResidualPlan.choose(domain, [(a,) for a in range(len(domain))]).workload, cost)
    )
    asked = agreements(domain, [*combinations(range(len(domain)), 2)], singles(columns))
    exact = np.concatenate([g.queries.apply(table.counts([g.axes])[0].reshape(-1)) for g in asked.groups])
    return columns, made.measure(asked, signs), exact


def signed(chains, domain, measured):
    """What records say of queries on pairs, for one record."""
    tables = Tables(domain.shape, [m.group.axes for m in measured])
    found = np.split(tables.marginals(chains.codes, chains.weights), tables.offsets[1:-1])
    return np.array([m.group.queries.apply(t)[0] for m, t in zip(measured, found, strict=True)])


def test_without_noise_signs_agree_as_often_as_was_measured():
    rng = np.random.default_rng(2)
    a, b = rng.integers(5, size=(2, 4_000))
    c = np.where(rng.random(4_000) < 0.6, a // 2, rng.integers(3, size=4_000))
    columns, measured, exact = agreements_of(Table(coded(5, 5, 3), (a, b, c)), ZCDP(200.0), ZCDP(200.0))
    fitted = fitted_to(columns, 20_000, signs=measured)
    off = np.abs(signed(fitted.chains, columns.domain, measured) - exact / 4_000)
    assert off.max() < 0.005
    assert np.abs(exact).max() > 0.2 * 4_000  # which independent columns would not have
    assert sorted(fitted.signs) == [(0, 1), (0, 2), (1, 2)]
    again = fit_records(columns, 20_000, rounds=1, rng=np.random.default_rng(1), signs=measured, start=fitted)
    assert max(np.abs(again.signs[s] - fitted.signs[s]).max() for s in fitted.signs) < 0.3


def test_noise_on_signs_is_not_fitted():
    codes = np.random.default_rng(4).integers(4, size=(5, 500))
    columns, measured, exact = agreements_of(Table(coded(4, 4, 4, 4, 4), tuple(codes)), ZCDP(10.0), ZCDP(1e-4))
    fitted = fitted_to(columns, 20_000, signs=measured)
    noise = np.array([m.values[0] for m in measured]) - exact
    assert np.abs(500 * signed(fitted.chains, columns.domain, measured) - exact).sum() < 0.5 * np.abs(noise).sum()


@pytest.mark.parametrize("measured_later", [False, True])
def test_what_signs_tell_is_not_held_back_by_the_noise_of_cells(measured_later):
    """The signs agree in nine records of ten; cells are drowned. A fit that holds them back has it in eight or less."""
    rng = np.random.default_rng(4)
    first = rng.integers(0, 12, 6_000)
    second = np.where(rng.random(6_000) < 0.9, first // 6, 1 - first // 6) * 6 + rng.integers(0, 6, 6_000)
    table = Table(coded(12, 12), (first, second))
    made = private(table, ZCDP(10.0), entropy=Entropy.insecure(3))
    columns = made.measure(ResidualPlan.choose(table.domain, [(0,), (1,)]).workload, ZCDP(0.1))
    signs = made.measure(agreements(table.domain, [(0, 1)], [np.full(12, 1 / 12)] * 2), ZCDP(0.01))
    before = None
    if measured_later:
        before = fit_records(
            Estimates.of(table.domain, columns), 10_000, rounds=10, rng=np.random.default_rng(0), signs=signs
        )
    pair = made.measure(ResidualPlan.choose(table.domain, [(0, 1)]).workload, ZCDP(1e-4))
    estimates, rng = Estimates.of(table.domain, [*columns, *pair]), np.random.default_rng(1)
    moving = fit_records(estimates, 10_000, rounds=30, rng=rng, signs=signs, start=before)
    fitted = finish(estimates, 20_000, rng=rng, start=moving, signs=signs)
    agreeing = (fitted.chains.codes[0] < 6) == (fitted.chains.codes[1] < 6)
    assert fitted.chains.weights[agreeing].sum() == pytest.approx(0.9, abs=0.015)


def test_signs_beside_a_measured_pair_hide_none_of_its_empty_cells():
    """Of columns that say each other, signs leave hardly a record to half of the empty cells."""
    shares, rng = np.array([0.32, 0.22, 0.16] + 13 * [0.3 / 13]), np.random.default_rng(4)
    order = rng.permutation(16)
    first = rng.choice(16, 50_000, p=shares)
    table, told = Table(coded(16, 16), (first, order[first])), [shares, shares[np.argsort(order)]]
    columns = ResidualPlan.choose(table.domain, [(0,), (1,)]).workload
    pair = ResidualPlan.choose(table.domain, [(0, 1)]).workload
    found = []
    for seed in range(5):
        measured = private(table, ZCDP(1.0), entropy=Entropy.insecure(seed))
        parts = measured.measure(columns, ZCDP(0.001)) + measured.measure(pair, ZCDP(1.5e-5))
        signs = measured.measure(agreements(table.domain, [(0, 1)], told), ZCDP(1e-5))
        problems = FitProblem(Estimates.of(table.domain, parts), signs), FitProblem(Estimates.of(table.domain, parts))
        found.append([np.sum(p.ridge()[p.place(p.sets.index((0, 1)))] == SETTINGS.empty_ridge) for p in problems])
    with_signs, without = np.mean(found, axis=0)
    assert without > 0.9 * 240
    assert with_signs > 0.98 * without


def test_signs_beside_a_measured_pair_bring_its_heavy_cells_nearer():
    """The target of the fit is, along the signs, the mean of both measurements by their precision."""
    rng = np.random.default_rng(4)
    table = Table(coded(4, 3), (rng.choice(4, 4_000, p=[0.5, 0.2, 0.2, 0.1]), rng.choice(3, 4_000, p=[0.6, 0.2, 0.2])))
    asked = agreements(table.domain, [(0, 1)], [np.array([0.5, 0.2, 0.2, 0.1]), np.array([0.6, 0.2, 0.2])])
    plan = ResidualPlan.choose(table.domain, [(0, 1)]).workload
    first, second = (f.adjoint(np.ones(1)) for f in asked.groups[0].queries.factors)
    truth = float(first @ table.counts([(0, 1)])[0].reshape(4, 3) @ second)
    alone, joined, sums = [], [], []
    for seed in range(300):
        measured = private(table, ZCDP(1.0), entropy=Entropy.insecure(seed))
        estimates = Estimates.of(table.domain, measured.measure(plan, ZCDP(0.005)))
        signs = measured.measure(asked, ZCDP(0.005))
        both, one = FitProblem(estimates, signs), FitProblem(estimates)
        assert both.sets == one.sets  # the signs are no set of their own
        targets = [p.target[p.place(p.sets.index((0, 1)))].reshape(4, 3) for p in (one, both)]
        alone.append(first @ targets[0] @ second - truth)
        joined.append(first @ targets[1] @ second - truth)
        sums.append(np.abs(targets[0].sum(axis=0) - targets[1].sum(axis=0)).max())
    assert max(sums) < 1e-6 * 4_000
    of_sign = signs[0].variance
    beyond = np.outer(first - first.mean(), second - second.mean())
    of_pair = estimates.residuals[(0, 1)].variance * float((beyond**2).sum())
    rate = of_pair / (of_pair + of_sign)
    expected = (1 - rate) ** 2 * np.var(alone) + rate**2 * of_sign
    assert expected < 0.5 * np.var(alone)
    assert np.var(joined) == pytest.approx(expected, rel=0.2)
