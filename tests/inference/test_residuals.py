"""Residuals and their plans: against dense linear algebra, enumeration, a convex solver and draws."""

import json
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from audits import listed
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import BOTH, PEOPLE, PROPERTY, coded, full_matrix, matrix, mixed, moved, private, random_table, true_answers

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit import audit_sensitivity, compare, enumerated, table_pairs
from qrelease.inference.measurement import Measurement, noise_for
from qrelease.inference.residuals import Estimates, ResidualPlan, cell_variance, fitting, query_variances
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.workload import Group, Workload

ADD, SWAP = BOTH
COST = ApproxDP(1.0, 1e-6)

SHAPES = st.lists(st.integers(2, 4), max_size=3).map(tuple)


@st.composite
def worlds(draw):
    """A domain of at most four columns, some of one cell only, and some sets of its columns."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    every = [s for k in range(len(sizes) + 1) for s in combinations(range(len(sizes)), k)]
    return coded(*sizes), draw(st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True))


def cells_of(domain, sets):
    return Workload(domain, tuple(Group(s, Cells(domain.cells(s))) for s in sets))


def measured(plan, table, cost, neighbours, seed):
    door = private(table, cost, neighbours, Entropy.insecure(seed))
    records = len(table) if neighbours is SWAP else None
    return Estimates.of(table.domain, door.measure(plan.workload, cost), records)


# --- the frame ---------------------------------------------------------------------------------------------------


@given(SHAPES, st.integers(1, 50), st.integers(0, 2**32 - 1))
@PROPERTY
def test_the_frame_is_a_multiple_of_the_projection(shape, scale, seed):
    family = Residuals(shape, scale)
    dense = np.ones((1, 1), np.int64)
    for n in shape:
        dense = np.kron(dense, n * np.eye(n, dtype=np.int64) - 1)
    np.testing.assert_array_equal(matrix(family), scale * dense)
    np.testing.assert_array_equal(dense @ dense, family.cells * dense)
    assert np.linalg.matrix_rank(dense) == np.prod([n - 1 for n in shape])
    np.testing.assert_allclose(family.squares(), ((scale * dense) ** 2).sum(axis=1))
    weights = np.random.default_rng(seed).normal(size=family.count)
    np.testing.assert_allclose(family.adjoint(weights), weights @ matrix(family), atol=1e-9)


@given(SHAPES, st.integers(1, 50))
@PROPERTY
def test_its_sensitivities_by_enumeration(shape, scale):
    family, columns = Residuals(shape, scale), scale * matrix(Residuals(shape))
    for order in (1, 2):
        assert family.sensitivity(order, replace=False) == moved(columns, order, ADD)
    assert family.sensitivity(2, replace=True) == moved(columns, 2, SWAP)
    assert family.sensitivity(1, replace=True) >= moved(columns, 1, SWAP)


@pytest.mark.parametrize(("shape", "scale"), [((2, 1), 1), ((2,), 0), ((2,), 2**29 + 1), ((2**16, 2**15), 1)])
def test_frames_that_are_none(shape, scale):
    with pytest.raises(InvalidInput, match="residuals"):
        Residuals(shape, scale)


@pytest.mark.parametrize("shape", [(), (2,), (3, 2), (2, 4, 3)])
def test_residuals_of_several_tables_are_those_of_each(shape):
    rng = np.random.default_rng(0)
    queries = Residuals(shape, 3)
    tables = rng.integers(0, 100, (5, queries.cells))
    np.testing.assert_array_equal(queries.apply(tables), [queries.apply(table) for table in tables])


@given(worlds())
@PROPERTY
def test_a_workload_of_residuals_moves_as_far_as_two_records_can(world):
    domain, sets = world
    sets = [tuple(a for a in s if domain.shape[a] > 1) for s in sets]
    groups = (Group(s, Residuals(tuple(domain.shape[a] for a in s), 1 + i)) for i, s in enumerate(dict.fromkeys(sets)))
    _check_moved(Workload(domain, tuple(groups)))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2, 2), (3, 2, 3, 3), (4, 4, 2, 2)])
def test_exchangeable_columns_too(sizes, order):
    groups = (
        Group(s, Residuals(tuple(sizes[a] for a in s), 1 + len(s))) for s in combinations(range(len(sizes)), order)
    )
    _check_moved(Workload(coded(*sizes), tuple(groups)))


def _check_moved(workload):
    columns = full_matrix(workload).astype(np.int64)
    assert workload.moved(2, replace=False) == moved(columns, 2, ADD)
    exact = moved(columns, 2, SWAP)
    assert exact <= workload.moved(2, replace=True) <= exact * (1 + 1e-9) + 1


def test_many_columns():
    pairs = tuple(Group(s, Residuals((2, 2))) for s in combinations(range(26), 2))
    # 13 columns that differ and 13 that do not: so many pairs hold one of each.
    assert Workload(coded(*(2,) * 26), pairs).moved(2, replace=True) == 13 * 13 * 16
    # Without one pair the columns cannot be exchanged, and there are too many sets of them: each pair at its worst.
    assert Workload(coded(*(2,) * 26), pairs[1:]).moved(2, replace=True) == 324 * 16


def test_a_workload_survives_json():
    workload = ResidualPlan.choose(coded(2, 3, 4), [(0, 1), (1, 2)]).workload
    again = Workload.from_json(workload.domain, json.loads(json.dumps(workload.to_json())))
    assert again == workload
    texts = list(workload.texts())
    assert texts[:2] == ["all records", "residual of a = 0"]
    assert texts[-1] == "residual of b = 2 and c = 3"


# --- plans -------------------------------------------------------------------------------------------------------


@given(worlds(), st.integers(0, 2**32 - 1))
@PROPERTY
def test_the_least_total_is_the_singular_value_bound(world, seed):
    domain, sets = world
    weights = np.random.default_rng(seed).uniform(0.1, 10, len(sets))
    plan = ResidualPlan.choose(domain, sets, weights=weights.tolist())
    asked = cells_of(domain, sets)
    spread = np.repeat(weights, [g.queries.count for g in asked.groups])
    singular = np.linalg.svd(full_matrix(asked) * np.sqrt(spread)[:, None], compute_uv=False)
    assert plan.bound == pytest.approx(singular.sum() / np.sqrt(domain.size * spread.sum()), rel=1e-9)
    assert plan.bound * (1 - 1e-9) <= plan.error <= plan.bound * 1.001


@pytest.mark.slow
def test_a_hundred_columns_need_no_universe():
    sets = [s for k in (1, 2, 3) for s in combinations(range(100), k)]
    plan = ResidualPlan.choose(Domain.coded({f"a{i}": 10 for i in range(100)}), sets)
    assert plan.bound == pytest.approx(303.2, abs=0.05)
    assert plan.error <= 1.0001 * plan.bound


@given(worlds(), st.sampled_from(["total", "largest"]), st.sampled_from(BOTH))
@settings(max_examples=30)
def test_predicted_variances_are_those_of_generalised_least_squares(world, objective, relation):
    domain, sets = world
    if relation is SWAP and all(domain.cells(s) == 1 for s in sets):
        return
    plan = ResidualPlan.choose(domain, sets, objective=objective, neighbours=relation)
    rows = full_matrix(plan.workload)
    noise = float(plan.workload.moved(2, replace=relation is SWAP))
    # Where the number of records is public, only what sums to zero is unknown.
    unknown = np.eye(domain.size) - (1 / domain.size if relation is SWAP else 0)
    information = unknown @ (rows.T @ rows / noise) @ unknown
    asked = cells_of(domain, sets)
    want = full_matrix(asked)
    dense = ((want @ np.linalg.pinv(information, rcond=1e-10, hermitian=True)) * want).sum(axis=1)
    got = np.concatenate([query_variances(domain.shape, g, plan.variances) for g in asked.groups])
    np.testing.assert_allclose(got, dense, rtol=1e-5, atol=1e-5)
    mean = dense.max() if objective == "largest" else dense.mean()
    assert plan.error == pytest.approx(np.sqrt(mean), rel=1e-5, abs=1e-4)


@pytest.mark.slow  # for want of the solver elsewhere
def test_the_least_largest_variance_against_a_convex_solver():
    cvxpy = pytest.importorskip("cvxpy")
    domain = coded(2, 5, 3, 7, 4)
    sets = [s for k in (1, 2, 3) for s in combinations(range(5), k)][::2]
    weights = np.linspace(0.3, 2, len(sets))
    plan = ResidualPlan.choose(domain, sets, weights=weights.tolist(), objective="largest")
    below = sorted({s for a in sets for k in range(len(a) + 1) for s in combinations(a, k)})
    s = cvxpy.Variable(len(below), pos=True)
    norms = np.array([np.prod([1 - 1 / domain.shape[a] for a in t]) for t in below])
    unit = [[cell_variance(domain.shape, a, {t: float(t == u) for t in below}) for u in below] for a in sets]
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.max(cvxpy.multiply(weights, np.array(unit) @ s))), [norms @ cvxpy.inv_pos(s) <= 1]
    )
    best = np.sqrt(problem.solve(solver="CLARABEL"))
    assert plan.bound <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= plan.error <= plan.bound * 1.001
    assert plan.error < 0.95 * np.sqrt(
        max(
            w * cell_variance(domain.shape, a, ResidualPlan.choose(domain, sets).variances)
            for w, a in zip(weights, sets, strict=True)
        )
    )


def test_what_is_not_expected_to_show_leaves_its_privacy_to_the_rest():
    domain, sets = coded(*(2,) * 8), list(combinations(range(8), 3))
    plain = ResidualPlan.choose(domain, sets)
    expected = {0: np.inf, 1: np.inf, 2: np.inf, 3: 1e-9}
    tilted = ResidualPlan.choose(domain, sets, expected=lambda s: expected[len(s)])
    assert 20 < tilted.variances[(0, 1, 2)] / plain.variances[(0, 1, 2)] < 25  # a twentieth of its part, or a bit less
    for s in ((0,), (0, 1)):
        assert tilted.variances[s] < 0.9 * plain.variances[s]
    assert tilted.variances[()] / tilted.variances[(0,)] == pytest.approx(
        plain.variances[()] / plain.variances[(0,)] / np.sqrt(2), rel=1e-3
    )
    assert sum(p / tilted.variances[s] for s, p in norms(domain, tilted)) == pytest.approx(1)
    assert tilted.error > 1.01 * tilted.bound == 1.01 * plain.bound


def test_the_level_of_the_water_is_the_best():
    """Moving privacy between two sets whose residuals are expected makes the expected error no smaller."""
    domain, sets = coded(2, 3, 4), [(0, 1), (1, 2)]
    prior = {(): np.inf, (0,): 30.0, (1,): 20.0, (2,): 90.0, (0, 1): 9.0, (1, 2): 7.0}
    plan = ResidualPlan.choose(domain, sets, expected=prior.__getitem__)
    weight = {s: {0: 4.0, 1: 2.0}.get(len(s), 1.0) * load(domain, sets, s) for s in prior}
    rates = {s: 1 / v for s, v in plan.variances.items()}

    def error(rates):
        return sum(weight[s] / (rates[s] + 1 / prior[s]) for s in prior)

    cost = dict(norms(domain, plan))
    for a, b in combinations(prior, 2):
        moved = rates | {a: rates[a] + 0.01 / cost[a], b: rates[b] - 0.01 / cost[b]}
        back = rates | {a: rates[a] - 0.01 / cost[a], b: rates[b] + 0.01 / cost[b]}
        assert error(rates) <= min(error(moved), error(back)) * (1 + 1e-6)


def norms(domain, plan):
    """pₛ of each set of a plan."""
    return [(s, float(np.prod([1 - 1 / domain.shape[a] for a in s]))) for s in plan.variances]


def load(domain, sets, s):
    """cₛ, from its definition."""
    n = domain.shape
    return sum(
        np.prod([n[a] for a in t]) * np.prod([(n[a] - 1) / n[a] if a in s else 1 / n[a] ** 2 for a in t])
        for t in sets
        if set(s) <= set(t)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sets": [(1, 0)]}, "distinct columns in the domain's order"),
        ({"sets": [(0, 0)]}, "distinct columns"),
        ({"sets": [(0, 3)]}, "distinct columns"),
        ({"sets": [(0,), (0,)]}, "named twice"),
        ({"sets": []}, "one must be positive"),
        ({"weights": [1.0]}, "2 marginals need as many weights, got 1"),
        ({"weights": [1.0, -1e-9]}, "must not be negative"),
        ({"weights": [0, 0]}, "one must be positive"),
        ({"weights": [1, float("nan")]}, "a weight must be finite"),
        ({"weights": [1, "2"]}, "a weight must be a number"),
        ({"objective": "least"}, "'total' or 'largest'"),
        ({"objective": "largest", "expected": lambda s: 1.0}, "for the least total"),
        ({"sets": [()], "neighbours": SWAP}, "nothing to measure"),
    ],
)
def test_plans_that_are_refused(arguments, message):
    arguments = {"sets": [(0, 1), (2,)], **arguments}
    with pytest.raises(InvalidInput, match=message):
        ResidualPlan.choose(coded(2, 3, 4), **arguments)


def test_a_marginal_on_too_many_columns():
    with pytest.raises(TooLarge, match="too many subsets"):
        ResidualPlan.choose(coded(*(2,) * 26), [tuple(range(26))])


def test_a_weight_of_nothing_leaves_a_marginal_out():
    domain = coded(2, 3, 4)
    assert ResidualPlan.choose(domain, [(0, 1), (1, 2)], weights=[0, 3]).variances.keys() == {(), (1,), (2,), (1, 2)}


# --- estimates ---------------------------------------------------------------------------------------------------


@given(worlds(), st.sampled_from(BOTH))
@PROPERTY
def test_without_noise_the_estimates_are_the_truth(world, relation):
    domain, sets = world
    if relation is SWAP and all(domain.cells(s) == 1 for s in sets):
        return
    table = random_table(domain, 50, 1)
    plan = ResidualPlan.choose(domain, sets, neighbours=relation)
    found = measured(plan, table, ApproxDP(700.0, 0.5), relation, 3)
    asked = cells_of(domain, sets)
    np.testing.assert_allclose(found.answer(asked)[0], true_answers(asked, table), atol=1.5)
    for residual in found.residuals.values():
        for axis in range(residual.values.ndim):
            np.testing.assert_allclose(residual.values.sum(axis=axis), 0, atol=1e-6)


@pytest.mark.parametrize("relation", BOTH)
def test_queries_of_every_kind_have_the_variance_of_their_vector(relation):
    asked = mixed() + Workload.boxes(PEOPLE, ["age", "grade"])
    domain = PEOPLE
    plan = ResidualPlan.choose(domain, asked.sets, neighbours=relation)
    rows = full_matrix(asked)
    covariance = np.zeros((domain.size, domain.size))  # of the universe, were all of it estimated
    for s, variance in plan.variances.items():
        part = np.ones((1, 1))
        for a, n in enumerate(domain.shape):
            part = np.kron(part, np.eye(n) - 1 / n if a in s else np.full((n, n), 1 / n))
        spread = np.prod([n for a, n in enumerate(domain.shape) if a not in s])
        covariance += variance * part / spread
    got = np.concatenate([query_variances(domain.shape, g, plan.variances) for g in asked.groups])
    np.testing.assert_allclose(got, ((rows @ covariance) * rows).sum(axis=1), rtol=1e-9, atol=1e-9)
    table = random_table(domain, 400, 2)
    found = measured(plan, table, ApproxDP(300.0, 1e-2), relation, 5)
    values, variances = found.answer(asked)
    assert (np.abs(values - true_answers(asked, table)) <= 5 * np.sqrt(variances) + 1e-6).all()


@pytest.mark.parametrize(
    ("cost", "sigma"),
    [(ApproxDP(1.0, 1e-9), analytic_gaussian_sigma(1, 1.0, 1e-9)), (ZCDP(0.02), 5.0), (ApproxDP(20.0, 1e-6), None)],
)
@pytest.mark.parametrize("relation", BOTH)
def test_drawn_errors_are_as_large_as_predicted(relation, cost, sigma):
    domain = coded(2, 3, 1, 4, 2)
    sets = [s for k in (1, 2, 3) for s in combinations(range(5), k)]
    asked, table = cells_of(domain, sets), random_table(domain, 500, 1)
    truth = true_answers(asked, table)
    plan = ResidualPlan.choose(domain, sets, neighbours=relation)
    runs = [measured(plan, table, cost, relation, seed).answer(asked) for seed in range(150)]
    errors, variances = np.array([v - truth for v, _ in runs]), runs[0][1]
    whole = np.mean(errors**2)
    assert np.sqrt(whole / variances.mean()) == pytest.approx(1, abs=0.02)
    drawn = variances > 0  # the number of records is public under replace-one
    assert drawn.all() == (relation is ADD)
    np.testing.assert_allclose(errors[:, ~drawn], 0, atol=1e-9)
    by_query = (errors**2).mean(axis=0)[drawn] / variances[drawn]
    assert by_query.min() > 0.6
    assert by_query.max() < 1.5
    inside = np.abs(errors)[:, drawn] <= 1.959964 * np.sqrt(variances[drawn])
    assert inside.mean() == pytest.approx(0.95, abs=0.01)
    if sigma:
        assert np.sqrt(variances.mean()) == pytest.approx(plan.error * sigma, rel=1e-5)


def test_measuring_again_averages_by_precision():
    domain, table = coded(2, 3), random_table(coded(2, 3), 100, 1)
    plan, again = ResidualPlan.choose(domain, [(0, 1)]), ResidualPlan.choose(domain, [(0,)])
    door = private(table, ApproxDP(4.0, 1e-5))
    first = door.measure(plan.workload, ApproxDP(1.0, 1e-6))
    second = door.measure(again.workload, ApproxDP(3.0, 1e-6))
    one, two, both = (Estimates.of(domain, m) for m in (first, second, [*first, *second]))
    for s in ((), (0,)):
        weights = 1 / one.residuals[s].variance, 1 / two.residuals[s].variance
        assert both.residuals[s].variance == pytest.approx(1 / sum(weights))
        mean = np.average([one.residuals[s].values, two.residuals[s].values], axis=0, weights=weights)
        np.testing.assert_allclose(both.residuals[s].values, mean)
    assert both.residuals[(0, 1)].variance == one.residuals[(0, 1)].variance


def test_what_the_estimates_do_not_give():
    domain = coded(2, 3, 4)
    found = measured(ResidualPlan.choose(domain, [(0, 1), (2,)]), random_table(domain, 20, 1), COST, ADD, 1)
    assert found.gives((1,))
    assert not found.gives((1, 2))
    with pytest.raises(InvalidInput, match="no released marginal contains the columns b, c"):
        found.marginal((1, 2))
    with pytest.raises(InvalidInput, match="over another domain"):
        found.answer(Workload.marginals(coded(2, 3), 1))
    with pytest.raises(InvalidInput, match="residuals or whole marginals are needed, got queries of type 'ranges'"):
        door = private(random_table(domain, 20, 1), COST)
        Estimates.of(domain, door.measure(Workload.ranges(domain, "c"), COST))


# --- privacy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", [ApproxDP(0.3, 1e-9), ZCDP(0.1)])
def test_the_noise_pays_for_all_sets_together_exactly(cost, relation):
    domain = coded(2, 3, 4)
    plan = ResidualPlan.choose(domain, [(0, 1), (1, 2)], neighbours=relation)
    squares = moved(full_matrix(plan.workload).astype(np.int64), 2, relation)
    _, variance = noise_for(plan.workload, cost, relation)
    if isinstance(cost, ZCDP):
        assert squares / (2 * variance) <= cost.rho
    else:
        assert variance >= squares * analytic_gaussian_sigma(1, cost.epsilon, cost.delta) ** 2 * (1 - 1e-15)
    door = private(random_table(domain, 10, 1), cost, relation)
    door.measure(plan.workload, cost)
    assert [s.cost for s in door.spends] == [cost]


class RoundedDown(Residuals):
    """A frame whose squared norm, and distance of two columns, is one too small."""

    def sensitivity(self, order, *, replace):
        return super().sensitivity(order, replace=replace) - 1

    def replaced(self, apart):
        return super().replaced(apart) - 1


@pytest.mark.parametrize("relation", BOTH)
def test_a_norm_rounded_down_is_convicted(relation):
    domain = coded(2, 3)
    plan = [((), 3), ((0,), 5), ((1,), 4), ((0, 1), 2)][relation is SWAP :]
    table = random_table(domain, 4, 1)

    def found(last):
        families = [(last if len(s) == 2 else Residuals)(tuple(domain.shape[a] for a in s), m) for s, m in plan]
        workload = Workload(domain, tuple(Group(s, f) for (s, _), f in zip(plan, families, strict=True)))

        def run(records, entropy):
            return np.concatenate([m.values for m in private(records, COST, relation, entropy).measure(workload, COST)])

        declared = workload.moved(2, replace=relation is SWAP)
        return audit_sensitivity(run, table_pairs(table, relation), np.sqrt(declared), order=2)

    right = found(Residuals)
    assert not right.convicted
    assert right.found == pytest.approx(right.declared, rel=1e-12)
    assert found(RoundedDown).convicted


@pytest.fixture
def _listed(monkeypatch):
    """Noise takes every value in turn."""
    listed(monkeypatch)


@pytest.mark.usefixtures("_listed")
@pytest.mark.parametrize("relation", BOTH)
def test_a_measurement_spends_exactly_its_cost(relation):
    domain, cost = coded(2), ZCDP(2.0)
    groups = (Group((), Residuals(())), Group((0,), Residuals((2,))))[relation is SWAP :]
    workload = Workload(domain, groups)
    table = random_table(domain, 2, 1)

    def run(records, source, *, parts):
        found = [m for part in parts for m in private(records, cost, relation, source).measure(part, cost)]
        return tuple(np.concatenate([m.values for m in found]).tolist())

    def audits(parts):
        for pair in table_pairs(table, relation):
            yield compare(*(enumerated(partial(run, parts=parts), side, least=1e-9) for side in pair), cost)

    right = list(audits([workload]))
    assert not any(found.convicted for found in right)
    assert max(found.bound for found in right) > 0.7 * cost.rho
    if relation is ADD:  # each set measured at the whole cost
        assert any(found.convicted for found in audits([Workload(domain, (g,)) for g in groups]))


# --- large noise -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("rho", [1e-6, 1e-9, 1e-11])
def test_the_grid_is_only_as_fine_as_the_sampler_can_draw_noise_on_it(rho, relation):
    """What is fine in counts is large in units: noise of a few thousand counts on a large marginal was refused."""
    domain, sets, deviation = coded(32, 42, 32), [(0, 1, 2)], (2 * rho) ** -0.5
    fine = ResidualPlan.choose(domain, sets, neighbours=relation)
    plan = ResidualPlan.choose(domain, sets, neighbours=relation, deviation=deviation)
    law, _ = noise_for(plan.workload, ZCDP(rho), relation)
    for group in plan.workload.groups:  # each cell has the noise that the plan says, and hardly another
        drawn = law.variance / group.queries.multiple**2
        assert drawn == pytest.approx(plan.variances[group.axes] * deviation**2, rel=1e-9)
        assert plan.variances[group.axes] == pytest.approx(fine.variances[group.axes], rel=0.05)
    within = fine.workload.moved(2, replace=relation is SWAP) * deviation**2 <= 2**80
    assert (plan.workload == fine.workload) == within
    assert within == (rho == 1e-6)


@pytest.mark.parametrize("relation", BOTH)
def test_noise_on_a_coarse_grid_is_drawn_and_the_estimates_are_as_far_off_as_it_says(relation):
    domain, cost = coded(30, 40), ZCDP(1e-14)
    plan = ResidualPlan.choose(domain, [(0, 1)], neighbours=relation, deviation=(2 * cost.rho) ** -0.5)
    assert plan.workload != ResidualPlan.choose(domain, [(0, 1)], neighbours=relation).workload
    table = random_table(domain, 500, 0)
    truth = true_answers(cells_of(domain, [(0, 1)]), table).reshape(30, 40)
    off = measured(plan, table, cost, relation, 1).marginal((0, 1))[0] - truth
    predicted = cell_variance(domain.shape, (0, 1), plan.variances) / (2 * cost.rho)
    assert np.mean(off**2) == pytest.approx(predicted, rel=0.2)  # of 1 200 cells


def test_of_what_was_measured_before_that_is_fitted_which_has_all_residuals_below_it():
    domain, noise = coded(2, 3, 4, 1), Noise("discrete Gaussian", 1.0)

    def residual(*axes):
        queries = Residuals(tuple(domain.shape[a] for a in axes))
        return Measurement(Group(axes, queries), np.zeros(queries.count), noise)

    def table(*axes):
        return Measurement(Group(axes, Cells(domain.cells(axes))), np.zeros(domain.cells(axes)), noise)

    pair, triple, alone, whole = residual(0, 1), residual(0, 1, 2), residual(2), table(1, 2)
    own = [(), (0,), (1,)]
    assert fitting(domain, own, [triple, pair], lambda _: True) == (pair,)
    assert fitting(domain, own, [triple, alone, pair], lambda _: True) == (alone, pair)
    others = [whole, triple, residual(0, 2), pair]  # a table has all residuals below it
    assert fitting(domain, own, others, lambda _: True) == tuple(others)
    assert fitting(domain, own, others, lambda sets: (0, 1, 2) not in sets) == (whole, *others[2:])
    assert fitting(domain, own, [whole, pair], lambda sets: len(sets) < 4) == (pair,)
    assert fitting(domain, [()], [pair], lambda _: True) == ()
