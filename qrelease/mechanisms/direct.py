"""What the two baselines share: noise on every answer at once, then clipping and normalising."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease import memory
from qrelease.contracts import Draft
from qrelease.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.exact import whole
from qrelease.histogram import Histogram, check_size
from qrelease.measure import Measurement, Noise, Private, noise_for
from qrelease.privacy import Cost, Neighbours
from qrelease.privacy.costs import positive_probability
from qrelease.queries import Cells
from qrelease.updates import MultiplicativeWeights
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]

MAX_ANSWERS = 1 << 26
"""At a gibibyte for exact, noisy and processed answers."""

_FITTED = 1 << 32
"""Cells that a fit may pass over: some seconds. In 64 to 128 sweeps the answers are fitted, and their noise is not."""


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """Separate answers to each group of a workload, not consistent with each other.

    It answers the groups it holds, and queries on columns that one of its marginals contains. Its records come from a
    histogram that multiplicative weights fit to the measurements when records are asked for: post-processing, which
    costs nothing and changes no answer.
    """

    workload: Workload
    values: Floats
    total: float
    measurements: tuple[Measurement, ...]
    has_table = True

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.workload.domain

    @cached_property
    def _held(self) -> dict[Group, Floats]:
        return dict(zip(self.workload.groups, np.split(self.values, self.workload.bounds[1:-1]), strict=True))

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. Raises `InvalidInput` for another domain, and for a group that nothing here contains."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this release")
        if workload is self.workload:
            return self.values
        return np.concatenate([self._group(g) for g in workload.groups])

    def _group(self, asked: Group) -> Floats:
        held = self._held
        if asked in held:
            return held[asked]
        wider = [g for g in held if isinstance(g.queries, Cells) and set(asked.axes) <= set(g.axes)]
        if not wider:
            names = ", ".join(self.domain.names[a] for a in asked.axes)
            raise InvalidInput(f"no released marginal contains the columns {names}; this release has no table")
        source = min(wider, key=lambda g: g.queries.count)
        away = tuple(i for i, a in enumerate(source.axes) if a not in asked.axes)
        table = held[source].reshape([self.domain.shape[a] for a in source.axes]).sum(axis=away)
        return asked.queries.apply(table.reshape(-1)) * asked.queries.unit

    @cached_property
    def histogram(self) -> Histogram:
        """Fitted to the measurements when it is first asked for: some seconds. `TooLarge` where there is none."""
        rule = MultiplicativeWeights(min(max(_FITTED // self.domain.size, 64), 128))
        return rule.update(rule.start(self.domain, self.workload.sets, max(self.total, 1.0)), self.measurements)

    def sample(self, rows: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Records of the fitted histogram. `TooLarge` for a universe that has none."""
        return self.histogram.sample(rows, rng)

    def to_json(self) -> dict[str, Any]:
        """The answers."""
        return {"type": "answers", "total": self.total, "values": self.values.tolist()}

    @classmethod
    def from_json(
        cls, workload: Workload, content: Mapping[str, Any], measurements: tuple[Measurement, ...]
    ) -> Answers:
        """What `to_json` described, with the measurements that the manifest lists by themselves."""
        return cls(workload, np.array(content["values"], np.float64), float(content["total"]), measurements)


