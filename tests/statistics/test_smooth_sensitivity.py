"""Noise of smooth sensitivity: its scale is smooth, and its cost is listed exactly."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import Distribution, compare, laplace_distribution
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.grid import Numbers
from qrelease.statistics.local_sensitivity import Median
from qrelease.statistics.smooth_sensitivity import Smoothing, SmoothSensitivity, smooth_sensitivity
from tests.statistics.doors import column, door
from tests.statistics.small_tables import ADD, CELLS, REPLACE, around, tables


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


def test_an_interval_of_a_smooth_median_holds():
    values = np.random.default_rng(6).binomial(99, 0.4, 2001)
    table, cost = column(values.tolist(), 100), ApproxDP(1.0, 1e-6)
    results = [SmoothSensitivity("x").estimate(door(table, cost, noise=s), cost) for s in range(60)]
    misses = sum(not r.interval[0] <= np.median(values) <= r.interval[1] for r in results)
    assert misses <= 6
    assert np.mean([abs(r.value - np.median(values)) for r in results]) < 3


def test_a_listed_law_is_a_law():
    assert isinstance(smooth_law((0, 3), Smoothing.of(ApproxDP(1.0, 1e-3))), Distribution)


@dataclass(frozen=True)
class InParts:
    """A median in parts of a step that are finer the fewer records there are, for tables of 2^25 are not for tests."""

    name = "fine median"

    def check(self, grid, neighbours):
        pass

    def units(self, records):
        return 1 << max(59 - records, 0)

    def value(self, found, neighbours):
        return Median().value(found, neighbours) * self.units(found.n)

    def sensitivities(self, found, most, neighbours):
        return Median().sensitivities(found, most, neighbours) * self.units(found.n)


@pytest.mark.parametrize("values", [[7] * 15, [*[0] * 7, 49, *[99] * 7]], ids=["narrow", "wide"])
def test_noise_that_some_table_of_as_many_records_takes_too_much_of_is_refused_for_all(values):
    """Before the charge: after it a refusal would say how wide the noise is, which is private."""
    domain, cost = column([], 100).domain, PureDP(1.0)
    statistic = SmoothSensitivity("x", InParts())
    statistic.check(domain, cost, REPLACE)
    with Ledger.open(None, cost, neighbours=REPLACE) as ledger:
        curator = Curator(column(values, 100), ledger, Entropy.insecure(1))
        with pytest.raises(InvalidInput, match="too many values"):
            curator.estimate(statistic, cost)
        assert ledger.spent is None
