"""Cells above a threshold: the cost of a session listed exactly, twins that are convicted, and promises at β."""

from itertools import pairwise

import numpy as np
import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import compare
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.release.curator import Curator
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


# Sums and means: values -1, 0, 1 and 2, of which a mean may be compared with a half

VALUES = Attribute("v", "number", edges=(-1.0, 0.0, 1.0, 2.0, 3.0), integer=True, missing=("?",))
GROUPED = Domain((Attribute("g", "coded", codes=2), VALUES))


def grouped(records, domain=GROUPED):
    """A table of pairs of a group and a value; the value None is missing."""
    codes = [(g, 4 if v is None else v + 1) for g, v in records]
    return Table(domain, tuple(np.array([c[i] for c in codes], np.int64) for i in range(2)))


HELD = [(0, 2), (1, -1), (1, 2)]
LAST = {
    Neighbours.ADD_REMOVE: [([], [r]) for r in ((0, -1), (0, 2), (1, 2), (1, None))],
    Neighbours.REPLACE_ONE: [
        ([a], [b]) for a, b in (((0, -1), (0, 2)), ((0, 2), (1, 2)), ((0, 2), (1, -1)), ((0, None), (0, 2)))
    ],
}
"""The last record of two neighbours: of either bound, or without a value, in one group or in two."""


def of_values(measure, form="best", positives=2, **given):
    threshold = {"sum": 2, "mean": 0.5}[measure]
    return AboveThresholds(("g",), threshold, positives, form, measure, "v", **given)


