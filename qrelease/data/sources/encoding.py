"""Encodes the columns that a reader gives, piece by piece, as codes of cells, and collects them.

A reader of a kind of source gives pieces of records, and each piece the codes of its columns. What is in memory is one
piece and the codes, and these only while they are small: then they go to temporary files, which are mapped. Where the
unit is a person, these have the records in an order of their persons, so that each person's are near each other.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from qrelease._util.texts import meant
from qrelease._util.typing import Codes
from qrelease.data import schema as schemas
from qrelease.data.domain import Domain
from qrelease.data.person_words import NO_WORD, PersonWords
from qrelease.data.persons import KeyReader, Persons
from qrelease.data.points import any_of, binned, has_points
from qrelease.data.sources.encoder import Encoder, code_type
from qrelease.data.sources.stores import Address, Place
from qrelease.data.spill import MAX_BYTES, MAX_BYTES_BY_PERSON, Spill, held
from qrelease.data.structural_zeros import masks, narrowed
from qrelease.errors import InvalidInput

Schema = Domain | str | os.PathLike[str]

SOURCES = "an [[impossible]] rule, or the parent that its code list gives"


class Piece(Protocol):
    """Some consecutive records of a source. Errors name the source, the line or row, the column and the value."""

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes of a column, each a function of its own value alone.

        Parameters
        ----------
        encoder : Encoder
            Turns values of the column into codes.
        column : str
            Its name in the header.

        Returns
        -------
        ndarray of unsigned int, shape (n,)
            Private.

        Raises
        ------
        InvalidInput
            For a value that the schema has no place for: it names the source, the line, the column and the value.
        """

    def persons(self, reader: KeyReader, column: str) -> npt.NDArray[np.int64]:
        """What a reader of keys makes of those in a column.

        Parameters
        ----------
        reader : KeyReader
            Numbers persons by their keys.
        column : str
            The column of keys.

        Returns
        -------
        ndarray of int64, shape (n,)
            Private.
        """

    def place(self, position: int) -> str:
        """What errors call a record.

        Parameters
        ----------
        position : int
            Its place in the piece, from 0.

        Returns
        -------
        str
            The source, and the line or row.
        """


class TypedPiece(Piece, Protocol):
    """A piece of a source that a query may read."""

    def arrow(self, column: str) -> Any:
        """The values of a column.

        Parameters
        ----------
        column : str
            Its name in the header.

        Returns
        -------
        pyarrow.Array or pyarrow.ChunkedArray, shape (n,)
            Texts, where the source has no types of its own. Private.
        """


class Reader(Protocol):
    """A source of records.

    Attributes
    ----------
    files
        The files that it reads.
    header
        The names of its columns.
    keyed
        Whether each record names its own columns: then the header is of the records, and private.
    private_size
        Why the number of records is private under every relation, as `Source.private_size`.
    """

    keyed: bool
    private_size: str
    files: tuple[Path, ...]
    header: tuple[str, ...]

    @property
    def path(self) -> Place | Address:
        """What errors call it."""

    def check_header(self, known: Collection[str] = ()) -> None:
        """Raise for a header that seems to be separated by another character than is expected.

        Parameters
        ----------
        known : collection of str
            The columns of the schema: a header that has one of them is right.

        Raises
        ------
        InvalidInput
            It names the file.
        """

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """All records, in order.

        Parameters
        ----------
        columns : sequence of str
            The columns that are needed, at least.

        Returns
        -------
        iterator of Piece
            Consecutive records each.
        """

    def texts(self) -> Iterator[Iterable[Iterable[str]]]:
        """All columns of some records as texts, for a draft."""


class TypedReader(Reader, Protocol):
    """A source of records that a query may read: its pieces are each a `TypedPiece`."""

    def arrow_types(self) -> dict[str, list[Any]]:
        """The types of the columns.

        Returns
        -------
        dict of list of pyarrow.DataType
            By the name of a column, the types that its values have: one, or several in different files.
        """


