"""Weighted records, their tables and Gibbs moves, the fit, and the mechanism: brute force, known models, refusals."""

import json
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import BOTH, PEOPLE, PROPERTY, coded, full_matrix, mixed, private, random_table, true_answers

from qrelease.data.domain import Domain
from qrelease.data.marginals import record_kernels
from qrelease.data.marginals.record_tables import Tables
from qrelease.data.structural_zeros import masks
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit import audit_sensitivity, table_pairs
from qrelease.inference import dense_fit, maxent
from qrelease.inference.dense_fit import settle
from qrelease.inference.gibbs import Chains, GibbsSampler, possible
from qrelease.inference.interaction_basis import Interactions, singles
from qrelease.inference.log_linear import finish, fit
from qrelease.inference.measurement import noise_for
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.inference.sampling import systematic
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.record_plan import agreements
from qrelease.mechanisms.weighted_records import Records
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group, Workload, signs_replaced
from qrelease.release.curator import Curator

ADD, SWAP = BOTH
COST = ApproxDP(1.0, 1e-6)
SHAPE = (3, 2, 4)
SETS = [(0,), (2,), (0, 1), (1, 2), (0, 1, 2)]


def some(seed, count=40, shape=SHAPE):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(n, size=count) for n in shape]).astype(np.uint16)
    return codes, rng.dirichlet(np.ones(count)), rng


# --- tables


@given(st.integers(0, 2**32))
@PROPERTY
def test_marginals_and_their_adjoint(seed):
    codes, weights, rng = some(seed)
    tables = Tables(SHAPE, SETS)
    expected = []
    for s in SETS:
        table = np.zeros([SHAPE[a] for a in s])
        np.add.at(table, tuple(codes[a] for a in s), weights)
        expected.append(table.reshape(-1))
    found = tables.marginals(codes, weights)
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-12)
    values = rng.normal(size=len(found))
    np.testing.assert_allclose(tables.sums(codes, values) @ weights, values @ found, atol=1e-10)


def test_no_order_of_the_records_changes_a_marginal():
    codes, weights, rng = some(1, 9_000)
    tables, other = Tables(SHAPE, SETS), rng.permutation(9_000)
    assert (tables.marginals(codes, weights) == tables.marginals(codes[:, other], weights[other])).all()


def sampler(tables, values, linked=(), impossible=None):
    parts = np.split(values, tables.offsets[1:-1])
    return GibbsSampler(tables.shape, [*zip(tables.sets, parts, strict=True)], impossible or {}, linked)


def log_linear(seed, scale=1.0):
    """Tables of some sets, and the distribution (3, 2, 4) that they make."""
    rng = np.random.default_rng(seed)
    tables = Tables(SHAPE, SETS)
    values = scale * rng.normal(size=tables.offsets[-1])
    cells = np.indices(SHAPE).reshape(3, -1)
    chances = np.exp(tables.sums(cells.astype(np.uint16), values))
    return tables, values, chances / chances.sum()


def histogram(codes):
    return np.bincount(np.ravel_multi_index(tuple(codes.astype(np.int64)), SHAPE), minlength=24)


@pytest.mark.parametrize("scale", [0.0, 1.0])
@pytest.mark.parametrize("linked", [(), ((0, 1),), ((0, 2), (1, 2))])
def test_a_sweep_leaves_the_model_and_leads_to_it(scale, linked):
    tables, values, chances = log_linear(3, scale)
    moves = sampler(tables, values, linked)
    rng = np.random.default_rng(0)
    count = 60_000
    drawn = np.stack(np.unravel_index(rng.choice(24, count, p=chances), SHAPE)).astype(np.uint16)
    far = np.zeros((3, count), np.uint16)
    for codes, sweeps in ((drawn, 1), (far, 40)):
        before = codes.copy()
        for _ in range(sweeps):
            moves.sweep(codes, rng)
        assert (codes != before).mean() > 0.2
        chi = ((histogram(codes) - count * chances) ** 2 / (count * chances)).sum()
        assert chi < 60  # 23 degrees of freedom; a model off by 30 % in one cell of 24 gives above 200


