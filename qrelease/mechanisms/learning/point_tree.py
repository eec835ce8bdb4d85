"""How records lie on a grid of points: a tree of noisy counts that is finer where there are more records.

The grid is cut into some parts, each of these into as many, and so on to single points: L levels, of each of which one
record is in one part. All parts of a level that are looked at are counted with noise of one scale, however many they
are; which are cut further is decided from the noisy counts above alone. PrivTree (Zhang, Xiao & Xie 2016) pays for its
tree independently of the depth, but its counts are paid for once more; here they are the tree, and L is 3 for 4 096
points.

The counts of a part and of its parts are then reconciled by least squares (Hay, Rastogi, Miklau & Suciu 2010). Parts
beside one another whose densities the noise does not tell apart get one density, which is 0 where noise alone explains
it: of all ways to merge them, the one with the least sum of squares plus a price for each density (`merged`). The price
of one density more grows with how many counts the whole tree has (`_price`), as the largest noise among them does: else
an even column gets heaps where there are none.

**Heaps.** Where people report round numbers, nearly all records may lie at points of which no count stands out of the
noise, and to spread a part's records evenly is wrong for every range that ends at one. How many records lie at points
that are as round (`round_points`) is counted as well, with `HEAPS_NOISE` times the noise. A point of a part then has
records in proportion to the weight of its class, where the noise tells the classes apart (`merged` again): densities
and weights are fitted in turns.

**What it costs.** One record is in one part of each of L levels, each count with Laplace noise of scale b, and in one
class, with noise of scale 2b: so it costs ε with b = (L + 1/2)/ε. Of Gaussian noise with variances σ² and 4σ² it costs
ρ with σ² = (L + 1/4)/(2ρ). (`changed` has these sums; where replacing a record moves two counts, they are twice that.)
All else is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from qrelease._util.typing import Floats, Ints, Mask
from qrelease.mechanisms.learning.round_points import RoundPoints

MAX_BRANCHES = 16
"""Into how many parts a part is cut, at most."""

_PIECES_A_PART = 8
"""How many pieces one of the parts that are wanted is worth: a piece with fewer records is not cut further. For the
bins a quarter as many would do; but the pieces are the shape within the bins as well, and only where there are more of
them than bins does that come near the records (heaps at full hours, gaps). No piece costs any ε."""

_EXPECTED_FALSE_CUTS = 0.1
"""How many empty parts are expected to be cut, of all that are looked at."""

_ROOT = float("inf")
_LEAST_VARIANCE = 2.0**-40  # where there is next to no noise: what is divided by it stays finite

HEAPS_NOISE = 2
"""How many times the noise of a part's count a class of round points has: of all classes together a level's quarter of
ρ, or half of ε. A class of heaps has many records."""

_PASSES = 4  # between densities and the weights of classes
_SAME = 1e-9  # of densities that are one but for rounding
_LEAST_WEIGHT = 1e-6  # of a class of points, over the largest: what is divided by it stays finite

Draw = Callable[[int, int], Ints]


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
class Part:
    """A part of the grid, of one level of the tree.

    noisy     how many records it seems to have
    variance  of that, in units of one count's
    numbers   how many points of each class of `RoundPoints` it has, (number,)
    estimate  how many it has by the reconciled counts of the whole tree
    error     how far off that may be: one standard deviation of the noise
    """

    start: int
    stop: int
    noisy: float
    variance: float
    numbers: Ints
    children: list[Part] = field(default_factory=list)
    estimate: float = 0.0
    error: float = 0.0


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


def measured_leaves(
    points: Ints, counts: Ints, scale: Fraction, parts: int, draw: Draw, rounds: RoundPoints, *, laplace: bool
) -> Pieces:
    """The leaves of the tree, with heaps at round points apart.

    Parameters
    ----------
    points, counts
        The distinct points that occur, ascending, (m,), and how many records lie at each, (m,): private.
    scale
        Of the noise of each count, for each record that a neighbour may count more or less: see `changed`.
    parts
        Of about equally many records that the caller wants; what holds less than an eighth of one is not cut.
    draw
        Noise of so many times the scale, so many draws.
    rounds
        Which points of the grid are round.
    laplace
        Whether the noise is Laplace noise, whose tails are heavier than those of Gaussian noise.
    """
    root, classes = counted(points, counts, scale, parts, draw, rounds)
    enough = max(sum(part.noisy for part in root.children), 0.0) / (_PIECES_A_PART * parts)
    variance = max(2 * float(scale) ** 2, _LEAST_VARIANCE)  # of one count's noise, at most
    _gather(root)
    root.estimate = max(root.noisy, 0.0)
    price = _price(_counts(root), laplace=laplace)
    weights = np.ones(rounds.number)
    leaves = _spread(root, variance, weights, price)
    if classes is not None:
        alone = _alone(leaves)
        for _ in range(_PASSES):
            weights = _weights(classes, leaves, alone, weights, variance)
            leaves = _spread(root, variance, weights, price)
    return _pieces(leaves, weights, variance, max(enough, 1.0), rounds)


def counted(
    points: Ints, counts: Ints, scale: Fraction, parts: int, draw: Draw, rounds: RoundPoints
) -> tuple[Part, Ints | None]:
    """The tree of noisy counts, and those of classes of round points, where there are any: all that is drawn.

    Its arguments are those of `measured_leaves`, of which all else is post-processing.
    """
    size = rounds.size
    summed = np.concatenate([[0], np.cumsum(counts)])
    depth = levels(size)
    root = Part(0, size, 0.0, _ROOT, np.zeros(rounds.number, np.int64))
    open_, total = [root], 0.0
    for level in range(depth):
        width = branches(size) ** (depth - level - 1)
        spans = [
            (start, min(start + width, part.stop), part)
            for part in open_
            for start in range(part.start, part.stop, width)
        ]
        bounds = np.array([(start, stop) for start, stop, _ in spans], np.int64)
        at = summed[np.searchsorted(points, bounds)]
        noisy = at[:, 1] - at[:, 0] + draw(1, len(spans))
        if not level:
            total = float(max(noisy.sum(), 0))
        enough = max(total / (_PIECES_A_PART * parts), _clear(float(scale), len(spans)))
        numbers = rounds.numbers(bounds[:, 0], bounds[:, 1])
        open_ = []
        for (start, stop, part), value, held in zip(spans, noisy.tolist(), numbers, strict=True):
            child = Part(start, stop, float(value), 1.0, held)
            part.children.append(child)
            if value > enough and stop - start > 1:
                open_.append(child)
        if not open_:
            break
    if not has_classes(rounds):
        return root, None
    return root, rounds.counts(points, counts) + draw(HEAPS_NOISE, rounds.number)


def has_classes(rounds: RoundPoints) -> bool:
    """Whether classes of round points are counted: not where the first level of the tree is of single points."""
    return levels(rounds.size) > 1


def changed(rounds: RoundPoints, *, squares: bool) -> Fraction:
    """How far one record moves all that is counted, in units of the scale of a part's count.

    One part of each level by 1, and a class of round points by 1 over `HEAPS_NOISE`: the sum of these, by which the
    Laplace mechanism goes, or of their squares.
    """
    heaps = Fraction(1, HEAPS_NOISE**2 if squares else HEAPS_NOISE)
    return levels(rounds.size) + (heaps if has_classes(rounds) else Fraction(0))


def _alone(leaves: list[Part]) -> Mask:
    """Which leaves are single points whose density is not that of one beside them, (k,)."""
    lengths = np.array([leaf.stop - leaf.start for leaf in leaves])
    densities = np.array([leaf.estimate for leaf in leaves]) / lengths
    other = np.concatenate([[True], np.abs(np.diff(densities)) > _SAME * densities[1:], [True]])
    found: Mask = (lengths == 1) & other[1:] & other[:-1]
    return found


def _weights(classes: Ints, leaves: list[Part], alone: Mask, before: Floats, variance: float) -> Floats:
    """How many times as many records a point of each class has as others of its part, (number,), up to a factor.

    What a class has is compared with what densities would give its points if all were alike, and classes beside one
    another that the noise does not tell apart get one weight (`merged`). Points that the tree tells from those beside
    them count for neither: they are heaps, or none, by themselves.
    """
    numbers = np.array([leaf.numbers for leaf in leaves])
    estimates = np.array([leaf.estimate for leaf in leaves])
    own = numbers[alone].sum(axis=0)
    left = classes - estimates[alone] @ numbers[alone]
    expected = (estimates[~alone] / np.maximum(numbers[~alone] @ before, _LEAST_WEIGHT)) @ numbers[~alone]
    here = np.flatnonzero(expected > 0)
    weights = np.ones(len(classes))
    if len(here):
        weights[here] = merged(left[here], expected[here], variance * (HEAPS_NOISE**2 + 1 + own[here]))
    largest = weights[here].max(initial=0.0)
    return np.maximum(weights / largest, _LEAST_WEIGHT) if largest > 0 else np.ones(len(classes))


def _pieces(leaves: list[Part], weights: Floats, variance: float, least: float, rounds: RoundPoints) -> Pieces:
    """The leaves, of which each round point that seems to have at least so many records is a piece of its own."""
    starts, masses, errors = [], [], []
    for leaf in leaves:
        cuts = [leaf.start]
        measure = leaf.numbers @ weights
        even = measure / (leaf.stop - leaf.start)
        for own in np.flatnonzero((leaf.numbers > 0) & (leaf.estimate * weights >= least * measure) & (weights > even)):
            for point in rounds.places(int(own), leaf.start, leaf.stop).tolist():
                cuts += [point, point + 1]
        ends = np.unique(np.array([*cuts, leaf.stop]))
        shares = rounds.numbers(ends[:-1], ends[1:]) @ weights / measure
        starts.append(ends[:-1])
        masses.append(leaf.estimate * shares)
        errors.append(leaf.error * shares)
    begun = np.concatenate(starts)
    return Pieces(begun, np.append(begun[1:], rounds.size), np.concatenate(masses), np.concatenate(errors))


def _clear(scale: float, looked_at: int) -> float:
    """What a part must seem to have to be cut, for the parts of one that has nobody are noise: b ln 5k of k parts.

    Laplace noise of scale b is above it with probability 1/(10k), and Gaussian noise of the same variance with no more
    for k of 3 and more: so of parts that nobody is in about a tenth of one is expected to be cut, however many are
    looked at (for Laplace noise what the universal threshold of Donoho & Johnstone 1994 is for Gaussian noise). A cut
    of an empty part puts bins where there are no records, and each of these adds noise to the release.
    """
    return scale * math.log(looked_at / _EXPECTED_FALSE_CUTS / 2)


def _counts(part: Part) -> int:
    """How many parts were counted below one."""
    return len(part.children) + sum(map(_counts, part.children))


def _price(counts: int, *, laplace: bool) -> float:
    """What one density more costs in squares over variance, where so many counts have noise.

    A heap takes two more, before and after it, so that it stands out by twice the price at least. The square of the
    largest of so many draws over their variance is about 2 ln(counts) of Gaussian noise, and ln(counts)² / 2 of Laplace
    noise of scale b, whose largest is about b ln(counts) and whose variance is 2b².
    """
    price = math.log(max(counts, 2))
    return max(price, price**2 / 4) if laplace else price


def _gather(part: Part) -> None:
    """The best estimate from below and of its own, upwards; its variance in units of one count's."""
    if not part.children:
        return
    for child in part.children:
        _gather(child)
    below = sum(child.noisy for child in part.children)
    variance = sum(child.variance for child in part.children)
    own = 0.0 if part.variance == _ROOT else variance / (variance + part.variance)
    part.noisy = own * part.noisy + (1 - own) * below
    part.variance = (1 - own) * variance


