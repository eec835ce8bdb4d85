"""The tree of small databases, and its bounds: against full enumeration."""

import itertools
import math

import numpy as np
import pytest
from databases import all_errors
from hypothesis import given
from hypothesis import strategies as st
from worlds import PROPERTY, coded

from qrelease._util.multisets import range_size
from qrelease.errors import TooLarge
from qrelease.mechanisms.small_db.databases import (
    MAX_RANGE,
    MAX_RECORDS,
    TRIED_QUERIES,
    Bounds,
    Databases,
    check_range,
    largest_size,
)
from qrelease.queries.dense import dense
from qrelease.queries.workload import Workload


@st.composite
def instances(draw):
    """Databases, and what a table asks of them: queries with 0/1 or larger entries, with cells alike among them."""
    k, s, m = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    queries = rng.integers(0, draw(st.sampled_from([2, 2, 4])), (k, s))
    n = draw(st.integers(1, 50))
    table = rng.multinomial(n, rng.dirichlet(np.full(s, draw(st.sampled_from([0.2, 1.0])))))
    return Databases.over(queries, m), Bounds(m * (queries @ table), np.full(k, n))


@given(instances())
@PROPERTY
def test_every_database_has_one_number(instance):
    databases, _ = instance
    m, s = databases.records, databases.queries.shape[1]
    found = sorted(tuple(databases.cells(i).tolist()) for i in range(len(databases)))
    assert found == list(itertools.combinations_with_replacement(range(s), m))


@given(instances())
@PROPERTY
def test_errors_are_those_of_the_cells(instance):
    databases, bounds = instance
    expected = all_errors(databases, bounds).tolist()
    assert databases.errors(bounds, np.arange(len(databases))).tolist() == expected
    assert databases.all_errors(bounds).tolist() == expected


@given(instances(), st.floats(0, 0.5), st.one_of(st.floats(-20, 10), st.just(-math.inf), st.just(math.inf)))
@PROPERTY
def test_no_database_in_a_node_beats_its_bound(instance, gamma, tolerance):
    databases, bounds = instance
    cut = databases.cut(bounds, gamma, tolerance, 1 << 12)
    assert cut.complete
    assert cut.counts.sum() == len(databases)
    assert (cut.counts > 0).all()
    assert cut.visited >= cut.counts.size or not len(databases.children)
    at = np.repeat(cut.errors, cut.counts)
    errors = all_errors(databases, bounds)
    assert (at <= errors).all()
    if tolerance == -math.inf:
        assert (at == errors).all()


def test_bounds_are_tight_for_the_best_database_of_one_query():
    """With one query, a node's bound is the error of the best database in it: it knows that answers are integers."""
    databases = Databases.over(np.array([[0, 1, 1, 2, 5, 5]]), 4)
    bounds = Bounds(np.array([4 * 37]), np.array([13]))
    errors = all_errors(databases, bounds)
    for tolerance in (5.0, 1.0, -1.0):
        cut = databases.cut(bounds, 0.05, tolerance, 1 << 10)
        ends = np.cumsum(cut.counts)
        best = [errors[end - count : end].min() for end, count in zip(ends, cut.counts, strict=True)]
        assert (cut.errors <= best).all()
    binary = Databases.over(np.array([[0, 1, 1, 0, 1, 0]]), 4)
    cut = binary.cut(Bounds(np.array([4 * 6]), np.array([13])), 0.05, math.inf, 1 << 10)
    assert cut.errors.tolist() == [abs(24 - 13 * (4 - first)) for first in range(5)]


def test_a_frontier_that_does_not_fit_is_not_complete():
    queries, _ = dense(Workload.marginals(coded(2, 2, 2), 2))
    databases, bounds = Databases.over(queries, 5), Bounds(np.full(12, 100), np.full(12, 80))
    whole = databases.cut(bounds, 0.01, -math.inf, 1 << 12)
    assert whole.complete
    assert whole.counts.size == len(databases) == range_size(8, 5)
    assert not databases.cut(bounds, 0.01, -math.inf, len(databases) - 1).complete
    assert databases.cut(bounds, 0.01, -math.inf, len(databases)).complete


def test_ranges_that_do_not_fit_are_refused():
    assert range_size(64, 10) == math.comb(73, 10)
    with pytest.raises(TooLarge, match="of up to 19 records"):
        check_range(60, 64, 20)
    check_range(60, 64, 19)
    assert largest_size(64) == 19
    assert range_size(64, 19) <= MAX_RANGE < range_size(64, 20)
    assert largest_size(1) == largest_size(2) == MAX_RECORDS
    with pytest.raises(TooLarge, match="entries fit"):
        check_range(1 << 12, 1 << 11, 1)
    with pytest.raises(TooLarge, match="at most 2\\^62"):
        Databases.over(np.ones((1, 2), np.int64), MAX_RECORDS + 1)


def halved_by_medians(block):
    """Which cells of a block (k, c) make its first half, by the medians of all queries themselves."""
    rows = block[block.min(axis=1) < block.max(axis=1)]
    if not len(rows):
        return None
    cuts = [row <= min(np.median(row), row.max() - 1) for row in rows]
    cuts = sorted(cuts, key=lambda cut: abs(cut.mean() - 0.5))[:TRIED_QUERIES]
    return min(cuts, key=lambda cut: sum(int(np.ptp(rows[:, h], axis=1).sum()) * h.sum() for h in (cut, ~cut)))


@given(st.integers(0, 2**32), st.sampled_from([2, 3, 300]), st.floats(0, 1))
@PROPERTY
def test_blocks_are_halved_below_a_median_of_the_query_that_leaves_the_least_spread(seed, entries, dense_part):
    rng = np.random.default_rng(seed)
    k, s = rng.integers(1, 2 * TRIED_QUERIES), rng.integers(1, 12)
    queries = (rng.random((k, s)) < dense_part) * rng.integers(1, rng.choice([2, entries], k)[:, None], (k, s))
    databases = Databases.over(queries, 2)
    ordered = queries[:, databases.order]
    for begin, middle, end in databases.ends:
        block = ordered[:, begin:end]
        first = halved_by_medians(block)
        assert first.tolist() == [True] * (middle - begin) + [False] * (end - middle)
    for begin, end in itertools.pairwise(databases.atoms):
        assert halved_by_medians(ordered[:, begin:end]) is None
