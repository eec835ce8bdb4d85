"""Trained models: their null, and a column that another gives."""

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality import models
from qrelease.evaluation.quality.copies import part
from tests.evaluation.quality.tables import population


def test_two_samples_of_one_population_have_a_ratio_near_one():
    """The null of the propensity score, on average; that of half as many effects would be twice as far."""
    pytest.importorskip("sklearn")
    ratios = [
        models.told_apart(population(1500, s), population(1500, 50 + s), np.random.default_rng(s)).pmse_ratio
        for s in range(12)
    ]
    assert 0.5 < np.mean(ratios) < 1.6


def test_the_propensity_score_tells_independent_columns_from_real_ones():
    """They have the same single columns: a regression on these alone cannot tell, and has a ratio near one."""
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    real, second = population(3000, 1), population(3000, 2)
    independent = Table(real.domain, tuple(rng.permutation(column) for column in second.columns))
    assert models.told_apart(real, second, rng).pmse_ratio < 2
    assert models.told_apart(real, independent, rng).pmse_ratio > 4


def test_the_propensity_score_of_more_pairs_than_are_taken_is_of_some_of_them():
    """35 columns have 595 pairs; without any the two samples, of which one repeats a column, have a ratio near one."""
    pytest.importorskip("sklearn")
    domain, rng = Domain.coded({f"c{i}": 2 for i in range(35)}), np.random.default_rng(3)
    independent = Table(domain, tuple(rng.integers(0, 2, 2000) for _ in range(35)))
    column = rng.integers(0, 2, 2000)
    same = Table(domain, tuple(np.where(rng.random(2000) < 0.8, column, rng.integers(0, 2, 2000)) for _ in range(35)))
    assert models.told_apart(independent, same, rng).pmse_ratio > 3


def test_a_column_that_another_gives_exactly_is_foretold_though_some_of_its_cells_are_rare():
    """Where boosting without a penalty diverges: there the area is 0.60."""
    pytest.importorskip("sklearn")
    domain, rng = Domain.coded({"a": 16, "b": 16, **{f"c{i}": 8 for i in range(5)}}), np.random.default_rng(4)
    a = rng.choice(16, 12_000, p=0.7 ** np.arange(16) / (0.7 ** np.arange(16)).sum())
    b = np.random.default_rng(5).permutation(16)[a]
    table = Table(domain, (a, b, *(rng.integers(0, 8, 12_000) for _ in range(5))))
    assert min(models.prediction_scores(part(table, slice(0, 6000)), part(table, slice(6000, 12_000)), 1)) > 0.97
