"""Optimal strategies and the mechanism that measures them: known errors, dense algebra, draws, files, refusals."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import BOTH, PEOPLE, PROPERTY, coded, full_matrix, matrix, mixed, moved, private, random_table, true_answers

from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit import audit_mechanism, audit_sensitivity, table_pairs
from qrelease.inference.measurement import noise_for
from qrelease.inference.strategies import Strategy, covariance, gram, lower_bound, variances
from qrelease.mechanisms.matrix import Matrix, plan
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.families import Cells, Intervals
from qrelease.queries.products import Product, Rows
from qrelease.queries.workload import Group, Workload
from qrelease.release import reader
from qrelease.release.curator import Curator

ADD, SWAP = BOTH
COST = ApproxDP(1.0, 1e-6)

ROWS = st.builds(
    lambda k, n, seed, unit: Rows(np.random.default_rng(seed).integers(-9, 10, (k, n)), 2.0**-unit),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 99),
    st.integers(0, 3),
)
FACTORS = st.one_of(
    ROWS,
    st.integers(1, 3).map(Cells),
    st.builds(lambda m, hole, p: Intervals(m, m + hole, p), st.integers(1, 4), st.booleans(), st.booleans()),
)
PRODUCTS = st.lists(FACTORS, min_size=1, max_size=3).map(lambda parts: Product(tuple(parts)))


# --- products of families ----------------------------------------------------------------------------------------


@given(st.one_of(ROWS, PRODUCTS), st.integers(0, 2**32 - 1))
@PROPERTY
def test_a_product_is_the_kronecker_product(family, seed):
    dense = np.ones((1, 1), np.int64)
    for factor in family.factors if isinstance(family, Product) else [family]:
        dense = np.kron(dense, factor.rows if isinstance(factor, Rows) else matrix(factor))
    np.testing.assert_array_equal(matrix(family), dense)
    assert (family.count, family.cells) == dense.shape
    np.testing.assert_allclose(family.squares(), ((dense * family.unit) ** 2).sum(axis=1))
    weights = np.random.default_rng(seed).normal(size=family.count)
    np.testing.assert_allclose(family.adjoint(weights), weights @ dense, atol=1e-9)
    np.testing.assert_allclose(gram(family), dense.T @ dense * family.unit**2, atol=1e-9)
    assert not any(f.bounded for f in [family]) or (dense.min() >= 0 and dense.max() * family.unit <= 1)


@given(st.one_of(ROWS, PRODUCTS))
@PROPERTY
def test_sensitivities_of_products(family):
    columns = matrix(family)
    for order in (1, 2):
        assert family.sensitivity(order, replace=False) == moved(columns, order, ADD)
        assert family.sensitivity(order, replace=True) >= moved(columns, order, SWAP)
    if isinstance(family, Rows):
        assert family.sensitivity(2, replace=True) == moved(columns, 2, SWAP)


@pytest.mark.parametrize(
    ("rows", "unit"),
    [([[1.5]], 1.0), ([1], 1.0), ([[]], 1.0), ([[1]], 3.0), ([[1]], 0.3), ([[1]], 2.0), ([[2**25]], 1.0)],
)
def test_integer_rows_that_are_none(rows, unit):
    array = np.array(rows, float if rows == [[1.5]] else np.int64)
    with pytest.raises(InvalidInput, match="integer rows"):
        Rows(array, unit)


def test_boxes_are_spelled_and_survive_json():
    domain = PEOPLE
    boxes = Workload.parse(domain, "boxes:age*grade")
    assert boxes == Workload.boxes(domain, ["age", "grade"])
    texts = list(boxes.texts())
    assert texts[0] == "age in 0..19 and grade = 0"
    np.testing.assert_array_equal(full_matrix(boxes), full_matrix(Workload.predicates(domain, *texts)))
    measured = plan(boxes).measured
    for workload in (boxes, measured):
        assert Workload.from_json(domain, json.loads(json.dumps(workload.to_json()))) == workload
    assert list(measured.texts())[:2] == ["row 0 and row 0", "row 0 and row 1"]
    with pytest.raises(InvalidInput, match="has no order"):
        Workload.boxes(domain, ["sex", "age"])


# --- strategies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "cells", "bound", "optimum"),
    [
        (Workload.ranges, 256, 2.876, 2.901),
        pytest.param(Workload.ranges, 1024, 3.492, 3.515, marks=pytest.mark.slow),
        pytest.param(Workload.prefixes, 1024, 2.910, 2.956, marks=pytest.mark.slow),
    ],
)
def test_known_optima(kind, cells, bound, optimum):
    workload = kind(coded(cells), "a")
    found = plan(workload)
    assert found.error == pytest.approx(optimum, abs=1e-3)
    assert found.bound <= found.error <= 1.001 * found.bound
    singular = np.sqrt(np.linalg.eigvalsh(gram(workload.groups[0].queries)))
    plain = singular.sum() / np.sqrt(cells * len(workload))
    assert plain == pytest.approx(bound, abs=1e-3)
    assert plain < found.bound


WORKLOADS = {
    "mixed": mixed(),
    "missing": Workload.ranges(PEOPLE, "age"),
    "few": Workload.predicates(coded(40), "a in 3..7", "a in 5..20", "a = 2 or a = 17"),
    "one": Workload.predicates(coded(9), "a in 3..7"),
    "boxes": Workload.boxes(coded(6, 5), ["a", "b"]),
    "joined": Workload.boxes(coded(6, 5), ["a", "b"]) + Workload.ranges(coded(6, 5), "a"),
    "marginals": Workload.marginals(coded(2, 3, 4), 2),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_plan_is_as_good_as_it_says(name):
    workload = WORKLOADS[name]
    found = plan(workload)
    assert found.bound <= found.error <= 1.001 * found.bound
    (group,) = found.measured.groups
    want, rows = full_matrix(workload), full_matrix(found.measured)
    least = want @ np.linalg.pinv(rows, rcond=1e-12)
    np.testing.assert_allclose(least @ rows, want, atol=1e-6)  # every query is among what the rows tell
    error = (least**2).sum() * (rows**2).sum(axis=0).max()
    assert found.error == pytest.approx(np.sqrt(error / len(workload)), rel=1e-6)
    assert found.measured.moved(2, replace=False) * group.queries.unit**2 == (rows**2).sum(axis=0).max()


def test_on_marginals_it_is_the_singular_value_bound():
    found = plan(WORKLOADS["marginals"])
    singular = np.linalg.svd(full_matrix(WORKLOADS["marginals"]), compute_uv=False)
    assert found.bound == pytest.approx(singular.sum() / np.sqrt(24 * len(WORKLOADS["marginals"])), rel=1e-6)
    assert found.error == pytest.approx(found.bound, rel=1e-3)


@pytest.mark.slow  # for want of the solver elsewhere
def test_against_a_convex_solver():
    cvxpy = pytest.importorskip("cvxpy")
    v = gram(Intervals(6, 6, prefixes=True))
    x = cvxpy.Variable((6, 6), PSD=True)
    root = np.linalg.cholesky(v).T
    problem = cvxpy.Problem(cvxpy.Minimize(sum(cvxpy.matrix_frac(root[i], x) for i in range(6))), [cvxpy.diag(x) <= 1])
    best = problem.solve(solver="CLARABEL")
    found = Strategy.optimal(v, 2.0**-16)
    assert found.bound <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= found.error <= 1.001 * found.bound


@given(st.lists(FACTORS, min_size=1, max_size=2).map(lambda parts: Product(tuple(parts))), st.booleans())
@PROPERTY
def test_variances_of_families(family, whole):
    rng = np.random.default_rng(family.cells)
    blocks = [rng.normal(size=(f.cells, f.cells + 2)) for f in family.factors]
    covariances = [b @ b.T for b in blocks]
    dense = np.ones((1, 1))
    for c in covariances:
        dense = np.kron(dense, c)
    w = matrix(family) * family.unit
    expected = ((w @ dense) * w).sum(axis=1)
    np.testing.assert_allclose(variances(family, [dense] if whole else covariances), expected, rtol=1e-9, atol=1e-9)
    explicit = Rows(matrix(family), 1.0)
    got = variances(explicit, covariances) * family.unit**2
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


# --- the mechanism -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("name", ["mixed", "boxes", "few"])
def test_drawn_errors_are_as_large_as_predicted(name, relation):
    workload, cost = WORKLOADS[name], ApproxDP(2.0, 1e-6)
    table = random_table(workload.domain, 300, 1)
    truth, entropy = true_answers(workload, table), Entropy.insecure(7)
    runs = [Matrix().release(private(table, cost, relation, entropy), workload, cost).synopsis for _ in range(1500)]
    errors = np.array([synopsis.answer(workload) for synopsis in runs]) - truth
    widths = runs[0].error_bars(workload)[1]
    inside = np.abs(errors) <= widths
    predicted = (widths / 1.959964) ** 2
    by_query = np.mean(errors**2, axis=0)
    assert np.sqrt(by_query.mean() / predicted.mean()) == pytest.approx(1, abs=0.02)
    assert by_query / predicted == pytest.approx(1, abs=0.2)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)
    if relation is ADD:
        sigma = analytic_gaussian_sigma(1, cost.epsilon, cost.delta)
        assert np.sqrt(predicted.mean()) == pytest.approx(plan(workload).error * sigma, rel=1e-5)


def test_it_beats_noise_on_every_answer():
    workload = Workload.ranges(coded(64), "a")
    apart = float(noise_for(workload, COST, ADD)[1]) ** 0.5
    ours = plan(workload).error * analytic_gaussian_sigma(1, COST.epsilon, COST.delta)
    assert ours < 0.15 * apart


@pytest.mark.parametrize("name", ["boxes", "joined"])
def test_other_queries_on_its_columns_have_answers_and_bars(name):
    workload, domain = WORKLOADS[name], coded(6, 5)
    table, cost = random_table(domain, 2000, 3), ApproxDP(100.0, 1e-3)
    synopsis = Matrix().release(private(table, cost), workload, cost).synopsis
    asked = (
        Workload.marginals(domain, [[], ["a"], ["a", "b"]])
        + Workload.prefixes(domain, "b")
        + Workload.predicates(domain, "a in 1..3 and b != 2")
    )
    values, widths = synopsis.error_bars(asked)
    np.testing.assert_allclose(values, synopsis.answer(asked))
    assert (np.abs(values - true_answers(asked, table)) <= 2.5 * widths).all()
    table = synopsis.answer(Workload.marginals(domain, 2))
    full = np.ones((1, 1))
    for c in synopsis._covariances:
        full = np.kron(full, c)
    w = full_matrix(asked)
    np.testing.assert_allclose(values, w @ table, atol=1e-6)
    expected = 1.959964 * np.sqrt(((w @ full) * w).sum(axis=1) * synopsis.measurement.variance)
    np.testing.assert_allclose(widths, expected, rtol=1e-6)


def test_a_release_comes_back_from_its_files(tmp_path):
    domain = coded(6, 5, 3)
    for i, workload in enumerate([Workload.boxes(domain, ["a", "b"]), Workload.ranges(domain, "a")]):
        curator = Curator(random_table(domain, 200, 1), Ledger.open(None, ZCDP(1.0)), Entropy.insecure(1))
        release = curator.release(Matrix(), workload, ZCDP(0.5))
        assert release.parameters["bound"] <= release.parameters["error"]
        assert release.parameters["gap"] == release.parameters["error"] / release.parameters["bound"] - 1 < 1e-3
        release.save(tmp_path / str(i))
        again = reader.load(tmp_path / str(i))
        for asked in (workload, Workload.predicates(domain, "a in 2..4", "c = 1") if i else workload):
            for one, two in zip(release.error_bars(asked), again.error_bars(asked), strict=True):
                np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(again.answers(), release.answers())
        assert again.synopsis.total == release.synopsis.total
        assert again.parameters == release.parameters
        factors = workload.groups[0].queries.factors if i == 0 else [workload.groups[0].queries]
        certificate = map(np.array, again.parameters["certificate"])
        bound = np.prod([lower_bound(gram(f), c) for f, c in zip(factors, certificate, strict=True)])
        assert np.sqrt(bound / len(workload)) == pytest.approx(again.parameters["bound"])
        assert not (tmp_path / str(i) / "synthetic.csv").exists()
        answer = release.answer("a in 2..4")
        assert answer.value == answer.noisy
        assert np.isnan(release.error_bars(Workload.predicates(domain, "c = 1"))).all()
        with pytest.raises(InvalidInput, match="contains the columns c"):
            release.answer("c = 1")
        with pytest.raises(InvalidInput, match="no table"):
            release.synthetic(10)


def test_the_number_of_records_is_public_under_replace_one():
    table = random_table(coded(6), 123, 1)
    draft = Matrix().release(private(table, COST, SWAP), Workload.ranges(coded(6), "a"), COST)
    assert draft.synopsis.total == 123


@pytest.mark.parametrize(
    ("workload", "cost", "error", "message"),
    [
        (Workload.ranges(coded(9), "a"), PureDP(1.0), InvalidInput, "needs a delta above 0"),
        (Workload.ranges(coded(9), "a"), ApproxDP(1.0, 0.0), InvalidInput, "needs a delta above 0"),
        (Workload.ranges(coded(9), "a"), "cheap", InvalidInput, "the cost must be"),
        (Workload.ranges(coded(9), "a"), ZCDP(1e-30), InvalidInput, "under noise beyond"),
        (Workload.ranges(coded(1025), "a"), COST, TooLarge, "for 1,024 cells at most, or for boxes.*got 1,025"),
        (Workload.boxes(coded(2, 1025), ["a", "b"]), COST, TooLarge, "got 1,025"),
        (Workload.marginals(coded(*(2,) * 11), 2), COST, TooLarge, "got 2,048"),
        (Workload.predicates(coded(3), "a in {}"), COST, InvalidInput, "the queries are all zero"),
    ],
)
def test_what_is_refused_before_any_charge(workload, cost, error, message):
    with pytest.raises(error, match=message):
        Matrix().check(workload, cost, ADD)


def test_ten_columns_of_two_still_fit():
    assert plan(Workload.marginals(coded(*(2,) * 6), 2)).error > 1


# --- privacy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("name", ["small boxes", "mixed"])
def test_the_measured_rows_move_as_far_as_their_noise_is_made_for(name, relation):
    workload = WORKLOADS["mixed"] if name == "mixed" else Workload.boxes(coded(3, 4), ["a", "b"])
    table = random_table(workload.domain, 3, 1)

    def run(records, entropy):
        return Matrix().release(private(records, COST, relation, entropy), workload, COST).measurements[0].values

    _, variance = noise_for(plan(workload).measured, COST, relation)
    unit = plan(workload).measured.groups[0].queries.unit
    sigma = analytic_gaussian_sigma(1, COST.epsilon, COST.delta)
    declared = float(variance) ** 0.5 * unit / sigma
    found = audit_sensitivity(run, table_pairs(table, relation), declared, order=2)
    assert not found.convicted
    assert found.found > 0.8 * found.declared
    assert audit_sensitivity(run, table_pairs(table, relation), 0.999 * found.found, order=2).convicted


@pytest.mark.parametrize("relation", BOTH)
def test_the_mechanism_is_acquitted_as_a_whole(relation):
    found = audit_mechanism(Matrix(), ApproxDP(4.0, 1e-3), relation, samples=1_000, entropy=Entropy.insecure(9))
    assert not found.convicted


def test_factors_of_a_strategy_give_the_covariance_of_their_product():
    one, two = (f.rows for f in (Strategy.optimal(gram(Intervals(n, n, False)), 2.0**-12) for n in (3, 4)))
    joint = Rows(np.kron(one.rows, two.rows), one.unit * two.unit)
    np.testing.assert_allclose(covariance(joint), np.kron(covariance(one), covariance(two)), rtol=1e-9)
    assert Product((one, two)).sensitivity(2, replace=False) == joint.sensitivity(2, replace=False)
    cells = list(product(range(3), range(4)))
    assert joint.cells == len(cells) == Group((0, 1), joint).queries.cells