def _spread(part: Part, variance: float, weights: Floats, price: float) -> list[Part]:
    """What is left of a part's count goes to its parts by their variances, after which like parts are merged: the
    leaves, with their estimates.

    variance   of one count's noise
    weights    of a point of each class: densities are over these
    price      of one density more, see `merged`
    """
    if not part.children:
        return [part]
    values = np.array([child.noisy for child in part.children])
    shares = np.array([child.variance for child in part.children])
    lengths = np.array([child.numbers for child in part.children]) @ weights
    fitted = values + (part.estimate - values.sum()) * shares / shares.sum()
    densities = np.maximum(merged(fitted, lengths, variance * shares, price), 0)
    total = (densities * lengths).sum()
    estimates = densities * lengths * (part.estimate / total) if total > 0 else part.estimate * lengths / lengths.sum()
    # Parts of one density are counted together: their noise adds up in squares, and their share of it is by length.
    runs = np.cumsum(np.diff(densities, prepend=densities[0]) != 0)
    errors = lengths * (np.sqrt(variance * np.bincount(runs, shares)) / np.bincount(runs, lengths))[runs]
    leaves = []
    for child, estimate, error in zip(part.children, estimates.tolist(), errors.tolist(), strict=True):
        child.estimate, child.error = estimate, error
        leaves += _spread(child, variance, weights, price)
    return leaves


