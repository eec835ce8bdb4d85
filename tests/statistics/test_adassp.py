"""AdaSSP: what a record moves in each thing that is measured, what is spent, and what the refinements are good for."""

import math

import numpy as np
import pytest

from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import audit_gaussian
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP, compose
from qrelease.privacy.filters import Filter
from qrelease.statistics.adassp import AdaSSP
from qrelease.statistics.private_columns import PrivateColumns
from tests.statistics.doors import door
from tests.statistics.test_regression import DOMAIN, people, predicted, truth


class Watched(PrivateColumns):
    """Keeps what is measured, without noise, and the squared distance that was claimed for it."""

    def measure(self, what, exact, sensitivity, cost):
        _, law = super().measure(what, exact, sensitivity, cost)
        self.seen = [*getattr(self, "seen", []), (exact.astype(object), sensitivity)]
        return exact, law


def measured(table, neighbours, cost=ZCDP(0.5)):  # noqa: B008
    private = Watched(table, neighbours, Filter(cost), door(table, cost).noise)
    AdaSSP("y", refinements=1).estimate(private, cost)
    return private.seen


def found_of(statistic, tables, cost, claim):
    """The exact audit of independent Gaussian noise on what two tables differ in, each part in its own scales."""
    seen = []
    for table in tables:
        private = Watched(table, Neighbours.ADD_REMOVE, Filter(cost), door(table, cost).noise)
        statistic.estimate(private, cost)
        seen.append(zip(private.seen, [s.cost.rho for s in private.spends], strict=True))
    moved = sum(
        2 * rho * float(((one - other) ** 2).sum()) / claimed
        for ((one, claimed), rho), ((other, _), _) in zip(*seen, strict=True)
    )
    return audit_gaussian(math.sqrt(moved), 1.0, claim)


def test_moments_cost_what_they_say_and_more_where_each_is_given_the_whole():
    """The mistake: ε for XᵀX, and ε once more for Xᵀy."""
    statistic, cost, table = AdaSSP("y", refinements=0), ZCDP(0.5), without(people(40), 0, (2, 49, 0, 20))
    tables = table, without(table, 39)
    found = found_of(statistic, tables, cost, cost)
    assert not found.convicted
    assert found.bound > 0.49
    assert found_of(statistic, tables, ZCDP(1.0), cost).convicted


def without(table, place, instead=None):
    columns = np.array([np.delete(c, place) for c in table.columns])
    return Table(DOMAIN, tuple(columns if instead is None else np.column_stack([columns, instead])))


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_record_moves_what_does_not_depend_on_noise_by_no_more_than_is_claimed(neighbours):
    """XᵀX and the first moment are functions of the records alone; the twin claims the bound of adding for a change."""
    table, shares = people(40), []
    for place in range(0, 40, 3):
        other = without(table, place, None if neighbours is Neighbours.ADD_REMOVE else (2, 49, 0, 20))
        for (exact, claimed), (moved, _) in list(
            zip(measured(table, neighbours), measured(other, neighbours), strict=True)
        )[:2]:
            shares.append(float(((exact - moved) ** 2).sum() / claimed))
    assert 0.2 < max(shares) <= 1
    if neighbours is Neighbours.REPLACE_ONE:
        assert max(shares) > 0.25  # so a quarter of it, which adding would need, is not enough


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("refinements", [0, 1, 9])
def test_it_spends_all_of_its_cost_and_no_more(neighbours, refinements):
    private = door(people(200), ZCDP(0.5), neighbours)
    AdaSSP("y", refinements=refinements).estimate(private, ZCDP(0.5))
    assert compose([s.cost for s in private.spends]).rho == pytest.approx(0.5, rel=1e-12)
    assert len(private.spends) == (3 + refinements if refinements else 2)


def test_residuals_are_clipped_where_few_are_larger():
    """y is a function of the columns up to 1 of 10 steps; without any noise to fear they would not be clipped."""
    found = AdaSSP("y").estimate(door(people(20_000), ZCDP(0.02)), ZCDP(0.02))
    assert 0.12 < found.choices["residuals clipped to"] < 0.8


def test_refinements_leave_less_error():
    table, cost = people(3000), ApproxDP(1.0, 1e-6)
    exact = truth(table)

    def error(statistic):
        return math.sqrt(np.mean([(predicted(statistic, table, cost, seed=s) - exact) ** 2 for s in range(5)]))

    assert error(AdaSSP("y")) < 0.8 * error(AdaSSP("y", refinements=0))


@pytest.mark.parametrize("refinements", [0, 9])
def test_the_promise_is_about_all_that_is_measured(refinements):
    statistic, cost = AdaSSP("y", refinements=refinements), ZCDP(0.5)
    bound = statistic.error_bound(DOMAIN, 1000, cost, Neighbours.ADD_REMOVE, beta=0.05)
    assert 0 < bound < 0.5
    assert statistic.error_bound(DOMAIN, 3, cost, Neighbours.ADD_REMOVE, beta=0.05) == math.inf
    with pytest.raises(InvalidInput, match="functional-mechanism"):
        statistic.check(DOMAIN, PureDP(1.0), Neighbours.ADD_REMOVE)
