"""Rank errors of quantiles along n."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.statistics.setting import Row, Setting, column, results
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP
from qrelease.statistics.base import Statistic
from qrelease.statistics.propose_test_release import ProposeTestRelease
from qrelease.statistics.quantile import Quantile
from qrelease.statistics.quantiles import RecursiveQuantiles, TreeQuantiles
from qrelease.statistics.smooth_sensitivity import SmoothSensitivity

CELLS = 4096
QS = tuple(i / 10 for i in range(1, 10))
DELTA = 1e-6


def people(n: int, seed: int = 0) -> Any:
    """Codes that are about log-normal: many are small, a few near the grid's end."""
    drawn = np.random.default_rng(seed).lognormal(6.0, 0.7, n)
    return np.clip(drawn.astype(np.int64), 0, CELLS - 1)


def rank_error(codes: Any, q: float, value: float) -> float:
    """How many records too many are below a value, or above it."""
    return float(max((codes < value).sum() - q * len(codes), (codes > value).sum() - (1 - q) * len(codes), 0))


def one(setting: Setting) -> Iterator[Row]:
    """Mean rank error of the median, in records, by form; `best` is the least of them. ε = 1, δ = 1e-6 where it is
    needed. A refusal of propose-test-release (bound: 20 steps) counts as an error of half of the records."""
    forms: dict[str, tuple[Statistic, Cost]] = {
        "exponential": (Quantile("x", 0.5, interval=False), PureDP(1.0)),
        "tree": (TreeQuantiles("x", (0.5,)), PureDP(1.0)),
        "smooth, Laplace": (SmoothSensitivity("x"), ApproxDP(1.0, DELTA)),
        "smooth, Cauchy": (SmoothSensitivity("x"), PureDP(1.0)),
        "propose-test-release": (ProposeTestRelease("x", 20), ApproxDP(1.0, DELTA)),
    }
    for n in (30, 100, 300, 1_000, 3_000, 10_000, 100_000):
        codes = people(n)
        row: Row = {"n": n}
        for name, (statistic, cost) in forms.items():
            found: list[Any] = [r.value for r in results(statistic, column(codes, CELLS), cost, setting.runs(100))]
            medians = [v[0] if isinstance(v, tuple) else v for v in found]
            row[name] = float(np.mean([n / 2 if v is None else rank_error(codes, 0.5, v) for v in medians]))
        yield row | {"best": min(forms, key=lambda name: row[name])}


def many(setting: Setting) -> Iterator[Row]:
    """Largest rank error of the nine deciles, as a fraction of n, mean over runs: by halving, by a tree, and one by one
    at a ninth of the cost each; under ε = 1 and ρ = 0.1."""
    costs: tuple[Cost, ...] = (PureDP(1.0), ZCDP(0.1))
    for n in (1_000, 10_000, 100_000):
        codes = people(n)
        table = column(codes, CELLS)
        for cost in costs:
            forms: dict[str, Statistic] = {"halving": RecursiveQuantiles("x", QS), "tree": TreeQuantiles("x", QS)}
            row: Row = {"n": n, "cost": str(cost)}
            for name, statistic in forms.items():
                found: list[Any] = [r.value for r in results(statistic, table, cost, setting.runs(40))]
                row[name] = float(np.mean([max(map(rank_error, [codes] * 9, QS, v)) for v in found])) / n
            share = type(cost)(**{key: value / 9 for key, value in cost.to_json().items()})
            alone: list[list[Any]] = [
                [r.value for r in results(Quantile("x", q, False), table, share, setting.runs(40))] for q in QS
            ]
            worst = [max(map(rank_error, [codes] * 9, QS, v)) for v in zip(*alone, strict=True)]
            row["one by one"] = float(np.mean(worst)) / n
            yield row | {"best": min(("halving", "tree", "one by one"), key=lambda name: row[name])}
