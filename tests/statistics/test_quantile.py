"""One quantile: its cost, listed exactly, and its rank errors."""

import re
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from worlds import table_of

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit import compare
from qrelease.noise.calibration import selection_epsilon
from qrelease.privacy.costs import ZCDP, Neighbours, PureDP
from qrelease.statistics import quantile
from qrelease.statistics.base import BETA
from qrelease.statistics.catalogue import parse_statistic
from qrelease.statistics.grid import Numbers
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.quantile import Quantile, losses
from tests.statistics.doors import column, door, outcome

PAIRS = {
    Neighbours.ADD_REMOVE: [([0, 2], [0, 2, 2]), ([1], []), ([0, 0, 2], [0, 0, 2, 0]), ([1, 1], [1, 1, None])],
    Neighbours.REPLACE_ONE: [([0, 2], [0, 0]), ([2, 2, 2], [2, 2, 0]), ([1, 1], [1, None])],
}


def audits(statistic, cost, neighbours, cells=3):
    for first, second in PAIRS[neighbours]:
        a, b = (outcome(statistic, column(values, cells), cost, neighbours) for values in (first, second))
        yield compare(a, b, cost)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(2.0), ZCDP(0.5)], ids=str)
@pytest.mark.parametrize("q", [0.25, 0.5])
def test_a_quantile_costs_what_it_says(q, cost, neighbours):
    found = list(audits(Quantile("x", q), cost, neighbours))
    assert not any(a.convicted for a in found)
    assert max(a.epsilon if cost == PureDP(2.0) else a.rho for a in found) > 0.05


GROUPS = Domain.coded({"x": 3, "g": 2})
BY_GROUP = {
    Neighbours.ADD_REMOVE: [
        ([(0, 0), (2, 1)], [(0, 0), (2, 1), (2, 1)]),
        ([(1, 0)], []),
        ([(0, 0), (0, 0)], [(0, 0), (0, 0), (2, 1)]),
    ],
    Neighbours.REPLACE_ONE: [
        ([(0, 0), (2, 0), (2, 1)], [(0, 0), (2, 1), (2, 1)]),  # it leaves a group and enters another
        ([(2, 0), (0, 1)], [(2, 0), (0, 0)]),
        ([(0, 0), (2, 1)], [(2, 0), (2, 1)]),
    ],
}


def grouped_audits(statistic, cost, neighbours, kind=PrivateColumns):
    for pair in BY_GROUP[neighbours]:
        a, b = (outcome(statistic, table_of(GROUPS, rows), cost, neighbours, kind=kind) for rows in pair)
        yield compare(a, b, cost)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(2.0), ZCDP(0.5)], ids=str)
@pytest.mark.parametrize("q", [0.25, 0.5])
def test_quantiles_of_groups_cost_what_one_does(q, cost, neighbours):
    found = list(grouped_audits(Quantile("x", q, interval=False, by=("g",)), cost, neighbours))
    assert not any(a.convicted for a in found)
    assert max(a.epsilon if cost == PureDP(2.0) else a.rho for a in found) > 0.03


class EachAlone(PrivateColumns):
    """The mistake: each group at the sensitivity of one column, though a record may leave one and enter another."""

    def choose_apart(self, what, scores, sensitivities, cost):
        alone = [quantile.loss_sensitivity(Fraction(3, 4), self.neighbours)] * len(scores)
        return super().choose_apart(what, scores, alone, cost)


def test_groups_at_too_small_a_sensitivity_are_convicted():
    """The largest value goes from a group, in which most values are too small, to one in which most are too large."""
    statistic, cost, replace = Quantile("x", 0.75, interval=False, by=("g",)), PureDP(1.0), Neighbours.REPLACE_ONE
    wide = Domain.coded({"x": 8, "g": 2})
    pairs = [[(6, 0)] * 3 + [(1, 1)] * 3 + [(7, g)] for g in (0, 1)]
    for kind, convicted in ((EachAlone, True), (PrivateColumns, False)):
        first, second = (outcome(statistic, table_of(wide, rows), cost, replace, kind=kind) for rows in pairs)
        assert compare(first, second, cost).convicted == convicted


