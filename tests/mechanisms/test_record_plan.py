"""The public plan of records: signs, what is measured and selected among, and how a cost is divided."""

from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from worlds import BOTH, coded, full_matrix, private, random_table

from qrelease.data.table import Table
from qrelease.evaluation.audit import audit_sensitivity, table_pairs
from qrelease.inference.measurement import noise_for
from qrelease.inference.residuals import Estimates
from qrelease.mechanisms.record_plan import (
    MAX_CANDIDATE_CELLS,
    SELECTION_SHARE,
    agreements,
    candidates,
    columns,
    coordinates,
    costs_of_round,
    pairs_and_columns,
    refinement,
    rounds_of,
    sets_at_once,
    share_of_pairs,
    signs_beside_pairs,
    subsets_asked,
    times_asked,
)
from qrelease.privacy import ZCDP, Neighbours
from qrelease.queries.workload import Workload


@pytest.mark.parametrize(
    ("distribution", "signs"),
    [
        ([0.1, 0.5, 0.4], [-1, 1, -1]),
        ([0.2, 0.2, 0.2, 0.2, 0.2], [1, 1, -1, -1, -1]),
        ([0.3, 0.3, 0.1, 0.3], [1, 1, -1, -1]),
        ([0.5, 0.5], [1, -1]),
        ([0.05, 0.95], [-1, 1]),
    ],
)
def test_signs_tell_the_heaviest_cell_or_the_first_half(distribution, signs):
    (two,) = agreements(coded(len(distribution), 2), [(0, 1)], [np.array(distribution), np.array([0.9, 0.1])]).groups
    assert two.queries.factors[0].rows.tolist() == [signs]
    assert two.queries.adjoint(np.ones(1)).reshape(-1, 2)[:, 0].tolist() == signs


def test_one_record_moves_each_sign_by_one():
    domain = coded(4, 3, 5)
    asked = agreements(domain, [(0, 1), (0, 2), (1, 2)], [np.full(n, 1 / n) for n in domain.shape])
    rows = np.concatenate([full_matrix(Workload(domain, (g,))) for g in asked.groups])
    assert set(np.unique(rows)) == {-1, 1}
    norms = (rows**2).sum(axis=0)
    assert asked.moved(2, replace=False) == norms.max() == 3
    assert asked.moved(2, replace=True) == farthest(rows) == 8


def farthest(rows):
    """The largest squared distance of two columns."""
    return max(((rows - rows[:, [i]]) ** 2).sum(axis=0).max() for i in range(rows.shape[1]))


@pytest.mark.parametrize("sizes", [(2, 3), (2, 2, 3), (3, 2, 2, 3), (2, 2, 2, 3, 2), (2,) * 6])
def test_a_replaced_record_moves_all_pairs_of_signs_as_far_as_is_said(sizes):
    domain, pairs = coded(*sizes), [*combinations(range(len(sizes)), 2)]
    uneven = [np.arange(1, n + 1) / np.arange(1, n + 1).sum() for n in sizes]
    asked = agreements(domain, pairs, uneven)
    rows = {g.axes: full_matrix(Workload(domain, (g,))) for g in asked.groups}
    assert asked.moved(2, replace=True) == farthest(np.concatenate([*rows.values()]))
    rng = np.random.default_rng(0)
    for _ in range(10):  # where some pairs are not there, no more than is said
        some_pairs = [pairs[i] for i in rng.permutation(len(pairs))[: rng.integers(1, len(pairs) + 1)]]
        part = Workload(domain, tuple(g for g in asked.groups if g.axes in some_pairs))
        assert farthest(np.concatenate([rows[s] for s in some_pairs])) <= part.moved(2, replace=True)
        assert part.moved(2, replace=True) <= asked.moved(2, replace=True)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("halved", [False, True])
