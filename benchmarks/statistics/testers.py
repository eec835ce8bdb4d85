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
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ApproxDP, Cost, Neighbours, PureDP, split
from qrelease.privacy.filters import Filter
from qrelease.statistics.lipschitz import LipschitzTester, Plan, extended
from qrelease.statistics.noise_source import ExactNoise
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.uniformity import EfficientTester, GaussianMeanTest, UniformityTest

ONE = PureDP(1.0)
REPLACE = Neighbours.REPLACE_ONE


def _table(n: int, d: int, norm: float, rng: np.random.Generator) -> Table:
    bits = rng.random((d, n)) < (1 + norm / math.sqrt(d)) / 2
    return Table(Domain.coded({f"b{i}": 2 for i in range(d)}), tuple(bits.astype(np.int64)))


def _share(statistic: Any, tables: list[Table], cost: Cost = ONE) -> float:
    """How often it rejects."""
    values: list[Any] = [results(statistic, t, cost, 1, REPLACE, first=i)[0].value for i, t in enumerate(tables)]
    return float(np.mean([v["rejects"] if "rejects" in v else v["p_value"] <= 0.05 for v in values]))


def extension(setting: Setting) -> Iterator[Row]:
    """Share of rejections at ε = 1 of d columns whose signs are uniform (level) or have means of norm 0.9 (power), by
    the tester of the Lipschitz extension for distance 0.9, and by the uniformity test at level 0.05. `promised` is the
    distance from which its level is promised at β = 0.05; `noise` is the scale in the end over that without rounds."""
    sizes: dict[int, tuple[int, ...]] = {1: (100, 200, 300, 500, 1_000, 3_000), 2: (60, 100, 150)}
    if setting.quick:
        sizes = {1: (200, 1_000), 2: (150,)}
    for d, along in sizes.items():
        runs = setting.runs(200 // d**2)  # all tables are listed in each
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


def powers(setting: Setting) -> Iterator[Row]:
    """Share of rejections along n at d = 10, ε = 1, δ = 1e-6 where rows are uniform (level) and where means have norm
    0.5 (power): of the uniformity test at level 0.05, of the test of a Gaussian mean by signs, at level 0.05, for a
    Mahalanobis gap of 0.5, whose signs have means of norm 0.4, and of the efficient tester for distance 0.5, with the
    constants proved here and as printed."""
    d, cost = 10, ApproxDP(1.0, 1e-6)
    names = tuple(f"b{i}" for i in range(d))
    forms: dict[str, tuple[Any, tuple[int, ...]]] = {
        "uniformity": (UniformityTest(names), (100, 300, 1_000)),
        "Gaussian mean": (GaussianMeanTest(names, (49.5,) * d, (100.0,) * d), (100, 300, 1_000)),
        "efficient, proved": (EfficientTester(names, 0.5), (500, 1_000, 2_000, 4_000)),
        "efficient, printed": (EfficientTester(names, 0.5, "printed"), (3_000, 6_000, 12_000)),
    }
    runs = setting.runs(100)
    for form, (test, along) in forms.items():
        for n in along[1::2] if setting.quick else along:
            rng, row = np.random.default_rng(n), Row(test=form, n=n)
            for key, norm in (("level", 0.0), ("power", 0.5)):
                tables = [
                    _gaussians(n, d, norm, rng) if form == "Gaussian mean" else _table(n, d, norm, rng)
                    for _ in range(runs)
                ]
                row[key] = _share(test, tables, cost)
            yield row


def _gaussians(n: int, d: int, gap: float, rng: np.random.Generator) -> Table:
    """Columns of 100 values of deviation 10, whose means are 49.5 or that far off in all."""
    drawn = rng.normal(49.5 + 10 * gap / math.sqrt(d), 10, (d, n))
    codes = np.clip(np.floor(drawn + 0.5), 0, 99).astype(np.int64)
    return Table(Domain.coded({f"b{i}": 100 for i in range(d)}), tuple(codes))


def steps(setting: Setting) -> Iterator[Row]:
    """What each step of the efficient tester spends at a cost of (4, 14e-7), which the text says to be (4ε, 14δ): its
    four steps with ε each, δ for the noise and the rest for the failures of the proof; and the three that are proved
    here at the same cost. The sum is the whole."""
    cost, names = ApproxDP(4.0 * (1 - 1e-12), 14e-7), tuple(f"b{i}" for i in range(10))
    table = _table(200, 10, 0.0, np.random.default_rng(0))
    for constants in ("printed", "proved"):
        door = PrivateColumns(table, REPLACE, Filter(cost), ExactNoise(Entropy.insecure(0)))
        EfficientTester(names, 0.5, "printed" if constants == "printed" else "proved").estimate(door, cost)
        parts = [spend.cost.to_json() for spend in door.spends]
        for spend, part in zip(door.spends, parts, strict=True):
            yield {
                "constants": constants,
                "step": spend.what,
                "epsilon": part["epsilon"],
                "delta": part.get("delta", 0.0),
            }
        sums = {key: math.fsum(part.get(key, 0.0) for part in parts) for key in ("epsilon", "delta")}
        yield {"constants": constants, "step": "all", **sums}


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
