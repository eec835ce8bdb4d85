"""Optimal strategies: known errors, a convex solver, and dense algebra."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PEOPLE, PROPERTY, coded, full_matrix, matrix, mixed

from qrelease.inference.strategies import Strategy, covariance, gram, variances
from qrelease.mechanisms.matrix import best_strategy
from qrelease.queries.families import Cells, Intervals
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group, Workload

ROWS = st.builds(
    lambda k, n, seed, unit: IntegerRows(np.random.default_rng(seed).integers(-9, 10, (k, n)), 2.0**-unit),
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
    found = best_strategy(workload)
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
    found = best_strategy(workload)
    assert found.bound <= found.error <= 1.001 * found.bound
    (group,) = found.measured.groups
    want, rows = full_matrix(workload), full_matrix(found.measured)
    least = want @ np.linalg.pinv(rows, rcond=1e-12)
    np.testing.assert_allclose(least @ rows, want, atol=1e-6)  # every query is among what the rows tell
    error = (least**2).sum() * (rows**2).sum(axis=0).max()
    assert found.error == pytest.approx(np.sqrt(error / len(workload)), rel=1e-6)
    assert found.measured.moved(2, replace=False) * group.queries.unit**2 == (rows**2).sum(axis=0).max()


def test_on_marginals_it_is_the_singular_value_bound():
    found = best_strategy(WORKLOADS["marginals"])
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
    explicit = IntegerRows(matrix(family), 1.0)
    got = variances(explicit, covariances) * family.unit**2
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_factors_of_a_strategy_give_the_covariance_of_their_product():
    one, two = (f.rows for f in (Strategy.optimal(gram(Intervals(n, n, False)), 2.0**-12) for n in (3, 4)))
    joint = IntegerRows(np.kron(one.rows, two.rows), one.unit * two.unit)
    np.testing.assert_allclose(covariance(joint), np.kron(covariance(one), covariance(two)), rtol=1e-9)
    assert Product((one, two)).sensitivity(2, replace=False) == joint.sensitivity(2, replace=False)
    cells = list(product(range(3), range(4)))
    assert joint.cells == len(cells) == Group((0, 1), joint).queries.cells