def merged(counts: Floats, lengths: Floats, variances: Floats, price: float = 0.0) -> Floats:
    """The density of each of some consecutive parts, (k,), equal where the noise does not tell them apart.

    Least squares over all ways to cut the parts into runs of one density each, where each run costs ln k, and as much
    again unless its density is 0: the Bayesian information criterion (Schwarz 1978), with two parameters a run, its
    place and its density. Dynamic programming finds the least (Winkler & Liebscher 2002).

    Parameters
    ----------
    counts, lengths, variances
        Of each part, (k,): about how many records it has, its points, and how far off that is.
    price
        Of a run's place, where that is more than ln k: the parts may be some of many that were looked at.

    Examples
    --------
    >>> merged(np.array([90.0, 110.0, 1.0, -2.0]), np.array([10, 10, 10, 10]), np.full(4, 100.0)).tolist()
    [10.0, 10.0, 0.0, 0.0]
    """
    k = len(counts)
    of_density = math.log(max(k, 2))
    of_place = max(price, of_density)
    # Of length² / variance, length · count / variance, count² / variance: summed for each run anew, as lengths may
    # differ so much that differences of sums are nothing but rounding.
    terms = np.stack([lengths**2.0, lengths * counts, counts**2]) / variances
    best, last, level = np.zeros(k + 1), np.zeros(k + 1, np.int64), np.zeros(k + 1)
    for stop in range(1, k + 1):
        weights, products, squares = np.cumsum(terms[:, :stop][:, ::-1], axis=1)[:, ::-1]
        gains = np.where(products > 0, products**2 / weights, 0.0)
        costs = best[:stop] + squares + of_place - np.maximum(gains - of_density, 0)
        at = int(np.argmin(costs))
        best[stop], last[stop] = costs[at], at
        level[stop] = products[at] / weights[at] if gains[at] > of_density else 0.0
    found, stop = np.zeros(k), k
    while stop:
        found[last[stop] : stop], stop = level[stop], int(last[stop])
    return found
