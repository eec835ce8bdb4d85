"""Error bars of unbiased answers from Laplace noise cover 95 %, and those from Gaussian noise are no wider for it."""

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.inference.least_squares import LeastSquares
from qrelease.inference.measurement import Measurement
from qrelease.inference.residual_synopses import Linear
from qrelease.inference.residuals import Estimates
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.noise.distributions import Noise
from qrelease.queries.families import Cells
from qrelease.queries.products import IntegerRows
from qrelease.queries.workload import Group, Workload

SIDE = 120
DOMAIN = Domain.coded({"a": SIDE, "b": SIDE})
CELLS = Workload.marginals(DOMAIN, [["a", "b"]])
ROWS = Workload.marginals(DOMAIN, 1)


def measured(law, queries=None):
    """What is noise alone, of scale 40, so that the truth is 0 everywhere."""
    rng = np.random.default_rng(7)
    draws = rng.laplace(0, 40, SIDE**2) if law == "discrete Laplace" else rng.normal(0, 40, SIDE**2)
    group = Group((0, 1), queries or Cells(SIDE**2))
    return Measurement(group, draws.round(), Noise(law, 40.0))


def linear(m):
    return Linear(Estimates.of(DOMAIN, [m], 0.0))


def records(m):
    codes = np.zeros((2, 1), np.uint16)
    return WeightedCodes(DOMAIN, codes, np.ones(1), 1.0, (m,))


@pytest.mark.parametrize("made", [linear, records])
@pytest.mark.parametrize("law", ["discrete Laplace", "discrete Gaussian"])
def test_bars_of_cells_and_of_their_sums_cover(made, law):
    found = made(measured(law))
    noisy, widths = found.error_bars(CELLS)
    deviation = np.sqrt(Noise(law, 40.0).variance)
    # Of 14 400 cells a standard error of 0.0018; 1.96 standard deviations hold one Laplace draw with 0.9375.
    assert 0.9445 < np.mean(np.abs(noisy) <= widths) < 0.9555
    assert widths.max() <= deviation * (1.97 if law == "discrete Gaussian" else 2.12)
    noisy, widths = found.error_bars(ROWS)
    assert np.mean(np.abs(noisy) <= widths) > 0.9


def test_bars_of_least_squares_cover():
    rows = IntegerRows(np.eye(SIDE, dtype=np.int64), 1.0)
    domain = Domain.coded({"a": SIDE})
    covered = []
    for seed in range(100):
        values = np.random.default_rng(seed).laplace(0, 40, SIDE).round()
        m = Measurement(Group((0,), rows), values, Noise("discrete Laplace", 40.0))
        noisy, widths = LeastSquares.of(domain, m, None).error_bars(Workload.marginals(domain, 1))
        covered.append(np.abs(noisy) <= widths)
    assert 0.944 < np.mean(covered) < 0.956
