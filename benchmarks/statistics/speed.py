"""Records a second of the statistics that look at each record once."""

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks.statistics.setting import Row, Setting, column, results
from qrelease.privacy.costs import ApproxDP, PureDP
from qrelease.statistics.base import Statistic
from qrelease.statistics.clipped_mean import ClippedMean, QuantileMean, SparseVectorMean
from qrelease.statistics.mean import Mean, TextbookMean
from qrelease.statistics.propose_test_release import ProposeTestRelease
from qrelease.statistics.quantile import Quantile
from qrelease.statistics.quantiles import RecursiveQuantiles, TreeQuantiles
from qrelease.statistics.selection import MostCommon
from qrelease.statistics.smooth_sensitivity import SmoothSensitivity
from qrelease.statistics.sums import Sum
from qrelease.statistics.thresholds import AboveThresholds
from qrelease.statistics.vector_mean import TruncatedMean

LIMIT = 1e7


def one_pass(setting: Setting) -> Iterator[Row]:
    """Records a second of one estimate on a fresh table, to be 1e7 or more; and the memory that it takes beside the
    table, in megabytes."""
    n = 10_000_000 if setting.quick else 50_000_000
    codes = np.random.default_rng(0).integers(0, 4096, n)
    forms: tuple[Statistic, ...] = (
        *(Sum("x"), Mean("x"), TextbookMean("x"), ClippedMean("x"), QuantileMean("x"), SparseVectorMean("x")),
        *(Quantile("x"), TreeQuantiles("x", (0.25, 0.5, 0.75)), RecursiveQuantiles("x", (0.25, 0.5, 0.75))),
        *(
            SmoothSensitivity("x"),
            ProposeTestRelease("x", 50),
            MostCommon(("x",), 3),
            AboveThresholds(("x",), n // 4000),
        ),
        TruncatedMean(("x",)),
    )
    results(Mean("x"), column(codes[:1000], 4096), PureDP(1.0), 1)  # compiled by now
    for statistic in forms:
        table = column(codes, 4096)
        tracemalloc.start()
        start = time.perf_counter()
        results(statistic, table, ApproxDP(1.0, 1e-6) if isinstance(statistic, ProposeTestRelease) else PureDP(1.0), 1)
        seconds = time.perf_counter() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        yield {
            "statistic": statistic.name,
            "records/s": n / seconds,
            "enough": n / seconds >= LIMIT,
            "MB": peak / 2**20,
        }
