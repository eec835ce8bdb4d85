"""Every kernel against a plain-NumPy twin.

With whole numbers in the tables and powers of two in the factors, all sums and products are exact in float64 in
whatever order they are taken, so the twins must agree to the last bit.
"""

import os
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from worlds import PROPERTY, SHAPES

from qrelease.data.marginals import kernels
from qrelease.data.marginals.plan import MarginalPlan
from qrelease.data.marginals.support import Support

RNG_SEEDS = st.integers(0, 2**32 - 1)


# --- the twins ---------------------------------------------------------------------------------------------------


def within(tile, array, axis):
    """What a tile of the first two blocks sees of a table that dropped one block, or none (-1)."""
    cuts = [slice(*tile[:2]), slice(*tile[2:]), slice(None), slice(None)]
    return array[tuple(cut for i, cut in enumerate(cuts) if i != axis)]


def sum_blocks(y, tile, *without):
    for axis, out in enumerate(without):
        within(tile, out, axis)[...] += within(tile, y, -1).sum(axis=axis, dtype=float)


def scale_blocks(y, *by):
    for axis, factor in enumerate(by):
        y *= np.expand_dims(factor, axis)


def scale_and_sum_blocks(y, tile, *tables):
    scale_blocks(within(tile, y, -1), *(within(tile, f, axis) for axis, f in enumerate(tables[:4])))
    sum_blocks(y, tile, *tables[4:])


def positions(shape, strides, offset):
    return offset + strides @ np.indices(shape).reshape(len(shape), -1)


def project_many(table, shape, strides, offsets, out):
    for steps, offset in zip(strides, offsets, strict=True):
        np.add.at(out, positions(shape, steps, offset), table)


def expand_many(table, shape, strides, offsets, factors):
    for steps, offset in zip(strides, offsets, strict=True):
        table *= factors[positions(shape, steps, offset)]


def systematic_marks(weights, first, before, step, start, number, out):
    marks = (number + np.arange(out.size) + start) * step
    cells = np.searchsorted(before + np.cumsum(weights), marks, side="right")
    out[:] = first + np.minimum(cells, np.flatnonzero(weights)[-1])


def collect(tree, tables, out):
    for i in range(len(tree.begins)):
        table, below = tables_of(tree, tables, i)
        if below:
            A, B, C, D = tree.blocks[i]
            sum_blocks(table.reshape(A, B, C, D), (0, A, 0, B), *below)
        project_many(table, *directly(tree, i), out)


def spread(tree, tables, factors):
    for i in reversed(range(len(tree.begins))):
        table, below = tables_of(tree, tables, i)
        if below:
            scale_blocks(table.reshape(tree.blocks[i]), *below)
        expand_many(table, *directly(tree, i), factors)


def tables_of(tree, tables, i):
    """Table i, and views of those below it."""
    views = [tables[b : b + n] for b, n in zip(tree.begins, tree.cells, strict=True)]
    shapes = dropped(tuple(tree.blocks[i]))
    below = [views[c].reshape(s) for c, s in zip(tree.children[i], shapes, strict=True)] if tree.blocks[i].any() else []
    return views[i], below


def directly(tree, i):
    """The marginals that are summed from table i, as `project_many` takes them."""
    shape, offsets = (v[k[i] : k[i + 1]] for v, k in ((tree.shapes, tree.axes), (tree.offsets, tree.sets)))
    return shape, tree.strides[tree.steps[i] : tree.steps[i + 1]].reshape(len(offsets), len(shape)), offsets


def scale_by_exp(y, q, step):
    y *= np.exp(y.dtype.type(step) * q)
    return y.sum(dtype=float)


def scale_masked(y, mask, factor):
    y[mask] *= y.dtype.type(factor)
    return y.sum(dtype=float)


def scattered(y, starts, numbers, run, tile, shape, strides):
    """The vector over the universe that a support stands for."""
    found = np.zeros(y.size)
    steps = strides @ np.indices(shape).reshape(len(shape), -1) if len(shape) else np.zeros(1, int)
    for start, row in zip(starts, numbers, strict=True):
        for step in steps:
            found[start + step : start + step + run] = row[tile] if len(tile) else row[0]
    return found


def scale_support(y, *support):
    before = y.sum(dtype=float)
    y *= np.exp(scattered(y, *support)).astype(y.dtype)
    return y.sum(dtype=float) - before


