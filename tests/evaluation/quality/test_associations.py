"""Associations are those of other libraries, and their intervals hold."""

import numpy as np
import pytest
from scipy.stats.contingency import association

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality.associations import (
    Coefficient,
    correlations,
    covariance,
    covariance_gap,
    cramers_v,
    dependence,
    dependence_gap,
    overlap,
    pair_counts,
    regression,
    spread_pairs,
)
from qrelease.evaluation.quality.marginals import cell_counts
from tests.evaluation.quality.tables import DOMAIN, INDEPENDENT, OTHER, REAL, population


def test_associations_are_those_of_other_libraries():
    counts = cell_counts([REAL], (0, 2))[0].reshape(8, 6)
    assert cramers_v(REAL, 0, 2) == pytest.approx(association(counts[:, counts.sum(axis=0) > 0], method="cramer"))
    values = np.column_stack(REAL.columns).astype(float)
    np.testing.assert_allclose(correlations(REAL, range(4)), np.corrcoef(values.T), atol=1e-12)
    constant = Table(DOMAIN, (np.zeros(9, np.uint8), *(c[:9] for c in REAL.columns[1:])))
    assert cramers_v(constant, 0, 1) == 0.0
    assert not np.isnan(correlations(constant, range(4))).any()


def test_dependence_and_covariance_are_their_definitions():
    for pair in ((0, 2), (1, 3), (2, 3)):
        counts = pair_counts(REAL, pair)
        shares = counts / counts.sum()
        product = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        assert float(dependence(counts)) == pytest.approx(np.abs(shares - product).sum() / 2)
        one, other = (REAL.columns[a].astype(float) for a in pair)
        assert float(covariance(counts)) == pytest.approx(np.cov(one, other, bias=True)[0, 1])
        # of so many records that their square is beyond 64 bits
        assert dependence(counts << 24) == dependence(counts)
        assert covariance(counts << 24) == covariance(counts)
    for nothing in (np.zeros((2, 3), np.int64), np.outer([1, 2], [3, 1])):
        assert dependence(nothing) == covariance(nothing) == 0


def test_the_gap_of_covariances_is_that_of_correlations_where_the_deviations_are_the_same():
    pairs = [(0, 2), (0, 3), (2, 3)]
    turned = Table(DOMAIN, (*REAL.columns[:3], 4 - REAL.columns[3]))
    gaps = np.abs(correlations(REAL, range(4)) - correlations(turned, range(4)))
    assert covariance_gap(REAL, turned, pairs) == pytest.approx(np.mean([gaps[p] for p in pairs]))
    assert dependence_gap(REAL, turned, [(0, 2)]) == 0
    assert dependence_gap(REAL, OTHER, pairs) < 0.02 < dependence_gap(REAL, INDEPENDENT, pairs)
    constant = Table(DOMAIN, (np.zeros(9, np.uint8), *(c[:9] for c in REAL.columns[1:])))
    assert np.isnan(covariance_gap(REAL, constant, [(0, 2)]))
    wide = Domain.coded({"a": 1001, "b": 1001})
    few, many = (Table(wide, (np.arange(100) % n, np.arange(100) % 7)) for n in (2, 1001))
    assert spread_pairs(few, [(0, 1)]) == []  # in units of such deviations a record may be two thousand away
    assert len(spread_pairs(many, [(0, 0)])) == 1


def test_intervals_of_coefficients_hold_as_often_as_they_say():
    """Of records whose regression is known; half the width holds too rarely."""
    truth, held, half = {c.name: c.value for c in regression(population(400_000, 99), 2, [0, 1, 3])}, 0, 0
    for seed in range(100, 200):
        for c in regression(population(400, seed), 2, [0, 1, 3]):
            held += abs(c.value - truth[c.name]) <= c.width
            half += abs(c.value - truth[c.name]) <= c.width / 2
    assert 270 <= held <= 297  # of 300, 285 are expected
    assert half < 240


def test_overlaps_of_intervals():
    one = Coefficient("a", 0.0, 1.0)
    assert overlap(one, one) == 1.0
    assert overlap(one, Coefficient("a", 0.0, 2.0)) == 0.75
    assert overlap(one, Coefficient("a", 4.0, 1.0)) == -1.0
