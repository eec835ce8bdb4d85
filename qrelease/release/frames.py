"""Columns with types and proper missing values, as arrays or as data frames."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from qrelease.data.attribute import Attribute
from qrelease.data.decoding import decode
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput

Frame = Literal["pandas", "polars", "arrow"]
"""The kinds of data frame."""

_BOOLS = ("false", "true"), ("False", "True"), ("FALSE", "TRUE")
"""How a column of bools is spelled as two categories."""

_PACKAGES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}


@dataclass(frozen=True)
class Column:
    """One typed column.

    values   (n,) int64, float64, bool, datetime64[D] or [s], or texts as objects; where one is missing it is any
    missing  (n,) whether a value is missing; None where none can be
    ordered  of texts: all that there may be, in the order that they are compared by; empty where they have none
    """

    values: npt.NDArray[Any]
    missing: npt.NDArray[np.bool_] | None = None
    ordered: tuple[str, ...] = ()

    @property
    def array(self) -> npt.NDArray[Any]:
        """(n,) as numpy has it: a missing number is NaN, so whole numbers are floats then; a date NaT; others None."""
        if self.missing is None or not self.missing.any():
            return self.values
        kind = self.values.dtype.kind
        values = self.values.astype({"i": np.float64, "b": np.object_}.get(kind, self.values.dtype))
        values[self.missing] = {"i": np.nan, "f": np.nan, "M": np.datetime64("NaT"), "O": None, "b": None}[kind]
        return values

    def taken(self, places: npt.NDArray[np.integer[Any]]) -> Column:
        """The values at some places, in their order."""
        return Column(self.values[places], None if self.missing is None else self.missing[places], self.ordered)

    @property
    def places(self) -> npt.NDArray[np.int32]:
        """(n,) where in `ordered` each text stands, -1 for those that are missing."""
        place = {text: i for i, text in enumerate(self.ordered)}
        return np.array([-1 if text is None else place[text] for text in self.array.tolist()], np.int32)


def columns_of(
    domain: Domain,
    codes: Sequence[npt.NDArray[np.integer[Any]]],
    rng: np.random.Generator,
    points: Mapping[str, npt.NDArray[np.integer[Any]]],
) -> dict[str, Column]:
    """The typed columns of synthetic records that are given as codes, one array (n,) for each attribute.

    points  by the name of a column, where on its grid each record is, (n,); other numbers are drawn inside their bins
    """
    return {a.name: _column(a, c, rng, points.get(a.name)) for a, c in zip(domain, codes, strict=True)}


def cells_of(attribute: Attribute) -> Column | None:
    """The value of each cell, (size,), as synthetic records have it; None where a cell is a bin of several values."""
    if attribute.kind in ("number", "date"):
        ends = attribute.edges if attribute.grid is None else attribute.cuts  # of whole numbers, or points of the grid
        if not (attribute.whole or attribute.grid is not None) or any(b - a != 1 for a, b in pairwise(ends)):
            return None
    return _column(attribute, np.arange(attribute.size), np.random.default_rng(0), None)  # where nothing is drawn


def ends_of(attribute: Attribute) -> tuple[Column, Column]:
    """Where the bin of each cell of a column of numbers or dates begins, and where it ends, both (size,).

    The missing cell has neither.
    """
    edges = np.array(attribute.edges)
    if attribute.kind == "date":
        days = attribute.step.denominator == 1 or attribute.grid is None
        values = np.rint(edges * 86_400).astype("datetime64[s]").astype("datetime64[D]" if days else "datetime64[s]")
    else:
        values = edges.astype(np.int64) if attribute.whole else edges
    cells = np.minimum(np.arange(attribute.size), attribute.values - 1)
    missing = np.arange(attribute.size) == attribute.values if attribute.missing else None
    return Column(values[cells], missing), Column(values[cells + 1], missing)


def _column(
    attribute: Attribute,
    codes: npt.NDArray[np.integer[Any]],
    rng: np.random.Generator,
    points: npt.NDArray[np.integer[Any]] | None,
) -> Column:
    """The values of synthetic codes (n,): whole numbers, floats, dates, bools or texts, by the kind of the attribute.

    Texts of an ordered attribute keep its order.

    Categories that are spelled as bools are, and no others, are bools: a schema has no other word for these.
    """
    values = decode(attribute, codes, rng, points)
    missing = codes == attribute.values if attribute.missing else None
    if attribute.kind == "category":
        true = next((two[1] for two in _BOOLS if {*two} == {*attribute.categories}), None)
        if true is not None:
            return Column(values == true, missing)
        return Column(values, missing, attribute.categories if attribute.ordered else ())
    if missing is not None:
        values[missing] = "1970-01-01" if attribute.kind == "date" else 0
    if attribute.kind == "date":
        return Column(values.astype("datetime64[D]" if attribute.step.denominator == 1 else "datetime64[s]"), missing)
    return Column(values.astype(np.int64 if attribute.whole else np.float64), missing)


def check_frame(frame: str | None) -> None:
    """Raise `InvalidInput` unless this is a kind of data frame whose package is installed, or None."""
    if frame is None:
        return
    if frame not in get_args(Frame):
        raise InvalidInput(f"frame must be one of {', '.join(get_args(Frame))}, got {frame!r}")
    package = _PACKAGES[frame]
    if find_spec(package) is None:
        raise InvalidInput(f"frame={frame!r} needs the package {package}: pip install {package}")


def key_name(name: str, reserved: Collection[str], names: Collection[str]) -> str:
    """What the column of an attribute is called in a table with columns of its own: `name`, or with `_` behind it.

    reserved  the names of the table's own columns
    names     of all attributes, none of which a changed name may be
    """
    found = name
    if name in reserved:
        while found in reserved or found in names:
            found += "_"
    return found


def told_apart(attribute: Attribute) -> list[str]:
    """Labels of cells; that of a missing cell is no empty text, which would read like null."""
    return [label or "(missing)" for label in attribute.labels]


def as_frame(columns: Mapping[str, Column], frame: Frame) -> Any:
    """A data frame of columns, with nulls where values are missing."""
    if frame == "pandas":
        return _pandas(columns)
    return _polars(columns) if frame == "polars" else as_arrow(columns)


def _pandas(columns: Mapping[str, Column]) -> Any:
    import pandas as pd

    def series(column: Column) -> Any:
        if column.ordered:
            return pd.Categorical.from_codes(column.places, list(column.ordered), ordered=True)
        if column.missing is not None and column.values.dtype.kind == "i":
            return pd.arrays.IntegerArray(column.values, column.missing)
        if column.missing is not None and column.values.dtype.kind == "b":
            return pd.arrays.BooleanArray(column.values, column.missing)
        return column.array

    return pd.DataFrame({name: series(column) for name, column in columns.items()})


def _polars(columns: Mapping[str, Column]) -> Any:
    import polars as pl

    def series(name: str, column: Column) -> Any:
        if column.values.dtype.kind == "O":
            kind = pl.Enum(column.ordered) if column.ordered else pl.String
            return pl.Series(name, column.array.tolist(), kind)
        made = pl.Series(name, column.values)
        return made if column.missing is None else made.set(pl.Series(column.missing), None)

    return pl.DataFrame([series(name, column) for name, column in columns.items()])


def as_arrow(columns: Mapping[str, Column]) -> Any:
    """A pyarrow table; texts are strings even where all are missing, or an ordered dictionary."""
    import pyarrow as pa

    def array(column: Column) -> Any:
        if column.ordered:
            places = pa.array(column.places, mask=column.missing)
            return pa.DictionaryArray.from_arrays(places, pa.array(column.ordered, pa.string()), ordered=True)
        kind = pa.string() if column.values.dtype.kind == "O" else None
        return pa.array(column.values, kind, mask=column.missing)

    return pa.table({name: array(column) for name, column in columns.items()})