def sum_support(y, *support):
    return scattered(y, *support) @ y


def butterflies(cube, axes):
    for axis in axes:
        first, second = np.take(cube, 0, axis), np.take(cube, 1, axis)
        cube[:] = np.stack([first + second, first - second], axis)


def walsh_hadamard(y, width):
    k = width.bit_length() - 1
    butterflies(y.reshape((-1, *[2] * k)), range(1, k + 1))


def walsh_hadamard_across(y, width, low, high):
    levels = (y.size // width).bit_length() - 1
    butterflies(y.reshape(-1, width)[:, low:high].reshape((*[2] * levels, -1)), range(levels))


def count_codes(codes, sizes, digits, radices, starts, offsets, index, counts):
    wrong = [i for i, (row, size) in enumerate(zip(codes, sizes, strict=True)) if (row >= size).any()]
    if wrong:
        return wrong[0]
    for first, last, offset in zip(starts, starts[1:], offsets, strict=False):
        places = np.zeros(codes.shape[1], np.int64)
        for digit in range(first, last):
            places = places * radices[digit] + codes[digits[digit]]
        np.add.at(counts, offset + places, 1)
    return -1


KERNELS = {name: value for name, value in vars(kernels).items() if hasattr(value, "py_func") and name[0] != "_"}


def test_every_kernel_has_a_twin():
    assert set(KERNELS) <= set(globals())


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_release_the_lock(name):
    assert KERNELS[name].targetoptions["nogil"]


def run_both(name, *arrays):
    """The arrays and the result, of the kernel and of its twin."""
    ours, theirs = ([np.copy(a) if isinstance(a, np.ndarray) else a for a in arrays] for _ in range(2))
    results = KERNELS[name](*ours), globals()[name](*theirs)
    return [*ours, results[0]], [*theirs, results[1]]


def agree(name, *arrays):
    for ours, theirs in zip(*run_both(name, *arrays), strict=True):
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs


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
    tile = tuple(int(i) for n in shape[:2] for i in sorted(rng.integers(0, n + 1, 2)))
    factors = [powers(rng, *s) for s in dropped(shape)]
    sums = [counts(rng, *s) for s in dropped(shape)]  # not zero: the kernels add
    tables = {"sum_blocks": sums, "scale_blocks": factors}.get(name, factors + sums)
    agree(name, counts(rng, *shape), *([] if name == "scale_blocks" else [tile]), *tables)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_fast_arithmetic_keeps_what_is_not_finite(value):
    y = np.ones((2, 3, 4, 32))
    y[1, 2, 3, 4] = value
    without = [np.zeros(s) for s in dropped(y.shape)]
    kernels.sum_blocks(y, (0, 2, 0, 3), *without)
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


@pytest.mark.parametrize("name", ["sum_blocks", "scale_and_sum_blocks", "project_many", "expand_many"])
def test_single_precision_is_summed_in_double(name):
    """Whole numbers whose sum float32 could not hold."""
    rng, shape = np.random.default_rng(0), (3, 5, 4, 8)
    y = rng.integers(0, 1 << 22, shape).astype(np.float32)
    sums, factors = [np.zeros(s) for s in dropped(shape)], [powers(rng, *s) for s in dropped(shape)]
    if name in ("sum_blocks", "scale_and_sum_blocks"):
        agree(name, y, (0, 3, 0, 5), *(factors if name[:2] == "sc" else []), *sums)
    else:
        sizes, strides = np.array(shape), np.array([[0, 0, 0, 0], [40, 8, 0, 1]])
        flat = np.zeros(121) if name == "project_many" else powers(rng, 121)
        agree(name, y.reshape(-1), sizes, strides, np.array([0, 1]), flat)


@given(shape=SHAPES, seed=RNG_SEEDS, k=st.integers(0, 3))
@example(shape=(2,) * 12, seed=0, k=3)
@example(shape=(4, 3, 5, 4, 3), seed=0, k=4)
@PROPERTY
def test_trees_agree_with_their_twins(shape, seed, k):
    sets = [s for i in range(k + 1) for s in combinations(range(len(shape)), i)]
    plan = MarginalPlan(shape, tuple(sets), 0)
    tree, length, cells = plan.tree, plan.offsets[-1], plan.tree_cells
    rng = np.random.default_rng(seed)
    if not cells:
        return
    tables = np.zeros(cells)
    for begin, size in zip(tree.begins[:4], tree.cells[:4], strict=True):
        tables[begin : begin + size] = counts(rng, size)
    agree("collect", tree, tables, np.zeros(length))
    agree("spread", tree, np.ones(cells), 2.0 ** rng.integers(-1, 2, length))


# --- updates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_exponentials_are_accurate_over_their_whole_range(dtype, accuracy):
    largest = 700 if dtype is np.float64 else 80
    q = np.random.default_rng(0).uniform(-largest, largest, 100_000).astype(dtype)
    y = np.ones(q.size, dtype)
    kernels.scale_by_exp(y, q, 1.0)
    np.testing.assert_allclose(y, np.exp(q.astype(np.longdouble)), rtol=accuracy)


def test_exponents_out_of_range_are_cut_off():
    y = np.ones(4)
    kernels.scale_by_exp(y, np.array([-1e300, -np.inf, 1e300, 0.0]), 1.0)
    assert (y[:2] < 1e-300).all()
    assert 1e300 < y[2] < np.inf
    assert y[3] == 1


@example(cells=1, seed=0, dtype=np.float64)
@example(cells=5000, seed=0, dtype=np.float32)
@given(cells=st.integers(1, 3000), seed=RNG_SEEDS, dtype=st.sampled_from([np.float64, np.float32]))
@PROPERTY
def test_dense_updates_agree_with_their_twins(cells, seed, dtype):
    rng = np.random.default_rng(seed)
    accuracy = 1e-12 if dtype is np.float64 else 1e-5
    y, q, mask = rng.random(cells).astype(dtype), rng.normal(size=cells).astype(dtype), rng.random(cells) < 0.4
    for name, arguments in (("scale_by_exp", (q, 0.7)), ("scale_masked", (mask, 1.3))):
        for ours, theirs in zip(*run_both(name, y, *arguments), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=accuracy)
        assert KERNELS[name](y.copy(), *arguments[:1], 0.0 if name == "scale_by_exp" else 1.0) == pytest.approx(
            y.sum(dtype=float), rel=accuracy
        )


@pytest.mark.parametrize("name", ["scale_support", "sum_support"])
@example(shape=(300, 2), axes=(0,), seed=0, dtype=np.float64)
@example(shape=(2, 300), axes=(1,), seed=0, dtype=np.float64)
@given(
    shape=SHAPES,
    axes=st.sets(st.integers(0, 11), max_size=4),
    seed=RNG_SEEDS,
    dtype=st.sampled_from([np.float64, np.float32]),
)
@PROPERTY
def test_supports_agree_with_their_twins(name, shape, axes, seed, dtype):
    rng = np.random.default_rng(seed)
    mentioned = tuple(sorted(a for a in axes if a < len(shape)))
    numbers = rng.normal(size=int(np.prod([shape[a] for a in mentioned])))
    s = Support.of(shape, mentioned, numbers * (rng.random(numbers.size) < 0.5))
    y = rng.random(int(np.prod(shape))).astype(dtype)
    arguments = y, s.starts, s.numbers, s.run, s.tile, s.shape, s.strides
    for ours, theirs in zip(*run_both(name, *arguments), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12 if dtype is np.float64 else 1e-6, atol=1e-9 * y.size)


@pytest.mark.parametrize("name", ["scale_support", "sum_support"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(3, 50, 70), (3, 8, 70), (2, 64, 2, 80), (3, 1, 70)])
def test_cells_far_from_each_other_agree_with_their_twins(name, dtype, shape):
    """One cell of the first and the last column sees single cells, at more steps than are loaded at once, or fewer."""
    numbers = np.zeros((shape[0], shape[-1]))
    numbers[1, 40] = 0.3
    s = Support.of(shape, (0, len(shape) - 1), numbers.reshape(-1))
    y = np.random.default_rng(0).random(int(np.prod(shape))).astype(dtype)
    for ours, theirs in zip(*run_both(name, y, s.starts, s.numbers, s.run, s.tile, s.shape, s.strides), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12 if dtype is np.float64 else 1e-6, atol=1e-9 * y.size)


# --- transforms and counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("k", "piece"), [*((k, k) for k in range(9)), (11, 3), (14, 14), (17, 15)])
def test_transforms_of_pieces_agree_with_their_twin(k, piece, dtype):
    agree("walsh_hadamard", np.random.default_rng(k).integers(-8, 9, 1 << k).astype(dtype), 1 << piece)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("k", "piece", "low", "high"), [(8, 7, 0, 128), (12, 8, 64, 192), (12, 11, 1024, 2048)])
