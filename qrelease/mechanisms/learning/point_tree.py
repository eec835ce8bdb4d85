"""How records lie on a grid of points: a tree of noisy counts that is finer where there are more records.

The grid is cut into some parts, each of these into as many, and so on to single points: L levels, of each of which one
record is in one part. All parts of a level that are looked at are counted with discrete Laplace noise of scale L/ε, so
the whole costs ε however many they are. (Where replacing a record moves two counts, the scale is 2L/ε.) Which parts are
cut further is decided from the noisy counts above alone. PrivTree (Zhang, Xiao & Xie 2016) pays for its tree
independently of the depth, but its counts are paid for once more; here they are the tree, and L is 3 for 4 096 points.

The counts of a part and of its parts are then reconciled by least squares (Hay, Rastogi, Miklau & Suciu 2010). Parts
beside one another whose densities the noise does not tell apart get one density, which is 0 where noise alone explains
it: of all ways to merge them, the one with the least sum of squares plus a price for each density (`merged`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from qrelease._util.typing import Floats, Ints

MAX_BRANCHES = 16
"""Into how many parts a part is cut, at most."""

_PIECES_A_PART = 8
"""How many pieces one of the parts that are wanted is worth: a piece with fewer records is not cut further. For the
bins a quarter as many would do; but the pieces are the shape within the bins as well, and only where there are more of
them than bins does that come near the records (heaps at full hours, gaps). No piece costs any ε."""

_ROOT = float("inf")
_LEAST_VARIANCE = 2.0**-40  # where there is next to no noise: what is divided by it stays finite

Draw = Callable[[Fraction, int], Ints]


@dataclass(frozen=True)
class Pieces:
    """Consecutive runs of points, and about how many records lie in each.

    starts   the first point of each, (k,), from 0
    stops    the next after its last, (k,)
    masses   records, (k,), not negative
    errors   how far off each count of them may be, (k,): one standard deviation of its noise; 0 where all is known
    """

    starts: Ints
    stops: Ints
    masses: Floats
    errors: Floats | float = 0.0


@dataclass
class _Node:
    start: int
    stop: int
    noisy: float
    variance: float
    children: list[_Node] = field(default_factory=list)
    estimate: float = 0.0


def levels(size: int) -> int:
    """L, how often a grid of so many points is cut.

    Examples
    --------
    >>> levels(16), levels(17), levels(2**53)
    (1, 2, 14)
    """
    found = 1
    while MAX_BRANCHES**found < size:
        found += 1
    return found


def branches(size: int) -> int:
    """The least number of parts that so many cuts need.

    Examples
    --------
    >>> branches(16), branches(17), branches(1501)
    (16, 5, 12)
    """
    return next(b for b in range(2, MAX_BRANCHES + 1) if b ** levels(size) >= size)


def measured_leaves(points: Ints, counts: Ints, size: int, scale: Fraction, parts: int, draw: Draw) -> Pieces:
    """The leaves of the tree.

    Parameters
    ----------
    points, counts
        The distinct points that occur, ascending, (m,), and how many records lie at each, (m,): private.
    size
        Points of the grid.
    scale
        Of the noise of each count: L/ε, for each record that a neighbour may count more or less.
    parts
        Of about equally many records that the caller wants; what holds less than an eighth of one is not cut.
    draw
        Noise: of a scale, so many draws.
    """
    summed = np.concatenate([[0], np.cumsum(counts)])
    depth = levels(size)
    root = _Node(0, size, 0.0, _ROOT)
    open_, total = [root], 0.0
    for level in range(depth):
        width = branches(size) ** (depth - level - 1)
        spans = [
            (start, min(start + width, node.stop), node)
            for node in open_
            for start in range(node.start, node.stop, width)
        ]
        bounds = np.array([(start, stop) for start, stop, _ in spans], np.int64)
        at = summed[np.searchsorted(points, bounds)]
        noisy = at[:, 1] - at[:, 0] + draw(scale, len(spans))
        if not level:
            total = float(max(noisy.sum(), 0))
        enough = max(total / (_PIECES_A_PART * parts), _clear(float(scale), len(spans)))
        open_ = []
        for (start, stop, node), value in zip(spans, noisy.tolist(), strict=True):
            child = _Node(start, stop, float(value), 1.0)
            node.children.append(child)
            if value > enough and stop - start > 1:
                open_.append(child)
        if not open_:
            break
    _gather(root)
    root.estimate = max(root.noisy, 0.0)
    leaves: list[_Node] = []
    variance = max(2 * float(scale) ** 2, _LEAST_VARIANCE)  # of one count's noise, at most
    _spread(root, variance, leaves)
    return Pieces(
        np.array([leaf.start for leaf in leaves], np.int64),
        np.array([leaf.stop for leaf in leaves], np.int64),
        np.array([leaf.estimate for leaf in leaves]),
        np.sqrt(variance * np.array([leaf.variance for leaf in leaves])),
    )


def _clear(scale: float, looked_at: int) -> float:
    """What a part must seem to have to be cut, for the parts of one that has nobody are noise: b ln k of k parts.

    Laplace noise of scale b is above it with probability 1/(2k), and Gaussian noise of the same variance with less than
    2/(3k): so of parts that nobody is in less than one is expected to be cut, however many are looked at (for Laplace
    noise what the universal threshold of Donoho & Johnstone 1994 is for Gaussian noise).
    """
    return scale * math.log(looked_at)


def _gather(node: _Node) -> None:
    """The best estimate from below and of its own, upwards; its variance in units of one count's."""
    if not node.children:
        return
    for child in node.children:
        _gather(child)
    below = sum(child.noisy for child in node.children)
    variance = sum(child.variance for child in node.children)
    own = 0.0 if node.variance == _ROOT else variance / (variance + node.variance)
    node.noisy = own * node.noisy + (1 - own) * below
    node.variance = (1 - own) * variance