def test_signs_move_as_far_as_their_noise_is_made_for_and_half_is_convicted(monkeypatch, relation, halved):
    domain = coded(2, 3, 4)
    asked = agreements(domain, [(0, 1), (0, 2), (1, 2)], [np.full(n, 1 / n) for n in domain.shape])
    if halved:
        whole = Workload.moved
        monkeypatch.setattr(Workload, "moved", lambda w, k, *, replace: max(whole(w, k, replace=replace) // 2**k, 1))
    rng = np.random.default_rng(3)
    pairs = [
        pair
        for size in (1, 5)
        for pair in table_pairs(Table(domain, tuple(rng.integers(0, n, size) for n in domain.shape)), relation)
    ]

    def run(table, entropy):
        made = private(table, ZCDP(0.5), relation, entropy)
        return np.concatenate([m.values for m in made.measure(asked, ZCDP(0.5))])

    variance = float(noise_for(asked, ZCDP(0.5), relation)[1])  # ρ = 1/2: it is the squared sensitivity
    assert audit_sensitivity(run, pairs, variance**0.5, order=2).convicted == halved


def test_at_once_are_all_subsets_of_what_is_asked_about_and_each_column():
    domain = coded(3, 2, 4, 1, 2)
    asked = Workload.marginals(domain, [["a", "b", "d"], ["a"], ["b", "c"]])
    assert sets_at_once(asked, 3) == [(0,), (0, 1), (1,), (1, 2), (2,), (4,)]  # a column of one cell tells nothing
    assert sets_at_once(asked, 2) == sets_at_once(asked, 3)
    assert sets_at_once(asked, 1) == []
    triples = [Workload.marginals(coded(*[2] * n), 3) for n in (23, 24)]  # of 2 047 and 2 324 coordinates
    assert [len(sets_at_once(w, 3)) for w in triples] == [23 + 253 + 1771, 0]


def test_coordinates_are_the_cells_that_are_free():
    """A table of residuals sums to zero along each axis: what is left is the rank of the projection on those."""
    shape, sets = (3, 2, 4), [(0,), (0, 2), (0, 1, 2)]
    ranks = []
    for s in sets:
        projection = np.ones((1, 1))
        for a in s:
            projection = np.kron(projection, np.eye(shape[a]) - 1 / shape[a])
        ranks.append(np.linalg.matrix_rank(projection))
    assert coordinates(shape, sets) == sum(ranks)


def test_candidates_are_the_smallest_of_what_is_asked_about():
    domain = coded(3, 2, 4, 2)
    asked = Workload.marginals(domain, [["a", "b", "c"], ["b", "d"]])
    assert subsets_asked(asked, 3) == {(0, 1), (0, 2), (1, 2), (0, 1, 2), (1, 3)}
    assert candidates(asked, 3) == [(1, 3), (0, 1), (1, 2), (0, 2), (0, 1, 2)]
    assert candidates(asked, 2) == [(1, 3), (0, 1), (1, 2), (0, 2)]
    assert times_asked(asked, [(0, 1), (1,), (3,), (0, 3)]).tolist() == [1, 2, 1, 0]
    wide = Workload.marginals(coded(2000, 2000, 3000, 2), 2)
    found = candidates(wide, 2)
    assert found == [(0, 3), (1, 3), (2, 3), (0, 1)]  # with the next the cells were more than there may be
    assert sum(wide.domain.cells(s) for s in found) <= MAX_CANDIDATE_CELLS


@pytest.mark.parametrize("units", [1, 3, 8])
def test_a_round_takes_its_part_of_the_cost_and_all_rounds_no_more(units):
    measuring, selecting = costs_of_round(ZCDP(0.8), units, 8)
    assert measuring.rho + selecting.rho == pytest.approx(0.8 * units / 8)
    assert selecting.rho == pytest.approx(SELECTION_SHARE * 0.8 * units / 8)
    assert Fraction(measuring.rho) + Fraction(selecting.rho) <= Fraction(0.8)


def test_shares_and_rounds_keep_to_their_bounds():
    cost = ZCDP(1.0)  # the signal is the number of records
    assert share_of_pairs(2_999, cost, 100, 9) == 0.0
    assert share_of_pairs(3_000, cost, 100, 9) == share_of_pairs(10_000, ZCDP(1.21), 100, 9) == 0.85
    assert share_of_pairs(12_500, cost, 100, 9) == pytest.approx(0.8)
    assert share_of_pairs(1e9, cost, 100, 9) == 0.65
    assert share_of_pairs(25_000, cost, 6_400, 9) == pytest.approx(0.8)  # four times the coordinates: twice the share
    rounds = [rounds_of(n, cost, paired=False) for n in (-5.0, 0.0, 1.0, 100, 10_000, 1e12)]
    assert rounds == [1, 1, 2, 9, 60, 400]
    assert rounds_of(10_000, cost, paired=True) < 60
    assert rounds_of(5_000, ZCDP(4.0), paired=False) == 60  # by the signal alone


def test_pairs_are_measured_where_their_mean_cell_holds_more_records_than_noise():
    cost, number, pairs = ZCDP(0.25), 30_000, 18
    sigma = (pairs / (2 * cost.rho)) ** 0.5
    enough = sigma * number / pairs
    assert enough == pytest.approx(10_000)
    assert share_of_pairs(enough - 1, cost, number, pairs) == 0.0
    assert share_of_pairs(enough + 1, cost, number, pairs) > 0.0
    assert share_of_pairs(enough - 1, cost, number, 2 * pairs) > 0.0  # as many coordinates in more pairs: smaller ones
    assert share_of_pairs(5_999, cost, 100, pairs) == 0.0  # however few cells there are


def test_a_refinement_measures_what_is_not_known_better_already():
    """Residuals that are known far better than they would be measured get hardly any of the cost."""
    domain, cost = coded(3, 4), ZCDP(0.5)
    anew, known = (
        refinement(domain, (0, 1), variances, cost, Neighbours.ADD_REMOVE)
        for variances in ({}, {(): 1e-6, (0,): 1e-6, (1,): 1e-6})
    )

    def variance(workload, axes):
        measured = private(random_table(domain, 100, 0), cost).measure(workload, cost)
        return Estimates.of(domain, measured).variances[axes]

    assert variance(known, (0, 1)) < 0.7 * variance(anew, (0, 1))
    assert variance(known, (0,)) > 2 * variance(anew, (0,))


def skewed(size, heavy):
    """A distribution of which the first cell has most, and the others the same."""
    return np.array([heavy, *[(1 - heavy) / (size - 1)] * (size - 1)])


def noise_of_pairs(workload, cost, neighbours, domain, pairs):
    """The standard deviations of the residuals of pairs, counts."""
    law, _ = noise_for(workload, cost, neighbours)
    scales = {g.axes: g.queries.scale for g in workload.groups}
    return np.array([sqrt(law.variance) / (scales[s] * domain.cells(s)) for s in pairs])


@pytest.mark.parametrize("neighbours", BOTH)
def test_pairs_are_measured_by_how_many_of_their_cells_hold_records(neighbours):
    """σ² goes with K^(-2/3), and the sum of Kσ is smaller than under the plan that knows no column."""
    domain, cost, records = coded(30, 30, 30, 30), ZCDP(0.5), 1e5
    pairs = [*combinations(range(4), 2)]
    distributions = [np.full(30, 1 / 30), np.full(30, 1 / 30), skewed(30, 0.998), skewed(30, 0.998)]
    noise = np.sqrt(len(pairs) / (2 * cost.rho))
    holding = np.array(
        [np.minimum(records * np.outer(distributions[a], distributions[b]) / noise, 1).sum() for a, b in pairs]
    )
    assert holding.max() > 10 * holding.min()
    even = [np.full(30, 1 / 30)] * 4
    found, alike = (
        noise_of_pairs(
            pairs_and_columns(domain, pairs, given, {}, cost, neighbours, records), cost, neighbours, domain, pairs
        )
        for given in (distributions, even)
    )
    assert np.allclose(alike, alike[0], rtol=0.01)
    assert holding @ found < 0.97 * (holding @ alike), holding @ found / (holding @ alike)
    weights = holding ** (4 / 3)
    wanted = np.maximum(weights, weights.mean() / 2) ** -0.25
    assert np.allclose(found / found[0], wanted / wanted[0], rtol=0.05)


def test_what_is_known_of_columns_is_not_bought_again():
    domain, cost, pairs = coded(6, 7), ZCDP(0.1), [(0, 1)]
    distributions = [np.full(6, 1 / 6), np.full(7, 1 / 7)]

    def planned(known):
        found = pairs_and_columns(domain, pairs, distributions, known, cost, Neighbours.ADD_REMOVE, 1e4)
        scales = {g.axes: g.queries.scale * domain.cells(g.axes) for g in found.groups}
        return scales[0,] / scales[0, 1]

    assert planned({(): 1.0, (0,): 1e-3, (1,): 1e-3}) < 0.2 * planned({})


def test_columns_alone_are_measured_each():
    assert columns(coded(3, 4), ZCDP(0.1), Neighbours.ADD_REMOVE).sets == ((), (0,), (1,))


def test_signs_are_measured_beside_pairs_that_are_not_known_well():
    assert signs_beside_pairs(10_000, ZCDP(1.0))
    assert not signs_beside_pairs(10_001, ZCDP(1.0))
    assert not signs_beside_pairs(10_000, ZCDP(1.01))