@pytest.mark.parametrize("linked", [(), ((0, 1), (1, 2))])
def test_impossible_cells_are_never_drawn(linked):
    tables, values, chances = log_linear(4)
    blocked = np.arange(24) % 3 == 1
    values[tables.offsets[4] :][blocked] = -np.inf
    rng = np.random.default_rng(1)
    codes = np.zeros((3, 20_000), np.uint16)
    for _ in range(20):
        sampler(tables, values, linked).sweep(codes, rng)
    found = histogram(codes)
    assert not found[blocked].any()
    expected = 20_000 * chances[~blocked] / chances[~blocked].sum()
    assert ((found[~blocked] - expected) ** 2 / expected).sum() < 50


def test_a_record_without_another_choice_stays_what_it_is():
    tables = Tables((3, 4), [(0, 1)])
    codes = np.stack([np.arange(60) % 3, np.arange(60) % 4]).astype(np.uint16)
    before = codes.copy()
    sampler(tables, np.full(12, -np.inf), [(0, 1)]).sweep(codes, np.random.default_rng(0))
    assert (codes == before).all()


def test_columns_that_say_the_same_are_left_together():
    """Drawn one at a time, neither of two equal columns could ever change."""
    same, rng = np.where(np.eye(8, dtype=bool), 0.0, -30.0).reshape(-1), np.random.default_rng(0)
    for linked, cells in (((), 1), (((0, 1),), 8)):
        codes = np.zeros((2, 2_000), np.uint16)
        for _ in range(5):
            GibbsSampler((8, 8), [((0, 1), same)], {}, linked).sweep(codes, rng)
        assert (codes[0] == codes[1]).all()
        assert len(np.unique(codes[0])) == cells


def test_what_rounding_leaves_draws_no_impossible_cell():
    seed, none = np.uint64(0x31628AF67B2131AB), np.empty(0, np.int64)
    assert np.float32(record_kernels._uniform(seed, 0)) == 1
    codes, logs = np.zeros((1, 1), np.uint16), np.array([0, 0, -np.inf, -np.inf], np.float32)
    record_kernels.redraw(codes, 0, 4, none, none, np.zeros(2, np.int64), np.zeros(1, np.int64), logs, 0, 1, seed)
    assert codes.item() == 1


def test_systematic_rounding():
    weights = np.random.default_rng(0).dirichlet(np.ones(50))
    found = np.bincount(systematic(weights, 1_000, np.random.default_rng(1)), minlength=50)
    assert found.sum() == 1_000
    assert (np.abs(found - 1_000 * weights) < 1).all()


# --- the synopsis


def weighted(seed, total=30.0):
    codes, weights, _ = some(seed, 7, PEOPLE.shape)
    return WeightedCodes(PEOPLE, codes, weights, total)


def test_answers_are_those_of_its_histogram():
    made = weighted(5)
    cells = np.ravel_multi_index(tuple(made.codes.astype(np.int64)), PEOPLE.shape)
    expected = full_matrix(mixed()) @ np.bincount(cells, made.weights * made.total, 24)
    np.testing.assert_allclose(made.answer(mixed()), expected, atol=1e-9)


def test_rows_scatter_less_than_independent_ones():
    rng = np.random.default_rng(3)
    domain = coded(4, 3, 5, 2)
    table = random_table(domain, 20_000, 4)
    codes = np.stack([np.asarray(column) for column in table.columns]).astype(np.uint16)
    made = WeightedCodes(domain, codes, rng.dirichlet(np.full(20_000, 5.0)), 1.0)
    asked = Workload.marginals(domain, 2)
    expected = made.answer(asked)

    def error(columns):
        counts = true_answers(asked, Table(domain, tuple(columns)))
        return ((counts / 500 - expected) ** 2).sum()

    ours = [error(made.sample(500, rng)) for _ in range(30)]
    which = [rng.choice(20_000, 500, p=made.weights) for _ in range(30)]
    independent = [error([column[w].astype(np.int64) for column in codes]) for w in which]
    assert np.mean(ours) < 0.8 * np.mean(independent)


def test_a_universe_beyond_any_number():
    domain = Domain.coded({f"c{i}": 181 for i in range(35)})  # 2^262
    codes = np.random.default_rng(0).integers(181, size=(35, 100)).astype(np.uint16)
    made = WeightedCodes(domain, codes, np.full(100, 0.01), 100.0)
    asked = Workload.marginals(domain, [["c0", "c34"], ["c1", "c2", "c3"]])
    assert made.answer(asked).sum() == pytest.approx(200)
    again = WeightedCodes.from_json(domain, json.loads(json.dumps(made.to_json())), ())
    assert (again.answer(asked) == made.answer(asked)).all()
    assert sorted(made.sample(100, np.random.default_rng(1))[7]) == sorted(codes[7])


