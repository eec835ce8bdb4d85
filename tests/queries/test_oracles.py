"""Optimisers against the list of all queries of their class."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PEOPLE, PROPERTY, coded

from qrelease.data.domain import Attribute, Domain
from qrelease.errors import TooLarge
from qrelease.queries.oracles import ConjunctionOracle, PredicateOracle

PLAIN = Domain(
    (
        Attribute("colour", "category", categories=("r", "g", "b"), missing=("?",)),
        Attribute("size", "coded", codes=4, ordered=True, missing=("",)),
        Attribute("kind", "coded", codes=2),
    )
)

DOMAINS = [PEOPLE, PLAIN, coded(1), coded(7), coded(3, 1, 2), PLAIN.project((0,)), PLAIN.project((0, 2)), coded(4, 5)]


def conjunctions(domain):
    """Every conjunction as a set of cells, from the definition."""
    conditions = []
    for a in domain:
        spans = {(i, j) for i in range(a.values) for j in range(i, a.values)} if a.ordered else set()
        values = {(i, i) for i in range(a.size)} if not a.ordered else set()
        conditions.append([None, *sorted(spans | values)])
    cells = list(np.ndindex(domain.shape))
    return [
        np.array([all(c is None or c[0] <= v <= c[1] for c, v in zip(chosen, cell, strict=True)) for cell in cells])
        for chosen in itertools.product(*conditions)
    ]


LISTS = {domain: np.array(conjunctions(domain)) for domain in DOMAINS}


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@given(seed=st.integers(0, 2**32 - 1), shift=st.sampled_from([-2.0, -0.3, 0.0, 0.3, 2.0]))
@PROPERTY
def test_the_best_conjunction_is_found(domain, seed, shift):
    weights = np.random.default_rng(seed).normal(size=domain.size) + shift
    found = ConjunctionOracle().best(domain, weights)
    listed = LISTS[domain]
    assert found @ weights == pytest.approx((listed @ weights).max(), abs=1e-9)
    assert (listed == found).all(axis=1).any()


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_conjunctions_are_counted(domain):
    assert ConjunctionOracle().log_count(domain) == pytest.approx(math.log(len(LISTS[domain])))


@given(st.integers(0, 2**32 - 1))
@PROPERTY
def test_the_best_predicate_is_found(seed):
    domain = coded(2, 5)
    weights = np.random.default_rng(seed).normal(size=10)
    every = np.array(list(itertools.product([0, 1], repeat=10)))
    assert PredicateOracle().best(domain, weights) @ weights == pytest.approx((every @ weights).max())
    assert PredicateOracle().log_count(domain) == pytest.approx(math.log(len(every)))


def test_a_class_of_millions_is_searched_and_one_too_wide_is_refused():
    domain = Domain.coded({"age": 74, "hours": 99})
    assert math.exp(ConjunctionOracle().log_count(domain)) == pytest.approx((1 + 74 * 75 / 2) * (1 + 99 * 100 / 2))
    weights = np.full(domain.shape, -1.0)
    weights[20:31, 40:61] = 1.0
    found = ConjunctionOracle().best(domain, weights.reshape(-1))
    np.testing.assert_array_equal(found, weights.reshape(-1) > 0)
    with pytest.raises(TooLarge, match="sums; at most"):
        ConjunctionOracle().log_count(Domain.coded({"a": 100, "b": 100, "c": 100}))
