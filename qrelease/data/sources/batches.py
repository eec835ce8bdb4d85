"""Sources whose values have types of their own, a batch of rows at a time: Arrow files, queries, lazy frames.

A value's code is that of its text, as in a data frame (`data.spelling`), whatever the type of its column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, final

import narwhals.stable.v2 as nw

from qrelease.data.sources.frames import FramePiece, FrameReader, column_texts
from qrelease.data.sources.progress import reading_bar
from qrelease.data.sources.row_queries import (
    BATCH,
    arrow_batches,
    check_plan,
    check_row_by_row,
    connected,
    error_line,
)
from qrelease.data.sources.stores import Place, as_source, files_at
from qrelease.errors import InvalidInput

_STREAM: Final = b"\xff\xff\xff\xff"  # before each message of a stream; a file begins with ARROW1


@final
class BatchReader:
    """Batches of rows, as pyarrow tables or polars frames, read as a file is.

    path     what errors call it
    files    the files that it reads
    header   the names of its columns
    batches  gives all rows, in order, in the columns named
    private_size why their number is private under every relation, as `Source.private_size`
    types    those of its columns, as pyarrow has them, where a query may read it
    """

    keyed = False

    def __init__(
        self,
        path: Place,
        files: tuple[Path, ...],
        header: Sequence[str],
        batches: Callable[[Sequence[str]], Iterator[Any]],
        *,
        private_size: str = "",
        types: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.files, self.header, self.private_size = path, files, tuple(header), private_size
        self._batches, self._types = batches, types or {}

    def check_header(self, known: Collection[str] = ()) -> None:
        """Nothing separates the names."""

    def pieces(self, columns: Sequence[str]) -> Iterator[FramePiece]:
        """All rows, a batch at a time."""
        first, names = 0, {name: name for name in columns}
        with reading_bar() as bar:
            for batch in self._batches(list(names)):
                yield FramePiece(nw.from_native(batch, eager_only=True), names, first, str(self.path))
                first += len(batch)
                bar.update(len(batch))

    def texts(self) -> Iterator[list[list[str]]]:
        """All columns of each batch as texts, a missing value as the empty one."""
        with reading_bar() as bar:
            for batch in self._batches(self.header):
                yield list(column_texts(nw.from_native(batch, eager_only=True), self.header))
                bar.update(len(batch))

    def arrow_types(self) -> dict[str, list[Any]]:
        """The types of the columns, as the file has them."""
        return {name: [kind] for name, kind in self._types.items()}


def arrow_reader(path: Place) -> BatchReader:
    """The reader of an Arrow file or stream (IPC, or Feather of its second version). Needs pyarrow."""

    @contextmanager
    def opened() -> Iterator[Any]:
        try:
            import pyarrow as pa
        except ImportError:
            raise InvalidInput(f"{path}: an Arrow file needs pyarrow: pip install pyarrow") from None
        try:
            with (
                as_source(path) as source,
                pa.memory_map(str(path)) if source is path else pa.PythonFile(source) as raw,
            ):
                streamed = raw.read(len(_STREAM)) == _STREAM
                raw.seek(0)
                yield pa.ipc.open_stream(raw) if streamed else pa.ipc.open_file(raw)
        except (OSError, pa.ArrowException) as error:
            raise InvalidInput(f"{path} cannot be read: {_line(error)}") from None

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        with opened() as file:
            streamed = isinstance(file, pa.RecordBatchStreamReader)
            for batch in file if streamed else map(file.get_batch, range(file.num_record_batches)):
                whole = pa.Table.from_batches([batch]).select(list(columns))
                for first in range(0, len(whole), BATCH):
                    yield whole.slice(first, BATCH)

    with opened() as file:
        header, types = file.schema.names, {field.name: field.type for field in file.schema}
    return BatchReader(path, files_at(path), header, batches, types=types)


def query_reader(path: Path, query: str) -> BatchReader:
    """The reader of the rows that a query gives of a DuckDB file. Needs duckdb.

    The file is opened for reading, and nothing but it. What a query does to rows comes before anything that is promised
    here, which is of the rows that it gives: so a query that counts, sorts out or compares rows, by which one record
    would change others, is refused: what is not known to look at one row (`row_queries`), and what a step of the plan
    shows.

    Raises `InvalidInput` for what is no single select, or not row by row.
    """

    @contextmanager
    def asked() -> Iterator[tuple[Any, str]]:
        try:
            import duckdb
        except ImportError:
            raise InvalidInput(f"{path}: a query needs duckdb: pip install duckdb") from None
        try:
            if not path.exists():
                raise InvalidInput(f"{path} cannot be read: there is no such file")
            with connected(str(path)) as connection:
                private_size = check_row_by_row(connection, query, str(path))
                check_plan(connection, query, str(path))
                yield connection.sql(query), private_size
        except duckdb.Error as error:
            raise InvalidInput(f"{path}: {error_line(error)}") from None

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        with asked() as (rows, _):
            yield from arrow_batches(rows, columns)

    with asked() as (rows, private_size):
        header = rows.columns
    return BatchReader(path, (path,), header, batches, private_size=private_size)


def frame_reader(frame: Any) -> BatchReader | FrameReader:
    """The reader of any data frame: of a lazy one a batch at a time."""
    return lazy_reader(frame) if is_lazy(frame) else FrameReader(frame)


def is_lazy(frame: Any) -> bool:
    """Whether it is a lazy frame of polars' or a relation of DuckDB's."""
    kind = type(frame)
    return (kind.__module__.split(".")[0], kind.__name__) in {
        ("polars", "LazyFrame"),
        ("duckdb", "DuckDBPyRelation"),
        ("_duckdb", "DuckDBPyRelation"),
    }


def lazy_reader(frame: Any) -> BatchReader:
    """The reader of a lazy frame, which is never whole in memory."""
    name = Path("the frame")
    if type(frame).__name__ == "LazyFrame":

        def batches(columns: Sequence[str]) -> Iterator[Any]:
            yield from frame.select(list(columns)).collect_batches(chunk_size=BATCH, maintain_order=True)

        return BatchReader(name, (), frame.collect_schema().names(), batches)
    return BatchReader(name, (), frame.columns, lambda columns: arrow_batches(frame, columns))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
