"""Weighted records that follow a log-linear model: importance weights, resampling, and Gibbs moves of linked columns.

A log-linear model p ∝ e^(Σ θ_S) over sets S of columns has too many cells to be listed. Records stand for it: where θ
changes, their weights are multiplied by e^(the change), which is exact importance weighting; where the weights become
uneven the records are drawn anew in the proportion of these; and each column of each record is drawn anew from its
distribution given the others, which leaves p as it is (Gibbs sampling). Columns that nearly determine each other, such
as a code and its label, are drawn together: drawn one at a time, neither could leave the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, final

import numpy as np

from qrelease._util.parallel import in_parallel
from qrelease._util.typing import Axes, Floats, Ints, Mask
from qrelease.data.marginals import record_kernels
from qrelease.data.marginals.record_tables import Codes16, Tables
from qrelease.errors import InvalidInput
from qrelease.inference.sampling import generator, systematic


@dataclass(frozen=True)
class EntrySettings:
    """How records of independent columns get out of impossible cells."""

    sweeps: int = 20
    """Sweeps in which an impossible cell costs a price, before it is closed."""
    closed_sweeps: int = 3
    """Sweeps after that, in which no record may enter one."""
    first_price: float = 0.5
    """The price in the first sweep: what is taken from the logarithm of the cell's probability."""
    price_growth: float = 1.3
    """How many times larger the price is in each sweep than in the one before."""
    searched_records: int = 1_000
    """Uniform records that look for possible ones before anything is measured."""


ENTRY: Final = EntrySettings()


@final
@dataclass(frozen=True, eq=False)
class Chains:
    """Weighted records that stand for a log-linear model: codes (d, n), and weights (n,) with sum 1.

    counts  (n,) how many equal records each was drawn as, if not once
    """

    codes: Codes16
    weights: Floats
    counts: Ints | None = None

    @property
    def number(self) -> int:
        """The number of records that were drawn."""
        return len(self.weights) if self.counts is None else int(self.counts.sum())

    @property
    def even(self) -> float:
        """The effective number of records, over their number."""
        own = self.weights if self.counts is None else self.weights / self.counts
        return float(1 / (self.weights @ own) / self.number)

    def deviation(self, values: Floats) -> float:
        """The standard deviation of the values (n,) of the records that were drawn."""
        mean = np.average(values, weights=self.counts)
        return float(np.sqrt(np.average((values - mean) ** 2, weights=self.counts)))

    def tilted(self, sums: Floats) -> Chains:
        """The same records with weights times e^sums (n,)."""
        weights = self.weights * np.exp(sums - sums.max())
        return replace(self, weights=weights / weights.sum())

    def evened(self, count: int, rng: np.random.Generator) -> Chains:
        """So many records of equal weights, each as often as its weight says."""
        which = systematic(self.weights, count, rng)
        return Chains(np.ascontiguousarray(self.codes[:, which]), np.full(count, 1 / count))

    def merged(self) -> Chains:
        """Equal records as one."""
        order = np.lexsort(self.codes)
        codes = self.codes[:, order]
        first = np.append(True, (codes[:, 1:] != codes[:, :-1]).any(axis=0))
        which = np.cumsum(first) - 1
        counts = np.bincount(which, None if self.counts is None else self.counts[order]).astype(np.int64)
        weights = np.bincount(which, self.weights[order]).astype(np.float64)
        return Chains(np.ascontiguousarray(codes[:, first]), weights, counts)

    def apart(self) -> Chains:
        """Each record as often as it was drawn."""
        if self.counts is None:
            return self
        which = np.repeat(np.arange(len(self.counts)), self.counts)
        return Chains(np.ascontiguousarray(self.codes[:, which]), (self.weights / self.counts)[which])


@final
class GibbsSampler:
    """Gibbs sampling of a log-linear model with given interactions.

    shape         of the universe
    interactions  tables (cells,) in C order, by their columns; a set may come more than once
    impossible    cells (cells,), by their columns, that no record enters
    linked        pairs of columns that are drawn together once a sweep, besides each column by itself
    """

    def __init__(
        self,
        shape: Sequence[int],
        interactions: Sequence[tuple[Axes, Floats]],
        impossible: Mapping[Axes, Mask],
        linked: Sequence[Axes],
    ) -> None:
        self._shape = tuple(shape)
        walls = [(s, np.where(m, -np.inf, 0.0)) for s, m in impossible.items()]
        self._tables: dict[int, list[tuple[Axes, Floats]]] = {a: [] for a in range(len(shape))}  # by each column
        for s, table in _absorbed(self._shape, [*interactions, *walls]).items():
            for a in s:
                self._tables[a].append((s, table))
        self._moves: list[Axes] = [*((a,) for a in range(len(shape)) if shape[a] > 1), *linked]

    def sweep(self, codes: Codes16, rng: np.random.Generator) -> None:
        """Every column of the records (d, n) anew, in place, and every linked pair: in random order."""
        for number in rng.permutation(len(self._moves)).tolist():
            columns = self._moves[number]
            seed = np.uint64(rng.integers(1 << 63))
            if len(columns) == 1:
                self._redraw(codes, columns[0], seed)
            else:
                self._redraw_two(codes, columns[0], columns[1], seed)

    def grown(self, chains: Chains, weighted_records: int, rng: np.random.Generator) -> Chains:
        """More records, of equal weights: the same ones after one sweep, two, and so on, side by side."""
        moving, found = chains.codes.copy(), []
        for _ in range(0, weighted_records, moving.shape[1]):
            self.sweep(moving, rng)
            found.append(moving.copy())
        return Chains(
            np.ascontiguousarray(np.concatenate(found, axis=1)[:, :weighted_records]),
            np.full(weighted_records, 1 / weighted_records),
        )

    def _redraw(self, codes: Codes16, column: int, seed: np.uint64) -> None:
        given = self._conditional((column,), (column,))

        def work(_: int, cut: slice) -> None:
            record_kernels.redraw(codes, column, self._shape[column], *given, cut.start, cut.stop, seed)

        in_parallel(work, codes.shape[1], _touched(codes.shape[1]))

    def _redraw_two(self, codes: Codes16, first: int, second: int, seed: np.uint64) -> None:
        both = (first, second)
        alone, other, together = (self._conditional(both, own) for own in ((first,), (second,), both))

        def work(_: int, cut: slice) -> None:
            sizes = self._shape[first], self._shape[second]
            record_kernels.redraw_two(codes, *both, *sizes, alone, other, together, cut.start, cut.stop, seed)

        in_parallel(work, codes.shape[1], _touched(codes.shape[1]))

    def _conditional(self, moving: Axes, own: Axes) -> tuple[Any, ...]:
        """The tables over just `own` of the moving columns, with these as their last axes, as the kernels take them."""
        axes: list[int] = []
        steps: list[int] = []
        firsts, begins, parts, position = [0], [], [np.zeros(1, np.float32)], 1
        for s, table in self._tables[own[0]]:
            if tuple(a for a in s if a in moving) != tuple(sorted(own)):
                continue
            rest = [a for a in s if a not in own]
            order = [*rest, *own]
            sizes = [self._shape[a] for a in order]
            axes += rest
            steps += [prod(sizes[i + 1 :]) for i in range(len(rest))]
            firsts.append(len(axes))
            begins.append(position)
            parts.append(np.ascontiguousarray(table.transpose([s.index(a) for a in order]), np.float32).reshape(-1))
            position += table.size
        numbers = (np.array(part, np.int64) for part in (axes, steps, firsts, begins))
        return (*numbers, np.concatenate(parts))


