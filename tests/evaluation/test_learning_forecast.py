"""What a plan says of learning: what a release then does, whatever the records are."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from towns import HOURS, OPEN, SEX, TOWN, frame

import qrelease as qr
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.learning_forecast import LearningForecast, told_of_learning
from qrelease.mechanisms.learning import schema as learning
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.release.curator import Curator

COST = ApproxDP(2.0, 1e-6)
ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


@pytest.mark.parametrize("neighbours", [ADDED, REPLACED])
@pytest.mark.parametrize("at_most", [None, 3])
def test_one_charge_is_divided_as_foretold(neighbours, at_most):
    domain, table, who = OPEN, Table.from_frame(frame(), OPEN), None
    if at_most is not None:
        domain, who = replace(OPEN, person=Person("who", at_most)), "who"
        table = Table.from_frame(frame().assign(who=[f"p{i % 900}" for i in range(2000)]), domain)
    told = LearningForecast.of(domain, 2000, COST, neighbours)
    made = Curator(table, Ledger.open(None, COST, neighbours=neighbours, person=who), Entropy.insecure(1))
    learned = made.learn_for(qr.Auto(), COST)
    assert told.together
    assert told.spends == learned.spends
    assert told.left == learned.left.cost
    assert told.open["hours"] >= learned.domain["hours"].values
    assert told.open["town"] >= learned.domain["town"].values - 1
    assert all(cells >= found for cells, found in zip(told.stand_in.shape, learned.domain.shape, strict=True))


@pytest.mark.parametrize(
    ("domain", "cost", "numbers"), [(OPEN, COST, True), (Domain((HOURS, SEX)), PureDP(1.0), False)]
)
def test_two_charges_are_divided_as_foretold(domain, cost, numbers):
    told = LearningForecast.of(domain, 2000, cost, ADDED, numbers=numbers)
    table = Table.from_frame(frame()[list(domain.names)], domain)
    learned = Curator(table, Ledger.open(None, cost), Entropy.insecure(1)).learn(told.alone)
    assert not told.together
    assert told.spends == learned.spends
    assert (told.alone, told.left) == learning.divided(domain, cost)


@pytest.mark.parametrize("neighbours", [ADDED, REPLACED])
@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_a_category_of_as_many_records_as_are_said_is_named_about_every_other_time(neighbours, persons, together):
    """With half as many again nearly always, with half as many nearly never: so the number is not 30 % off."""
    domain = Domain((replace(TOWN, learn=1000),), person=Person("who", 1) if persons else None)
    unit = Unit.of(neighbours, domain).of_records
    cost = learning.one_account(domain, ApproxDP(2.0, 1e-6), unit) if together else ApproxDP(0.5, 1e-6)
    least = learning.least_named(domain, cost, unit)["town"]
    shares = []
    for times in (0.5, 1.0, 1.5):
        records = [f"town {i}" for i in range(60) for _ in range(round(times * least))]
        rows = pd.DataFrame({"town": records, "who": [f"p{i}" for i in range(len(records))]})
        table = Table.from_frame(rows if persons else rows[["town"]], domain)
        table = table.bounded(b"k" * 16) if persons else table
        of_unit = unit if persons else None
        private = Private(table, unit.relation, Filter(learning.purse(domain, cost)), Entropy.insecure(3), unit=of_unit)
        shares.append((learning.learn(private, cost)["town"].values - 1) / 60)
    assert shares[0] < 0.15
    assert 0.3 < shares[1] < 0.75
    assert shares[2] > 0.85


def test_no_more_categories_are_planned_with_than_records_can_name():
    told = LearningForecast.of(replace(OPEN, attributes=(HOURS, replace(TOWN, learn=1000), SEX)), 900, COST, ADDED)
    assert told.open == {"hours": 8, "town": 900 // told.least["town"]}
    assert LearningForecast.of(OPEN, 10**6, COST, ADDED).open == {"hours": 8, "town": 5}
    assert LearningForecast.of(OPEN, 1, COST, ADDED).open == {"hours": 8, "town": 2}
    assert f"that about {told.least['town']} records have is as likely" in str(told)


def test_what_cannot_be_learned_is_refused():
    with pytest.raises(InvalidInput, match="need a delta above 0"):
        LearningForecast.of(OPEN, 100, PureDP(1.0), ADDED)
    with pytest.raises(InvalidInput, match="leaves nothing to be learned"):
        LearningForecast.of(Domain((SEX,)), 100, PureDP(1.0), ADDED)


def test_conditions_on_what_is_learned_are_told_from_others():
    told = LearningForecast.of(OPEN, 2000, COST, ADDED)
    about = ["where:town = Ur", "where: hours in 40..50 and sex = f", "mean:hours where town = Ur", "ratio:hours > 40"]
    others = ["where:sex = f", "mean:hours by town", "mean:hours where sex = f", "marginals:2", "ranges:hours", "count"]
    assert [told.is_about_learned(text) for text in about] == [True] * 4
    assert [told.is_about_learned(text) for text in others] == [False] * 6
    with pytest.raises(InvalidInput, match="expected a column name"):
        told.is_about_learned("where:town = Ur and")


def test_mechanisms_are_planned_in_rho_as_they_release():
    told = LearningForecast.of(OPEN, 2000, COST, ADDED)
    asked = qr.Workload.marginals(told.stand_in, 2)
    plan = qr.plan(asked, 2000, rho=told.left.rho, trials=0, mechanisms=told.mechanisms)
    assert plan.cost == told.left
    assert {f.mechanism for f in plan.forecasts} == {"gaussian", "maxent", "mwem", "records"}
    assert any(f.average for f in plan.forecasts)
    with pytest.raises(InvalidInput, match="not for both"):
        qr.plan(asked, 2000, epsilon=1.0, rho=0.1)


@pytest.mark.parametrize("neighbours", [ADDED, REPLACED])
@pytest.mark.parametrize(("domain", "cost"), [(OPEN, COST), (Domain((HOURS, SEX)), PureDP(0.5))])
@pytest.mark.parametrize("at_most", [None, 3])
def test_what_is_told_of_learning_is_the_noise_that_it_draws(monkeypatch, domain, cost, neighbours, at_most):
    """The least of any count of the tree; heaps at round points have more."""
    errors = []

    def kept(draw, spread):
        def drawn(scale, *rest):
            errors.append(spread(float(scale)))
            return draw(scale, *rest)

        return drawn

    in_rho = at_most is not None and not isinstance(cost, PureDP)  # for the votes of persons
    law, spread = ("discrete_gaussian", lambda v: v**0.5) if in_rho else ("discrete_laplace", lambda b: b * 2**0.5)
    monkeypatch.setattr(learning, law, kept(getattr(learning, law), spread))
    table, who = Table.from_frame(frame()[list(domain.names)], domain), None
    if at_most is not None:
        domain, who = replace(domain, person=Person("who", at_most)), "who"
        persons = frame().assign(who=[f"p{i % 900}" for i in range(2000)])
        table = Table.from_frame(persons[[*domain.names, "who"]], domain)
    told = told_of_learning(domain, cost, neighbours)
    Curator(table, Ledger.open(None, cost, neighbours=neighbours, person=who), Entropy.insecure(1)).learn(cost)
    (said,) = [float(found) for line in told for found in re.findall(r"off by about ([\d,.]+) records", line)]
    assert said == pytest.approx(min(errors), rel=0.01)
    assert len(told) == len(domain.undecided)
    assert [line.partition(";")[0] for line in told] == [
        f"{spend.what}: {spend.cost:.6g}" for spend in learning.spends(domain, cost)
    ]
