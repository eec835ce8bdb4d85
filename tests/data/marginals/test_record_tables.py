"""Marginals of weighted records, and sums of tables over them: brute force."""

import numpy as np
from fits import SETS, SHAPE, some
from hypothesis import given
from hypothesis import strategies as st
from worlds import PROPERTY

from qrelease.data.marginals.record_tables import Tables


@given(st.integers(0, 2**32))
@PROPERTY
def test_marginals_and_their_adjoint(seed):
    codes, weights, rng = some(seed)
    tables = Tables(SHAPE, SETS)
    expected = []
    for s in SETS:
        table = np.zeros([SHAPE[a] for a in s])
        np.add.at(table, tuple(codes[a] for a in s), weights)
        expected.append(table.reshape(-1))
    found = tables.marginals(codes, weights)
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-12)
    values = rng.normal(size=len(found))
    np.testing.assert_allclose(tables.sums(codes, values) @ weights, values @ found, atol=1e-10)


def test_no_order_of_the_records_changes_a_marginal():
    codes, weights, rng = some(1, 9_000)
    tables, other = Tables(SHAPE, SETS), rng.permutation(9_000)
    assert (tables.marginals(codes, weights) == tables.marginals(codes[:, other], weights[other])).all()
