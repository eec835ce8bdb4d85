"""Bins from a tree of noisy counts: a value with many records is a bin, the rest is cut into about equal parts.

A cut is at the roundest of the points that leave about as many records on both sides: people ask about ages of 40 or
more, and a condition that cuts through a bin has no answer.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.mechanisms.learning.point_tree import Pieces
from qrelease.mechanisms.learning.round_points import RoundPoints

_HALVINGS = 50

_MOVED = 0.25
"""The part of a bin's records that a cut may pass on its way to a rounder point."""


def cuts_of(pieces: Pieces, most: int, rounds: RoundPoints) -> list[int]:
    """The first point of each of at most so many bins, and the number of points.

    Records are taken to lie evenly in a piece. A single point with at least one part of the records (of 1/N each) is a
    bin, and each stretch between such points is cut into parts of about the same number of records, at round points; N
    is as large as gives at most `most` bins.

    Each piece counts with one standard deviation of its noise more than it seems to have: where noise hides how many
    records there are, bins follow the pieces, which are finer where there are more records, and no bin is so wide that
    it may well have many of them.

    Examples
    --------
    >>> pieces = Pieces(np.array([0, 40, 41]), np.array([40, 41, 100]), np.array([40.0, 100.0, 60.0]))
    >>> cuts_of(pieces, 5, RoundPoints(origin=0, size=100))
    [0, 20, 40, 41, 70, 100]
    >>> cuts_of(pieces, 5, RoundPoints(origin=0, size=100, periods=(1, 5, 25)))
    [0, 25, 40, 41, 75, 100]
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
        cuts = _cuts(likely, total / parts, rounds)
        if len(cuts) - 1 <= most:
            low, found = parts, max(found, cuts, key=len)
        else:
            high = parts
    return found


def _cuts(pieces: Pieces, part: float, rounds: RoundPoints) -> list[int]:
    size = rounds.size
    heavy = (pieces.stops - pieces.starts == 1) & (pieces.masses >= part)
    fixed = {0, size, *pieces.starts[heavy].tolist(), *pieces.stops[heavy].tolist()}
    ends = np.append(pieces.starts, size)
    summed = np.concatenate([[0.0], np.cumsum(pieces.masses)])
    alone = set(pieces.starts[heavy].tolist())
    bounds, found = sorted(fixed), {0, size}
    for start, stop in pairwise(bounds):
        found |= {start, stop}
        if start not in alone:
            found |= set(_equal(ends, summed, start, stop, part, rounds))
    return sorted(found)


def _equal(ends: Ints, summed: Floats, start: int, stop: int, part: float, rounds: RoundPoints) -> list[int]:
    """Points between two at which the number of records passes about equal parts of it: near these, the roundest."""
    first, last = np.interp([start, stop], ends, summed)
    parts = min(max(round((last - first) / part), 1), stop - start)
    wanted = first + (last - first) * np.arange(1, parts) / parts
    moved = _MOVED * (last - first) / parts
    near, least, most = (np.interp(at, summed, ends) for at in (wanted, wanted - moved, wanted + moved))
    found = rounds.roundest(np.rint(near), np.ceil(least), np.floor(most))
    return [c for c in np.unique(found).tolist() if start < c < stop]


def shape_of(pieces: Pieces) -> tuple[tuple[int, int], ...]:
    """The shape that an attribute holds: points and whole weights; none where nobody seems to be anywhere."""
    weights = np.rint(pieces.masses).astype(np.int64)
    if not weights.sum() > 0:
        return ()
    return tuple(zip(pieces.starts.tolist(), weights.tolist(), strict=True))
