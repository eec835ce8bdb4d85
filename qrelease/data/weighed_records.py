"""Records of persons who count once: each record counts as a part of its person, and exact counts are sums of parts.

Parts are whole numbers of 2^-bits that sum to 1 over the records of a person (`persons.parts`), so all counts are whole
numbers of that grid, and the noise lies on it too. What a person moves is what one record would: see `privacy.unit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Axes, Codes, Ints
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput

_PIECE = 1 << 22
"""Records whose numbers are summed at once: these are at most 2^30 in size, so that floats hold the sum."""


def sums_by_cell(domain: Domain, columns: Sequence[Codes], numbers: Ints, axes: Axes) -> Ints:
    """The sum of the numbers of the records in each cell of some columns, exact, (cells,) in C order.

    columns  the codes (n,) of the columns of `axes`
    numbers  (n,), at most 2^30 in size
    """
    cells, shape = domain.cells(axes), [domain.shape[a] for a in axes]
    total = np.zeros(cells, np.int64)
    for start in range(0, len(numbers), _PIECE):
        piece = slice(start, start + _PIECE)
        codes = (
            np.ravel_multi_index([column[piece].astype(np.int64) for column in columns], shape)
            if axes
            else np.zeros(len(numbers[piece]), np.int64)
        )
        total += np.rint(np.bincount(codes, numbers[piece].astype(np.float64), cells)).astype(np.int64)
    return total


@final
@dataclass(frozen=True, eq=False, repr=False)
class WeighedRecords:
    """The records that are kept of each person for one charge, and in what part of her each counts. Private.

    Attributes
    ----------
    domain
        The public universe.
    columns
        One array (n,) for each attribute: its codes.
    parts
        In multiples of 2^-`weight_bits`, (n,); those of a person sum to 1.

    Examples
    --------
    >>> from qrelease.data.person import Person
    >>> domain = Domain(Domain.coded({"a": 2}).attributes, person=Person("id", 2, weights="persons"))
    >>> kept = WeighedRecords(domain, (np.array([0, 0, 1]),), np.array([2, 1, 1]))
    >>> len(kept), [counts.tolist() for counts in kept.counts([(0,), ()])]
    (2, [[3, 1], [4]])
    """

    keeps_records: ClassVar[bool] = False
    """Whether there are codes of single records: no."""
    texts: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType({})
    """Of columns whose categories are to be learned: there are none."""
    points: ClassVar[tuple[Codes | None, ...]] = ()
    """Of the records on their grids: there are none."""

    domain: Domain
    columns: tuple[Codes, ...]
    parts: Ints

    @property
    def weight_bits(self) -> int:
        """Exact counts are in multiples of 2^-bits."""
        return self.domain.weight_bits

    @property
    def knows_persons(self) -> bool:
        """Whether it is known whose records they are: not any more."""
        return False

    @property
    def person_column(self) -> str | None:
        """The column that says whose records they are; public."""
        return None if self.domain.person is None else self.domain.person.column

    def __len__(self) -> int:
        return int(self.parts.sum()) >> self.weight_bits

    def __repr__(self) -> str:
        return f"WeighedRecords({self.domain}; the records are private)"

    def counts(self, sets: Sequence[Axes]) -> list[npt.NDArray[np.int64]]:
        """The exact marginal on each set of columns, flat in C order, in multiples of 2^-bits."""
        return [sums_by_cell(self.domain, [self.columns[a] for a in axes], self.parts, axes) for axes in sets]

    def check_counts(self, sets: Sequence[Axes]) -> None:
        """Nothing: the table that these records were chosen from has been asked."""

    def check_bounded(self) -> None:
        """Nothing: they are bounded."""

    def bounded(self, key: bytes) -> WeighedRecords:
        """The records themselves."""
        return self

    def codes(self, axis: int) -> Codes:
        """`InvalidInput`: a code would be taken for a whole record."""
        raise InvalidInput(f"column {self.domain.names[axis]!r}: here a person counts once, and has no single records")

    def fingerprint(self, key: bytes) -> tuple[str, str]:
        """`InvalidInput`: that of a table is taken before its records are bounded."""
        raise InvalidInput("records that were bounded already are not those of a ledger")
