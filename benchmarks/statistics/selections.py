"""Sessions of thresholds and selections against Laplace noise on every count."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks.statistics.setting import Row, Setting, column, results
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Neighbours, PureDP
from qrelease.statistics.selection import MostCommon
from qrelease.statistics.thresholds import AboveThresholds

ONE = PureDP(1.0)
POSITIVES = 5


def thresholds(setting: Setting) -> Iterator[Row]:
    """What is promised at β = 0.05, in records, and the share of 200 runs that failed it, for c = 5 of k counts at ε =
    1; and the promise of asking each count by itself, as queries that overlap must be, with Laplace noise for ε/k."""
    for k in (10, 100, 1_000, 10_000):
        counts = np.random.default_rng(k).integers(0, 1_000, k)
        table = column(np.repeat(np.arange(k), counts), k)
        row: Row = {"k": k}
        for form in ("best", "sparse", "numeric"):
            statistic = AboveThresholds(("x",), 800, POSITIVES, form)
            alpha = statistic.error_bound(table.domain, len(table), ONE, Neighbours.ADD_REMOVE, beta=0.05)
            row[form] = alpha
            failed = 0
            runs = setting.runs(200)
            for result in results(statistic, table, ONE, runs):
                given: Any = result.value
                said = {int(v[0] if form == "numeric" else v) for v in given}
                silent = set(range(result.choices["asked"])) - said
                failed += any(counts[c] < 800 - alpha for c in said) or any(counts[c] > 800 + alpha for c in silent)
            row[f"{form} failed"] = failed / runs
        yield row | {"one by one": Noise("discrete Laplace", float(k)).largest_of(k, 0.05)}


def most_common(setting: Setting) -> Iterator[Row]:
    """The most common, or the five most common, of k at ε = 1: how many records fewer the worst choice has than the
    best left, mean over runs, and its promise at β = 0.05; and of the largest counts with Laplace noise for ε/k each.
    """
    for k, take in product((10, 100, 1_000, 10_000), (1, 5)):
        rng = np.random.default_rng(k)
        counts = rng.integers(0, 1_000, k)
        table, statistic = column(np.repeat(np.arange(k), counts), k), MostCommon(("x",), take)
        losses = []
        for result in results(statistic, table, ONE, setting.runs(50)):
            given: Any = result.value
            losses.append(_worst(counts, [int(v) for v in given]))
        noisy = [_worst(counts, np.argsort(-counts - rng.laplace(0, k, k))[:take].tolist()) for _ in range(50)]
        promised = statistic.error_bound(table.domain, 1e9, ONE, Neighbours.ADD_REMOVE, beta=0.05)
        yield {
            "k": k,
            "chosen": take,
            "loss": float(np.mean(losses)),
            "promised": promised,
            "one by one": float(np.mean(noisy)),
        }


def _worst(counts: Any, chosen: list[int]) -> float:
    left = counts.astype(float)
    worst = 0.0
    for c in chosen:
        worst = max(worst, left.max() - left[c])
        left[c] = -1
    return worst
