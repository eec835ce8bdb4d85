"""The exact draw by branch and bound: against full enumeration."""

import itertools
import math
from dataclasses import fields, replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from databases import all_errors
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from worlds import PROPERTY, coded

from qrelease._util.multisets import range_size
from qrelease.mechanisms.small_db import branch_and_bound
from qrelease.mechanisms.small_db.branch_and_bound import draw_database, ends_soon
from qrelease.mechanisms.small_db.databases import MAX_RANGE, Bounds, Databases
from qrelease.noise.entropy import Entropy
from qrelease.noise.exact_reals import uniform_below
from qrelease.queries.dense import dense
from qrelease.queries.workload import Workload

# --- the parts of a draw -----------------------------------------------------------------------------------------


class Words:
    """A stream that begins with chosen words."""

    insecure_seed = 0

    def __init__(self, *words):
        self._first, self._rest = list(words), Entropy.insecure(0)

    def words(self, n):
        taken, self._first = self._first[:n], self._first[n:]
        return np.concatenate([np.array(taken, np.uint64), self._rest.words(n - len(taken))])


@given(st.lists(st.tuples(st.integers(1, MAX_RANGE), st.integers(0, 2**64 - 1)), min_size=1, max_size=5))
@PROPERTY
def test_uniform_integers_are_those_of_exact(pairs):
    sizes, words = np.array([n for n, _ in pairs]), [w for _, w in pairs]
    found = branch_and_bound.uniform_integers(sizes, Words(*words))
    for n, word, value in zip(sizes.tolist(), words, found.tolist(), strict=True):
        assert 0 <= value < n
        assert value - (word * n >> 64) in (0, 1)


