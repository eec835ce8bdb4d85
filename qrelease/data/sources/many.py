"""Many files as one source, one after another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes
from qrelease.data.persons import KeyReader
from qrelease.data.sources.encoder import Encoder
from qrelease.data.sources.stores import Address, Place
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.data.sources.encoding import Piece, Reader, TypedPiece, TypedReader


@final
class ManyReader:
    """The records of several files that have the same columns, in any order."""

    def __init__(self, path: Place | Address, readers: Sequence[Reader]) -> None:
        self.path = path
        self._readers = list(readers)
        self.files: tuple[Path, ...] = tuple(file for reader in readers for file in reader.files)
        self.keyed = any(reader.keyed for reader in self._readers)
        self.private_size = next((reader.private_size for reader in readers if reader.private_size), "")
        self.header = tuple(name.strip() for name in self._readers[0].header)
        if self.keyed:
            self.header = tuple(sorted({name.strip() for reader in self._readers for name in reader.header}))
            return
        for reader in self._readers[1:]:
            if sorted(name.strip() for name in reader.header) != sorted(self.header):
                raise InvalidInput(f"{reader.path} has other columns than {self._readers[0].path}")

    def check_header(self, known: Collection[str] = ()) -> None:
        """Raise what any of the files raises."""
        for reader in self._readers:
            reader.check_header(known)

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """The records of all files, by the names that the first one has."""
        for reader in self._readers:
            names = {} if reader.keyed else {name.strip(): name for name in reader.header}
            absent = [column for column in columns if not reader.keyed and column not in names]
            if absent:
                raise InvalidInput(f"{reader.path} has no column {absent[0]!r}; it has {', '.join(names)}")
            for piece in reader.pieces([names.get(column, column) for column in columns]):
                yield _Named(piece, names)

    def texts(self) -> Iterator[Iterable[Iterable[str]]]:
        """All columns of some records as texts, in the order of the header."""
        for reader in self._readers:
            places = {name.strip(): place for place, name in enumerate(reader.header)}
            for chunk in reader.texts():
                columns = list(chunk)
                blank = [""] * (len(list(columns[0])) if columns else 0)
                yield [columns[places[name]] if name in places else blank for name in self.header]

    def arrow_types(self) -> dict[str, list[Any]]:
        """The types that the columns have, each in the files in which it is."""
        found: dict[str, list[Any]] = {}
        for reader in self._readers:
            for name, types in cast("TypedReader", reader).arrow_types().items():
                known = found.setdefault(name.strip(), [])
                known += [kind for kind in types if kind not in known]
        return found


@final
class _Named:
    """A piece of a file whose columns have names with spaces around them."""

    def __init__(self, piece: Piece, names: dict[str, str]) -> None:
        self._piece, self._names = piece, names

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes (n,) of a column."""
        return self._piece.codes(encoder, self._names.get(column, column))

    def persons(self, reader: KeyReader, column: str) -> npt.NDArray[np.int64]:
        """What the reader makes (n,) of the keys in a column."""
        return self._piece.persons(reader, self._names.get(column, column))

    def arrow(self, column: str) -> Any:
        """The values (n,) of a column."""
        return cast("TypedPiece", self._piece).arrow(self._names.get(column, column))

    def place(self, position: int) -> str:
        """What errors call a record, by its place in the piece."""
        return self._piece.place(position)
