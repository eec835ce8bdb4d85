"""Plans of sums: the closed form against a convex solver and a bound, shares that no record can overdraw."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from qrelease.data.domain import Attribute, Domain
from qrelease.errors import InvalidInput
from qrelease.inference.sums_plan import PlannedTable, SumsPlan, bought, privacy_used
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.measures import Measure, needs_by_cells, needs_of
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Group

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
DOMAIN = Domain(
    (
        Attribute("a", "coded", codes=4, ordered=True),
        Attribute("b", "coded", codes=3, ordered=True),
        Attribute("x", "coded", codes=50, ordered=True, missing=("",)),
    )
)
QUESTIONS = ["mean:x by a*b", "sum:x by a", "variance:x by b", "ratio:a >= 2 by b", "count by a", "histogram:a by b"]
COSTS = [ZCDP(0.5), ApproxDP(1.0, 1e-6), PureDP(1.0)]


def needs(*texts):
    return [needs_of(NumericQuestion.parse(DOMAIN, text), {}) for text in texts]


def test_one_mean_without_groups_is_the_closed_form():
    """Loads 1/12, 1/12 and 1 on three numbers: shares as their roots, and the ratio 1 of what is measured alone."""
    plan = SumsPlan.choose(DOMAIN, needs("mean:x"), ZCDP(0.5), ADD)
    count, present, total = (p.share / 2**40 for p in plan.parts)
    assert count == present
    assert count / total == pytest.approx(12**-0.5, rel=1e-6)
    assert count + present + total == pytest.approx(1, rel=1e-6)
    assert plan.ratios == (pytest.approx(1, rel=1e-6),)


def _error(shares, loads, sizes):
    return float((loads * sizes / shares).sum())


def test_against_a_convex_solver():
    """The least total of two questions on one table is what a solver finds over all shares."""
    asked = needs("mean:x by a", "sum:x by a*b")
    plan = SumsPlan.choose(DOMAIN, asked, ZCDP(0.5), ADD)
    sizes, loads = [], []
    alone = [SumsPlan.choose(DOMAIN, [one], ZCDP(0.5), ADD) for one in asked]
    for part in plan.parts:
        n = [DOMAIN.shape[a] for a in part.group.axes]
        sizes.append(np.prod([1 - 1 / k for k in n]))
        load = 0.0
        for one, best in zip(asked, alone, strict=True):
            weight = dict(one.weights)[part.measure]
            if set(part.group.axes) <= set(one.axes):
                outside = [DOMAIN.shape[a] for a in one.axes if a not in part.group.axes]
                v = np.prod([(k - 1) / k for k in n]) / np.prod(np.array(outside, float) ** 2)
                least = _least(best, one)
                load += weight * v / least
        loads.append(load)
    sizes, loads = np.array(sizes), np.array(loads)
    found = np.array([p.share for p in plan.parts]) / 2**40
    solved = optimize.minimize(
        lambda z: _error(np.exp(z) / np.exp(z).sum(), loads, sizes), np.zeros(len(loads)), tol=1e-12
    )
    assert _error(found, loads, sizes) <= solved.fun * (1 + 1e-4)
    assert _error(found, loads, sizes) == pytest.approx(np.sqrt(loads * sizes).sum() ** 2, rel=1e-4)
    assert _error(np.full(len(loads), 1 / len(loads)), loads, sizes) > 1.05 * solved.fun


def _least(plan, needs):
    """The error of a question that has all the privacy, from its shares."""
    total = 0.0
    for part in plan.parts:
        n = [DOMAIN.shape[a] for a in part.group.axes]
        outside = [DOMAIN.shape[a] for a in needs.axes if a not in part.group.axes]
        v = np.prod([(k - 1) / k for k in n]) / np.prod(np.array(outside, float) ** 2)
        total += dict(needs.weights)[part.measure] * v * np.prod([1 - 1 / k for k in n]) / (part.share / 2**40)
    return total


def test_no_gaussian_mechanism_does_better():
    """Counts and signed sums by one column: the error is the singular value bound over cells and signs."""
    n = 4
    queries = np.array(
        [[1.0 * (c == k) * (v if s else 1) for c in range(n) for v in (-1, 1)] for s in (0, 1) for k in range(n)]
    )
    bound = np.linalg.svd(queries, compute_uv=False).sum() ** 2 / (2 * n)
    asked = needs("ratio:b >= 1 by a", "count by a")
    signs = asked[0].sums
    plan = SumsPlan.choose(DOMAIN, asked, ZCDP(0.5), ADD)
    best = np.inf
    for share in np.linspace(0.01, 0.99, 99):  # of the counts
        best = min(best, n * (1 / share + 1 / (1 - share)))
    assert best == pytest.approx(bound, rel=1e-3)
    by_measure = {m: sum(p.share for p in plan.parts if p.measure == m) / 2**40 for m in (Measure(), signs)}
    assert sum(by_measure.values()) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("relation", [ADD, SWAP])
def test_no_question_is_worse_off_than_alone(cost, relation):
    plan = SumsPlan.choose(DOMAIN, needs(*QUESTIONS), cost, relation)
    power = 2 if isinstance(cost, PureDP) else 1
    assert max(plan.ratios) <= len(QUESTIONS) ** power * 1.001
    if power == 1:
        assert np.median(plan.ratios) < 0.8 * len(QUESTIONS)
    assert privacy_used(DOMAIN, plan.parts) <= 1
    assert privacy_used(DOMAIN, plan.parts) > Fraction(999, 1000)


def test_conditions_that_no_record_meets_together_do_not_add_up():
    apart = SumsPlan.choose(DOMAIN, needs(*(f"mean:x where a = {k}" for k in range(4))), ZCDP(0.5), ADD)
    assert max(apart.ratios) == pytest.approx(1, rel=1e-3)
    overlapping = SumsPlan.choose(DOMAIN, needs(*(f"mean:x where a <= {k}" for k in range(3))), ZCDP(0.5), ADD)
    assert min(overlapping.ratios) > 1.5
    doubled = [PlannedTable(p.measure, p.group, p.share + 2**30) for p in overlapping.parts]
    assert privacy_used(DOMAIN, doubled) > 1


def by_cells(*texts):
    return [needs_by_cells(NumericQuestion.parse(DOMAIN, text), {}) for text in texts]


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_a_condition_is_answered_by_adding_up_cells_where_that_costs_less(cost):
    """Where the finer table is asked for too. Alone, a condition has sums of its own, which have less noise."""
    texts = ["mean:x by a*b", "mean:x by a where b = 1", "mean:x by b where a = 2"]
    own = SumsPlan.choose(DOMAIN, needs(*texts), cost, ADD)
    plan = SumsPlan.choose(DOMAIN, needs(*texts), cost, ADD, by_cells=by_cells(*texts))
    assert all(not p.measure.where for p in plan.parts)
    assert np.mean(plan.ratios) < 0.85 * np.mean(own.ratios)
    assert max(plan.ratios) <= max(own.ratios)
    assert privacy_used(DOMAIN, plan.parts) <= 1
    for text in texts[1:]:
        alone = SumsPlan.choose(DOMAIN, needs(text), cost, ADD, by_cells=by_cells(text))
        assert alone == SumsPlan.choose(DOMAIN, needs(text), cost, ADD)
    # Two conditions that exclude each other are measured at the price of one: by cells it would not be less.
    apart = ["mean:x where a = 0", "mean:x where a = 1", "mean:x where a = 2", "mean:x where a = 3"]
    kept = SumsPlan.choose(DOMAIN, needs(*apart), cost, ADD, by_cells=by_cells(*apart))
    assert np.mean(kept.ratios) <= np.mean(SumsPlan.choose(DOMAIN, needs(*apart), cost, ADD).ratios)


def test_what_conditions_are_not_answered_by_cells():
    """On what is asked about, or on the groups; quantiles; and where there is no condition."""
    assert by_cells("sum:x by a where x >= 10", "mean:x by a where a >= 1", "mean:x by a") == [None] * 3
    assert by_cells("quantile(.5):x by a where b = 1", "ratio:a >= 2 by b where a >= 1") == [None] * 2
    (found,) = by_cells("ratio:a >= 2 where b = 1")
    assert found.axes == (1,)
    assert found.kept == "b = 1"
    assert all(not m.where for m in found.measures)


def test_under_replacement_the_number_of_records_is_not_measured():
    plan = SumsPlan.choose(DOMAIN, needs("count by a"), ZCDP(0.5), SWAP)
    assert all(p.group.axes for p in plan.parts)
    assert SumsPlan.choose(DOMAIN, needs("count"), ZCDP(0.5), SWAP).parts == ()


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_the_noise_of_a_part(cost):
    part = PlannedTable(Measure("x", 1, 0, 49), Group((0,), Cells(4)), 1 << 38)
    law, parameter = part.noise(cost, ADD)
    twice, _ = part.noise(cost, SWAP)
    assert twice.scale == pytest.approx(2 * law.scale)
    if isinstance(cost, PureDP):
        assert parameter == Fraction(49 * 4) / Fraction(cost.epsilon)
    if isinstance(cost, ZCDP):
        assert parameter == Fraction(49**2 * 4) / (2 * Fraction(cost.rho))
    assert bought(PlannedTable(part.measure, part.group, 1), law, cost, ADD).share == pytest.approx(
        part.share, rel=1e-6
    )
    with pytest.raises(InvalidInput, match="buys"):
        other = PureDP(1.0) if not isinstance(cost, PureDP) else ZCDP(1.0)
        bought(part, law, other, ADD)


def test_noise_beyond_the_samplers_is_refused():
    part = PlannedTable(Measure("x", 1, 0, 1 << 29), Group((0, 1), Residuals((4, 3))), 1)
    with pytest.raises(InvalidInput, match="beyond the samplers"):
        part.noise(ZCDP(1e-6), ADD)
