"""VC dimensions against brute force and known values; how small a database covers a class, against search."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PROPERTY, coded, mixed, repeated

from qrelease.errors import InvalidInput, TooLarge
from qrelease.queries import vc
from qrelease.queries.dense import dense
from qrelease.queries.workload import Workload


def explicit(rows):
    return repeated(coded(np.shape(rows)[1]), rows)


def shattered(rows, cells):
    return len({tuple(row) for row in rows[:, cells].tolist()}) == 2 ** len(cells)


def by_brute_force(rows):
    cells = range(rows.shape[1])
    return max(
        d for d in range(rows.shape[1] + 1) if any(shattered(rows, list(c)) for c in itertools.combinations(cells, d))
    )


@given(st.integers(1, 40), st.integers(1, 7), st.integers(0, 2**32))
@PROPERTY
def test_the_dimension_is_that_of_brute_force(k, s, seed):
    rows = np.random.default_rng(seed).integers(0, 2, (k, s))
    assert vc.vc_dimension(explicit(rows)) == by_brute_force(rows)


@pytest.mark.parametrize("values", range(1, 8))
def test_prefixes_and_ranges(values):
    assert vc.vc_dimension(Workload.prefixes(coded(values), "a")) == vc.prefixes(values)
    assert vc.vc_dimension(Workload.ranges(coded(values), "a")) == vc.ranges(values)


def every(family, *sizes):
    """Products of a family of 0/1 rows on each column, over the universe of all columns."""
    parts = [family(n) for n in sizes]
    return np.array([np.prod(np.meshgrid(*rows, indexing="ij"), axis=0).ravel() for rows in itertools.product(*parts)])


def intervals(n):
    return [[int(a <= i <= b) for i in range(n)] for a in range(n) for b in range(a, n)]


@pytest.mark.parametrize("sizes", [(3,), (3, 3), (4, 3)])
def test_boxes(sizes):
    assert vc.vc_dimension(explicit(every(intervals, *sizes))) == vc.boxes(len(sizes))


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_conjunctions(columns):
    rows = every(lambda _: [[1, 1], [1, 0], [0, 1]], *[2] * columns)
    rows = np.vstack([rows, np.zeros_like(rows[:1])])  # a literal and its negation
    assert vc.vc_dimension(explicit(rows)) == vc.conjunctions(columns)
    rows = every(lambda _: [[1, 1], [0, 1]], *[2] * columns)
    assert vc.vc_dimension(explicit(rows)) == vc.conjunctions(columns, negations=False)


def test_what_has_no_dimension_or_too_large_a_class_is_refused(monkeypatch):
    with pytest.raises(InvalidInput, match="only counting queries"):
        vc.vc_dimension(mixed())
    monkeypatch.setattr(vc, "MAX_TESTS", 100)
    with pytest.raises(TooLarge, match="between 2 and"):
        vc.vc_dimension(Workload.ranges(coded(40), "a"))


@pytest.mark.parametrize("known", [vc.prefixes, vc.ranges, vc.boxes, vc.conjunctions])
@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, None])
def test_known_values_are_for_whole_numbers(known, wrong):
    with pytest.raises(InvalidInput):
        known(wrong)


@given(st.integers(0, 6), st.integers(0, 11))
def test_sauers_number(dimension, points):
    assert vc.sauer(dimension, points) == sum(
        1 for d in range(dimension + 1) for _ in itertools.combinations(range(points), d)
    )


# --- how small a database answers like any table -----------------------------------------------------------------


@given(st.floats(0.001, 0.999), st.integers(1, 10**6), st.one_of(st.none(), st.integers(0, 5)))
@PROPERTY
def test_size_and_radius_agree(alpha, queries, dimension):
    size = vc.small_database_size(alpha, queries, dimension)
    if queries >= 2:
        assert vc.small_database_error(size, queries, dimension) <= alpha
        assert size <= math.ceil(math.log(queries) / alpha**2)  # the textbook's
    if dimension is not None:
        assert size == vc.small_database_size(alpha, queries) or vc.error_by_dimension(size, dimension) <= alpha


@given(st.integers(1, 200), st.integers(1, 10**6), st.integers(0, 5))
@PROPERTY
def test_larger_databases_and_smaller_classes_are_closer(records, queries, dimension):
    radius = vc.small_database_error(records, queries, dimension)
    assert 0 < radius <= 1
    assert vc.small_database_error(records + 1, queries, dimension) <= radius
    assert radius <= vc.small_database_error(records, queries + 1, dimension + 1)
    assert radius <= vc.small_database_error(records, queries)


@pytest.mark.parametrize("records", [1, 2, 3, 5])
@pytest.mark.parametrize("workload", [Workload.marginals(coded(2, 2), 2), Workload.ranges(coded(4), "a")])
def test_some_small_database_is_as_near_as_promised(records, workload):
    rows, _ = dense(workload)
    small = np.array(list(itertools.combinations_with_replacement(range(rows.shape[1]), records)))
    answers = rows[:, small].mean(axis=2)
    promised = vc.small_database_error(records, len(workload), vc.vc_dimension(workload))
    rng = np.random.default_rng(records)
    tables = [*np.eye(4), np.full(4, 0.25), *rng.dirichlet(np.full(4, 0.5), 300)]
    worst = max(np.abs(rows @ x - answers.T).max(axis=1).min() for x in tables)
    assert worst <= promised


@pytest.mark.parametrize("alpha", [0, 1, -0.1, math.nan, "0.5", True])
def test_alpha_is_a_fraction(alpha):
    with pytest.raises(InvalidInput, match="alpha"):
        vc.small_database_size(alpha, 10)