def test_the_losses_of_two_groups_move_by_half_of_what_they_are_taken_to():
    grid = np.arange(4)
    for q in (Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)):
        taken = {n: quantile.group_sensitivity(q, n) for n in Neighbours}
        assert taken[Neighbours.REPLACE_ONE] >= quantile.loss_sensitivity(q, Neighbours.REPLACE_ONE)
        for values in combinations_with_replacement(range(4), 4):
            here = losses(Numbers.listed(values, 4), q, grid)
            for other in range(4):
                moved = abs(losses(Numbers.listed([*values, other], 4), q, grid) - here).max()
                assert moved <= min(taken[Neighbours.ADD_REMOVE], taken[Neighbours.REPLACE_ONE] / 2)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(0.5), ZCDP(0.05)], ids=str)
def test_quantiles_of_groups_and_their_intervals(cost, neighbours):
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 3, 6000)
    values = np.clip(rng.integers(0, 600, 6000) + 150 * groups, 0, 999)
    table = Table(Domain.coded({"x": 1000, "g": 3}), (values, groups))
    statistic = Quantile("x", 0.9, by=("g",))
    bound = statistic.error_bound(table.domain, 6000, cost, neighbours, beta=BETA)
    late = misses = 0
    for seed in range(40):
        result = statistic.estimate(door(table, cost, neighbours, seed), cost)
        of = [values[groups == g] for g in range(3)]
        late += any(ranks_off(part, 0.9, v) > bound for part, v in zip(of, result.value, strict=True))
        exact = [np.quantile(part, 0.9, method="inverted_cdf") for part in of]
        misses += not all(low <= v <= high for v, (low, high) in zip(exact, result.interval, strict=True))
        assert abs(np.array(result.value) - exact).max() < 150  # of each its own group
    assert result.choices["groups"] == ("0", "1", "2")
    assert late <= 6
    assert misses <= 6
    assert bound < 800


def test_too_many_groups_of_too_many_values_are_refused():
    domain = Domain.coded({"x": 1 << 19, "g": 9})
    with pytest.raises(TooLarge, match="9 groups with 524,288 values each"):
        Quantile("x", by=("g",)).check(domain, PureDP(1.0), Neighbours.ADD_REMOVE)


class AllMonotone(PrivateColumns):
    """The published mistake: ε/Δ for scores of which some rise while others fall."""

    def choose(self, what, scores, sensitivity, cost, *, monotone=False):
        epsilon = selection_epsilon(cost, "permute-and-flip")
        self.spend(what, cost)
        return self.noise.choose(scores, epsilon, sensitivity, "exponential", monotone=True)


@pytest.mark.parametrize("asked", ["quantile:pay,q=0.9", "recursive-quantiles:pay,qs=0.25/0.9"])
def test_of_too_many_values_it_is_said_what_to_type_instead(asked):
    domain = Domain((Attribute("pay", "number", edges=(0, 200_000), within=(0, 200_000), step=0.01),))
    with pytest.raises(TooLarge) as refused:
        parse_statistic(asked).check(domain, PureDP(1.0), Neighbours.ADD_REMOVE)
    (typed,) = re.findall(r"take (\S+) \(in Python TreeQuantiles\), or a coarser step", str(refused.value))
    instead = parse_statistic(typed)
    instead.check(domain, PureDP(1.0), Neighbours.ADD_REMOVE)
    assert instead.qs == getattr(parse_statistic(asked), "qs", (0.9,))


def test_scores_that_are_not_monotone_at_the_rate_of_monotone_ones_are_convicted():
    statistic, cost, replace = Quantile("x", interval=False), PureDP(2.0), Neighbours.REPLACE_ONE
    tables = [column([99, 99, 99, v], 101) for v in (0, 100)]
    assert compare(*(outcome(statistic, t, cost, replace, kind=AllMonotone) for t in tables), cost).convicted


