"""Persons whose records differ in a column: how far they move answers, by all sets of records, and by exact listing."""

from functools import partial
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from audits import listed
from persons_listed import KEYS, TABLES, counted, pairs_of, worst_of

from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.schema import domain_from_json, domain_to_json
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.planning import plan
from qrelease.evaluation.verify import verify
from qrelease.inference.measurement import noise_for
from qrelease.inference.residuals import ResidualPlan
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP, zcdp_of
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.distinct_records import share
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def domain_with(at_most, sizes, distinct):
    return Domain(Domain.coded(sizes).attributes, person=Person("who", at_most, distinct=distinct))


DOMAIN = domain_with(3, {"ward": 3, "month": 4, "sex": 2}, ("month",))


def owned_sets(shape, distinct, most):
    """All sets of up to so many cells, no two of which are equal in all of some columns."""
    cells = list(product(*map(range, shape)))
    for k in range(1, most + 1):
        for own in combinations(cells, k):
            if len({tuple(cell[a] for a in distinct) for cell in own}) == k:
                yield own


@pytest.mark.parametrize("distinct", [("month",), ("ward", "sex")])
@pytest.mark.parametrize("axes", [(1,), (0, 1), (1, 2), (0, 1, 2), (0, 2)])
def test_no_set_of_records_moves_residuals_or_cells_further(axes, distinct):
    domain = domain_with(3, {"ward": 3, "month": 4, "sex": 2}, distinct)
    shape = tuple(domain.shape[a] for a in axes)
    for queries in (Residuals(shape), Cells(int(np.prod(shape)))):
        most = 0
        for own in owned_sets(domain.shape, domain.distinct, 3):
            table = np.zeros(shape, np.int64)
            for cell in own:
                table[tuple(cell[a] for a in axes)] += 1
            rows = queries.apply(table.reshape(-1))
            most = max(most, int(rows @ rows))
        allowed = 9 * queries.sensitivity(2, replace=False) * share(domain, axes, queries)
        assert most <= allowed
        if isinstance(queries, Cells) and set(domain.distinct) <= set(axes):
            assert most == allowed


def test_a_workload_is_moved_by_all_of_them_together():
    workload = Workload.marginals(DOMAIN, 2)
    for chosen in (workload, ResidualPlan.choose(DOMAIN, workload.sets).workload):
        most = 0.0
        for own in owned_sets(DOMAIN.shape, DOMAIN.distinct, 3):
            total = 0
            for group in chosen.groups:
                table = np.zeros(tuple(DOMAIN.shape[a] for a in group.axes), np.int64)
                for cell in own:
                    table[tuple(cell[a] for a in group.axes)] += 1
                rows = group.queries.apply(table.reshape(-1)).astype(float)
                total += rows @ rows
            most = max(most, total)
        assert 0.6 * float(9 * chosen.moved(2, replace=False)) < most <= float(9 * chosen.moved(2, replace=False))
    assert workload.moved(1, replace=False) == 3


def test_a_plan_puts_the_gain_where_it_helps():
    """In persons' units the variances of all marginals together are less than without, or with less noise alone."""
    plain = domain_with(3, {"ward": 3, "month": 12, "sex": 2}, ())
    differ = domain_with(3, {"ward": 3, "month": 12, "sex": 2}, ("month",))
    sets = Workload.marginals(plain, 2).sets
    before, after = (ResidualPlan.choose(domain, sets) for domain in (plain, differ))
    as_before = Workload(differ, before.workload.groups)
    less_noise = before.error * np.sqrt(
        float(as_before.moved(2, replace=False)) / float(before.workload.moved(2, replace=False))
    )
    assert after.error < less_noise < before.error
    assert after.bound < after.error


# --- exact listing

ONE = domain_with(2, {"a": 2}, ("a",))
CELLS = Workload.marginals(ONE, 1)
BOUNDED = [partial(Table.bounded, key=key) for key in KEYS]


