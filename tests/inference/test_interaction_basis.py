"""Coordinates of interactions, and the variance of each."""

from functools import reduce
from itertools import combinations
from math import prod

import numpy as np
import pytest
from fits import SHAPE
from hypothesis import given
from hypothesis import strategies as st
from worlds import PROPERTY

from qrelease.data.marginals.record_tables import Tables
from qrelease.inference.interaction_basis import Interactions


def test_the_variance_of_each_coordinate_is_that_of_the_records():
    rng = np.random.default_rng(3)
    columns = [rng.dirichlet(np.ones(n)) for n in SHAPE]
    basis = Interactions([s for k in (1, 2, 3) for s in combinations(range(3), k)], columns)
    tables, cells = Tables(SHAPE, basis.sets), np.indices(SHAPE).reshape(3, -1).astype(np.uint16)
    independent = np.einsum("i,j,k->ijk", *columns).reshape(-1)
    single = [basis.features([*cells])[:, basis.places[a,]] for a in range(3)]
    centred = [f - independent @ f for f in single]
    for chances in (independent, rng.dirichlet(np.ones(24))):
        found = basis.variances(tables.marginals(cells, chances))
        for s in basis.sets:
            functions = reduce(lambda f, g: (f[:, :, None] * g[:, None, :]).reshape(24, -1), [centred[a] for a in s])
            expected = chances @ functions**2 - (chances @ functions) ** 2
            np.testing.assert_allclose(found[basis.places[s]], expected, atol=1e-6)
    np.testing.assert_allclose(basis.variances(tables.marginals(cells, independent)), basis.spectrum, atol=1e-6)


@st.composite
def bases(draw):
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    every = [s for k in range(1, len(shape) + 1) for s in combinations(range(len(shape)), k)]
    sets = draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    return shape, sets, [rng.dirichlet(np.ones(n)) + 1e-3 for n in shape], rng


@given(bases())
@PROPERTY
def test_coordinates_are_orthonormal_and_of_residuals_only(world):
    shape, sets, singles, rng = world
    basis = Interactions(sets, singles)
    assert len(basis.spectrum) == sum(prod(shape[a] - 1 for a in s) for s in sets)
    x = rng.normal(size=len(basis.spectrum))
    tables = basis.tables(x)
    np.testing.assert_allclose(basis.coordinates(tables), x, atol=1e-12)
    begin = 0
    for s in basis.sets:
        size = prod(shape[a] for a in s)
        table = tables[begin : begin + size].reshape([shape[a] for a in s])
        for axis in range(table.ndim):
            np.testing.assert_allclose(table.sum(axis=axis), 0, atol=1e-12)
        assert np.linalg.norm(table) == pytest.approx(np.linalg.norm(x[basis.places[s]]))
        begin += size


@given(bases())
@PROPERTY
def test_features_are_the_coordinates_of_one_record_and_vary_by_the_spectrum(world):
    shape, sets, singles, _ = world
    singles = [p / p.sum() for p in singles]
    basis = Interactions(sets, singles)
    cells = np.indices(shape).reshape(len(shape), -1)
    features = basis.features(list(cells)).astype(float)
    for record in range(0, cells.shape[1], 5):
        flat = []
        for s in basis.sets:
            table = np.zeros([shape[a] for a in s])
            table[tuple(cells[a, record] for a in s)] = 1
            flat.append(table.reshape(-1))
        np.testing.assert_allclose(basis.coordinates(np.concatenate(flat)), features[record], atol=1e-6)
    weights = prod_of(singles)
    for s in basis.sets:
        if len(s) == 1:
            mine = features[:, basis.places[s]]
            mean = weights @ mine
            covariance = (mine * weights[:, None]).T @ mine - np.outer(mean, mean)
            np.testing.assert_allclose(covariance, np.diag(basis.spectrum[basis.places[s]]), atol=1e-6)


def prod_of(singles):
    found = np.ones(1)
    for p in singles:
        found = np.multiply.outer(found, p).reshape(-1)
    return found
