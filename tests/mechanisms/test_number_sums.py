"""Sums with counts in one charge: no neighbour moves them further than was paid for, and broken twins are convicted."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from worlds import BOTH, neighbouring, table_of

import qrelease as qr
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.evaluation.audit import compare, enumerated, laplace_distribution
from qrelease.inference.sums_plan import PlannedTable, SumsPlan
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.measured_values import record_values, table_of_sums
from qrelease.mechanisms.number_sums import (
    COUNTED_WITH_SUMS,
    NumberSums,
    divided,
    division_plan,
    in_epsilon,
    in_one_currency,
)
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.calibration import counting_first, currency
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.privacy.costs import is_pure, split
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.measures import Measure, needs_by_cells, needs_of
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator

ADD, SWAP = BOTH
DOMAIN = Domain(
    (
        Attribute("g", "coded", codes=2, ordered=True),
        Attribute("x", "number", edges=(0, 1, 2, 3, 4), integer=True, missing=("",)),
    )
)
QUESTIONS = [
    "mean:x by g",
    "variance:x",
    "ratio:x >= 2 by g",
    "mean:x where g = 1",
    "count by g",
    "sum:x where x <= 2",
    "quantile(.5):x by g",
]
TABLES = [
    table_of(DOMAIN, rows)
    for rows in ([], [[0, 3]], [[1, 0], [0, 2], [1, 4]], [[1, 3], [1, 3], [0, 0], [0, 1]], [[0, 1]] * 6)
]
COSTS = [ZCDP(0.5), PureDP(1.0), ApproxDP(1.0, 1e-6)]


def plan_of(cost, relation, questions=QUESTIONS):
    parsed = [NumericQuestion.parse(DOMAIN, text) for text in questions]
    asked, others = [needs_of(q, {}) for q in parsed], [needs_by_cells(q, {}) for q in parsed]
    return SumsPlan.choose(DOMAIN, asked, cost, relation, by_cells=others)


def loss(parts, first, second, cost, relation, values=record_values):
    """By how much of its cost two tables are told apart: exact, as all noise is of known laws on whole numbers.

    Under ε Σ|Δ|/b over ε; under ρ Σ Δ²/2σ² over ρ, the divergence of equal Gaussians; under (ε, δ) as of μ².
    """
    total = 0.0
    for part in parts:
        law, parameter = part.noise(cost, relation)
        a, b = (
            part.group.queries.apply(table_of_sums(t, values(t, part.measure), part.group.axes))
            for t in (first, second)
        )
        moved = np.abs(a - b).astype(float)
        if law.law == "discrete Laplace":
            total += moved.sum() / float(parameter) / cost.epsilon
        else:
            whole = replace(part, share=1 << 40).noise(cost, ADD)[1] / part.sensitivity(2)  # σ² for a move of 1
            total += float((moved**2).sum()) * float(whole) / float(parameter)
    return total


def worst(cost, relation, values=record_values, change=lambda parts: parts, questions=QUESTIONS):
    parts = change(plan_of(cost, relation, questions).parts)
    return max(
        loss(parts, table, other, cost, relation, values) for table in TABLES for other in neighbouring(table, relation)
    )


@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("relation", BOTH)
def test_no_neighbour_is_told_apart_by_more_than_was_paid(cost, relation):
    """Over every neighbour of small tables; a record at a bound, that all questions are about, uses most."""
    found = worst(cost, relation)
    assert found <= 1 + 1e-9
    assert relation is SWAP or is_pure(cost) or found > 0.6


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_nor_by_sums_of_cells(cost):
    """A condition that is answered from the table by groups; the other one has sums of its own."""
    questions = ["mean:x by g", "mean:x where g = 1"]
    assert all(not part.measure.where for part in plan_of(cost, ADD, questions).parts)
    assert any(part.measure.where for part in plan_of(cost, ADD).parts)
    assert worst(cost, ADD, questions=questions) <= 1 + 1e-9
    twice = worst(cost, ADD, change=lambda parts: [replace(p, share=2 * p.share) for p in parts], questions=questions)
    assert twice > 1.1


def test_a_release_answers_conditions_that_were_not_asked_for():
    """By adding up cells of what was measured: with an interval, as the cell itself has it."""
    rows = [[i % 2, i % 5] for i in range(4000)]
    curator = Curator(table_of(DOMAIN, rows), Ledger.open(None, ZCDP(5.0)), Entropy.insecure(3))
    mechanism = NumberSums(["mean:x by g"])
    release = curator.release(mechanism, Workload.marginals(DOMAIN, [["g"]]), ZCDP(5.0))
    found = release.table("mean:x where g = 1", intervals=True)
    exact = np.mean([x for g, x in rows if g == 1 and x < 4])
    assert found.source.tolist() == ["measured"]
    assert found.low_95[0] < exact < found.high_95[0]
    assert found.unbiased[0] == pytest.approx(exact, abs=0.02)
    whole = release.table("mean:x by g", intervals=True)
    assert found.unbiased[0] == pytest.approx(whole.unbiased[1], abs=1e-9)


def _uncentred(table, measure):
    """The values from the lower bound on, as far from 0 as the whole width, under noise for half of it."""
    found = record_values(table, measure)
    there = table.columns[1] < 4
    return np.where(there, found + measure.width, 0) if measure.power == 1 else found


def _bound_of_the_data(table, measure):
    """Clipped at the largest value that occurs, and centred there."""
    if measure.power != 1 or not len(table):
        return record_values(table, measure)
    places = table.columns[1].astype(np.int64)
    there = places < 4
    most = int(places[there].max(initial=1))
    return np.where(there, 2 * np.minimum(places, most) - most, 0)


def _unclipped(table, measure):
    """A bound of 1 that values do not keep to."""
    return (
        np.where(table.columns[1] < 4, 2 * table.columns[1].astype(np.int64) - 1, 0)
        if measure.power == 1
        else (record_values(table, measure))
    )


def _narrow(parts):
    """The sums between 0 and 1, which `_unclipped` leaves."""
    return [replace(p, measure=replace(p.measure, high=1)) if p.measure.power == 1 else p for p in parts]


TWINS = {
    "no centring": (_uncentred, lambda parts: parts),
    "a bound of the data": (_bound_of_the_data, lambda parts: parts),
    "unclipped": (_unclipped, _narrow),
    "shares of more than all": (record_values, lambda parts: [replace(p, share=3 * p.share) for p in parts]),
}


@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_convicted(twin, cost):
    values, change = TWINS[twin]
    questions = ["mean:x by g"]
    assert worst(cost, ADD, questions=questions) <= 1 + 1e-9
    assert worst(cost, ADD, values, change, questions) > 1.1


def test_the_output_listed_in_full():
    """The joint law of a count and a sum of one group, listed, against that of a neighbour; and the uncentred twin."""
    cost = PureDP(0.8)
    domain = Domain((Attribute("x", "coded", codes=3, ordered=True),))
    needs = needs_of(NumericQuestion.parse(domain, "mean:x"), {})
    parts = SumsPlan.choose(domain, [needs], cost, ADD).parts
    laws = [laplace_distribution(part.noise(cost, ADD)[1], missing=1e-7) for part in parts]

    def run(values):
        def mechanism(table, choices):
            exact = [int(table_of_sums(table, values(table, p.measure), ())[0]) for p in parts]
            return tuple(e + choices.draw(law) for e, law in zip(exact, laws, strict=True))

        return mechanism

    def uncentred(table, measure):
        return record_values(table, measure) + measure.width * (measure.power == 1)

    full, less = table_of(domain, [[1], [2]]), table_of(domain, [[1]])
    right = compare(*(enumerated(run(record_values), t, least=1e-7) for t in (full, less)), cost)
    wrong = compare(*(enumerated(run(uncentred), t, least=1e-7) for t in (full, less)), cost)
    assert not right.convicted
    assert right.epsilon > 0.75
    assert wrong.convicted


@pytest.mark.parametrize("relation", BOTH)
def test_a_person_moves_at_most_m_records(relation):
    """With the cost of one record that a person's comes to; without it a person is told apart by m, or m²."""
    most = 3
    unit = Unit(relation, most)
    start = table_of(DOMAIN, [[0, 1], [1, 2]])
    for cost in COSTS[:2]:
        parts = plan_of(unit.of_a_record(cost), unit.relation).parts
        careless = plan_of(cost, unit.relation).parts
        found, wrong = [], []
        for record in ([0, 0], [1, 3], [1, 0]):
            rows = [[0, 1], [1, 2], *[record] * most]
            other = start if relation is ADD else table_of(DOMAIN, [[0, 1], [1, 2], *[[0, 3]] * most])
            exact = loss(parts, table_of(DOMAIN, rows), other, unit.of_a_record(cost), unit.relation)
            of_person = unit.size if isinstance(cost, PureDP) else unit.size**2
            found.append(exact / of_person)
            wrong.append(loss(careless, table_of(DOMAIN, rows), other, cost, unit.relation))
        assert max(found) <= 1 + 1e-9
        assert max(wrong) > 1.5