def made(relation, claim):
    def run(counts, choices):
        unit = Unit.of(relation, ONE)
        cost = unit.of_a_record(claim)
        table = Table(ONE, (np.repeat([0, 1], counts).astype(np.uint8),))
        private = Private(table, unit.relation, Filter(cost), choices, unit=unit)
        return tuple(Gaussian().release(private, CELLS, cost).measurements[0].values.tolist())

    return run


@pytest.mark.parametrize("bounded", BOUNDED)
def test_of_equal_records_one_is_kept_in_every_table_and_by_every_key(bounded):
    counts = counted(ONE, bounded)
    for owned in TABLES:
        assert counts[owned] == tuple(sum(cell in own for own in owned) for cell in (0, 1))


@pytest.mark.parametrize("claim", [ZCDP(4.0), pytest.param(ApproxDP(6.0, 1e-2), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("relation", [ADD, pytest.param(SWAP, marks=pytest.mark.slow)], ids=lambda r: r.value)
def test_gaussian_noise_keeps_what_a_person_is_promised(claim, relation, monkeypatch):
    listed(monkeypatch)
    found = worst_of(made(relation, claim), pairs_of(counted(ONE, BOUNDED[0]), relation), claim)
    assert not found.convicted, found
    if relation is ADD and isinstance(claim, ZCDP):
        assert found.bound > 0.7 * claim.rho


def believed(table):
    """A schema that is believed: records that are equal are kept all the same, two of each person."""
    plain = Domain(ONE.attributes, person=Person("who", 2))
    return Table(plain, table.columns, table.persons).bounded(KEYS[0])


def test_a_twin_that_believes_the_schema_is_convicted(monkeypatch):
    listed(monkeypatch)
    claim = ZCDP(4.0)
    assert worst_of(made(ADD, claim), pairs_of(counted(ONE, believed), ADD), claim).convicted


def test_a_twin_that_takes_the_gain_for_other_columns_is_convicted(monkeypatch):
    """A marginal without the column: two records of a person that differ in it may be equal there."""
    listed(monkeypatch)
    both = domain_with(2, {"a": 2, "b": 2}, ("b",))

    def wrong(table):
        codes = np.zeros(len(table), np.uint8) if not len(table) else (np.arange(len(table)) % 2).astype(np.uint8)
        pairs = Table(both, (table.columns[0], codes), table.persons)
        return pairs.bounded(KEYS[0])

    claim = ZCDP(4.0)
    assert share(both, (0,), Cells(2)) == 1
    assert worst_of(made(ADD, claim), pairs_of(counted(ONE, wrong), ADD), claim).convicted


# --- which are kept


def visits(domain=DOMAIN, n=3000, persons=300, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(size, size=n) for size in domain.shape]
    return Table.of_persons(domain, columns, [f"p{i}" for i in rng.integers(persons, size=n)])


def test_kept_records_differ_and_the_order_of_rows_and_other_persons_do_not_count():
    table = visits()
    months = table.columns[1][np.argsort(table.persons.codes, kind="stable")]
    starts = np.cumsum([0, *np.bincount(table.persons.codes)])
    kept = table.bounded(KEYS[0])
    assert len(kept) == sum(min(len(set(months[a:b])), 3) for a, b in pairwise(starts))
    order = np.random.default_rng(1).permutation(len(table))
    names = np.array([f"p{i}" for i in table.persons.codes])
    again = Table.of_persons(DOMAIN, [c[order] for c in table.columns], names[order]).bounded(KEYS[0])
    plain = Table.of_persons(DOMAIN, table.columns, names).bounded(KEYS[0])
    assert np.array_equal(again.histogram(), plain.histogram())
    some = names != "p7"
    less = Table.of_persons(DOMAIN, [c[some] for c in table.columns], names[some]).bounded(KEYS[0])
    assert 0 < (plain.histogram() - less.histogram()).sum() <= 3
    assert ((plain.histogram() - less.histogram()) >= 0).all()


def test_each_record_is_kept_as_often_as_any_other_of_its_month():
    domain = domain_with(1, {"ward": 2, "month": 2}, ("month",))
    table = Table.of_persons(domain, [np.array([0, 1, 0]), np.array([0, 0, 1])], ["x"] * 3)
    found = sum(table.bounded(k.to_bytes(8, "little")).histogram() for k in range(2000))
    first, second, third = found[0], found[2], found[1]  # ward 0 or 1 in month 0, ward 0 in month 1
    assert abs(first - second) < 5 * np.sqrt(first + second)
    assert third > 600


# --- through the doors


@pytest.mark.parametrize("mechanism", [Gaussian(), MaxEnt(), FittedRecords()], ids=lambda m: m.name)
def test_a_release_has_less_noise_and_is_verified(mechanism, tmp_path):
    scales = {}
    for distinct in ((), ("month",)):
        domain = domain_with(3, {"ward": 3, "month": 4, "sex": 2}, distinct)
        workload, cost = Workload.marginals(domain, [("ward", "month"), ("month", "sex")]), ZCDP(0.5)
        with Ledger.open(None, cost, person="who") as ledger:
            release = Curator(visits(domain), ledger).release(mechanism, workload, cost)
            assert ledger.spent == cost
        release.save(tmp_path / f"out{len(distinct)}")
        found = verify(tmp_path / f"out{len(distinct)}")
        assert found.holds, found
        scales[distinct] = float(np.mean(release.error_bars()[1]))
    assert scales["month",] < 0.9 * scales[()]
    assert "that are equal in month one was kept" in (tmp_path / "out1" / "report.html").read_text()


def test_pure_epsilon_gains_nothing_and_a_plan_tells_what_the_rest_does():
    plain = domain_with(3, {"ward": 3, "month": 4}, ())
    differ = domain_with(3, {"ward": 3, "month": 4}, ("month",))
    of = [Workload.marginals(domain, 2) for domain in (plain, differ)]
    pure, rho = ([noise_for(w, cost, ADD)[0].scale for w in of] for cost in (PureDP(1.0), ZCDP(1.0)))
    assert pure[0] == pure[1]
    assert rho[1] == pytest.approx(rho[0] / np.sqrt(3))
    bounds = [plan(w, 1000, epsilon=1.0, delta=1e-6, trials=0, mechanisms=["gaussian"]).bounds for w in of]
    by = [{b.at_most: b.deviation for b in found if b.weights == "records"} for found in bounds]
    assert by[1][1] == pytest.approx(by[0][1])
    assert by[1][20] == pytest.approx(by[0][20] / np.sqrt(20), rel=1e-3)
    assert Group((0,), Cells(3)) not in of[1].groups


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"distinct": ["day"]}, "distinct names 'day', which is not an attribute"),
        ({"distinct": "month"}, "distinct must be a list of columns"),
        ({"distinct": [1]}, "distinct must be a list of columns"),
        ({"distinct": ["month", "month"]}, "names a column twice"),
        ({"distinct": ["month"], "weights": "persons"}, "distinct cannot be used with weights"),
        (
            {"distinct": ["n"], "derive": {"n": {"take": "any"}}},
            "cannot be used with derive",
        ),
    ],
)
def test_what_is_wrong_is_told(entry, said):
    content = domain_to_json(DOMAIN)
    content["person"] = {"column": "who", "at_most": 3, **entry}
    with pytest.raises(InvalidInput, match=said):
        domain_from_json(content)
    assert domain_from_json(domain_to_json(DOMAIN)) == DOMAIN


@pytest.mark.parametrize("neighbours", Neighbours)
def test_m_squared_of_the_rho_of_a_record_is_no_more_than_that_of_the_whole(neighbours):
    """What the proof for discrete Gaussian noise under an (epsilon, delta) rests on; twice that would be too much."""
    ratios = []
    for epsilon, delta, m in product([0.01, 0.1, 1.0, 3.0, 10.0], [1e-12, 1e-9, 1e-5], [2, 3, 5, 20, 100]):
        unit, whole = Unit(neighbours, m), ApproxDP(epsilon, delta)
        ratios.append(unit.size**2 * zcdp_of(unit.of_a_record(whole)).rho / zcdp_of(whole).rho)
    assert 0.5 < max(ratios) <= 1
