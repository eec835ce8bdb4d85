"""The mechanism of weighted records: what it releases, spends and refuses."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from fits import follow
from worlds import BOTH, coded, random_table, true_answers

from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.products import Product
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator

ADD, SWAP = BOTH
COST = ApproxDP(1.0, 1e-6)


def released(table, workload, cost=COST, relation=ADD, seed=0, mechanism=None):
    ledger = Ledger.open(None, cost, neighbours=relation)
    made = mechanism or FittedRecords(weighted_records=4_000)
    return Curator(table, ledger, Entropy.insecure(seed)).release(made, workload, cost)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("cost", [ApproxDP(2.0, 1e-6), ZCDP(0.1)])
def test_a_release(relation, at_once, cost):
    table = random_table(coded(4, 3, 1, 5, 2), 3_000, 5)
    workload = Workload.marginals(table.domain, 3)
    release = partial(
        released, table, workload, cost, relation, mechanism=FittedRecords(weighted_records=4_000, at_once=at_once)
    )
    made = release()
    true = true_answers(workload, table)
    assert np.abs(made.answers() - true).mean() < 0.01 * 3_000
    assert made.parameters["at_once"] == at_once
    assert (release().answers() == made.answers()).all()
    assert (release(seed=1).answers() != made.answers()).any()
    if relation is SWAP:
        assert made.synopsis.total == 3_000
    noisy, widths = made.error_bars(Workload.marginals(table.domain, 1))
    assert (np.abs(noisy - true_answers(Workload.marginals(table.domain, 1), table)) <= widths).mean() > 0.8
    assert len(made.synthetic(100, seed=1)["a"]) == 100


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", [ApproxDP(1.0, 1e-2), ZCDP(0.1)])  # with a small delta, maxent spends epsilon alone
def test_at_once_is_measured_what_the_histogram_of_maximum_entropy_is_fitted_to(relation, cost):
    table = random_table(coded(4, 3, 5, 2), 3_000, 5)
    workload = Workload.marginals(table.domain, 3)
    dense = released(table, workload, cost, relation, mechanism=MaxEnt())
    made = released(table, workload, cost, relation, mechanism=FittedRecords(weighted_records=40_000))
    assert [s.cost for s in made.spends] == [s.cost for s in dense.spends]
    assert [m.group for m in made.measurements] == [m.group for m in dense.measurements]
    for mine, other in zip(made.measurements, dense.measurements, strict=True):
        assert (mine.values == other.values).all()
        assert mine.noise == other.noise
    true = true_answers(workload, table)
    assert np.abs(made.answers() - true).mean() < 1.05 * np.abs(dense.answers() - true).mean()


def test_at_once_are_measured_marginals_up_to_the_order_and_every_column():
    domain = coded(3, 2, 4, 1, 2)
    asked = Workload(domain, tuple(Group(s, Cells(domain.cells(s))) for s in [(0, 1, 3), (0,), (1, 2)]))
    made = released(random_table(domain, 500, 0), asked)
    measured = {m.group.axes for m in made.measurements if isinstance(m.group.queries, Residuals)}
    assert measured == {(), (0,), (1,), (2,), (4,), (0, 1), (1, 2)}
    wide = Workload.marginals(coded(*[2] * 24), 3)  # 24 + 276 + 2024 coordinates
    assert FittedRecords(at_once=False).memory(wide) == FittedRecords().memory(wide)
    for refused in (FittedRecords(at_once=True), FittedRecords(order=2, at_once=True)):
        with pytest.raises(InvalidInput, match="leave at_once out"):
            refused.check(wide, COST, ADD)
    with pytest.raises(InvalidInput, match="at most 2 columns"):
        FittedRecords(order=2, at_once=True).check(Workload.marginals(coded(2, 2, 2), 3), COST, ADD)
    FittedRecords(at_once=True).check(Workload.marginals(coded(*[2] * 23), 3), COST, ADD)


@pytest.mark.parametrize(("rho", "paired", "measured"), [(0.5, True, False), (0.1, True, True), (1e-4, False, True)])
def test_how_often_signs_agree_is_measured_once_for_each_pair(rho, paired, measured):
    table = random_table(coded(4, 3, 5), 20_000, 5)
    mechanism = FittedRecords(weighted_records=4_000, at_once=False)
    made = released(table, Workload.marginals(table.domain, 2), ZCDP(rho), mechanism=mechanism)
    assert (made.parameters["pairs"] > 0) is paired
    signs = [m for m in made.measurements if isinstance(m.group.queries, Product)]
    assert sorted(m.group.axes for m in signs) == ([(0, 1), (0, 2), (1, 2)] if measured else [])
    for m in signs:
        (counts,) = table.counts([m.group.axes])
        off = float(m.values[0] - m.group.queries.apply(counts.reshape(-1))[0])
        assert abs(off) < 6 * np.sqrt(m.variance)  # of exact Gaussian noise, a chance of 1e-9
        assert m.variance < (20_000 / 2) ** 2


def test_marginals_that_have_more_structure_are_selected():
    rng = np.random.default_rng(0)
    a, b = rng.integers(5, size=(2, 5_000))
    domain = coded(5, 5, 5)
    asked, mechanism = Workload.marginals(domain, 2), FittedRecords(weighted_records=4_000, at_once=False)
    made = released(Table(domain, (a, b, a)), asked, ApproxDP(0.5, 1e-6), mechanism=mechanism)
    assert ["a", "c"] in made.parameters["selected"]


def test_without_a_delta_columns_alone_take_all_of_the_cost():
    """There is nothing to select, and no round to pay: that came up after the charge."""
    domain = coded(*[10] * 12)
    asked, cost = Workload.marginals(domain, 1), PureDP(1.0)
    made = released(random_table(domain, 400, 0), asked, cost, mechanism=FittedRecords(weighted_records=1_000))
    assert made.parameters["selected"] == []
    assert {m.group.axes for m in made.measurements} == {(a,) for a in range(12)}


@pytest.mark.parametrize("epsilon", [0.03, 0.001])
def test_large_marginals_are_measured_at_a_small_epsilon(epsilon):
    """The noise of a few thousand counts was refused, as beyond 2^40 in the units of a needlessly fine grid."""
    domain = coded(16, 32, 9, 32, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)
    FittedRecords().check(Workload.marginals(domain, 3), ApproxDP(epsilon, 1e-9), Neighbours.ADD_REMOVE)


@pytest.mark.parametrize(
    ("domain", "cost", "error", "why"),
    [
        (coded(2, 2), PureDP(1e-30), InvalidInput, "noise beyond"),
        (coded(2, 2), ApproxDP(1e-30, 0.0), InvalidInput, "noise beyond"),
        (coded(1, 1), COST, InvalidInput, "one cell"),
        (coded(70_000, 2), COST, TooLarge, "65,536 cells"),
        (coded(3000, 3000), COST, TooLarge, "a and b have 9,000,000 cells together, and marginals of at most"),
        (coded(2, 2), ZCDP(1e-30), InvalidInput, "noise beyond"),
    ],
)
def test_refused_before_any_charge(domain, cost, error, why):
    table = random_table(domain, 5, 0)
    ledger = Ledger.open(None, cost)
    with pytest.raises(error, match=why):
        Curator(table, ledger, Entropy.insecure(0)).release(FittedRecords(), Workload.marginals(domain, 2), cost)
    assert [entry.kind for entry in ledger.history()] == ["total"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("order", 1), ("weighted_records", 0), ("weighted_records", 1.5), ("order", True), ("at_once", 1)],
)
def test_parameters_that_are_none(field, value):
    with pytest.raises(InvalidInput, match=field):
        FittedRecords(**{field: value})


def test_more_records_than_memory():
    with pytest.raises(TooLarge, match="weighted records"):
        FittedRecords(weighted_records=1 << 45).check(Workload.marginals(coded(2, 2), 2), COST, Neighbours.ADD_REMOVE)


def test_what_a_release_takes_is_known_beforehand():
    workload = Workload.marginals(coded(9, 9, 9, 9), 3)
    few, many = FittedRecords(weighted_records=1_000), FittedRecords(weighted_records=100_000)
    assert few.memory(workload) < many.memory(workload) < 100 << 20
    assert few.seconds(workload, COST, 50_000) < many.seconds(workload, COST, 50_000)
    assert many.seconds(workload, COST, 500) < many.seconds(workload, COST, 50_000)
    assert few.seconds(Workload.marginals(workload.domain, 1), COST, 500) < 10
    wide = Workload.marginals(coded(60_000, 2), 2)  # whose columns have matrices
    assert few.memory(wide) > 200 << 30
    assert few.seconds(wide, COST, 500) > 3600


def test_columns_alone_get_the_whole_budget():
    table = random_table(coded(6, 2), 2_000, 3)
    mechanism = FittedRecords(weighted_records=4_000, at_once=False)
    made = released(table, Workload.marginals(table.domain, 1), mechanism=mechanism)
    assert len(made.spends) == 1
    assert made.parameters["selected"] == []
    assert np.abs(made.answers() - true_answers(made.workload, table)).max() < 60


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("at_once", [True, False])
def test_all_that_is_spent_is_within_the_cost(relation, at_once):
    table = random_table(coded(4, 3, 5, 2), 20_000, 5)
    mechanism = FittedRecords(weighted_records=4_000, at_once=at_once)
    made = released(table, Workload.marginals(table.domain, 3), ZCDP(0.1), relation, mechanism=mechanism)
    spent = sum(Fraction(s.cost.rho) for s in made.spends)
    assert Fraction(0.0999) < spent <= Fraction(0.1)
    assert at_once or made.parameters["pairs"] > 0


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_impossible_is_in_no_answer_and_in_no_row(at_once):
    rules = ("a = 0 and b = 1", "a in 1..2 and c > 3", "a = 3 and b = 2 and c = 0")
    table = random_table(replace(coded(4, 3, 5), impossible=rules), 2_000, 5)
    workload = Workload.marginals(table.domain, 2)
    mechanism = FittedRecords(weighted_records=4_000, at_once=at_once)
    made = released(table, workload, mechanism=mechanism)
    a, b, c = (np.asarray(column) for column in made.codes(1_000_000, np.random.default_rng(0)))
    assert not ((a == 0) & (b == 1)).any()
    assert not (((a == 1) | (a == 2)) & (c == 4)).any()
    assert not ((a == 3) & (b == 2) & (c == 0)).any()
    assert float(made.answer("a = 0 and b = 1")) == 0
    assert made.parameters["impossible"] == "kept"
    assert len(set(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))) > 25


def test_columns_that_follow_from_each_other():
    rng, sizes = np.random.default_rng(1), (8, 16, 32, 64)
    cells = rng.choice(64, 20_000, p=rng.dirichlet(np.full(64, 0.7)))
    table = Table(follow(*sizes), tuple(cells * n // 64 for n in sizes))
    workload = Workload.marginals(table.domain, 1)
    made = released(
        table,
        Workload.marginals(table.domain, 2),
        ApproxDP(1.0, 1e-9),
        mechanism=FittedRecords(weighted_records=16_384),
    )
    assert all(float(made.answer(rule)) == 0 for rule in table.domain.impossible)
    off = made.synopsis.answer(workload) / made.synopsis.total - true_answers(workload, table) / 20_000
    assert np.abs(off).sum() < 4 * 0.3


@pytest.mark.parametrize("at_once", [True, False])
def test_what_was_charged_is_released_however_few_records_look_for_a_possible_one(at_once):
    domain = follow(*[3] * 20, excluded=["a = 2"])
    column = np.arange(1_000) % 2
    for seed in range(3):
        mechanism = FittedRecords(weighted_records=1, at_once=at_once)
        made = released(Table(domain, (column,) * 20), Workload.marginals(domain, 1), seed=seed, mechanism=mechanism)
        assert all(float(made.answer(rule)) == 0 for rule in domain.impossible)


@pytest.mark.parametrize(
    ("impossible", "why"),
    [
        (("a in 0..1",), "leaves no record that is possible"),
        (("a = 0", "a = 1"), "leaves no record that is possible"),
        (("a = 0 and b = 0", "a = 1", "b = 1"), "no record that is possible was found"),
    ],
)
def test_constraints_that_leave_nothing(impossible, why):
    with pytest.raises(InvalidInput, match=why):
        FittedRecords().check(Workload.marginals(replace(coded(2, 2), impossible=impossible), 2), COST, ADD)
