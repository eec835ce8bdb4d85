"""Bytes of cells that were looked up before, each with a number."""

from __future__ import annotations

from typing import Final, final

import numpy as np
import numpy.typing as npt

from qrelease.data.sources.csv_kernels import PADDING, Places, cell_codes, remember

REMEMBERED_VALUES = 1 << 16
"""Distinct raw values whose codes are remembered for a column."""

LONGEST: Final = 1 << 8
"""Bytes of a spelling that is remembered, at most."""

_ROWS: Final = 1 << 8  # of the table to begin with; at most half of them are taken
_MOST_CODE: Final = 2**31 - 1
_NO_TABLE: Final = np.empty(0, np.int32)


@final
class KnownCells:
    """The numbers of the bytes of cells, up to a bound."""

    def __init__(self) -> None:
        self._known = np.zeros((_ROWS, 5), np.uint64)
        self._spelled: list[bytes] = []
        self._codes: list[int] = []
        self._joined = np.zeros(PADDING, np.uint8)

    def find(
        self, block: bytes, starts: Places, ends: Places, point: int = -1, low: int = 0, table: Places = _NO_TABLE
    ) -> tuple[Places, Places, npt.NDArray[np.float64]]:
        """As `cell_codes` has it: numbers of cells (n,), the places of those that are left, and what these spell."""
        rows = len(starts)
        found, left, numbers = np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(rows)
        look = np.frombuffer(block, np.uint8)
        count = cell_codes(look, starts, ends, point, low, table, self._known, self._joined, found, left, numbers)
        return found, left[:count], numbers[:count]

    def remember(self, new: dict[bytes, int]) -> None:
        """Numbers of bytes that `find` left."""
        kept = [(raw, code) for raw, code in new.items() if len(raw) <= LONGEST and code <= _MOST_CODE]
        kept = kept[: max(REMEMBERED_VALUES - len(self._codes), 0)]
        if not kept:
            return
        first = len(self._codes)
        self._spelled += [raw for raw, _ in kept]
        self._codes += [code for _, code in kept]
        self._joined = np.frombuffer(b"".join(self._spelled) + bytes(PADDING), np.uint8)
        if 2 * len(self._codes) > len(self._known):
            rows = 1 << (2 * len(self._codes)).bit_length()
            first, self._known = 0, np.zeros((rows, 5), np.uint64)
        offsets: npt.NDArray[np.int64] = np.cumsum([0, *map(len, self._spelled)])
        remember(self._joined, offsets[first:], np.array(self._codes[first:]), self._known)

    @property
    def is_full(self) -> bool:
        """Whether no more are remembered."""
        return len(self._codes) >= REMEMBERED_VALUES
