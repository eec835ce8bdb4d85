"""What is checked before a charge, what tells statistics apart, and that a draw is that of the statistic itself."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from worlds import BOTH, coded, random_table

import qrelease as qr
from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.mechanisms.base import parameters
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Neighbours, PureDP
from qrelease.privacy.unit import Unit
from qrelease.statistics.estimator import Estimator

TABLE = random_table(coded(2, 3, 40), 4_000, seed=1)
ONE = PureDP(1.0)


def estimator(unit=Unit(Neighbours.ADD_REMOVE), table=TABLE, seed=1):  # noqa: B008  frozen
    return Estimator(table, unit, "made up", Entropy.insecure(seed))


def asked(statistic):
    return estimator().asked(statistic, parameters(statistic))


def test_equal_statistics_are_asked_alike_and_others_are_not():
    several = [
        *(qr.AboveThresholds(("a",), t, positives=c) for t in (5, 6) for c in (1, 2)),
        *(qr.AboveThresholds((n,), 5, measure=m, column="c") for n in "ab" for m in ("sum", "mean")),
        *(kind("c") for kind in (qr.Mean, qr.Sum, qr.Quantile)),
        qr.Quantile("b"),
        qr.Quantile("c", interval=False),
    ]
    assert len({asked(s) for s in several}) == len(several)
    assert asked(qr.Quantile("c", q=0.5)) == asked(qr.Quantile("c"))


def test_what_json_does_not_tell_apart_is_not_asked():
    with pytest.raises(InvalidInput, match="threshold"):
        asked(qr.AboveThresholds(("a",), float("inf")))


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_draw_spends_no_more_than_its_cost_and_is_as_far_off_as_promised(neighbours):
    unit = Unit(neighbours)
    values = []
    for seed in range(60):
        found = estimator(unit, seed=seed).draw(qr.Sum("c"), parameters(qr.Sum("c")), ONE)
        assert sum(s.cost.epsilon for s in found.spends) <= 1
        values.append(found.value - TABLE.columns[2].astype(int).sum())
    assert max(map(abs, values)) > 10  # noise there is
    promised = estimator(unit).promised(qr.Sum("c"), ONE, len(TABLE))
    assert np.mean(np.abs(values) > promised) <= 0.15
    assert np.mean(np.abs(values) > 0.2 * promised) > 0.2


def test_a_person_s_cost_is_divided_among_their_records():
    persons = Unit(Neighbours.ADD_REMOVE, 4)
    alone, shared = (estimator(u).promised(qr.Sum("c"), ONE, 4000) for u in (Unit(Neighbours.ADD_REMOVE), persons))
    assert shared == pytest.approx(4 * alone, rel=0.05)
    found = estimator(persons).draw(qr.Sum("c"), {}, ONE)
    assert (found.cost, found.at_most) == (ONE, 4)


def test_a_statistic_that_spends_more_than_was_charged_is_stopped():
    class Greedy:
        name = "greedy"

        def estimate(self, private, cost):
            private.spend("all", cost)
            private.spend("more", cost)

    with pytest.raises(BudgetExceeded):
        estimator().draw(Greedy(), {}, ONE)


def test_where_nothing_is_promised_for_public_records_it_is_refused():
    few = random_table(coded(2, 3, 40), 3, seed=1)
    for unit, refused in ((Unit(Neighbours.REPLACE_ONE), True), (Unit(Neighbours.ADD_REMOVE), False)):
        asked_of = estimator(unit, few)
        asked_of.check(qr.MostCommon(("b",)), PureDP(0.01))
        if refused:
            with pytest.raises(InvalidInput, match="promises nothing for 3 records"):
                asked_of.check_records(qr.MostCommon(("b",)), PureDP(0.01))
        else:
            asked_of.check_records(qr.MostCommon(("b",)), PureDP(0.01))
    assert estimator().promised(qr.MostCommon(("b",)), PureDP(0.01), 3) is None


@dataclass(frozen=True)
class Own:
    """A statistic of a user's own that returns what it was made with."""

    what: object = None
    name = "own"

    def check(self, domain, cost, neighbours):
        """Nothing is refused."""

    def estimate(self, private, cost):
        return self.what

    def error_bound(self, domain, records, cost, neighbours, *, beta):
        return None


