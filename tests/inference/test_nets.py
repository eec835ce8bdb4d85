"""Nets: what they answer, what they cover, and what is refused."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PEOPLE, PROPERTY, coded, full_matrix, mixed

from qrelease.data.domain import Attribute, Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference import nets
from qrelease.inference.histogram import Histogram
from qrelease.inference.nets import Averages, Listed, ProductNet, Thinned, grid, quantiles, small_databases, thin
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.queries.workload import Workload

AGES = Domain((Attribute("age", "number", edges=(0, 20, 40, 60, 80), integer=True, missing=("?",)),))


def all_fractions(net, workload):
    return np.concatenate(list(net.fractions(workload)))


def uniform():
    return Histogram(PEOPLE, [(0,)], 12.0)


NETS = {
    "small databases": small_databases(PEOPLE, 2),
    "averages of parts": Averages(PEOPLE, ((0, 1), (5,), tuple(range(24))), 3),
    "product": ProductNet(
        PEOPLE, (small_databases(PEOPLE.project((1,)), 2), small_databases(PEOPLE.project((0, 2)), 1))
    ),
    "product in another order": ProductNet(
        PEOPLE, (grid(PEOPLE.project((2,)), 2, 0.5), small_databases(PEOPLE.project((0, 1)), 1))
    ),
    "listed": Listed((uniform(), WeightedRecords(PEOPLE, np.array([3, 4]), np.array([0.25, 0.75]), 8.0))),
    "thinned": Thinned(small_databases(PEOPLE, 2), (0, 7, 100, 299)),
}


@pytest.mark.parametrize("name", NETS)
def test_fractions_are_what_the_synopses_answer(name, monkeypatch):
    net, asked = NETS[name], mixed()
    found = all_fractions(net, asked)
    assert found.shape == (len(net), len(asked))
    made = [net.synopsis(i, 10.0) for i in range(len(net))]
    np.testing.assert_allclose(found * 10, [y.answer(asked) for y in made], atol=1e-9)
    assert all(y.total == 10.0 for y in made)
    monkeypatch.setattr(nets, "BLOCK_ANSWERS", 64)  # in many blocks it is the same
    blocks = list(net.fractions(asked))
    assert name == "listed" or len(blocks) > 1
    np.testing.assert_allclose(np.concatenate(blocks), found, atol=1e-12)


@pytest.mark.parametrize("name", NETS)
def test_a_net_is_described_briefly_and_in_full(name):
    net = NETS[name]
    assert len(repr(net)) < 150
    described = net.to_json()
    assert json.loads(json.dumps(described)) == described
    assert hash(net) == hash(net)


@pytest.mark.parametrize("name", ["small databases", "averages of parts", "product", "product in another order"])
def test_distributions_are_those_of_the_answers(name):
    net = NETS[name]
    rows = full_matrix(mixed())
    found = all_fractions(net, mixed())
    for i in range(0, len(net), 7):
        cells, weights = net.distribution(i)
        np.testing.assert_allclose(rows[:, cells] @ weights, found[i], atol=1e-12)
        assert math.isclose(weights.sum(), 1)


# --- intervals ---------------------------------------------------------------------------------------------------


def furthest(net, workload, tables):
    """Of the tables, as distributions, the largest distance from the nearest synopsis."""
    answers = all_fractions(net, workload)
    rows = full_matrix(workload)
    return max(np.abs(answers - rows @ x).max(axis=1).min() for x in tables)


def tables_over(cells, seed, count=60):
    rng = np.random.default_rng(seed)
    return [*np.eye(cells), np.full(cells, 1 / cells), *(rng.dirichlet(np.full(cells, a)) for a in [0.3] * count)]


@given(st.integers(2, 6), st.floats(0.17, 0.9), st.integers(0, 2**32))
@PROPERTY
def test_quantiles_cover_ranges_and_prefixes(values, alpha, seed):
    domain = coded(values)
    net, tables = quantiles(domain, alpha), tables_over(values, seed)
    assert furthest(net, Workload.ranges(domain, "a"), tables) <= alpha + 1e-9
    assert furthest(net, Workload.prefixes(domain, "a"), tables) <= alpha / 2 + 1e-9


@pytest.mark.parametrize("records", [2, 3, 7, 41, 49, 1000])
def test_a_reciprocal_means_that_many_records(records):
    assert quantiles(coded(2), 1 / records).records == records


def test_a_missing_cell_is_none_of_the_ranges():
    net = quantiles(AGES, 0.25)
    tables = tables_over(5, 0)
    assert furthest(net, Workload.ranges(AGES, "age"), tables) <= 0.25 + 1e-9
    coarse = grid(AGES, 2, 0.25)
    assert coarse.parts == ((0, 1), (2, 3), (4,))
    edges = Workload.predicates(AGES, "age < 40", "age in 0..79", "age in 40..79")
    assert furthest(coarse, edges, tables) <= 0.25 + 1e-9


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32))
@PROPERTY
def test_a_grid_covers_the_ranges_of_its_bins(values, bins, seed):
    domain = coded(values)
    if bins > values:
        with pytest.raises(InvalidInput, match="bins must be at most"):
            grid(domain, bins, 0.4)
        return
    net = grid(domain, bins, 0.4)
    assert len(net.parts) == bins
    assert sorted(c for part in net.parts for c in part) == list(range(values))
    assert max(map(len, net.parts)) - min(map(len, net.parts)) <= 1
    ends = [part[-1] + 1 for part in net.parts]
    rows = [[float(a <= c < b) for c in range(values)] for a in [0, *ends] for b in ends if a < b]
    assert furthest(net, Workload.vectors(domain, rows), tables_over(values, seed, 20)) <= 0.4 + 1e-9


# --- parts of nets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slack", [0.05, 0.2, 0.5])
def test_thinning_leaves_something_near_to_all_and_nothing_near_to_each_other(slack):
    domain = coded(2, 2)
    net, asked = small_databases(domain, 6), Workload.marginals(domain, 2)
    thinned = thin(net, asked, slack)
    whole, kept = all_fractions(net, asked), all_fractions(thinned, asked)
    np.testing.assert_array_equal(kept, whole[list(thinned.kept)])
    distances = np.abs(whole[:, None] - kept[None]).max(axis=2)
    assert distances.min(axis=1).max() <= slack
    apart = distances[list(thinned.kept)] + 2 * np.eye(len(kept))
    assert apart.min() > slack
    assert slack < 0.1 or len(thinned) < len(net)
    tables = tables_over(4, 1)
    assert furthest(thinned, asked, tables) <= furthest(net, asked, tables) + slack


def test_a_thinned_net_of_a_thinned_net():
    once = thin(small_databases(coded(3), 4), Workload.ranges(coded(3), "a"), 0.1)
    twice = thin(once, Workload.ranges(coded(3), "a"), 0.3)
    np.testing.assert_allclose(
        all_fractions(twice, Workload.ranges(coded(3), "a")) * 6,
        [twice.synopsis(i, 6.0).answer(Workload.ranges(coded(3), "a")) for i in range(len(twice))],
    )


# --- what is refused ---------------------------------------------------------------------------------------------


class Strange:
    """A synopsis with chosen answers."""

    domain = PEOPLE
    has_table = False

    def __init__(self, answers, total=1.0):
        self.total, self._answers = total, answers

    def answer(self, workload):
        return self._answers


REFUSED = {
    "no records": (lambda: small_databases(PEOPLE, 0), "records must be an integer of at least 1"),
    "half a record": (lambda: small_databases(PEOPLE, 1.5), "records must be"),
    "no parts": (lambda: Averages(PEOPLE, (), 2), "at least one part"),
    "an empty part": (lambda: Averages(PEOPLE, ((0,), ()), 2), "at least one part"),
    "a cell beyond": (lambda: Averages(PEOPLE, ((24,),), 2), r"cells 0\.\.23"),
    "alpha of one": (lambda: quantiles(AGES, 1.0), "alpha must be in"),
    "no order": (lambda: quantiles(PEOPLE.project((0,)), 0.5), "one ordered column"),
    "two columns": (lambda: quantiles(PEOPLE.project((1, 2)), 0.5), "one ordered column"),
    "no bins": (lambda: grid(AGES, 0, 0.5), "bins must be"),
    "a product without a column": (
        lambda: ProductNet(PEOPLE, (quantiles(PEOPLE.project((1,)), 0.5),)),
        "each of the col",
    ),
    "a product with a column twice": (lambda: ProductNet(AGES, (quantiles(AGES, 0.5),) * 2), "each of the columns age"),
    "a product of other cells": (
        lambda: ProductNet(coded(3), (small_databases(coded(4), 1),)),
        "same names but with other cells",
    ),
    "an empty list": (lambda: Listed(()), "at least one synopsis"),
    "two domains": (lambda: Listed((uniform(), Histogram(AGES, [(0,)], 1.0))), "over one domain"),
    "no total": (lambda: Listed((Strange(None, 0.0),)), "positive number of records"),
    "answers of another length": (lambda: list(Listed((Strange([1.0]),)).fractions(mixed())), "finite counts"),
    "NaN": (lambda: list(Listed((Strange([math.nan] * len(mixed())),)).fractions(mixed())), "finite counts"),
    "nothing kept": (lambda: Thinned(quantiles(AGES, 0.5), ()), "at least one synopsis"),
    "kept in no order": (lambda: Thinned(quantiles(AGES, 0.5), (2, 1)), "ascending"),
    "kept beyond": (lambda: Thinned(quantiles(AGES, 0.5), (0, 15)), "ascending numbers below 15"),
    "slack of one": (lambda: thin(quantiles(AGES, 0.5), Workload.ranges(AGES, "age"), 1.0), "slack must be in"),
    "thinned elsewhere": (lambda: thin(quantiles(AGES, 0.5), mixed(), 0.1), "another domain"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_net_is_refused(name):
    made, why = REFUSED[name]
    with pytest.raises(InvalidInput, match=why):
        made()


def test_what_does_not_fit_is_refused():
    with pytest.raises(TooLarge, match=r"a net of about 2\^\d+ averages"):
        small_databases(PEOPLE, 50)
    with pytest.raises(TooLarge, match="a product of 18,296,278"):
        ProductNet(PEOPLE, (small_databases(PEOPLE.project((0, 2)), 9), small_databases(PEOPLE.project((1,)), 36)))
    wide = coded(2_000)
    with pytest.raises(TooLarge, match="too many to thin it"):
        thin(quantiles(wide, 0.5), Workload.ranges(wide, "a"), 0.1)