def test_conditions_that_overlap_cannot_have_shares_of_their_own():
    parts = plan_of(ZCDP(0.5), ADD, ["mean:x where g = 0", "mean:x where g = 1"]).parts
    private = Private(TABLES[3], ADD, Filter(ZCDP(0.5)), Entropy.insecure(1))
    assert len(private.measure_sums(parts, ZCDP(0.5))) == len(parts)
    everywhere = [replace(p, measure=replace(p.measure, where="")) for p in parts]
    private = Private(TABLES[3], ADD, Filter(ZCDP(0.5)), Entropy.insecure(1))
    with pytest.raises(InvalidInput, match="more than all"):
        private.measure_sums(everywhere, ZCDP(0.5))
    assert not private.spends


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_what_is_drawn_has_the_noise_that_is_said(cost):
    part = PlannedTable(
        Measure("x", 1, 0, 3), Group((), plan_of(ZCDP(1.0), ADD, ["mean:x"]).parts[0].group.queries), 1 << 40
    )
    table = TABLES[3]
    exact = table_of_sums(table, record_values(table, part.measure), ())[0]
    found = []
    for seed in range(600):
        private = Private(table, ADD, Filter(cost), Entropy.insecure(seed))
        (one,) = private.measure_sums([part], cost)
        found.append(one.values[0] - exact)
    deviation = math.sqrt(one.noise.variance)
    assert abs(np.std(found) / deviation - 1) < 0.12
    assert private.spends[0].what == "sum 1 tables of residuals"


