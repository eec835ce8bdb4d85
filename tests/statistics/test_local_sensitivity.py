"""Local sensitivity at a distance against brute force; smooth sensitivity, and propose-test-release, listed exactly."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import stats

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import Distribution, compare, laplace_distribution
from qrelease.noise.cauchy import discrete_cauchy
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ApproxDP, Neighbours, PureDP
from qrelease.statistics import propose_test_release
from qrelease.statistics.base import BETA
from qrelease.statistics.grid import Numbers
from qrelease.statistics.local_sensitivity import EXACT_DISTANCES, Median, StableMean, TrimmedMean, WinsorisedMean
from qrelease.statistics.propose_test_release import ProposeTestRelease, threshold
from qrelease.statistics.smooth_sensitivity import Smoothing, SmoothSensitivity, smooth_sensitivity
from tests.statistics.doors import column, door, outcome

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
CELLS = 4
FAR = 4


def tables(most):
    """All multisets of codes of at most so many records."""
    return [t for n in range(most + 1) for t in combinations_with_replacement(range(CELLS), n)]


def around(table, neighbours):
    """The neighbours of a table, as sorted tuples."""
    removed = [tuple(table[:i] + table[i + 1 :]) for i in range(len(table))]
    if neighbours is ADD:
        return set(removed) | {tuple(sorted((*table, v))) for v in range(CELLS)}
    return {tuple(sorted((*r, v))) for r in removed for v in range(CELLS)}


def brute(function, records, neighbours):
    """A(x, 0..FAR) of every table of at most so many records, by walking from neighbour to neighbour."""
    reach = records + (FAR + 1 if neighbours is ADD else 0)
    value = {t: function.value(Numbers.listed(t, CELLS), neighbours) for t in tables(reach)}
    inside = [t for t in value if neighbours is REPLACE or len(t) < reach]
    near = {t: around(t, neighbours) & value.keys() for t in inside}
    local = {t: max((abs(value[t] - value[y]) for y in near[t]), default=0) for t in inside}
    found = {t: [local[t]] for t in inside}
    for k in range(1, FAR + 1):
        for t in inside:
            if all(len(found.get(y, ())) >= k for y in near[t]):
                found[t].append(max([found[t][k - 1], *(found[y][k - 1] for y in near[t])]))
    return {t: found[t] for t in inside if len(t) <= records}


@pytest.mark.parametrize(
    ("function", "neighbours"),
    [(Median(), ADD), (Median(), REPLACE), (TrimmedMean(0.0), REPLACE), (TrimmedMean(0.25), REPLACE)]
    + [(WinsorisedMean(trim), REPLACE) for trim in (0.0, 0.2, 0.25, 0.49)],
)
def test_sensitivities_are_those_of_brute_force(function, neighbours):
    """On all tables of at most eight records; so S is the same, at any β."""
    for table, exact in brute(function, 8, neighbours).items():
        if neighbours is REPLACE and not table:
            continue
        assert len(exact) == FAR + 1
        found = function.sensitivities(Numbers.listed(table, CELLS), FAR, neighbours)
        assert found.tolist() == exact, table


def test_a_winsorised_mean_stays_smooth_where_its_sensitivity_is_a_bound():
    """A(x, k) <= A(x', k + 1) and A(x, k) <= A(x, k + 1), on both sides of the last exact distance and across it."""
    rng, function, most = np.random.default_rng(4), WinsorisedMean(0.3), EXACT_DISTANCES + 12
    for spread in (3, 40, 400):
        values = np.sort(np.clip(rng.normal(500, spread, 700), 0, 999).astype(int))
        other = values.copy()
        other[rng.integers(len(values))] = rng.integers(1000)
        found = [function.sensitivities(Numbers.listed(v, 1000), most, REPLACE) for v in (values, other)]
        for one, two in (found, found[::-1]):
            assert (one[:-1] <= two[1:]).all()
            assert (np.diff(one) >= 0).all()
            assert one[-1] <= 3 * one[EXACT_DISTANCES]


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_a_mean_moves_by_no_more_than_it_says(neighbours):
    for table, exact in brute(StableMean(), 6, neighbours).items():
        found = StableMean().sensitivities(Numbers.listed(table, CELLS), FAR, neighbours)
        assert (found >= exact).all(), table
        assert neighbours is ADD or not table or found[0] <= exact[0] + 65536 * CELLS


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("cost", [ApproxDP(1.0, 1e-3), PureDP(1.0)], ids=str)
def test_smooth_sensitivity_is_smooth(cost, neighbours):
    """ln S' moves by at most β between neighbours, S' is at least LS; somewhere it moves by 0.7 β."""
    smoothing = Smoothing.of(cost)
    values = {t: smooth_sensitivity(Median(), Numbers.listed(t, CELLS), 0, smoothing, neighbours) for t in tables(7)}
    steps = [abs(math.log(values[t] / values[y])) for t in values for y in around(t, neighbours) if y in values]
    assert max(steps) <= smoothing.beta
    assert max(steps) > 0.7 * smoothing.beta
    assert all(s >= Median().sensitivities(Numbers.listed(t, CELLS), 0, neighbours)[0] for t, s in values.items())


LISTED = [((0, 0, 0), (0, 0, 0, 3)), ((0, 0, 3, 3), (0, 3, 3)), ((0, 0, 3), (0, 0, 3, 3)), ((), (3,))]


def smooth_law(values, smoothing, scale=None):
    """The exact distribution of the median and its noise."""
    found = Numbers.listed(values, CELLS)
    smooth = smooth_sensitivity(Median(), found, 0, smoothing, ADD)
    b = smoothing.scale(smooth) if scale is None else scale(found, smoothing)
    return laplace_distribution(b, missing=1e-12).map(lambda z: z + Median().value(found, ADD))


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_smooth_sensitivity_costs_what_it_says_and_local_sensitivity_more(delta):
    """The published mistake: noise for the local sensitivity of the very table."""
    cost = ApproxDP(1.0, delta)
    smoothing = Smoothing.of(cost)

    def local(found, smoothing):
        return max(Fraction(2 * int(Median().sensitivities(found, 0, ADD)[0])), Fraction(1, 100))

    assert not any(compare(smooth_law(a, smoothing), smooth_law(b, smoothing), cost).convicted for a, b in LISTED)
    assert any(
        compare(smooth_law(a, smoothing, local), smooth_law(b, smoothing, local), cost).convicted for a, b in LISTED
    )


def cauchy_law(values, smoothing, times=1.0):
    found = Numbers.listed(values, CELLS)
    b = float(smoothing.scale(smooth_sensitivity(Median(), found, 0, smoothing, ADD))) * times
    z = np.arange(-4000, 4001)
    at = z - Median().value(found, ADD)
    return b / math.pi * math.tanh(math.pi * b) / (b * b + at.astype(float) ** 2)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_cauchy_noise_is_pure(epsilon):
    """No output is more than e^ε times as likely; at a third of the scale some is."""
    smoothing = Smoothing.of(PureDP(epsilon))
    found = [np.abs(np.log(cauchy_law(a, smoothing) / cauchy_law(b, smoothing))).max() for a, b in LISTED]
    assert max(found) <= epsilon
    thin = [np.abs(np.log(cauchy_law(a, smoothing, 0.3) / cauchy_law(b, smoothing, 0.3))).max() for a, b in LISTED]
    assert max(thin) > epsilon


def test_the_cauchy_sampler_has_its_law():
    """χ² on 20 000 draws: the scale it was given is accepted, one 30 % off is rejected."""
    for b in (1.0, 1.5, 20.25):
        drawn = discrete_cauchy(b, 6000, Entropy.insecure(5))
        edges = np.unique(np.round(b * np.tan(np.pi * (np.arange(1, 20) / 20 - 0.5)))).astype(int)
        counts = np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)

        def p_value(scale, edges=edges, counts=counts):
            z = np.arange(-200_000, 200_001)
            masses = scale / math.pi * math.tanh(math.pi * scale) / (scale**2 + z.astype(float) ** 2)
            cells = np.bincount(np.searchsorted(edges, z), weights=masses, minlength=len(edges) + 1)
            return stats.chisquare(counts, cells / cells.sum() * counts.sum()).pvalue

        assert p_value(b) > 1e-3
        assert p_value(1.3 * b) < 1e-6
    with pytest.raises(InvalidInput):
        discrete_cauchy(0.5, 1, Entropy.insecure(0))


