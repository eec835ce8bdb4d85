"""A stored synopsis, read again: from its type to its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qrelease._util.validate import real
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.inference.hypotheses import Dual
from qrelease.inference.least_squares import LeastSquares
from qrelease.inference.measurement import Measurement
from qrelease.inference.medians import Medians
from qrelease.inference.nets import Listed
from qrelease.inference.noisy_answers import Answers
from qrelease.inference.residual_synopses import Linear, Modelled
from qrelease.inference.synopsis import Scaled, Synopsis
from qrelease.inference.weighted_records import WeightedCodes, WeightedRecords
from qrelease.queries.workload import Workload
from qrelease.release.fields import floats, queries, reading, value_of


@dataclass(frozen=True)
class Context:
    """What a manifest says besides its synopsis, which some synopses are made of."""

    domain: Domain
    workload: Workload
    measurements: tuple[Measurement, ...]


def synopsis_of(content: Mapping[str, Any], context: Context) -> Synopsis:
    """The synopsis that `to_json` described.

    Numbers are checked here by the names that they have in all kinds of synopsis; what they say, by the kind. Raises
    `InvalidInput`, which names the field.
    """
    kind = content["type"]
    if not isinstance(kind, str) or kind not in _READERS:
        raise InvalidInput(f"this version knows no synopsis of type {kind!r}")
    if "total" in content:
        total = real("total", content["total"])
        if total < 0 and kind not in _SIGNED:
            raise InvalidInput(f"total: must not be negative, got {total}")
    if "records" in content:
        records = np.array(content["records"])
        if records.dtype.kind not in "iu" or records.ndim != 2 or records.shape[1] != len(context.domain):
            raise InvalidInput(f"records: must be rows of {len(context.domain)} codes")
        floats("weights", content["weights"], len(records))
    return _READERS[kind](content, context)


def _histogram(content: Mapping[str, Any], context: Context) -> Histogram:
    _check_factors(context.domain, content)
    histogram = Histogram.from_json(context.domain, content)
    _check_range(histogram)
    return histogram


def _answers(content: Mapping[str, Any], context: Context) -> Answers:
    floats("values", content["values"], len(context.workload))
    return Answers.from_json(context.workload, content, context.measurements)


def _modelled(content: Mapping[str, Any], context: Context) -> Modelled:
    widths = value_of("widths", content["widths"], list)
    known = floats("widths", [0 if w is None else w for w in widths], len(context.workload))
    if known.min() < 0:
        raise InvalidInput("widths: must not be negative")
    with reading("histogram"):
        _check_factors(context.domain, content["histogram"])
    modelled = Modelled.from_json(context.workload, content, context.measurements)
    _check_range(modelled.histogram)
    return modelled


def _linear(content: Mapping[str, Any], context: Context) -> Linear:
    linear = Linear.from_json(context.domain, content, context.measurements)
    if not all(linear.estimates.gives(g.axes) for g in context.workload.groups):
        raise InvalidInput("the measurements do not give all answers")
    return linear


def _least_squares(content: Mapping[str, Any], context: Context) -> LeastSquares:
    return LeastSquares.from_json(context.domain, content, context.measurements)


def _weighted_codes(content: Mapping[str, Any], context: Context) -> WeightedCodes:
    return WeightedCodes.from_json(context.domain, content, context.measurements)


def _weighted_records(content: Mapping[str, Any], context: Context) -> WeightedRecords:
    return WeightedRecords.from_json(context.domain, content)


def _scaled(content: Mapping[str, Any], context: Context) -> Scaled:
    with reading("synopsis"):
        other = synopsis_of(content["synopsis"], context)
        if not other.total > 0:
            raise InvalidInput("total: must be positive")
    return Scaled(other, float(content["total"]))


def _dual(content: Mapping[str, Any], context: Context) -> Dual:
    if value_of("queries", content["queries"], list):
        queries(context.domain, content["queries"])
    floats("coefficients", content["coefficients"], len(content["queries"]))
    return Dual.from_json(context.domain, content)


def _medians(content: Mapping[str, Any], context: Context) -> Medians:
    candidates = tuple(synopsis_of(c, context) for c in content["candidates"])
    return Medians(Listed(candidates), float(content["total"]))


_READERS: Mapping[str, Callable[[Mapping[str, Any], Context], Synopsis]] = {
    "histogram": _histogram,
    "answers": _answers,
    "maximum entropy": _modelled,
    "residuals": _linear,
    "least squares": _least_squares,
    "weighted codes": _weighted_codes,
    "weighted records": _weighted_records,
    "scaled": _scaled,
    "dual": _dual,
    "medians": _medians,
}
"""The class of each stored type, with what is checked before it is made. The types are stored names."""

_SIGNED = ("residuals", "least squares")
"""Types whose estimate of the number of records may have any sign."""


def _check_factors(domain: Domain, content: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` unless there is one number for each cell of some distinct marginals."""
    real("total", content["total"])
    if content["type"] != "histogram":
        raise InvalidInput(f"type: must be 'histogram', got {content['type']!r}")
    seen = set()
    for i, factor in enumerate(value_of("factors", content["factors"], list)):
        with reading(f"factor {i}"):
            axes = domain.axes(factor["columns"])
            if factor["columns"] != [domain.names[a] for a in axes] or axes in seen:
                raise InvalidInput("columns: must be distinct, in the domain's order")
            seen.add(axes)
            floats("logs", factor["logs"], domain.cells(axes))


def _check_range(histogram: Histogram) -> None:
    if not np.isfinite(histogram.marginals).all():
        raise InvalidInput("factors: their product is out of range")
