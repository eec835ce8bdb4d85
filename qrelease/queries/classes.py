"""Classes of queries that a synopsis answers as a whole, and their sizes for union bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations
from math import comb, prod
from operator import and_
from typing import Any, Final, final

import numpy as np

from qrelease._util.typing import Axes, Mask
from qrelease._util.validate import whole
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import TooLarge
from qrelease.queries.canonical import CanonicalQuery, conjunction

MAX_KINDS: Final = 1 << 18
"""Kinds of conjunctions that are told apart."""


def maximal_sets(sets: Iterable[Axes]) -> list[Axes]:
    """Those sets of columns, each ascending, that are in no other of them, in the order given."""
    listed = [*dict.fromkeys(sets)]
    having: dict[int, int] = {}  # by column, the sets that have it, as bits
    for i, s in enumerate(listed):
        for a in s:
            having[a] = having.get(a, 0) | 1 << i
    around = [reduce(and_, map(having.__getitem__, s), (1 << len(listed)) - 1) for s in listed]
    return [s for i, s in enumerate(listed) if around[i] == 1 << i]


@final
@dataclass(frozen=True)
class Conjunctions:
    """All conjunctions of conditions on at most `order` columns, each of which admits some values of one column.

    Attributes
    ----------
    order
        How many columns at most, at least 1.
    ranges
        Whether an ordered column is asked for ranges only, which makes it the class of all boxes; else any set of
        values is in the class.
    weighted
        Whether the averages of such conjunctions belong to it that give each record a weight by its value in one of
        the columns (`CanonicalQuery.weighted_sets`): an answer that is linear in the noise is no further off than the
        furthest of what is averaged, so a synopsis that keeps an error on all conjunctions keeps it on them.
    simple
        Whether a column without order is asked for one value at a time, and an ordered one for a range of values or for
        all but a range, whatever `ranges` says. Others are asked for any set of values.
    among
        Sets of columns, by position, of which a query's columns have to be in one; any columns, if there are none.

    Raises
    ------
    InvalidInput
        For an order below 1.

    Examples
    --------
    >>> domain = Domain.coded({"a": 2, "b": 2})
    >>> Conjunctions(1).cells(domain, (0, 1))
    Counter({2: 4, 4: 1})
    """

    order: int
    ranges: bool = False
    weighted: bool = False
    simple: bool = False
    among: tuple[Axes, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", whole("order", self.order, least=1))

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        flags = {name: True for name in ("weighted", "simple") if getattr(self, name)}
        among = {"among": [list(s) for s in self.among]} if self.among else {}
        return {"order": self.order, "ranges": self.ranges, **flags, **among}

    def contains(self, domain: Domain, asked: CanonicalQuery) -> bool:
        """Whether a query is one of the class.

        Parameters
        ----------
        domain : Domain
            The universe that the query is over.
        asked : CanonicalQuery
            The query, in the one form that all its spellings have.

        Returns
        -------
        bool
            True for a conjunction of at most `order` conditions, of ranges if the class has these alone.
        """
        if len(asked.axes) > self.order or not self._on(asked.axes):
            return False
        sets = asked.sets(domain)
        if sets is None:
            return self.weighted and self._averages(domain, asked)
        return all(self._admits(domain.attributes[a], s) for a, s in zip(asked.axes, sets, strict=True))

    def _on(self, axes: Axes) -> bool:
        """Whether queries of the class may be about all these columns."""
        return not self.among or any(set(axes) <= set(s) for s in self.among)

    def _admits(self, attribute: Attribute, admitted: Mask) -> bool:
        """Whether a condition of the class may admit just these values of one column."""
        if self.simple:
            ends = int(np.count_nonzero(admitted[1:] != admitted[:-1])) + int(admitted[0] != admitted[-1])
            return ends == 2 if attribute.ordered else int(np.count_nonzero(admitted)) == 1
        return not (self.ranges and attribute.ordered) or _is_range(admitted)

    def _averages(self, domain: Domain, asked: CanonicalQuery) -> bool:
        """Whether a query is an average of conjunctions of the class."""
        found = asked.weighted_sets(domain)
        if found is None or not (self.ranges or self.simple):
            return found is not None
        sides, place, weights = found
        columns = [domain.attributes[a] for a in asked.axes]
        levels = [weights >= t for t in np.unique(weights[weights > 0])]
        rest = [(columns[i], side) for i, side in enumerate(sides) if i != place]
        # A level that admits all values is no condition.
        parts = [*rest, *((columns[place], level) for level in levels)]
        return all(bool(side.all()) or self._admits(column, side) for column, side in parts)

    def subsets(self, axes: Axes) -> Iterator[Axes]:
        """The sets of columns that queries of the class are about.

        Parameters
        ----------
        axes : tuple of int
            The columns to choose from, by position.

        Returns
        -------
        iterator of tuple of int
            All sets of at most `order` of them, the empty one included.
        """
        within = [tuple(a for a in axes if a in s) for s in self.among] or [axes]
        for k in range(min(self.order, max(map(len, within))) + 1):
            yield from sorted({subset for s in within for subset in combinations(s, k)})

    def ways(self, attribute: Attribute) -> list[int]:
        """How many conditions on one column admit 1, 2, … of its n values.

        Parameters
        ----------
        attribute : Attribute
            The column.

        Returns
        -------
        list of int, length n - 1
            A condition that admits all n values is none, and not counted.
        """
        n = attribute.size
        if self.simple:  # there are n ranges and complements of ranges, which go round, for each number of values
            return [n if m == 1 or attribute.ordered else 0 for m in range(1, n)]
        ranges = self.ranges and attribute.ordered
        return [n - m + 1 if ranges else comb(n, m) for m in range(1, n)]

    def cells(self, domain: Domain, axes: Axes) -> Counter[int]:
        """How many of the queries on some columns count 1, 2, … cells.

        Parameters
        ----------
        domain : Domain
            The universe.
        axes : tuple of int
            The columns, by position.

        Returns
        -------
        Counter
            From a number of cells of the marginal on these columns to how many queries count just so many cells.
        """
        return _cells(self, domain, axes)


def _is_range(admitted: Mask) -> bool:
    """Whether the values of a column that are admitted stand together."""
    return bool((admitted[1:] != admitted[:-1]).sum() + int(admitted[0]) + int(admitted[-1]) == 2)


@lru_cache(256)
def _cells(conjunctions: Conjunctions, domain: Domain, axes: Axes) -> Counter[int]:
    # By the columns that matter so far and the cells: one column after the other.
    found: Counter[tuple[int, int]] = Counter({(0, 1): 1})
    for a in axes:
        n, following = domain.shape[a], Counter[tuple[int, int]]()
        for (order, cells), count in found.items():
            following[order, cells * n] += count
            for m, ways in enumerate(conjunctions.ways(domain.attributes[a]) if order < conjunctions.order else (), 1):
                if ways:
                    following[order + 1, cells * m] += count * ways
        if len(following) > MAX_KINDS:
            raise TooLarge(f"conjunctions on {len(axes)} columns are of more than {MAX_KINDS:,} kinds")
        found = following
    total: Counter[int] = Counter()
    for (_, cells), count in found.items():
        total[cells] += count
    return total


@final
@dataclass(frozen=True)
class Parities:
    """All conjunctions, and all parities: an odd number of conditions holds, one on each of some columns."""

    def to_json(self) -> dict[str, Any]:
        """What tells it from the other classes."""
        return {"parities": True}

    def contains(self, domain: Domain, asked: CanonicalQuery) -> bool:
        """Whether a query is one of the class."""
        if asked.unit != 1:
            return False
        cube = asked.entries(domain).reshape([domain.shape[a] for a in asked.axes])
        # A parity is a product of signs, each a function of one column.
        signs = 1 - 2 * cube
        lines = [signs[tuple(slice(None) if j == i else 0 for j in range(cube.ndim))] for i in range(cube.ndim)]
        first = int(signs[(0,) * cube.ndim])
        product = reduce(np.multiply.outer, lines, np.ones((), np.int64))
        return conjunction(cube) or bool((product == signs * first ** (cube.ndim - 1)).all())

    def cells(self, domain: Domain, axes: Axes) -> Counter[int]:
        """The number of queries, at most, by how many cells of the table on these columns they count."""
        whole = prod(domain.shape[a] for a in axes)
        total = Counter(Conjunctions(max(len(axes), 1)).cells(domain, axes))
        # Of each column's signs the sum; all together multiply. Two columns' signs may be turned over together.
        sums: Counter[int] = Counter({1: 1})
        for a in axes:
            n, following = domain.shape[a], Counter[int]()
            for part, count in sums.items():
                for m in range(n + 1):
                    following[part * (n - 2 * m)] += count * comb(n, m)
            sums = following
        for part, count in sums.items():
            total[(whole - part) // 2] += -(-count // 2 ** max(len(axes) - 1, 0))
        del total[0]
        return total


@final
@dataclass(frozen=True)
class Everything:
    """All linear queries with entries in [0, 1]."""

    def to_json(self) -> dict[str, Any]:
        """What tells it from the other classes."""
        return {}

    def contains(self, domain: Domain, asked: CanonicalQuery) -> bool:
        """Always: every linear query is one of the class."""
        return True


QueryClass = Conjunctions | Parities | Everything


def class_from_json(content: dict[str, Any]) -> QueryClass:
    """The class that `to_json` described."""
    if "order" in content:
        among = tuple(tuple(s) for s in content.get("among", ()))
        return Conjunctions(**{**content, "among": among})
    return Parities() if content else Everything()
