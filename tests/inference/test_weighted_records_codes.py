"""Weighted records of codes: answers, rows, a universe beyond any number."""

import json

import numpy as np
import pytest
from fits import some
from worlds import PEOPLE, coded, full_matrix, mixed, random_table, true_answers

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.queries.workload import Workload


def weighted(seed, total=30.0):
    codes, weights, _ = some(seed, 7, PEOPLE.shape)
    return WeightedCodes(PEOPLE, codes, weights, total)


def test_answers_are_those_of_its_histogram():
    made = weighted(5)
    cells = np.ravel_multi_index(tuple(made.codes.astype(np.int64)), PEOPLE.shape)
    expected = full_matrix(mixed()) @ np.bincount(cells, made.weights * made.total, 24)
    np.testing.assert_allclose(made.answer(mixed()), expected, atol=1e-9)


def test_rows_scatter_less_than_independent_ones():
    rng = np.random.default_rng(3)
    domain = coded(4, 3, 5, 2)
    table = random_table(domain, 20_000, 4)
    codes = np.stack([np.asarray(column) for column in table.columns]).astype(np.uint16)
    made = WeightedCodes(domain, codes, rng.dirichlet(np.full(20_000, 5.0)), 1.0)
    asked = Workload.marginals(domain, 2)
    expected = made.answer(asked)

    def error(columns):
        counts = true_answers(asked, Table(domain, tuple(columns)))
        return ((counts / 500 - expected) ** 2).sum()

    ours = [error(made.sample(500, rng)) for _ in range(30)]
    which = [rng.choice(20_000, 500, p=made.weights) for _ in range(30)]
    independent = [error([column[w].astype(np.int64) for column in codes]) for w in which]
    assert np.mean(ours) < 0.8 * np.mean(independent)


def test_no_row_is_a_record_that_is_as_good_as_ruled_out():
    rng = np.random.default_rng(1)
    domain = coded(10, 6, 3, 5, 8, 4)
    codes = np.stack([rng.integers(0, size, 6_000) for size in domain.shape]).astype(np.uint16)
    codes[-1] = np.where(np.arange(6_000) % 4 == 0, 3, codes[-1] % 3)
    weights = np.where(codes[-1] == 3, 1e-12, rng.dirichlet(np.full(6_000, 5.0)))
    made = WeightedCodes(domain, codes, weights / weights.sum(), 1.0)
    drawn = made.sample(1_000, rng)  # where such records are exchanged for, five of these rows are
    assert np.bincount(drawn[-1], minlength=4)[3] == 0


def test_a_universe_beyond_any_number():
    domain = Domain.coded({f"c{i}": 181 for i in range(35)})  # 2^262
    codes = np.random.default_rng(0).integers(181, size=(35, 100)).astype(np.uint16)
    made = WeightedCodes(domain, codes, np.full(100, 0.01), 100.0)
    asked = Workload.marginals(domain, [["c0", "c34"], ["c1", "c2", "c3"]])
    assert made.answer(asked).sum() == pytest.approx(200)
    again = WeightedCodes.from_json(domain, json.loads(json.dumps(made.to_json())), ())
    assert (again.answer(asked) == made.answer(asked)).all()
    assert sorted(made.sample(100, np.random.default_rng(1))[7]) == sorted(codes[7])


@pytest.mark.parametrize(
    ("codes", "weights", "why"),
    [
        (np.zeros((3, 0)), [], "one weight each"),
        (np.zeros((3, 2)), [1.0], "one weight each"),
        (np.zeros((2, 1)), [1.0], "3 codes"),
        (np.full((3, 1), 9), [1.0], "below its column's size"),
        (np.zeros((3, 2)), [1.5, -0.5], "must not be negative"),
        (np.zeros((3, 2)), [0.5, 0.4], "sum to 1"),
    ],
)
def test_records_that_are_none(codes, weights, why):
    with pytest.raises(InvalidInput, match=why):
        WeightedCodes(PEOPLE, codes.astype(np.uint16), np.array(weights), 1.0)
