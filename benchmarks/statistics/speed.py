"""Records a second of the statistics that look at each record once."""

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks.statistics.setting import Row, Setting, column, results
from qrelease.privacy.costs import PureDP
from qrelease.statistics.base import Statistic
from qrelease.statistics.clipped_mean import ClippedMean
from qrelease.statistics.mean import Mean
from qrelease.statistics.quantile import Quantile
from qrelease.statistics.quantiles import TreeQuantiles
from qrelease.statistics.sums import Sum

LIMIT = 1e7


def one_pass(setting: Setting) -> Iterator[Row]:
    """Records a second of one estimate on a fresh table, to be 1e7 or more; and the memory that it takes beside the
    table, in megabytes."""
    n = 10_000_000 if setting.quick else 50_000_000
    codes = np.random.default_rng(0).integers(0, 4096, n)
    forms: tuple[Statistic, ...] = (
        *(Sum("x"), Mean("x"), ClippedMean("x")),
        *(Quantile("x"), TreeQuantiles("x", (0.25, 0.5, 0.75))),
    )
    results(Mean("x"), column(codes[:1000], 4096), PureDP(1.0), 1)  # compiled by now
    for statistic in forms:
        table = column(codes, 4096)
        tracemalloc.start()
        start = time.perf_counter()
        results(statistic, table, PureDP(1.0), 1)
        seconds = time.perf_counter() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        yield {
            "statistic": statistic.name,
            "records/s": n / seconds,
            "enough": n / seconds >= LIMIT,
            "MB": peak / 2**20,
        }
