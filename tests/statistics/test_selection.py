"""Selections and thresholds: their cost listed exactly, a twin that does not share it, and promises at β."""

import pytest

from qrelease.evaluation.audit import compare
from qrelease.privacy.costs import ZCDP, Neighbours, PureDP
from qrelease.statistics.selection import MostCommon
from tests.statistics.counted import COUNTS, PAIRS, TABLE
from tests.statistics.doors import DrawsAt, column, door, outcome


def audits(cost, neighbours, statistic=MostCommon(("x",), 2)):  # noqa: B008
    for first, second in PAIRS[neighbours]:
        yield compare(*(outcome(statistic, column(v, 3), cost, neighbours) for v in (first, second)), cost)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(1.0), ZCDP(0.5)], ids=str)
def test_peeling_costs_what_it_says(cost, neighbours):
    found = list(audits(cost, neighbours))
    assert not any(a.convicted for a in found)
    assert max(a.epsilon if cost == PureDP(1.0) else a.rho for a in found) > 0.1


def test_each_place_at_the_whole_cost_is_convicted():
    """The mistake: k selections for the price of one, here of twice one, which no filter sees."""
    twin = DrawsAt(PureDP(4.0), MostCommon(("x",), 2))
    assert any(a.convicted for a in audits(PureDP(1.0), Neighbours.REPLACE_ONE, twin))


@pytest.mark.parametrize("cost", [PureDP(1.0), ZCDP(0.1)], ids=str)
def test_the_most_common_are_about_the_most_common(cost):
    statistic = MostCommon(("x",), 5)
    bound = statistic.error_bound(TABLE.domain, len(TABLE), cost, Neighbours.ADD_REMOVE, beta=0.05)
    assert bound < 100
    late = 0
    for seed in range(100):
        left, worst = dict(enumerate(COUNTS.tolist())), 0
        for label in statistic.estimate(door(TABLE, cost, noise=seed), cost).value:
            worst = max(worst, max(left.values()) - left.pop(int(label)))
        late += worst > bound
    assert late <= 10
