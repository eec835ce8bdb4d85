"""Multiplicative weights on a histogram, with replay of old measurements (Hardt, Ligett & McSherry 2012)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from qrelease._util.progress import progress
from qrelease._util.typing import Axes, Floats
from qrelease._util.validate import real, whole
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import Measurement

MAX_QUIET_SWEEPS: Final = 16
"""Sweeps of an update up to which no progress is shown."""


@final
@dataclass(frozen=True)
class MultiplicativeWeights:
    """Multiplicative weights on a histogram, with replay of all measurements in each update.

    A sweep scales every cell of the universe by e^(Σ_q q(cell) · s_q), over all measured queries q, where
    s_q = step · (v_q - q(y)) / (q(y) + caution · σ_q), at most 1 in size: v_q the noisy answer and σ_q its standard
    deviation. It is the rule of Hardt, Ligett & McSherry 2012, whose exponent is (v_q - q(y)) / 2n, with a step that
    suits each query instead of the worst one: far above the noise it is the step of iterative proportional fitting,
    which sets q(y) to v_q at once; below the noise it is small, so that noise is not fitted. The step begins at 4/M for
    M > 4 measurements, which pull at the same cells together. It halves when the squared error (in units of σ) did not
    fall, and that sweep is undone; it recovers by a third a sweep.

    Parameters
    ----------
    sweeps
        Passes over the universe at each update.
    caution
        How many standard deviations of the noise keep steps small, as above; 16 measured best over the tables of the
        benchmark, and between 4 and 64 it hardly matters.

    References
    ----------
    Hardt, Ligett & McSherry 2012, *A simple and practical algorithm for differentially private data release*.
    """

    sweeps: int = 4
    caution: float = 16.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sweeps", whole("sweeps", self.sweeps, least=1))
        object.__setattr__(self, "caution", real("caution", self.caution))
        if self.caution < 0:
            raise InvalidInput(f"caution must be at least 0, got {self.caution}")

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Histogram:
        """The uniform histogram."""
        return Histogram(domain, sets, total)

    def update(self, state: Histogram, measurements: Sequence[Measurement]) -> Histogram:
        """Fit all measurements, in `sweeps` passes."""
        sweeps = self.fitting(state, measurements)
        # A few sweeps are a step of a loop that shows its own progress.
        quiet = self.sweeps <= MAX_QUIET_SWEEPS
        for _ in progress(sweeps, desc="fitting", total=self.sweeps, disable=quiet):
            pass
        return state

    def fitting(self, state: Histogram, measurements: Sequence[Measurement]) -> Iterator[None]:
        """`update` in parts: a sweep whenever it is asked for the next."""
        step = min(1.0, 4 / len(measurements))
        error, logs = self._compare(state, measurements)
        for _ in range(self.sweeps):
            state.multiply(step * logs)
            after, turned = self._compare(state, measurements)
            if after > error:
                state.multiply(-step * logs)
                step /= 2
            else:
                error, logs, step = after, turned, min(1.0, step * 4 / 3)
            yield

    def _compare(self, state: Histogram, measurements: Sequence[Measurement]) -> tuple[float, Floats]:
        """The squared error in units of σ, and the exponents of the next sweep, flat over the state's marginals."""
        marginals = state.marginals
        logs = np.zeros_like(marginals)
        error = 0.0
        for m in measurements:
            where = state.slice(m.group.axes)
            queries = m.group.queries
            answers = queries.apply(marginals[where]) * queries.unit
            gaps = m.values - answers
            error += float(gaps @ gaps) / m.variance
            relative = gaps / np.maximum(answers + self.caution * np.sqrt(m.variance), 1e-9)
            # Queries of one group may overlap (ranges do): their steps are shared out among the most on one cell.
            overlap = max(queries.sensitivity(1, replace=False), 1)
            logs[where] += queries.adjoint(np.clip(relative, -1, 1)) / overlap
        return error, logs