_FEW: Final = 128
"""Records that are redrawn before a thread has begun."""


def _touched(records: int) -> int:
    """As `in_parallel` takes it: more records than a few are worth threads, each takes that long."""
    return 0 if records <= _FEW else 1 << 40


def _absorbed(shape: Sequence[int], interactions: Sequence[tuple[Axes, Floats]]) -> dict[Axes, Floats]:
    """The same sum with fewer tables: each is added to one over more columns, where there is one."""
    found: dict[Axes, Floats] = {}
    hosts = defaultdict[int, list[Axes]](list)  # by each of their columns
    for s, values in sorted(interactions, key=lambda entry: -len(entry[0])):
        table = values.reshape([shape[a] for a in s])
        host = s if s in found else next(filter(set(s).issubset, hosts[s[0]]), None)
        if host is None:
            found[s] = table.astype(np.float64)
            for a in s:
                hosts[a].append(s)
        else:
            found[host] += table.reshape([shape[a] if a in s else 1 for a in host])
    return found


def independent(
    singles: Sequence[Floats], impossible: Mapping[Axes, Mask], weighted_records: int, rng: np.random.Generator
) -> Chains:
    """Records of independent columns; where cells are impossible, near these.

    If none of so many comes to a possible cell, those of `possible`: raises `InvalidInput` where that does.
    """
    codes = _drawn(singles, weighted_records, rng)
    if not impossible:
        return Chains(codes, np.full(weighted_records, 1 / weighted_records))
    inside = _entered(codes, singles, impossible, rng)
    if not inside.any():
        codes = possible([len(p) for p in singles], impossible)
        inside = np.ones(codes.shape[1], bool)
    return Chains(codes, inside / inside.sum()).evened(weighted_records, rng)


def possible(shape: Sequence[int], impossible: Mapping[Axes, Mask]) -> Codes16:
    """Records that are in no impossible cell, the same ones whenever it is asked: they come from uniform columns.

    Raises `InvalidInput` where none of `ENTRY.searched_records` comes to one.
    """
    rng, uniform = generator(0), [np.full(n, 1 / n) for n in shape]
    codes = _drawn(uniform, ENTRY.searched_records, rng)
    inside = _entered(codes, uniform, impossible, rng)
    if not inside.any():
        raise InvalidInput(
            f"no record that is possible was found by {ENTRY.searched_records:,}: impossible cells may leave none"
        )
    return np.ascontiguousarray(codes[:, inside])


def _drawn(singles: Sequence[Floats], weighted_records: int, rng: np.random.Generator) -> Codes16:
    """Draw so many records of independent columns."""
    return np.stack([rng.choice(len(p), weighted_records, p=p) for p in singles]).astype(np.uint16)


def _entered(
    codes: Codes16, singles: Sequence[Floats], impossible: Mapping[Axes, Mask], rng: np.random.Generator
) -> Mask:
    """Move records of independent columns out of impossible cells, in place, where they find a way: which did, (n,).

    Where one column follows from another, changing either alone breaks a rule. So a cell has a price at first, which
    rises: a record may pass through some on its way from one possible record to a likelier one.
    """
    shape, blocked = [len(p) for p in singles], np.concatenate([*impossible.values()])
    likely = [((a,), np.log(p)) for a, p in enumerate(singles)]
    prices = [ENTRY.first_price * ENTRY.price_growth**i for i in range(ENTRY.sweeps)]
    for price in [*prices, *[np.inf] * ENTRY.closed_sweeps]:
        GibbsSampler(shape, [*likely, *((s, np.where(m, -price, 0.0)) for s, m in impossible.items())], {}, ()).sweep(
            codes, rng
        )
    inside: Mask = Tables(shape, [*impossible]).sums(codes, blocked.astype(np.float64)) == 0
    return inside