@pytest.mark.parametrize(("size", "word"), [(3, 2**64 - 1), (3, (2**64 - 1) // 3), (MAX_RANGE, 2**64 - 1), (1, 0)])
def test_uniform_integers_ask_for_more_bits_where_they_must(size, word):
    more = [0, 2**64 - 1, 12345]
    found = [int(branch_and_bound.uniform_integers(np.array([size]), Words(word, extra))[0]) for extra in more]
    assert found == [uniform_below(size, word, Words(extra)) for extra in more]


@given(
    st.lists(st.tuples(st.integers(0, 4095), st.integers(1, 2**58)), min_size=1, max_size=6, unique_by=lambda p: p[0]),
    st.fractions(Fraction(1, 10**6), 50),
)
@PROPERTY
def test_the_law_of_nodes_encloses_its_thresholds(pairs, gamma):
    pairs.sort()
    law = branch_and_bound.NodeLaw(tuple(s for s, _ in pairs), tuple(c for _, c in pairs), gamma)
    with localcontext() as context:
        context.prec = 120
        rate = Decimal(gamma.numerator) / gamma.denominator
        terms = [c * (-rate * (s - pairs[0][0])).exp() for s, c in pairs]
        for bits in (64, 192):
            found = law.thresholds(bits)
            assert len(found) == len(pairs) - 1
            for (low, high), part in zip(found, itertools.accumulate(terms), strict=False):
                assert low <= part / sum(terms) * 2**bits <= high
                assert high - low <= 2


def test_the_law_of_nodes_draws_what_its_thresholds_say():
    law = branch_and_bound.NodeLaw((0, 3), (1, 2), Fraction(1, 10))
    low, high = law.thresholds(64)[0]
    words = [0, low - 1, low, high, 2**64 - 1]
    drawn = law.draw(5, Words(*words))
    assert drawn[[0, 1, 3, 4]].tolist() == [0, 0, 1, 1]
    certain = branch_and_bound.NodeLaw((0, 4095), (2**60, 1), Fraction(50))  # the second has a chance below 2^-64
    assert certain.draw(1, Words(2**64 - 1, 0)).tolist() == [0]


# --- the draw ----------------------------------------------------------------------------------------------------


def instance(seed, most=500):
    """A small instance with a range of at least two databases."""
    rng = np.random.default_rng(seed)
    while True:
        k, s, m = (int(v) for v in rng.integers([1, 2, 1], [7, 9, 6]))
        queries = rng.integers(0, rng.choice([2, 2, 5]), (k, s))
        if range_size(s, m) > most:
            continue
        n = int(rng.integers(1, 100))
        table = rng.multinomial(n, rng.dirichlet(np.full(s, 0.5)))
        bounds = Bounds(m * (queries @ table), np.full(k, n))
        # From nearly uniform to peaked.
        gamma = Fraction(float(rng.uniform(0.5, 8))).limit_denominator(1000) / max(1, int(bounds.targets.max()))
        return Databases.over(queries, m), bounds, gamma


def p_value(databases, bounds, gamma, draws, seed):
    """Of a chi-square test of so many draws against the law."""
    return chi_square(drawn(databases, bounds, gamma, draws, seed), all_errors(databases, bounds), gamma)


def chi_square(found, errors, gamma):
    """A p-value, cells with few expected draws put together."""
    law = np.exp(-float(gamma) * (errors - errors.min()))
    expected = law / law.sum() * found.sum()
    order = np.argsort(expected)
    cell = np.empty(len(order), int)
    cell[order] = np.minimum.accumulate((np.cumsum(expected[order]) / 8)[::-1])[::-1].astype(int)
    sums = [np.bincount(cell, weights=v) for v in (found, expected)]
    kept = sums[1] > 0
    if kept.sum() < 2:
        return 1.0
    return stats.chisquare(sums[0][kept], sums[1][kept]).pvalue


def drawn(databases, bounds, gamma, draws, seed):
    """How often each database was drawn."""
    entropy = Entropy.insecure(seed)
    numbers = [draw_database(databases, bounds, gamma, entropy).number for _ in range(draws)]
    return np.bincount(numbers, minlength=len(databases))


def search_with(monkeypatch, **settings):
    """Search with other settings."""
    monkeypatch.setattr(branch_and_bound, "SEARCH", replace(branch_and_bound.SEARCH, **settings))


@pytest.mark.parametrize("seed", [1, 2, 3, 6])
def test_the_draw_has_the_law_and_no_other(seed, monkeypatch):
    search_with(monkeypatch, first_tries=4)  # so that draws come from several frontiers
    databases, bounds, gamma = instance(seed)
    found, errors = drawn(databases, bounds, gamma, 4000, seed), all_errors(databases, bounds)
    assert chi_square(found, errors, gamma) > 0.001
    assert max(chi_square(found, errors, gamma * wrong) for wrong in (Fraction(10, 13), Fraction(13, 10))) < 0.001


class RaisedBounds(Databases):
    """Some nodes have bounds that are a nat above what is in them."""

    def cut(self, bounds, gamma, tolerance, most):
        found = super().cut(bounds, gamma, tolerance, most)
        return found._replace(errors=found.errors + math.ceil(1 / gamma) * (np.arange(found.errors.size) % 2))


def test_a_frontier_whose_bounds_are_none_gives_another_law(monkeypatch):
    """What the proof rests on: raised by one step, the bounds of nodes are no longer below what is in them."""
    search_with(monkeypatch, first_tries=4)
    databases, bounds, gamma = instance(1)
    broken = RaisedBounds(**{field.name: getattr(databases, field.name) for field in fields(databases)})
    assert chi_square(drawn(broken, bounds, gamma, 4000, 1), all_errors(databases, bounds), gamma) < 1e-6


@pytest.mark.slow
def test_p_values_against_full_enumeration_are_uniform(monkeypatch):
    search_with(monkeypatch, first_tries=4)
    found = [p_value(*instance(seed), 8000, seed) for seed in range(100, 120)]
    assert stats.kstest(found, "uniform").pvalue > 0.01
    assert min(found) > 1e-4


@pytest.mark.parametrize("nodes", [64, 200])
def test_it_is_exact_when_memory_ends_the_search(nodes, monkeypatch):
    """The last frontier is then tried again and again."""
    search_with(monkeypatch, max_nodes=nodes, first_nodes=nodes, first_tries=1, nodes_per_try=1 << 20)
    queries, _ = dense(Workload.marginals(coded(2, 2, 2), 1))
    databases = Databases.over(queries, 4)
    table = np.random.default_rng(1).multinomial(60, np.full(8, 1 / 8))
    bounds = Bounds(4 * (queries @ table), np.full(len(queries), 60))
    assert p_value(databases, bounds, Fraction(1, 12), 3000, 5) > 0.001


def test_where_no_query_tells_cells_apart_all_databases_are_alike():
    databases = Databases.over(np.ones((2, 3), np.int64), 2)
    bounds = Bounds(np.array([10, 14]), np.array([5, 5]))
    assert databases.errors(bounds, np.arange(6)).tolist() == [4] * 6
    found = np.bincount(
        [draw_database(databases, bounds, Fraction(3), Entropy.insecure(seed)).number for seed in range(300)],
        minlength=6,
    )
    assert stats.chisquare(found).pvalue > 0.001


@pytest.mark.parametrize("gamma", [Fraction(1, 10**300), Fraction(10**6)])
def test_rates_may_be_of_any_size(gamma):
    databases, bounds, _ = instance(3)
    errors = all_errors(databases, bounds)
    found = draw_database(databases, bounds, gamma, Entropy.insecure(0)).number
    if gamma > 1:
        assert errors[found] == errors.min()


TWO_WAY, _ = dense(Workload.marginals(coded(*[2] * 6), 2))


@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_a_range_beyond_listing_is_searched_in_a_small_part(n):
    """6 · 10^11 databases of 10 records over 64 cells, all two-way marginals, at ε = 1."""
    databases = Databases.over(TWO_WAY, 10)
    assert len(databases) > 5 * 10**11
    rng = np.random.default_rng(n)
    table = rng.multinomial(n, rng.dirichlet(np.full(64, 0.3)))
    bounds = Bounds(10 * (TWO_WAY @ table), np.full(len(TWO_WAY), n))
    found = draw_database(databases, bounds, Fraction(1, 20), Entropy.insecure(n))
    assert found.visited < 1e-5 * len(databases)
    cells = databases.cells(found.number)
    error = np.abs(TWO_WAY @ table / n - TWO_WAY[:, cells].mean(axis=1)).max()
    assert databases.errors(bounds, np.array([found.number]))[0] == pytest.approx(10 * n * error)
    assert error < (0.5 if n == 100 else 0.15)


def test_a_simulation_tells_what_would_not_end():
    rng = np.random.default_rng(0)
    table = rng.multinomial(1000, rng.dirichlet(np.full(64, 0.3)))

    def soon(queries):
        bounds = Bounds(12 * (queries @ table), np.full(len(queries), 1000))
        return ends_soon(Databases.over(queries, 12), bounds, Fraction(1, 24), 1 << 26)

    assert soon(TWO_WAY)
    assert not soon(rng.integers(0, 2, (30, 64)))
