"""Shrunk means and counts: bars that cover, errors below the unbiased ones, nothing divided by an empty group."""

from itertools import product

import numpy as np
import pytest

from qrelease.inference.small_areas import (
    TableNoise,
    given_spread,
    of_means,
    of_tables,
    shrunk_counts,
    shrunk_means,
    shrunk_shares,
    shrunk_totals,
)


def own_noise(sums, counts):
    """Of two tables of independent cells."""
    return TableNoise(sums), TableNoise(counts)


def shared_noise(rng, shape, parts):
    """Noise of a table with these variances of its sum and contrasts, 1 of the rest; and what is said of it."""
    noise = rng.normal(size=shape)
    cells, sizes = noise.size, (1, *(n - 1 for n in shape))
    several = len(shape) > 1
    kept = noise.mean(keepdims=True)
    found = (noise - kept) * (1.0 if several else np.sqrt(parts[1])) + kept * np.sqrt(parts[0])
    for axis, variance in enumerate(parts[1:] if several else ()):
        others = tuple(i for i in range(len(shape)) if i != axis)
        found = found + (noise.mean(axis=others, keepdims=True) - kept) * (np.sqrt(variance) - 1)
    known = sum(n * v for n, v in zip(sizes, parts, strict=True)) + (cells - sum(sizes))
    return found.reshape(-1), TableNoise(known / cells, parts)


def world(seed, shape, spread, noise):
    """Groups of very different sizes whose means are additive in the columns, but for a spread."""
    rng = np.random.default_rng(seed)
    effects = [rng.normal(0, 0.2, n) for n in shape]
    means = sum(np.meshgrid(*effects, indexing="ij")).reshape(-1) + rng.normal(0, spread, int(np.prod(shape)))
    means = np.clip(means, -1, 1)
    counts = np.rint(np.exp(rng.uniform(0, 7, len(means))))
    sums = means * counts + rng.normal(0, noise, len(means))
    return means, counts, sums, counts + rng.normal(0, noise, len(means))


@pytest.mark.parametrize(("shape", "spread", "noise"), [((30,), 0.1, 10.0), ((8, 5), 0.05, 20.0), ((8, 5), 0.3, 5.0)])
def test_bars_cover_and_errors_shrink(shape, spread, noise):
    inside, better = [], []
    for seed in range(25):
        means, _, sums, counts = world(seed, shape, spread, noise)
        found, half = shrunk_means(sums, counts, own_noise(noise**2, noise**2), shape)
        inside.append(np.abs(found - means) <= half)
        ratio = np.clip(np.where(counts > 0, sums / counts, 0), -1, 1)
        better.append(((found - means) ** 2).mean() / ((ratio - means) ** 2).mean())
    assert 0.93 <= np.mean(inside) <= 0.99
    assert np.median(better) < 0.7


@pytest.mark.parametrize(("groups", "size", "within"), [(400, 3750, 0.07), (40, 400, 0.3), (100, 3750, 0.07)])
def test_bars_cover_where_groups_are_alike_and_noise_hides_how_much_their_records_differ(groups, size, within):
    """With a few standard deviations, each as likely as the others, bars were too narrow."""
    inside = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        counts = np.rint(rng.gamma(1.0, size, groups)) + 1
        means = -0.4 + within / np.sqrt(counts) * rng.normal(size=groups)
        sums, noisy = means * counts + rng.normal(0, 8.0, groups), counts + rng.normal(0, 8.0, groups)
        found, half = shrunk_means(sums, noisy, own_noise(64.0, 64.0), (groups,))
        inside.append(np.mean(np.abs(found - means) <= half))
    assert 0.93 <= np.mean(inside) <= 0.985


