"""Answers as a tidy table: one line a query, one key column for each attribute, and the numbers.

A query that is a cell of a marginal is named by its labels, in the key columns of the attributes that it is about; the
others are null there. Any other query is named by its text, in a column `query`, which is there where it is needed.

`answer`    the count to use; `answer` ± `model_95` is what to publish: 19 times out of 20 the truth lies within
`noisy`     the unbiased noisy answer where there is one, else null
`error_95`  the half-width of the error bar around `noisy`
`model_95`  the half-width of the error bar around `answer`: of the noise, and of what a model smooths over
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from qrelease.data.domain import Domain
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload
from qrelease.release.frames import Column, cells_of, ends_of, key_name, told_apart

MAX_ANSWERS: Final = 1_000_000
"""The most answers that are written by default."""

if TYPE_CHECKING:
    from qrelease.release.release import Release

NUMBERS = ("answer", "noisy", "error_95", "model_95")
DETAILS: Final = ("noisy", "error_95")
"""Those that nobody needs who publishes `answer` and its bar."""

QUERY = "query"

PART_ANSWERS = 1 << 20  # answers that are put together at a time


def answer_columns(release: Release, workload: Workload, *, edges: bool = False) -> dict[str, Column]:
    """The whole table of the answers to a workload, by column, with keys of the types of synthetic records.

    Where each cell of an attribute is one value, its key is that; a bin has its label. A missing cell is null, except
    where that would look like a query that is not about the attribute: there the key is a text.

    edges  whether the ends of bins are columns, too, behind their labels
    """
    parts, keys = list(answer_parts(release, workload)), _keys(workload)
    found: dict[str, Column] = {}
    for name in parts[0]:
        texts = Column(
            np.concatenate([part[name].values for part in parts]),
            np.concatenate([_lost(part[name]) for part in parts]),
        )
        axis = keys.get(name)
        found |= {name: texts} if axis is None else _typed(workload, name, axis, texts, edges=edges)
    return found


def marginal_columns(
    release: Release, workload: Workload, names: Sequence[str], *, edges: bool = False
) -> dict[str, Column]:
    """The same of one marginal, with its attributes in an order of their own, and its cells in that order too."""
    columns, domain = answer_columns(release, workload, edges=edges), workload.domain
    asked, order = [domain.axis(name) for name in names], sorted(map(domain.axis, names))
    cells = np.arange(len(workload)).reshape([domain.shape[axis] for axis in order])
    places = cells.transpose([order.index(axis) for axis in asked]).reshape(-1)
    key_of = {axis: key for key, axis in _keys(workload).items()}
    keys = [name for axis in asked for name in (key_of[axis], *_end_names(workload, axis)) if name in columns]
    return {name: columns[name].taken(places) for name in [*keys, *(name for name in columns if name not in keys)]}


def _typed(workload: Workload, name: str, axis: int, texts: Column, *, edges: bool) -> dict[str, Column]:
    """The key column of an attribute, of the type of its values, or of its bins and perhaps their ends."""
    attribute, codes = workload.domain.attributes[axis], _key_codes(workload, axis)
    cells, elsewhere = cells_of(attribute), codes < 0

    def spread(column: Column) -> Column:
        """The values of cells, null in the lines of other queries."""
        taken = column.taken(np.maximum(codes, 0))
        return replace(taken, missing=_lost(taken) | elsewhere) if elsewhere.any() else taken

    if cells is not None:
        return {name: texts if attribute.missing and elsewhere.any() else spread(cells)}
    if not edges:
        return {name: texts}
    return {name: texts, **dict(zip(_end_names(workload, axis), map(spread, ends_of(attribute)), strict=True))}


def _end_names(workload: Workload, axis: int) -> tuple[str, str]:
    """What the columns of the ends of an attribute's bins are called."""
    names = workload.domain.names
    reserved = (*NUMBERS, QUERY, *_keys(workload))
    return key_name(f"{names[axis]}_low", reserved, names), key_name(f"{names[axis]}_high", reserved, names)


def answer_parts(release: Release, workload: Workload) -> Iterator[dict[str, Column]]:
    """The table of answers, some lines at a time."""
    keys = _keys(workload)
    texts = workload.texts() if QUERY in keys else iter(())
    for part in workload.parts(PART_ANSWERS):
        found = release.published(part)
        noisy = np.where(np.isnan(found.widths), np.nan, found.noisy)
        numbers = (found.answers, noisy, found.widths, found.bars)
        written = list(islice(texts, len(part)))
        named = {name: _key_column(part, axis, written) for name, axis in keys.items()}
        yield {**named, **{name: Column(n, np.isnan(n)) for name, n in zip(NUMBERS, numbers, strict=True)}}


def _lost(column: Column) -> npt.NDArray[np.bool_]:
    return np.zeros(len(column.values), np.bool_) if column.missing is None else column.missing


def _is_cell(group: Group) -> bool:
    return isinstance(group.queries, Cells) and bool(group.axes)


def _keys(workload: Workload) -> dict[str, int | None]:
    """The key columns and their attributes, None for the text of a query; a name that a number has gets a `_`."""
    axes = sorted({a for g in workload.groups if _is_cell(g) for a in g.axes})
    found: dict[str, int | None] = {} if all(map(_is_cell, workload.groups)) else {QUERY: None}
    names = workload.domain.names
    return found | {key_name(names[a], (*NUMBERS, QUERY), names): a for a in axes}


def _key_column(part: Workload, axis: int | None, texts: Sequence[str]) -> Column:
    """What names each query: its label in an attribute, or its text."""
    values = np.full(len(part), None, dtype=object)
    if axis is None:
        for group, first, last in zip(part.groups, part.bounds, part.bounds[1:], strict=False):
            if not _is_cell(group):
                values[first:last] = texts[first:last]
    else:
        codes = _key_codes(part, axis)
        labels = np.array([*told_apart(part.domain.attributes[axis]), None], dtype=object)
        values = labels[codes]  # -1 is the last
    return Column(values, np.array([v is None for v in values.tolist()], np.bool_))


def _key_codes(part: Workload, axis: int) -> npt.NDArray[np.int64]:
    """The cell of an attribute that each query is about, (k,); -1 where it is about none."""
    codes = np.full(len(part), -1)
    for group, first, last in zip(part.groups, part.bounds, part.bounds[1:], strict=False):
        if _is_cell(group) and axis in group.axes:
            codes[first:last] = _codes(part.domain, group, axis)
    return codes


def _codes(domain: Domain, group: Group, axis: int) -> npt.NDArray[np.int64]:
    """The code that each cell of a marginal has in one of its columns, (k,)."""
    place = group.axes.index(axis)
    shape = [domain.shape[a] for a in group.axes]
    codes = np.arange(shape[place]).reshape([-1 if i == place else 1 for i in range(len(shape))])
    return np.broadcast_to(codes, shape).reshape(-1)
