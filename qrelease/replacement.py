"""How far one record, replaced by another, moves the residuals of many sets of columns together, or pairs of signs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import chain, product

import numpy as np
import numpy.typing as npt

from qrelease.cover import Axes
from qrelease.products import Product, Rows
from qrelease.queries import Queries, Residuals

_MOST_TRIED = 1 << 26  # residuals times sets of columns in which two records may differ: a second
_KEPT = 16


@lru_cache(_KEPT)
def squares_replaced(residuals: tuple[tuple[Axes, Residuals], ...]) -> int:
    """The largest sum of the squared distances of two records' columns, in units squared; exact or rounded up.

    residuals  distinct sets of columns, and what is measured of them

    It depends on the set of columns in which the records differ. All sets are tried, or, where columns of one length
    can be exchanged, one for each number of them; where even these are too many, each residual is taken at its own
    worst, an upper bound. Sums are of non-negative integers in floats: exact below 2^53, and else off by less than one
    part in 2^52 a term.
    """
    size = {a: n for axes, queries in residuals for a, n in zip(axes, queries.shape, strict=True)}
    columns = sorted(size, key=lambda a: (size[a], a))
    counts = Counter(size.values())
    exchangeable = _exchangeable(residuals, counts)
    tried = math.prod(n + 1 for n in counts.values()) if exchangeable else 1 << min(len(columns), 64)
    if tried * len(residuals) > _MOST_TRIED:
        return sum(queries.sensitivity(2, replace=True) for _, queries in residuals)
    apart = _firsts(counts) if exchangeable else np.array(list(product([0, 1], repeat=len(columns))))
    place = {a: i for i, a in enumerate(columns)}
    total = np.zeros(len(apart))
    for axes, queries in residuals:
        patterns = product([0, 1], repeat=len(axes))
        squares = [queries.replaced([n for n, off in zip(queries.shape, p, strict=True) if off]) for p in patterns]
        pattern = np.zeros(len(apart), np.int64)
        for a in axes:
            pattern = 2 * pattern + apart[:, place[a]]
        total += np.array(squares, np.float64)[pattern]
    worst = Fraction(float(total.max()))
    return int(worst) if worst < 1 << 53 else math.ceil(worst + worst * (len(residuals) + 1) / (1 << 52))


def signs_replaced(pairs: Sequence[tuple[Axes, Queries]]) -> int | None:
    """The same for products of the signs of two columns, distinct pairs of them; None for other queries.

    The sign of a column is +1 or -1 at each of its cells, and the same in all pairs. A product changes, by 2, where one
    of its signs changes and the other does not. If h of d signs change these are h (d - h) pairs, where all pairs are
    there, and a part of them, where not: at most ⌊d/2⌋⌈d/2⌉, and no more than there are. Each adds 2², in units
    squared. It is reached where all pairs are there and no sign is constant.
    """
    signs: dict[int, npt.NDArray[np.int64]] = {}
    for axes, queries in pairs:
        if not isinstance(queries, Product) or len(axes) != 2:
            return None
        for a, factor in zip(axes, queries.factors, strict=True):
            if not isinstance(factor, Rows) or factor.count != 1 or (np.abs(factor.rows) != 1).any():
                return None
            if not np.array_equal(signs.setdefault(a, factor.rows), factor.rows):
                return None
    if len({axes for axes, _ in pairs}) < len(pairs) or len({queries.unit for _, queries in pairs}) > 1:
        return None
    half = len(signs) // 2
    return 4 * min(len(pairs), half * (len(signs) - half))


def _exchangeable(residuals: Sequence[tuple[Axes, Residuals]], counts: Counter[int]) -> bool:
    """Whether columns of one length can be exchanged: sets of the same lengths are all there, at one scale, or none."""
    scales = defaultdict(list)
    for _, queries in residuals:
        scales[tuple(sorted(queries.shape))].append(queries.scale)
    return all(
        len(set(found)) == 1 and len(found) == math.prod(math.comb(counts[n], k) for n, k in Counter(lengths).items())
        for lengths, found in scales.items()
    )


def _firsts(counts: Counter[int]) -> npt.NDArray[np.int64]:
    """Of columns sorted by length, the first 0, 1, …, all of each length, (sets, columns) of 0 and 1."""
    choices = [[[1] * k + [0] * (counts[n] - k) for k in range(counts[n] + 1)] for n in sorted(counts)]
    return np.array([[*chain(*parts)] for parts in product(*choices)], np.int64)
