"""Marginal scores: against their definition, with nothing of the package's arithmetic."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import qrelease as qr
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality.copies import part
from qrelease.evaluation.quality.marginals import distances, marginal_score, sampling_distance, sets_of
from tests.evaluation.quality.tables import INDEPENDENT, OTHER, REAL, by_definition, ordered


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("other", [OTHER, INDEPENDENT, part(OTHER, slice(0, 37))], ids=["alike", "independent", "few"])
def test_the_score_is_its_definition(k, other):
    sets = sets_of(4, k, 100)
    assert sets == tuple(itertools.combinations(range(4), k))
    wanted = by_definition(REAL, other, sets)
    assert abs(marginal_score(distances(REAL, [other], sets)[0]) - wanted) < 1e-9
    assert marginal_score(distances(REAL, [REAL], sets)[0]) == 1000


def test_the_score_of_large_marginals_is_its_definition_too():
    """They are counted by what occurs."""
    domain, rng = Domain((ordered("a", 2000), ordered("b", 1000))), np.random.default_rng(0)
    one, other = (Table(domain, (rng.integers(0, 99, n), rng.integers(0, 9, n))) for n in (900, 700))
    wanted = by_definition(one, other, [(0, 1)])
    assert 0 < wanted < 999
    assert abs(marginal_score(distances(one, [other], [(0, 1)])[0]) - wanted) < 1e-9
    assert marginal_score(distances(one, [one], [(0, 1)])[0]) == 1000


@st.composite
def table_pairs(draw):
    """Two tables of any domain, also of marginals with too many cells to count them all, and a k."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 7, 40, 3000]), min_size=1, max_size=5))
    domain = Domain(tuple(ordered(f"column {i}", size) for i, size in enumerate(sizes)))
    columns = [
        tuple(np.array(draw(st.lists(st.integers(0, size - 1), min_size=n, max_size=n)), np.uint32) for size in sizes)
        for n in draw(st.tuples(st.integers(1, 30), st.integers(1, 30)))
    ]
    return Table(domain, columns[0]), Table(domain, columns[1]), draw(st.integers(1, len(sizes)))


@settings(max_examples=200, deadline=None)
@given(table_pairs())
def test_the_score_of_any_two_tables_is_its_definition(pair):
    """In exact fractions."""
    real, synthetic, k = pair
    sets = sets_of(len(real.domain), k, 100)
    gaps = Fraction(0)
    for axes in sets:
        one, other = (Counter(zip(*(t.columns[a].tolist() for a in axes), strict=True)) for t in (real, synthetic))
        gaps += sum(abs(Fraction(one[c], len(real)) - Fraction(other[c], len(synthetic))) for c in {*one, *other})
    wanted = (2 - gaps / len(sets)) * 500
    assert abs(Fraction(marginal_score(distances(real, [synthetic], sets)[0])) - wanted) <= Fraction(1, 10**9)


def test_sets_drawn_at_random_are_distinct_and_always_the_same():
    sets = sets_of(20, 4, 50)
    assert len(set(sets)) == 50
    assert all(list(s) == sorted(set(s)) for s in sets)
    assert sets == sets_of(20, 4, 50)
    with pytest.raises(qr.InvalidInput):
        sets_of(3, 4, 50)


@pytest.mark.parametrize("size", [1, 2, 7, 100, 12_345])
def test_what_sampling_alone_does_is_the_expected_distance_of_a_sample(size):
    shares = np.array([0.5, 0.2, 0.05, 0.01])
    times = np.array([1, 2, 1, 5])
    wanted = 0.0
    for share, many in zip(shares, times, strict=True):
        law, found = stats.binom(size, share), np.arange(size + 1)
        wanted += many * (law.pmf(found) * np.abs(found / size - share)).sum()
    assert sampling_distance(shares, times, size) == pytest.approx(wanted)
    assert sampling_distance(np.array([1.0]), np.array([3.0]), size) == 0


def test_a_sample_s_distance_is_what_is_expected_of_it():
    rng, counts = np.random.default_rng(1), np.bincount(REAL.columns[0])
    drawn = rng.multinomial(300, counts / len(REAL), 4000) / 300
    wanted = np.abs(drawn - counts / len(REAL)).sum(axis=1).mean()
    assert sampling_distance(counts / len(REAL), np.ones(len(counts)), 300) == pytest.approx(wanted, rel=0.02)