def test_an_interval_of_a_smooth_median_holds():
    values = np.random.default_rng(6).binomial(99, 0.4, 2001)
    table, cost = column(values.tolist(), 100), ApproxDP(1.0, 1e-6)
    results = [SmoothSensitivity("x").estimate(door(table, cost, noise=s), cost) for s in range(60)]
    misses = sum(not r.interval[0] <= np.median(values) <= r.interval[1] for r in results)
    assert misses <= 6
    assert np.mean([abs(r.value - np.median(values)) for r in results]) < 3


# --- propose-test-release --------------------------------------------------------------------------------------

FLIPS = ((0, 0, 3, 3), (0, 3, 3))
"""One record moves their median by 3, more than the bound of 1: D is 0."""


def seen(result):
    return result.value is not None, tuple(m.value for m in result.measured[1:])


def test_a_threshold_lets_delta_pass():
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-2), (3.0, 0.4)):
        q, t = math.exp(-epsilon), threshold(epsilon, delta)
        assert q**t / (1 + q) <= delta * (1 + 1e-9) < (1 + 1e-6) * max(q ** (t - 1) / (1 + q), delta)


def test_propose_test_release_costs_what_it_says_and_the_notes_threshold_more(monkeypatch):
    """The published mistake: ln(2/δ)/(2ε), at which a table at distance 0 passes with probability √(δ/8)."""
    cost, statistic = ApproxDP(4.0, 1e-3), ProposeTestRelease("x", 1)

    def found():
        return compare(*(outcome(statistic, column(v, CELLS), cost, ADD, 1e-7, seen) for v in FLIPS), cost)

    assert not found().convicted
    monkeypatch.setattr(propose_test_release, "threshold", lambda e, d: math.ceil(math.log(2 / d) / (2 * e)))
    assert found().convicted


def test_a_table_far_from_harm_is_answered_and_one_near_is_refused():
    cost, statistic = ApproxDP(1.0, 1e-6), ProposeTestRelease("x", 1)
    near, far = column([0] * 50 + [9] * 50, 10), column([4] * 300, 10)
    refused, answered = ([statistic.estimate(door(t, cost, noise=s), cost) for s in range(30)] for t in (near, far))
    assert all(r.value is None for r in refused)
    assert all(r.value is not None for r in answered)
    bound = statistic.error_bound(far.domain, 300, cost, ADD, beta=BETA)
    assert sum(abs(r.value - 4) > bound for r in answered) <= 5


def test_a_listed_law_is_a_law():
    assert isinstance(smooth_law((0, 3), Smoothing.of(ApproxDP(1.0, 1e-3))), Distribution)
