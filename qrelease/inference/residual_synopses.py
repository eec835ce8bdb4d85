"""Synopses made of measured residuals: `Modelled`, the histogram fitted to them, and `Linear`, unbiased answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Axes, Floats
from qrelease._util.validate import real
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.inference.maxent import DENSE, fit_histogram
from qrelease.inference.measurement import Measurement, as_stored
from qrelease.inference.residuals import Estimates
from qrelease.noise.distributions import half_widths
from qrelease.queries.families import Residuals
from qrelease.queries.workload import Workload

_BARS = 2.4
"""Standard deviations of the model's 95 % error bars: 1.96 would do if J and ω were known. They cover 96 to 99 % of the
cells of nltcs, Adult and br2000 at ε = 0.1, 1, 10, and of small tables of 100 records 98 %."""


@final
@dataclass(frozen=True, eq=False)
class Modelled:
    """A histogram that was fitted to residuals, which it keeps: what it says, and what was measured.

    estimates  the linear, unbiased answers, with their own error bars
    workload   whose answers have error bars under the model too
    widths     half-widths of those, (k,) counts; NaN where the model has none
    last       how many of the release's last measurements it is made of; 0 for all of `Residuals`
    made_of    these, where `fitted` made it: a mechanism of one's own may have put others last
    """

    histogram: Histogram
    estimates: Estimates
    workload: Workload
    widths: Floats
    last: int = 0
    made_of: tuple[Measurement, ...] = ()
    has_table = True

    @classmethod
    def of(cls, estimates: Estimates, workload: Workload, last: int = 0, dense: int = DENSE) -> Modelled:
        """The fit, up to so many coordinates with a matrix of them; it takes seconds, or minutes for the largest.

        The same estimates give the same histogram, to the last bit where BLAS is the same: it takes one thread.
        """
        histogram, posterior = fit_histogram(estimates, dense)
        widths = _BARS * np.sqrt(posterior.variances(workload))
        if not posterior.solved:  # the linear answer is within its own bar, and this one as far from it as it is
            linear, variances = estimates.answer(workload)
            widths = np.abs(histogram.answer(workload) - linear) + half_widths(variances, estimates.order)
        number = estimates.residuals[()]
        if not number.variance:  # it is public; the fit takes nobody for one record
            histogram.total = float(number.values)
        return cls(histogram, estimates, workload, widths, last)

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.histogram.domain

    @property
    def total(self) -> float:
        """The number of records."""
        return self.histogram.total

    @property
    def measured_sets(self) -> list[Axes]:
        """The sets of columns whose residuals were measured."""
        return [*self.estimates.residuals]

    def answer(self, workload: Workload) -> Floats:
        """What the model says, (k,) counts. `InvalidInput` for another domain."""
        return self.histogram.answer(workload)

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """The linear answers (k,) and half-widths (k,) of their 95 % error bars; NaN for what was not measured."""
        return _linear(self.estimates, workload)

    def model_bars(self, workload: Workload) -> Floats:
        """Half-widths (k,) of 95 % error bars around what the model says, counts; NaN but for its own workload."""
        held = dict(zip(self.workload.groups, np.split(self.widths, self.workload.bounds[1:-1]), strict=True))
        return np.concatenate([held.get(g, np.full(g.queries.count, np.nan)) for g in workload.groups])

    def sample(self, rows: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Records of the histogram."""
        return self.histogram.sample(rows, rng)

    def to_json(self) -> dict[str, Any]:
        """The histogram, and the widths; the residuals are in the measurements."""
        widths = [None if np.isnan(w) else w for w in as_stored(self.widths).tolist()]
        return {"type": "maximum entropy", "histogram": self.histogram.to_json(), "widths": widths, **_last(self)}

    @classmethod
    def from_json(cls, workload: Workload, content: Mapping[str, Any], measurements: Sequence[Measurement]) -> Modelled:
        """What `to_json` described."""
        histogram = Histogram.from_json(workload.domain, content["histogram"])
        widths = np.array([np.nan if w is None else w for w in content["widths"]], np.float64)
        estimates = _estimates(workload.domain, measurements, histogram.total, content)
        return cls(histogram, estimates, workload, widths, int(content.get("measurements", 0)))


@final
@dataclass(frozen=True, eq=False)
class Linear:
    """Linear, unbiased answers to queries on marginals whose residuals were measured; cells may be negative.

    last  how many of the release's last measurements they are made of; 0 for all of `Residuals`
    """

    estimates: Estimates
    last: int = 0
    has_table = False

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.estimates.domain

    @property
    def total(self) -> float:
        """The number of records."""
        return float(self.estimates.residuals[()].values)

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. `InvalidInput` for another domain, and for what was not measured."""
        return self.estimates.answer(workload)[0]

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """The answers (k,) and half-widths (k,) of their 95 % error bars; NaN for what was not measured."""
        return _linear(self.estimates, workload)

    def sample(self, rows: int, rng: np.random.Generator) -> NoReturn:
        """There are none."""
        raise InvalidInput("this release has answers but no table: its universe is too large for a histogram")

    def to_json(self) -> dict[str, Any]:
        """The number of records: the rest is in the measurements."""
        return {"type": "residuals", "total": self.total, **_last(self)}

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any], measurements: Sequence[Measurement]) -> Linear:
        """What `to_json` described, with the measurements that the manifest lists by themselves."""
        estimates = _estimates(domain, measurements, float(content["total"]), content)
        made = cls(estimates, int(content.get("measurements", 0)))
        if not math.isclose(made.total, content["total"], rel_tol=1e-9, abs_tol=1e-9):
            raise InvalidInput(f"total: {content['total']} is not that of the measurements, {made.total}")
        return made


def _last(synopsis: Modelled | Linear) -> dict[str, Any]:
    """What a description says of measurements that are not of `Residuals`."""
    number = synopsis.estimates.residuals[()]
    public = None if number.variance else float(number.values)
    return {"measurements": synopsis.last, "public": public} if synopsis.last else {}


def _estimates(
    domain: Domain, measurements: Sequence[Measurement], total: float, content: Mapping[str, Any]
) -> Estimates:
    """The estimates from all measured residuals, or from the last ones; and from the number of records, if public."""
    last = int(content.get("measurements", 0))
    if last:
        public = content["public"]
        found = Estimates.of(domain, measurements[-last:], None if public is None else real("public", public))
        if () not in found.residuals:
            raise InvalidInput(f"measurements: the last {last} do not give the number of records, and it is not public")
        return found
    if "public" in content:
        raise InvalidInput("public: it is of so many last measurements, and measurements is missing or 0")
    residuals = [m for m in measurements if isinstance(m.group.queries, Residuals)]
    return Estimates.of(domain, residuals, None if any(m.group.axes == () for m in residuals) else total)


def _linear(estimates: Estimates, workload: Workload) -> tuple[Floats, Floats]:
    given = [estimates.gives(g.axes) for g in workload.groups]
    if all(given):  # of very many answers there is no copy
        values, variances = estimates.answer(workload)
        return values, half_widths(variances, estimates.order)
    values, widths = (np.full(len(workload), np.nan) for _ in range(2))
    kept = tuple(g for g, there in zip(workload.groups, given, strict=True) if there)
    if kept:
        where = np.repeat(given, [g.queries.count for g in workload.groups])
        values[where], variances = estimates.answer(Workload(workload.domain, kept))
        widths[where] = half_widths(variances, estimates.order)
    return values, widths