# --- releases ----------------------------------------------------------------------------------------------------


def people(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, 2, rows)
    return Table(DOMAIN, (g, np.where(rng.random(rows) < 0.05, 4, np.minimum(rng.poisson(1 + g), 3))))


def released(table, cost, relation=ADD, workload=None, questions=QUESTIONS, **options):
    curator = Curator(table, Ledger.open(None, cost, neighbours=relation), Entropy.insecure(7))
    workload = Workload.marginals(table.domain, 1) if workload is None else workload
    return curator.release(NumberSums(questions, **options), workload, cost)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("mechanism", [None, MaxEnt()], ids=str)
def test_answers_of_a_release_are_near_the_truth(cost, relation, mechanism):
    table = people()
    release = released(table, cost, relation, mechanism=mechanism)
    g, x = table.columns
    there = x < 4
    wanted = [x[there & (g == k)].mean() for k in (0, 1)]
    found = release.table("mean:x by g", intervals=True)
    half = (found.unbiased_high_95 - found.unbiased_low_95) / 2
    assert (half < 0.5).all()
    assert (np.abs(found.unbiased - wanted) <= 2.5 * half).all()
    assert set(found.source) == {"measured"}
    counts = release.answer("g = 1")
    assert abs(counts.value - (g == 1).sum()) < 400
    assert len(release.table("variance:x")) == 1


