"""Products of families, one on each column, against the dense Kronecker product."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import BOTH, PEOPLE, PROPERTY, full_matrix, matrix, moved

from qrelease.errors import InvalidInput
from qrelease.inference.strategies import gram
from qrelease.mechanisms.matrix import best_strategy
from qrelease.queries.families import Cells, Intervals
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Workload

ADD, SWAP = BOTH
ROWS = st.builds(
    lambda k, n, seed, unit: IntegerRows(np.random.default_rng(seed).integers(-9, 10, (k, n)), 2.0**-unit),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 99),
    st.integers(0, 3),
)
FACTORS = st.one_of(
    ROWS,
    st.integers(1, 3).map(Cells),
    st.builds(lambda m, hole, p: Intervals(m, m + hole, p), st.integers(1, 4), st.booleans(), st.booleans()),
)
PRODUCTS = st.lists(FACTORS, min_size=1, max_size=3).map(lambda parts: Product(tuple(parts)))


@given(st.one_of(ROWS, PRODUCTS), st.integers(0, 2**32 - 1))
@PROPERTY
def test_a_product_is_the_kronecker_product(family, seed):
    dense = np.ones((1, 1), np.int64)
    for factor in family.factors if isinstance(family, Product) else [family]:
        dense = np.kron(dense, factor.rows if isinstance(factor, IntegerRows) else matrix(factor))
    np.testing.assert_array_equal(matrix(family), dense)
    assert (family.count, family.cells) == dense.shape
    np.testing.assert_allclose(family.squares(), ((dense * family.unit) ** 2).sum(axis=1))
    weights = np.random.default_rng(seed).normal(size=family.count)
    np.testing.assert_allclose(family.adjoint(weights), weights @ dense, atol=1e-9)
    np.testing.assert_allclose(gram(family), dense.T @ dense * family.unit**2, atol=1e-9)
    assert not any(f.bounded for f in [family]) or (dense.min() >= 0 and dense.max() * family.unit <= 1)


@given(st.one_of(ROWS, PRODUCTS))
@PROPERTY
def test_sensitivities_of_products(family):
    columns = matrix(family)
    for order in (1, 2):
        assert family.sensitivity(order, replace=False) == moved(columns, order, ADD)
        assert family.sensitivity(order, replace=True) >= moved(columns, order, SWAP)
    if isinstance(family, IntegerRows):
        assert family.sensitivity(2, replace=True) == moved(columns, 2, SWAP)


@pytest.mark.parametrize(
    ("rows", "unit"),
    [([[1.5]], 1.0), ([1], 1.0), ([[]], 1.0), ([[1]], 3.0), ([[1]], 0.3), ([[1]], 2.0), ([[2**25]], 1.0)],
)
def test_integer_rows_that_are_none(rows, unit):
    array = np.array(rows, float if rows == [[1.5]] else np.int64)
    with pytest.raises(InvalidInput, match="integer rows"):
        IntegerRows(array, unit)


def test_boxes_are_spelled_and_survive_json():
    domain = PEOPLE
    boxes = Workload.parse(domain, "boxes:age*grade")
    assert boxes == Workload.boxes(domain, ["age", "grade"])
    texts = list(boxes.texts())
    assert texts[0] == "age in 0..19 and grade = 0"
    np.testing.assert_array_equal(full_matrix(boxes), full_matrix(Workload.predicates(domain, *texts)))
    measured = best_strategy(boxes).measured
    for workload in (boxes, measured):
        assert Workload.from_json(domain, json.loads(json.dumps(workload.to_json()))) == workload
    assert list(measured.texts())[:2] == ["row 0 and row 0", "row 0 and row 1"]
    with pytest.raises(InvalidInput, match="has no order"):
        Workload.boxes(domain, ["sex", "age"])
