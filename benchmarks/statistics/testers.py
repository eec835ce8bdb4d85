"""The Lipschitz-extension tester: level and power along n, its printed budget, and what the extension is worth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.statistics.setting import Row, Setting, results
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.privacy.costs import Neighbours, PureDP, split
from qrelease.statistics.lipschitz import LipschitzTester, Plan, extended
from qrelease.statistics.uniformity import UniformityTest

ONE = PureDP(1.0)
REPLACE = Neighbours.REPLACE_ONE


def _table(n: int, d: int, norm: float, rng: np.random.Generator) -> Table:
    bits = rng.random((d, n)) < (1 + norm / math.sqrt(d)) / 2
    return Table(Domain.coded({f"b{i}": 2 for i in range(d)}), tuple(bits.astype(np.int64)))


def _share(statistic: Any, tables: list[Table]) -> float:
    """How often it rejects."""
    values: list[Any] = [results(statistic, t, ONE, 1, REPLACE, first=i)[0].value for i, t in enumerate(tables)]
    return float(np.mean([v["rejects"] if "rejects" in v else v["p_value"] <= 0.05 for v in values]))


def extension(setting: Setting) -> Iterator[Row]:
    """Share of rejections at ε = 1 of d columns whose signs are uniform (level) or have means of norm 0.9 (power), by
    the tester of the Lipschitz extension for distance 0.9, and by the uniformity test at level 0.05. `promised` is the
    distance from which its level is promised at β = 0.05; `noise` is the scale in the end over that without rounds."""
    runs = setting.runs(200)
    sizes: dict[int, tuple[int, ...]] = {1: (100, 200, 300, 500, 1_000, 3_000), 2: (60, 100, 150)}
    if setting.quick:
        sizes = {1: (200, 1_000), 2: (150,)}
    for d, along in sizes.items():
        for n in along:
            rng = np.random.default_rng(n)
            null, far = ([_table(n, d, norm, rng) for _ in range(runs)] for norm in (0.0, 0.9))
            names = null[0].domain.names
            tester, test = LipschitzTester(names, 0.9), UniformityTest(names)
            promised = tester.error_bound(null[0].domain, n, ONE, REPLACE, beta=0.05)
            ends = [Plan.of(n, d, ONE, rounds).rounds[-1].scale for rounds in (2, 1)]
            yield {
                "d": d,
                "n": n,
                "level": _share(tester, null),
                "power": _share(tester, far),
                "test's level": _share(test, null),
                "test's power": _share(test, far),
                "promised": promised,
                "noise": float(ends[0] / ends[1]),
            }


@dataclass(frozen=True)
class _Losses:
    """How much each round loses between two neighbours: |T̂ − T̂'| over the scale of its noise."""

    plan: Plan

    def between(self, one: Any, other: Any) -> float:
        moved = [
            Fraction(abs(extended(one, self.plan.dimension, r) - extended(other, self.plan.dimension, r))) / r.scale
            for r in self.plan.rounds
        ]
        return float(sum(moved))


def budgets(setting: Setting) -> Iterator[Row]:
    """The loss that M rounds have on two neighbours (n rows that are alike, one replaced by its opposite) by the budget
    as printed, ε/M a round and ε in the end, and by ours: an exact ε of discrete Laplace noise. At ε = 1 `printed` is
    to be 2 − 1/M, which convicts it, and `ours` at most 1."""
    for rounds in (1, 2, 3) if setting.quick else (1, 2, 3, 5, 10):
        one, other = np.array([0, 3]), np.array([1, 2])
        ours = Plan.of(3, 1, ONE, rounds)
        printed = replace(ours, costs=(*([PureDP(1 / rounds)] * (rounds - 1)), split(PureDP(1.0), [1])[0]))
        found = {name: _Losses(plan).between(one, other) for name, plan in (("printed", printed), ("ours", ours))}
        yield {"M": rounds, **found, "claimed": 1.0, "convicted": found["printed"] > 1 + 1e-9}
