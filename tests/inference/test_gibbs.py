"""Gibbs moves over weighted records: the model that they leave and lead to, what is impossible, records as one."""

import numpy as np
import pytest
from fits import SETS, SHAPE, follow, some

from qrelease.data.marginals.record_tables import Tables
from qrelease.data.structural_zeros import masks
from qrelease.inference.gibbs import Chains, GibbsSampler, possible


def histogram(codes):
    return np.bincount(np.ravel_multi_index(tuple(codes.astype(np.int64)), SHAPE), minlength=24)


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


@pytest.mark.parametrize(("columns", "size"), [(20, 3), (14, 2), (8, 12)])
def test_records_are_found_where_many_columns_are_equal(columns, size):
    domain = follow(*[size] * columns, excluded=[f"a = {size - 1}"])
    impossible = masks(domain, domain.impossible)
    found = possible(domain.shape, impossible)
    assert (found == found[0]).all()
    assert set(found[0].tolist()) == set(range(size - 1))
    assert (possible(domain.shape, impossible) == found).all()
