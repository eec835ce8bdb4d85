"""Records as rows of a regression, with whole-number features of bounded length, and the models made from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Protocol, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats, Ints
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput

UNIT: Final = 1 << 10
"""What 1 is in whole numbers: features and targets are from -UNIT to UNIT."""

_MAX_INDICATOR_CELLS: Final = 32  # ordered columns with more cells are one number, all others one indicator a cell
_MAX_FEATURES: Final = 1 << 12


class CellReader(Protocol):
    """Whoever has the cells of records: a `PrivateColumns`, or a function of public ones."""

    def cells(self, name: str) -> Ints:
        """The cell of each record in a column, (n,)."""


@final
@dataclass(frozen=True)
class Design:
    """Which features a record has; public.

    A feature is the constant 1, an indicator of one cell, or an ordered column with many cells as a number from -1 to
    1, 0 where it is missing. So a row of f columns has length at most √(f + 1), and at most f + 1 entries that are not
    0, whatever the record.

    Attributes
    ----------
    target
        A column that is no feature.
    features
        Names of columns.
    """

    domain: Domain
    target: str
    features: tuple[str, ...]

    @classmethod
    def of(cls, domain: Domain, target: str, features: tuple[str, ...] | None) -> Design:
        """The design of these features, or of all columns but the target; `InvalidInput` where they do not fit."""
        domain[target]
        names = tuple(name for name in domain.names if name != target) if features is None else features
        if not isinstance(names, tuple) or not names or len(set(names)) < len(names) or target in names:
            raise InvalidInput(f"features must be a tuple of different columns without {target!r}, got {names!r}")
        design = cls(domain, target, names)
        if design.width > _MAX_FEATURES:
            raise InvalidInput(f"a regression has at most {_MAX_FEATURES:,} features, got {design.width:,}")
        return design

    @cached_property
    def blocks(self) -> tuple[Ints, ...]:
        """What the cells of each column are as features, (cells, features of it)."""
        return tuple(_block(self.domain[name]) for name in self.features)

    @cached_property
    def width(self) -> int:
        """p, the number of features, the constant included."""
        return 1 + sum(int(block.shape[1]) for block in self.blocks)

    @cached_property
    def indicators(self) -> tuple[bool, ...]:
        """Whether a column is one indicator for each of its cells, or else one number."""
        return tuple(not _is_number(self.domain[name]) for name in self.features)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where the features of each column stand in a row."""
        bounds = np.cumsum([1, *(block.shape[1] for block in self.blocks)])
        return tuple(slice(a, b) for a, b in pairwise(bounds.tolist()))

    @property
    def square(self) -> int:
        """The largest squared length of a row."""
        return (len(self.features) + 1) * UNIT**2

    @property
    def moment_square(self) -> int:
        """The largest squared length of the upper triangle of xxᵀ: Σ_{i≤j} x_i²x_j² = (‖x‖⁴ + Σx_i⁴)/2."""
        return (self.square**2 + UNIT**2 * self.square) // 2

    @property
    def moment_sum(self) -> int:
        """The largest Σ_{i≤j} |x_i x_j|, of at most f + 1 entries that are not 0."""
        terms = len(self.features) + 1
        return terms * (terms + 1) // 2 * UNIT**2

    def rows(self, source: CellReader) -> Ints:
        """(n, p); a row depends on its record alone."""
        cells = [source.cells(name) for name in self.features]
        found = np.full((len(cells[0]), self.width), UNIT, np.int64)
        for place, block, codes in zip(self.places, self.blocks, cells, strict=True):
            found[:, place] = block[codes]
        return found

    def labels(self, positive: str | None) -> tuple[Ints, Ints]:
        """The label of each cell of a target of two classes: −1, 1, or 0 where it is missing; and whether it is 1."""
        attribute = self.domain[self.target]
        names = attribute.labels[: attribute.values]
        if positive is None:
            if len(names) != 2:
                raise InvalidInput(f"{self.target!r} has {len(names)} values: say which one is positive")
            positive = names[1]
        if positive not in names or len(names) < 2:
            raise InvalidInput(f"{positive!r} is not one of several values of {self.target!r}")
        found = np.array([1 if name == positive else -1 for name in names] + [0] * (attribute.size - len(names)))
        return found.astype(np.int64), (found == 1).astype(np.int64)

    def numbers(self) -> tuple[Ints, Ints]:
        """The value of each cell of the target: a whole number from -UNIT to UNIT, and 1, or 0 where it is missing."""
        attribute = self.domain[self.target]
        if attribute.values < 2 or not (attribute.ordered or attribute.kind == "coded"):
            raise InvalidInput(f"{self.target!r} is no number: a linear regression needs an ordered target")
        known = (np.arange(attribute.size) < attribute.values).astype(np.int64)
        return _scaled(attribute)[:, 0] * known, known

    def weights(self, solution: Floats) -> dict[str, float | tuple[float, ...]]:
        """The weights by column: one a cell, or one for a number, in its own scale from -1 to 1; the constant first."""
        found: dict[str, float | tuple[float, ...]] = {"": float(solution[0])}
        at = 1
        for name, block in zip(self.features, self.blocks, strict=True):
            part = tuple(solution[at : at + block.shape[1]].tolist())
            found[name] = part if len(part) > 1 else part[0]
            at += block.shape[1]
        return found

    def predict(self, weights: Mapping[str, object], source: CellReader) -> Floats:
        """The linear prediction of each record, (n,), by weights that an estimate has as its value."""
        listed = [weights[""], *(weights[name] for name in self.features)]
        solution = np.concatenate([np.atleast_1d(np.asarray(part, np.float64)) for part in listed])
        found: Floats = self.rows(source) @ solution / UNIT
        return found

    def moments(self, counts: Callable[[tuple[str, ...]], Floats], target: Ints) -> tuple[Floats, Floats]:
        """XᵀX, (p, p), and Xᵀy, (p,), from marginals on two columns at most, exact or noisy.

        Parameters
        ----------
        counts
            Gives the counts of the cells of some columns, flat in C order of the names.
        target
            y of each cell of the target, which no record may miss.
        """

        def table(*names: str) -> Floats:
            shape = [self.domain[name].size for name in names]
            return np.asarray(counts(names), np.float64).reshape(shape)

        places = self.places
        gram, cross = np.zeros((self.width, self.width)), np.zeros(self.width)
        weighed = table(self.target)
        gram[0, 0], cross[0] = UNIT**2 * weighed.sum(), UNIT * (weighed @ target)
        for i, (name, block, place) in enumerate(zip(self.features, self.blocks, places, strict=True)):
            alone = table(name)
            gram[0, place] = gram[place, 0] = UNIT * (alone @ block)
            gram[place, place] = block.T @ (alone[:, None] * block)
            cross[place] = block.T @ (table(name, self.target) @ target)
            for other, second, where in zip(self.features[:i], self.blocks[:i], places[:i], strict=True):
                gram[place, where] = block.T @ table(name, other) @ second
                gram[where, place] = gram[place, where].T
        return gram, cross


@final
@dataclass(frozen=True)
class PublicRecords:
    """Public records as cells, for predictions: a name and the cells of each."""

    columns: Mapping[str, npt.ArrayLike]

    def cells(self, name: str) -> Ints:
        """See `CellReader`."""
        return np.asarray(self.columns[name], np.int64)


def _is_number(attribute: Attribute) -> bool:
    return attribute.ordered and attribute.values > _MAX_INDICATOR_CELLS


def _block(attribute: Attribute) -> Ints:
    """(cells, features)."""
    if _is_number(attribute):
        return _scaled(attribute)
    return UNIT * np.eye(attribute.size, dtype=np.int64)


def _scaled(attribute: Attribute) -> Ints:
    """An ordered column as one number, (cells, 1); the missing cell is 0."""
    codes = np.arange(attribute.size, dtype=np.int64)
    found = (2 * codes - (attribute.values - 1)) * UNIT // max(attribute.values - 1, 1)
    return np.where(codes < attribute.values, found, 0)[:, None]


def root_up(square: int) -> int:
    """The least whole number that is no less than a root."""
    return math.isqrt(square - 1) + 1 if square else 0