@final
@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """The records of a source over a domain, as `Table` takes them. Private."""

    domain: Domain
    columns: tuple[Codes, ...]
    persons: Persons | None
    points: tuple[Codes | None, ...]
    texts: Mapping[str, Sequence[str]]


def encoded(reader: Reader, domain: Domain) -> Encoded:
    """All records of a source.

    Raises `InvalidInput` for a column that the source has not or has twice, for a value that the domain has not, and
    for a record that the domain says to be impossible.
    """
    reader.check_header([*domain.names, *([] if domain.person is None else [domain.person.column])])
    names = found_columns(reader, domain)
    person = domain.person
    key = None if person is None else person_column(reader, person.column)
    encoders = [Encoder(attribute.fine) for attribute in domain]
    persons = None if person is None else PersonWords(person)
    columns, possible = _Columns(domain), PossibleRecords(domain)
    for piece in reader.pieces([*names, *([] if key is None else [key])]):
        codes = [piece.codes(encoder, name) for encoder, name in zip(encoders, names, strict=True)]
        if persons is not None and key is not None:
            words = piece.persons(persons, key)
            mine = words != NO_WORD
            places = None
            if not mine.all():
                words, codes, places = words[mine], [column[mine] for column in codes], np.flatnonzero(mine)
            possible.check(piece, codes, places)
            columns.add(codes, words)
        else:
            possible.check(piece, codes)
            columns.add(codes)
    return columns.whole(persons, _texts(encoders))


def found_columns(reader: Reader, domain: Domain) -> list[str]:
    """The names that a source has for the columns of a domain."""
    if reader.keyed:  # a key is the column's name as it is: which keys there are is the records' business
        return list(domain.names)
    given: dict[str, str] = {}
    for name in reader.header:
        if name.strip() in given:
            raise InvalidInput(f"{reader.path}: column {name.strip()!r} appears twice")
        given[name.strip()] = name
    absent = [name for name in domain.names if name.strip() not in given]
    if absent:
        told = f"{absent[0]!r}{meant(absent[0], [*given])}"
        told = f"{reader.path} has no column {told}; it has {', '.join(given)}"
        raise InvalidInput(told + told_of_index(reader, absent[0]))
    return [given[name.strip()] for name in domain.names]


UNREAD_INDEX = "the index {!r} is not read: reset_index() makes it a column"
"""What is said of a named index of a data frame."""


def told_of_index(reader: Reader, column: str) -> str:
    """What is said of a column that a source lacks, where it is the index of a data frame; else nothing."""
    return f"; {UNREAD_INDEX.format(column)}" if column in getattr(reader, "index", ()) else ""


def person_column(reader: Reader, column: str) -> str:
    """The name that a source has for the column that says whose records they are."""
    if reader.keyed:
        return column
    names = [name.strip() for name in reader.header]
    if column not in names:
        told = f"{reader.path} has no person column {column!r}; it has {', '.join(names)}"
        raise InvalidInput(told + told_of_index(reader, column))
    return reader.header[names.index(column)]


def _texts(encoders: Sequence[Encoder]) -> dict[str, Sequence[str]]:
    """The texts of the columns whose categories are to be learned."""
    return {e.attribute.name: tuple(e.texts) for e in encoders if e.attribute.kind == "category" and e.attribute.learn}


def selected_columns(schema: Schema, columns: Sequence[str] | None, reader: Reader) -> Domain:
    """The columns asked for; without any, all of the schema's: those of a schema *file* in the order of the data.

    Where each record names its columns they have no order but the schema's: one record would decide it.
    """
    domain = schema if isinstance(schema, Domain) else schemas.load(schema, undecided=True)
    for listed in domain.code_lists:
        with suppress(OSError):  # a list that is gone by now was read
            if any(os.path.samefile(listed, file) for file in reader.files):
                raise InvalidInput(
                    f"the schema takes categories from {listed}, which is the file of the private records: its values"
                    " would become public; take a list that is public knowledge"
                )
    if columns is None:
        of_data = not (reader.keyed or isinstance(schema, Domain)) and set(domain.names) <= set(reader.header)
        columns = [name for name in reader.header if name in domain.names] if of_data else domain.names
    try:
        return narrowed(domain, columns)
    except InvalidInput as error:
        raise error if isinstance(schema, Domain) else InvalidInput(f"{schemas.named(schema)}: {error}") from None


