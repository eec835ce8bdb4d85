"""Bounds on how far noise goes on a whole class, against draws."""

import itertools
from collections import Counter

import numpy as np
import pytest
from sessions import DOMAIN, box, subsets

from qrelease.noise import tail_bounds

BOXES = [box(sets) for sets in itertools.product(*(subsets(n) for n in DOMAIN.shape))]


def test_bounds_on_tails_hold_and_are_not_far_above():
    rng = np.random.default_rng(1)
    noise = rng.laplace(size=(40_000, 24))
    rows = np.array([row for _, row in BOXES])
    counts = Counter(rows.sum(axis=1).astype(int).tolist())
    worst = np.abs(noise @ rows.T).max(axis=1)
    reach = tail_bounds.laplace_sums(counts, 0.01)
    assert np.quantile(worst, 0.99) < reach < 1.5 * np.quantile(worst, 0.99)
    norm = np.maximum(np.where(noise > 0, noise, 0).sum(axis=1), np.where(noise < 0, -noise, 0).sum(axis=1))
    reach = tail_bounds.laplace_norm(24, 0.01)
    assert np.quantile(norm, 0.99) < reach < 1.25 * np.quantile(norm, 0.99)
    equal = np.array([*counts], np.float64)
    same = tail_bounds.laplace_averages(equal, np.ones(len(equal)), np.array([*counts.values()], np.float64), 0.01)
    assert same == pytest.approx(tail_bounds.laplace_sums(counts, 0.01), rel=1e-6)
    weights = rng.uniform(0.1, 2, size=rows.shape) * rows
    worst = np.abs(noise @ weights.T).max(axis=1)
    squares, largest = (weights**2).sum(axis=1), weights.max(axis=1)
    reach = tail_bounds.laplace_averages(squares, largest, np.ones(len(rows)), 0.01)
    assert np.quantile(worst, 0.99) < reach < 1.6 * np.quantile(worst, 0.99)
    assert tail_bounds.gaussian_union(np.array([2.0, 0.0]), np.array([1.0, 5.0]), 0.05) == pytest.approx(
        2 * 1.959964, rel=1e-5
    )
