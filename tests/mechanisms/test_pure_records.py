"""The plan of `records` under pure ε: what its parts cost, and how near its releases and its predictions are."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from worlds import BOTH, coded, true_answers

from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.mechanisms import pure_records
from qrelease.mechanisms.auto import in_closed_form
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.families import Cells
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load

ADD, SWAP = BOTH
COST = PureDP(1.0)
DOMAIN = coded(*[4] * 7)
PAIRS = list(Workload.marginals(DOMAIN, 2).sets)
RECORDS = FittedRecords(weighted_records=1_000)


def dependent_table():
    """Every second value of a record is the same in all columns."""
    rng = np.random.default_rng(1)
    common, own = rng.integers(0, 4, 20_000), rng.integers(0, 4, (7, 20_000))
    return Table(DOMAIN, tuple(np.where(rng.random(20_000) < 0.5, common, column) for column in own))


def released(table, workload, mechanism, cost=COST, relation=ADD):
    ledger = Ledger.open(None, cost, neighbours=relation)
    return Curator(table, ledger, Entropy.insecure(3)).release(mechanism, workload, cost)


def l1(release, table):
    truth, bounds = true_answers(release.workload, table), release.workload.bounds
    return np.add.reduceat(np.abs(release.answers() - truth), bounds[:-1]).mean() / len(table)


@pytest.mark.parametrize("epsilon", [0.03, 1.0, 7.5])
@pytest.mark.parametrize("records", [0, 1_000, 1_000_000])
def test_all_parts_are_the_cost_and_never_more(epsilon, records):
    singly, left = pure_records.first_costs(PureDP(epsilon))
    rounds = pure_records.costs_of_rounds(left, pure_records.rounds_of(DOMAIN, PAIRS, records, left))
    whole = Fraction(singly.epsilon) + sum(Fraction(c.epsilon) for each in rounds for c in each)
    assert epsilon * (1 - 1e-9) < whole <= Fraction(epsilon)


def test_rounds_grow_as_the_root_of_records_and_of_the_cost():
    one = pure_records.rounds_of(DOMAIN, PAIRS, 100_000, PureDP(0.1))
    assert pure_records.rounds_of(DOMAIN, PAIRS, 400_000, PureDP(0.1)) == pytest.approx(2 * one, abs=1)
    assert pure_records.rounds_of(DOMAIN, PAIRS, 100_000, PureDP(0.4)) == pytest.approx(2 * one, abs=1)
    assert pure_records.rounds_of(DOMAIN, PAIRS, 0, PureDP(0.1)) == 1


@pytest.mark.parametrize(("relation", "cost"), [(ADD, COST), (SWAP, COST), (ADD, ApproxDP(1.0, 0.0))])
def test_a_release(relation, cost, tmp_path):
    table = dependent_table()
    made = released(table, Workload.marginals(DOMAIN, 2), RECORDS, cost, relation)
    assert made.has_table
    assert {type(m.group.queries) for m in made.measurements} == {Cells}
    assert sum(Fraction(s.cost.epsilon) for s in made.spends) <= 1
    assert len(made.parameters["selected"]) == sum("select" in s.what for s in made.spends)
    noisy, widths = made.error_bars(ones := Workload.marginals(DOMAIN, 1))
    assert (np.abs(noisy - true_answers(ones, table)) <= widths).mean() > 0.85
    made.save(tmp_path / "out")
    again = load(tmp_path / "out")
    np.testing.assert_allclose(again.answers(), made.answers(), rtol=1e-12)
    assert np.array_equal(again.error_bars(ones)[1], widths)


def test_it_is_far_nearer_than_laplace_noise_and_its_prediction_is_near():
    table = dependent_table()
    workload, mechanism = Workload.marginals(DOMAIN, 3), FittedRecords()
    real = l1(released(table, workload, mechanism), table)
    assert real < l1(released(table, workload, Laplace()), table) / 2
    told = in_closed_form("records", workload, len(table), COST, ADD).l1
    assert real / 3 < told < 3 * real


def test_what_is_expected_of_a_pair_lies_between_its_noise_and_nothing():
    found = pure_records.expected_variances(DOMAIN, PAIRS, COST, ADD, 20_000)
    _, left = pure_records.first_costs(COST)
    rounds = pure_records.rounds_of(DOMAIN, PAIRS, 20_000, left)
    measuring, _ = pure_records.costs_of_rounds(left, rounds)[0]
    assert all(sqrt(found[s]) > 0.99 * sqrt(2) / measuring.epsilon for s in PAIRS)
    assert found[(0,)] == pytest.approx(2 * (7 / 0.2) ** 2, rel=0.01)
    assert pure_records.expected_variances(DOMAIN, PAIRS, COST, SWAP, 20_000)[()] == 0
    assert set(pure_records.expected_variances(DOMAIN, [], COST, ADD, 20_000)) == {(), *((a,) for a in range(7))}


def test_all_at_once_is_refused():
    with pytest.raises(InvalidInput, match="leave at_once out"):
        FittedRecords(at_once=True).check(Workload.marginals(DOMAIN, 2), COST, ADD)
