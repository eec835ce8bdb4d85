"""All that a mechanism's result says, by name: what an audit of a release compares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import groupby
from typing import Any, Final
from zlib import crc32

import numpy as np

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit.features import Named, leaves
from qrelease.inference.measurement import Measurement
from qrelease.inference.number_tables import MeasuredSums
from qrelease.inference.synopsis import Scaled, Synopsis
from qrelease.mechanisms.base import MechanismResult
from qrelease.privacy.costs import Spend
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload

_LISTED_NUMBERS: Final = 64
"""Of a list in a synopsis so many numbers are compared one by one; of a longer one their sum and a checksum of all."""

_SAMPLED_ROWS: Final = 64
"""Synthetic records that are drawn: a public number."""

_SAMPLE_SEED: Final = 0
"""Public too, and the same in every run: two samples of one synopsis are the same."""

_SINGLE: Final = frozenset([bool, int, float, str])
"""Kinds of JSON values without parts."""

_PACKAGE: Final = __name__.partition(".")[0]


class Contents:
    """The names of what results for one workload say, and what each says."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._answers = distinct(f"the answer to {text!r}" for text in workload.texts())
        self._labels = cache(partial(_labels, workload.domain))
        self._refusing = set[type]()

    @cached_property
    def _universe(self) -> Workload:
        """Every cell of the universe."""
        domain = self._workload.domain
        return Workload.marginals(domain, [list(domain.names)])

    @cached_property
    def _cells(self) -> list[str]:
        return [f"the count of {text!r} by the synopsis" for text in self._universe.texts()]

    @cached_property
    def _sampled(self) -> list[str]:
        return [f"the synthetic records with {text!r}" for text in self._universe.texts()]

    def of(self, draft: MechanismResult, spends: Sequence[Spend]) -> Named:
        """What a result says: all that a manifest has of it, and what whoever has the synopsis can ask.

        spends  as `Private` wrote them down
        """
        synopsis = draft.synopsis
        told = Named({"the number of records": float(synopsis.total)})
        times, values = Counter[Group](), list[float]()
        for i, m in enumerate(draft.measurements):
            times[m.group] += 1
            numbers = m.values.tolist()
            told.update(zip(self._labels(m.group, times[m.group]), [*_facts(i, m), *numbers], strict=True))
            values += numbers
        told["the laws and units of the noise"] = _laws(draft.measurements)
        answers = synopsis.answer(self._workload).tolist()
        told.update(zip(self._answers, answers, strict=True))
        _tell_negative_zeros("the values of measurements", values, told)
        _tell_negative_zeros("the answers", answers, told)
        chosen = list(leaves(dict(draft.choices)))
        told.update((f"what was chosen: {path}", part) for path, part in chosen)
        told["how it is written what was chosen"] = ", ".join([f"{path} {_kind(part)}" for path, part in chosen])
        told.update((f"what spend {i} is of", f"{spend.what}, {spend.cost!r}") for i, spend in enumerate(spends, 1))
        if draft.constrained is not False:
            told["whether rules are kept"] = repr(draft.constrained)
        if draft.measured_sums is not None:
            _describe("the sums", _sums(draft.measured_sums), told)
        self._of_synopsis(synopsis, told)
        return told

    def _of_synopsis(self, synopsis: Synopsis, told: Named) -> None:
        """What is in a synopsis: its description, the counts of all cells, and synthetic records."""
        _describe("the synopsis", synopsis.to_json(), told)
        kind = _kind_of_package(synopsis)
        if kind is None or kind not in self._refusing:
            try:
                cells = synopsis.answer(self._universe).tolist()
            except (
                InvalidInput,
                TooLarge,
            ):  # it answers nothing but what it was asked, in the package for public reasons
                if kind is not None:
                    self._refusing.add(kind)
            else:
                told.update(zip(self._cells, cells, strict=True))
                _tell_negative_zeros("the counts of cells by the synopsis", cells, told)
        # The package's own draw records from what their descriptions have: it would take most of the time of an audit.
        if kind is None and synopsis.has_table:
            codes = [np.asarray(c) for c in synopsis.sample(_SAMPLED_ROWS, np.random.default_rng(_SAMPLE_SEED))]
            shape = self._workload.domain.shape
            places = np.ravel_multi_index(tuple(c.astype(np.int64) for c in codes), shape)
            counts = np.bincount(places, minlength=math.prod(shape)).astype(np.float64)
            told.update(zip(self._sampled, counts.tolist(), strict=True))
            told["the order of the synthetic records"] = _checksum(places)


def distinct(names: Iterable[str]) -> list[str]:
    """Names, of which those that were there before have their number behind them: two families may share a query."""
    times = Counter[str]()
    found = []
    for name in names:
        times[name] += 1
        found.append(name + f", no. {times[name]}" * (times[name] > 1))
    return found


