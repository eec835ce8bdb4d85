"""`Table`: the private records, encoded by a schema into small integers, and their exact counts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.temporary import check_disk
from qrelease._util.typing import Axes, Codes, Ints
from qrelease.data.derived_columns import derived
from qrelease.data.domain import Attribute, Domain
from qrelease.data.fingerprint import digests, fingerprint, hashed_columns, hashed_texts, record_sums, text_hashes
from qrelease.data.fractional_records import FractionalRecords
from qrelease.data.kept_records import BOUNDING_BYTES, Choice, kept_columns
from qrelease.data.known_counts import KnownCounts, counted_cells
from qrelease.data.named_categories import votes
from qrelease.data.persons import Persons
from qrelease.data.points import agree, any_of, binned, has_points
from qrelease.data.sources.batches import frame_reader
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoder import code_type
from qrelease.data.sources.encoding import Reader, Schema, domain_of_records, encoded, selected_columns
from qrelease.data.sources.files import csv_reader, open_reader
from qrelease.data.sources.parquet import ParquetReader
from qrelease.data.spill import MAX_BYTES, Mapped, Spill
from qrelease.data.structural_zeros import narrowed
from qrelease.errors import InvalidInput, OutOfMemory

JOINED: Final = "how many parents have children is private"
"""`Table.private_size` of records that are joined with their parents: these may name persons without a record."""

NO_SCHEMA: Final = (
    "a schema is needed: categories, bins and bounds that are read off the data are themselves private, so they have to"
    " come from public knowledge; `qrelease schema draft` or qr.draft makes a first one, which you review"
)

_CHECKED = 1 << 26  # codes that are looked at together, of a file that is mapped


@final
@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """The private records: n records over a public `domain`.

    Everything but `domain` is private. The repr shows the domain only. `len(table)` is the number of records: it too is
    private under add-remove, and is here for the data holder. Messages of errors raised while data are read name the
    value that is wrong: they are for the data holder's eyes as well.

    Attributes
    ----------
    domain
        The public universe.
    columns
        One read-only array (n,) for each attribute: its codes, in the smallest unsigned integer type. The readers of
        files stream; what would take too much memory they leave, as codes, in temporary files that have no name, and
        map those (in the folder that TMPDIR names). Records of persons stand there in an order of the persons, else in
        that of their source.
    persons
        The person of each record, where the unit is a person (`of_persons`, and the readers); None in the table of
        records that were kept of each person (`bounded`).
    points
        For each attribute that has a grid, the points of its records (n,), as codes of `Attribute.fine`, in the
        smallest unsigned integer type; None for one without a grid, and where each point is a cell. The columns are the
        bins of these. Empty where no column has any. See `grid`.
    texts
        For each column whose categories are to be learned, the text that each of its codes stands for.
    private_size
        Why the number of records is private under every relation, such as `JOINED`; empty where the relation decides.
    votes
        In the table of records that were kept of each person (`bounded`): for each column of `texts`, by text, the sum
        of what it counts of each person (`named_categories`).

    Raises
    ------
    InvalidInput
        For arrays that do not fit the domain, or hold a code that its column has not, and for persons where the domain
        knows none.

    Examples
    --------
    >>> table = Table(Domain.coded({"a": 2, "b": 3}), (np.array([0, 1, 1]), np.array([2, 0, 0])))
    >>> table
    Table(a[2] x b[3] (6 cells); the records are private)
    >>> table.counts([(0,), (0, 1)])[1].reshape(2, 3)
    array([[0, 0, 1],
           [2, 0, 0]])
    """

    domain: Domain
    columns: tuple[Codes, ...]
    persons: Persons | None = None
    points: tuple[Codes | None, ...] = ()
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    private_size: str = ""
    votes: Mapping[str, Ints] = field(default_factory=dict)
    _known: KnownCounts = field(default_factory=KnownCounts, init=False)

    def __post_init__(self) -> None:
        found = [c if isinstance(c, np.memmap) else np.asarray(c) for c in self.columns]
        if len(found) != len(self.domain):
            raise InvalidInput(f"the domain has {len(self.domain)} columns, got {len(found)} arrays")
        if any(column.ndim != 1 or column.shape != found[0].shape for column in found):
            shapes = ", ".join(str(column.shape) for column in found)
            raise InvalidInput(f"columns must be 1-d arrays of one length, got shapes {shapes}")
        if self.persons is not None and self.domain.person is None:
            raise InvalidInput("the domain has no person, so records of persons do not fit it")
        if self.persons is not None and len(self.persons) != len(found[0]):
            raise InvalidInput(f"there are {len(found[0]):,} records, and persons of {len(self.persons):,}")
        if self.persons is not None and self.domain.person is not None and self.domain.person.derive:
            raise InvalidInput("derived columns have one record a person: make the table by Table.of_derived")
        object.__setattr__(self, "columns", tuple(map(_checked, self.domain, found)))
        if self.points:
            object.__setattr__(self, "points", self._checked_points())

    def viewed(self, domain: Domain) -> Table:
        """The same records over a domain that has learned bins and categories where this one has none yet.

        Parameters
        ----------
        domain : Domain
            The completed domain, such as `Learned.domain`.

        Returns
        -------
        Table
            Of the same n records.

        Raises
        ------
        InvalidInput
            For a domain that says other things of the records.
        """
        if domain.names != self.domain.names:
            raise InvalidInput("the records have other columns than the domain")
        if domain.person != self.domain.person:
            raise InvalidInput("the domain has another person than the records")
        columns, points = list(self.columns), self._points_or_none()
        for axis, (before, after) in enumerate(zip(self.domain, domain, strict=True)):
            learned = {key: getattr(after, key) for key in ("learn", "edges", "shape", "categories", "outside")}
            if (replace(before, **learned) if before.undecided else before) != after:
                raise InvalidInput(
                    f"the domain describes column {before.name!r} in another way than the schema that it was read by"
                )
            texts = self.texts.get(before.name)
            if texts is not None and not after.undecided:
                columns[axis] = _of_texts(after, texts, columns[axis])
            elif before.undecided and has_points(after):
                points[axis], columns[axis] = columns[axis], binned(after, columns[axis])
        found = any_of(points)
        return Table(domain, tuple(columns), self.persons, found, {}, self.private_size)

    def _points_or_none(self) -> list[Codes | None]:
        """For each column its points, where the table has any beside its codes."""
        return list(self.points) or [None] * len(self.columns)

    def _checked_points(self) -> tuple[Codes | None, ...]:
        if len(self.points) != len(self.domain):
            raise InvalidInput(f"the domain has {len(self.domain)} columns, got points of {len(self.points)}")
        checked: list[Codes | None] = []
        for attribute, given, column in zip(self.domain, self.points, self.columns, strict=True):
            if given is not None and not has_points(attribute):
                raise InvalidInput(f"column {attribute.name!r} has no points beside its codes")
            points = None if given is None else _checked(attribute.fine, np.asanyarray(given))
            if points is not None and not agree(attribute, points, column):
                raise InvalidInput(f"column {attribute.name!r}: its codes are not the bins of its points")
            checked.append(points)
        return tuple(checked)

    def grid(self, name: str) -> npt.NDArray[np.int64]:
        """The records of a column as points of its grid (`Attribute.grid`). Private.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        ndarray of int64, shape (n,)
            Steps above the first point; -1 for a missing value.

        Raises
        ------
        InvalidInput
            For a column without a grid, and where the table was made of bins alone.

        Examples
        --------
        >>> import narwhals.stable.v2 as nw
        >>> price = Attribute("price", "number", edges=(0, 50, 100), within=(0, 100), step=0.01, missing=("",))
        >>> table = Table.from_frame(nw.from_dict({"price": [0.07, 99.5, None]}, backend="pandas"), Domain((price,)))
        >>> table.grid("price").tolist(), table.columns[0].tolist()
        ([7, 9950, -1], [0, 1, 2])
        """
        axis = self.domain.axis(name)
        attribute = self.domain.attributes[axis]
        if attribute.grid is None:
            raise InvalidInput(f"column {name!r} has no grid: give it within and step in the schema")
        codes = self.columns[axis]
        if has_points(attribute):
            found = self.points[axis] if self.points else None
            if found is None:
                raise InvalidInput(f"column {name!r}: this table was made of bins, without the points of its grid")
            codes = found
        places = codes.astype(np.int64)
        places[places == attribute.grid.size] = -1
        return places

    @classmethod
    def of_persons(cls, domain: Domain, columns: Sequence[npt.NDArray[Any]], keys: Iterable[object]) -> Table:
        """Records of persons, of arrays of codes.

        Parameters
        ----------
        domain
            With a person as the unit.
        columns
            The codes (n,) of each attribute.
        keys
            Whose record each one is, (n,): texts or numbers. Records of nobody are left out, where the domain says how
            nobody is spelled.

        Returns
        -------
        Table

        Raises
        ------
        InvalidInput
            For a missing key, for keys that differ in their spelling alone, and as for any table.

        Examples
        --------
        >>> from qrelease.data.person import Person
        >>> domain = Domain(Domain.coded({"a": 2}).attributes, person=Person("id", 2))
        >>> table = Table.of_persons(domain, [np.array([0, 1, 1, 1])], ["x", "y", "y", "y"])
        >>> len(table), len(table.bounded(b"secret"))
        (4, 3)
        """
        if domain.person is None:
            raise InvalidInput("the domain has no person, so records of persons do not fit it")
        persons, mine = Persons.of(domain.person, keys)
        found = [np.asarray(column) for column in columns]
        if any(column.shape != mine.shape for column in found):
            raise InvalidInput(f"there are keys of {len(mine):,} records, and columns of another number of them")
        return cls(domain, tuple(column[mine] for column in found), persons)

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        schema: Schema | None = None,
        columns: Sequence[str] | None = None,
        parent: str | os.PathLike[str] | None = None,
        query: str | None = None,
        dialect: Dialect | None = None,
    ) -> Table:
        """Read the records of a file, or of all files of a pattern such as `part-*.parquet`.

        Or those of a table on a PostgreSQL server, or of an object in a store or on a web server. By the suffix a file
        is Parquet (.parquet, .pq), Arrow (.arrow, .arrows, .feather, .ipc), JSON lines (.jsonl, .ndjson), of DuckDB
        (.duckdb, .ddb) or SQLite (.sqlite, .sqlite3, .db), else CSV.

        Parameters
        ----------
        path
            The file; or a text, a URL (`s3://bucket/people.parquet`, `gs://…`, `https://…`, `file://…`), or
            `postgresql://user@host/database`.
        schema
            A `Domain`, or the path of a schema file, or the text of one, which declare the columns: those that it does
            not name are not read. There has to be one; without it the error says how to make one.
        columns
            Some of the schema's columns, in the order wanted; by default all, in the order of a `Domain` or, with a
            schema file, in that of the data.
        parent
            A file with one row for each person, which has the columns that the first has not: see `joined`.
        query
            The select that gives the records. It selects columns, filters rows and joins tables: those of a DuckDB or
            SQLite file; any other file is a table that is called as the file is without its suffixes, with _ for what
            is no letter, digit or _. Of a pattern each file is one, and `files` is all of them. Needs duckdb, but for
            SQLite. Of a SQLite file or a PostgreSQL server also the name of the table, which is no view.
        dialect
            Of CSV files, the parent too: separator, quote, decimal mark and encoding, where they are not UTF-8 with
            commas; and the header of the records, where their file has none.

        Returns
        -------
        Table

        Raises
        ------
        InvalidInput
            One line that names source, row or line, column and value: for the data holder's eyes.
        """
        schema = _given(schema)
        reader = open_reader(path, query, dialect)
        if parent is None:
            return cls.of_reader(reader, schema, columns)
        if reader.keyed:
            raise InvalidInput(
                f"{reader.path}: records that join a parent need one list of columns; in JSON lines each record has its"
                " own"
            )
        domain = selected_columns(schema, columns, reader)
        if domain.person is None:
            raise InvalidInput("a parent table needs a [person] in the schema, whose column is the key of both tables")
        if domain.person.derive:
            return cls.of_derived(cls.read(path, domain_of_records(domain), None, parent, query, dialect), domain)
        own = [name for name in domain.names if name.strip() in [known.strip() for known in reader.header]]
        others = [name for name in domain.names if name not in own]
        if not own or not others:
            raise InvalidInput(
                f"{reader.path} has {'none' if others else 'all'} of the columns: a parent has some of them"
            )
        parts = [narrowed(domain, names) for names in (own, others)]
        of_parent = None if dialect is None else dialect.of_parent
        return cls.of_reader(reader, parts[0]).joined(cls.read(parent, parts[1], dialect=of_parent)).ordered(domain)

    @classmethod
    def read_csv(cls, path: str | os.PathLike[str], schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """Read the records of a UTF-8 CSV file with a header, a piece at a time.

        Parameters
        ----------
        path : path
            The file; with the suffix .gz, .xz or .bz2 it is compressed.
        schema, columns
            As in `read`.

        Returns
        -------
        Table
            The n records of the file, in its order: see `columns`.

        Raises
        ------
        InvalidInput
            As `read` does, naming the line.
        """
        return cls.of_reader(csv_reader(path), schema, columns)

    @classmethod
    def read_parquet(cls, path: str | os.PathLike[str], schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """Read the records of a Parquet file, a piece at a time, by the rules of `from_frame`. Needs pyarrow.

        Parameters
        ----------
        path : path
            The file.
        schema, columns
            As in `read`.

        Returns
        -------
        Table
            The n records of the file, in its order: see `columns`. What is wrong is told as `from_frame` does.
        """
        return cls.of_reader(ParquetReader(path), schema, columns)

    @classmethod
    def from_frame(cls, frame: Any, schema: Schema | None = None, columns: Sequence[str] | None = None) -> Table:
        """Take the records of a pandas or polars data frame, or a pyarrow table.

        A lazy frame of polars, or a relation of DuckDB, is read a batch at a time.

        Null and NaN are missing; where the schema knows no missing mark they read as the empty text. The code of a
        value is that of its text (see `data.spelling` and docs/reference/schema.md), whatever type its column has:
        numbers are compared as 64-bit floats, so give identifiers past 2^53 as text. What a library does to values
        while it builds a frame comes before this, and is the data holder's to avoid: Arrow cuts times among dates, and
        with strict=False polars turns dates and times beside one number into bare whole numbers, in all records.

        Parameters
        ----------
        frame : data frame
            The records.
        schema, columns
            As in `read`.

        Returns
        -------
        Table
            The n records of the frame, in its order: see `columns`.

        Raises
        ------
        InvalidInput
            As `read` does, naming the row, counted from 0; also for a value that might be one of several spellings that
            the schema tells apart.
        """
        schema = _given(schema)
        return cls.of_reader(frame_reader(frame), schema, columns)

    @classmethod
    def of_reader(cls, reader: Reader, schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """Read the records of any source.

        Parameters
        ----------
        reader : Reader
            Gives pieces of records, see `qrelease.data.sources.encoding`.
        schema, columns
            As in `read`.

        Returns
        -------
        Table
            The n records of the source, in its order: see `columns`.

        Raises
        ------
        InvalidInput
            As `read` does.
        """
        domain = selected_columns(schema, columns, reader)
        derives = domain.person is not None and domain.person.derive
        read = encoded(reader, domain_of_records(domain) if derives else domain)
        table = cls(read.domain, read.columns, read.persons, read.points, read.texts, reader.private_size)
        return cls.of_derived(table, domain) if derives else table

    def joined(self, parents: Table) -> Table:
        """The records with the columns of their parents: of a table that has one row for each person.

        A row of a parent belongs to the person whose records it is joined to. So neighbouring tables differ by a person
        with all records and that row, and what is promised to a person covers it.

        Parameters
        ----------
        parents
            A table with the same person column. Of a person without a row there its columns are missing; a row of
            nobody here is left out.

        Returns
        -------
        Table
            Over the columns of both.

        Raises
        ------
        InvalidInput
            Where persons are not known or by another column, a person has two rows, or has none and a column knows no
            missing value.

        Examples
        --------
        >>> from qrelease.data.person import Person
        >>> person = Person("plane", 2)
        >>> seats = Domain((Attribute("seats", "coded", codes=3, missing=("",)),), person=person)
        >>> late = Domain((Attribute("late", "coded", codes=2),), person=person)
        >>> planes = Table.of_persons(seats, [np.array([2, 1])], ["N1", "N2"])
        >>> flights = Table.of_persons(late, [np.array([0, 1, 1])], ["N2", "N1", "N3"])
        >>> [column.tolist() for column in flights.joined(planes).columns]
        [[0, 1, 1], [1, 2, 3]]
        """
        if self.persons is None or parents.persons is None or self.person_column != parents.person_column:
            raise InvalidInput("tables to be joined must both know their persons, by the same person column")
        if len(parents.persons) > len(parents.persons.digests):
            raise InvalidInput(f"a parent table has one row for each {self.person_column!r}, and this one has two")
        places = self.persons.rows_of(parents.persons)
        orphans = places < 0
        columns, points = list(self.columns), self._points_or_none()
        theirs = zip(parents.domain, parents.columns, parents._points_or_none(), strict=True)
        for attribute, column, fine in theirs:
            if orphans.any() and not attribute.missing:
                raise InvalidInput(
                    f"some {self.person_column!r} has no row of a parent, and column {attribute.name!r} knows no"
                    ' missing value: give it missing = [""]'
                )
            columns.append(_of_parents(attribute, column, places))
            points.append(None if fine is None else _of_parents(attribute.fine, fine, places))
        attributes = (*self.domain.attributes, *parents.domain.attributes)
        rules = (*self.domain.impossible, *parents.domain.impossible)
        review = self.domain.review if self.domain.review == parents.domain.review else None  # of both, or of neither
        domain = Domain(attributes, rules, person=self.domain.person, review=review)
        texts = {**parents.texts, **self.texts}
        return Table(domain, tuple(columns), self.persons, any_of(points), texts, self.private_size or JOINED)

    def ordered(self, domain: Domain) -> Table:
        """The same records with the columns in another order.

        Parameters
        ----------
        domain : Domain
            With the same columns, in the order that is wanted, and with the rules that are to hold.

        Returns
        -------
        Table
            Of the same n records.

        Raises
        ------
        InvalidInput
            For a domain with another person, or with a column that this one does not have.
        """
        if domain.person != self.domain.person:
            raise InvalidInput("the domain has another person than the records")
        axes, points = [self.domain.axis(name) for name in domain.names], self._points_or_none()
        columns = tuple(self.columns[axis] for axis in axes)
        found = any_of([points[axis] for axis in axes])
        return Table(domain, columns, self.persons, found, self.texts, self.private_size)

    @classmethod
    def of_derived(cls, table: Table, domain: Domain) -> Table:
        """A table with one record for each person, made of records by the rules of a domain (`derivation`).

        Parameters
        ----------
        table
            The records.
        domain
            Of derived columns, as a schema with a `[person.derive]` declares it.

        Returns
        -------
        Table
            Over that domain; it is protected as a table of records is, of which each person has one.
        """
        table.domain.check_decided()
        types = [code_type(attribute) for attribute in domain]
        found = Spill(types, MAX_BYTES)
        for part in table._by_person():
            made = derived(part, domain)
            found.add([column.astype(dtype) for column, dtype in zip(made, types, strict=True)])
        columns, _ = found.whole()
        return cls(domain, tuple(columns), private_size=table.private_size)

    def _by_person(self) -> Iterator[Table]:
        """The table, or, where it is in files, parts of it that have all records of some persons each."""
        if self.persons is None or not self.persons.in_runs:
            yield self
            return
        for part in self.persons.parts():
            yield Table(self.domain, tuple(part.of_all(self.columns)), part.persons)
            memory.forget([*self.columns, self.persons.words])

    @property
    def keeps_records(self) -> bool:
        """Whether `codes` gives the records one by one: True."""
        return True

    @property
    def weight_bits(self) -> int:
        """The bits of the fraction that a record counts: 0, as each counts one."""
        return 0

    @property
    def knows_persons(self) -> bool:
        """Whether it is known whose records they are."""
        return self.persons is not None

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
        """
        return self.columns[axis]

    @property
    def person_column(self) -> str | None:
        """The column that says whose records they are, where a person is the unit; public."""
        return None if self.domain.person is None else self.domain.person.column

    def __len__(self) -> int:
        return len(self.columns[0])

    def __repr__(self) -> str:
        return f"Table({self.domain}; the records are private)"

    def counts(self, sets: Sequence[str | Sequence[int | str]]) -> list[npt.NDArray[np.int64]]:
        """Count the exact marginal on each set of columns, in one pass.

        Parameters
        ----------
        sets
            Columns by name or by position, each set distinct; in any order, which is the order of the marginal's
            digits. So `table.counts([["dept", "remote"]])[0]` has a count for each line of
            `release.marginal(["dept", "remote"])`.

        Returns
        -------
        list of ndarray
            One a set: read-only int64 counts, flat in C order.

        Raises
        ------
        InvalidInput
            For a name or a position that is no column.
        TooLarge
            Before anything is allocated, when all of them together have more than `MAX_COUNTED_CELLS` cells.
        """
        return self._known.counts(self.domain, [self.domain.positions(of) for of in sets], self._counted)

    def _counted(self, sets: list[Axes]) -> list[Ints]:
        """The marginals on distinct, sorted sets, by one pass."""
        from qrelease.data.marginals.plan import MarginalPlan  # numba loads on first need

        plan = MarginalPlan.choose(self.domain.shape, sets)
        flat = plan.count(self.columns, self.domain.names)
        flat.setflags(write=False)
        return [flat[a:b] for a, b in pairwise(plan.offsets)]

    def check_counts(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Raise what `counts` would, and also where the counts do not fit in memory.

        Parameters
        ----------
        sets : sequence of tuple of int
            The columns of each marginal, by position.

        Raises
        ------
        TooLarge
            For more cells than are ever counted.
        OutOfMemory
            For more than fit now.
        """
        cells = counted_cells(self.domain, sets)
        memory.check(16 * cells, f"exact counts of {cells:,} cells", "ask about fewer or coarser columns")

    def fingerprint(self, key: bytes) -> tuple[str, str]:
        """Keyed digests by which a ledger recognises the table.

        Parameters
        ----------
        key : bytes
            The ledger's own key.

        Returns
        -------
        tuple of str
            Two digests: of the schema, and of the records in any order.
        """
        found = [
            hashed_texts(self.texts[name], codes, key) if name in self.texts else codes
            for name, codes in zip(self.domain.names, self.columns, strict=True)
        ]
        columns = [*found, *(p for p in self.points if p is not None)]
        if self.persons is None:
            return fingerprint(self.domain, columns, key)
        first, second = 0, 0
        for part in self.persons.parts():
            some = hashed_columns(part.of_all(columns), part.persons.unit)
            one, two = record_sums(some, key)
            first, second = (first + one) % 2**64, (second + two) % 2**64
            memory.forget([*columns, self.persons.words])
        return digests(self.domain, key, len(self), (first, second), of_persons=True)

    def check_bounded(self) -> None:
        """Raise where the records that are kept of each person would not fit in memory, or in files, beside the table.

        Raises
        ------
        OutOfMemory
            It does not say how many records there are.
        """
        if self.domain.at_most is not None:
            each = BOUNDING_BYTES + sum(column.itemsize for column in self.columns)
            records = len(self) if self.persons is None else self.persons.largest_part
            if each * records > memory.free():  # without the size, which tells of their number
                raise OutOfMemory("the records kept of each person do not fit in memory: release fewer columns")
            if self.persons is not None and self.persons.in_runs:
                columns = [column for column in (*self.columns, *self.points) if column is not None]
                check_disk(len(self) * sum(column.itemsize for column in columns))

    def bounded(self, key: bytes) -> Table | FractionalRecords:
        """The records that are kept of each person, at most `at_most` of each, without the column of persons.

        Where the unit is one record, this is the table itself. Where each person counts once, each of her k kept
        records counts about 1/k (`FractionalRecords`); but while a schema is being learned, each counts as one.

        Which records are kept is a function of the key and of each person's own records (`data.persons`), so tables
        that differ by one person differ by at most that many records afterwards.

        Parameters
        ----------
        key : bytes
            Secret, at most 64 bytes; drawn for one charge.

        Returns
        -------
        Table or FractionalRecords
            Private, as the table is.

        Raises
        ------
        InvalidInput
            Where the domain has a person, and it is not known whose records these are.
        """
        if self.domain.at_most is None:
            return self
        if self.persons is None:
            raise InvalidInput("the unit is a person, and the table does not say whose records it has")
        points = [column for column in self.points if column is not None]
        places = iter(range(len(self.columns), len(self.columns) + len(points)))
        finest = [axis if column is None else next(places) for axis, column in enumerate(self._points_or_none())]
        # A text that is to be learned is numbered by when it first came: others' records must not decide by that.
        hashes = {name: text_hashes(self.texts[name], key[:64]) for name in self.texts}
        hashed = [(name, place, hashes.get(name)) for name, place in zip(self.domain.names, finest, strict=True)]
        in_parts = self.domain.counts_once and not self.domain.undecided
        distinct = () if in_parts else self.domain.distinct
        bits = self.domain.weight_bits if in_parts else None
        choice = Choice(self.domain.at_most, key, hashed, distinct, bits)
        found, counted = kept_columns(self.persons, [*self.columns, *points], choice)
        columns, left = tuple(found[: len(self.columns)]), iter(found[len(self.columns) :])
        if counted is not None:
            return FractionalRecords(self.domain, columns, counted, self.private_size)
        points_left = any_of([None if p is None else next(left) for p in self._points_or_none()])
        named = {  # of all records of each person, since she has one vote however many there are
            name: votes(self.persons, self.columns[self.domain.axis(name)], texts, key, name)
            for name, texts in self.texts.items()
        }
        return Table(self.domain, columns, None, points_left, self.texts, self.private_size, named)

    def histogram(self) -> npt.NDArray[np.int64]:
        """The exact count of every cell of the universe, (|X|,) int64. Raises `TooLarge` past `MAX_COUNTED_CELLS`."""
        return self.counts([tuple(range(len(self.domain)))])[0]


def _of_texts(attribute: Attribute, texts: Sequence[str], codes: Codes) -> Codes:
    """The codes (n,) of records whose texts are numbered, now that their categories are known."""
    known = {category: code for code, category in enumerate(attribute.categories)}
    other = known[attribute.outside]
    cells = np.array([*(known.get(text, other) for text in texts), attribute.size - 1], code_type(attribute))
    found: Codes = cells[np.minimum(codes, len(texts))]  # the missing ones are past all texts
    return found


def _of_parents(attribute: Attribute, column: Codes, places: npt.NDArray[np.int64]) -> Codes:
    """The codes of parents at some places; the missing value at -1."""
    found = np.append(column, np.zeros(1, column.dtype))[places].astype(np.int64)
    return np.where(places < 0, attribute.values, found).astype(code_type(attribute))


def _checked(attribute: Attribute, codes: npt.NDArray[Any]) -> Codes:
    """A read-only copy of a column in its smallest type (a mapped file as it is); a code without a cell is an error."""
    if codes.dtype.kind not in "iu":
        raise InvalidInput(f"column {attribute.name!r} must hold integer codes, got {codes.dtype}")
    low, high = _bounds(codes)
    if low < 0 or high >= attribute.size:
        raise InvalidInput(
            f"column {attribute.name!r} must hold codes 0..{attribute.size - 1}, got {codes.min()}..{codes.max()}"
        )
    if isinstance(codes, np.memmap) and codes.mode == "r" and codes.dtype == code_type(attribute):
        return codes
    copy = np.array(codes, code_type(attribute))
    copy.setflags(write=False)
    return copy


def _bounds(codes: npt.NDArray[Any]) -> tuple[int, int]:
    """The least and the largest of some codes, and of 0: of what this package wrote to a file they are known."""
    if isinstance(codes, Mapped) and codes.largest is not None:
        return 0, codes.largest
    low, high = 0, 0
    for first in range(0, len(codes), _CHECKED):
        block = codes[first : first + _CHECKED]
        low, high = min(low, int(block.min())), max(high, int(block.max()))
        memory.forget((codes,))
    return low, high


def _given(schema: Schema | None) -> Schema:
    """The schema, or the error that says why there has to be one."""
    if schema is None:
        raise InvalidInput(NO_SCHEMA)
    return schema
