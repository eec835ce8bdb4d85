"""Every kernel against a plain-NumPy twin.

With whole numbers in the tables and powers of two in the factors, all sums and products are exact in float64 in
whatever order they are taken, so the twins must agree to the last bit.
"""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from worlds import PROPERTY, SHAPES

from qrelease import kernels

RNG_SEEDS = st.integers(0, 2**32 - 1)


# --- the twins ---------------------------------------------------------------------------------------------------


def sum_blocks(y, *without):
    for axis, out in enumerate(without):
        out += y.sum(axis=axis)


def scale_blocks(y, *by):
    for axis, factor in enumerate(by):
        y *= np.expand_dims(factor, axis)


def scale_and_sum_blocks(y, *tables):
    scale_blocks(y, *tables[:4])
    sum_blocks(y, *tables[4:])


def positions(shape, strides, offset):
    return offset + strides @ np.indices(shape).reshape(len(shape), -1)


def project_many(table, shape, strides, offsets, out):
    for steps, offset in zip(strides, offsets, strict=True):
        np.add.at(out, positions(shape, steps, offset), table)


def expand_many(table, shape, strides, offsets, factors):
    for steps, offset in zip(strides, offsets, strict=True):
        table *= factors[positions(shape, steps, offset)]


def systematic(weights, total, start, out):
    marks = (np.arange(out.size) + start) * (total / out.size)
    cells = np.searchsorted(np.cumsum(weights), marks, side="right")
    out[:] = np.minimum(cells, np.flatnonzero(weights)[-1])


TWINS = {f.__name__: f for f in (sum_blocks, scale_blocks, scale_and_sum_blocks, project_many, expand_many, systematic)}


def test_every_kernel_has_a_twin():
    assert set(TWINS) == {name for name, value in vars(kernels).items() if hasattr(value, "py_func")}


@pytest.mark.parametrize("name", TWINS)
def test_kernels_release_the_lock(name):
    assert getattr(kernels, name).targetoptions["nogil"]


def run_both(name, *arrays):
    """The arrays after the kernel and after its twin."""
    ours, theirs = ([np.copy(a) if isinstance(a, np.ndarray) else a for a in arrays] for _ in range(2))
    getattr(kernels, name)(*ours)
    TWINS[name](*theirs)
    return ours, theirs


