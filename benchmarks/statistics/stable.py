"""Propose-test-release and smooth sensitivity along n."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.statistics.quantiles import CELLS, DELTA, people
from benchmarks.statistics.setting import Row, Setting, column, results, rmse
from qrelease.privacy.costs import ApproxDP, Neighbours
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.local_sensitivity import LocallyStable, Median, StableMean, TrimmedMean, WinsorisedMean
from qrelease.statistics.propose_test_release import ProposeTestRelease, threshold
from qrelease.statistics.smooth_sensitivity import Smoothing, SmoothSensitivity, smooth_sensitivity


@dataclass(frozen=True)
class Once:
    """A function whose sensitivities on one table are found once: they are the same in every run."""

    of: LocallyStable
    found: dict[int, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.of.name

    def check(self, grid: Grid, neighbours: Neighbours) -> None:
        self.of.check(grid, neighbours)

    def units(self, records: int) -> int:
        return self.of.units(records)

    def value(self, found: Numbers, neighbours: Neighbours) -> int:
        return self.of.value(found, neighbours)

    def sensitivities(self, found: Numbers, most: int, neighbours: Neighbours) -> Any:
        if most not in self.found:
            self.found[most] = self.of.sensitivities(found, most, neighbours)
        return self.found[most]


def refusals(setting: Setting) -> Iterator[Row]:
    """Share of refusals and RMSE of what is released, in steps, of a median (bound 50) and a mean (bound 20) by
    propose-test-release at ε = 1, δ = 1e-6. `textbook passes` is the probability with which the lecture notes'
    threshold releases at distance 0, where it may be δ."""
    cost = ApproxDP(1.0, DELTA)
    q = math.exp(-0.5)
    loose = q ** math.ceil(math.log(2 / DELTA) / (2 * 0.5)) / (1 + q)
    ours = q ** threshold(0.5, DELTA) / (1 + q)
    for n in (100, 200, 300, 500, 1_000, 3_000, 10_000):
        codes = people(n)
        row: Row = {"n": n}
        functions: tuple[tuple[LocallyStable, float, float], ...] = (
            (Median(), 50, float(np.sort(codes)[(n + 1) // 2 - 1])),
            (StableMean(), 20, float(codes.mean())),
        )
        for function, bound, truth in functions:
            runs = results(ProposeTestRelease("x", bound, function), column(codes, CELLS), cost, setting.runs(100))
            kept: list[Any] = [r.value for r in runs if r.value is not None]
            row[f"{function.name} refused"] = 1 - len(kept) / len(runs)
            row[f"{function.name} rmse"] = rmse(kept, truth)
        yield row | {"textbook passes": loose, "ours": ours}


def medians(setting: Setting) -> Iterator[Row]:
    """RMSE, in steps of the grid, by smooth sensitivity at ε = 1, δ = 1e-6 of the median and, where n is public, of the
    mean without its lowest and highest tenth, and with those moved to the ends of the rest; S of the median, and how
    long it takes to find."""
    cost = ApproxDP(1.0, DELTA)
    for n in (100, 1_000, 10_000, 100_000, 1_000_000):
        codes = people(n)
        table, runs = column(codes, CELLS), setting.runs(50)
        ordered = np.sort(codes)
        trimmed = results(SmoothSensitivity("x", Once(TrimmedMean(0.1))), table, cost, runs, Neighbours.REPLACE_ONE)
        ends = results(SmoothSensitivity("x", Once(WinsorisedMean(0.1))), table, cost, runs, Neighbours.REPLACE_ONE)
        median = results(SmoothSensitivity("x"), table, cost, runs)
        start = time.perf_counter()
        found = Numbers.listed(codes, CELLS)
        smooth = smooth_sensitivity(Median(), found, n, Smoothing.of(cost), Neighbours.ADD_REMOVE)
        yield {
            "n": n,
            "median": rmse([r.value for r in median], float(ordered[(n + 1) // 2 - 1])),
            "trimmed mean": rmse([r.value for r in trimmed], float(ordered[n // 10 : n - n // 10].mean())),
            "winsorised mean": rmse(
                [r.value for r in ends], float(np.clip(codes, ordered[n // 10], ordered[n - n // 10 - 1]).mean())
            ),
            "S of the median": smooth,
            "seconds, with sorting": time.perf_counter() - start,
        }
