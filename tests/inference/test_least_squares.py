"""Least squares by integer rows: the estimates and their bars are those of dense algebra."""

import json

import numpy as np
import pytest
from worlds import coded, full_matrix

from qrelease.errors import InvalidInput
from qrelease.inference.least_squares import LeastSquares
from qrelease.inference.measurement import Measurement
from qrelease.noise.distributions import Noise
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group, Workload

DOMAIN = coded(3, 2, 4)
A = np.array([[2, 0, 1], [1, 1, 1], [0, 3, -1], [1, 0, 0]])
C = np.array([[1, 1, 1, 1], [4, 0, 0, 0], [0, 2, 1, 0], [0, 0, 1, -2], [1, 0, 1, 0]])
ASKED = (
    Workload.marginals(DOMAIN, [["a", "c"], ["c"], []])
    + Workload.predicates(DOMAIN, "a in 1..2 and c != 3")
    + Workload.ranges(DOMAIN, "c")
)


def rows(numbers, unit=0.5):
    return IntegerRows(np.asarray(numbers, np.int64), unit)


def estimated(queries, axes=(0, 2), records=None, seed=0):
    values = np.random.default_rng(seed).normal(50, 20, queries.count)
    measurement = Measurement(Group(axes, queries), values, Noise("discrete Gaussian", 3.0), repeats=2)
    return LeastSquares.of(DOMAIN, measurement, records), values


FAMILIES = {
    "a row of rows each": (Product((rows(A), rows(C, 0.25))), np.kron(A * 0.5, C * 0.25)),
    "rows over both": (rows(np.kron(A, C)), np.kron(A, C) * 0.5),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_and_bars_are_those_of_dense_least_squares(name):
    queries, dense = FAMILIES[name]
    made, values = estimated(queries)
    cells, *_ = np.linalg.lstsq(dense, values, rcond=None)
    answers, bars = made.error_bars(ASKED)
    # Each query as a row over the marginal of a and c: those over the universe weigh both cells of b alike.
    asked = full_matrix(ASKED).reshape(-1, 3, 2, 4)[:, :, 0].reshape(-1, 12)
    assert answers == pytest.approx(asked @ cells)
    assert made.answer(ASKED) == pytest.approx(asked @ cells)
    assert made.total == pytest.approx(cells.sum())
    spread = asked @ np.linalg.inv(dense.T @ dense) @ asked.T * 9.0 / 2
    assert bars == pytest.approx(1.959964 * np.sqrt(np.diag(spread)), rel=1e-6)


def test_other_columns_have_no_answer_and_no_bar():
    made, _ = estimated(rows(A), axes=(0,))
    assert not made.has_table
    asked = Workload.marginals(DOMAIN, [["a"], ["b"], ["a", "b"]])
    values, bars = made.error_bars(asked)
    assert np.isfinite(values[:3]).all()
    assert np.isnan(values[3:]).all()
    assert (np.isnan(bars) == np.isnan(values)).all()
    with pytest.raises(InvalidInput, match="no released marginal contains the columns a, b; this release has no table"):
        made.answer(Workload.marginals(DOMAIN, [["a", "b"]]))
    with pytest.raises(InvalidInput, match="another domain"):
        made.answer(Workload.marginals(coded(3, 2), [["a"]]))
    with pytest.raises(InvalidInput, match="no table"):
        made.sample(5, np.random.default_rng(0))


def test_a_saved_one_is_made_of_the_last_measurement_and_a_public_number_stays():
    made, _ = estimated(rows(A), axes=(0,), records=120.0)
    other, _ = estimated(rows(A), axes=(0,), seed=1)
    content = json.loads(json.dumps(made.to_json()))
    again = LeastSquares.from_json(DOMAIN, content, [other.measurement, made.measurement])
    asked = Workload.marginals(DOMAIN, [["a"]])
    assert again.total == made.total == 120.0
    assert again.answer(asked).tolist() == made.answer(asked).tolist()


def test_measurements_that_do_not_determine_the_cells_are_refused():
    content = {"type": "least squares", "total": 1.0}
    noise = Noise("discrete Gaussian", 3.0)
    (cells,) = Workload.marginals(DOMAIN, [["a"]]).groups
    with pytest.raises(InvalidInput, match="for measurements of integer rows"):
        LeastSquares.from_json(DOMAIN, content, [Measurement(cells, np.zeros(3), noise)])