def near_the_level(statistic, cost, neighbours):
    """Records whose sums are about as large as what they are compared with: of means that is beyond the noise."""
    if statistic.measure == "sum":
        return HELD
    reach = statistic.error_bound(GROUPED, 10**6, cost, neighbours, beta=0.05)
    return [(g, 2) for g in (0, 1)] * int(reach // 3)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("measure", ["sum", "mean"])
@pytest.mark.parametrize(
    ("form", "epsilon", "positives"), [("best", 8.0, 2), ("sparse", 24.0, 2), ("numeric", 48.0, 1)]
)
def test_a_session_on_values_costs_what_it_says(measure, form, epsilon, positives, neighbours):
    """The cells said to be above, how many were asked, and the numbers, listed over all noise."""
    statistic, cost, worst = of_values(measure, form, positives), PureDP(epsilon), 0.0
    held = near_the_level(statistic, cost, neighbours)
    for last in LAST[neighbours]:
        tables = (grouped([*held, *records]) for records in last)
        audit = compare(*(outcome(statistic, t, cost, neighbours, missing=3e-3, least=1e-7) for t in tables), cost)
        assert not audit.convicted
        worst = max(worst, audit.epsilon)
    assert worst > 1


@pytest.mark.parametrize("measure", ["sum", "mean"])
def test_a_session_on_values_with_a_bound_costs_less_noise(measure):
    narrow, wide = of_values(measure, low=0, high=1), of_values(measure)
    asked = GROUPED, 1000, PureDP(1.0), Neighbours.ADD_REMOVE
    assert narrow.error_bound(*asked, beta=0.05) < wide.error_bound(*asked, beta=0.05) / 1.4


class CountsRecords(PrivateColumns):
    """The mistake: the noise of counts, which one record moves by 1, for sums that it moves by more."""

    def stream(self, what, cost, kind, positives, moved, **options):
        return super().stream(what, cost, kind, positives, 1, **options)


class NoticesOneBound(PrivateColumns):
    """The mistake: that a record replaced moves a sum by no more than its value, from one bound to the other."""

    def stream(self, what, cost, kind, positives, moved, **options):
        return super().stream(what, cost, kind, positives, 2, **options)


@pytest.mark.parametrize(("measure", "threshold"), [("sum", 40), ("mean", 0.5)])
def test_sums_with_the_noise_of_counts_are_convicted(measure, threshold):
    """At some number of records of the largest value their sum is next to what it is compared with."""
    statistic, cost = AboveThresholds(("g",), threshold, 1, "best", measure, "v"), PureDP(2.0)
    domain = Domain.coded({"g": 1, "v": 8})
    tables = [Table(domain, (np.zeros(n, np.int64), np.full(n, 7))) for n in range(1, 12)]

    def audits(kind):
        laws = [outcome(statistic, table, cost, missing=1e-6, least=1e-12, kind=kind) for table in tables]
        return [compare(*pair, cost) for pair in pairwise(laws)]

    assert not any(a.convicted for a in audits(PrivateColumns))
    assert any(a.convicted for a in audits(CountsRecords))


def test_sums_that_a_replaced_record_moves_by_the_whole_range_are_convicted_where_they_have_less_noise():
    statistic, cost, swap = of_values("sum", positives=1), PureDP(4.0), Neighbours.REPLACE_ONE
    pair = [(0, -1), (1, -1)], [(0, 2), (1, -1)]
    laws = [outcome(statistic, grouped(r), cost, swap, missing=1e-6, least=1e-12) for r in pair]
    assert not compare(*laws, cost).convicted
    broken = [outcome(statistic, grouped(r), cost, swap, missing=1e-6, least=1e-12, kind=NoticesOneBound) for r in pair]
    assert compare(*broken, cost).epsilon > compare(*laws, cost).epsilon * 1.3


PERSONS = Domain(GROUPED.attributes, person=Person("id", 2))


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_person_with_two_records_costs_what_it_says_and_is_convicted_where_it_pays_for_one(neighbours):
    """The statistic is given what one of m records may cost; a twin is given all of it."""
    statistic, cost = of_values("sum"), PureDP(8.0)
    unit = Unit.of(neighbours, PERSONS)
    pair = (
        (HELD, [*HELD, (0, 2), (0, 2)])
        if neighbours is Neighbours.ADD_REMOVE
        else ([*HELD, (0, -1), (0, -1)], [*HELD, (0, 2), (0, 2)])
    )
    of_a_record = unit.of_a_record(cost)
    assert of_a_record.epsilon <= 4.0

    def audit(paid):
        laws = (outcome(statistic, grouped(r), paid, unit.relation, missing=1e-6, least=1e-12) for r in pair)
        return compare(*laws, cost)

    assert not audit(of_a_record).convicted
    assert audit(PureDP(2.5 * cost.epsilon)).convicted


@pytest.mark.parametrize("cost", [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("measure", ["sum", "mean"])
def test_the_promise_of_a_session_on_values_holds_over_200_runs(measure, cost):
    """At β = 0.05 more than 20 of 200 failures have a chance below 0.003; two cells are empty."""
    rng = np.random.default_rng(3)
    domain = Domain.coded({"g": 12, "v": 21})
    groups, shift = rng.integers(0, 10, 6000), rng.integers(-4, 5, 10)
    values = np.clip(rng.normal(10 + shift[groups], 4).round(), 0, 20).astype(np.int64)
    table, level = Table(domain, (groups, values)), {"sum": 6000, "mean": 10.5}[measure]
    exact = np.bincount(groups, values - (level if measure == "mean" else 0.0), 12)
    reached = 0.0 if measure == "mean" else level
    statistic = AboveThresholds(("g",), level, 5, "best", measure, "v")
    alpha = statistic.error_bound(domain, len(table), cost, Neighbours.ADD_REMOVE, beta=0.05)
    failures, hits = 0, 0
    for seed in range(200):
        result = statistic.estimate(door(table, cost, noise=seed), cost)
        said = set(map(int, result.value))
        below = set(range(result.choices["asked"])) - said
        least = reached if measure == "mean" else reached - alpha
        failures += any(exact[c] < least for c in said) or any(exact[c] > reached + alpha for c in below)
        failures += measure == "mean" and bool(said & {10, 11})
        hits += len(said)
    assert failures <= 20
    assert hits > 200


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"measure": "median", "column": "v"}, "count, sum, mean"),
        ({"measure": "mean"}, "needs the column"),
        ({"column": "v"}, "measure=sum or measure=mean"),
        ({"measure": "mean", "column": "v", "threshold": 2}, "between the bounds"),
        ({"measure": "sum", "column": "none"}, "none"),
        ({"measure": "sum", "column": "v", "low": 0.5}, "no value of column 'v'"),
        ({"measure": "sum", "column": "v", "threshold": float("inf")}, "threshold"),
        ({"measure": "mean", "column": "v", "threshold": 0.1234567890123}, "fewer digits"),
        ({"measure": "count", "threshold": 1.5}, "threshold"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_a_charge(given, told):
    cost = PureDP(1.0)
    with Ledger.open(None, cost, dataset="people") as ledger:
        curator = Curator(grouped(HELD), ledger, Entropy.insecure(1))
        with pytest.raises(InvalidInput, match=told):
            curator.estimate(AboveThresholds(("g",), **{"threshold": 1, **given}), cost)
        assert ledger.spent is None or ledger.spent.epsilon == 0