@pytest.mark.parametrize("shape", [(8, 5), (12, 3)])
def test_groups_borrow_from_others_with_the_same_cells(shape):
    """Much less error than where the same groups have a grand mean in common alone."""
    errors, apart = [], []
    for seed in range(12):
        means, _, sums, counts = world(seed, shape, 0.05, 40.0)
        errors.append(((shrunk_means(sums, counts, own_noise(1600.0, 1600.0), shape)[0] - means) ** 2).mean())
        apart.append(((shrunk_means(sums, counts, own_noise(1600.0, 1600.0), (len(means),))[0] - means) ** 2).mean())
    assert np.mean(errors) < 0.85 * np.mean(apart)


@pytest.mark.parametrize(("shape", "ordered"), [((16,), (16,)), ((13,), (12,)), ((12, 3), (12, 0)), ((30,), (30,))])
def test_groups_in_order_borrow_from_their_neighbours(shape, ordered):
    """Less error where means go up with the column, and bars that cover; where they do not no harm is done."""
    errors, apart, inside = {True: [], False: []}, {True: [], False: []}, []
    for trend, seed in product([True, False], range(15)):
        rng = np.random.default_rng(seed)
        steps = np.linspace(-0.5, 0.5, shape[0]) if trend else rng.normal(0, 0.3, shape[0])
        means = np.repeat(steps, int(np.prod(shape)) // shape[0]) + rng.normal(0, 0.03, int(np.prod(shape)))
        counts = np.rint(np.exp(rng.uniform(2, 7, len(means))))
        sums, noisy = (x + rng.normal(0, 40.0, len(means)) for x in (means * counts, counts))
        found, half = shrunk_means(sums, noisy, own_noise(1600.0, 1600.0), shape, ordered)
        errors[trend].append(((found - means) ** 2).mean())
        apart[trend].append(((shrunk_means(sums, noisy, own_noise(1600.0, 1600.0), shape)[0] - means) ** 2).mean())
        inside.append(np.abs(found - means) <= half)
    assert np.mean(errors[True]) < 0.8 * np.mean(apart[True])
    assert np.mean(errors[False]) < 1.1 * np.mean(apart[False])
    assert np.mean(np.concatenate(inside)) >= 0.93


def test_two_cells_in_order_and_very_many_are_as_if_they_were_in_none():
    """Of two there is none between others; of 30 000 the walk would take long."""
    rng = np.random.default_rng(2)
    for shape, ordered in (((2, 3), (2, 0)), ((30_000,), (30_000,))):
        k = int(np.prod(shape))
        sums, counts = rng.normal(0, 30, k), rng.uniform(0, 300, k)
        found = shrunk_means(sums, counts, own_noise(400.0, 400.0), shape, ordered)
        np.testing.assert_array_equal(found, shrunk_means(sums, counts, own_noise(400.0, 400.0), shape))


def test_columns_that_say_nothing_do_no_harm():
    """Groups that differ by no column: what the columns are thought to say is next to nothing."""
    errors, apart = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        means, counts = rng.uniform(-0.5, 0.5, 40), np.rint(np.exp(rng.uniform(0, 7, 40)))
        sums, noisy = means * counts + rng.normal(0, 20.0, 40), counts + rng.normal(0, 20.0, 40)
        errors.append(((shrunk_means(sums, noisy, own_noise(400.0, 400.0), (8, 5))[0] - means) ** 2).mean())
        apart.append(((shrunk_means(sums, noisy, own_noise(400.0, 400.0), (40,))[0] - means) ** 2).mean())
    assert np.mean(errors) < 1.1 * np.mean(apart)


def test_bars_a_third_too_narrow_would_be_noticed():
    inside = []
    for seed in range(25):
        means, _, sums, counts = world(seed, (30,), 0.1, 10.0)
        found, half = shrunk_means(sums, counts, own_noise(100.0, 100.0), (30,))
        inside.append(np.abs(found - means) <= 0.7 * half)
    assert np.mean(inside) < 0.92


def test_large_groups_stay_where_they_are_and_empty_ones_get_the_margin():
    counts = np.array([1e6, 1e6, 0.0, -5.0])
    sums = np.array([0.3e6, -0.1e6, 3.0, -4.0])
    found, half = shrunk_means(sums, counts, own_noise(25.0, 25.0), (4,))
    np.testing.assert_allclose(found[:2], [0.3, -0.1], atol=1e-3)
    assert (half[2:] > 10 * half[:2]).all()
    assert np.isfinite(found).all()


def test_one_group_and_no_noise():
    found, half = shrunk_means(np.array([30.0]), np.array([100.0]), own_noise(1e-6, 1e-6), (1,))
    assert found[0] == pytest.approx(0.3, abs=1e-4)
    assert half[0] < 0.01


@pytest.mark.parametrize("line", [(1.0, 1.0), (0.0, 1.0), (-3.0, 1.0)])
@pytest.mark.parametrize(("shape", "spread", "noise"), [((30,), 0.1, 10.0), ((8, 5), 0.05, 40.0), ((8, 5), 0.3, 5.0)])
def test_bars_of_totals_cover_and_their_errors_are_no_larger(shape, spread, noise, line):
    """Of values in 0..2, -1..1 and -4..-2; bars half as wide would be noticed."""
    middle, half = line
    inside, narrow, better = [], [], []
    for seed in range(25):
        means, true, sums, counts = world(seed, shape, spread, noise)
        found, reach = shrunk_totals(sums, counts, own_noise(noise**2, noise**2), line, shape)
        off = np.abs(found - true * (middle + half * means))
        inside.append(off <= reach)
        narrow.append(off <= 0.5 * reach)
        unbiased = middle * counts + half * sums
        better.append((off**2).mean() / ((unbiased - true * (middle + half * means)) ** 2).mean())
    assert 0.93 <= np.mean(inside) <= 0.99
    assert np.mean(narrow) < 0.9
    assert np.mean(better) < 1.0
    assert spread > 0.1 or middle < 0 or np.mean(better) < 0.8


def test_totals_of_groups_that_are_alike_have_the_error_of_their_counts():
    """Where the middle of the values is 0 a count times the mean that all have in common is next to exact."""
    rng = np.random.default_rng(8)
    counts = np.full(40, 1000.0)
    sums, noisy = 0.1 * counts + rng.normal(0, 100.0, 40), counts + rng.normal(0, 10.0, 40)
    found, half = shrunk_totals(sums, noisy, own_noise(1e4, 100.0), (0.0, 2.0), (40,))
    assert np.sqrt(((found - 200.0) ** 2).mean()) < 0.5 * np.sqrt(((2 * sums - 200.0) ** 2).mean())
    assert np.mean(np.abs(found - 200.0) <= half) >= 0.93


def test_the_total_of_one_group_is_the_measured_one():
    found, half = shrunk_totals(np.array([30.0]), np.array([100.0]), own_noise(9.0, 16.0), (3.0, 2.0), (1,))
    assert found[0] == pytest.approx(360.0)
    assert half[0] == pytest.approx(1.96 * np.hypot(3 * 4.0, 2 * 3.0))


def many(seed, kind):
    """True counts of 300 groups: sparse, of all sizes, or alike, which no mixture of exponentials is."""
    rng = np.random.default_rng(seed)
    if kind == "sparse":
        return np.where(rng.random(300) < 0.6, 0.0, np.rint(rng.exponential(40, 300)))
    return np.rint(np.exp(rng.uniform(0, 8, 300))) if kind == "sizes" else np.full(300, 50.0)


@pytest.mark.parametrize(("kind", "gain"), [("sparse", 0.6), ("sizes", 0.93), ("alike", 0.9)])
def test_errors_of_counts_shrink(kind, gain):
    errors, plain = [], []
    for seed in range(12):
        counts = many(seed, kind)
        noisy = counts + np.random.default_rng(seed + 100).normal(0, 20.0, 300)
        found = shrunk_counts(noisy, 400.0, (300,))
        assert (found >= 0).all()
        errors.append(((found - counts) ** 2).mean())
        plain.append(((noisy - counts) ** 2).mean())
    assert np.mean(errors) < gain * np.mean(plain)


@pytest.mark.parametrize(("apart", "most"), [(0.2, 0.8), (2.0, 1.03)])
def test_counts_by_two_columns_borrow_from_what_the_columns_show(apart, most):
    """Much where they are nearly independent; where they are not, the cells as they come do as well."""
    errors, plain = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows, columns = np.exp(rng.normal(0, 1.2, 15)), np.exp(rng.normal(0, 1.2, 12))
        counts = np.rint(30 * np.outer(rows, columns) * np.exp(rng.normal(0, apart, (15, 12)))).reshape(-1)
        noisy = counts + rng.normal(0, 40.0, 180)
        errors.append(((shrunk_counts(noisy, 1600.0, (15, 12)) - counts) ** 2).mean())
        plain.append(((shrunk_counts(noisy, 1600.0, (180,)) - counts) ** 2).mean())
    assert np.mean(errors) < most * np.mean(plain)


def test_the_mean_of_a_count_is_that_of_the_mixture():
    """Of one prior alone, an exponential of the same scale for all, the mean by numerical integration."""
    rng = np.random.default_rng(7)
    true = rng.exponential(8 * 5.0, 8000)
    noisy = true + rng.normal(0, 5.0, 8000)
    found = shrunk_counts(noisy, 25.0, (8000,))
    x = np.linspace(0, 400, 8001)
    for at in (10, 1000, 5000):
        density = np.exp(-x / 40 - (noisy[at] - x) ** 2 / 50)
        assert found[at] == pytest.approx((x * density).sum() / density.sum(), abs=1.0)


def test_few_counts_and_exact_ones_stay_as_they_are():
    for counts, variance in ((np.array([-3.0, 4.0]), 4.0), (np.arange(20.0), 0.0)):
        np.testing.assert_array_equal(shrunk_counts(counts, variance, counts.shape), counts)
    assert np.isfinite(shrunk_counts(np.array([-1e4, 1e6, *range(20)]), 4.0, (22,))).all()


def test_shares_of_parts_whose_noise_is_that_of_their_groups_too():
    """Where part and rest have noise of one variance, the sum of signs and the count have independent noise."""
    rng, size, variance = np.random.default_rng(3), np.array([900.0, 300.0, 60.0, 8.0, 0.0]), 400.0
    part = 0.3 * size + rng.normal(0, variance**0.5, 5)
    rest = 0.7 * size + rng.normal(0, variance**0.5, 5)
    mean, half = shrunk_means(part - rest, part + rest, own_noise(2 * variance, 2 * variance), (5,))
    noise = np.array([variance]), np.array([2 * variance]), np.array([variance])
    share, bar = shrunk_shares(part, part + rest, noise, (5,))
    assert share == pytest.approx((1 + mean) / 2)
    assert bar == pytest.approx(half / 2)
    independent = np.array([variance]), np.array([2 * variance]), np.array([0.0])
    assert shrunk_shares(part, part + rest, independent, (5,))[1].sum() > 1.05 * bar.sum()


@pytest.mark.parametrize(("shape", "parts"), [((5,), (0.1, 1.0)), ((5,), (30.0, 1.0)), ((4, 3), (0.2, 3.0, 0.5))])
def test_what_noise_shares_is_in_the_posterior(shape, parts):
    """As of normal vectors with the whole covariance, whose entries are written down cell by cell."""
    rng = np.random.default_rng(3)
    cells = int(np.prod(shape))
    size, mean, spread = rng.uniform(5, 40, cells), rng.uniform(-0.5, 0.5, cells), rng.uniform(0.01, 0.1, (2, cells))
    scaled = [tuple(4.0 * v for v in parts), tuple(9.0 * v for v in parts)]
    tables, covariances = [], []
    for own, variances in zip((4.0, 9.0), scaled, strict=True):
        flat = [np.full((n, n), 1 / n) for n in shape]
        projectors = [np.eye(1), *(np.eye(1) for _ in shape)]
        for axis, n in enumerate(shape):
            projectors[0] = np.kron(projectors[0], flat[axis])
            for other in range(len(shape)):
                part = np.eye(n) - flat[axis] if other == axis else flat[axis]
                projectors[1 + other] = np.kron(projectors[1 + other], part)
        rest = np.eye(cells) - sum(projectors)
        covariance = own * rest + sum(v * p for v, p in zip(variances, projectors, strict=True))
        covariances.append(covariance)
        tables.append(TableNoise(float(covariance[0, 0]), variances))
    noise = of_tables(*tables, shape)(mean)
    whole = covariances[0] + mean[:, None] * covariances[1] * mean
    shared = noise.shared @ np.diag(1 / noise.inverse) @ noise.shared.T
    np.testing.assert_allclose(np.diag(noise.own) + shared, whole, atol=1e-9)
    sums, design, penalty = rng.normal(0, 5, cells), rng.normal(size=(cells, 2)), np.array([2.0, 5.0])
    logs, known = given_spread(sums, size, noise, design, penalty, spread)
    found, variance = of_means(sums, size, noise)(known)
    dense = []
    for i, d in enumerate(spread):
        prior = design @ np.diag(1 / penalty) @ design.T + np.diag(d)
        total = size[:, None] * prior * size + whole
        gain = (prior * size) @ np.linalg.inv(total)
        np.testing.assert_allclose(found[i], gain @ sums, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(variance[i], np.diag(prior - gain @ (size[:, None] * prior)), rtol=1e-7)
        dense.append(-0.5 * (sums @ np.linalg.solve(total, sums) + np.linalg.slogdet(total)[1]))
    assert logs[1] - logs[0] == pytest.approx(dense[1] - dense[0])


@pytest.mark.parametrize("shape", [(16,), (8, 4)])
def test_a_sum_that_is_better_known_than_its_cells_brings_the_groups_nearer(shape):
    errors, apart, inside = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        counts, parts = rng.uniform(50, 400, int(np.prod(shape))), (0.01, *(1.0 for _ in shape))
        means = rng.normal(0.2, 0.01, len(counts))
        of_sums, said = shared_noise(rng, shape, parts)
        of_counts, _ = shared_noise(rng, shape, parts)
        noise = TableNoise(3600 * said.variance, tuple(3600 * v for v in parts))
        sums, noisy = means * counts + 60 * of_sums, counts + 60 * of_counts
        found, half = shrunk_means(sums, noisy, (noise, noise), shape)
        errors.append(((found - means) ** 2).mean())
        alone = own_noise(noise.variance, noise.variance)
        apart.append(((shrunk_means(sums, noisy, alone, shape)[0] - means) ** 2).mean())
        inside.append(np.abs(found - means) <= half)
    assert np.mean(errors) < 0.95 * np.mean(apart)
    assert np.mean(inside) >= 0.93


def test_bars_cover_where_a_sum_is_worse_known_than_its_cells():
    """And would not, were cells taken to be independent."""
    inside, narrow = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        counts, means = rng.uniform(300, 400, 12), rng.normal(0.2, 0.01, 12)
        of_sums, said = shared_noise(rng, (12,), (20.0, 1.0))
        noise = TableNoise(100 * said.variance, (2000.0, 100.0)), TableNoise(1.0)
        sums, noisy = means * counts + 10 * of_sums, counts + rng.normal(size=12)
        found, half = shrunk_means(sums, noisy, noise, (12,))
        inside.append(np.abs(found - means) <= half)
        found, half = shrunk_means(sums, noisy, own_noise(noise[0].variance, 1.0), (12,))
        narrow.append(np.abs(found - means) <= half)
    assert np.mean(inside) >= 0.93
    assert np.mean(narrow) < 0.91
