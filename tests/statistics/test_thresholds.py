"""Cells above a threshold: the cost of a session listed exactly, a twin that is convicted, and promises at β."""

import pytest

from qrelease.evaluation.audit import compare
from qrelease.privacy.costs import ApproxDP, Neighbours, PureDP
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.thresholds import AboveThresholds
from tests.statistics.counted import COUNTS, PAIRS, TABLE
from tests.statistics.doors import column, door, outcome


def sessions(form, epsilon, neighbours, positives=2, missing=3e-3):
    statistic, cost = AboveThresholds(("x",), 1, positives, form), PureDP(epsilon)
    for pair in PAIRS[neighbours]:
        laws = (outcome(statistic, column(v, 3), cost, neighbours, missing=missing, least=1e-7) for v in pair)
        yield compare(*laws, cost)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(
    ("form", "epsilon", "positives"), [("best", 8.0, 2), ("sparse", 16.0, 2), ("numeric", 16.0, 1)]
)
def test_a_session_costs_what_it_says(form, epsilon, positives, neighbours):
    """The cells said to be above, how many were asked, and the numbers, listed over all noise."""
    audits = list(sessions(form, epsilon, neighbours, positives))
    assert not any(a.convicted for a in audits)
    assert max(a.epsilon for a in audits) > 1.5


class PaysForOne(PrivateColumns):
    """The mistake: the noise of AboveThreshold in a session that goes on after its halt."""

    def stream(self, what, cost, kind, positives, *arguments, **options):
        stream = super().stream(what, cost, kind, 1, *arguments, **options)
        stream.left = positives
        return stream


def test_a_session_that_pays_for_one_cell_and_names_six_is_convicted():
    cost = PureDP(4.0)
    statistic, pairs = AboveThresholds(("x",), 1, 6), [0, 0, 1, 1, 2, 2, 3, 3]
    laws = (
        outcome(statistic, column(v, 6), cost, missing=1e-6, least=1e-12, kind=PaysForOne) for v in (pairs, [*pairs, 3])
    )
    assert compare(*laws, cost).convicted


@pytest.mark.parametrize("form", ["best", "sparse", "numeric"])
@pytest.mark.parametrize("cost", [PureDP(2.0), ApproxDP(2.0, 1e-6)], ids=str)
def test_the_promise_of_a_session_holds_over_200_runs(form, cost):
    """At β = 0.05 more than 20 of 200 failures have a chance below 0.003."""
    statistic = AboveThresholds(("x",), 450, 4, form)
    alpha = statistic.error_bound(TABLE.domain, len(TABLE), cost, Neighbours.ADD_REMOVE, beta=0.05)
    assert alpha < 450 or form == "numeric"
    failures = 0
    for seed in range(200):
        result = statistic.estimate(door(TABLE, cost, noise=seed), cost)
        said = {int(v[0] if form == "numeric" else v) for v in result.value}
        below = set(range(result.choices["asked"])) - said
        wrong = any(COUNTS[c] < 450 - alpha for c in said) or any(COUNTS[c] > 450 + alpha for c in below)
        if form == "numeric":
            wrong = wrong or any(abs(COUNTS[int(c)] - v) > alpha for c, v in result.value)
        failures += wrong
        assert len(said) <= 4
    assert failures <= 20


def test_the_best_form_promises_the_least_error():
    asked = TABLE.domain, len(TABLE), PureDP(2.0), Neighbours.ADD_REMOVE
    bounds = [AboveThresholds(("x",), 450, 4, f).error_bound(*asked, beta=0.05) for f in ("best", "sparse", "numeric")]
    assert bounds[0] < bounds[1] / 3 < bounds[2] / 3
