"""The last fit of weighted records, where nearly all records are in one cell of each column."""

import numpy as np
import pytest
from worlds import coded, private

from qrelease.data.table import Table
from qrelease.inference.log_linear import Problem, finish, fit
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.inference.weighted_records import Tables
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP


@pytest.mark.parametrize("seed", range(2))
def test_what_is_measured_of_heavy_cells_is_fitted_in_few_passes(seed):
    """Two columns that are more rarely light together than apart, under the noise of 841 small cells.

    Columns that are moved one by one leave the heavy cell several standard deviations off.
    """
    rng = np.random.default_rng(seed)
    size, records = 30, 40_000
    first = np.where(rng.random(records) < 0.1, rng.integers(1, size, records), 0)
    second = np.where(rng.random(records) < np.where(first == 0, 0.1, 0.03), rng.integers(1, size, records), 0)
    table = Table(coded(size, size), (first, second))
    plan = ResidualPlan.choose(table.domain, [(0,), (1,), (0, 1)])
    cost = ZCDP(3e-4)
    made = private(table, cost, entropy=Entropy.insecure(seed)).measure(plan.workload, cost)
    estimates = Estimates.of(table.domain, [m for m in made if m.group.axes], records)
    moving = fit(estimates, 4_000, rounds=12, rng=np.random.default_rng(0))
    fitted = finish(estimates, 40_000, rng=np.random.default_rng(1), start=moving)
    problem = Problem(estimates)
    heavy = problem.place(problem.marginals.index((0, 1))).start
    said = problem.total * Tables(table.domain.shape, [(0, 1)]).marginals(fitted.chains.codes, fitted.chains.weights)[0]
    assert abs(said - problem.target[heavy]) < 1.5 * np.sqrt(estimates.marginal((0, 1))[1])
