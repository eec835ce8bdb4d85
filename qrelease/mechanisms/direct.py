"""What the two baselines share: noise on every answer at once, then clipping and normalising."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.measure import Measurement, Private, noise_for
from qrelease.privacy import Cost, Neighbours
from qrelease.queries import Cells
from qrelease.release import Draft
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]

MAX_ANSWERS = 1 << 26
"""At a gibibyte for exact, noisy and processed answers."""


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """Separate answers to each group of a workload, not consistent with each other: a synopsis without a table.

    It answers the groups it holds, and queries on columns that one of its marginals contains.
    """

    workload: Workload
    values: Floats
    total: float
    has_table = False

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

    def sample(self, rows: int, rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
        """Always `InvalidInput`: separate answers are no table."""
        raise InvalidInput("a release of separate noisy answers has no synthetic table; use --mechanism mwem")

    def to_json(self) -> dict[str, Any]:
        """The answers."""
        return {"type": "answers", "total": self.total, "values": self.values.tolist()}

    @classmethod
    def from_json(cls, workload: Workload, content: Mapping[str, Any]) -> Answers:
        """What `to_json` described."""
        return cls(workload, np.array(content["values"], np.float64), float(content["total"]))


def check_answers(workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
    """`TooLarge` for more answers than fit in memory, `InvalidInput` for noise beyond the samplers' range."""
    if len(workload) > MAX_ANSWERS:
        raise TooLarge(f"{len(workload):,} separate answers are too many; at most {MAX_ANSWERS:,} fit")
    noise_for(workload, cost, neighbours)


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
    return Draft(Answers(workload, np.concatenate(parts), total), tuple(measurements))


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
