"""The cells that a query sees: sums and products over them, against the whole vector."""

from itertools import combinations

import numpy as np
import pytest

from qrelease._util.parallel import MIN_PARALLEL_CELLS
from qrelease.data.marginals.support import Support


def test_what_is_kept_of_cheap_queries_is_small():
    """Next to narrow columns a wide one would make long runs, and a number for each of their cells."""
    shape = (2, 2, 1 << 15, 2, 2, 2, 2, 2)
    narrow = [a for a in range(8) if a != 2]
    kept = sum(
        Support.of(shape, axes, np.ones(1 << k)).tile.nbytes for k in (1, 2, 3) for axes in combinations(narrow, k)
    )
    assert kept < 1 << 20


def spread_out(shape, axes, numbers):
    """The vector over the universe, from that over a marginal."""
    kept = [shape[a] if a in axes else 1 for a in range(len(shape))]
    return np.broadcast_to(numbers.reshape(kept), shape).reshape(-1)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((), ()),
        ((5,), (0,)),
        ((3, 4, 5), ()),
        ((3, 4, 5), (0, 2)),
        ((3, 4, 5), (0, 1, 2)),
        ((2, 70, 3, 80), (1,)),
        ((2, 70, 3, 80), (0, 3)),
        ((4, 1, 300, 2, 90), (0, 4)),
    ],
)
@pytest.mark.parametrize("rest", [1, 2])
def test_a_support_is_the_vector_over_the_universe(shape, axes, rest):
    """Summed and scaled, whole and cut among threads, where most of its numbers are 0 too."""
    rng = np.random.default_rng(len(shape))
    numbers = rng.integers(-3, 4, int(np.prod([shape[a] for a in axes], dtype=int))).astype(float)
    numbers[rng.random(len(numbers)) < 0.5 * (rest - 1)] = 0
    whole = spread_out(shape, axes, numbers)
    support = Support.of(shape, axes, numbers)
    assert np.count_nonzero(whole) <= support.cells <= len(whole)
    y = rng.random(len(whole))
    assert support.sum(y) == pytest.approx(whole @ y, rel=1e-12, abs=1e-9)
    assert support.times(-2.0).sum(y) == pytest.approx(-2 * (whole @ y), rel=1e-12, abs=1e-9)
    scaled = y.copy()
    grew = support.times(0.5).scale(scaled)
    np.testing.assert_allclose(scaled, y * np.exp(0.5 * whole), rtol=1e-12)
    assert grew == pytest.approx(scaled.sum() - y.sum(), rel=1e-9, abs=1e-9)


def test_a_vector_of_zeros_touches_nothing():
    support = Support.of((3, 4, 5), (0, 1), np.zeros(12))
    assert support.cells == 0
    assert support.sum(np.ones(60)) == 0


@pytest.mark.parametrize("axes", [(0,), (3,)])
def test_threads_sum_as_one_does(axes):
    """So many cells that they are cut: by rows where the support has several, else by steps."""
    shape = (64, 64, 64, 16)
    rng = np.random.default_rng(0)
    numbers, y = rng.integers(1, 9, shape[axes[0]]).astype(float), rng.random(int(np.prod(shape)))
    support = Support.of(shape, axes, numbers)
    assert support.cells >= MIN_PARALLEL_CELLS
    assert support.sum(y) == pytest.approx(spread_out(shape, axes, numbers) @ y, rel=1e-10)
