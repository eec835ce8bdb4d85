"""Draws per second of every sampler next to OpenDP's, the cost of small calls and selections, and what words tell.

    python -m benchmarks.noise [--json]

One thread. `reference` is OpenDP in the same run where it has the sampler and is installed; for a latency or a
correlation it is the limit that we hold ourselves to. `ratio` is value / reference.
"""

import argparse
import json
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from qrelease.noise.entropy import Entropy, WordSource
from qrelease.noise.samplers import discrete_gaussian, discrete_laplace, geometric, rounded_gaussian
from qrelease.noise.selection import exponential_mechanism, permute_and_flip, report_noisy_max

DRAWS = 1_000_000
PEER_DRAWS = 20_000
CANDIDATES = 30_000
BATCHES, BATCH = 20_000, 100

SAMPLERS: dict[str, Callable[[Fraction, int, WordSource], np.ndarray]] = {
    "discrete_laplace": discrete_laplace,
    "geometric": geometric,
    "discrete_gaussian": lambda scale, size, entropy: discrete_gaussian(scale * scale, size, entropy),
    "rounded_gaussian": lambda scale, size, entropy: rounded_gaussian(scale * scale, size, entropy),
}
SCALES = [Fraction(1, 5), Fraction(1), Fraction(10), Fraction(100), Fraction(10**4), Fraction(10**6), Fraction(2**40)]


class Row(NamedTuple):
    """One line of the report."""

    name: str
    value: float
    unit: str
    reference: float | None

    def as_dict(self) -> dict[str, float | str | None]:
        return {**self._asdict(), "ratio": self.value / self.reference if self.reference else None}


def seconds(call: Callable[[], object], repeats: int = 7) -> float:
    """The best of a few runs, after one to warm up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def peer_rate(name: str, scale: float) -> float | None:
    """OpenDP's rate in draws/s for the same law, or None."""
    constructor = {"discrete_laplace": "then_laplace", "discrete_gaussian": "then_gaussian"}.get(name)
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    if constructor is None:
        return None
    dp.enable_features("contrib")
    metric = dp.l1_distance(T="i64") if name == "discrete_laplace" else dp.l2_distance(T=float)
    space = dp.vector_domain(dp.atom_domain(T="i64")), metric
    measurement = space >> getattr(dp.m, constructor)(scale)
    zeros = [0] * PEER_DRAWS
    return PEER_DRAWS / seconds(lambda: measurement(zeros), repeats=3)


def throughput() -> list[Row]:
    entropy, rows = Entropy(), []
    for name, sampler in SAMPLERS.items():
        for scale in SCALES:
            rate = DRAWS / seconds(partial(sampler, scale, DRAWS, entropy))
            rows.append(Row(f"{name} {float(scale):g}", rate, "draws/s", peer_rate(name, float(scale))))
    return rows


def latency() -> list[Row]:
    entropy, rows = Entropy(), []
    for name, sampler in SAMPLERS.items():
        for size in (1, 1000):
            calls = [seconds(partial(sampler, Fraction(50), size, entropy), repeats=200)]
            rows.append(Row(f"{name}, call of {size}", min(calls) * 1e6, "us", 50.0))
    fresh = iter(range(10_000))
    first = seconds(lambda: discrete_gaussian(Fraction(5000) + Fraction(next(fresh), 7), 1, entropy), repeats=50)
    return [*rows, Row("discrete_gaussian, first call at a variance", first * 1e6, "us", None)]


def selection() -> list[Row]:
    entropy = Entropy()
    scores = np.random.default_rng(1).integers(0, 1000, CANDIDATES)
    rows = []
    for mechanism in (exponential_mechanism, permute_and_flip):
        took = seconds(partial(mechanism, scores, Fraction(1, 10), 1, entropy))
        rows.append(Row(f"{mechanism.__name__}, {CANDIDATES} candidates", took * 1e3, "ms", 5.0))
    took = seconds(lambda: report_noisy_max(scores, Fraction(1, 10), 1, entropy, noise="laplace"))
    return [*rows, Row(f"report_noisy_max laplace, {CANDIDATES} candidates", took * 1e3, "ms", 5.0)]


class Counting:
    """A source that counts the words it gives."""

    def __init__(self) -> None:
        self.entropy, self.taken = Entropy(), 0
        self.insecure_seed = None

    def words(self, n: int) -> np.ndarray:
        self.taken += n
        return self.entropy.words(n)


def leakage() -> list[Row]:
    """Correlation of the words a batch consumes with the mean magnitude and the maximum of its draws."""
    rows = []
    for name, sampler in SAMPLERS.items():
        for scale in (Fraction(1), Fraction(10**4)):
            source, seen = Counting(), np.empty((BATCHES, 3))
            for i in range(BATCHES):
                before = source.taken
                magnitude = np.abs(sampler(scale, BATCH, source))
                seen[i] = source.taken - before, magnitude.mean(), magnitude.max()
            for column, what in ((1, "mean"), (2, "max")):
                constant = not seen[:, 0].std()
                value = 0.0 if constant else abs(np.corrcoef(seen[:, 0], seen[:, column])[0, 1])
                rows.append(Row(f"{name} {float(scale):g}, words against {what}", value, "|correlation|", 0.05))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    as_json = parser.parse_args().json
    rows = [row.as_dict() for part in (throughput, latency, selection, leakage) for row in part()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        peer = "" if row["ratio"] is None else f"   {row['ratio']:8.3g} x {row['reference']:.3g}"
        print(f"{row['name']:52} {row['value']:12.4g} {row['unit']:14}{peer}")


if __name__ == "__main__":
    main()
