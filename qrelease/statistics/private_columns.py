"""`PrivateColumns`: the only door through which a statistic sees the records, under the budget of one charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Any, Final, Literal, TypeVar, final

import numpy as np

from qrelease._util.typing import Codes, Ints
from qrelease._util.validate import whole
from qrelease.data.domain import Domain
from qrelease.data.fractional_records import sums_by_cell
from qrelease.data.points import has_points
from qrelease.data.source import Source
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import better_rule, calibrated, selection_epsilon
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, Spend
from qrelease.privacy.filters import Filter
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.noise_source import NoiseSource

Kind = TypeVar("Kind")


_BLOCK: Final = 1 << 20
"""Records whose values are counted at once."""

_SAFE: Final = 1 << 62
"""Two numbers below it have a sum of 64 bits."""


def domain_of(table: Source) -> Domain:
    """The domain of a table as statistics see it.

    A column whose points the table does not keep, as it was made of bins alone, has no grid. `InvalidInput` where
    categories are to be learned first; bins need not be, for a statistic of a number takes the points of its grid.
    """
    kept = table.points or (None,) * len(table.domain)
    return _without_grids(table.domain, [points is None for points in kept])


def domain_read_by(schema: Domain) -> Domain:
    """The domain that `domain_of` gives of a table that is read by a schema: derived columns have no grid."""
    derived = schema.person is not None and bool(schema.person.derive)
    return _without_grids(schema, [derived] * len(schema))


def _without_grids(domain: Domain, of: Sequence[bool]) -> Domain:
    """A domain where some columns have their bins alone, of those that otherwise have exact values beside them."""
    if any(domain[name].kind == "category" for name in domain.undecided):
        domain.check_decided()
    lost = [without and has_points(a) for a, without in zip(domain, of, strict=True)]
    if not any(lost):
        return domain
    binned = (
        replace(a, within=(), step=Fraction(0), shape=()) if without else a
        for a, without in zip(domain, lost, strict=True)
    )
    return replace(domain, attributes=tuple(binned))


def counted_values(table: Source, grid: Grid) -> Numbers:
    """The values of a column, counted in one pass; a missing one is left out."""
    axis = table.domain.axis(grid.name)
    points = table.points[axis] if table.points else None
    if points is None:
        return Numbers.counted(table.counts([(axis,)])[0][: grid.cells])
    return Numbers.counted(_histogram(points, grid.cells)[: grid.cells])


def _histogram(points: Codes, values: int) -> Ints:
    """How many records are at each point, and last how many are missing, (values + 1,)."""
    histogram = np.zeros(values + 1, np.int64)
    for start in range(0, len(points), _BLOCK):
        histogram += np.bincount(points[start : start + _BLOCK], minlength=values + 1)
    return histogram


def value_codes(table: Source, grid: Grid) -> Ints:
    """The code of each record's value, (n,) int64; -1 where it is missing."""
    axis = table.domain.axis(grid.name)
    points = table.points[axis] if table.points else None
    found = (table.codes(axis) if points is None else points).astype(np.int64)
    found[found >= grid.cells] = -1
    return found


