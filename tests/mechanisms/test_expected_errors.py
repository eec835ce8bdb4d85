"""Expected errors in closed form are those of the noise, and of releases."""

import math

import numpy as np
import pytest
from worlds import BOTH, coded, random_table

from qrelease.mechanisms import auto
from qrelease.mechanisms.expected_errors import PAIRS_AT_ONCE, of_fit, selected_variances
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.simulation import Simulation
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.privacy import ApproxDP, PureDP
from qrelease.queries.workload import Workload
from tests.mechanisms.chosen import ADD, DELTA, PAIRS, RANGES, released


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(("mechanism", "asked"), [(Laplace(), PAIRS), (Gaussian(), PAIRS), (Matrix(), RANGES)], ids=str)
def test_closed_forms_are_the_errors_of_the_noise(mechanism, asked, neighbours):
    cost = ApproxDP(1.0, DELTA)
    table = random_table(asked.domain, 1000, 0)
    exact = (g.queries.apply(m) for g, m in zip(asked.groups, table.counts(asked.sets), strict=True))
    truth = np.concatenate([part.astype(float) for part in exact])
    predicted = auto.in_closed_form(mechanism.name, asked, 1000, cost, neighbours).error
    noisy = [released(mechanism, table, asked, cost, neighbours, seed).error_bars()[0] for seed in range(60)]
    assert math.sqrt(np.mean((np.array(noisy) - truth) ** 2)) / predicted == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("cost", [ApproxDP(0.3, DELTA), PureDP(1.0), PureDP(5.0)], ids=str)
def test_the_prediction_of_maxent_is_what_its_releases_do(cost, neighbours):
    asked = Workload.marginals(coded(*[2] * 10), 3)
    stage = Simulation.of(asked, 5000)
    predicted = auto.in_closed_form("maxent", asked, 5000, cost, neighbours)
    found = released(MaxEnt(5000), stage.table, asked, cost, neighbours)
    off = np.abs(found.answers() - stage.answers)
    assert 0.5 < math.sqrt(np.mean(off**2)) / predicted.error < 1.6
    assert 0.5 < np.add.reduceat(off, asked.bounds[:-1]).mean() / 5000 / predicted.l1 < 1.6
    assert predicted.error < math.sqrt(np.mean((found.error_bars()[1] / 1.96) ** 2))


def test_the_prediction_of_records_is_what_their_releases_do():
    """Where all is measured at once, which leaves no scatter; and where it is not."""
    asked, cost = Workload.marginals(coded(*[4] * 8), 2), ApproxDP(1.0, DELTA)
    stage = Simulation.of(asked, 20_000)
    for at_once, weighted in ((None, None), (False, 2_000)):
        found = released(FittedRecords(weighted_records=2_000, at_once=at_once), stage.table, asked, cost)
        told = of_fit(asked, selected_variances(asked, 3, cost, ADD, 20_000), 20_000, weighted).l1
        real = np.add.reduceat(np.abs(found.answers() - stage.answers), asked.bounds[:-1]).mean() / 2e4
        assert 1 / 3 < real / told < 2  # answers follow the measurements, so that few records scatter less than is told
    predicted = auto.in_closed_form("records", asked, 20_000, cost, ADD).l1
    planned = selected_variances(asked, 3, cost, ADD, 20_000, at_once=True)
    assert predicted == of_fit(asked, planned, 20_000, pairs=PAIRS_AT_ONCE).l1 < told