def test_the_loss_of_a_quantile_is_zero_and_moves_by_its_sensitivity():
    grid = np.arange(4)
    for q in (Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)):
        for n in range(6):
            for values in combinations_with_replacement(range(4), n):
                here = losses(Numbers.listed(values, 4), q, grid)
                assert here.min() == 0
                for other in range(4):
                    there = losses(Numbers.listed([*values, other], 4), q, grid)
                    assert abs(there - here).max() <= quantile.loss_sensitivity(q, Neighbours.ADD_REMOVE)
                    replaced = [losses(Numbers.listed([*values, v], 4), q, grid) for v in (0, 3)]
                    moved = max(abs(r - there).max() for r in replaced)
                    assert moved <= quantile.loss_sensitivity(q, Neighbours.REPLACE_ONE)


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)])
def test_an_end_of_an_interval_has_a_candidate_of_loss_zero_and_moves_as_losses_do(q):
    a, b = q.numerator, q.denominator
    for offset, side in ((o, s) for o in (0, 1, 3, 12, 40) for s in (-1, 1)):

        def ends(values, offset=offset, side=side):
            return quantile.end_losses(Numbers.listed(values, 4), q, 4, side, offset)

        for n in range(5):
            for values in combinations_with_replacement(range(4), n):
                here = ends(values)
                assert here.min() == 0
                inside = losses(Numbers.listed(values, 4), q, np.arange(4), -side * offset)
                assert np.array_equal(np.delete(here, 0 if side < 0 else 4), inside)
                assert here[0 if side < 0 else 4] == max((a if side < 0 else b - a) * n - offset, 0)
                there = [ends([*values, other]) for other in range(4)]
                assert all(abs(t - here).max() <= quantile.loss_sensitivity(q, Neighbours.ADD_REMOVE) for t in there)
                moved = max(abs(t - u).max() for t in [*there, here] for u in there)  # `here`: it becomes missing
                assert moved <= quantile.loss_sensitivity(q, Neighbours.REPLACE_ONE)
                assert moved <= quantile.group_sensitivity(q, Neighbours.REPLACE_ONE)


def tied(n, at):
    """All quantiles of n equal numbers are that number; any number is one of none."""
    return lambda low, high: not n or low <= at <= high


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(1.0), ZCDP(0.1)], ids=str)
@pytest.mark.parametrize("q", [0.1, 0.5])
def test_an_interval_covers_however_few_the_records(q, cost, neighbours):
    """The exact chance: a grid of 5 values, records at its ends and in its middle."""
    for n in (0, 1, 3, 10, 40):
        for at in (0, 2, 4) if n else (0,):
            table = column([at] * n + [None], 5)
            found = outcome(Quantile("x", q), table, cost, neighbours, seen=lambda r: r.interval)
            covered = sum(p for interval, p in found.masses.items() if tied(n, at)(*interval))
            assert covered >= 1 - BETA - 1e-9, (n, at)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(1.0), ZCDP(0.1)], ids=str)
def test_intervals_of_groups_cover_all_at_once_however_small_a_group(cost, neighbours):
    for n in (0, 1, 3, 10):
        for at in (0, 1, 2) if n else (0,):
            table = table_of(GROUPS, [(1, 0)] * 400 + [(at, 1)] * n)
            found = outcome(
                Quantile("x", 0.5, by=("g",)), table, cost, neighbours, seen=lambda r: r.interval, least=1e-9
            )
            held = (tied(400, 1), tied(n, at))
            covered = sum(p for ends, p in found.masses.items() if all(h(*e) for h, e in zip(held, ends, strict=True)))
            assert covered >= 1 - BETA - 1e-4, (n, at)


def ranks_off(values, q, v):
    """How many records too many are below a value, or above it."""
    values = np.asarray(values)
    return max((values < v).sum() - q * len(values), (values > v).sum() - (1 - q) * len(values), 0)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(0.5), ZCDP(0.05)], ids=str)
def test_one_quantile_and_its_interval(cost, neighbours):
    values = np.random.default_rng(3).integers(0, 1000, 4000)
    statistic, table = Quantile("x", 0.9), column(values.tolist(), 1000)
    bound = statistic.error_bound(table.domain, 4000, cost, neighbours, beta=BETA)
    late = misses = 0
    for seed in range(40):
        result = statistic.estimate(door(table, cost, neighbours, seed), cost)
        late += ranks_off(values, 0.9, result.value) > bound
        misses += not result.interval[0] <= np.quantile(values, 0.9, method="inverted_cdf") <= result.interval[1]
    assert late <= 6
    assert misses <= 6
    assert bound < 400


@pytest.mark.parametrize("cost", [PureDP(1e-320), PureDP(1e-300), PureDP(1e-12), ZCDP(1e-40)], ids=str)
def test_a_cost_too_small_for_a_choice_is_refused(cost):
    """Its ranks would be beyond whole numbers of 64 bits, or beyond all floats."""
    statistic, domain = Quantile("x", 0.9999, by=("g",)), Domain.coded({"x": 3, "g": 2})
    with pytest.raises(InvalidInput, match="too small for a selection"):
        statistic.check(domain, cost, Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidInput, match="too small for a selection"):
        statistic.error_bound(domain, 10, cost, Neighbours.ADD_REMOVE, beta=0.05)
    statistic.estimate(door(table_of(domain, [(0, 0), (2, 1)]), PureDP(4e-12)), PureDP(4e-12))