@final
@dataclass
class PrivateColumns:
    """Columns of private records under a budget. Made by the `Curator` for one charge and one statistic.

    `measure`, `perturb`, `perturb_widely`, `choose`, `choose_apart` and `stream` spend before they draw, and write down
    what they spent. `numbers`, `codes`, `count` and `counts` return private numbers, which are released through those.

    Parameters
    ----------
    _table : Source
        The private records.
    neighbours : Neighbours
        Which tables the promise compares.
    filter : Filter
        What may be spent, and what was.
    noise : NoiseSource
        What is drawn.
    spends : list of Spend
        The parts of the cost so far, in the order of the draws.

    Examples
    --------
    >>> from qrelease import Entropy
    >>> from qrelease.statistics.noise_source import ExactNoise
    >>> from qrelease import Table
    >>> table, cost = Table(Domain.coded({"age": 100}), (np.arange(2000) % 80,)), PureDP(1.0)
    >>> private = PrivateColumns(table, Neighbours.ADD_REMOVE, Filter(cost), ExactNoise(Entropy.insecure(0)))
    >>> noisy, law = private.measure("count", np.array([private.count()]), 1, cost)
    >>> abs(int(noisy[0]) - 2000) < 20, law.scale, str(private.filter.spent)
    (True, 1.0, 'epsilon=1')
    """

    _table: Source = field(repr=False)
    neighbours: Neighbours
    filter: Filter
    noise: NoiseSource = field(repr=False)
    spends: list[Spend] = field(default_factory=list)

    @cached_property
    def domain(self) -> Domain:
        """The public universe of the records."""
        return domain_of(self._table)

    @property
    def public_records(self) -> int | None:
        """The number of records, where it is public because neighbours have the same number; else None."""
        return len(self._table) if self.neighbours is Neighbours.REPLACE_ONE else None

    @property
    def moves(self) -> Literal[1, 2]:
        """The most records that are added or removed to get from a table to a neighbour: 1 or 2."""
        return moves(self.neighbours)

    def numbers(self, name: str) -> Numbers:
        """The values of one column and how often each occurs. Private.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        Numbers
            Points of the column's grid, and their counts.
        """
        return counted_values(self._table, Grid.of(self.domain, name))

    def codes(self, name: str) -> Ints:
        """The point of the column's grid that each record has. Private.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        ndarray of int64, shape (n,)
            Steps above the first point; -1 where the value is missing.
        """
        return value_codes(self._table, Grid.of(self.domain, name))

    def cells(self, name: str) -> Ints:
        """The cell of each record in a column of any kind. Private.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        ndarray of int64, shape (n,)
            Codes; the missing cell is one of them.
        """
        return self._table.codes(self.domain.axis(name)).astype(np.int64)

    def blocks(self, size: int) -> Iterator[list[Ints]]:
        """The cells of all columns, of so many records at a time: no copy of the whole table is made. Private.

        Parameters
        ----------
        size : int
            Records of a block; the last one may have fewer.

        Returns
        -------
        iterator of list of ndarray of int64
            One array for each column.
        """
        columns = [self._table.codes(axis) for axis in range(len(self.domain))]
        for start in range(0, len(columns[0]), size):
            yield [column[start : start + size].astype(np.int64) for column in columns]

    def sums(self, weights: Mapping[str, Ints]) -> Ints:
        """Sums over the records of a weight that the value of each column has, counted in one pass. Private.

        Parameters
        ----------
        weights : mapping of str to ndarray of int
            For each of some columns, a whole number for each value of its grid; a missing value adds nothing.

        Returns
        -------
        ndarray of int, shape (d,)
            One sum for each of these columns, in their order.
        """
        axes = {name: axis for axis, name in enumerate(self._table.domain.names)}
        points = self._table.points or (None,) * len(axes)
        kept = [points[axes[name]] for name in weights]
        plain = iter(self._table.counts([(axes[n],) for n, p in zip(weights, kept, strict=True) if p is None]))
        found = [
            next(plain) if p is None else _histogram(p, len(w)) for p, w in zip(kept, weights.values(), strict=True)
        ]
        return np.array([int(h[: len(w)] @ w) for h, w in zip(found, weights.values(), strict=True)], np.int64)

    def count(self) -> int:
        """The number of records. Private, unless it is `public_records`."""
        return len(self._table)

    def counts(self, names: tuple[str, ...]) -> Ints:
        """How many records are in each cell of a marginal. Private.

        Parameters
        ----------
        names : tuple of str
            Its columns.

        Returns
        -------
        ndarray of int, shape (cells,)
            Flat, in C order of the names.
        """
        return self._table.counts([tuple(self.domain.axis(name) for name in names)])[0]

    def sums_by(self, names: tuple[str, ...], numbers: Ints) -> Ints:
        """Sums over the records in each cell of a marginal, exact. Private.

        Parameters
        ----------
        names : tuple of str
            Its columns.
        numbers : ndarray of int64, shape (n,)
            What each record adds, at most 2^30 in size.

        Returns
        -------
        ndarray of int, shape (cells,)
            Flat, in C order of the names.
        """
        axes = tuple(self.domain.axis(name) for name in names)
        return sums_by_cell(self.domain, [self._table.codes(axis) for axis in axes], numbers, axes)

    def spend(self, what: str, cost: Cost) -> None:
        """Take a cost from the charge, for the draw that follows, and write it down.

        Parameters
        ----------
        what, cost
            As in `Private.spend`.

        Raises
        ------
        BudgetExceeded
            As there: then nothing may be drawn.
        """
        self.filter.spend_part(cost)
        self.spends.append(Spend(what, cost))

    def measure(self, what: str, exact: Ints | Sequence[int], sensitivity: int, cost: Cost) -> tuple[Ints, Noise]:
        """Add independent noise to whole numbers, under one cost.

        Parameters
        ----------
        what : str
            What is measured, in words; public.
        exact : ndarray of int, shape (k,), or sequence of int
            Private whole numbers. Those that may be beyond 64 bits are given in a list: an array would be of another
            type for one table than for its neighbour.
        sensitivity : int
            How far all of them move between neighbours: Δ₁ for a `PureDP`, else Δ₂².
        cost : Cost
            What all of them cost together.

        Returns
        -------
        tuple of ndarray of int, shape (k,), and Noise
            The noisy numbers, Python's own where some are beyond 64 bits, and the distribution of their noise.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        InvalidInput
            For anything but whole numbers. Whole noise would leave the fraction of another number as it is, for all to
            see.
        """
        numbers = _whole_numbers("what is measured", exact)
        law, parameter = calibrated(whole("sensitivity", sensitivity, least=0), cost)
        self.spend(what, cost)
        return _plus(numbers, self.noise.noise(law, parameter, len(numbers))), law

    def perturb(self, what: str, exact: int, scale: Fraction, cost: Cost) -> int:
        """A whole number with discrete Laplace noise of a scale that may be private: the caller proves the cost.

        Parameters
        ----------
        what : str
            What is measured, in words; public.
        exact : int
            The private number.
        scale : Fraction
            The scale of the noise.
        cost : Cost
            What the caller's proof says that it costs.

        Returns
        -------
        int
            The noisy number.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        InvalidInput
            For anything but a whole number.
        """
        (number,) = _whole_numbers("what is perturbed", [exact])
        self.spend(what, cost)
        return int(number) + int(self.noise.noise(Noise("discrete Laplace", float(scale)), scale, 1)[0])

    def perturb_widely(self, what: str, exact: int, scale: Fraction, cost: Cost) -> int:
        """A whole number with discrete Cauchy noise of a scale that may be private: the caller proves the cost.

        Parameters
        ----------
        what, exact, scale, cost
            As in `perturb`.

        Returns
        -------
        int
            The noisy number.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        InvalidInput
            For anything but a whole number.
        """
        (number,) = _whole_numbers("what is perturbed", [exact])
        self.spend(what, cost)
        return int(number) + self.noise.cauchy(scale)

    def choose(self, what: str, scores: Ints, sensitivity: int, cost: PureDP | ZCDP, *, monotone: bool = False) -> int:
        """An index, likelier the larger its score.

        It is drawn by permute-and-flip under pure ε and by the exponential mechanism under zCDP, each the better one
        there.

        Parameters
        ----------
        what : str
            What is chosen, in words; public.
        scores : ndarray of int, shape (k,)
            Private whole numbers, one for each candidate.
        sensitivity : int
            The most that a neighbour moves a score by.
        cost : PureDP or ZCDP
            What the choice costs.
        monotone : bool
            Whether one record more moves all scores in the same direction, which is half as dear.

        Returns
        -------
        int
            From 0 to k - 1.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        """
        rule = better_rule(cost)
        epsilon = selection_epsilon(cost, rule)
        self.spend(what, cost)
        return self.noise.choose(scores, epsilon, sensitivity, rule, monotone=monotone)

    def choose_apart(
        self, what: str, scores: Sequence[Ints], sensitivities: Sequence[int], cost: PureDP | ZCDP
    ) -> list[int]:
        """One index for each list of scores, for one cost: no two lists may depend on the same record.

        Parameters
        ----------
        what, cost
            As in `choose`.
        scores : sequence of ndarray of int
            A list of private scores for each choice.
        sensitivities : sequence of int
            For each list, the most that a neighbour moves its scores by. A neighbour moves the scores of one list, or,
            where a record is replaced, those of two, by at most half as much each.

        Returns
        -------
        list of int
            One index for each list.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        """
        rule = better_rule(cost)
        epsilon = selection_epsilon(cost, rule)
        self.spend(what, cost)
        given = zip(scores, sensitivities, strict=True)
        return [self.noise.choose(part, epsilon, moved, rule, monotone=False) for part, moved in given]

    def stream(self, what: str, cost: Cost, kind: Callable[..., Kind], *arguments: Any, **options: Any) -> Kind:
        """A stream of the sparse vector technique.

        Parameters
        ----------
        what : str
            What is asked, in words; public.
        cost : Cost
            What all of the stream costs.
        kind : callable
            Which one, such as `SparseVector`.
        *arguments, **options
            What it takes beside the cost.

        Returns
        -------
        object of that kind
            It answers one query after another.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        """
        self.spend(what, cost)
        return self.noise.stream(kind, cost, *arguments, **options)


