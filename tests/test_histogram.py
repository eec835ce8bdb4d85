"""The hypothesis: it stays a distribution, survives JSON, samples evenly, and is refused before it is allocated."""

import json
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PEOPLE, PROPERTY, SHAPES, coded, full_matrix, mixed

from qrelease import histogram
from qrelease.errors import InvalidInput, TooLarge
from qrelease.histogram import Histogram, check_size
from qrelease.workload import Workload


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
    assert [(c.shape, c.dtype) for c in columns] == [((rows,), np.int64)] * len(shape)
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
    samples = np.stack([found.sample(5, rng)[0] for _ in range(4000)])
    share = np.bincount(samples.reshape(-1), minlength=7) / samples.size
    np.testing.assert_allclose(share, np.arange(1, 8) / 28, atol=0.006)  # five standard deviations at 2000 draws
    first = np.bincount(samples[:, 0], minlength=7) / len(samples)
    np.testing.assert_allclose(first, np.arange(1, 8) / 28, atol=0.04)


def test_a_generator_gives_the_same_records_again():
    found = Histogram(PEOPLE, [(0,)], 5.0)
    first, second = (found.sample(100, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


# --- size --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "words"),
    [((2,) * 55, r"2\^55 cells"), ((2,) * 28, "268,435,456 cells"), ((10,) * 11 + (3,), "300,000,000,000 cells")],
)
def test_a_universe_too_large_is_refused_before_it_is_allocated(shape, words):
    domain = coded(*shape)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=f"{words}.*--columns.*--mechanism gaussian"):
            Histogram(domain, [(0, 1)], 1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_too_little_memory_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(histogram, "_free_memory", lambda: 1 << 20)
    check_size(coded(*[2] * 10), [(0, 1)])
    with pytest.raises(TooLarge, match=r"0\.0 GiB are free"):
        check_size(coded(*[2] * 20), [(0, 1)])
    with pytest.raises(TooLarge):  # the marginals, not the universe
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
def test_it_takes_no_more_memory_than_was_checked(monkeypatch, shape, k):
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
    monkeypatch.setattr(histogram, "_free_memory", lambda: int(0.99 * peak / histogram._SPARE))
    with pytest.raises(TooLarge):
        check_size(domain, sets)


def test_free_memory_is_a_plausible_number_of_bytes():
    assert 1 << 26 < histogram._free_memory() < 1 << 50
