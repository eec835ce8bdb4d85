"""Optimisers over classes of queries that are too large to list, for `distinguishers.PerturbedLeader`.

No privacy rests on them: they see weights that are public already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Final, Protocol, final, runtime_checkable

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import TooLarge

MAX_SUMS: Final = 1 << 24
"""Sums that `ConjunctionOracle` holds at a time."""


@runtime_checkable
class Oracle(Protocol):
    """An optimiser over a class of queries on the cells of one marginal."""

    def best(self, marginal: Domain, weights: Floats) -> Floats:
        """The query of the class whose weighted sum is largest, or about largest.

        Parameters
        ----------
        marginal : Domain
            The columns of the marginal.
        weights : ndarray of float, shape (cells,)
            One for each cell, in C order.

        Returns
        -------
        ndarray of float, shape (cells,)
            The query q, with entries in [0, 1].
        """

    def log_count(self, marginal: Domain) -> float:
        """The logarithm of the number of queries in the class.

        Parameters
        ----------
        marginal : Domain
            The columns of the marginal.

        Returns
        -------
        float
            ln of it; at most cells · ln 2 need be counted, the corners of [0, 1]^cells.

        Raises
        ------
        TooLarge
            For a marginal that it cannot search.
        """


@final
@dataclass(frozen=True)
class PredicateOracle:
    """Every predicate over a marginal: 2^cells queries. The best counts the cells of positive weight.

    Examples
    --------
    >>> PredicateOracle().best(Domain.coded({"a": 3}), np.array([0.5, -1.0, 2.0]))
    array([1., 0., 1.])
    """

    def best(self, marginal: Domain, weights: Floats) -> Floats:
        """See `Oracle`; exact."""
        return (weights > 0).astype(np.float64)

    def log_count(self, marginal: Domain) -> float:
        """See `Oracle`."""
        return marginal.size * math.log(2)

    def to_json(self) -> dict[str, str]:
        """The name under which releases store it."""
        return {"type": "Predicates"}


@final
@dataclass(frozen=True)
class ConjunctionOracle:
    """At most one condition a column: a range of an ordered one, a value of another, as `age in 30..39 and sex = F`.

    The conditions on all columns but the longest ordered one are listed. Along that one the best range is found in one
    pass, from running sums and the least of them so far (Kadane's algorithm; Bentley 1984).

    References
    ----------
    Bentley 1984, *Programming pearls: algorithm design techniques*, for the best range in one pass.

    Examples
    --------
    >>> ConjunctionOracle().best(Domain.coded({"a": 4}), np.array([1.0, 2.0, -4.0, 1.0]))
    array([1., 1., 0., 0.])
    """

    def best(self, marginal: Domain, weights: Floats) -> Floats:
        """See `Oracle`; exact."""
        order = _scanned_last(marginal)
        *others, last = (marginal.attributes[a] for a in order)
        masks = [_conditions(a) for a in others]
        lines = weights.reshape(marginal.shape).transpose(order)
        for axis, mask in enumerate(masks):
            lines = np.moveaxis(np.tensordot(mask, lines, axes=(1, axis)), 0, axis)
        low, high, sums = _best_spans(lines[..., : last.values] if last.ordered else lines, ranges=last.ordered)
        whole = lines.sum(axis=-1)
        where = np.unravel_index(int(np.argmax(np.maximum(sums, whole))), whole.shape)
        span = np.ones(last.size)
        if sums[where] >= whole[where]:
            span[: low[where]] = span[high[where] + 1 :] = 0
        cube: Floats = reduce(np.multiply.outer, [mask[i] for mask, i in zip(masks, where, strict=True)] + [span])
        return cube.transpose(np.argsort(order)).reshape(-1)

    def log_count(self, marginal: Domain) -> float:
        """See `Oracle`."""
        *others, last = (_number(marginal.attributes[a]) for a in _scanned_last(marginal))
        sums = math.prod(others) * max(marginal.shape)
        if sums > MAX_SUMS:
            raise TooLarge(
                f"the conditions on {', '.join(marginal.names)} take {sums:,} sums; at most {MAX_SUMS:,} fit: take"
                " fewer columns or coarser bins"
            )
        return math.log(math.prod(others) * last)

    def to_json(self) -> dict[str, str]:
        """The name under which releases store it."""
        return {"type": "Conjunctions"}


def _scanned_last(marginal: Domain) -> list[int]:
    """The axes, the one with the most conditions at the end."""
    return sorted(range(len(marginal)), key=lambda a: _number(marginal.attributes[a]))


def _number(attribute: Attribute) -> int:
    """How many conditions there are on a column, none at all being one of them."""
    return 1 + (attribute.values * (attribute.values + 1) // 2 if attribute.ordered else attribute.size)


def _conditions(attribute: Attribute) -> Floats:
    """The conditions on a column as masks, (c, cells): all cells, then ranges or single cells."""
    everything, cells = np.ones((1, attribute.size)), np.arange(attribute.size)
    if not attribute.ordered:
        return np.concatenate([everything, np.eye(attribute.size)])
    low, high = (ends[:, None] for ends in np.triu_indices(attribute.values))
    return np.concatenate([everything, ((low <= cells) & (cells <= high)).astype(np.float64)])


def _best_spans(lines: Floats, *, ranges: bool) -> tuple[Ints, Ints, Floats]:
    """Where the range, or the single value, of the largest sum of each line (..., m) begins and ends, and that sum."""
    if not ranges:
        best = lines.argmax(axis=-1)
        return best, best, lines.max(axis=-1)
    after = np.cumsum(lines, axis=-1)
    before = after - lines
    least = np.minimum.accumulate(before, axis=-1)
    high = np.argmax(after - least, axis=-1)
    sums = np.take_along_axis(after - least, high[..., None], axis=-1)[..., 0]
    reached = np.take_along_axis(least, high[..., None], axis=-1)
    return np.argmax(before == reached, axis=-1), high, sums