def test_transforms_across_pieces_agree_with_their_twin(k, piece, low, high, dtype):
    y = np.random.default_rng(k).integers(-8, 9, 1 << k).astype(dtype)
    ours, theirs = run_both("walsh_hadamard_across", y, 1 << piece, low, high)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert (ours[0] != y).any()


@given(shape=SHAPES, rows=st.integers(0, 200), seed=RNG_SEEDS)
@PROPERTY
def test_counts_agree_with_their_twin(shape, rows, seed):
    rng = np.random.default_rng(seed)
    sets = [sorted(rng.choice(len(shape), min(len(shape), n), replace=False)) for n in range(4)]
    sizes = [int(np.prod([shape[a] for a in s])) for s in sets]
    codes = np.array([rng.integers(0, n, rows) for n in shape], np.uint32)
    digits = np.array([a for s in sets for a in s], np.int64)
    sizes_, radices = np.array(shape, np.uint32), np.array(shape, np.uint32)[digits]
    starts, (*offsets, end) = np.cumsum([0, *map(len, sets)]), np.cumsum([0, *sizes]).tolist()
    index = np.zeros(rows + 3, np.uint32)
    ours, theirs = run_both(
        "count_codes", codes, sizes_, digits, radices, starts, np.array(offsets), index, np.zeros(end, np.int64)
    )
    np.testing.assert_array_equal(ours[7], theirs[7])


