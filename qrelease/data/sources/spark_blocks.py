"""What Spark's workers do: records to encoded blocks, blocks to those that are kept of each person, blocks to counts.

Each function takes an iterator of Arrow's record batches and gives another, as `DataFrame.mapInArrow` asks of it. A
block is one row: the number of its records, and for each column the bytes of their codes. What is made of a block
depends on its records alone, and all that leaves the workers are sums of whole numbers: so it does not matter which
records are in which block.

Where the unit is a person, a block has the records of some persons, and all of theirs: `bucketed` rows are brought
together by `bucket` (`persons.bucket`), and each bucket is one block (`gathered_blocks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Axes, Codes, Ints
from qrelease.data.domain import Domain
from qrelease.data.fingerprint import hashed_columns, record_sums
from qrelease.data.persons import NOBODY, PersonReader, Persons, bucket
from qrelease.data.points import any_of, binned, has_points
from qrelease.data.sources.encoder import Encoder, code_type
from qrelease.data.table import Table

if TYPE_CHECKING:
    from pyarrow import RecordBatch

BLOCK: Final = 1 << 18
"""Records that are encoded, and counted, at a time."""

CHUNK: Final = 1 << 16
"""Cells of partial counts in one row."""

PARTIAL: Final = "branch bigint, chunk bigint, places binary, counts binary"
"""Columns of partial counts: those of one chunk, and at which places where most of its counts are 0."""

SUMS: Final = "records bigint, first binary, second binary"
"""Columns of the sums of hashes."""

_SPARSE = 3  # a chunk is spelled by its places where fewer than one count in so many is not 0
_WORD = 8


@final
@dataclass(frozen=True)
class Layout:
    """Which columns a block has.

    domain      of its records
    of_persons  whether it says whose records they are
    """

    domain: Domain
    of_persons: bool

    @cached_property
    def types(self) -> dict[str, np.dtype[Any]]:
        """By its name in a block, the type of each column of codes: all bins, then the points of those with a grid."""
        bins = {f"b{axis}": code_type(attribute) for axis, attribute in enumerate(self.domain)}
        pointed = {f"p{axis}": code_type(a.fine) for axis, a in enumerate(self.domain) if has_points(a)}
        return bins | pointed

    @property
    def spelled(self) -> str:
        """The columns as Spark takes them."""
        persons = ["whose", "digests"] if self.of_persons else []
        return ", ".join(["records bigint", *(f"{name} binary" for name in [*self.types, *persons])])

    @property
    def bucketed(self) -> str:
        """The columns of rows that are to be brought together by person."""
        return ", ".join(["bucket int, records bigint", *(f"{name} binary" for name in [*self.types, "whose", "keys"])])

    def codes(self, fine: Sequence[Codes]) -> dict[str, Codes]:
        """The columns of codes, of codes of `Attribute.fine`."""
        columns = list(fine)
        for axis, attribute in enumerate(self.domain):
            if has_points(attribute):
                columns[axis] = binned(attribute, fine[axis])
        points = [fine[axis] for axis, attribute in enumerate(self.domain) if has_points(attribute)]
        return dict(zip(self.types, [*columns, *points], strict=True))

    def table(self, batch: RecordBatch, row: int) -> Table:
        """The records of a block."""
        found = {name: _array(batch, row, name, dtype) for name, dtype in self.types.items()}
        persons = None
        if self.of_persons:
            whose, digests = _array(batch, row, "whose", np.int32), _array(batch, row, "digests", np.uint64)
            persons = Persons(whose.astype(np.int64), digests.reshape(-1, 2))
        columns = tuple(found[f"b{axis}"] for axis in range(len(self.domain)))
        points = any_of([found.get(f"p{axis}") for axis in range(len(self.domain))])
        return Table(self.domain, columns, persons, points)

    def block(self, table: Table) -> RecordBatch:
        """A block of the records of a table."""
        points = {f"p{axis}": column for axis, column in enumerate(table.points) if column is not None}
        found: dict[str, Any] = {f"b{axis}": column for axis, column in enumerate(table.columns)} | points
        if table.persons is not None:
            found |= {"whose": table.persons.codes.astype(np.int32), "digests": table.persons.digests}
        return _row({"records": len(table)}, found)


@final
@dataclass(frozen=True)
class BlockReading:
    """How a frame's rows become blocks.

    layout   of the blocks
    columns  by the name of an attribute, that of the frame's column
    person   the frame's column of keys, where the unit is a person
    buckets  that persons are spread over
    """

    layout: Layout
    columns: Mapping[str, str]
    person: str | None
    buckets: int


def encoded_blocks(batches: Iterator[RecordBatch], reading: BlockReading) -> Iterator[RecordBatch]:
    """Blocks of a partition's rows; where the unit is a person, rows for `gathered_blocks`."""
    import narwhals.stable.v2 as nw
    from pyspark import TaskContext

    from qrelease.data.sources.frames import FramePiece

    context, domain, first = TaskContext.get(), reading.layout.domain, 0
    where = f"the frame, partition {0 if context is None else context.partitionId()},"
    encoders = [Encoder(attribute.fine) for attribute in domain]
    persons = None if domain.person is None else PersonReader(domain.person)
    for rows in _pieces(batches):
        piece = FramePiece(nw.from_native(rows, eager_only=True), {c: c for c in rows.column_names}, first, where)
        first += len(rows)
        codes = reading.layout.codes(
            [piece.codes(encoder, reading.columns[a.name]) for a, encoder in zip(domain, encoders, strict=True)]
        )
        if persons is None or reading.person is None:
            yield _row({"records": len(rows)}, codes)
        else:
            yield from _by_bucket(codes, piece.persons(persons, reading.person), persons.texts(), reading.buckets)