def _whole_numbers(name: str, exact: Ints | Sequence[int]) -> Ints | list[int]:
    """The same numbers, as `_plus` takes them. What is refused is said by its type alone: its value is private."""
    if isinstance(exact, np.ndarray) and exact.ndim == 1 and exact.dtype.kind in "bi":
        return exact
    if (isinstance(exact, np.ndarray) and exact.ndim != 1) or not isinstance(exact, np.ndarray | Sequence):
        kind = f"an array of {exact.ndim} dimensions" if isinstance(exact, np.ndarray) else type(exact).__name__
        raise InvalidInput(f"{name} must be a list or one row of whole numbers, got {kind}")
    other = next((number for number in exact if not _whole(number)), None)
    if other is not None:
        raise InvalidInput(
            f"{name} must be whole numbers, such as counts, got {type(other).__name__}: whole noise would leave their"
            " fraction as it is; multiply them, and their sensitivity, by a fixed number and round before"
        )
    return [int(number) for number in exact]


def _whole(number: object) -> bool:
    """Whether it is a whole number; numpy calls its durations integers, too."""
    return isinstance(number, Integral | np.bool_) and not isinstance(number, np.timedelta64)


def _plus(exact: Ints | Sequence[int], noise: Ints) -> Ints:
    """The sums, exact however large they are: of which type depends on the sums alone, and not on either part.

    Else what is rounded, or wraps around, on one side of 2^63 would tell a table from its neighbour on the other.
    """
    if isinstance(exact, np.ndarray) and _small(exact) and _small(noise):
        return np.asarray(exact + noise)
    sums = [int(a) + int(b) for a, b in zip(exact, noise, strict=True)]
    fit = all(-2 * _SAFE <= total < 2 * _SAFE for total in sums)
    return np.array(sums, np.int64 if fit else object)


def _small(numbers: Ints) -> bool:
    return not len(numbers) or bool(numbers.min() > -_SAFE and numbers.max() < _SAFE)


def moves(neighbours: Neighbours) -> Literal[1, 2]:
    """The most records that are added or removed to get from a table to a neighbour: 1 or 2."""
    return 2 if neighbours is Neighbours.REPLACE_ONE else 1
