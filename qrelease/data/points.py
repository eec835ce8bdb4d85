"""Columns with a grid of exact values: a table keeps each record's point on the grid beside its bin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qrelease._util.typing import Codes
from qrelease.data.attribute import Attribute
from qrelease.data.sources.encoder import code_type

_BLOCK = 1 << 16  # records whose bins are compared with their points at a time


def has_points(attribute: Attribute) -> bool:
    """Whether a table keeps more of a column than its bins: where some bin holds several points of a grid."""
    return attribute.grid is not None and not attribute.undecided and attribute.values < attribute.grid.size


def binned(attribute: Attribute, points: Codes) -> Codes:
    """The codes (n,) of codes of `Attribute.fine`."""
    return attribute.bins_of(points).astype(code_type(attribute))


def agree(attribute: Attribute, points: Codes, column: Codes) -> bool:
    """Whether a column holds the bins of its points."""
    if len(points) != len(column):
        return False
    places = range(0, len(points), _BLOCK)
    return all(np.array_equal(attribute.bins_of(points[i : i + _BLOCK]), column[i : i + _BLOCK]) for i in places)


def any_of(points: Sequence[Codes | None]) -> tuple[Codes | None, ...]:
    """The points of a table's columns; none at all where no column has any."""
    return tuple(points) if any(p is not None for p in points) else ()