@pytest.mark.parametrize(
    ("codes", "weights", "why"),
    [
        (np.zeros((3, 0)), [], "one weight each"),
        (np.zeros((3, 2)), [1.0], "one weight each"),
        (np.zeros((2, 1)), [1.0], "3 codes"),
        (np.full((3, 1), 9), [1.0], "below its column's size"),
        (np.zeros((3, 2)), [1.5, -0.5], "must not be negative"),
        (np.zeros((3, 2)), [0.5, 0.4], "sum to 1"),
    ],
)
def test_records_that_are_none(codes, weights, why):
    with pytest.raises(InvalidInput, match=why):
        WeightedCodes(PEOPLE, codes.astype(np.uint16), np.array(weights), 1.0)


# --- the fit


def estimates_of(table, cost, order=2, seed=0):
    sets = [s for k in range(1, order + 1) for s in combinations(range(len(table.domain)), k)]
    plan = ResidualPlan.choose(table.domain, sets)
    made = private(table, cost, entropy=Entropy.insecure(seed))
    return Estimates.of(table.domain, made.measure(plan.workload, cost)), Workload.marginals(table.domain, order)


def answers(fitted, domain, workload):
    return WeightedCodes(domain, fitted.chains.codes, fitted.chains.weights, fitted.total).answer(workload)


