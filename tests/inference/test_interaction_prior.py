"""The prior on interactions: how much residuals vary by it, against tables that are drawn by it."""

from math import inf

import numpy as np
import pytest
from worlds import coded

from qrelease.inference.interaction_prior import (
    STRONG_INTERACTIONS,
    expected_variance,
    prior_variance,
    typical_variance,
)


def test_each_column_more_than_three_makes_interactions_a_twentieth():
    assert [prior_variance(order) for order in (1, 2, 3)] == [20.0, 0.2, 0.01]
    for order in (3, 4, 5, 9):
        assert prior_variance(order + 1) == pytest.approx(prior_variance(order) / 20)


@pytest.mark.parametrize(("records", "cells"), [(200, 100), (20_000, 100), (1_000_000, 1_000)])
def test_counts_vary_as_much_as_where_logarithms_of_chances_have_the_prior_variance(records, cells):
    """Drawn: chances e^z / cells with z normal of the prior's variance, and counts by them."""
    rng = np.random.default_rng(0)
    mean = records / cells
    chances = np.exp(rng.normal(0, np.sqrt(prior_variance(3)), 400_000))
    counts = rng.poisson(mean * chances)
    # The variance of e^z is ω, up to about 1.5 ω² for a small ω.
    assert typical_variance(cells, 3, records) == pytest.approx(counts.var(), rel=0.03)


def test_few_records_vary_as_independent_ones_do_and_many_as_their_interactions():
    assert typical_variance(1_000, 2, 1) == pytest.approx(1 / 1_000, rel=1e-3)
    assert typical_variance(10, 2, 10**9, strength=3.0) == pytest.approx(3 * 0.2 * 10**16, rel=1e-6)


def test_columns_by_themselves_may_be_anything_and_large_interactions_are_planned_for():
    domain = coded(3, 4, 5)
    assert expected_variance(domain, (), 100) == expected_variance(domain, (1,), 100) == inf
    assert expected_variance(domain, (0, 1), 1_000) == typical_variance(12, 2, 1_000)
    assert expected_variance(domain, (0, 1, 2), 1_000) == typical_variance(60, 3, 1_000, STRONG_INTERACTIONS)
    assert expected_variance(domain, (0, 1, 2), 1_000) > typical_variance(60, 3, 1_000)