def _pieces(batches: Iterator[RecordBatch]) -> Iterator[Any]:
    """The rows of many small batches as tables of at least `BLOCK` rows."""
    import pyarrow as pa

    waiting: list[RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= BLOCK:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting)


def _by_bucket(
    codes: Mapping[str, Codes], whose: npt.NDArray[np.int64], texts: Sequence[str], buckets: int
) -> Iterator[RecordBatch]:
    """The records that are somebody's, a row for each bucket that has any.

    whose  the number of each record's person, (n,), which `texts` are the keys of
    """
    import pyarrow as pa

    named = np.unique(whose[whose != NOBODY])
    of_person = np.full(len(texts) + 1, buckets)
    of_person[named] = [bucket(texts[person], buckets) for person in named]
    places = of_person[whose]  # nobody's number is -1: the last
    order = np.argsort(places, kind="stable")
    cuts = np.searchsorted(places[order], np.arange(buckets + 1))
    for number in np.unique(of_person[named]).tolist():
        rows = order[cuts[number] : cuts[number + 1]]
        persons, local = np.unique(whose[rows], return_inverse=True)
        keys = pa.record_batch({"key": pa.array([texts[person] for person in persons], pa.string())})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, keys.schema) as stream:
            stream.write_batch(keys)
        found: dict[str, Any] = {name: column[rows] for name, column in codes.items()}
        found |= {"whose": local.astype(np.int32), "keys": sink.getvalue().to_pybytes()}
        yield _row({"bucket": number, "records": len(rows)}, found)


def gathered_blocks(
    batches: Iterator[RecordBatch], reading: BlockReading, derived: Domain | None
) -> Iterator[RecordBatch]:
    """One block for each bucket, of rows in the order of their buckets.

    derived  of the one record a person that is made of these, if it is
    """
    import pyarrow as pa

    layout = reading.layout
    person = layout.domain.person
    assert person is not None
    rows = ((batch, row) for batch in batches for row in range(len(batch)))
    for _, together in groupby(rows, key=lambda at: at[0].column("bucket")[at[1]].as_py()):
        reader, whose = PersonReader(person), list[npt.NDArray[np.int64]]()
        columns: dict[str, list[Codes]] = {name: [] for name in layout.types}
        for batch, row in together:
            keys = pa.ipc.open_stream(batch.column("keys")[row].as_buffer()).read_all().column("key").to_pylist()
            whose.append(reader.text_codes(keys, lambda _: "the frame")[_array(batch, row, "whose", np.int32)])
            for name, dtype in layout.types.items():
                columns[name].append(_array(batch, row, name, dtype).copy())
        found = {name: np.concatenate(pieces) for name, pieces in columns.items()}
        axes = range(len(layout.domain))
        points = any_of([found.get(f"p{axis}") for axis in axes])
        persons = Persons(np.concatenate(whose), reader.digests())
        table = Table(layout.domain, tuple(found[f"b{axis}"] for axis in axes), persons, points)
        yield layout.block(table) if derived is None else Layout(derived, False).block(Table.of_derived(table, derived))


def bounded(batches: Iterator[RecordBatch], layout: Layout, key: bytes) -> Iterator[RecordBatch]:
    """Blocks of the records that are kept of each person, as `Table.bounded` keeps them."""
    for batch in batches:
        for row in range(len(batch)):
            kept = layout.table(batch, row).bounded(key)
            assert isinstance(kept, Table)  # a person who counts once is refused before
            yield layout.block(kept)


