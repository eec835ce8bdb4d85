"""The hypothesis: it stays a distribution, survives JSON, samples evenly, and is refused before it is allocated."""

import json
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import PEOPLE, PROPERTY, SHAPES, coded, full_matrix, mixed

from qrelease._util import memory
from qrelease.errors import InvalidInput, OutOfMemory, TooLarge
from qrelease.inference.histogram import Histogram, check_size
from qrelease.queries.workload import Workload


@st.composite
def moves(draw):
    """A shape, sets of axes, and a list of random exponents for each of a few updates."""
    shape = draw(SHAPES.filter(lambda s: np.prod(s) <= 4000))
    axes = st.sets(st.integers(0, len(shape) - 1), max_size=3).map(lambda s: tuple(sorted(s)))
    sets = draw(st.lists(axes, min_size=1, max_size=5, unique=True))
    size = sum(int(np.prod([shape[a] for a in s])) for s in sets)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    strength = draw(st.sampled_from([0.1, 2.0, 30.0]))
    return shape, sets, [rng.normal(0, strength, size) for _ in range(draw(st.integers(0, 4)))]


def moved_histogram(shape, sets, logs, total=1234.5):
    found = Histogram(coded(*shape), sets, total)
    for step in logs:
        found.multiply(step)
    return found


def plain(shape, sets, logs, total=1234.5):
    """The same by NumPy, in logarithms."""
    y, at = np.zeros(shape), 0
    for axes in sets:
        sizes = [n if a in axes else 1 for a, n in enumerate(shape)]
        size = int(np.prod(sizes))
        y = y + sum(logs)[at : at + size].reshape(sizes) if logs else y
        at += size
    y = np.exp(y - y.max()).reshape(-1)
    return total * y / y.sum()


# --- a distribution ----------------------------------------------------------------------------------------------


@given(moves())
@PROPERTY
def test_stays_a_distribution(case):
    shape, sets, logs = case
    found = moved_histogram(shape, sets, logs)
    assert found.values.min() >= 0
    assert found.values.sum() == pytest.approx(1234.5, rel=1e-12)
    assert found.total == 1234.5
    np.testing.assert_allclose(found.values, plain(shape, sets, logs), rtol=1e-9, atol=1e-200)


@given(moves())
@PROPERTY
def test_its_marginals_are_those_of_its_values(case):
    shape, sets, logs = case
    found = moved_histogram(shape, sets, logs)
    y = found.values.reshape(shape)
    for axes in sets:
        away = tuple(a for a in range(len(shape)) if a not in axes)
        np.testing.assert_allclose(found.marginals[found.slice(axes)], y.sum(axis=away).reshape(-1), rtol=1e-11)
    assert found.sets == tuple(sets)
    assert len(found.marginals) == sum(found.slice(s).stop - found.slice(s).start for s in sets)


def test_begins_uniform():
    found = Histogram(PEOPLE, [(0,)], 48.0)
    np.testing.assert_array_equal(found.values, np.full(24, 2.0))
    assert found.domain == PEOPLE
    assert found.has_table


def test_what_cannot_be_seen_from_outside_does_not_change_it():
    """`values` is a copy, and so are the marginals."""
    found = Histogram(PEOPLE, [(0,)], 48.0)
    found.values[:] = 0
    found.marginals[:] = 0
    assert found.values.sum() == 48
    assert found.marginals.sum() == 48


# --- updates by queries ------------------------------------------------------------------------------------------


def everything(domain):
    """Families of each kind, on one column, two, and all."""
    rng = np.random.default_rng(1)
    whole = Workload.predicates(domain, "sex = F and age in 0..39 and grade in 1..2")
    return (mixed(domain) + whole + Workload.vectors(domain, rng.random((2, domain.size)))).groups


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-12), (np.float32, 1e-4)])
@pytest.mark.parametrize("group", everything(PEOPLE), ids=lambda g: f"{g.axes}-{type(g.queries).__name__}")
@given(seed=st.integers(0, 2**32 - 1), strength=st.sampled_from([0.01, 1.0, 5.0]))
@settings(max_examples=15)
def test_an_update_is_the_textbook_step(group, dtype, accuracy, seed, strength):
    """y ∝ y · e^(Σ logs_q q), by the dense matrix of the queries."""
    rng = np.random.default_rng(seed)
    found = Histogram(PEOPLE, [(0,), (1, 2)], 48.0, dtype)
    found.multiply(rng.normal(0, 1, len(found.marginals)))
    logs = strength * rng.normal(size=group.queries.count)
    logs[rng.random(len(logs)) < 0.3] = 0
    expected = found.values * np.exp(logs @ full_matrix(Workload(PEOPLE, (group,))))
    found.update(group, logs)
    np.testing.assert_allclose(found.values, 48 * expected / expected.sum(), rtol=accuracy)
    np.testing.assert_allclose(
        found.marginals, Histogram.from_json(PEOPLE, found.to_json()).answer(SEEN), rtol=100 * accuracy
    )
    for asked in (SEEN, Workload.predicates(PEOPLE, "sex = F and grade = 2"), Workload(PEOPLE, (group,))):
        np.testing.assert_allclose(found.answer(asked), full_matrix(asked) @ found.values, rtol=accuracy, atol=1e-12)


