"""`Answers`: separate noisy answers as a synopsis, not consistent with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import Measurement
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload

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
        """What `to_json` described, with the measurements that the manifest lists by themselves.

        Those that another mechanism made before, as `Auto` counts the records, are no part of it: of each group of the
        workload the last one counts.
        """
        own = {m.group: m for m in measurements if m.group in workload.groups}
        total = float(content["total"])
        return cls(workload, np.array(content["values"], np.float64), total, tuple(own.values()))
