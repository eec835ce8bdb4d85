"""`Source`: what a curator holds. Exact counts, the number of records and a keyed digest; perhaps the records too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes, Ints
from qrelease.data.domain import Domain


class Source(Protocol):
    """Private records over a public domain, or exact counts of them: `Table` is one, and `Counts` another.

    A mechanism asks a source for its domain, for exact counts and for the number of records, so anything that has
    these can be released from. What needs the code of each record (statistics, sessions, a schema that is learned, the
    records that are kept of each person) needs a source that `keeps_records`.
    """

    @property
    def domain(self) -> Domain:
        """The public universe."""

    @property
    def keeps_records(self) -> bool:
        """Whether there are codes of single records; public."""

    @property
    def weight_bits(self) -> int:
        """Exact counts are in multiples of 2^-bits: 0 bits, but where a person counts once in parts. Public."""

    @property
    def knows_persons(self) -> bool:
        """Whether it is known whose records they are; public."""

    @property
    def person_column(self) -> str | None:
        """The column that says whose records they are, where a person is the unit; public."""

    @property
    def private_size(self) -> str:
        """Why the number of records is private under every relation; empty where the relation decides. Public."""

    @property
    def texts(self) -> Mapping[str, Sequence[str]]:
        """For each column whose categories are to be learned, the text that each of its codes stands for. Private."""

    @property
    def votes(self) -> Mapping[str, Ints]:
        """For each such column, by text, what it counts of all persons: where these have been bounded. Private."""

    @property
    def points(self) -> tuple[Codes | None, ...]:
        """For each column the points of its records on its grid, where they are kept beside its bins. Private."""

    def __len__(self) -> int:
        """The number of records; that of persons where these count once. Private under add-remove."""

    def counts(self, sets: Sequence[tuple[int, ...]]) -> list[npt.NDArray[np.int64]]:
        """The exact marginal on each set of columns. Private.

        Parameters
        ----------
        sets : sequence of tuple of int
            The columns of each, by position.

        Returns
        -------
        list of ndarray of int64
            Flat in C order, in multiples of 2^-`weight_bits`.

        Raises
        ------
        InvalidInput
            For a position that is no column, and for a set that cannot be had.
        """

    def check_counts(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Raise whatever `counts` would, before anything is charged.

        Parameters
        ----------
        sets : sequence of tuple of int
            The columns of each marginal, by position.

        Raises
        ------
        InvalidInput, TooLarge, OutOfMemory
            By public facts alone.
        """

    def check_bounded(self) -> None:
        """Raise `OutOfMemory` where `bounded` would not fit in memory."""

    def bounded(self, key: bytes) -> Source:
        """The records that are kept of each person for a charge.

        Parameters
        ----------
        key : bytes
            Secret; it decides which records are kept.

        Returns
        -------
        Source
            The source itself where each record is a unit. Private.
        """

    def codes(self, axis: int) -> Codes:
        """The code of each record in a column. Private.

        Parameters
        ----------
        axis : int
            The column by position.

        Returns
        -------
        ndarray of unsigned int, shape (n,)
            From 0 to the size of the column - 1.

        Raises
        ------
        InvalidInput
            Where no records are kept.
        """

    def fingerprint(self, key: bytes) -> tuple[str, str]:
        """Keyed digests by which a ledger knows the records again.

        Parameters
        ----------
        key : bytes
            The ledger's own key.

        Returns
        -------
        tuple of str
            Two digests: of the schema, and of the records.
        """