def _spread(node: _Node, variance: float, leaves: list[_Node]) -> None:
    """What is left of a part's count goes to its parts by their variances, after which like parts are merged.

    variance   of one count's noise
    """
    if not node.children:
        leaves.append(node)
        return
    values = np.array([child.noisy for child in node.children])
    shares = np.array([child.variance for child in node.children])
    lengths = np.array([child.stop - child.start for child in node.children])
    fitted = values + (node.estimate - values.sum()) * shares / shares.sum()
    densities = np.maximum(merged(fitted, lengths, variance * shares), 0)
    total = (densities * lengths).sum()
    estimates = densities * lengths * (node.estimate / total) if total > 0 else node.estimate * lengths / lengths.sum()
    for child, estimate in zip(node.children, estimates.tolist(), strict=True):
        child.estimate = estimate
        _spread(child, variance, leaves)


def merged(counts: Floats, lengths: Ints, variances: Floats) -> Floats:
    """The density of each of some consecutive parts, (k,), equal where the noise does not tell them apart.

    Least squares over all ways to cut the parts into runs of one density each, where each run costs ln k, and as much
    again unless its density is 0: the Bayesian information criterion (Schwarz 1978), with two parameters a run, its
    place and its density. Dynamic programming finds the least (Winkler & Liebscher 2002).

    Parameters
    ----------
    counts, lengths, variances
        Of each part, (k,): about how many records it has, its points, and how far off that is.

    Examples
    --------
    >>> merged(np.array([90.0, 110.0, 1.0, -2.0]), np.array([10, 10, 10, 10]), np.full(4, 100.0)).tolist()
    [10.0, 10.0, 0.0, 0.0]
    """
    k = len(counts)
    price = np.log(max(k, 2))
    # Sums from the left of length² / variance, length · count / variance, count² / variance: a run's are differences.
    sums = [np.concatenate([[0.0], np.cumsum(x / variances)]) for x in (lengths**2.0, lengths * counts, counts**2)]
    best, last, level = np.zeros(k + 1), np.zeros(k + 1, np.int64), np.zeros(k + 1)
    for stop in range(1, k + 1):
        weights, products, squares = (x[stop] - x[:stop] for x in sums)
        gains = np.where(products > 0, products**2 / weights, 0.0)
        costs = best[:stop] + squares + price - np.maximum(gains - price, 0)
        at = int(np.argmin(costs))
        best[stop], last[stop] = costs[at], at
        level[stop] = products[at] / weights[at] if gains[at] > price else 0.0
    found, stop = np.zeros(k), k
    while stop:
        found[last[stop] : stop], stop = level[stop], int(last[stop])
    return found
