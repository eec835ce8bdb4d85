"""A number of the output in cells: each counted, with its likelihood ratio, and said in words."""

import math
from collections import Counter

import numpy as np
import pytest

from qrelease.evaluation.audit.cells import BinnedColumn, log_ratio
from qrelease.evaluation.audit.features import MAX_SINGLE_VALUES

NAN, INF = float("nan"), float("inf")


def column_of(first, second, words=None):
    return BinnedColumn.of(0, "x", np.array(first, float), np.array(second, float), words or {})


@pytest.mark.parametrize(("a", "b"), [(100, 20), (20, 100), (1000, 0), (0, 5), (7, 1)])
def test_a_ratio_is_that_of_the_counts_less_a_standard_error(a, b):
    (found,) = log_ratio(np.array([a]), np.array([b]))
    plain = math.log((a + 0.5) / (b + 0.5))
    error = math.sqrt(1 / (a + 0.5) + 1 / (b + 0.5))
    assert found == pytest.approx(math.copysign(abs(plain) - error, plain))


def test_what_may_be_chance_has_no_ratio_and_many_runs_have_the_true_one():
    assert log_ratio(np.array([10, 0, 12]), np.array([10, 0, 10])).tolist() == [0, 0, 0]
    (found,) = log_ratio(np.array([30_000_000]), np.array([10_000_000]))
    assert found == pytest.approx(math.log(3), abs=1e-3)


def test_of_few_values_each_is_a_cell_and_so_is_what_is_missing():
    first, second = [1, 1, 1, 1, 2.5, NAN], [2.5] * 9 + [7, NAN]
    found = column_of(first, second)
    assert found.single
    assert found.edges.tolist() == [1, 2.5, 7]
    assert found.count == 5
    codes = found.codes(np.array([[0.0], [1], [2], [2.5], [7], [8], [INF], [-INF], [NAN]]))
    assert codes.tolist() == [0, 1, 1, 2, 3, 3, 3, 0, 4]
    times = [Counter("nan" if math.isnan(v) else v for v in side) for side in (first, second)]
    counts = [[0, *(t[v] for v in (1, 2.5, 7)), t["nan"]] for t in times]
    assert found.ratio == pytest.approx(log_ratio(*map(np.array, counts)))
    assert found.ratio[1] > 0 > found.ratio[2]
    assert found.ratios(np.array([[1.0], [2.5]])).tolist() == [found.ratio[1], found.ratio[2]]


def test_many_values_are_cut_into_cells_of_about_as_many():
    values = np.random.default_rng(0).normal(size=20_000)
    found = column_of(values[:10_000], values[10_000:])
    assert not found.single
    assert found.edges.size == MAX_SINGLE_VALUES
    assert set(found.edges) <= set(values)
    counts = np.bincount(found.codes(values[:, None]), minlength=found.count)
    # None is below the least or missing, and the last cell holds the largest value alone.
    assert (counts[0], counts[-2], counts[-1]) == (0, 1, 0)
    share = 20_000 / (MAX_SINGLE_VALUES - 1)
    assert (np.abs(counts[1:-2] - share) <= 2).all()


def test_a_column_reads_its_own_number_of_an_output():
    found = BinnedColumn.of(1, "x", np.array([0.0, 1.0]), np.array([1.0, 1.0]), {})
    assert found.codes(np.array([[9.0, 0.0], [9.0, 1.0], [9.0, NAN]])).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ((1, 1), "1"),
        ((1, 3), "1 or 'yes' or 7"),
        ((1, 4), "from 1 below 9"),
        ((0, 1), "below 'yes'"),
        ((4, 5), "8 or 9"),
        ((2, 5), "from 'yes'"),
        ((0, 5), "not missing"),
        ((5, 6), "9 or missing"),
        ((6, 6), "missing"),
        ((0, 6), "anything"),
    ],
)
def test_cells_are_said_in_words(codes, said):
    found = column_of([1, 2.5, 7], [8, 9, NAN], {2.5: "'yes'"})
    assert found.describe_codes(*codes) == said


def test_cells_of_a_ratio_are_said_run_by_run_and_the_first_of_them_only():
    found = column_of([0, 2, 4, 6, 8] * 50, [1, 3, 5, 7, 9] * 50)
    assert found.describe_ratios(0.1, INF) == "x is 0 or 2 or 4 or in 2 more ranges"
    assert found.describe_ratios(-INF, -0.1) == "x is 1 or 3 or 5 or in 2 more ranges"
    assert found.describe_ratios(100, INF) == "x is nothing learned"
    assert found.describe_ratios(-INF, INF) == "x is anything"