def test_learned_bounds_are_near_the_ends_that_matter():
    domain = Domain((Attribute("x", "number", edges=tuple(range(0, 1001, 10)), within=(0, 999), step=1),))
    values = np.random.default_rng(3).integers(200, 400, 20_000)
    table = Table(domain, (domain.attributes[0].bins_of(values),), points=(values,))
    cost = ZCDP(0.5)
    curator = Curator(table, Ledger.open(None, cost), Entropy.insecure(2))
    release = curator.release(NumberSums(["mean:x"], learn=["x"]), Workload.marginals(domain, 1), cost)
    low, high = release.measured_sums.clips["x"]
    assert 190 <= low <= 215
    assert 385 <= high <= 409
    assert set(release.table("mean:x").source) == {"clipped"}
    assert sum(s.cost.rho for s in release.spends) <= 0.5
    assert len(release.spends) == 3


def test_persons():
    domain = Domain(DOMAIN.attributes, person=Person("id", 2))
    table = Table.of_persons(domain, people(3000).columns, [str(i // 3) for i in range(3000)])
    cost = ZCDP(2.0)
    curator = Curator(table, Ledger.open(None, cost, person="id"), Entropy.insecure(7))
    release = curator.release(NumberSums(QUESTIONS), Workload.marginals(domain, 1), cost)
    assert 1500 < release.table("count by g").unbiased.sum() < 2500
    assert sum(Fraction(s.cost.rho) for s in release.spends) <= Fraction(1, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"questions": "mean:x"}, "list of texts"),
        ({"share": 0}, "share must be above"),
        ({"share": 1.5}, "share must be"),
        ({"clip": {"x": (1,)}}, "a lower and a higher"),
    ],
)
def test_parameters_that_are_none(options, said):
    with pytest.raises(InvalidInput, match=said):
        NumberSums(**{"questions": ["mean:x"], **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"questions": []}, "no question"),
        ({"questions": ["mean:z"]}, "no column 'z'"),
        ({"clip": {"x": (2, 9)}}, "not on its grid"),
        ({"clip": {"x": (0, 1)}, "learn": ["x"]}, "choose one"),
        ({"questions": ["count by g"], "learn": ["x"]}, "no question is about"),
    ],
)
def test_refusals_come_before_the_charge(options, said):
    with Ledger.open(None, ZCDP(1.0)) as ledger:
        curator = Curator(people(), ledger, Entropy.insecure(7))
        with pytest.raises(InvalidInput, match=said):
            curator.release(
                NumberSums(**{"questions": ["mean:x"], **options}), Workload.marginals(DOMAIN, 1), ZCDP(1.0)
            )
        assert ledger.spent is None


@pytest.mark.parametrize("kind", ["mean:x by g", "count", "quantile(.5):x"])
def test_a_condition_that_nobody_can_meet_is_refused_before_the_charge(kind):
    sums = NumberSums([f"{kind} where x >= 3 and x < 2", "mean:x"])
    with Ledger.open(None, ZCDP(1.0)) as ledger:
        with pytest.raises(InvalidInput, match="no record can meet the condition"):
            Curator(people(), ledger, Entropy.insecure(7)).release(sums, Workload.marginals(DOMAIN, 1), ZCDP(1.0))
        assert ledger.spent is None


def test_bounds_of_a_column_without_an_order_are_refused_before_the_charge():
    """They are chosen by counts of its prefixes, which it has not."""
    domain = Domain((Attribute("x", "coded", codes=5),))
    with Ledger.open(None, ZCDP(1.0)) as ledger:
        curator = Curator(Table(domain, (np.arange(50) % 5,)), ledger, Entropy.insecure(7))
        with pytest.raises(InvalidInput, match="has no order"):
            curator.release(NumberSums(["mean:x"], learn=["x"]), Workload.marginals(domain, 1), ZCDP(1.0))
        assert ledger.spent is None


