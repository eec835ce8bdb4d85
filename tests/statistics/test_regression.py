"""Regressions: what a record moves, exactly; what is spent; and that they find what is there."""

import math

import numpy as np
import pytest

from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP, compose
from qrelease.privacy.conversions import gaussian_delta, gaussian_zcdp
from qrelease.queries.workload import Workload
from qrelease.statistics import regression
from qrelease.statistics.adassp import AdaSSP
from qrelease.statistics.design import UNIT, Design, PublicRecords
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.regression import FunctionalMechanism, NoisyDescent, regression_from_marginals
from tests.statistics.doors import door
from tests.statistics.persons import DOMAIN, people


def records(table):
    return PublicRecords(dict(zip(table.domain.names, table.columns, strict=True)))


def truth(table):
    """Least squares of the targets from -1 to 1, by floats."""
    design = Design.of(DOMAIN, "y", None)
    rows = design.rows(records(table)) / UNIT
    return rows @ np.linalg.lstsq(rows, table.columns[-1] / 10 - 1, rcond=None)[0]


def predicted(statistic, table, cost, neighbours=Neighbours.ADD_REMOVE, seed=0):
    found = statistic.estimate(door(table, cost, neighbours, seed), cost)
    return Design.of(DOMAIN, statistic.target, statistic.features).predict(found.value, records(table))


@pytest.mark.parametrize("loss", ["linear", "huber", "logistic"])
@pytest.mark.parametrize("clip_inputs", [False, True])
@pytest.mark.parametrize("clip", [0.1, 0.8])
def test_a_record_adds_a_gradient_of_bounded_length_of_its_own(loss, clip, clip_inputs):
    if loss == "linear" and clip_inputs:
        pytest.skip("slopes of squares are not bounded, so they are clipped to 1: the same code as for Huber's")
    design = Design.of(DOMAIN, "c" if loss == "logistic" else "y", None)
    table = people(60)
    statistic = NoisyDescent(design.target, loss=loss, clip=clip, clip_inputs=clip_inputs)
    bound = statistic.gradient_bound(design)
    targets, _ = regression.targets_of(design, loss, None)
    rows, y = design.rows(records(table)), targets[table.columns[DOMAIN.axis(design.target)]]
    rng = np.random.default_rng(1)
    for _ in range(5):
        weights = rng.integers(-(1 << 14), 1 << 14, design.width)
        whole = regression.RegressionRecords.of(rows, y, loss, bound, clip_inputs).gradient(weights)
        lengths = []
        for i in range(0, 60, 7):
            left = np.delete(np.arange(60), i)
            rest = regression.RegressionRecords.of(rows[left], y[left], loss, bound, clip_inputs).gradient(weights)
            alone = regression.RegressionRecords.of(rows[i : i + 1], y[i : i + 1], loss, bound, clip_inputs).gradient(
                weights
            )
            assert (whole - rest == alone).all()  # exact: no rounding that depends on the others
            lengths.append(int((alone.astype(object) ** 2).sum()))
        assert max(lengths) <= bound**2
        if clip == 0.1 and not clip_inputs:
            assert max(lengths) > 0.9 * bound**2


class Keeps(PrivateColumns):
    """What was measured, and for which sensitivity."""

    def measure(self, what, exact, sensitivity, cost):
        self.seen = exact, sensitivity
        return super().measure(what, exact, sensitivity, cost)


def test_the_functional_mechanism_costs_what_it_says_and_more_where_the_target_is_forgotten():
    """ε is what a record moves all coefficients by over Δ₁, exactly. The mistake: Δ₁ of XᵀX, with Xᵀy beside it."""
    table, seen = people(40), []
    whole = np.column_stack([np.stack(table.columns), (2, 49, 0, 20)])
    for columns in (whole, whole[:, :-1]):
        private = door(Table(DOMAIN, tuple(columns)), PureDP(1.0), kind=Keeps)
        FunctionalMechanism("y").estimate(private, PureDP(1.0))
        seen.append(private.seen)
    (one, moved), (other, _) = seen
    found = int(np.abs(one - other).sum())
    assert 0.99 * moved < found <= moved
    assert found > Design.of(DOMAIN, "y", None).moment_sum


def test_the_table_of_the_logistic_function_is_near_it():
    z = np.arange(-20, 20, 0.01)
    whole = np.rint(z * UNIT * regression.WEIGHT).astype(np.int64)
    for y in (-1, 1):
        exact = -y / (1 + np.exp(y * z))
        found = regression.slopes_of(whole, np.full(len(z), y * UNIT), "logistic") / regression.SLOPE
        assert np.abs(found - exact).max() < 1e-3


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_descent_spends_all_of_its_cost_and_no_more(neighbours):
    private = door(people(200), ZCDP(0.5), neighbours)
    NoisyDescent("y", loss="huber", epochs=7, batches=3).estimate(private, ZCDP(0.5))
    assert compose([s.cost for s in private.spends]).rho == pytest.approx(0.5, rel=1e-12)
    assert len(private.spends) == 9


