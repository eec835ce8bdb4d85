"""Marginals under pure ε: what one record moves, what the measurements say, and that the shares are the best."""

from itertools import combinations

import numpy as np
import pytest
from worlds import BOTH, coded, private, random_table, table_of

from qrelease.errors import InvalidInput
from qrelease.inference.measurement import noise_for
from qrelease.inference.pure_plan import PurePlan
from qrelease.inference.residuals import Estimates
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load

ADD, SWAP = BOTH
DOMAIN = coded(2, 3, 2)
PAIRS = Workload.marginals(DOMAIN, 2)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("which", [0, 1], ids=["contrasts", "whole"])
def test_the_parts_are_the_cost_and_each_is_measured_at_its_sensitivity(neighbours, which):
    plan = PurePlan.choose(DOMAIN, PAIRS.sets, PureDP(1.5), neighbours)[which]
    assert sum(cost.epsilon for _, cost in plan.parts) == pytest.approx(1.5)
    assert sum(cost.epsilon for _, cost in plan.parts) <= 1.5
    for part, cost in plan.parts:
        moved = len(part.groups) * (2 if neighbours is SWAP else 1)
        assert float(noise_for(part, cost, neighbours)[1]) == pytest.approx(moved / cost.epsilon)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("which", [0, 1], ids=["contrasts", "whole"])
def test_estimates_are_unbiased_and_vary_as_planned(neighbours, which):
    table, cost, runs = random_table(DOMAIN, 50, 0), PureDP(2.0), 300
    plan = PurePlan.choose(DOMAIN, PAIRS.sets, cost, neighbours)[which]
    found = []
    for seed in range(runs):
        door = private(table, cost, neighbours, Entropy.insecure(seed))
        measured = [m for part, price in plan.parts for m in door.measure(part, price)]
        estimates = Estimates.of(DOMAIN, measured, 50.0 if neighbours is SWAP else None)
        assert estimates.variances == pytest.approx(plan.variances)
        found.append(estimates.answer(PAIRS)[0])
    told = estimates.answer(PAIRS)[1]
    truth = np.concatenate([c.reshape(-1) for c in table.counts(PAIRS.sets)])
    off = np.array(found) - truth
    assert (np.abs(off.mean(axis=0)) < 5 * np.sqrt(told / runs)).all()
    assert (off**2).mean() / told.mean() == pytest.approx(1, abs=0.12)
    assert plan.error == pytest.approx(np.sqrt(told.mean()))


def test_no_other_division_has_less_error():
    """Over columns of two cells, whose contrasts say nothing of each other; shares are those of the proof on a grid."""
    domain = coded(2, 2, 2, 2)
    asked, rng = Workload.marginals(domain, 3), np.random.default_rng(0)
    plan = PurePlan.choose(domain, asked.sets, PureDP(1.0), ADD)[0]
    sets = [s for k in range(4) for s in combinations(range(4), k)]
    squares = [plan.variances[s] for s in sets]

    def total(shares):
        kappa = np.array([2.0 ** -len(s) for s in sets])
        load = np.array([sum(set(s) <= set(a) for a in asked.sets) * 2.0 ** len(s) / 8 for s in sets])  # cₛ
        return (load * 2 * kappa / shares**2).sum()

    mine = np.sqrt(2 * np.array([2.0 ** -len(s) for s in sets]) / squares)
    assert mine.sum() == pytest.approx(1, rel=0.02)
    for _ in range(200):
        other = mine * np.exp(rng.normal(size=len(mine)) * 0.3)
        assert total(other / other.sum()) > total(mine / mine.sum()) * 0.99


def test_there_is_nothing_to_measure_of_one_cell():
    with pytest.raises(InvalidInput, match="the number of records is public"):
        PurePlan.choose(coded(1), [(0,)], PureDP(1.0), SWAP)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("records", [0, 1, 300])
def test_releases_under_pure_epsilon_come_back(neighbours, records, tmp_path):
    table = random_table(DOMAIN, records, 0) if records else table_of(DOMAIN, np.zeros((0, 3), np.uint8))
    cost = PureDP(1.0)
    with Ledger.open(None, cost, neighbours=neighbours) as ledger:
        made = Curator(table, ledger, Entropy.insecure(0)).release(MaxEnt(), PAIRS, cost)
    made.save(tmp_path / "out")
    again = load(tmp_path / "out")
    np.testing.assert_allclose(again.answers(), made.answers(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.error_bars(), made.error_bars(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.model_bars(), made.model_bars(), rtol=1e-3)
    assert {type(s.cost) for s in made.spends} == {PureDP}
    assert sum(s.cost.epsilon for s in made.spends) == pytest.approx(1.0)


def test_few_marginals_are_measured_whole_and_many_by_contrasts():
    one = Workload.marginals(coded(8), 1)
    many = Workload.marginals(coded(*[2] * 10), 3)
    for asked, kinds in ((one, {"cells"}), (many, {"cells", "product"})):
        plan = MaxEnt().plan(asked, PureDP(1.0), ADD, 5_000.0)
        assert {g.queries.to_json()["type"] for part, _ in plan.parts for g in part.groups} == kinds


@pytest.mark.parametrize("neighbours", Neighbours)
def test_at_the_same_epsilon_laplace_noise_is_taken_where_it_is_less(neighbours):
    few = MaxEnt().plan(Workload.marginals(coded(4), 1), ApproxDP(1.0, 1e-9), neighbours, 5_000.0)
    many = MaxEnt().plan(Workload.marginals(coded(*[2] * 12), 3), ApproxDP(1.0, 1e-9), neighbours, 5_000.0)
    assert {type(cost) for _, cost in few.parts} == {PureDP}
    assert {type(cost) for _, cost in many.parts} == {ApproxDP}