def test_a_table_of_bins_is_refused_before_the_charge():
    domain = Domain((Attribute("x", "number", edges=(0, 5, 10), within=(0, 9), step=1),))
    with Ledger.open(None, ZCDP(1.0)) as ledger:
        curator = Curator(Table(domain, (np.array([0, 1]),)), ledger, Entropy.insecure(7))
        with pytest.raises(InvalidInput, match="made of bins"):
            curator.release(NumberSums(["mean:x"]), Workload.marginals(domain, 1), ZCDP(1.0))
        assert ledger.spent is None


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE])
def test_a_saved_release_gives_the_same_and_is_verified(tmp_path, neighbours):
    import pandas

    for cost, mechanism in [(ZCDP(0.5), None), (PureDP(1.0), MaxEnt()), (ApproxDP(1.0, 1e-6), None)]:
        release = released(people(), cost, neighbours, mechanism=mechanism, clip={"x": (0, 2)})
        folder = tmp_path / f"{type(cost).__name__}"
        release.save(folder)
        loaded = qr.load(folder)
        for text in ("mean:x by g", "variance:x", "count by g"):
            one, other = (made.table(text, intervals=True) for made in (release, loaded))
            pandas.testing.assert_frame_equal(one, other)
        checks = {c.name: c for c in qr.verify(folder).checks}
        assert all(checks[name].holds for name in ("files", "id", "cost", "mechanism", "noise", "numbers", "answers"))
        assert "mean:x by g" in (folder / "report.html").read_text()


