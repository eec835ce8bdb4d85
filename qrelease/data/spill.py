"""Columns of records that come piece by piece: in memory while they are small, and then in temporary files.

The files have no name, in the folder that TMPDIR names, and are mapped into memory to be read.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease.data.sources.kernels import BUCKETS, bucket_places, count_buckets, read_only, scatter
from qrelease.errors import OutOfMemory

Columns = list[npt.NDArray[Any]]

MAX_BYTES: Final = 1 << 28
"""Bytes of columns that are held in memory at most."""

MAX_BYTES_BY_PERSON: Final = 1 << 26
"""The same of records of persons: those that stand near others of their person are chosen from sooner."""

_MEMORY_FRACTION: Final = 4
"""Columns that take more than such a part of the free memory go to files."""


@final
class Spill:
    """Columns of some types.

    types    of the columns
    limit    bytes from which on they go to files
    by_word  whether the last column has the words of persons: in files the records stand in runs, each of which is
             ordered by buckets of these (`kernels.bucket_places`), so that a person's are found in few places
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
            pieces.append(column)
            self._bytes += column.nbytes
        if self._bytes > self._limit:
            self._write()

    def whole(self) -> tuple[Columns, npt.NDArray[np.int64] | None]:
        """All columns, of which nothing is kept here; and where the buckets of each run are, of records in runs."""
        if self._files:
            self._write()
            return list(map(_mapped, self._files, self._types)), np.array(self._cuts) if self._by_word else None
        return list(map(_joined, self._pieces, self._types)), None

    def _write(self) -> None:
        """What is in memory goes to the files."""
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
        words = [read_only(piece, np.int64) for piece in self._pieces[-1]]
        ends = np.zeros(BUCKETS + 1, np.int64)
        for piece in words:
            count_buckets(piece, ends[1:])
        ends = np.cumsum(ends)
        self._cuts.append(self._spilled + ends)
        records = int(ends[-1])
        self._spilled += records
        places = [np.empty(len(piece), np.int32) for piece in words]
        for piece, found in zip(words, places, strict=True):
            bucket_places(piece, ends, found)
        for file, pieces, dtype in zip(self._files, self._pieces, self._types, strict=True):
            run = np.empty(records, dtype)
            for column, found in zip(pieces, places, strict=True):
                scatter(read_only(column, dtype), found, run)
            file.write(run.data)
            pieces.clear()


def held(most: int) -> int:
    """Bytes of columns that are held in memory: at most so many, and a fourth of what is free."""
    return min(memory.free() // _MEMORY_FRACTION, most)


def check_disk(needed: int) -> None:
    """Raise `OutOfMemory` where the folder of temporary files has not room for so many bytes.

    Without their number, which tells of the records.
    """
    if needed > shutil.disk_usage(gettempdir()).free:
        raise OutOfMemory("the records do not fit in the folder of temporary files: name another by TMPDIR")


def _joined(pieces: Columns, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    whole = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, dtype), *pieces])
    pieces.clear()
    return whole


def _mapped(file: IO[bytes], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    file.flush()
    found = np.memmap(file, dtype, "r") if file.tell() else np.empty(0, dtype)
    file.close()  # the map keeps it
    return found
