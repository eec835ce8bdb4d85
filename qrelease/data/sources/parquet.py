"""Parquet files, read in a stream; pyarrow is an extra."""

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, final

import narwhals.stable.v2 as nw

from qrelease.data.sources.arrow import shown_texts
from qrelease.data.sources.frames import FramePiece
from qrelease.data.sources.progress import reading_bar
from qrelease.data.sources.stores import StoredObject, as_source, files_at, placed
from qrelease.errors import InvalidInput

BATCH = 1 << 18
"""Rows of a Parquet file held decoded at a time."""


@final
class ParquetReader:
    """A Parquet file: `header` holds the column names, `batches()` streams pyarrow tables.

    Raises `InvalidInput`, one line, without pyarrow and for a file that cannot be read.
    """

    keyed = False
    private_size = ""

    def __init__(self, path: str | os.PathLike[str] | StoredObject) -> None:
        self.path = placed(path)
        self.files = files_at(self.path)
        with self._file() as file:
            self.header: tuple[str, ...] = tuple(file.schema_arrow.names)

    def batches(self, columns: Sequence[str] | None = None, *, counted: bool = False) -> Iterator[Any]:
        """The records, at most `BATCH` at a time, in all columns or the ones named.

        counted  whether progress says how many there are, which the file states
        """
        import pyarrow as pa

        with self._file(columns) as file, reading_bar(file.metadata.num_rows if counted else None) as bar:
            for batch in file.iter_batches(BATCH, columns=None if columns is None else list(columns)):
                yield pa.Table.from_batches([batch])
                bar.update(len(batch))

    def check_header(self, known: Collection[str] = ()) -> None:
        """Nothing separates the names of a Parquet file."""

    def pieces(self, columns: Sequence[str]) -> Iterator[FramePiece]:
        """The records, in the columns named, a batch at a time."""
        first, names = 0, dict(zip(columns, columns, strict=True))
        for batch in self.batches(columns):
            yield FramePiece(nw.from_native(batch, eager_only=True), names, first, str(self.path))
            first += len(batch)

    def texts(self) -> Iterator[list[list[str]]]:
        """All columns of each batch as texts, a missing value as the empty one."""
        for batch in self.batches(counted=True):
            yield [shown_texts(column) for column in batch.columns]

    def arrow_types(self) -> dict[str, list[Any]]:
        """The types of the columns, as the file has them."""
        with self._file() as file:
            return {field.name: [field.type] for field in file.schema_arrow}

    @contextlib.contextmanager
    def _file(self, texts: Sequence[str] | None = None) -> Iterator[Any]:
        """The file, of which columns of texts, among those named, keep the dictionary that they are stored with.

        It is read as it is needed: a buffer that is filled ahead would hold the whole file, from the first batch on.
        """
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise InvalidInput(f"{self.path}: Parquet needs pyarrow: pip install pyarrow") from None
        try:
            with as_source(self.path) as source, parquet.ParquetFile(source, pre_buffer=False) as file:
                kinds = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
                listed = [name for name in texts or () if pa.types.is_string(kinds[name])]
                if not listed:
                    yield file
                    return
            with (
                as_source(self.path) as source,
                parquet.ParquetFile(source, read_dictionary=listed, pre_buffer=False) as file,
            ):
                yield file
        except (OSError, pa.ArrowException) as error:
            raise InvalidInput(f"{self.path} cannot be read: {' '.join(str(error).split())}") from None
