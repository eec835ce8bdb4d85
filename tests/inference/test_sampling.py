"""Systematic sampling by pieces, against the marks on a running sum, one after the other."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pieces import cut_from
from worlds import PROPERTY

from qrelease._util import parallel as parallel_module
from qrelease.inference.sampling import systematic


def twin(weights, rows, rng):
    """Exact for whole numbers."""
    marks = (np.arange(rows) + rng.random()) * (weights.sum(dtype=float) / rows)
    return np.minimum(
        np.searchsorted(np.cumsum(weights, dtype=float), marks, side="right"), np.flatnonzero(weights)[-1]
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("parallel", [1, parallel_module.MIN_PARALLEL_CELLS], ids=["pieces", "one"])
@example(weights=[0, 0, 7], rows=5, seed=0)
@example(weights=[7, 0, 0], rows=5, seed=0)
@example(weights=[1], rows=1, seed=0)
@example(weights=[0] * 40 + [3] + [0] * 40, rows=17, seed=0)
@given(
    weights=st.lists(st.integers(0, 50), min_size=1, max_size=300).filter(any),
    rows=st.integers(1, 400),
    seed=st.integers(0, 2**32 - 1),
)
@PROPERTY
def test_records_are_where_the_marks_fall(dtype, parallel, weights, rows, seed):
    w = np.array(weights, dtype)
    with cut_from(parallel):
        found = systematic(w, rows, np.random.default_rng(seed))
    np.testing.assert_array_equal(found, twin(w, rows, np.random.default_rng(seed)))


@pytest.mark.parametrize("parallel", [1, parallel_module.MIN_PARALLEL_CELLS], ids=["pieces", "one"])
@given(cells=st.integers(1, 500), rows=st.integers(1, 2000), seed=st.integers(0, 2**32 - 1))
@PROPERTY
def test_every_cell_has_what_it_expects_up_or_down(parallel, cells, rows, seed):
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=cells) * (rng.random(cells) < 0.5)
    weights[rng.integers(cells)] = 1e-9  # not all are zero
    with cut_from(parallel):
        found = systematic(weights, rows, rng)
    expected = rows * weights / weights.sum()
    assert (np.abs(np.bincount(found, minlength=cells) - expected) < 1 + 1e-9 * rows).all()
    assert weights[found].min() > 0
    assert (np.diff(found) >= 0).all()


class Latest:
    """The largest number that a generator gives."""

    def random(self):
        return np.nextafter(1.0, 0.0)


@pytest.mark.parametrize("rows", [1, 3, 7, 1000])
def test_what_lies_behind_the_last_weight_gets_nothing(rows):
    """Though the last mark be rounded up to the whole sum."""
    weights = np.r_[np.full(30, 0.1), np.zeros(90)]
    with cut_from(1):
        assert systematic(weights, rows, Latest()).max() < 30


def test_no_records():
    assert systematic(np.ones(3), 0, np.random.default_rng(0)).shape == (0,)


def test_systematic_rounding():
    weights = np.random.default_rng(0).dirichlet(np.ones(50))
    found = np.bincount(systematic(weights, 1_000, np.random.default_rng(1)), minlength=50)
    assert found.sum() == 1_000
    assert (np.abs(found - 1_000 * weights) < 1).all()