def test_records_with_a_code_that_its_column_has_not_are_not_counted():
    one, sizes, counts = np.zeros(1, np.int64), np.array([9, 3], np.uint32), np.zeros(30, np.int64)
    codes = np.array([[0, 8, 2], [2, 3, 0]], np.uint32)
    found = kernels.count_codes(codes, sizes, one, sizes[:1], np.array([0, 1]), one, np.zeros(3, np.uint32), counts)
    assert (found, counts.any()) == (1, False)


# --- systematic sampling -----------------------------------------------------------------------------------------


@example(weights=[0, 0, 7], marks=5, start=0.0, number=0)
@example(weights=[7, 0, 0], marks=5, start=0.999, number=3)
@given(
    weights=st.lists(st.integers(0, 50), min_size=1, max_size=300).filter(any),
    marks=st.integers(0, 400),
    start=st.floats(0, 1, exclude_max=True),
    number=st.integers(0, 1000),
)
@PROPERTY
def test_systematic_agrees_with_its_twin(weights, marks, start, number):
    """Of a piece on which all of its marks fall; `inference.sampling` cuts a vector into pieces."""
    w = np.array(weights, float)
    step = w.sum() / max(marks, 1)
    agree("systematic_marks", w, 40, number * step, step, start, number, np.full(marks, -1))


def test_systematic_survives_a_sum_that_its_piece_does_not_reach():
    weights, out = np.array([1.0, 2.0, 0.0]), np.full(6, -1)
    kernels.systematic_marks(weights, 10, 0.0, 3.0001 / 6, 0.9999, 0, out)
    assert out.tolist() == [10, 10, 11, 11, 11, 11]


def test_a_debug_run_stops_at_a_wrong_code(tmp_path):
    """`NUMBA_BOUNDSCHECK=1`, as in CI, with a cache of its own: what is cached does not know which mode it was for."""
    code = """
import numpy as np
from qrelease.data.marginals import kernels
one, codes, counts = np.zeros(1, np.int64), np.array([[0, 7]], np.uint32), np.zeros(3, np.int64)
sizes = np.array([9], np.uint32)  # which lets the code pass
kernels.count_codes(codes, sizes, one, np.array([3], np.uint32), np.array([0, 1]), one, np.zeros(2, np.uint32), counts)
"""
    debug = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=debug)
    assert run.returncode
    assert run.stderr.splitlines()[-1] == "IndexError: index is out of bounds"
