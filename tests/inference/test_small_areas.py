"""Shrunk means: bars that cover, errors below the unbiased ones, nothing divided by an empty group."""

import numpy as np
import pytest

from qrelease.inference.small_areas import shrunk


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
        found, half = shrunk(sums, counts, (noise**2, noise**2), shape)
        inside.append(np.abs(found - means) <= half)
        ratio = np.clip(np.where(counts > 0, sums / counts, 0), -1, 1)
        better.append(((found - means) ** 2).mean() / ((ratio - means) ** 2).mean())
    assert 0.93 <= np.mean(inside) <= 0.985
    assert np.median(better) < 0.7


def test_bars_a_third_too_narrow_would_be_noticed():
    inside = []
    for seed in range(25):
        means, _, sums, counts = world(seed, (30,), 0.1, 10.0)
        found, half = shrunk(sums, counts, (100.0, 100.0), (30,))
        inside.append(np.abs(found - means) <= 0.7 * half)
    assert np.mean(inside) < 0.92


def test_large_groups_stay_where_they_are_and_empty_ones_get_the_margin():
    counts = np.array([1e6, 1e6, 0.0, -5.0])
    sums = np.array([0.3e6, -0.1e6, 3.0, -4.0])
    found, half = shrunk(sums, counts, (25.0, 25.0), (4,))
    np.testing.assert_allclose(found[:2], [0.3, -0.1], atol=1e-3)
    assert (half[2:] > 10 * half[:2]).all()
    assert np.isfinite(found).all()


def test_one_group_and_no_noise():
    found, half = shrunk(np.array([30.0]), np.array([100.0]), (1e-6, 1e-6), (1,))
    assert found[0] == pytest.approx(0.3, abs=1e-4)
    assert half[0] < 0.01