SEEN = Workload.marginals(PEOPLE, [["sex"], ["age", "grade"]])


def test_an_update_touches_the_cells_that_a_query_sees_and_no_others():
    """Seen from inside: nobody outside can tell, as the rest is scaled when it is read."""
    domain = coded(5, 6, 8, 10)
    found, asked = Histogram(domain, [(0,)], 48.0), Workload.predicates(domain, "a = 3 and b in 2..4")
    weights = found._weights
    inside = weights.reshape(domain.shape)[3, 2:5]
    kept = inside.copy()
    weights[:] = np.nan
    inside[:] = kept
    found.update(asked.groups[0], [1.0])
    np.testing.assert_allclose(inside, np.exp(1.0), rtol=1e-15)
    assert found.answer(asked)[0] == pytest.approx(48 * 240 * np.e / (2400 - 240 + 240 * np.e), rel=1e-12)


@pytest.mark.parametrize("step", [-3.0, 3.0, 600.0, -600.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_updates_leave_a_distribution(step, dtype):
    """Far past what one weight can hold, and past where a running sum would be all rounding error."""
    domain = coded(3, 4)
    found, queries = Histogram(domain, [(0, 1)], 100.0, dtype), Workload.marginals(domain, [["a"], ["a", "b"]])
    if dtype is np.float32:
        step /= 10
    for i in range(60):
        found.update(queries.groups[0], [step, 0, 0])
        found.update(queries.groups[1], np.eye(12)[i % 5] * step)
        assert found.values.sum() == pytest.approx(100, rel=1e-5)
        assert found.marginals.sum() == pytest.approx(100, rel=1e-5)
    exact = np.zeros((3, 4))
    exact[0] += 60 * step
    exact.reshape(-1)[:5] += 12 * step
    exact = np.exp(exact - exact.max())
    np.testing.assert_allclose(found.marginals, 100 * exact.reshape(-1) / exact.sum(), rtol=1e-3, atol=1e-30)


def test_one_precision_or_the_other_gives_the_same_answers_nearly():
    sets, rng = list(combinations(range(6), 3)), np.random.default_rng(3)
    double, single = (Histogram(coded(*[3] * 6), sets, 1e4, t) for t in (np.float64, np.float32))
    for _ in range(50):
        logs = rng.normal(0, 0.2, len(double.marginals))
        double.multiply(logs)
        single.multiply(logs)
    np.testing.assert_allclose(single.marginals, double.marginals, rtol=1e-5)
    assert single.values.dtype == np.float32


@pytest.mark.parametrize(
    ("logs", "words"),
    [
        ([1.0], r"one number for each query, \(2,\), got \(1,\)"),
        ([1.0, np.nan], "exponent of nan"),
        ([1.0, np.inf], "exponent of inf"),
        ([0.0, -701.0], "exponent of 701"),
    ],
)
def test_wrong_steps_are_refused_and_change_nothing(logs, words):
    found, (group,) = Histogram(PEOPLE, [(0,)], 48.0), Workload.marginals(PEOPLE, [["sex"]]).groups
    with pytest.raises(InvalidInput, match=words):
        found.update(group, logs)
    np.testing.assert_array_equal(found.values, np.full(24, 2.0))


def test_other_types_of_cells_are_refused():
    with pytest.raises(InvalidInput, match="float64 or float32, got float16"):
        Histogram(PEOPLE, [(0,)], 1.0, np.float16)


def test_parities_of_several_pieces_are_sums_with_signs():
    found = Histogram(coded(*[2] * 17), [(0, 16)], 100.0)
    found.multiply(np.array([0.3, -0.2, 0.1, 0.0]))
    corner = found.marginals.reshape(2, 2)
    signs = np.array([[1, 1], [1, -1]])
    expected = np.zeros(1 << 17)
    expected[[0, 1, 1 << 16, 1 << 16 | 1]] = (signs @ corner @ signs).reshape(-1)
    np.testing.assert_allclose(found.parities(), expected, atol=1e-9)


def test_a_copy_is_refused_before_it_is_made(free_memory):
    found = Histogram(coded(*[2] * 10), [(0,)], 1.0)
    free_memory(8191)
    for copy in (lambda: found.values, found.parities):
        with pytest.raises(OutOfMemory, match="a copy of 1,024 cells"):
            copy()
    free_memory(8192)
    assert found.parities()[0] == pytest.approx(1)


def test_parities_are_those_of_the_cells():
    found = Histogram(coded(2, 2, 2), [(0, 1), (1, 2)], 100.0)
    found.multiply(np.random.default_rng(0).normal(size=8))
    cells = np.array([[x >> 2, x >> 1 & 1, x & 1] for x in range(8)])
    np.testing.assert_allclose(found.parities(), (-1.0) ** (cells @ cells.T) @ found.values, rtol=1e-12)
    with pytest.raises(InvalidInput, match=r"two values each, got \(2, 4, 3\)"):
        Histogram(PEOPLE, [(0,)], 1.0).parities()


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sets", [mixed().sets, mixed().sets[:2], ((2,), (0, 1)), ((0, 1, 2),)])
def test_answers_any_workload_over_its_domain(sets):
    """Those whose marginals it keeps, in its order or in another, and those it has to sum afresh."""
    found = Histogram(PEOPLE, sets, 100.0)
    found.multiply(np.random.default_rng(0).normal(0, 1, len(found.marginals)))
    for asked in (
        mixed(),
        Workload.marginals(PEOPLE, 2),
        Workload.marginals(PEOPLE, 3),
        Workload.ranges(PEOPLE, "age"),
    ):
        np.testing.assert_allclose(found.answer(asked), full_matrix(asked) @ found.values, rtol=1e-11)


def test_another_domain_is_refused():
    with pytest.raises(InvalidInput, match="another domain"):
        Histogram(PEOPLE, [(0,)], 1.0).answer(Workload.marginals(coded(2, 4, 3), 1))


# --- JSON --------------------------------------------------------------------------------------------------------


@given(moves())
@PROPERTY
def test_json_gives_the_same_answers(case):
    shape, sets, logs = case
    found = moved_histogram(shape, sets, logs)
    again = Histogram.from_json(found.domain, json.loads(json.dumps(found.to_json(), allow_nan=False)))
    asked = Workload.marginals(found.domain, min(2, len(shape)))
    assert again.total == found.total
    np.testing.assert_allclose(again.answer(asked), found.answer(asked), rtol=1e-9, atol=1e-200)


def test_json_survives_a_drift_of_the_factors():
    """Factors of different marginals may grow against each other; only their product is a histogram."""
    found = Histogram(coded(3, 2), [(0,), (0, 1), (1,)], 100.0)
    logs = np.concatenate([np.full(3, 5.0), np.full(6, -5.1), np.zeros(2)])
    logs[3] += 0.3
    for _ in range(300):
        found.multiply(logs)
        found.multiply(-0.999 * logs * np.isin(np.arange(11), [3]))
    again = Histogram.from_json(found.domain, json.loads(json.dumps(found.to_json())))
    np.testing.assert_allclose(again.values, found.values, rtol=1e-9)


def test_json_names_only_the_marginals_that_were_changed():
    found = Histogram(PEOPLE, [(0,), (1, 2), (0, 2)], 10.0)
    assert Histogram.from_json(PEOPLE, found.to_json()).values.tolist() == found.values.tolist()
    found.multiply(np.concatenate([np.zeros(2), np.arange(12.0), np.zeros(6)]))
    assert [f["columns"] for f in found.to_json()["factors"]] == [["age", "grade"]]


# --- synthetic records -------------------------------------------------------------------------------------------


@given(moves(), st.integers(1, 5000), st.integers(0, 2**32 - 1))
@PROPERTY
def test_each_cell_is_drawn_its_expected_number_of_times_rounded_down_or_up(case, rows, seed):
    shape, sets, logs = case
    found = moved_histogram(shape, sets, logs)
    columns = found.sample(rows, np.random.default_rng(seed))
    assert [(c.shape, c.dtype) for c in columns] == [((rows,), np.min_scalar_type(n - 1)) for n in shape]
    drawn = np.bincount(np.ravel_multi_index(columns, shape), minlength=found.domain.size)
    expected = found.values / found.total * rows
    slack = 1e-9 * rows  # a running sum of floats stands for the sum of the cells before
    assert (drawn >= np.floor(expected - slack)).all()
    assert (drawn <= np.ceil(expected + slack)).all()
    assert drawn.sum() == rows


def test_expected_draws_are_unbiased_and_in_random_order():
    found = Histogram(coded(7), [(0,)], 1.0)
    found.multiply(np.log(np.arange(1.0, 8.0)))
    rng = np.random.default_rng(0)
    drawn = np.stack([found.draw(5, rng) for _ in range(4000)])
    share = np.bincount(drawn.reshape(-1), minlength=7) / drawn.size
    np.testing.assert_allclose(share, np.arange(1, 8) / 28, atol=0.006)  # five standard deviations at 2000 draws
    firsts = [found.sample(28, rng)[0][0] for _ in range(4000)]  # each cell as often as it is
    np.testing.assert_allclose(np.bincount(firsts, minlength=7) / 4000, np.arange(1, 8) / 28, atol=0.04)


def test_a_generator_gives_the_same_records_again():
    found = Histogram(PEOPLE, [(0,)], 5.0)
    first, second = (found.sample(100, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


# --- size --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "words"),
    [((2,) * 55, r"2\^55 cells"), ((2,) * 29, "536,870,912 cells"), ((10,) * 11 + (3,), "300,000,000,000 cells")],
)
def test_a_universe_too_large_is_refused_before_it_is_allocated(shape, words):
    domain = coded(*shape)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=f"{words}.*--columns.*--mechanism records"):
            Histogram(domain, [(0, 1)], 1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_too_little_memory_is_refused_before_it_is_allocated(free_memory):
    free_memory(memory.LATER_BYTES + (1 << 20))
    check_size(coded(*[2] * 10), [(0, 1)])
    with pytest.raises(OutOfMemory, match=r"1,048,576 cells: about \d+ MiB are needed and \d+ MiB are free"):
        check_size(coded(*[2] * 20), [(0, 1)])
    with pytest.raises(OutOfMemory):  # the marginals, not the universe
        check_size(coded(*[2] * 14), list(combinations(range(14), 6)))


@pytest.mark.parametrize(
    ("shape", "k"),
    [
        ((2,) * 18, 2),
        ((16,) * 5, 2),
        ((1 << 16, 2, 2, 2), 2),
        ((2, 2, 2, 1 << 16), 2),
        ((64, 64, 64), 2),
        ((6,) * 7, 3),
    ],
)
def test_it_takes_no_more_memory_than_was_checked(free_memory, shape, k):
    """The refusal is worth something only if what is let through fits."""
    domain, sets = coded(*shape), list(combinations(range(len(shape)), k))

    def work():
        found = Histogram(domain, sets, 1.0)
        found.multiply(np.zeros(len(found.marginals)))

    work()  # compiles the kernels
    tracemalloc.start()
    try:
        work()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    free_memory(int(0.99 * peak) + memory.LATER_BYTES)
    with pytest.raises(OutOfMemory):
        check_size(domain, sets)


@pytest.mark.parametrize("logs", [np.zeros(4), np.zeros(6), np.zeros((5, 1))])
def test_factors_of_another_shape_reach_no_kernel(logs):
    state = Histogram(coded(3, 2), [(0,), (1,)], 6.0)
    with pytest.raises(InvalidInput, match=r"a finite number for each cell of the marginals, \(5,\), got"):
        state.multiply(logs)
    np.testing.assert_array_equal(state.values, 1.0)


def test_what_is_over_another_domain_or_no_number_changes_nothing():
    domain = coded(4, 3)
    state = Histogram(domain, [(0,), (1,)], 10.0)
    for other in (coded(2, 2), coded(4, 3, 2)):
        with pytest.raises(InvalidInput, match="another domain"):
            group = Workload.marginals(other, 1).groups[-1]
            state.update(group, np.full(group.queries.count, 0.1))
    with pytest.raises(InvalidInput, match="finite number"):
        state.multiply(np.full(7, np.nan))
    for total in (np.nan, -1.0, np.inf):
        with pytest.raises(InvalidInput, match="total"):
            Histogram(domain, [(0,)], total)
    np.testing.assert_array_equal(state.values, np.full(12, 10 / 12))


@pytest.mark.parametrize("total", [1234.5, 0.0])
def test_factors_that_steps_added_up_are_taken_over_by_another_histogram(total):
    """Their constants mean nothing, and may have grown past what a number holds."""
    rng = np.random.default_rng(1)
    sets = [(0,), (0, 1)]
    steps = [rng.normal(0, 3, 3 + 12) + 400 * np.repeat([1, -1], [3, 12]) for _ in range(3)]
    found = moved_histogram((3, 4), sets, steps, total)
    assert found.logs.max() > 1000
    again = Histogram(coded(3, 4), sets, total)
    again.multiply_in_steps(found.centred_logs)
    np.testing.assert_allclose(again.marginals, found.marginals, rtol=1e-9)
    assert np.abs(found.centred_logs).max() < 100