def test_epsilon_a_step_is_convicted():
    """Broken twin: T steps, each with the noise of the whole (ε, δ)."""
    steps, cost, sigma = 20, ApproxDP(1.0, 1e-6), 4.22  # the analytic Gaussian's for one step
    assert gaussian_delta(1.0, sigma, 1.0) <= cost.delta * 1.05
    assert gaussian_delta(math.sqrt(steps), sigma, 1.0) > 1e4 * cost.delta
    design, descent = Design.of(DOMAIN, "y", None), NoisyDescent("y", loss="huber", epochs=steps)
    _, _, epochs = descent.costs(ZCDP(0.1))
    law = descent.law(design, epochs[0], Neighbours.ADD_REMOVE)
    total = steps * gaussian_zcdp(descent.gradient_bound(design), law.scale).rho
    assert 0.8 * 0.1 < total < 0.1


@pytest.mark.parametrize(
    ("statistic", "cost"),
    [
        (AdaSSP("y"), ZCDP(1.0)),
        (AdaSSP("y", refinements=0), ZCDP(1.0)),
        (FunctionalMechanism("y"), PureDP(5.0)),
        (NoisyDescent("y", loss="linear", clip=1.0), ZCDP(1.0)),
        (NoisyDescent("y", loss="huber", curvature=0, epochs=300), ZCDP(1.0)),
        (NoisyDescent("y", loss="huber", batches=2), ZCDP(1.0)),
    ],
    ids=str,
)
def test_regressions_find_what_is_there(statistic, cost):
    table = people(20_000)
    exact = truth(table)
    assert np.sqrt(np.mean((predicted(statistic, table, cost) - exact) ** 2)) < 0.06
    assert exact.std() > 0.3


def test_logistic_regression_finds_the_better_half():
    table = people(20_000)
    found = predicted(NoisyDescent("c", ("a", "b", "y")), table, ZCDP(0.5))
    mean = predicted(AdaSSP("c", ("a", "b", "y"), positive="y"), table, ZCDP(0.5))
    yes = table.columns[2] == 1
    assert (found[yes] > 0).mean() > 0.75
    assert (found[~yes] < 0).mean() > 0.75
    assert np.corrcoef(found, mean)[0, 1] > 0.95


def test_more_budget_gives_less_error():
    table = people(3000)
    exact = truth(table)

    def error(rho):
        runs = [predicted(AdaSSP("y"), table, ZCDP(rho), seed=s) for s in range(5)]
        return math.sqrt(np.mean((np.array(runs) - exact) ** 2))

    assert error(1.0) < error(0.01) / 2


def test_marginals_give_the_same_moments_as_rows():
    table = people(500)
    design = Design.of(DOMAIN, "y", ("c", "a", "b"))
    values, _ = design.numbers()
    gram, cross = regression.moments_of(design.rows(records(table)), values[table.columns[-1]])

    def counts(names):
        return table.counts([tuple(DOMAIN.axis(name) for name in names)])[0].astype(float)

    found = design.moments(counts, values)
    assert (found[0] == gram).all()
    assert (found[1] == cross).all()
    weights = regression_from_marginals(
        DOMAIN, "y", lambda w: np.concatenate([m.astype(float) for m in table.counts(w.sets)])
    )
    assert np.abs(Design.of(DOMAIN, "y", None).predict(weights, records(table)) - truth(table)).max() < 1e-3
    assert isinstance(Workload.marginals(DOMAIN, [("a", "y")]), Workload)


@pytest.mark.parametrize(
    ("statistic", "cost"),
    [
        (AdaSSP("a"), ZCDP(1.0)),
        (AdaSSP("y", ("y",)), ZCDP(1.0)),
        (AdaSSP("y"), PureDP(1.0)),
        (AdaSSP("a", positive="?"), ZCDP(1.0)),
        (FunctionalMechanism("y"), ZCDP(1.0)),
        (NoisyDescent("a"), ZCDP(1.0)),
        (NoisyDescent("y", loss="hinge"), ZCDP(1.0)),
        (NoisyDescent("y", loss="huber", clip=0.0), ZCDP(1.0)),
        (NoisyDescent("y", loss="huber", epochs=0), ZCDP(1.0)),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(statistic, cost):
    with pytest.raises(InvalidInput):
        statistic.check(DOMAIN, cost, Neighbours.ADD_REMOVE)