def _labels(domain: Domain, group: Group, time: int) -> list[str]:
    """What the facts and numbers of a measurement are called, the first of a group or a later one."""
    described = group.queries.to_json()
    of = f"the measurement of {described['type']} of {domain.named(group.axes)}"
    if not isinstance(group.queries, Cells):  # others on the same columns may differ in what the queries are
        of += f" (queries {crc32(repr(described).encode()):08x})"
    of += f", no. {time}" * (time > 1)
    queries = distinct(f"{text!r} in {of}" for text in Workload(domain, (group,)).texts())
    return [f"the place of {of}", f"the repeats of {of}", f"the noise of {of}", *queries]


def _facts(number: int, m: Measurement) -> list[float]:
    return [float(number), float(m.repeats), float(m.noise.scale)]


def _laws(measurements: Iterable[Measurement]) -> str:
    """The laws and units of the noise, in the order of the measurements, each once for those alike in a row."""
    rows = groupby((m.noise.law, m.noise.unit) for m in measurements)
    return ", ".join([f"{len(list(row))} of {law} in {unit!r}" for (law, unit), row in rows])


def _sums(sums: MeasuredSums) -> dict[str, Any]:
    """What a manifest has of sums that were measured."""
    tables = [
        {**part.to_json(), "noise": [m.noise.law, m.noise.scale, m.noise.unit], "values": m.values.tolist()}
        for part, m in zip(sums.parts, sums.measured, strict=True)
    ]
    chosen = [choices.to_json() for choices in sums.chosen]
    clips = {name: list(bounds) for name, bounds in sums.clips.items()}
    return {
        "questions": list(sums.questions),
        "clip": clips,
        "records": sums.records,
        "tables": tables,
        "chosen": chosen,
    }


def _describe(name: str, content: object, told: Named) -> None:
    """Add the leaves of a JSON value, and how they are written: the order of its names, the kinds of its values."""
    written: list[str] = []
    _walk(f"{name}:", content, told, written)
    told[f"how {name} is written"] = " ".join(written)


def _walk(path: str, content: object, told: Named, written: list[str]) -> None:
    if content is None or type(content) in _SINGLE:
        told[path] = content
        written.append(_kind(content))
    elif isinstance(content, Mapping):
        for key, part in content.items():
            written.append(str(key))
            _walk(f"{path} {key}", part, told, written)
    elif isinstance(content, list | tuple):
        _walk_list(path, content, told, written)
    else:
        for place, part in leaves(content):
            told[f"{path} {place}"] = part
            written.append(_kind(part))


def _walk_list(path: str, content: Sequence[Any], told: Named, written: list[str]) -> None:
    written.append(f"{len(content)} parts")
    kinds = set(map(type, content))
    if kinds <= {float} and len(content) <= _LISTED_NUMBERS:
        told.update(zip(_places(path, len(content)), content, strict=True))
        _tell_negative_zeros(path, content, told)
    elif len(content) > _LISTED_NUMBERS and (array := _array(content)) is not None:
        written.append(f"{array.shape} {array.dtype}")
        told[f"{path} sum"], told[f"{path} checksum"] = float(array.sum()), _checksum(array)
    else:
        for place, part in zip(_places(path, len(content)), content, strict=True):
            _walk(place, part, told, written)


def _array(content: Sequence[Any]) -> Any:
    """A list of numbers, or of rows of numbers of one length, as an array; None for others."""
    try:
        array = np.asarray(content)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" else None


@cache
def _places(path: str, count: int) -> list[str]:
    return [f"{path} {i}" for i in range(count)]


def _checksum(numbers: Any) -> str:
    """A text that stands for many numbers."""
    return f"checksum {crc32(np.ascontiguousarray(numbers).tobytes()):08x} of {numbers.size} numbers"


def _kind(part: object) -> str:
    """What of a value a float does not have: 1, 1.0 and true are one number, 0.0 and -0.0 too, and None is like NaN."""
    kind = type(part).__name__
    if isinstance(part, float) and part == 0 and math.copysign(1, part) < 0:
        return f"{kind} -0"
    if type(part) is int and abs(part) >= 1 << 53:  # floats do not have all of these
        return f"{kind} {part}"
    return kind


def _tell_negative_zeros(what: str, numbers: Sequence[float], told: Named) -> None:
    """Where some zeros are negative, tell which: they are written otherwise than zeros, and equal to them."""
    if 0.0 in numbers and (negative := [i for i, x in enumerate(numbers) if x == 0 and math.copysign(1, x) < 0]):
        told[f"negative zeros among {what}"] = str(negative)


def _kind_of_package(synopsis: Synopsis) -> type | None:
    """The class of a synopsis of the package; None for one from elsewhere."""
    while isinstance(synopsis, Scaled):
        synopsis = synopsis.synopsis
    kind = type(synopsis)
    return kind if kind.__module__.partition(".")[0] == _PACKAGE else None
