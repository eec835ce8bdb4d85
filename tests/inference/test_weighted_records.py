"""Weighted records: answers, how often each comes, and what is no distribution."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PEOPLE, PROPERTY, coded, full_matrix, mixed

from qrelease.errors import InvalidInput
from qrelease.inference.measurement import RECORDS
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.queries.workload import Workload


def records(seed, count=5, total=30.0):
    rng = np.random.default_rng(seed)
    return WeightedRecords(PEOPLE, rng.integers(0, 24, count), rng.dirichlet(np.ones(count)), total)


@given(st.integers(0, 2**32), st.integers(1, 9))
@PROPERTY
def test_answers_are_those_of_its_histogram(seed, count):
    made = records(seed, count)
    histogram = np.bincount(made.cells, made.weights, 24) * made.total
    np.testing.assert_allclose(made.answer(mixed()), full_matrix(mixed()) @ histogram, atol=1e-9)
    asked = Workload(PEOPLE, (RECORDS,))
    np.testing.assert_allclose(made.answer(asked), [made.total])


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 500))
@PROPERTY
def test_each_record_comes_as_often_as_it_weighs(seed, count, rows):
    made = records(seed, count)
    drawn = made.sample(rows, np.random.default_rng(seed))
    assert [len(column) for column in drawn] == [rows] * 3
    found = np.bincount(np.ravel_multi_index(drawn, PEOPLE.shape), minlength=24)
    expected = np.bincount(made.cells, made.weights, 24) * rows
    assert (np.abs(found - expected) < 1 + np.bincount(made.cells, minlength=24)).all()


def test_records_are_drawn_in_random_order():
    made = WeightedRecords.equal(PEOPLE, np.array([0, 23]), 2.0)
    first = made.sample(200, np.random.default_rng(0))[0]
    assert 60 < np.count_nonzero(first[:100]) + np.count_nonzero(first[100:] == 0) < 140


def test_a_saved_one_is_the_same():
    made = records(3)
    again = WeightedRecords.from_json(PEOPLE, json.loads(json.dumps(made.to_json())))
    assert (again.cells == made.cells).all()
    assert (again.weights == made.weights).all()
    assert again.total == made.total


@pytest.mark.parametrize(
    ("cells", "weights", "why"),
    [
        ([], [], "one weight each"),
        ([[0, 1]], [[0.5, 0.5]], "one weight each"),
        ([0, 1], [1.0], "one weight each"),
        ([24], [1.0], r"cells 0\.\.23"),
        ([-1], [1.0], r"cells 0\.\.23"),
        ([0, 1], [0.5, 0.6], "sum to 1"),
        ([0, 1], [-0.5, 1.5], "sum to 1"),
        ([0], [np.nan], "sum to 1"),
    ],
)
def test_what_is_no_distribution_is_refused(cells, weights, why):
    with pytest.raises(InvalidInput, match=why):
        WeightedRecords(PEOPLE, np.array(cells, np.int64), np.array(weights), 1.0)


def test_another_domain_is_refused():
    with pytest.raises(InvalidInput, match="another domain"):
        records(0).answer(Workload.marginals(coded(2, 4, 3), 1))
