"""`Answers`: separate noisy answers as a synopsis, not consistent with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats, Ints
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.inference.linear_answers import linear_answers, measured_places
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

    It answers the groups it holds, queries on columns that one of its marginals contains, and those that are a linear
    combination of what was measured, as a range is of others (`linear_answers`). Its records come from a histogram that
    multiplicative weights fit to the measurements when records are asked for: post-processing, which costs nothing and
    changes no answer.
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
        wider = self._wider(asked)
        if not wider:
            return self._combined(asked)
        source = min(wider, key=lambda g: g.queries.count)
        away = tuple(i for i, a in enumerate(source.axes) if a not in asked.axes)
        table = held[source].reshape([self.domain.shape[a] for a in source.axes]).sum(axis=away)
        return asked.queries.apply(table.reshape(-1)) * asked.queries.unit

    def _wider(self, asked: Group) -> list[Group]:
        """The marginals that contain the columns of a group."""
        return [g for g in self._held if isinstance(g.queries, Cells) and set(asked.axes) <= set(g.axes)]

    def _combined(self, asked: Group) -> Floats:
        """Answers from queries that are no cells: those that were measured as they are held, others not below 0."""
        values, _ = linear_answers(asked, self.measurements, self.domain)
        if np.isnan(values).any():
            names = ", ".join(self.domain.names[a] for a in asked.axes)
            raise InvalidInput(
                f"no released marginal contains the columns {names}, and the answer does not follow from the queries"
                " that were measured; ask for one of those, or count synthetic records where there are any"
            )
        values = np.maximum(values, 0.0)
        for k, (group, place) in enumerate(self._places(asked).tolist()):
            if group >= 0:
                values[k] = self.values[self.workload.bounds[group] + place]
        return values

    def _places(self, asked: Group) -> Ints:
        return measured_places(asked, self.workload.groups, self.domain)

    def holds(self, workload: Workload) -> npt.NDArray[np.bool_]:
        """Which answers are those of queries that it holds, (k,): not computed from others."""
        held, parts = self._held, []
        for group in workload.groups:
            if group in held:
                parts.append(np.ones(group.queries.count, bool))
            elif self._wider(group):
                parts.append(np.zeros(group.queries.count, bool))
            else:
                parts.append(self._places(group)[:, 0] >= 0)
        return np.concatenate(parts)

    def bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """Unbiased answers (k,) that follow from the queries that are no cells, and half-widths; NaN for the others."""
        parts = [linear_answers(g, self.measurements, self.domain) for g in workload.groups]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

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