def test_forged_sums_do_not_hold(tmp_path):
    release = released(people(), ZCDP(0.5), mechanism=MaxEnt())
    release.save(tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    content = json.loads(file.read_text())
    for entry in content["numbers"]["tables"]:
        entry["noise"]["scale"] /= 1.5
    file.write_text(json.dumps(content))
    found = {c.name: c.holds for c in qr.verify(tmp_path / "out").checks}
    assert found["files"] is False
    assert found["id"] is False
    assert found["noise"] is False


FITTING = [MaxEnt(), FittedRecords(), FittedRecords(at_once=False), Auto(4000)]


@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("mechanism", FITTING, ids=str)
def test_records_follow_the_counts_that_were_measured_for_numbers(mechanism, cost):
    """The workload asks of single columns: how x goes with g is known from the quantiles by group alone."""
    if is_pure(cost) and mechanism == FittedRecords(at_once=True):
        pytest.skip("under pure epsilon nothing is measured at once")
    table, pair = people(), Workload.marginals(DOMAIN, 2)
    [exact] = table.counts(pair.sets)
    alone = np.outer(exact.reshape(2, 5).sum(axis=1), exact.reshape(2, 5).sum(axis=0)) / len(table)
    release = released(table, cost, mechanism=mechanism, share=0.9)
    off = np.abs(release.synopsis.answer(pair) - exact.reshape(-1)).sum()
    assert off < np.abs(alone.reshape(-1) - exact.reshape(-1)).sum() / 2
    synthetic = release.synthetic()
    assert abs(len(synthetic["g"]) - release.answer("g in 0..1").value) <= 1
    assert all(not part.measure.is_plain for part in release.measured_sums.parts)
    totals = [np.nansum(release.marginal([name])["answer"]) for name in ("g", "x")]
    totals += [release.marginal(["g", "x"])["answer"].sum(), len(synthetic["g"])]
    assert max(totals) - min(totals) <= 1
    other = Gaussian() if isinstance(cost, ZCDP) else Laplace()  # neither fits anything
    apart = released(table, cost, mechanism=other, share=0.9)
    assert COUNTED_WITH_SUMS not in apart.parameters
    assert any(part.measure.is_plain for part in apart.measured_sums.parts)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("mechanism", FITTING[:3], ids=str)
def test_what_counts_were_drawn_with_the_sums_is_verified(tmp_path, mechanism, neighbours):
    release = released(people(), ZCDP(0.5), neighbours, mechanism=mechanism)
    release.save(tmp_path)
    loaded, asked = qr.load(tmp_path), Workload.marginals(DOMAIN, 2)
    np.testing.assert_allclose(loaded.published(asked).widths, release.published(asked).widths, rtol=1e-9)
    np.testing.assert_allclose(loaded.published(asked).answers, release.published(asked).answers, rtol=1e-12)
    assert [check.name for check in qr.verify(tmp_path).checks if check.holds is False] == ["noise source"]  # a seed
    counted = release.parameters[COUNTED_WITH_SUMS]
    assert counted
    file = tmp_path / "release.json"
    content = json.loads(file.read_text())
    texts = [str(i) for i in counted]
    for forged in (counted[1:], [], [*counted, len(release.measurements)], "none", texts, [[0]], [True], [-1]):
        content["parameters"][COUNTED_WITH_SUMS] = forged
        file.write_text(json.dumps(content))
        assert {check.name: check.holds for check in qr.verify(tmp_path).checks}["noise"] is False, forged


@pytest.mark.parametrize("mechanism", [None, MaxEnt()], ids=str)
def test_counts_of_questions_that_are_said_to_be_means_of_several_draws_were_not_paid_for(tmp_path, mechanism):
    """Exact counts, with the noise of sixteen draws, would be known four times as well as what was paid for."""
    table = people()
    release = released(table, ZCDP(0.5), mechanism=mechanism)
    counted = release.parameters.get(COUNTED_WITH_SUMS, range(len(release.measurements)))

    def exact(measured):
        return measured.group.queries.apply(table.counts([measured.group.axes])[0].reshape(-1)).astype(float)

    forged = [
        replace(m, repeats=16, values=exact(m)) if i in counted else m for i, m in enumerate(release.measurements)
    ]
    replace(release, id="", measurements=tuple(forged)).save(tmp_path)
    noise = next(check for check in qr.verify(tmp_path).checks if check.name == "noise")
    assert noise.holds is False
    assert "is said to be the mean of 16" in noise.found


@pytest.mark.parametrize("mechanism", [MaxEnt(), FittedRecords(weighted_records=1000)], ids=str)
def test_whole_tables_with_laplace_noise_are_fitted_beside_residuals_with_gaussian_noise(tmp_path, mechanism):
    domain, rng = Domain((*DOMAIN, *(Attribute(f"c{i}", "coded", codes=5) for i in range(8)))), np.random.default_rng(3)
    table = Table(domain, (*people().columns, *rng.integers(0, 5, (8, 4000))))
    release = released(table, ApproxDP(1.0, 1e-9), workload=Workload.marginals(domain, 2), mechanism=mechanism)
    drawn = {(type(m.group.queries), m.noise.law) for m in release.measurements}
    assert (Cells, "discrete Laplace") in drawn
    assert any(queries is Residuals and "Gaussian" in law for queries, law in drawn)
    release.save(tmp_path)
    one, other = (made.published(release.workload) for made in (release, qr.load(tmp_path)))
    np.testing.assert_allclose(one.widths, other.widths, rtol=1e-9)
    assert [check.name for check in qr.verify(tmp_path).checks if check.holds is False] == ["noise source"]  # a seed


FEW = ["sum:x", "count"]
MANY = [
    *(f"{kind} by {by}" for kind in ("mean:x", "variance:x", "count", "ratio:x >= 2") for by in ("g", "h", "g*h")),
    "sum:x",
    "mean:x",
]
WIDER = Domain((*DOMAIN, Attribute("h", "coded", codes=3)))


def without_seed(mechanism, asked, cost):
    """A release of some records that spends the whole ledger; its noise has a seed."""
    rows = [[i % 2, i % 5, i % 3][: len(asked.domain)] for i in range(2000)]
    curator = Curator(table_of(asked.domain, rows), Ledger.open(None, cost), Entropy.insecure(2))
    return curator.release(mechanism, asked, cost)


def drawn_with_sums(release):
    """The counts among the measurements of a release that were drawn with its sums, and these."""
    among = len(release.measurements) * (release.parameters["mechanism"] is None)
    counted = release.parameters.get(COUNTED_WITH_SUMS, range(among))
    drawn = [*(release.measurements[i] for i in counted), *release.measured_sums.measured]
    return sorted(drawn, key=lambda m: (m.group.axes, m.noise.scale))


@pytest.mark.parametrize("mechanism", [None, Auto(2000), Laplace(), MaxEnt()], ids=str)
@pytest.mark.parametrize("learn", [(), ("x",)])
def test_few_numbers_are_as_close_with_a_delta_as_without(mechanism, learn):
    """They spend epsilon alone, as without it: the scales of their noise are the same, and half of those in rho."""
    asked, both = Workload.marginals(DOMAIN, [["g"]]), ApproxDP(1.0, 1e-9)
    sums = NumberSums(FEW, learn=learn, mechanism=mechanism)
    with_delta, without = (
        without_seed(replace(sums, mechanism=inner), asked, cost)
        for inner, cost in [(mechanism, both), (mechanism and Auto(2000), PureDP(1.0))]
    )
    laws = [[m.noise for m in drawn_with_sums(release)] for release in (with_delta, without)]
    if not learn:  # else the bounds may differ, for which other noise is drawn
        assert laws[0] == laws[1]
    assert {law.law for law in laws[0]} == {"discrete Laplace"}
    in_rho = in_one_currency(sums, both)
    plan = division_plan(sums, asked, {}, in_rho, ADD)
    alone = division_plan(sums, asked, {}, in_epsilon(sums, both), ADD)
    assert (plan.errors(in_rho.sums) > 1.5 * alone.errors(in_epsilon(sums, both).sums)).any()


@pytest.mark.parametrize("mechanism", [None, Auto(2000), MaxEnt()], ids=str)
def test_many_numbers_are_closer_with_a_delta(mechanism):
    """Each of them is expected to be: by the noise of what was measured, in one plan for all."""
    asked, both, pure = Workload.marginals(WIDER, 2), ApproxDP(1.0, 1e-2), PureDP(1.0)
    sums = NumberSums(MANY, mechanism=mechanism, share=0.9)
    release = without_seed(sums, asked, both)
    assert {m.noise.order for m in release.measured_sums.measured} == {2}
    division, alone = divided(sums, asked, both, ADD), divided(sums, asked, pure, ADD)
    limits = division_plan(sums, asked, {}, alone, ADD).errors(alone.sums)
    errors = division_plan(sums, asked, {}, division, ADD).errors(division.sums)
    assert (errors <= limits).all()
    assert (errors < limits / 2).any()


def test_weights_are_raised_of_what_laplace_noise_would_answer_more_closely():
    """The total and its count beside many tables: first they are further off than for epsilon alone, then nothing."""
    sums, asked, both = NumberSums(MANY), Workload.marginals(WIDER, 1), ApproxDP(1.0, 1e-4)
    limits = division_plan(sums, asked, {}, in_epsilon(sums, both), ADD).errors(PureDP(1.0))
    found = divided(sums, asked, both, ADD)
    assert found.sums == both
    assert (division_plan(sums, asked, {}, found, ADD).errors(both) <= limits).all()
    assert (division_plan(sums, asked, {}, replace(found, instead=None), ADD).errors(both) > limits).any()


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_of_epsilon_with_all_of_delta_is_a_cost_that_the_charge_covers(seed):
    """Whatever the two parts do with it; a millionth more is refused."""
    rng = np.random.default_rng(seed)
    both, share = ApproxDP(10 ** rng.uniform(-3, 1.5), 10 ** rng.uniform(-30, -1)), rng.uniform(0.01, 0.99)
    sums = NumberSums(FEW, learn=("x",) * int(rng.integers(2)), mechanism=MaxEnt(), share=share)
    found = in_epsilon(sums, both)
    purse = Filter(both)
    for part in (found.learning, found.sums):
        if part is not None:
            purse.spend(part)
    counting, rest = counting_first(found.counts, 0.01, ADD)
    purse.spend(counting)
    rho = currency(rest)
    for part in split(rho, rng.uniform(0.1, 1, 5)):
        purse.spend(part)
    with pytest.raises(BudgetExceeded):
        purse.spend(ZCDP(rho.rho * 1e-6))