def fitted_to(estimates, records, rounds=30, **options):
    """A fit, and its last records."""
    moving = fit(estimates, records // 2, rounds=rounds, rng=np.random.default_rng(0), **options)
    return finish(estimates, records, rng=np.random.default_rng(1), start=moving, **options)


def test_without_noise_the_fit_has_what_was_measured():
    table = random_table(coded(3, 2, 5, 4), 4_000, 2)
    estimates, workload = estimates_of(table, ZCDP(100.0))
    fitted = fitted_to(estimates, 20_000)
    off = np.abs(answers(fitted, table.domain, workload) - true_answers(workload, table))
    assert off.max() < 0.004 * 4_000


def test_of_distributions_with_those_pairs_it_is_the_one_of_largest_entropy():
    table = random_table(coded(3, 2, 3), 4_000, 7)
    estimates, workload = estimates_of(table, ZCDP(100.0))
    p = np.full((3, 2, 3), 1 / 18)  # by iterative proportional fitting (Deming & Stephan 1940)
    tables = np.split(true_answers(workload, table) / 4_000, workload.bounds[1:-1])
    for _ in range(500):
        for axes, q in zip(workload.sets, tables, strict=True):
            (away,) = {0, 1, 2} - set(axes)
            now = p.sum(axis=away, keepdims=True)
            p = p * np.divide(q.reshape(now.shape), now, out=np.zeros_like(now), where=now > 0)
    fitted = fitted_to(estimates, 40_000)
    whole = Workload.marginals(table.domain, 3)
    assert np.abs(answers(fitted, table.domain, whole) / fitted.total - p.reshape(-1)).max() < 0.01


def test_noise_is_not_fitted_and_more_rounds_change_hardly_anything():
    table = random_table(coded(4, 4, 4, 4), 500, 1)
    estimates, workload = estimates_of(table, ZCDP(1e-3))
    true = true_answers(workload, table)
    found = [answers(fitted_to(estimates, 20_000, rounds), table.domain, workload) for rounds in (20, 60)]
    noisy = np.abs(estimates.answer(workload)[0] - true).sum()
    errors = [np.abs(said - true).sum() for said in found]
    assert max(errors) < 0.5 * noisy
    assert errors[1] == pytest.approx(errors[0], rel=0.1)


def test_a_fit_goes_on_where_another_ended():
    table = random_table(coded(3, 2, 3), 2_000, 7)
    first, _ = estimates_of(table, ZCDP(10.0), order=1)
    both, workload = estimates_of(table, ZCDP(10.0))
    begun = fit(first, 10_000, rounds=3, rng=np.random.default_rng(0))
    done = fit(both, 10_000, rounds=20, rng=np.random.default_rng(1), start=begun)
    assert done.rounds == 23
    done = finish(both, 20_000, rng=np.random.default_rng(2), start=done)
    assert np.abs(answers(done, table.domain, workload) - true_answers(workload, table)).max() < 30


def test_the_variance_of_each_coordinate_is_that_of_the_records():
    rng = np.random.default_rng(3)
    columns = [rng.dirichlet(np.ones(n)) for n in SHAPE]
    basis = Interactions([s for k in (1, 2, 3) for s in combinations(range(3), k)], columns)
    tables, cells = Tables(SHAPE, basis.sets), np.indices(SHAPE).reshape(3, -1).astype(np.uint16)
    independent = np.einsum("i,j,k->ijk", *columns).reshape(-1)
    single = [basis.features([*cells])[:, basis.places[a,]] for a in range(3)]
    centred = [f - independent @ f for f in single]
    for chances in (independent, rng.dirichlet(np.ones(24))):
        found = basis.variances(tables.marginals(cells, chances))
        for s in basis.sets:
            functions = reduce(lambda f, g: (f[:, :, None] * g[:, None, :]).reshape(24, -1), [centred[a] for a in s])
            expected = chances @ functions**2 - (chances @ functions) ** 2
            np.testing.assert_allclose(found[basis.places[s]], expected, atol=1e-6)
    np.testing.assert_allclose(basis.variances(tables.marginals(cells, independent)), basis.spectrum, atol=1e-6)


def test_records_that_move_no_more_have_what_was_measured_of_columns_that_say_the_same():
    rng = np.random.default_rng(5)
    a = rng.integers(12, size=4_000)
    b = np.where(rng.random(4_000) < 0.3, a % 5, rng.integers(5, size=4_000))
    table = Table(coded(12, 12, 5, 4), (a, (5 * a) % 12, b, rng.integers(4, size=4_000)))
    estimates, workload = estimates_of(table, ZCDP(100.0))
    true = true_answers(workload, table)
    off = answers(fitted_to(estimates, 10_000), table.domain, workload) - true
    assert np.abs(off).sum() < 0.02 * len(workload.sets) * 4_000


@pytest.mark.parametrize("rho", [0.001, 0.01])
def test_cells_that_are_empty_under_noise_are_found(rho):
    """Of columns that determine each other; what is measured of them has a record in every other cell."""
    a = np.random.default_rng(0).integers(16, size=20_000)
    table = Table(coded(16, 16), (a, (a * 5) % 16))
    estimates, workload = estimates_of(table, ZCDP(rho))
    true = true_answers(workload, table)
    measured = np.maximum(estimates.answer(workload)[0], 0)
    found = answers(fitted_to(estimates, 10_000), table.domain, workload)
    assert found[true == 0].sum() < 0.1 * measured[true == 0].sum()
    assert np.abs(found - true).sum() < 0.5 * np.abs(measured - true).sum()


def agreements_of(table, cost, signs):
    """Residuals of single columns, how often the signs of two agree, and the latter's exact values."""
    domain, made = table.domain, private(table, ZCDP(1_000.0), entropy=Entropy.insecure(0))
    columns = Estimates.of(
        domain, made.measure(ResidualPlan.choose(domain, [(a,) for a in range(len(domain))]).workload, cost)
    )
    asked = agreements(domain, [*combinations(range(len(domain)), 2)], singles(columns))
    exact = np.concatenate([g.queries.apply(table.counts([g.axes])[0].reshape(-1)) for g in asked.groups])
    return columns, made.measure(asked, signs), exact


def signed(chains, domain, measured):
    """What records say of queries on pairs, for one record."""
    tables = Tables(domain.shape, [m.group.axes for m in measured])
    found = np.split(tables.marginals(chains.codes, chains.weights), tables.offsets[1:-1])
    return np.array([m.group.queries.apply(t)[0] for m, t in zip(measured, found, strict=True)])


def test_without_noise_signs_agree_as_often_as_was_measured():
    rng = np.random.default_rng(2)
    a, b = rng.integers(5, size=(2, 4_000))
    c = np.where(rng.random(4_000) < 0.6, a // 2, rng.integers(3, size=4_000))
    columns, measured, exact = agreements_of(Table(coded(5, 5, 3), (a, b, c)), ZCDP(200.0), ZCDP(200.0))
    fitted = fitted_to(columns, 20_000, signs=measured)
    off = np.abs(signed(fitted.chains, columns.domain, measured) - exact / 4_000)
    assert off.max() < 0.005
    assert np.abs(exact).max() > 0.2 * 4_000  # which independent columns would not have
    assert fitted.signs.shape == (3, 4)
    again = fit(columns, 20_000, rounds=1, rng=np.random.default_rng(1), signs=measured, start=fitted)
    assert np.abs(again.signs - fitted.signs).max() < 0.3


def test_noise_on_signs_is_not_fitted():
    codes = np.random.default_rng(4).integers(4, size=(5, 500))
    columns, measured, exact = agreements_of(Table(coded(4, 4, 4, 4, 4), tuple(codes)), ZCDP(10.0), ZCDP(1e-4))
    fitted = fitted_to(columns, 20_000, signs=measured)
    noise = np.array([m.values[0] for m in measured]) - exact
    assert np.abs(500 * signed(fitted.chains, columns.domain, measured) - exact).sum() < 0.5 * np.abs(noise).sum()


def test_equal_records_as_one_stand_for_the_same_and_come_apart_again():
    codes, weights, rng = some(3, count=200)
    drawn = Chains(codes, weights)
    merged = drawn.merged()
    assert len(merged.weights) == len({tuple(record) for record in codes.T.tolist()}) < 25
    tables = Tables(SHAPE, SETS)
    np.testing.assert_allclose(tables.marginals(merged.codes, merged.weights), tables.marginals(codes, weights))
    assert merged.number == drawn.number == 200
    values = rng.normal(size=tables.offsets[-1])
    far, near = (tables.sums(chains.codes, values) for chains in (merged, drawn))
    assert merged.deviation(far) == pytest.approx(drawn.deviation(near)) == pytest.approx(near.std())
    apart = merged.apart()
    assert sorted(apart.codes.T.tolist()) == sorted(codes.T.tolist())
    np.testing.assert_allclose(apart.merged().weights, merged.weights)
    equal = Chains(codes, np.full(200, 1 / 200))
    assert equal.merged().even == pytest.approx(1)
    assert equal.merged().tilted(far).even == pytest.approx(equal.tilted(near).even) != pytest.approx(1)


@pytest.mark.parametrize("rho", [0.1, 10.0])
def test_the_whole_of_j_gives_what_the_histogram_of_maximum_entropy_says(rho):
    table = random_table(coded(4, 4, 4, 4), 500, 1)
    estimates, workload = estimates_of(table, ZCDP(rho), order=3)
    true = true_answers(workload, table)
    histogram = maxent.fit(estimates)[0]
    dense = histogram.answer(workload)
    found = answers(settle(estimates, 20_000, rng=np.random.default_rng(1)), table.domain, workload)
    assert np.abs(found - dense).mean() < 0.15 * np.abs(dense - true).mean()


def test_a_round_without_a_solution_leaves_the_last_one_with_its_records(monkeypatch):
    table = random_table(coded(4, 3, 5), 2_000, 1)
    estimates, _ = estimates_of(table, ZCDP(10.0))
    settled = partial(settle, estimates, 8_000)
    with monkeypatch.context() as patch:
        patch.setattr(maxent, "SOLVER", replace(maxent.SOLVER, solved_rounds=1))
        once = settled(rng=np.random.default_rng(1)).chains
    solve, solved = maxent.solve, []

    def lost(model, newton):
        """Solves once, and then leads the records so far away that they are drawn anew."""
        if solved:
            model.move(model.interactions + 3 * np.random.default_rng(0).normal(size=len(model.target)))
            assert model.chains.even < dense_fit.SETTINGS.worn_evenness
            model.fisher(np.random.default_rng(0))
            return np.inf, model.target
        error, z = solve(model, newton)
        if error <= maxent.CLOSE:
            solved.append(error)
        return error, z

    monkeypatch.setattr(maxent, "solve", lost)
    found = settled(rng=np.random.default_rng(1)).chains
    assert (found.codes == once.codes).all()
    np.testing.assert_allclose(found.weights, once.weights, rtol=1e-9)


def test_where_the_whole_of_j_gives_no_solution_the_fit_does_without(monkeypatch):
    table = random_table(coded(4, 3, 5), 2_000, 1)
    estimates, workload = estimates_of(table, ZCDP(0.02))
    monkeypatch.setattr(dense_fit, "by_evidence", lambda *_: None)
    found = answers(settle(estimates, 8_000, rng=np.random.default_rng(1)), table.domain, workload)
    true, noisy = true_answers(workload, table), estimates.answer(workload)[0]
    assert np.abs(found - true).mean() < 1.2 * np.abs(noisy - true).mean()


# --- the mechanism


@pytest.mark.parametrize(
    ("distribution", "signs"),
    [
        ([0.1, 0.5, 0.4], [-1, 1, -1]),
        ([0.2, 0.2, 0.2, 0.2, 0.2], [1, 1, -1, -1, -1]),
        ([0.3, 0.3, 0.1, 0.3], [1, 1, -1, -1]),
        ([0.5, 0.5], [1, -1]),
        ([0.05, 0.95], [-1, 1]),
    ],
)
def test_signs_tell_the_heaviest_cell_or_the_first_half(distribution, signs):
    (two,) = agreements(coded(len(distribution), 2), [(0, 1)], [np.array(distribution), np.array([0.9, 0.1])]).groups
    assert two.queries.factors[0].rows.tolist() == [signs]
    assert two.queries.adjoint(np.ones(1)).reshape(-1, 2)[:, 0].tolist() == signs


def test_one_record_moves_each_sign_by_one():
    domain = coded(4, 3, 5)
    asked = agreements(domain, [(0, 1), (0, 2), (1, 2)], [np.full(n, 1 / n) for n in domain.shape])
    rows = np.concatenate([full_matrix(Workload(domain, (g,))) for g in asked.groups])
    assert set(np.unique(rows)) == {-1, 1}
    norms = (rows**2).sum(axis=0)
    assert asked.moved(2, replace=False) == norms.max() == 3
    assert asked.moved(2, replace=True) == farthest(rows) == 8


def farthest(rows):
    """The largest squared distance of two columns."""
    return max(((rows - rows[:, [i]]) ** 2).sum(axis=0).max() for i in range(rows.shape[1]))


@pytest.mark.parametrize("sizes", [(2, 3), (2, 2, 3), (3, 2, 2, 3), (2, 2, 2, 3, 2), (2,) * 6])
def test_a_replaced_record_moves_all_pairs_of_signs_as_far_as_is_said(sizes):
    domain, pairs = coded(*sizes), [*combinations(range(len(sizes)), 2)]
    uneven = [np.arange(1, n + 1) / np.arange(1, n + 1).sum() for n in sizes]
    asked = agreements(domain, pairs, uneven)
    rows = {g.axes: full_matrix(Workload(domain, (g,))) for g in asked.groups}
    assert asked.moved(2, replace=True) == farthest(np.concatenate([*rows.values()]))
    rng = np.random.default_rng(0)
    for _ in range(10):  # where some pairs are not there, no more than is said
        some_pairs = [pairs[i] for i in rng.permutation(len(pairs))[: rng.integers(1, len(pairs) + 1)]]
        part = Workload(domain, tuple(g for g in asked.groups if g.axes in some_pairs))
        assert farthest(np.concatenate([rows[s] for s in some_pairs])) <= part.moved(2, replace=True)
        assert part.moved(2, replace=True) <= asked.moved(2, replace=True)


def test_what_is_no_pair_of_signs_is_taken_each_at_its_worst():
    plus, minus, twice = (IntegerRows(np.array([row]), 1.0) for row in ([1, -1], [-1, 1], [2, -2]))
    same, three = (plus, plus), [(0, 1), (1, 2), (0, 2)]

    def moved(sets, *factors):
        groups = tuple(Group(s, Product(f)) for s, f in zip(sets, factors, strict=True))
        return Workload(coded(2, 2, 2), groups).moved(2, replace=True)

    assert moved(three, same, same, same) == 8
    assert moved(three, same, same, (plus, minus)) == 4 + 4 + 4
    assert moved(three, same, same, (plus, twice)) == 4 + 4 + 16
    assert signs_replaced([((0, 1), Product(same))] * 2) is None  # which no workload has


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("halved", [False, True])
def test_signs_move_as_far_as_their_noise_is_made_for_and_half_is_convicted(monkeypatch, relation, halved):
    domain = coded(2, 3, 4)
    asked = agreements(domain, [(0, 1), (0, 2), (1, 2)], [np.full(n, 1 / n) for n in domain.shape])
    if halved:
        whole = Workload.moved
        monkeypatch.setattr(Workload, "moved", lambda w, k, *, replace: max(whole(w, k, replace=replace) // 2**k, 1))
    rng = np.random.default_rng(3)
    pairs = [
        pair
        for size in (1, 5)
        for pair in table_pairs(Table(domain, tuple(rng.integers(0, n, size) for n in domain.shape)), relation)
    ]

    def run(table, entropy):
        made = private(table, ZCDP(0.5), relation, entropy)
        return np.concatenate([m.values for m in made.measure(asked, ZCDP(0.5))])

    variance = float(noise_for(asked, ZCDP(0.5), relation)[1])  # ρ = 1/2: it is the squared sensitivity
    assert audit_sensitivity(run, pairs, variance**0.5, order=2).convicted == halved


def released(table, workload, cost=COST, relation=ADD, seed=0, mechanism=None):
    ledger = Ledger.open(None, cost, neighbours=relation)
    made = mechanism or Records(weighted_records=4_000)
    return Curator(table, ledger, Entropy.insecure(seed)).release(made, workload, cost)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("cost", [ApproxDP(2.0, 1e-6), ZCDP(0.1)])
def test_a_release(relation, at_once, cost):
    table = random_table(coded(4, 3, 1, 5, 2), 3_000, 5)
    workload = Workload.marginals(table.domain, 3)
    release = partial(
        released, table, workload, cost, relation, mechanism=Records(weighted_records=4_000, at_once=at_once)
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
    made = released(table, workload, cost, relation, mechanism=Records(weighted_records=40_000))
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
    assert Records(at_once=False).memory(wide) == Records().memory(wide)
    for refused in (Records(at_once=True), Records(order=2, at_once=True)):
        with pytest.raises(InvalidInput, match="leave at_once out"):
            refused.check(wide, COST, ADD)
    with pytest.raises(InvalidInput, match="at most 2 columns"):
        Records(order=2, at_once=True).check(Workload.marginals(coded(2, 2, 2), 3), COST, ADD)
    Records(at_once=True).check(Workload.marginals(coded(*[2] * 23), 3), COST, ADD)


def test_marginals_that_have_more_structure_are_selected():
    rng = np.random.default_rng(0)
    a, b = rng.integers(5, size=(2, 5_000))
    domain = coded(5, 5, 5)
    asked, mechanism = Workload.marginals(domain, 2), Records(weighted_records=4_000, at_once=False)
    made = released(Table(domain, (a, b, a)), asked, ApproxDP(0.5, 1e-6), mechanism=mechanism)
    assert ["a", "c"] in made.parameters["selected"]


@pytest.mark.parametrize(
    ("domain", "cost", "error", "why"),
    [
        (coded(2, 2), PureDP(1.0), InvalidInput, "delta above 0"),
        (coded(2, 2), ApproxDP(1.0, 0.0), InvalidInput, "delta above 0"),
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
        Curator(table, ledger, Entropy.insecure(0)).release(Records(), Workload.marginals(domain, 2), cost)
    assert [entry.kind for entry in ledger.history()] == ["total"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("order", 1), ("weighted_records", 0), ("weighted_records", 1.5), ("order", True), ("at_once", 1)],
)
def test_parameters_that_are_none(field, value):
    with pytest.raises(InvalidInput, match=field):
        Records(**{field: value})


def test_more_records_than_memory():
    with pytest.raises(TooLarge, match="weighted records"):
        Records(weighted_records=1 << 45).check(Workload.marginals(coded(2, 2), 2), COST, Neighbours.ADD_REMOVE)


def test_what_a_release_takes_is_known_beforehand():
    workload = Workload.marginals(coded(9, 9, 9, 9), 3)
    few, many = Records(weighted_records=1_000), Records(weighted_records=100_000)
    assert few.memory(workload) < many.memory(workload) < 100 << 20
    assert few.seconds(workload, COST, 50_000) < many.seconds(workload, COST, 50_000)
    assert many.seconds(workload, COST, 500) < many.seconds(workload, COST, 50_000)
    assert few.seconds(Workload.marginals(workload.domain, 1), COST, 500) < 10
    wide = Workload.marginals(coded(60_000, 2), 2)  # whose columns have matrices
    assert few.memory(wide) > 200 << 30
    assert few.seconds(wide, COST, 500) > 3600


def test_columns_alone_get_the_whole_budget():
    table = random_table(coded(6, 2), 2_000, 3)
    mechanism = Records(weighted_records=4_000, at_once=False)
    made = released(table, Workload.marginals(table.domain, 1), mechanism=mechanism)
    assert len(made.spends) == 1
    assert made.parameters["selected"] == []
    assert np.abs(made.answers() - true_answers(made.workload, table)).max() < 60


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("at_once", [True, False])
def test_all_that_is_spent_is_within_the_cost(relation, at_once):
    table = random_table(coded(4, 3, 5, 2), 20_000, 5)
    mechanism = Records(weighted_records=4_000, at_once=at_once)
    made = released(table, Workload.marginals(table.domain, 3), ZCDP(0.1), relation, mechanism=mechanism)
    spent = sum(Fraction(s.cost.rho) for s in made.spends)
    assert Fraction(0.0999) < spent <= Fraction(0.1)
    assert at_once or made.parameters["pairs"] > 0


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_impossible_is_in_no_answer_and_in_no_row(at_once):
    rules = ("a = 0 and b = 1", "a in 1..2 and c > 3", "a = 3 and b = 2 and c = 0")
    table = random_table(replace(coded(4, 3, 5), impossible=rules), 2_000, 5)
    workload = Workload.marginals(table.domain, 2)
    mechanism = Records(weighted_records=4_000, at_once=at_once)
    made = released(table, workload, mechanism=mechanism)
    a, b, c = (np.asarray(column) for column in made.codes(1_000_000, np.random.default_rng(0)))
    assert not ((a == 0) & (b == 1)).any()
    assert not (((a == 1) | (a == 2)) & (c == 4)).any()
    assert not ((a == 3) & (b == 2) & (c == 0)).any()
    assert float(made.answer("a = 0 and b = 1")) == 0
    assert made.parameters["impossible"] == "kept"
    assert len(set(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))) > 25


def follow(*sizes, excluded=()):
    """Columns of these sizes, each of whose cells are equal parts of one cell of the column before; and the rules."""
    domain = coded(*sizes)
    rules = [
        f"{fine} = {cell} and not {coarse} = {cell * m // n}"
        for (coarse, m), (fine, n) in pairwise(zip(domain.names, sizes, strict=True))
        for cell in range(n)
    ]
    return replace(domain, impossible=(*rules, *excluded))


def test_columns_that_follow_from_each_other():
    rng, sizes = np.random.default_rng(1), (8, 16, 32, 64)
    cells = rng.choice(64, 20_000, p=rng.dirichlet(np.full(64, 0.7)))
    table = Table(follow(*sizes), tuple(cells * n // 64 for n in sizes))
    workload = Workload.marginals(table.domain, 1)
    made = released(
        table, Workload.marginals(table.domain, 2), ApproxDP(1.0, 1e-9), mechanism=Records(weighted_records=16_384)
    )
    assert all(float(made.answer(rule)) == 0 for rule in table.domain.impossible)
    off = made.synopsis.answer(workload) / made.synopsis.total - true_answers(workload, table) / 20_000
    assert np.abs(off).sum() < 4 * 0.3


@pytest.mark.parametrize(("columns", "size"), [(20, 3), (14, 2), (8, 12)])
def test_records_are_found_where_many_columns_are_equal(columns, size):
    domain = follow(*[size] * columns, excluded=[f"a = {size - 1}"])
    impossible = masks(domain, domain.impossible)
    found = possible(domain.shape, impossible)
    assert (found == found[0]).all()
    assert set(found[0].tolist()) == set(range(size - 1))
    assert (possible(domain.shape, impossible) == found).all()


@pytest.mark.parametrize("at_once", [True, False])
def test_what_was_charged_is_released_however_few_records_look_for_a_possible_one(at_once):
    domain = follow(*[3] * 20, excluded=["a = 2"])
    column = np.arange(1_000) % 2
    for seed in range(3):
        mechanism = Records(weighted_records=1, at_once=at_once)
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
        Records().check(Workload.marginals(replace(coded(2, 2), impossible=impossible), 2), COST, ADD)
