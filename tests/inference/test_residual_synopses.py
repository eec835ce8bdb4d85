"""Synopses of measured residuals: what is answered and barred, and what comes back from a description."""

import json

import numpy as np
import pytest
from worlds import BOTH, coded, private, random_table, table_of, true_answers

from qrelease.errors import InvalidInput
from qrelease.inference.maxent import fit_histogram
from qrelease.inference.residual_synopses import Linear, Modelled
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.privacy import ZCDP
from qrelease.queries.workload import Workload

ADD, SWAP = BOTH
DOMAIN = coded(3, 2, 4)
TABLE = random_table(DOMAIN, 1_000, 0)
OWN = Workload.marginals(DOMAIN, [["a", "b"], ["c"]])
PARTLY = Workload.marginals(DOMAIN, [["b", "c"], ["a"], ["a", "b"]])
"""The first marginal was not measured, the second is below one that was."""

COST = ZCDP(0.5)


def residuals(neighbours=ADD):
    plan = ResidualPlan.choose(DOMAIN, OWN.sets, neighbours=neighbours)
    return private(TABLE, COST, neighbours).measure(plan.workload, COST)


def marginals():
    return private(TABLE, COST).measure(OWN, COST)


def linear(measurements, last=0, records=None):
    return Linear(Estimates.of(DOMAIN, measurements, records), last)


def modelled(measurements, last=0, records=None):
    return Modelled.of(Estimates.of(DOMAIN, measurements, records), OWN, last)


def test_linear_answers_are_those_of_the_estimates_and_may_be_missing():
    measured = residuals()
    made = linear(measured)
    estimates = Estimates.of(DOMAIN, measured)
    table, variance = estimates.marginal((0, 1))
    values, bars = made.error_bars(PARTLY)
    assert np.isnan(values[:8]).all()
    assert np.isnan(bars[:8]).all()
    assert values[-6:].tolist() == table.reshape(-1).tolist()
    assert bars[-6:] == pytest.approx(1.959964 * np.sqrt(variance), rel=1e-6)
    assert values[8:11] == pytest.approx(table.sum(axis=1))
    assert made.answer(OWN).tolist() == made.error_bars(OWN)[0].tolist()
    assert made.total == pytest.approx(table.sum())
    assert np.isnan(np.concatenate(made.error_bars(Workload.marginals(DOMAIN, [["b", "c"]])))).all()
    with pytest.raises(InvalidInput, match="no released marginal contains the columns b, c"):
        made.answer(PARTLY)
    with pytest.raises(InvalidInput, match="its universe is too large for a histogram"):
        made.sample(3, np.random.default_rng(0))


def test_a_model_answers_everything_and_has_bars_for_its_own_workload():
    estimates = Estimates.of(DOMAIN, residuals())
    made = Modelled.of(estimates, OWN)
    assert np.isfinite(made.answer(PARTLY)).all()
    assert made.answer(OWN).tolist() == made.histogram.answer(OWN).tolist()
    bars = made.model_bars(PARTLY)
    assert np.isnan(bars[:11]).all()
    assert bars[-6:].tolist() == made.widths[:6].tolist()
    truth = true_answers(OWN, TABLE)
    assert np.mean(np.abs(made.answer(OWN) - truth) <= made.widths) > 0.9
    linear_answers, half = made.error_bars(OWN)
    assert linear_answers.tolist() == Linear(estimates).answer(OWN).tolist()
    assert (half > 0).all()
    drawn = made.sample(200, np.random.default_rng(0))
    assert [len(column) for column in drawn] == [200] * 3


def test_bars_of_a_fit_that_was_not_solved_reach_those_of_the_linear_answers():
    """Two distinct records: hardly any cell has some, and what the fit does not come to, its bars do not pretend."""
    domain = coded(*[2] * 6)
    asked = Workload.marginals(domain, 3)
    table = table_of(domain, [[0, 1, 0, 0, 1, 1], [1, 1, 0, 1, 0, 0]] * 500)
    plan = ResidualPlan.choose(domain, asked.sets)
    estimates = Estimates.of(domain, private(table, COST).measure(plan.workload, COST))
    _, posterior = fit_histogram(estimates)
    assert not posterior.solved
    made = Modelled.of(estimates, asked)
    answers, half = made.error_bars(asked)
    assert made.widths == pytest.approx(np.abs(made.answer(asked) - answers) + half)


@pytest.mark.parametrize("kind", [Linear, Modelled])
@pytest.mark.parametrize("neighbours", BOTH)
def test_of_residuals_a_description_and_the_measurements_are_all(kind, neighbours):
    measured = residuals(neighbours)
    records = 1_000.0 if neighbours is SWAP else None
    made = (linear if kind is Linear else modelled)(measured, records=records)
    content = json.loads(json.dumps(made.to_json()))
    # What another mechanism measured before, as of a whole marginal, is no part of it.
    again = kind.from_json(OWN if kind is Modelled else DOMAIN, content, [*marginals(), *measured])
    same(again, made)
    assert again.total == pytest.approx(made.total)


@pytest.mark.parametrize("kind", [Linear, Modelled])
@pytest.mark.parametrize("records", [None, 1_000.0])
def test_of_marginals_a_description_says_how_many_were_the_last(kind, records):
    measured = marginals()
    made = (linear if kind is Linear else modelled)(measured, last=len(measured), records=records)
    content = json.loads(json.dumps(made.to_json()))
    assert (content["measurements"], content["public"]) == (2, records)
    again = kind.from_json(OWN if kind is Modelled else DOMAIN, content, [*residuals(), *measured])
    same(again, made)
    assert again.last == 2


def same(again, made):
    for ours, theirs in zip(made.error_bars(OWN), again.error_bars(OWN), strict=True):
        assert theirs == pytest.approx(ours)
    assert again.answer(OWN) == pytest.approx(made.answer(OWN))
    if isinstance(made, Modelled):
        assert again.model_bars(OWN) == pytest.approx(made.model_bars(OWN), rel=1e-3)  # stored in few digits


def test_a_bar_that_is_missing_is_missing_in_a_description_too():
    made = modelled(residuals())
    made.widths[3] = np.nan
    content = json.loads(json.dumps(made.to_json()))
    assert content["widths"][3] is None
    again = Modelled.from_json(OWN, content, residuals())
    assert np.flatnonzero(np.isnan(again.widths)).tolist() == [3]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"total": 7.0}, r"total: 7\.0 is not that of the measurements"),
        ({"public": 3.0}, "public: it is of so many last measurements, and measurements is missing or 0"),
        ({"measurements": 1, "public": "many"}, "public must be a number"),
        ({"measurements": 1, "public": None}, "the last 1 do not give the number of records, and it is not public"),
    ],
)
def test_a_description_that_does_not_fit_its_measurements_is_refused(changes, said):
    measured = residuals()
    content = linear(measured).to_json() | changes
    with pytest.raises(InvalidInput, match=said):
        Linear.from_json(DOMAIN, content, measured)
