"""`Table`: the private records, encoded by a schema into small integers, and their exact counts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from tempfile import SpooledTemporaryFile
from typing import Any, final

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.typing import Codes
from qrelease.data import schema as schemas
from qrelease.data.domain import Attribute, Domain, readable
from qrelease.data.fingerprint import fingerprint, hashed_texts
from qrelease.data.sources.csv import Chunk, CsvReader
from qrelease.data.sources.encoder import Encoder, code_type
from qrelease.data.sources.files import is_parquet
from qrelease.data.sources.frames import encode_series
from qrelease.data.sources.parquet import ParquetReader
from qrelease.data.structural_zeros import narrowed
from qrelease.errors import InvalidInput, TooLarge

Schema = Domain | str | os.PathLike[str]

MAX_COUNTED_CELLS = 1 << 28  # of all requested counts together: 2 GiB of int64

MAX_REMEMBERED_CELLS = 1 << 22  # cells of counts that a table keeps, for the rounds in which a mechanism asks again

_BLOCK = 1 << 16  # records whose bins are compared with their points at a time

_MEMORY_FRACTION = 4  # a table whose codes take more than a fourth of the free memory is kept in temporary files


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
        map those (in the folder that TMPDIR names).
    points
        For each attribute that has a grid, the points of its records (n,), as codes of `Attribute.fine`, in the
        smallest unsigned integer type; None for one without a grid, and where each point is a cell. The columns are the
        bins of these. Empty where no column has any. See `grid`.
    texts
        For each column whose categories are to be learned, the text that each of its codes stands for.

    Raises
    ------
    InvalidInput
        For arrays that do not fit the domain, or hold a code that its column has not.

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
    points: tuple[Codes | None, ...] = ()
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _known: dict[tuple[int, ...], npt.NDArray[np.int64]] = field(default_factory=dict, init=False)
    _cells: int = field(default=0, init=False)  # of all that are known

    def __post_init__(self) -> None:
        found = [c if isinstance(c, np.memmap) else np.asarray(c) for c in self.columns]
        if len(found) != len(self.domain):
            raise InvalidInput(f"the domain has {len(self.domain)} columns, got {len(found)} arrays")
        if any(column.ndim != 1 or column.shape != found[0].shape for column in found):
            shapes = ", ".join(str(column.shape) for column in found)
            raise InvalidInput(f"columns must be 1-d arrays of one length, got shapes {shapes}")
        object.__setattr__(self, "columns", tuple(map(_checked, self.domain, found)))
        if self.points:
            object.__setattr__(self, "points", self._checked_points())

    def viewed(self, domain: Domain) -> Table:
        """The same records over a domain that has learned bins and categories where this one has none yet.

        Raises
        ------
        InvalidInput
            For a domain that says other things of the records.
        """
        if domain.names != self.domain.names:
            raise InvalidInput("the records have other columns than the domain")
        found = []
        for axis, (before, after) in enumerate(zip(self.domain, domain, strict=True)):
            learned = {key: getattr(after, key) for key in ("learn", "edges", "shape", "categories", "outside")}
            if (replace(before, **learned) if before.undecided else before) != after:
                raise InvalidInput(f"the domain says other things of column {before.name!r} than was read")
            codes = self.points[axis] if self.points else None
            codes = self.columns[axis] if codes is None else codes
            texts = self.texts.get(before.name)
            found.append(codes if texts is None or after.undecided else _of_texts(after, texts, codes))
        return Table._of_points(domain, found)

    @classmethod
    def _of_points(
        cls, domain: Domain, found: Sequence[Codes], texts: Mapping[str, Sequence[str]] | None = None
    ) -> Table:
        """A table of codes of `Attribute.fine`."""
        binned = [_has_points(attribute) for attribute in domain]
        columns = tuple(_binned(a, c) if b else c for a, c, b in zip(domain, found, binned, strict=True))
        points = tuple(c if b else None for c, b in zip(found, binned, strict=True)) if any(binned) else ()
        return cls(domain, columns, points, texts or {})

    def _checked_points(self) -> tuple[Codes | None, ...]:
        if len(self.points) != len(self.domain):
            raise InvalidInput(f"the domain has {len(self.domain)} columns, got points of {len(self.points)}")
        checked: list[Codes | None] = []
        for attribute, given, column in zip(self.domain, self.points, self.columns, strict=True):
            if given is not None and not _has_points(attribute):
                raise InvalidInput(f"column {attribute.name!r} has no points beside its codes")
            points = None if given is None else _checked(attribute.fine, np.asanyarray(given))
            if points is not None and not _agree(attribute, points, column):
                raise InvalidInput(f"column {attribute.name!r}: its codes are not the bins of its points")
            checked.append(points)
        return tuple(checked)

    def grid(self, name: str) -> npt.NDArray[np.int64]:
        """The records of a column on its grid (`Attribute.grid`): steps above its first point, (n,); -1 if missing.

        Raises
        ------
        InvalidInput
            For a column without a grid, and where the table was made of bins alone.

        Examples
        --------
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
        if _has_points(attribute):
            found = self.points[axis] if self.points else None
            if found is None:
                raise InvalidInput(f"column {name!r}: this table was made of bins, without the points of its grid")
            codes = found
        places = codes.astype(np.int64)
        places[places == attribute.grid.size] = -1
        return places

    @classmethod
    def read(cls, path: str | os.PathLike[str], schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """Read the records of a file: Parquet if it ends in .parquet or .pq, else CSV.

        Parameters
        ----------
        path
            The file.
        schema
            A `Domain`, or the path of a schema file, which declare the columns: those that it does not name are not
            read.
        columns
            Some of the schema's columns, in the order wanted; by default all, in the order of a `Domain` or, with a
            schema file, in that of the data.

        Returns
        -------
        Table

        Raises
        ------
        InvalidInput
            One line that names source, row or line, column and value: for the data holder's eyes.
        """
        return (cls.read_parquet if is_parquet(path) else cls.read_csv)(path, schema, columns)

    @classmethod
    def read_csv(cls, path: str | os.PathLike[str], schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """Read the records of a UTF-8 CSV file with a header (.gz, .xz, .bz2 by suffix), streamed; else as `read`."""
        reader = CsvReader(path)
        domain = _selected(schema, columns, reader.header, path)
        reader.check_commas(domain.names)
        places = _places(domain, reader.header, str(reader.path))
        encoders = [Encoder(attribute.fine) for attribute in domain]
        with ExitStack() as stack:
            found = _Columns(domain, stack)
            for chunk in reader.chunks():
                found.add([_encoded(reader, chunk, *column) for column in zip(encoders, places, strict=True)])
            return found.table(encoders)

    @classmethod
    def read_parquet(cls, path: str | os.PathLike[str], schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """Read the records of a Parquet file, streamed, by the rules of `from_frame`; else as `read`. Needs pyarrow."""
        reader = ParquetReader(path)
        domain = _selected(schema, columns, reader.header, path)
        encoders = [Encoder(attribute.fine) for attribute in domain]
        wanted = [reader.header[place] for place in _places(domain, reader.header, str(path))]
        first = 0
        with ExitStack() as stack:
            found = _Columns(domain, stack)
            for batch in reader.batches(wanted):
                found.add(_piece(nw.from_native(batch, eager_only=True), encoders, first, str(path)))
                first += len(batch)
            return found.table(encoders)

    @classmethod
    def from_frame(cls, frame: Any, schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """Take the records of a pandas or polars data frame, or a pyarrow table.

        Null and NaN are missing; where the schema knows no missing mark they read as the empty text. The code of a
        value is that of its text (see `data.spelling` and docs/schema.md), whatever type its column has: numbers are
        compared as 64-bit floats, so give identifiers past 2^53 as text. What a library does to values while it builds
        a frame (Arrow cuts times among dates) comes before this, and is the data holder's to avoid.

        Parameters
        ----------
        frame
            The data frame.
        schema, columns
            As in `read`.

        Raises
        ------
        InvalidInput
            As `read` does, naming the row, counted from 0; also for a value that might be one of several spellings that
            the schema tells apart.
        """
        try:
            wrapped = nw.from_native(frame, eager_only=True)
            names = wrapped.columns
        except TypeError:
            kind = type(frame).__name__
            raise InvalidInput(f"a pandas, polars or pyarrow table is needed, got {kind}") from None
        except nw.exceptions.DuplicateError as error:
            raise InvalidInput(f"the frame has a column twice: {' '.join(str(error).split())}") from None
        domain = _selected(schema, columns, names)
        encoders = [Encoder(attribute.fine) for attribute in domain]
        found = _piece(wrapped, encoders, 0, "the frame")
        return cls._of_points(domain, found, _texts(encoders))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __repr__(self) -> str:
        return f"Table({self.domain}; the records are private)"

    def counts(self, sets: Sequence[tuple[int, ...]]) -> list[npt.NDArray[np.int64]]:
        """Count the exact marginal on each set of columns, in one pass.

        Parameters
        ----------
        sets
            Column positions, each set distinct; in any order, which is the order of the marginal's digits.

        Returns
        -------
        list of ndarray
            One a set: read-only int64 counts, flat in C order.

        Raises
        ------
        InvalidInput
            For a position that is no column.
        TooLarge
            Before anything is allocated, when all of them together have more than `MAX_COUNTED_CELLS` cells.
        """
        width = len(self.domain)
        wrong = [s for s in sets if len(set(s)) < len(s) or not all(0 <= axis < width for axis in s)]
        if wrong:
            raise InvalidInput(f"columns to count must be distinct positions 0..{width - 1}, got {wrong[0]}")
        self._check_cells(sets)
        found = self._marginals([*dict.fromkeys(tuple(sorted(axes)) for axes in sets)])
        return [_in_order(found[tuple(sorted(axes))], axes, self.domain.shape) for axes in sets]

    def _marginals(self, sets: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], npt.NDArray[np.int64]]:
        """The marginals on distinct, sorted sets: those counted before, and one pass for the others."""
        from qrelease.data.marginals.plan import MarginalPlan  # numba loads on first need

        # One look at each: another thread may forget them all meanwhile.
        found = {axes: counts for axes in sets if (counts := self._known.get(axes)) is not None}
        new = [axes for axes in sets if axes not in found]
        if not new:
            return found
        cover = MarginalPlan.choose(self.domain.shape, new)
        flat = cover.count(self.columns, self.domain.names)
        flat.setflags(write=False)
        counted = {axes: flat[a:b] for axes, (a, b) in zip(new, pairwise(cover.offsets), strict=True)}
        if len(flat) <= MAX_REMEMBERED_CELLS:
            before = self._cells
            if before + len(flat) > MAX_REMEMBERED_CELLS:
                self._known.clear()
                before = 0
            self._known.update(counted)
            object.__setattr__(self, "_cells", before + len(flat))
        return found | counted

    def check_counts(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Raise the `TooLarge` that `counts` would, and one where they would not fit in memory."""
        cells = self._check_cells(sets)
        memory.check(16 * cells, f"exact counts of {cells:,} cells", "ask about fewer or coarser columns")

    def fingerprint(self, key: bytes) -> tuple[str, str]:
        """Keyed digests of the schema and of the records in any order, for the ledger that has the key."""
        kept = [
            hashed_texts(self.texts[name], codes, key) if name in self.texts else codes
            for name, codes in zip(self.domain.names, self.columns, strict=True)
        ]
        return fingerprint(self.domain, (*kept, *(p for p in self.points if p is not None)), key)

    def _check_cells(self, sets: Sequence[tuple[int, ...]]) -> int:
        cells = sum(self.domain.cells(axes) for axes in sets)
        if cells > MAX_COUNTED_CELLS:
            raise TooLarge(f"exact counts of {readable(cells)} cells do not fit; at most {MAX_COUNTED_CELLS:,} do")
        return cells

    def histogram(self) -> npt.NDArray[np.int64]:
        """The exact count of every cell of the universe, (|X|,) int64. Raises `TooLarge` past `MAX_COUNTED_CELLS`."""
        return self.counts([tuple(range(len(self.domain)))])[0]


def _selected(
    schema: Schema, columns: Sequence[str] | None, header: Sequence[str], data: str | os.PathLike[str] | None = None
) -> Domain:
    """The columns asked for; without any, all of the schema's: those of a schema *file* in the order of the data.

    data  the file of the private records, if they are in one: the schema may not take its categories from it
    """
    domain = schema if isinstance(schema, Domain) else schemas.load(schema, undecided=True)
    for listed in domain.code_lists if data is not None else ():
        with suppress(OSError):  # a list that is gone by now was read
            if os.path.samefile(listed, data):
                raise InvalidInput(
                    f"the schema takes categories from {listed}, which is the file of the private records: its values"
                    " would become public; take a list that is public knowledge"
                )
    if columns is None:
        of_data = not isinstance(schema, Domain) and set(domain.names) <= set(header)
        columns = [name for name in header if name in domain.names] if of_data else domain.names
    try:
        return narrowed(domain, columns)
    except InvalidInput as error:
        raise error if isinstance(schema, Domain) else InvalidInput(f"schema {schema}: {error}") from None


def _texts(encoders: Sequence[Encoder]) -> dict[str, Sequence[str]]:
    """The texts of the columns whose categories are to be learned."""
    return {e.attribute.name: tuple(e.texts) for e in encoders if e.attribute.kind == "category" and e.attribute.learn}


def _of_texts(attribute: Attribute, texts: Sequence[str], codes: Codes) -> Codes:
    """The codes (n,) of records whose texts are numbered, now that their categories are known."""
    known = {category: code for code, category in enumerate(attribute.categories)}
    other = known[attribute.outside]
    cells = np.array([*(known.get(text, other) for text in texts), attribute.values], code_type(attribute))
    found: Codes = cells[np.minimum(codes, len(texts))]  # the missing ones are past all texts
    return found


def _has_points(attribute: Attribute) -> bool:
    """Whether a table keeps more of a column than its bins: where some bin holds several points of a grid."""
    return attribute.grid is not None and not attribute.undecided and attribute.values < attribute.grid.size


def _binned(attribute: Attribute, points: Codes) -> Codes:
    """The codes (n,) of codes of `Attribute.fine`."""
    return attribute.bins_of(points).astype(code_type(attribute))


def _agree(attribute: Attribute, points: Codes, column: Codes) -> bool:
    """Whether a column holds the bins of its points."""
    if len(points) != len(column):
        return False
    places = range(0, len(points), _BLOCK)
    return all(np.array_equal(attribute.bins_of(points[i : i + _BLOCK]), column[i : i + _BLOCK]) for i in places)


def _checked(attribute: Attribute, codes: npt.NDArray[Any]) -> Codes:
    """A read-only copy of a column in its smallest type (a mapped file as it is); a code without a cell is an error."""
    if codes.dtype.kind not in "iu":
        raise InvalidInput(f"column {attribute.name!r} must hold integer codes, got {codes.dtype}")
    if len(codes) and not (codes.min() >= 0 and codes.max() < attribute.size):
        raise InvalidInput(
            f"column {attribute.name!r} must hold codes 0..{attribute.size - 1}, got {codes.min()}..{codes.max()}"
        )
    if isinstance(codes, np.memmap) and codes.mode == "r" and codes.dtype == code_type(attribute):
        return codes
    copy = np.array(codes, code_type(attribute))
    copy.setflags(write=False)
    return copy


def _places(domain: Domain, names: Sequence[str], source: str) -> list[int]:
    """Where the domain's columns stand among the names of a source."""
    found = [name.strip() for name in names]
    twice = next((name for i, name in enumerate(found) if name in found[:i]), None)
    if twice is not None:
        raise InvalidInput(f"{source}: column {twice!r} appears twice")
    absent = [name for name in domain.names if name.strip() not in found]
    if absent:
        raise InvalidInput(f"{source} has no column {absent[0]!r}; it has {', '.join(found)}")
    return [found.index(name.strip()) for name in domain.names]


def _encoded(reader: CsvReader, chunk: Chunk, encoder: Encoder, place: int) -> Codes:
    """The codes of one column of a chunk of text; a value without a place is an error with its line."""
    try:
        return encoder.codes(map(itemgetter(place), chunk.rows), len(chunk.rows))
    except InvalidInput:
        position, error = encoder.fault(row[place] for row in chunk.rows)
        raise InvalidInput(f"{reader.path} line {reader.line(chunk.first + position)}: {error}") from None


def _piece(frame: nw.DataFrame[Any], encoders: Sequence[Encoder], first: int, source: str) -> list[Codes]:
    """The codes of a frame's columns; `first` is the number of rows before it."""
    names = frame.columns
    domain = Domain(tuple(encoder.attribute for encoder in encoders))
    places = _places(domain, [str(name) for name in names], source)
    try:
        return [
            encode_series(encoder, frame.get_column(names[place]), first)
            for encoder, place in zip(encoders, places, strict=True)
        ]
    except InvalidInput as error:
        raise InvalidInput(f"{source} {error}") from None


class _Columns:
    """The columns of a source as their codes come in, in memory while they are small and then in temporary files."""

    def __init__(self, domain: Domain, stack: ExitStack) -> None:
        self._domain = domain
        self._pointed = [axis for axis, attribute in enumerate(domain) if _has_points(attribute)]
        kept = [*domain, *(domain.attributes[axis].fine for axis in self._pointed)]
        self._limit = max(memory.free() // (_MEMORY_FRACTION * len(kept)), 1)
        self._files = [stack.enter_context(SpooledTemporaryFile(self._limit)) for _ in kept]  # noqa: SIM115
        self._types = [code_type(attribute) for attribute in kept]

    def add(self, piece: Sequence[Codes]) -> None:
        """The codes of `Attribute.fine` of the next records."""
        bins = list(piece)
        for axis in self._pointed:
            bins[axis] = _binned(self._domain.attributes[axis], piece[axis])
        for file, codes in zip(self._files, [*bins, *(piece[axis] for axis in self._pointed)], strict=True):
            file.write(codes.tobytes())

    def table(self, encoders: Sequence[Encoder]) -> Table:
        """The records; none where there are none, which is as private as any number of them."""
        found = list(map(self._column, self._files, self._types))
        points: list[Codes | None] = [None] * len(self._domain)
        for axis, codes in zip(self._pointed, found[len(points) :], strict=True):
            points[axis] = codes
        return Table(
            self._domain, tuple(found[: len(points)]), tuple(points) if self._pointed else (), _texts(encoders)
        )

    def _column(self, file: SpooledTemporaryFile[bytes], dtype: np.dtype[Any]) -> Codes:
        if file.tell() > self._limit:
            file.flush()
            return np.memmap(file, dtype, "r")
        file.seek(0)
        return np.frombuffer(file.read(), dtype)


def _in_order(marginal: npt.NDArray[np.int64], axes: tuple[int, ...], shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """A marginal on the sorted axes, as one whose digits run in the order of `axes`."""
    ordered = sorted(axes)
    if list(axes) == ordered:
        return marginal
    cube = marginal.reshape([shape[a] for a in ordered])
    return cube.transpose([ordered.index(a) for a in axes]).reshape(-1)
