"""Records that count as fractions: where each person counts once, each of her k records counts about 1/k.

The fractions are multiples of 2^-bits and sum to exactly 1 over the records of a person (`persons.parts`). So every
exact count is a multiple of 2^-bits, and noise is drawn on the same grid. A person moves counts no further than one
whole record would: `privacy.unit` has the proof. (`inference.weighted_records` are something else: public synthetic
records with real weights, fitted to noisy counts.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
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
        memory.forget([*columns, numbers])
        total += np.rint(np.bincount(codes, numbers[piece].astype(np.float64), cells)).astype(np.int64)
    return total


@final
@dataclass(frozen=True, eq=False, repr=False)
class FractionalRecords:
    """The records that are kept of each person for one charge, and the fraction that each counts. Private.

    Attributes
    ----------
    domain
        The public universe.
    columns
        One array (n,) for each attribute: its codes.
    parts
        The fraction of each record, (n,) integers in multiples of 2^-`weight_bits`; those of a person sum to 1.
    private_size
        Why the number of persons is private under every relation; empty where the relation decides.

    Examples
    --------
    >>> from qrelease.data.person import Person
    >>> domain = Domain(Domain.coded({"a": 2}).attributes, person=Person("id", 2, weights="persons"))
    >>> kept = FractionalRecords(domain, (np.array([0, 0, 1]),), np.array([2, 1, 1]))
    >>> len(kept), [counts.tolist() for counts in kept.counts([(0,), ()])]
    (2, [[3, 1], [4]])
    """

    keeps_records: ClassVar[bool] = False
    """Whether `codes` gives the records one by one: never here."""
    texts: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType({})
    """The texts of columns whose categories are to be learned: none here."""
    votes: ClassVar[Mapping[str, Ints]] = MappingProxyType({})
    """What these texts count of persons: there are none."""
    points: ClassVar[tuple[Codes | None, ...]] = ()
    """The points of records on the grids of their columns: none here."""

    domain: Domain
    columns: tuple[Codes, ...]
    parts: Ints
    private_size: str = ""

    @property
    def weight_bits(self) -> int:
        """The bits b: exact counts are in multiples of 2^-b."""
        return self.domain.weight_bits

    @property
    def knows_persons(self) -> bool:
        """False: whose records they are is not kept."""
        return False

    @property
    def person_column(self) -> str | None:
        """The column that says whose records they are; public."""
        return None if self.domain.person is None else self.domain.person.column

    def __len__(self) -> int:
        return int(self.parts.sum()) >> self.weight_bits

    def __repr__(self) -> str:
        return f"FractionalRecords({self.domain}; the records are private)"

    def counts(self, sets: Sequence[Axes]) -> list[npt.NDArray[np.int64]]:
        """The exact marginal on each set of columns, flat in C order, in multiples of 2^-bits."""
        return [sums_by_cell(self.domain, [self.columns[a] for a in axes], self.parts, axes) for axes in sets]

    def check_counts(self, sets: Sequence[Axes]) -> None:
        """Does nothing: the table that the records come from was checked."""

    def check_bounded(self) -> None:
        """Does nothing: the records are bounded already."""

    def bounded(self, key: bytes) -> FractionalRecords:
        """The records themselves."""
        return self

    def codes(self, axis: int) -> Codes:
        """Always raises `InvalidInput`: who reads codes would count each record as a whole one."""
        raise InvalidInput(f"column {self.domain.names[axis]!r}: each person counts once: no single records")

    def fingerprint(self, key: bytes) -> tuple[str, str]:
        """Always raises `InvalidInput`: a ledger keeps the fingerprint of the table as it was before."""
        raise InvalidInput("no fingerprint of records that were chosen for one charge: take that of the table")