def domain_of_records(domain: Domain) -> Domain:
    """The domain of the records that the columns of a domain are derived from."""
    assert domain.person is not None
    person = replace(domain.person, derive=(), records=())
    records = Domain(domain.person.records, code_lists=domain.code_lists, person=person, review=domain.review)
    records.check_decided()
    return records


@final
class PossibleRecords:
    """Refuses records that meet a rule of the schema about what is impossible, as values that it does not list.

    What is read is then what the rules say, so that those who are told of them are told the truth, and answers that are
    0 by a rule are. It is the holder who sees the refusal, and it depends on that record alone.
    """

    def __init__(self, domain: Domain) -> None:
        self._domain, self._rules = domain, [(axes, mask) for axes, mask in masks(domain, domain.impossible).items()]

    def check(self, piece: Piece, codes: Sequence[Codes], places: npt.NDArray[np.int64] | None = None) -> None:
        """Raise `InvalidInput` for the first record that no record can be.

        codes   of `Attribute.fine`, by column
        places  of the records in the piece; None for all of it
        """
        for axes, mask in self._rules:
            of = [self._domain.attributes[axis] for axis in axes]
            cells = [binned(a, codes[axis]) if has_points(a) else codes[axis] for a, axis in zip(of, axes, strict=True)]
            shape = [a.size for a in of]
            met = mask[np.ravel_multi_index([column.astype(np.int64) for column in cells], shape)]
            if met.any():
                first = int(met.argmax())
                values = ", ".join(f"{a.name!r} {a.label(int(c[first]))!r}" for a, c in zip(of, cells, strict=True))
                raise InvalidInput(
                    f"{piece.place(first if places is None else int(places[first]))}:"
                    f" column{'s' * (len(of) > 1)} {values}: impossible by the schema ({SOURCES})"
                )


class _Columns:
    """The columns of a source as their codes come in, and the words of persons beside them."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._pointed = [axis for axis, attribute in enumerate(domain) if has_points(attribute)]
        kept = [*domain, *(domain.attributes[axis].fine for axis in self._pointed)]
        types, by_word = [code_type(attribute) for attribute in kept], domain.person is not None
        limit = held(MAX_BYTES_BY_PERSON if by_word else MAX_BYTES)
        self._spill = Spill([*types, *([np.dtype(np.int64)] if by_word else [])], limit, by_word=by_word)

    def add(self, piece: Sequence[Codes], *words: npt.NDArray[np.int64]) -> None:
        """The codes of `Attribute.fine` of the next records, and where the unit is a person their words."""
        bins = list(piece)
        for axis in self._pointed:
            bins[axis] = binned(self._domain.attributes[axis], piece[axis])
        self._spill.add([*bins, *(piece[axis] for axis in self._pointed), *words])

    def whole(self, read: PersonWords | None, texts: Mapping[str, Sequence[str]]) -> Encoded:
        """The records; none where there are none, which is as private as any number of them."""
        found, cuts = self._spill.whole()
        persons = None
        if read is not None:
            words = found.pop()
            read.check(words)
            persons = Persons.of_words(words, read.digests(), cuts)
        points: list[Codes | None] = [None] * len(self._domain)
        for axis, codes in zip(self._pointed, found[len(points) :], strict=True):
            points[axis] = codes
        return Encoded(self._domain, tuple(found[: len(points)]), persons, any_of(points), texts)
