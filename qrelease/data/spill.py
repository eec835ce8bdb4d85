"""Columns of records that come piece by piece: in memory while they are small, and then in temporary files.

The files have no name, in the folder that TMPDIR names, and are mapped into memory to be read.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.parallel import begun
from qrelease._util.temporary import told_of_full_disk
from qrelease.data.sources.kernels import BUCKETS, bucket_order, count_buckets, gather_buckets, read_only

Columns = list[npt.NDArray[Any]]

MAX_BYTES: Final = 1 << 28
"""Bytes of columns that are held in memory at most."""

MAX_BYTES_BY_PERSON: Final = 1 << 26
"""The same of records of persons: those that stand near others of their person are chosen from sooner."""

_BLOCK_RECORDS: Final = 1 << 15
"""Records that are ordered at a time at most."""

_WORD: Final = 8
"""Bytes of a word, in which columns of records by persons stand side by side."""

_MEMORY_FRACTION: Final = 4
"""Columns that take more than such a part of the free memory go to files."""


@final
@dataclass(frozen=True)
class _Layout:
    """How columns stand in files.

    entries  by file, the type of its entries
    places   by column, its file, and which ones it has of that file's bytes, as entries of its own type
    """

    entries: list[np.dtype[Any]]
    places: list[tuple[int, slice]]

    @classmethod
    def by_column(cls, types: Sequence[np.dtype[Any]]) -> _Layout:
        """A file for each column."""
        return cls(list(types), [(file, slice(None)) for file in range(len(types))])

    @classmethod
    def in_words(cls, types: Sequence[np.dtype[Any]]) -> _Layout:
        """Columns side by side in words of 8 bytes or, the last, fewer: so a record is moved in few steps."""
        words: list[list[int]] = []
        left = 0
        for column in sorted(range(len(types)), key=lambda column: -types[column].itemsize):
            if not left:
                words.append([])
                left = _WORD
            words[-1].append(column)
            left -= types[column].itemsize  # 8, 4, 2 or 1, from large to small: the next one has room, or there is none
        entries, places = [], [(0, slice(None))] * len(types)
        for file, columns in enumerate(words):
            ends = np.cumsum([types[column].itemsize for column in columns]).tolist()
            width = 1 << (ends[-1] - 1).bit_length()
            entries.append(np.dtype(f"u{width}"))
            for column, end in zip(columns, ends, strict=True):
                size = types[column].itemsize
                places[column] = file, slice(end // size - 1, None, width // size)
        return cls(entries, places)

    def columns_of(self, file: int) -> list[tuple[int, slice]]:
        """The columns that a file has, and which entries of it are theirs."""
        return [(column, part) for column, (place, part) in enumerate(self.places) if place == file]


@final
class Spill:
    """Columns of some types.

    types    of the columns
    limit    bytes from which on they go to files
    by_word  whether the last column has the words of persons: in files the records stand in runs, each of which is
             ordered by buckets of these (`kernels.bucket_order`), so that a person's are found in few places; while one
             is ordered, as many more bytes may come
    """

    def __init__(self, types: Sequence[np.dtype[Any]], limit: int, *, by_word: bool = False) -> None:
        self._types, self._limit, self._by_word = list(types), limit, by_word
        self._layout = (_Layout.in_words if by_word else _Layout.by_column)(types)
        self._pieces: list[Columns] = [[] for _ in self._types]
        self._files: list[IO[bytes]] = []
        self._largest: list[int | None] = [0] * len(self._types)  # of the codes in files
        self._cuts: list[npt.NDArray[np.int64]] = []
        self._room = np.empty(0, np.uint8)  # for the entries of a run in one file
        self._written: Callable[[], None] = _nothing  # waits until what went to the files before is in them
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
        self._wait()
        if self._files:
            self._write()
            self._wait()
            self._room = np.empty(0, np.uint8)
            with told_of_full_disk():
                mapped = list(map(_mapped, self._files, self._layout.entries))
            given = zip(self._types, self._layout.places, self._largest, strict=True)
            found: Columns = [mapped[file].column(dtype, part, largest) for dtype, (file, part), largest in given]
            return found, np.array(self._cuts) if self._by_word else None
        return list(map(_joined, self._pieces, self._types)), None

    def _write(self) -> None:
        """What is in memory goes to the files: on another core if it is to be ordered, while more records come."""
        self._wait()
        if not any(self._pieces):
            return
        pieces, self._pieces, self._bytes = self._pieces, [[] for _ in self._types], 0
        if self._by_word:
            self._written = begun(lambda: self._write_pieces(pieces))
        else:
            self._write_pieces(pieces)

    def _wait(self) -> None:
        """Until what went to the files before is in them."""
        written, self._written = self._written, _nothing
        try:
            written()
        finally:
            del written  # an error has this frame, and this would have the error: files would stay open for a while

    def _write_pieces(self, pieces: Sequence[Columns]) -> None:
        with told_of_full_disk():
            if not self._files:
                self._files = [TemporaryFile() for _ in self._layout.entries]  # noqa: SIM115
            self._largest = list(map(_largest, pieces, self._largest))
            if self._by_word:
                self._write_run(pieces)
                return
            for file, of_column in zip(self._files, pieces, strict=True):
                for piece in of_column:
                    file.write(np.ascontiguousarray(piece).data)

    def _write_run(self, pieces: Sequence[Columns]) -> None:
        """The same, ordered by persons."""
        blocks = _blocks([len(piece) for piece in pieces[-1]])
        orders = [ordered_by_bucket(_block(pieces[-1], block)) for block in blocks]
        counts = np.array([np.diff(cuts) for _, cuts in orders])
        cuts = np.cumsum([0, *counts.sum(axis=0)])
        begins = cuts[:-1] + np.cumsum(counts, axis=0) - counts
        self._cuts.append(self._spilled + cuts)
        self._spilled += int(cuts[-1])
        for place, (file, dtype) in enumerate(zip(self._files, self._layout.entries, strict=True)):
            columns, run = self._layout.columns_of(place), self._run(int(cuts[-1]), dtype)
            for block, (order, _), begin, count in zip(blocks, orders, begins, counts, strict=True):
                words = np.zeros(len(order), dtype)
                for column, part in columns:
                    words.view(self._types[column])[part] = _block(pieces[column], block)
                gather_buckets(read_only(words, dtype), order, count, begin, run)
            file.write(run.data)

    def _run(self, records: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Room for so many entries, which the next call gives again."""
        size = records * dtype.itemsize
        if len(self._room) < size:
            self._room = np.empty(size, np.uint8)
        return self._room[:size].view(dtype)