def check_answers(workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
    """`TooLarge` for more answers than fit in memory, `InvalidInput` for noise beyond the samplers' range."""
    if len(workload) > MAX_ANSWERS:
        raise TooLarge(f"{len(workload):,} separate answers are too many; at most {MAX_ANSWERS:,} fit")
    memory.check(memory.ANSWER * len(workload), f"{len(workload):,} separate answers", "ask fewer")
    noise_for(workload, cost, neighbours)


def unfitted(workload: Workload) -> str | None:
    """Why no histogram can be fitted to separate answers, if none can: by public facts, as a release may say it."""
    try:
        with memory.unused():
            check_size(workload.domain, workload.sets, len(workload), ahead=False)
    except TooLarge as reason:
        return reason.public
    return None


def measure_all(private: Private, workload: Workload, cost: Cost) -> Draft:
    """All answers with noise for the whole workload at once, then each marginal made a table of counts.

    A marginal is projected to the nearest non-negative table (Euclidean) with the common total: the public one, or
    what all marginals' noisy sums agree on. Other answers are clipped to [0, total]. Post-processing, and free.
    """
    measurements = private.measure(workload, cost)
    total = _total(private, measurements)
    parts = [
        project(m.values, total) if isinstance(m.group.queries, Cells) else np.clip(m.values, 0, total)
        for m in measurements
    ]
    measured = tuple(measurements)
    return Draft(Answers(workload, np.concatenate(parts), total, measured), measured)


def promised_error(workload: Workload, records: int, cost: Cost, neighbours: Neighbours, beta: float) -> float:
    """What `measure_all` promises: with probability 1 - β no answer is off by more than this fraction of n `records`.

    t/n without marginals, (2t + d)/n with them, where with probability 1 - β none of the noises exceeds t (a union
    bound, as Dwork & Roth 2014, Theorem 3.8) and the common total is off by at most d. Above 1 it says nothing.

    *Proof.* Clipping brings answers closer to the truth p, or as close as the total is. Projecting v = p + e, with
    |e| <= t, to the sum n ± d gives max(v - θ, 0) for some θ. If θ were above t + d, all cells together would lose
    more than d; if below -(t + d), gain more than d. So a cell that is not 0 is off by |e - θ| <= 2t + d, and one
    that is had p <= θ + t. ∎
    """
    n, beta = whole("records", records, least=1), positive_probability("beta", beta)
    noise, _ = noise_for(workload, cost, neighbours)
    cells = [g.queries.count for g in workload.groups if isinstance(g.queries, Cells)]
    if not cells:
        return _largest(noise, len(workload), beta) / n
    if neighbours is Neighbours.REPLACE_ONE:
        return 2 * _largest(noise, len(workload), beta) / n
    return (2 * _largest(noise, len(workload), beta / 2) + _off_total(noise, cells, beta / 2)) / n


def _largest(noise: Noise, draws: int, beta: float) -> float:
    """t, a count, such that of so many draws one exceeds it in size with probability at most β.

    P(|Y| > t) = 2q^(t+1) / (1 + q) for the discrete Laplace law on integers, q = e^(-1/b). A rounded Gaussian is within
    half a unit of a real one; P(Y >= m) of a discrete one is at most that of a real one at m - 1 (Canonne, Kamath &
    Steinke 2020, Proposition 25).
    """
    if noise.law == "discrete Laplace":
        b = noise.scale / noise.unit
        return max(math.ceil(b * math.log(2 * draws / (beta * (1 + math.exp(-1 / b))))) - 1, 0) * noise.unit
    from scipy.special import ndtri

    quantile = -float(ndtri(beta / (2 * draws)))
    return noise.scale * quantile + noise.unit * (0.5 if noise.law == "rounded Gaussian" else 1.0)


def _off_total(noise: Noise, cells: Sequence[int], beta: float) -> float:
    """d, a count, such that `_total` of marginals of so many cells is off by more with probability at most β.

    It is a sum of independent noises with weights a; A = Σ a². By Chernoff's bound, at h <= 1/(√2 b max a): the
    logarithm of a Laplace law's moment function, -ln(1 - (hab)²), is at most 2 ln 2 (hab)² there, and that of the
    discrete law is less. A discrete Gaussian's is at most (haσ)²/2 (Canonne, Kamath & Steinke 2020), a rounded one's,
    by Hölder's inequality, as if σ were half a unit more.
    """
    inverse = sum(1 / c for c in cells)
    squares, logs = 1 / inverse, math.log(2 / beta)
    if noise.law == "discrete Laplace":
        variance = 2 * math.log(2) * squares * noise.scale**2
        h = min(math.sqrt(logs / variance), inverse * min(cells) / (math.sqrt(2) * noise.scale))
        return h * variance + logs / h
    sigma = noise.scale + (noise.unit / 2 if noise.law == "rounded Gaussian" else 0.0)
    return sigma * math.sqrt(2 * logs * squares)


def _total(private: Private, measurements: Sequence[Measurement]) -> float:
    if private.neighbours is Neighbours.REPLACE_ONE:
        return float(len(private.table))
    sums = [(m.values.sum(), 1 / len(m.values)) for m in measurements if isinstance(m.group.queries, Cells)]
    if not sums:  # no query is larger than the number of records, so the largest answer is what is known of it
        return max(1.0, *(float(m.values.max()) for m in measurements))
    return max(1.0, float(sum(s * w for s, w in sums) / sum(w for _, w in sums)))


def project(values: Floats, total: float) -> Floats:
    """The nearest vector, in Euclidean distance, that is non-negative and has the given sum.

    Held, Wolfe & Crowder 1974: subtract the one threshold at which the positive parts have that sum.
    """
    if total <= 0:
        return np.zeros_like(values)
    values = values - values.max()  # a common shift changes nothing, and keeps what matters near zero
    ordered = np.sort(values)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    above = np.flatnonzero(ordered > thresholds)[-1]
    projected: Floats = np.maximum(values - thresholds[above], 0.0)
    return projected