def agree(name, *arrays):
    for ours, theirs in zip(*run_both(name, *arrays), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# --- blocks ------------------------------------------------------------------------------------------------------

BLOCKS = st.tuples(*[st.sampled_from([1, 2, 3, 7, 16])] * 4)


def counts(rng, *shape):
    return rng.integers(0, 1000, shape).astype(float)


def powers(rng, *shape):
    return 2.0 ** rng.integers(-6, 7, shape)


def dropped(shape):
    return [shape[:i] + shape[i + 1 :] for i in range(4)]


@pytest.mark.parametrize("name", ["sum_blocks", "scale_blocks", "scale_and_sum_blocks"])
@example(shape=(1, 1, 1, 1), seed=0)
@example(shape=(300, 1, 1, 1), seed=0)
@example(shape=(1, 1, 1, 300), seed=0)
@example(shape=(1, 300, 2, 1), seed=0)
@example(shape=(2, 64, 2, 2), seed=0)
@given(shape=BLOCKS, seed=RNG_SEEDS)
@PROPERTY
def test_blocks_agree_with_their_twins(name, shape, seed):
    rng = np.random.default_rng(seed)
    factors = [powers(rng, *s) for s in dropped(shape)]
    sums = [counts(rng, *s) for s in dropped(shape)]  # not zero: the kernels add
    tables = {"sum_blocks": sums, "scale_blocks": factors}.get(name, factors + sums)
    agree(name, counts(rng, *shape), *tables)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_fast_arithmetic_keeps_what_is_not_finite(value):
    y = np.ones((2, 3, 4, 32))
    y[1, 2, 3, 4] = value
    without = [np.zeros(s) for s in dropped(y.shape)]
    kernels.sum_blocks(y, *without)
    hit = [without[0][2, 3, 4], without[1][1, 3, 4], without[2][1, 2, 4], without[3][1, 2, 3]]
    np.testing.assert_array_equal(hit, [value] * 4)
    assert sum(np.isfinite(w).sum() for w in without) == sum(w.size for w in without) - 4


def test_blocks_of_a_slice_are_written_in_place():
    rng = np.random.default_rng(0)
    y, factors = counts(rng, 6, 2, 3, 5), [powers(rng, *s) for s in dropped((6, 2, 3, 5))]
    whole = y.copy()
    scale_blocks(whole, *factors)
    for cut in (slice(0, 2), slice(2, 6)):
        kernels.scale_blocks(y[cut], factors[0], *(f[cut] for f in factors[1:]))
    np.testing.assert_array_equal(y, whole)


# --- marginals ---------------------------------------------------------------------------------------------------


@st.composite
def marginals(draw):
    """A shape and the strides and offsets of a few marginals of it, in any order, repeated or empty ones too."""
    shape = draw(SHAPES)
    sets = draw(st.lists(st.sets(st.integers(0, len(shape) - 1)).map(sorted), min_size=1, max_size=5))
    strides = np.zeros((len(sets), len(shape)), np.int64)
    sizes = []
    for j, axes in enumerate(sets):
        size = 1
        for a in reversed(axes):
            strides[j, a] = size
            size *= shape[a]
        sizes.append(size)
    offsets = np.cumsum([0, *sizes])
    return np.array(shape, np.int64), strides, offsets[:-1], int(offsets[-1])


@pytest.mark.parametrize("name", ["project_many", "expand_many"])
@given(plan=marginals(), seed=RNG_SEEDS)
@PROPERTY
def test_marginals_agree_with_their_twins(name, plan, seed):
    shape, strides, offsets, length = plan
    rng = np.random.default_rng(seed)
    flat = counts(rng, length) if name == "project_many" else powers(rng, length)
    agree(name, counts(rng, int(shape.prod())), shape, strides, offsets, flat)


@given(plan=marginals(), seed=RNG_SEEDS)
@PROPERTY
def test_expanding_is_the_adjoint_of_projecting(plan, seed):
    """⟨project x, log₂ f⟩ = ⟨x, log₂ of the expanded f⟩, in whole numbers."""
    shape, strides, offsets, length = plan
    rng = np.random.default_rng(seed)
    x, logs = counts(rng, int(shape.prod())), rng.integers(-6, 7, length).astype(float)
    projected, expanded = np.zeros(length), np.ones(x.size)
    kernels.project_many(x, shape, strides, offsets, projected)
    kernels.expand_many(expanded, shape, strides, offsets, 2.0**logs)
    assert projected @ logs == x @ np.log2(expanded)


# --- systematic sampling -----------------------------------------------------------------------------------------


@example(weights=[0, 0, 7], draws=5, start=0.0)
@example(weights=[7, 0, 0], draws=5, start=0.999)
@example(weights=[1], draws=1, start=0.0)
@given(
    weights=st.lists(st.integers(0, 50), min_size=1, max_size=300).filter(any),
    draws=st.integers(1, 400),
    start=st.floats(0, 1, exclude_max=True),
)
@PROPERTY
def test_systematic_agrees_with_its_twin(weights, draws, start):
    w = np.array(weights, float)
    agree("systematic", w, w.sum(), start, np.full(draws, -1))


def test_systematic_survives_a_total_that_the_running_sum_does_not_reach():
    weights, out = np.array([1.0, 2.0, 0.0]), np.full(6, -1)
    kernels.systematic(weights, 3.0001, 0.9999, out)
    assert out.tolist() == [0, 0, 1, 1, 1, 1]