def _nothing() -> None:
    pass


def _largest(pieces: Columns, before: int | None) -> int | None:
    """The largest of some codes and of those before them; None of numbers that may be negative, which are no codes."""
    if before is None or any(piece.dtype.kind != "u" for piece in pieces):
        return None
    return max([before, *(int(piece.max(initial=0)) for piece in pieces)])


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
    """Entries of a file without a name, mapped into memory: all of them, or a column that stands among others.

    largest  of a column of codes, which are unsigned; None where it is not known
    """

    largest: int | None = None
    _file: int | None = None  # its descriptor; of a whole column alone, and not of a part of it
    _entries: np.dtype[Any] = np.dtype(np.uint8)  # the type of the file's entries
    _part: slice = slice(None)  # of these, as entries of this one's type

    @classmethod
    def of(cls, file: IO[bytes], dtype: np.dtype[Any]) -> Mapped:
        """All entries of a file, which may be closed."""
        found = cls(file, dtype, "r")
        found._file, found._entries = os.dup(file.fileno()), dtype
        weakref.finalize(found._mmap, os.close, found._file)  # type: ignore[attr-defined]
        return found

    def column(self, dtype: np.dtype[Any], part: slice, largest: int | None) -> Mapped:
        """A column of the file: its type, which of the file's entries as such a type it has, and its largest code."""
        found: Mapped = self.view(dtype)[part]  # type: ignore[assignment]
        found.largest, found._file, found._entries, found._part = largest, self._file, self._entries, part
        return found


def entries_of_runs(columns: Sequence[npt.NDArray[Any]], runs: Sequence[slice]) -> Columns:
    """The entries of columns in some runs, one after another.

    Those of files are read without being mapped, and columns that stand side by side in a file are read at once.
    """
    read: dict[int, npt.NDArray[Any]] = {}
    found: Columns = []
    for column in columns:
        if not isinstance(column, Mapped) or column._file is None or not hasattr(os, "preadv"):
            pieces = [np.asarray(column)[run] for run in runs]
            found.append(pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, column.dtype), *pieces]))
            continue
        if column._file not in read:
            read[column._file] = _read(column._file, column._entries, runs)
        found.append(np.ascontiguousarray(read[column._file].view(column.dtype)[column._part]))
    return found


def _read(file: int, dtype: np.dtype[Any], runs: Sequence[slice]) -> npt.NDArray[Any]:
    """The entries of a file in some runs."""
    found = np.empty(sum(run.stop - run.start for run in runs), dtype)
    if not len(found):
        return found
    left = found.data.cast("B")
    for run in runs:
        place, end = run.start * dtype.itemsize, run.stop * dtype.itemsize
        while place < end:
            read = os.preadv(file, [left[: end - place]], place)
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


def _mapped(file: IO[bytes], dtype: np.dtype[Any]) -> Mapped:
    with file:
        file.flush()
        return Mapped.of(file, dtype)
