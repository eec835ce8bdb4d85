"""What a release promises: the worst of what the theorem says for any number of records that it may have."""

import math

import pytest

from qrelease.mechanisms.accuracy import BETA, promise


def said(error, records, miss):
    found = promise(error, records, miss, BETA)
    assert found["promise"]["beta"] == BETA
    return found["promise"]["error"]


def test_a_public_number_of_records_has_the_counts_that_the_fraction_is():
    assert said(lambda n: 0.02, 1_000, 0) == pytest.approx(20)


@pytest.mark.parametrize("error", [lambda n: 5 / n, lambda n: 1 / math.sqrt(n), lambda n: 0.3, lambda n: 2 / n**0.9])
def test_of_a_noisy_number_the_worst_that_it_may_be_is_promised(error):
    counts = [error(n) * n for n in range(870, 1_131)]
    assert said(error, 1_000, 130) == pytest.approx(max(counts))


def test_it_is_asked_of_no_fewer_than_one_record():
    asked = []
    assert said(lambda n: asked.append(n) or 1 / n, -3.0, 10) == pytest.approx(1)
    assert asked == [1.0, 7.0]


@pytest.mark.parametrize(
    ("error", "records", "miss"),
    [
        (lambda n: math.inf if n < 900 else 0.1, 1_000, 130),  # a table that may be too small for the theorem
        (lambda n: math.nan, 1_000, 0),
        (lambda n: 0.1, -20.0, 10),  # known to be empty
        (lambda n: 0.1, 0.0, 0),
    ],
)
def test_where_the_theorem_says_nothing_nothing_is_promised(error, records, miss):
    assert said(error, records, miss) is None
