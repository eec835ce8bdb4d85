"""Which part of the records in a cell meets a condition that runs through the cells' bins: at least, at most, about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qrelease._util.typing import Floats, Ints

if TYPE_CHECKING:
    from qrelease.data.attribute import Attribute
    from qrelease.data.domain import Domain
    from qrelease.data.predicates import Predicate


def met_shares(predicate: Predicate, domain: Domain) -> tuple[Floats, Floats, Floats]:
    """The parts of the records of each cell that meet a condition: the least, the expected and the largest, (cells,).

    All are 0 or 1 where the bins of the condition are those of the domain. Else values lie in a bin as its column's
    shape says, or evenly; and of several columns as if they did not depend on each other.

    predicate  a condition over finer bins, by `predicates.parse_finely`
    domain     the universe whose cells are meant: of the marginal on the columns of the condition, flat in C order
    """
    axes = predicate.axes
    low = predicate.mask().reshape([predicate.domain.shape[a] for a in axes]).astype(np.float64)
    mean, high = low, low
    for place, axis in enumerate(axes):
        fine, coarse = predicate.domain.attributes[axis], domain.attributes[axis]
        if fine == coarse:
            continue
        starts, shares = _parts(fine, coarse)
        wide = [-1 if i == place else 1 for i in range(len(axes))]
        low = np.minimum.reduceat(low, starts, axis=place)
        high = np.maximum.reduceat(high, starts, axis=place)
        mean = np.add.reduceat(mean * shares.reshape(wide), starts, axis=place)
    return low.reshape(-1), np.clip(mean, low, high).reshape(-1), high.reshape(-1)


def _parts(fine: Attribute, coarse: Attribute) -> tuple[Ints, Floats]:
    """The first of the finer cells that are in each cell; and which share of its cell's records each of them has."""
    cuts = np.array(fine.cuts, np.int64)
    starts = np.searchsorted(cuts, coarse.cuts[:-1])
    lengths = np.diff(cuts).astype(np.float64)
    weights = lengths
    if coarse.shape:
        points = np.array([*(p for p, _ in coarse.shape), cuts[-1]], np.float64)
        below = np.concatenate([[0.0], np.cumsum([w for _, w in coarse.shape], dtype=np.float64)])
        weights = np.diff(np.interp(cuts, points, below))
    counts = np.diff(starts, append=len(lengths))
    known = np.repeat(np.add.reduceat(weights, starts) > 0, counts)
    weights = np.where(known, weights, lengths)  # evenly where nothing is known
    shares = weights / np.repeat(np.add.reduceat(weights, starts), counts)
    if fine.missing:
        return np.append(starts, len(lengths)), np.append(shares, 1.0)
    return starts, shares