RIGHT = qr.EstimateResult(3.0, (2.0, 4.0), "none", "made up")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (3.0, "own returned an object of type float: its estimate must return EstimateResult"),
        (None, "own returned nothing: its estimate must return EstimateResult"),
        (replace(RIGHT, value={3}), "own returned as value what JSON cannot hold.*set"),
        (replace(RIGHT, value=np.float64("nan")), "own returned as value what JSON cannot hold"),
        (replace(RIGHT, interval=(0.0, np.inf)), "own returned as interval what JSON cannot hold"),
        (
            replace(RIGHT, interval=(1.0,)),
            r"own returned as interval what is no pair of numbers in order: it must be \(low, high\)",
        ),
        (replace(RIGHT, interval=(4.0, 2.0)), "own returned as interval"),
        (replace(RIGHT, interval=((2.0, 4.0),)), "own returned as interval"),
        (replace(RIGHT, interval=3.0), "own returned as interval"),
        (replace(RIGHT, value=(1.0, 2.0), interval=((0.0, 2.0), (1.0,))), "own returned as interval"),
        (replace(RIGHT, measured=(3,)), "own returned as measured what is no tuple of Measured"),
    ],
)
def test_a_statistic_that_returns_what_is_no_estimate_is_told_so_and_that_it_was_charged(what, told):
    with qr.Ledger.open(None, ONE) as ledger:
        curator = qr.Curator(TABLE, ledger, Entropy.insecure(0))
        with pytest.raises(InvalidInput, match=f"{told}.*; epsilon=1 was charged$"):
            curator.estimate(Own(what), ONE)
    with qr.Ledger.open(None, ONE) as ledger:
        assert qr.Curator(TABLE, ledger, Entropy.insecure(0)).estimate(Own(RIGHT), ONE).value == 3


def test_numbers_of_numpy_are_those_of_python():
    numbers = {
        "value": (np.array([3, 4]), (3, 4)),
        "interval": ((np.float32(2.5), np.int64(4)), (2.5, 4)),
        "typical": (np.float64(0.5), 0.5),
        "choices": ({"bins": np.int32(7), "each": [np.int64(1)]}, {"bins": 7, "each": (1,)}),
        "measured": ((qr.Measured("a", np.int64(3), "none"),), (qr.Measured("a", 3, "none"),)),
    }
    given = replace(RIGHT, **{name: of_numpy for name, (of_numpy, _) in numbers.items()})
    with qr.Ledger.open(None, ONE) as ledger:
        found = qr.Curator(TABLE, ledger, Entropy.insecure(0)).estimate(Own(given), ONE)
    for name, (_, expected) in numbers.items():
        assert getattr(found, name) == expected
    assert {type(number) for number in found.value} == {int}
    assert qr.Estimate.from_json(json.loads(json.dumps(found.to_json()))).interval == (2.5, 4)


def test_an_error_in_a_statistic_s_own_code_says_that_and_where_it_was_charged(tmp_path):
    class Wrong(Own):
        def estimate(self, private, cost):
            return private.nothing_of_this_name

    with qr.Ledger.open(tmp_path / "people.ledger", ONE) as ledger:
        with pytest.raises(AttributeError, match="nothing_of_this_name") as raised:
            qr.Curator(TABLE, ledger, Entropy.insecure(0)).estimate(Wrong(), ONE)
        assert ledger.spent == ONE
    assert raised.value.__notes__ == [
        f"qrelease: epsilon=1 was charged to {tmp_path / 'people.ledger'}: it stays spent"
    ]


def test_a_statistic_that_lacks_a_method_or_takes_other_arguments_is_refused_before_the_charge():
    class Fewer(Own):
        def estimate(self, private):
            """It forgot the cost."""

    class Positional(Own):
        def error_bound(self, domain, records, cost, neighbours):
            """It forgot beta."""

    class Unfinished:
        name = "unfinished"
        estimate = Own.estimate

    with qr.Ledger.open(None, ONE) as ledger:
        curator = qr.Curator(TABLE, ledger, Entropy.insecure(0))
        for wrong, told in (
            (Fewer(), r"Fewer.estimate must take \(private, cost\)"),
            (Positional(), r"Positional.error_bound must take \(domain, records, cost, neighbours, \*, beta\)"),
            (Unfinished(), "Unfinished has no check and no error_bound"),
        ):
            with pytest.raises(InvalidInput, match=told):
                curator.estimate(wrong, ONE)
        assert ledger.spent is None
