"""Columns of records that come piece by piece: in memory while they are small, and then in temporary files.

The files have no name, in the folder that TMPDIR names, and are mapped into memory to be read.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import IO, Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.temporary import told_of_full_disk
from qrelease.data.sources.kernels import BUCKETS, bucket_order, count_buckets, gather_buckets, read_only

Columns = list[npt.NDArray[Any]]

MAX_BYTES: Final = 1 << 28
"""Bytes of columns that are held in memory at most."""

MAX_BYTES_BY_PERSON: Final = 1 << 26
"""The same of records of persons: those that stand near others of their person are chosen from sooner."""

_BLOCK_RECORDS: Final = 1 << 17
"""Records that are ordered at a time at most."""

_MEMORY_FRACTION: Final = 4
"""Columns that take more than such a part of the free memory go to files."""


@final
class Spill:
    """Columns of some types.

    types    of the columns
    limit    bytes from which on they go to files
    by_word  whether the last column has the words of persons: in files the records stand in runs, each of which is
             ordered by buckets of these (`kernels.bucket_order`), so that a person's are found in few places
    """

    def __init__(self, types: Sequence[np.dtype[Any]], limit: int, *, by_word: bool = False) -> None:
        self._types, self._limit, self._by_word = list(types), limit, by_word
        self._pieces: list[Columns] = [[] for _ in self._types]
        self._files: list[IO[bytes]] = []
        self._cuts: list[npt.NDArray[np.int64]] = []
        self._bytes = self._spilled = 0  # in memory, and records that are in files

    def add(self, piece: Sequence[npt.NDArray[Any]]) -> None:
        """The columns of the next records."""
        for pieces, column in zip(self._pieces, piece, strict=True):
            pieces += [column[i : i + _BLOCK_RECORDS] for i in range(0, len(column), _BLOCK_RECORDS)]
            self._bytes += column.nbytes
        if self._bytes > self._limit:
            self._write()

    def whole(self) -> tuple[Columns, npt.NDArray[np.int64] | None]:
        """All columns, of which nothing is kept here; and where the buckets of each run are, of records in runs."""
        if self._files:
            self._write()
            with told_of_full_disk():
                mapped = list(map(_mapped, self._files, self._types))
            return mapped, np.array(self._cuts) if self._by_word else None
        return list(map(_joined, self._pieces, self._types)), None

    def _write(self) -> None:
        """What is in memory goes to the files."""
        with told_of_full_disk():
            if not self._files:
                self._files = [TemporaryFile() for _ in self._types]  # noqa: SIM115
            if self._by_word:
                self._write_run()
            for file, pieces in zip(self._files, self._pieces, strict=True):
                for column in pieces:
                    file.write(np.ascontiguousarray(column).data)
                pieces.clear()
        self._bytes = 0

    def _write_run(self) -> None:
        """The same, ordered by persons."""
        if not self._pieces[-1]:
            return
        blocks = _blocks([len(piece) for piece in self._pieces[-1]])
        orders = [ordered_by_bucket(_block(self._pieces[-1], block)) for block in blocks]
        counts = np.array([np.diff(cuts) for _, cuts in orders])
        cuts = np.cumsum([0, *counts.sum(axis=0)])
        begins = cuts[:-1] + np.cumsum(counts, axis=0) - counts
        self._cuts.append(self._spilled + cuts)
        self._spilled += int(cuts[-1])
        room = np.empty(int(cuts[-1]) * max(dtype.itemsize for dtype in self._types), np.uint8)  # of one column
        for file, pieces, dtype in zip(self._files, self._pieces, self._types, strict=True):
            run = room[: int(cuts[-1]) * dtype.itemsize].view(dtype)
            for block, (order, _), begin, count in zip(blocks, orders, begins, counts, strict=True):
                gather_buckets(read_only(_block(pieces, block), dtype), order, count, begin, run)
            file.write(run.data)
            pieces.clear()


def _blocks(records: Sequence[int]) -> list[slice]:
    """Pieces of so many records each, brought together to blocks: a processor's cache holds a column of one."""
    found, first, together = [], 0, 0
    for place, count in enumerate(records):
        if together and together + count > _BLOCK_RECORDS:
            found.append(slice(first, place))
            first, together = place, 0
        together += count
    return [*found, slice(first, len(records))]


def _block(pieces: Columns, block: slice) -> npt.NDArray[Any]:
    some = pieces[block]
    return some[0] if len(some) == 1 else np.concatenate(some)


@final
class Mapped(np.memmap[Any, Any]):
    """A column in a file without a name, mapped into memory. Some of its entries can be read without being mapped."""

    _file: int | None = None  # of the whole column alone: its descriptor

    @classmethod
    def of(cls, file: IO[bytes], dtype: np.dtype[Any]) -> Mapped:
        """The column that a file has, which may be closed."""
        found = cls(file, dtype, "r")
        found._file = os.dup(file.fileno())
        weakref.finalize(found, os.close, found._file)
        return found

    def runs(self, runs: Sequence[slice]) -> npt.NDArray[Any]:
        """The entries of some runs, one after another."""
        found = np.empty(sum(run.stop - run.start for run in runs), self.dtype)
        if self._file is None or not hasattr(os, "preadv") or not len(found):
            return np.concatenate([found[:0], *(np.asarray(self)[run] for run in runs)])
        left, each = found.data.cast("B"), self.itemsize
        for run in runs:
            place, end = run.start * each, run.stop * each
            while place < end:
                read = os.preadv(self._file, [left[: end - place]], place)
                if not read:
                    raise OSError("a temporary file is shorter than it was")
                left, place = left[read:], place + read
        return found


def ordered_by_bucket(words: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Places of words (n,) in the order of their buckets, and where each bucket begins there, and the end."""
    given, counts, order = read_only(words, np.int64), np.zeros(BUCKETS + 1, np.int64), np.empty(len(words), np.int32)
    count_buckets(given, counts[1:])
    cuts = np.cumsum(counts)
    bucket_order(given, cuts.copy(), order)
    return order, cuts


def held(most: int) -> int:
    """Bytes of columns that are held in memory: at most so many, and a fourth of what is free."""
    return min(memory.free() // _MEMORY_FRACTION, most)


def _joined(pieces: Columns, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    whole = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, dtype), *pieces])
    pieces.clear()
    return whole


def _mapped(file: IO[bytes], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    with file:
        file.flush()
        return Mapped.of(file, dtype) if file.tell() else np.empty(0, dtype)
