"""Keys of persons, of which most come again: these are known by the bytes of their cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
import numpy.typing as npt

from qrelease.data.persons import KeyReader
from qrelease.data.sources.csv_kernels import Places
from qrelease.data.sources.known_cells import LONGEST, KnownCells


@final
class KnownKeys:
    """What a reader makes of the keys in a column. One that comes again is known by its bytes.

    reader  of this column's keys, and of no others
    text    of a cell's bytes
    """

    def __init__(self, reader: KeyReader, text: Callable[[bytes], str]) -> None:
        self.reader, self._text = reader, text
        self._cells = KnownCells()
        self._words = np.empty(0, np.int64)  # by the number of a cell

    def words(self, block: bytes, starts: Places, ends: Places, where: Callable[[int], str]) -> npt.NDArray[np.int64]:
        """Of cells (n,) of a block, which has `PADDING` more bytes.

        where  says of a cell's position where it stands, for errors
        """
        found, left, _ = self._cells.find(block, starts, ends)
        if not len(left):
            return self._words[found]
        words = np.empty(len(found), np.int64)
        known = found >= 0
        words[known] = self._words[found[known]]
        raw = [block[start:end] for start, end in zip(starts[left].tolist(), ends[left].tolist(), strict=True)]
        new = self.reader.text_codes(map(self._text, raw), lambda place: where(int(left[place])))
        words[left] = new
        self._remember(raw, new)
        return words

    def _remember(self, raw: list[bytes], words: npt.NDArray[np.int64]) -> None:
        if self._cells.is_full:
            return
        numbers: dict[bytes, int] = {}
        firsts: list[int] = []
        for place, cell in enumerate(raw):
            if len(cell) <= LONGEST and cell not in numbers:
                numbers[cell] = len(self._words) + len(firsts)
                firsts.append(place)
        self._words = np.append(self._words, words[firsts])
        self._cells.remember(numbers)
