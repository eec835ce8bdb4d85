"""Several quantiles by halving and by a tree: what they cost, listed exactly, and how far they are off."""

import numpy as np
import pytest

from qrelease.evaluation.audit import compare
from qrelease.privacy.costs import Neighbours, PureDP
from qrelease.statistics import quantiles
from qrelease.statistics.base import BETA
from qrelease.statistics.grid import Numbers
from qrelease.statistics.quantiles import RecursiveQuantiles, TreeQuantiles, spread
from tests.statistics.doors import DrawsAt, column, door, outcome

ONE = PureDP(1.0)


PAIRS = {
    Neighbours.ADD_REMOVE: [([0, 2], [0, 2, 2]), ([1], []), ([0, 0, 2], [0, 0, 2, 0]), ([1, 1], [1, 1, None])],
    Neighbours.REPLACE_ONE: [([0, 2], [0, 0]), ([2, 2, 2], [2, 2, 0]), ([1, 1], [1, None])],
}


def audits(statistic, cost, neighbours, cells=3):
    for first, second in PAIRS[neighbours]:
        a, b = (outcome(statistic, column(values, cells), cost, neighbours) for values in (first, second))
        yield compare(a, b, cost)


@pytest.fixture
def _two_places(monkeypatch):
    """Values have two places each, so that all that may be drawn can be listed."""
    monkeypatch.setattr(quantiles, "_MAX_PLACES", 2)


@pytest.mark.usefixtures("_two_places")
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_halving_costs_what_it_says(neighbours):
    found = list(audits(RecursiveQuantiles("x", (0.25, 0.5, 0.75)), PureDP(2.0), neighbours))
    assert not any(a.convicted for a in found)
    assert max(a.epsilon for a in found) > 0.3


@pytest.mark.usefixtures("_two_places")
def test_halving_at_the_whole_cost_a_depth_is_convicted():
    """The mistake: parallel composition taken for all depths, where it holds for the parts of one; here at twice it."""
    twin = DrawsAt(PureDP(8.0), RecursiveQuantiles("x", (0.25, 0.5, 0.75)))  # in two depths
    found = list(audits(twin, PureDP(2.0), Neighbours.ADD_REMOVE))
    assert any(a.convicted for a in found)


def loss(statistic, tables, cost, neighbours, seed):
    """ln of how much likelier one output is on the first table: what was measured there, met by the second one too."""
    first, second = (door(column(values, 64), cost, neighbours, seed) for values in tables)
    measured, ratios = [], []
    draw, law_of = first.measure, second.measure

    def keep(what, exact, sensitivity, share):
        noisy, law = draw(what, exact, sensitivity, share)
        measured.append((exact, noisy))
        return noisy, law

    def meet(what, exact, sensitivity, share):
        _, law = law_of(what, exact, sensitivity, share)
        before, noisy = measured.pop(0)
        ratios.append((np.abs(noisy - exact) - np.abs(noisy - before)).sum() / law.scale)
        return noisy, law

    first.measure, second.measure = keep, meet
    for private in (first, second):
        statistic.estimate(private, cost)
    return abs(sum(ratios))


TREE = TreeQuantiles("x", (0.25, 0.5, 0.75))


SPREAD = list(range(0, 64, 3))


MOVED = {
    Neighbours.ADD_REMOVE: [(SPREAD, SPREAD[1:]), (SPREAD, [*SPREAD, 31]), ([], [40])],
    Neighbours.REPLACE_ONE: [(SPREAD, [63, *SPREAD[1:]]), ([5, 5, 60], [5, 60, 60])],
}


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_tree_of_counts_costs_what_it_says(neighbours):
    """Its counts have Laplace noise, so the loss at an output is a sum; some output spends nearly all."""
    found = [loss(TREE, pair, ONE, neighbours, seed) for pair in MOVED[neighbours] for seed in range(40)]
    assert 0.7 < max(found) <= 1 + 1e-9


def test_a_tree_whose_levels_cost_the_whole_each_is_convicted():
    twin = DrawsAt(PureDP(2 * ONE.epsilon), TREE)  # of two levels
    assert max(loss(twin, (SPREAD, SPREAD[1:]), ONE, Neighbours.ADD_REMOVE, seed) for seed in range(40)) > 1.3


def test_ties_are_spread_so_that_one_record_is_one_record():
    for m in range(40):
        few, more = (spread(Numbers.listed([2] * k, 3), 8) for k in (m, m + 1))
        dense = [np.bincount(np.repeat(f.values, f.counts), minlength=24) for f in (few, more)]
        assert np.abs(dense[1] - dense[0]).sum() == 1
        assert dense[1].sum() == m + 1
        assert dense[1][16:].max() - dense[1][16:].min() <= 1


def ranks_off(values, q, v):
    """How many records too many are below a value, or above it."""
    values = np.asarray(values)
    return max((values < v).sum() - q * len(values), (values > v).sum() - (1 - q) * len(values), 0)


QS = (0.1, 0.25, 0.5, 0.75, 0.9)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("statistic", [RecursiveQuantiles("x", QS), TreeQuantiles("x", QS)], ids=lambda s: s.name)
@pytest.mark.parametrize("tied", [False, True])
def test_many_quantiles_keep_their_promise(statistic, neighbours, tied):
    rng = np.random.default_rng(4)
    values = (
        np.where(rng.random(20_000) < 0.6, 17, rng.integers(0, 300, 20_000)) if tied else rng.integers(0, 300, 20_000)
    )
    table, cost = column(values.tolist(), 300), ONE
    bound = statistic.error_bound(table.domain, 20_000, cost, neighbours, beta=BETA)
    assert bound < 0.2
    worst = []
    for seed in range(12):
        result = statistic.estimate(door(table, cost, neighbours, seed), cost)
        worst.append(max(ranks_off(values, q, v) for q, v in zip(QS, result.value, strict=True)) / 20_000)
        assert list(result.value) == sorted(result.value)
    assert np.sum(np.array(worst) > bound) <= 3
    assert np.mean(worst) < 0.02
    if tied:
        assert result.value[1] == result.value[2] == 17
