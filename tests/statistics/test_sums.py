"""Sums: their cost, listed exactly, their sensitivity where bounds are away from 0, and their promises."""

import math

import numpy as np
import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import ZCDP, Neighbours, PureDP
from qrelease.statistics.mean import TextbookMean
from qrelease.statistics.sums import Sum
from tests.statistics.doors import door
from tests.statistics.means import BOTH, NEIGHBOURS, ONE, TABLE, found, misses


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_sum_costs_what_it_says(neighbours):
    audits = [found(Sum("x"), TABLE, other, PureDP(8.0), neighbours) for other in NEIGHBOURS[neighbours][:3]]
    assert not any(audit.convicted for audit in audits)
    assert max(audit.epsilon for audit in audits) > 2


@pytest.mark.parametrize("cost", [ONE, ZCDP(0.05)], ids=str)
@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("statistic", [Sum("x"), Sum("x", 3, 90)], ids=str)
def test_intervals_and_promises_hold(statistic, neighbours, cost):
    """With probability 0.95 at least; of 100 runs more than 12 misses have a chance below 0.004."""
    assert max(misses(statistic, cost, neighbours)) <= 12


@pytest.mark.parametrize(("low", "high", "moved"), [(3, 90, (90, 87)), (0, 10, (10, 10)), (None, None, (99, 99))])
def test_a_record_moves_a_sum_by_the_larger_bound_and_a_replaced_one_by_their_distance(low, high, moved):
    """So that the promise, at one ε, is as much larger."""
    domain = Domain.coded({"x": 100})
    bounds = [Sum("x", low, high).error_bound(domain, 0, PureDP(0.01), n, beta=0.05) for n in BOTH]
    assert bounds[1] / bounds[0] == pytest.approx(moved[1] / moved[0], rel=1e-3)
    assert bounds[0] == pytest.approx(moved[0] / 0.01 * math.log(1 / 0.05), rel=0.01)


def test_zero_has_to_be_a_step_of_the_grid():
    off = Domain((Attribute("x", "number", edges=(0.5, 1.5, 2.5, 3.5), integer=False),))
    with pytest.raises(InvalidInput):
        Sum("x").check(off, ONE, Neighbours.ADD_REMOVE)


FAR = 10**15


def far_from_zero(sign, records):
    """So many records of one value at the end of a grid that is far from 0."""
    within = tuple(sorted((sign * FAR, sign * (FAR - 100))))
    domain = Domain((Attribute("x", "number", within=within, step=1, edges=(within[0], within[1] + 1)),))
    return Table(domain, (np.zeros(records, np.int64),), None, (np.full(records, 100 if sign > 0 else 0),))


@pytest.mark.parametrize("statistic", [Sum("x"), TextbookMean("x", origin="zero")], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("bits", [62, 63, 64])
def test_a_record_that_takes_a_sum_past_64_bits_moves_it_as_any_other(statistic, sign, bits):
    """Under the same noise by its value, to the last digit: nothing is rounded, or wraps around, on one side alone."""
    unit = FAR if statistic.name == "sum" else 2 * FAR  # half steps
    last = (1 << bits) // unit
    for seed in range(4):
        sums = [
            statistic.estimate(door(far_from_zero(sign, n), PureDP(5.0), noise=seed), PureDP(5.0)).measured[0].value
            for n in (last, last + 1)
        ]
        assert sums[1] - sums[0] == sign * unit
