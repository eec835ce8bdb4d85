"""Controlled rounding: each cell down or up, marginals far nearer than chance brings them, the same for a seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PROPERTY, coded

from qrelease.data.marginals.plan import MarginalPlan
from qrelease.inference import controlled_rounding
from qrelease.inference.controlled_rounding import MAX_MARGINAL_CELLS, MAX_WORK, marginals
from qrelease.inference.histogram import Histogram
from qrelease.queries.workload import Workload


def random_histogram(shape, seed, total, dtype=None):
    """Smooth enough for its cells to expect fractions of records."""
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for j in range(len(shape)) for i in range(j)] or [(0,)]
    found = Histogram(coded(*shape), pairs, total, dtype)
    found.multiply(rng.normal(size=MarginalPlan.choose(shape, pairs).offsets[-1]))
    return found


def table_of(columns, shape):
    return np.bincount(np.ravel_multi_index([c.astype(np.int64) for c in columns], shape), minlength=np.prod(shape))


def distance(state, columns, asked):
    """The mean L1 distance of the marginals, as fractions."""
    rows = len(columns[0])
    table = table_of(columns, state.domain.shape).astype(float)
    gaps = np.abs(asked.answers(asked.marginal_plan.marginals(table)) / rows - state.answer(asked) / state.total)
    return np.add.reduceat(gaps, asked.bounds[:-1]).mean()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("shape", "rows"), [((2,) * 10, 500), ((3, 4, 2, 5, 3), 300), ((7, 1, 6, 5, 4), 300)])
def test_marginals_are_several_times_nearer_than_by_systematic_sampling(shape, rows, dtype):
    state = random_histogram(shape, 0, 1000.0, dtype)
    for order in (1, 2, 3):
        asked = Workload.marginals(state.domain, order)
        chance, settled = [], []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            drawn = state.draw(rows, rng)
            rng.shuffle(drawn)
            chance.append(distance(state, np.unravel_index(drawn, shape), asked))
            settled.append(distance(state, state.sample(rows, np.random.default_rng(seed)), asked))
        assert np.mean(settled) < np.mean(chance) * (0.6 if order < 3 else 0.8)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 400), st.integers(0, 2**32 - 1))
@PROPERTY
def test_every_cell_is_rounded_down_or_up_and_errors_never_grow(shape, rows, seed):
    shape = tuple(shape)
    state = random_histogram(shape, seed, 1000.0)
    scale = rows / state.values.sum()
    cover = MarginalPlan.choose(shape, marginals(shape, rows))
    weights, expected = state.values, cover.marginals(state.values) * scale
    cells = state.draw(rows, np.random.default_rng(seed))
    before = np.bincount(cells, minlength=weights.size).astype(float)
    controlled_rounding.settle(weights, scale, cells, cover, expected, np.random.default_rng(seed))
    after = np.bincount(cells, minlength=weights.size).astype(float)
    assert after.sum() == rows
    assert (after >= np.floor(weights * scale - 1e-6)).all()
    assert (after <= np.ceil(weights * scale + 1e-6)).all()
    squares = [float(((cover.marginals(t) - expected) ** 2).sum()) for t in (before, after)]
    assert squares[1] <= squares[0] * (1 + 1e-9) + 1e-9


def test_it_is_the_same_for_the_same_generator():
    state = random_histogram((2,) * 8, 1, 300.0)
    first, second, other = (state.sample(200, np.random.default_rng(s)) for s in (4, 4, 5))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def test_as_many_orders_are_settled_as_there_is_time_and_room_for():
    shape = (2, 3, 4, 5)
    assert [len(s) for s in marginals(shape, 100)] == [1] * 4 + [2] * 6 + [3] * 4
    assert 6 * 200**2 < MAX_MARGINAL_CELLS < 4 * 200**3
    assert max(map(len, marginals((200,) * 4, 100))) == 2
    assert [len(s) for s in marginals(shape, MAX_WORK // 6)] == [1] * 4 + [2] * 6 + [3] * 4
    assert marginals(shape, MAX_WORK // 4) == [(0,), (1,), (2,), (3,)]
    assert marginals(shape, MAX_WORK // 4 + 1) == [(0,)]
    assert marginals((7,), 10) == [(0,)]


def test_a_long_column_is_drawn_from_by_what_is_left_of_its_cells():
    """By rejection, against the law that reading all of the cells gives; also where nothing is left in most of them."""
    rng = np.random.default_rng(3)
    for share in (1.0, 0.05):
        weights = rng.random(200) * (rng.random(200) < share)
        taken = np.zeros(200 // 8 + 1, np.uint8)
        found = np.array([controlled_rounding.proposed(weights, 1.0, 0, 200, 1, u, taken) for u in rng.random(40_000)])
        drawn = found[found >= 0]
        assert (weights[drawn] > 0).all()
        assert len(drawn) > 0.99 * len(found) if share == 1 else len(drawn) < 0.9 * len(found)
        expected = weights / weights.sum()
        observed = np.bincount(drawn, minlength=200) / len(drawn)
        kept = expected > 0
        squares = len(drawn) * ((observed - expected)[kept] ** 2 / expected[kept]).sum()
        assert squares < kept.sum() + 5 * np.sqrt(2 * kept.sum())
        even = np.full(200, 1 / 200)  # a test that could fail: the even law is far off
        assert len(drawn) * ((observed - even) ** 2 / even).sum() > 1000


def test_marginals_of_the_columns_that_factors_are_about_are_settled_alone():
    state = Histogram(coded(20, 3, 30), [(0, 2)], 1000.0)
    state.multiply(np.random.default_rng(0).normal(size=600))
    assert marginals((20, 3, 30), 500, (0, 2)) == [(0,), (2,), (0, 2)]
    asked = Workload.marginals(state.domain, [["a"], ["c"], ["a", "c"]])
    drawn = state.draw(500, np.random.default_rng(1))
    settled = state.sample(500, np.random.default_rng(1))
    assert distance(state, settled, asked) < 0.8 * distance(state, np.unravel_index(drawn, (20, 3, 30)), asked)
