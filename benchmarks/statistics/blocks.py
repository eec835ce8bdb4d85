"""A regression coefficient by sample and aggregate."""

from collections.abc import Iterator

import numpy as np

from benchmarks.statistics import coefficient
from benchmarks.statistics.setting import Row, Setting, results, rmse
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.privacy.costs import ApproxDP, PureDP
from qrelease.statistics.sample_and_aggregate import SampleAndAggregate


def slope(setting: Setting) -> Iterator[Row]:
    """RMSE of the coefficient of y by x, 3, within 0..10, over runs: the mean of 50 blocks at ε = 1, the median of
    400 at ε = 1, δ = 1e-6, as fewer leave its smooth sensitivity near the range; and the error of the whole table."""
    for n in (3_000,) if setting.quick else (3_000, 30_000):
        rng = np.random.default_rng(n)
        x = rng.integers(0, 20, n)
        y = np.clip(3 * x + rng.integers(0, 60, n), 0, 199)
        table = Table(Domain.coded({"x": 20, "y": 200}), (x.astype(np.uint8), y.astype(np.uint8)))
        row: Row = {"n": n, "without noise": abs(coefficient.slope({"x": x, "y": y}) - 3)}
        function = f"{coefficient.__file__}:slope"
        mean = SampleAndAggregate(("x", "y"), function, 0, 10, 50)
        median = SampleAndAggregate(("x", "y"), function, 0, 10, 400, "median")
        few = 1 if setting.quick else 3  # a process for each block
        row["mean"] = rmse([r.value for r in results(mean, table, PureDP(1.0), 4 * few)], 3.0)
        row["median"] = rmse([r.value for r in results(median, table, ApproxDP(1.0, 1e-6), few)], 3.0)
        yield row
