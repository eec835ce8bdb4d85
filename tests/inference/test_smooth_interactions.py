"""Smooth interactions: which columns have them, what is told of them, and what a fit gains by them."""

from itertools import combinations

import numpy as np
import pytest
from fits import answers, estimates_of
from worlds import coded, true_answers

from qrelease.data.table import Table
from qrelease.inference.log_linear import finish, fit_records
from qrelease.inference.smooth_interactions import SmoothPair, smooth_pairs
from qrelease.privacy import ZCDP


def root(size, length):
    """F with F Fᵀ = K of a smooth column."""
    places = np.arange(size)
    return np.linalg.cholesky(np.exp(-0.5 * (np.subtract.outer(places, places) / length) ** 2) + 1e-9 * np.eye(size))


@pytest.mark.parametrize("smooth", [(True, False), (False, True), (True, True)])
def test_what_is_told_solves_the_equations_of_its_newton_step(smooth):
    rng, shape = np.random.default_rng(0), (7, 6)
    roots = tuple(root(n, 2.0) if is_smooth else None for n, is_smooth in zip(shape, smooth, strict=True))
    pair = SmoothPair(roots, smooth=0.7, rough=0.2)
    expected, marginal = rng.uniform(5, 50, shape), rng.uniform(5, 50, shape)
    target, theta, noise = rng.normal(20, 10, shape), rng.normal(0, 1, shape), rng.uniform(10, 90, shape)
    free = rng.random(shape) < 0.8
    told = pair.told(target, expected, marginal, noise, theta, free)
    first, second = (np.eye(n) if r is None else r @ r.T for r, n in zip(roots, shape, strict=True))
    kernel, cells = np.kron(first, second), free.reshape(-1)
    e, m, t, v, old = (x.reshape(-1)[cells] for x in (expected, marginal, target, noise, theta))
    prior = 0.2 * np.eye(cells.sum()) + 0.7 * kernel[np.ix_(cells, cells)]
    # r = (t - m - mδ) / v, where θ + δ = (1 + prior e) r
    residual = np.linalg.solve(np.diag(v) + m[:, None] * (np.eye(len(e)) + prior * e), t - m + m * old)
    assert np.allclose(told.reshape(-1), 0.7 * kernel[:, cells] @ (e * residual), atol=1e-8)


def world(rows, order):
    """A table of three columns, of which the others follow the first, whose cells come in this order."""
    rng = np.random.default_rng(1)
    age = rng.integers(0, 24, rows)
    sex = (rng.random(rows) < 0.5 + 0.3 * np.sin(age / 6)).astype(int)
    work = np.clip((age / 6 + rng.normal(0, 1.5, rows)).astype(int), 0, 4)
    return Table(coded(24, 2, 5), (np.asarray(order)[age], sex, work))


def pairs_of(estimates):
    """The arguments of `smooth_pairs` for estimates of all pairs."""
    singles = [estimates.marginal((a,))[0] for a in range(3)]
    total = float(estimates.residuals[()].values)
    shares = [np.maximum(p, 1.0) / np.maximum(p, 1.0).sum() for p in singles]
    found, variances = {}, {}
    for s in combinations(range(3), 2):
        found[s] = estimates.marginal(s)[0] - total * np.multiply.outer(shares[s[0]], shares[s[1]])
        variances[s] = estimates.residuals[s].variance
    return found, variances, shares, total


@pytest.mark.parametrize("rho", [0.0005, 0.005, 0.5])
def test_a_column_is_smooth_in_its_own_order_and_in_no_other(rho):
    cost = ZCDP(rho)
    right, _ = estimates_of(world(20_000, np.arange(24)), cost)
    wrong, _ = estimates_of(world(20_000, np.random.default_rng(2).permutation(24)), cost)
    found = smooth_pairs(*pairs_of(right))
    assert set(found) == {(0, 1), (0, 2)}
    assert all(pair.roots[0] is not None and pair.roots[1] is None for pair in found.values())
    assert smooth_pairs(*pairs_of(wrong)) == {}


def test_of_independent_columns_none_is_smooth():
    rng = np.random.default_rng(3)
    for _ in range(20):
        table = Table(coded(24, 2, 9), tuple(rng.integers(0, n, 5_000) for n in (24, 2, 9)))
        estimates, _ = estimates_of(table, ZCDP(0.01))
        assert smooth_pairs(*pairs_of(estimates)) == {}


def test_a_fit_is_nearer_where_cells_are_in_order():
    """The noise of neighbouring cells is averaged."""
    errors = []
    for order in (np.arange(24), np.random.default_rng(2).permutation(24)):
        table = world(20_000, order)
        estimates, workload = estimates_of(table, ZCDP(0.0005))
        start = fit_records(estimates, 1 << 13, rounds=30, rng=np.random.default_rng(0))
        fitted = finish(estimates, 1 << 15, rng=np.random.default_rng(1), start=start)
        errors.append(np.abs(answers(fitted, table.domain, workload) - true_answers(workload, table)).sum())
    assert errors[0] < 0.85 * errors[1]


def test_columns_that_nearly_determine_each_other_are_not_smooth():
    """Along a diagonal what is measured is smooth, but the logarithms of it are not."""
    rng = np.random.default_rng(0)
    u = rng.uniform(size=100_000)
    codes = [np.clip(((u + 0.02 * rng.normal(size=len(u))) * n).astype(int), 0, n - 1) for n in (24, 48, 30)]
    estimates, _ = estimates_of(Table(coded(24, 48, 30), tuple(codes)), ZCDP(0.05))
    assert smooth_pairs(*pairs_of(estimates)) == {}


def test_what_is_too_large_for_memory_is_smooth_along_one_column_alone():
    rng, p = np.random.default_rng(0), np.full(512, 1 / 512)
    wave = np.sin(np.arange(512) / 20)
    residuals = {(0, 1): 50 * np.multiply.outer(wave, wave) + rng.normal(0, 10, (512, 512))}
    pair = smooth_pairs(residuals, {(0, 1): 100.0}, [p, p], 1e8)[0, 1]
    assert sum(r is not None for r in pair.roots) == 1
