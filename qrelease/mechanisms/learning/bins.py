"""Bins from a tree of noisy counts: a value with many records is a bin, the rest is cut into equal parts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.mechanisms.learning.point_tree import Pieces

_HALVINGS = 50


def cuts_of(pieces: Pieces, most: int) -> list[int]:
    """The first point of each of at most so many bins, and the number of points.

    Records are taken to lie evenly in a piece. A single point with at least one part of the records (of 1/N each) is a
    bin, and each stretch between such points is cut into parts of about the same number of records; N is as large as
    gives at most `most` bins.

    Each piece counts with one standard deviation of its noise more than it seems to have: where noise hides how many
    records there are, bins follow the pieces, which are finer where there are more records, and no bin is so wide that
    it may well have many of them.

    Examples
    --------
    >>> pieces = Pieces(np.array([0, 40, 41]), np.array([40, 41, 100]), np.array([40.0, 100.0, 60.0]))
    >>> cuts_of(pieces, 5)
    [0, 20, 40, 41, 70, 100]
    """
    size = int(pieces.stops[-1])
    if size <= most:
        return list(range(size + 1))
    likely = Pieces(pieces.starts, pieces.stops, pieces.masses + pieces.errors)
    total = likely.masses.sum()
    if not total > 0:
        return [size * i // most for i in range(most + 1)]
    low, high = 1.0, 2.0 * most
    found = [0, size]
    for _ in range(_HALVINGS):
        parts = (low + high) / 2
        cuts = _cuts(likely, total / parts, size)
        if len(cuts) - 1 <= most:
            low, found = parts, max(found, cuts, key=len)
        else:
            high = parts
    return found


def _cuts(pieces: Pieces, part: float, size: int) -> list[int]:
    heavy = (pieces.stops - pieces.starts == 1) & (pieces.masses >= part)
    fixed = {0, size, *pieces.starts[heavy].tolist(), *pieces.stops[heavy].tolist()}
    ends = np.append(pieces.starts, size)
    summed = np.concatenate([[0.0], np.cumsum(pieces.masses)])
    alone = set(pieces.starts[heavy].tolist())
    bounds, found = sorted(fixed), {0, size}
    for start, stop in pairwise(bounds):
        found |= {start, stop}
        if start not in alone:
            found |= set(_equal(ends, summed, start, stop, part))
    return sorted(found)


def _equal(ends: Ints, summed: Floats, start: int, stop: int, part: float) -> list[int]:
    """Points between two at which the number of records passes equal parts of it."""
    first, last = np.interp([start, stop], ends, summed)
    parts = min(max(round((last - first) / part), 1), stop - start)
    wanted = first + (last - first) * np.arange(1, parts) / parts
    return [int(c) for c in np.unique(np.rint(np.interp(wanted, summed, ends))) if start < c < stop]


def shape_of(pieces: Pieces) -> tuple[tuple[int, int], ...]:
    """The shape that an attribute holds: points and whole weights; none where nobody seems to be anywhere."""
    weights = np.rint(pieces.masses).astype(np.int64)
    if not weights.sum() > 0:
        return ()
    return tuple(zip(pieces.starts.tolist(), weights.tolist(), strict=True))
