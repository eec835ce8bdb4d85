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


def medians_at(epsilon: float) -> dict[str, tuple[Statistic, Cost]]:
    """The forms of the median, each with a cost that it takes."""
    return {
        "exponential": (Quantile("x", 0.5, interval=False), PureDP(epsilon)),
        "tree": (TreeQuantiles("x", (0.5,)), PureDP(epsilon)),
        "smooth, Laplace": (SmoothSensitivity("x"), ApproxDP(epsilon, DELTA)),
        "smooth, Cauchy": (SmoothSensitivity("x"), PureDP(epsilon)),
        "propose-test-release": (ProposeTestRelease("x", 20), ApproxDP(epsilon, DELTA)),
    }


def median_errors(codes: Any, epsilon: float, runs: int) -> Row:
    """Mean rank error of the median by form, in records; half of the records for a refusal."""
    found: Row = {}
    for name, (statistic, cost) in medians_at(epsilon).items():
        values: list[Any] = [r.value for r in results(statistic, column(codes, CELLS), cost, runs)]
        medians = [v[0] if isinstance(v, tuple) else v for v in values]
        half = len(codes) / 2
        found[name] = float(np.mean([half if v is None else rank_error(codes, 0.5, v) for v in medians]))
    return found


def one(setting: Setting) -> Iterator[Row]:
    """Mean rank error of the median, in records, by form; `best` is the least of them. ε = 1, δ = 1e-6 where it is
    needed. A refusal of propose-test-release (bound: 20 steps) counts as an error of half of the records."""
    for n in (30, 100, 300, 1_000, 3_000, 10_000, 100_000):
        errors = median_errors(people(n), 1.0, setting.runs(100))
        yield {"n": n, **errors, "best": min(errors, key=lambda name: errors[name])}


def regions(setting: Setting) -> Iterator[Row]:
    """Where each form of the median has the least mean rank error: by n and ε, δ = 1e-6 where one is needed; and that
    error over the error of the exponential mechanism, which is the default."""
    for epsilon in (0.1, 1.0) if setting.quick else (0.03, 0.1, 0.3, 1.0, 3.0):
        for n in (30, 300, 3_000) if setting.quick else (30, 100, 300, 1_000, 3_000, 10_000, 30_000):
            errors = median_errors(people(n), epsilon, setting.runs(60))
            best = min(errors, key=lambda name: errors[name])
            gain = errors[best] / errors["exponential"] if errors["exponential"] else 1.0
            yield {"epsilon": epsilon, "n": n, "best": best, "error": errors[best], "over exponential": gain}


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
                found: list[Any] = [r.value for r in results(statistic, table, cost, setting.runs(20))]
                row[name] = float(np.mean([max(map(rank_error, [codes] * 9, QS, v)) for v in found])) / n
            share = type(cost)(**{key: value / 9 for key, value in cost.to_json().items()})
            alone: list[list[Any]] = [
                [r.value for r in results(Quantile("x", q, False), table, share, setting.runs(20))] for q in QS
            ]
            worst = [max(map(rank_error, [codes] * 9, QS, v)) for v in zip(*alone, strict=True)]
            row["one by one"] = float(np.mean(worst)) / n
            yield row | {"best": min(("halving", "tree", "one by one"), key=lambda name: row[name])}