def summed(batches: Iterator[RecordBatch], layout: Layout, key: bytes) -> Iterator[RecordBatch]:
    """The number of a partition's records, and the sums of their hashes, for a digest of all."""
    records, first, second = 0, 0, 0
    for batch in batches:
        for row in range(len(batch)):
            table = layout.table(batch, row)
            of_persons = None if table.persons is None else table.persons.unit
            columns = [*table.columns, *(p for p in table.points if p is not None)]
            one, two = record_sums(hashed_columns(columns, of_persons), key)
            records, first, second = records + len(table), first + one, second + two
    words = ((total % 2 ** (8 * _WORD)).to_bytes(_WORD, "little") for total in (first, second))
    yield _row({"records": records}, dict(zip(("first", "second"), words, strict=True)))


def tallied(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """The number of a partition's records, of one that has blocks."""
    import pyarrow as pa

    records = [pa.compute.sum(batch.column("records")).as_py() or 0 for batch in batches]
    if records:
        yield _row({"records": sum(records)}, {})


def counted(
    batches: Iterator[RecordBatch], layout: Layout, sets: Sequence[Axes], branches: int
) -> Iterator[RecordBatch]:
    """Partial counts of a partition: the marginals on distinct, sorted sets, flat, and then its number of records.

    branches  that partial counts are added up on, if not by the driver
    """
    from pyspark import TaskContext

    from qrelease.data.marginals.plan import MarginalPlan

    used = sorted({axis for axes in sets for axis in axes}) or [0]
    shape, names = [layout.domain.shape[a] for a in used], [layout.domain.names[a] for a in used]
    plan = MarginalPlan.choose(shape, [tuple(map(used.index, axes)) for axes in sets])
    total, waiting = np.zeros(plan.offsets[-1] + 1, np.int64), list[list[Codes]]()

    def count() -> None:
        columns = [pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for pieces in zip(*waiting, strict=True)]
        total[:-1] += plan.count(columns, names)
        total[-1] += len(columns[0])
        waiting.clear()

    for batch in batches:
        for row in range(len(batch)):
            waiting.append([_array(batch, row, f"b{axis}", layout.types[f"b{axis}"]) for axis in used])
            if sum(len(columns[0]) for columns in waiting) >= max(BLOCK, len(total) // 4):
                count()  # each time clears a table of all cells
    if waiting:
        count()
    context = TaskContext.get()
    branch = 0 if context is None else context.partitionId() % branches
    for number, start in enumerate(range(0, len(total), CHUNK)):
        if total[start : start + CHUNK].any():
            yield _partial(branch, number, total[start : start + CHUNK])


def added(batches: Iterator[RecordBatch], branches: int) -> Iterator[RecordBatch]:
    """Partial counts added up by branch and chunk, for fewer branches."""
    totals: dict[tuple[int, int], Ints] = {}
    for batch in batches:
        add_counts(batch, totals, branches)
    for (branch, chunk), counts in totals.items():
        yield _partial(branch, chunk, counts)


def add_counts(batch: Any, totals: dict[tuple[int, int], Ints], branches: int) -> None:
    """Add partial counts to those of their branch and chunk."""
    for row in range(batch.num_rows):
        branch, chunk = (batch.column(name)[row].as_py() for name in ("branch", "chunk"))
        places, counts = _array(batch, row, "places", np.int32), _array(batch, row, "counts", np.int64)
        total = totals.setdefault((branch % branches, chunk), np.zeros(CHUNK, np.int64))
        if len(places):
            total[places] += counts
        else:
            total[: len(counts)] += counts


def _partial(branch: int, chunk: int, counts: Ints) -> RecordBatch:
    places = np.flatnonzero(counts).astype(np.int32)
    if len(places) * _SPARSE > len(counts):
        places, counts = np.empty(0, np.int32), counts
    else:
        counts = counts[places]
    return _row({"branch": branch, "chunk": chunk}, {"places": places, "counts": counts})


def _row(numbers: Mapping[str, int], arrays: Mapping[str, Any]) -> RecordBatch:
    """One row of numbers and of the bytes of arrays."""
    import pyarrow as pa

    found = {name: pa.array([n], pa.int32() if name == "bucket" else pa.int64()) for name, n in numbers.items()}
    for name, array in arrays.items():
        raw = array if isinstance(array, bytes) else np.ascontiguousarray(array).tobytes()
        found[name] = pa.array([raw], pa.binary())
    return pa.record_batch(found)


def _array(batch: Any, row: int, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array whose bytes are in a row of a batch."""
    scalar = batch.column(name)[row]
    array = np.frombuffer(scalar.as_buffer(), dtype)
    if not array.flags.aligned:
        array = array.copy()
        array.setflags(write=False)
    return array
