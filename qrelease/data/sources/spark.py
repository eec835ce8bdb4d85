"""Spark data frames as a source: records are encoded once and counted on the workers. The extra `spark`: pyspark.

`source` encodes a frame by a schema into blocks, which Spark keeps. After that each call of `counts` is one pass over
the blocks, in which every partition counts its own records, and their counts are added up. What is exact is exact on
any number of partitions: so the same seeds give the release that one machine gives, to the last bit.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np

from qrelease._util import memory
from qrelease._util.typing import Axes, Codes, Ints
from qrelease.data.domain import Domain
from qrelease.data.fingerprint import digests
from qrelease.data.known_counts import KnownCounts, counted_cells
from qrelease.data.sources import spark_blocks
from qrelease.data.sources.encoding import Schema, domain_of_records, found_columns, person_column, selected_columns
from qrelease.data.sources.spark_blocks import BlockReading, Layout
from qrelease.errors import InvalidInput, QReleaseError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BRANCHED: Final = 32  # partial counts that are added up in one place
_DRIVER_CELLS: Final = 1 << 23  # of all partial counts together, up to which the driver adds them up: 64 MiB
_BUCKETS: Final = 4  # of persons, for each partition that has some of them: so that partitions are about equal
_PARTITIONS: Final = 200  # where a session does not say in how many it shuffles
_OURS: Final = re.compile(r"^qrelease\.errors\.InvalidInput: (.*)$", re.MULTILINE)


@final
class SparkSource:
    """The private records of a Spark data frame, encoded by a schema and kept by Spark. Made by `source`.

    A `Source` for a `Curator`: it counts, and has no single records here. What needs those is refused by name:
    statistics, schemas to be learned and `NumberSums`.

    Examples
    --------
    >>> import qrelease as qr
    >>> spark_source = qr.spark.source(frame, "people.toml")  # doctest: +SKIP
    >>> curator = qr.Curator(spark_source, qr.Ledger.open("people.ledger"))  # doctest: +SKIP
    """

    keeps_records: ClassVar[bool] = False
    """Whether there are codes of single records: no."""
    private_size: ClassVar[str] = ""
    """Why the number of records is private under every relation: the relation decides."""
    texts: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType({})
    """Of columns whose categories are to be learned: there are none."""
    votes: ClassVar[Mapping[str, Ints]] = MappingProxyType({})
    """What these texts count of persons: there are none."""
    points: ClassVar[tuple[Codes | None, ...]] = ()
    """Of the records on their grids: there are none."""

    def __init__(self, layout: Layout, blocks: DataFrame, *, reading: bool) -> None:
        self._layout = layout
        self._blocks = blocks.persist()
        self._known = KnownCounts()
        self._release = weakref.finalize(self, _let_go, blocks)
        self._release.atexit = False  # the session may have ended by then
        numbers = self._asked(
            self._blocks.select("records").mapInArrow(spark_blocks.tallied, "records bigint"), reading=reading
        )
        partitions: list[int] = numbers.column("records").to_pylist()
        self._records, self._partitions = sum(partitions), len(partitions)

    @property
    def domain(self) -> Domain:
        """The public universe."""
        return self._layout.domain

    @property
    def weight_bits(self) -> int:
        """Each record counts as one: persons who count once are refused."""
        return 0

    @property
    def knows_persons(self) -> bool:
        """Whether it is known whose records they are; public."""
        return self._layout.of_persons

    @property
    def person_column(self) -> str | None:
        """The column that says whose records they are, where a person is the unit; public."""
        return None if self.domain.person is None else self.domain.person.column

    def __len__(self) -> int:
        return self._records

    def __repr__(self) -> str:
        return f"SparkSource({self.domain}; the records are private)"

    def counts(self, sets: Sequence[Axes]) -> list[Ints]:
        """The exact marginal on each set of columns, in one pass over the blocks. Private.

        Raises
        ------
        InvalidInput
            For a position that is no column.
        TooLarge
            As a table does.
        QReleaseError
            Where Spark stops, and where the frame has another number of records than before.
        """
        return self._known.counts(self.domain, sets, self._counted)

    def check_counts(self, sets: Sequence[Axes]) -> None:
        """Raise the `TooLarge` that `counts` would, and one where they would not fit in the driver's memory."""
        cells = counted_cells(self.domain, sets)
        memory.check(16 * cells, f"exact counts of {cells:,} cells", "ask about fewer or coarser columns")

    def _counted(self, sets: list[Axes]) -> list[Ints]:
        ends = np.cumsum([0, *map(self.domain.cells, sets)]).tolist()
        cells, left = ends[-1] + 1, self._partitions
        names = sorted({f"b{axis}" for axes in sets for axis in axes}) or ["b0"]
        found = self._blocks.select("records", *names).mapInArrow(
            partial(spark_blocks.counted, layout=self._layout, sets=sets, branches=2**62), spark_blocks.PARTIAL
        )
        while left > 1 and left * cells > _DRIVER_CELLS:  # a level of a tree: so many partial counts become one
            left = -(-left // _BRANCHED)
            places = min(self._partitions, left * -(-cells // spark_blocks.CHUNK))
            found = _branched(found, left).repartition(places, "branch", "chunk")
            found = found.mapInArrow(partial(spark_blocks.added, branches=left), spark_blocks.PARTIAL)
        totals: dict[tuple[int, int], Ints] = {}
        for batch in self._asked(found).to_batches():
            spark_blocks.add_counts(batch, totals, 1)
        flat = np.zeros(-(-cells // spark_blocks.CHUNK) * spark_blocks.CHUNK, np.int64)
        for (_, chunk), counts in totals.items():
            flat[chunk * spark_blocks.CHUNK :][: spark_blocks.CHUNK] = counts
        if flat[cells - 1] != self._records:
            raise QReleaseError(
                "the frame has another number of records than when it was encoded: Spark read a part of it again, and"
                " it had changed; release from a frame that does not change, such as a version of a table"
            )
        flat.setflags(write=False)
        return [flat[a:b] for a, b in pairwise(ends)]

    def check_bounded(self) -> None:
        """Nothing: records that are kept of persons are where Spark keeps them."""

    def bounded(self, key: bytes) -> SparkSource:
        """The records that are kept of each person for a charge, those that a table keeps; else the source itself."""
        if self.domain.at_most is None:
            return self
        if not self._layout.of_persons:
            raise InvalidInput("the unit is a person, and the source does not say whose records it has")
        kept = Layout(self.domain, of_persons=False)
        work = partial(spark_blocks.bounded, layout=self._layout, key=key)
        return SparkSource(kept, self._blocks.mapInArrow(work, kept.spelled), reading=False)

    def codes(self, axis: int) -> Codes:
        """`InvalidInput`: there are no single records here."""
        raise InvalidInput(f"column {self.domain.names[axis]!r}: Spark counts the records, and none are here")

    def fingerprint(self, key: bytes) -> tuple[str, str]:
        """Keyed digests of the schema and of the records in any order: those of a table with the same records."""
        work = partial(spark_blocks.summed, layout=self._layout, key=key)
        sums = self._asked(self._blocks.mapInArrow(work, spark_blocks.SUMS))
        first, second = (
            sum(int.from_bytes(word, "little") for word in sums.column(name).to_pylist()) % 2**64
            for name in ("first", "second")
        )
        records = sum(sums.column("records").to_pylist())
        return digests(self.domain, key, records, (first, second), of_persons=self._layout.of_persons)

    def unpersist(self) -> None:
        """Let go of the blocks; Spark encodes the frame again where they are still needed."""
        self._release()

    def _asked(self, frame: DataFrame, *, reading: bool = False) -> Any:
        """What a frame holds, as pyarrow's table.

        An error that Spark's workers raise while they read names the record, for the data holder's eyes. Later ones
        say only which they are: messages may quote records.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return frame.toArrow()
        except (PySparkException, Py4JError) as error:
            said = str(error)
        if not reading:
            raise QReleaseError("Spark stopped while it counted: its own log says why")
        if "ModuleNotFoundError" in said:
            raise InvalidInput("Spark's workers lack a package: they need qrelease[spark], by the same PYSPARK_PYTHON")
        ours = _OURS.findall(said)
        raise InvalidInput(ours[-1] if ours else f"the frame cannot be read: {_line(said)}")


def source(frame: DataFrame, schema: Schema, columns: Sequence[str] | None = None) -> SparkSource:
    """The private records of a Spark data frame, to release from.

    Its rows are encoded by the schema, a value as its text is in every other source, and kept by Spark in memory or on
    disks. Where the unit is a person there is one shuffle, in as many partitions as the session says by
    `spark.sql.shuffle.partitions`.

    Parameters
    ----------
    frame : DataFrame
        The records. Its rows shall be one record each, and the same whenever Spark reads them again: what a query did
        to them comes before anything that is promised here.
    schema : Domain or path
        Which columns are read and what they hold.
    columns : sequence of str, optional
        Some of the schema's columns, in the order wanted.

    Returns
    -------
    SparkSource
        Of a `Curator`.

    Raises
    ------
    InvalidInput
        Without pyspark; for a frame that is streamed, for a schema to be learned or in which a person counts once, for
        a column that the frame has not, and for a value that the schema has not: one line with its partition, row,
        column and value, for the data holder's eyes.

    Examples
    --------
    >>> import qrelease as qr
    >>> frame = session.read.parquet("people.parquet")  # doctest: +SKIP
    >>> qr.spark.source(frame, "people.toml", ["age", "sex"])  # doctest: +SKIP
    SparkSource(age[5] x sex[2] (10 cells); the records are private)
    """
    reader = _Reader(frame)
    domain = selected_columns(schema, columns, reader)
    derives = domain.person is not None and bool(domain.person.derive)
    records = domain_of_records(domain) if derives else domain
    records.check_decided()
    if records.person is not None and records.person.counts_once:
        raise InvalidInput("persons who count once (weights = 'persons') are not read by Spark; leave weights out")
    person = None if records.person is None else person_column(reader, records.person.column)
    names = dict(zip(records.names, found_columns(reader, records), strict=True))
    plain = {name: f"c{place}" for place, name in enumerate(reader.header)}  # Spark would look names up by letters
    needed = dict.fromkeys(plain[name] for name in [*names.values(), *([] if person is None else [person])])
    rows = frame.toDF(*plain.values()).select(*needed)
    partitions = _shuffled(frame)
    reading = BlockReading(
        Layout(records, of_persons=person is not None),
        {name: plain[column] for name, column in names.items()},
        None if person is None else plain[person],
        _BUCKETS * partitions,
    )
    encode = partial(spark_blocks.encoded_blocks, reading=reading)
    if person is None:
        return SparkSource(reading.layout, rows.mapInArrow(encode, reading.layout.spelled), reading=True)
    kept = Layout(domain, of_persons=not derives)
    buckets = rows.mapInArrow(encode, reading.layout.bucketed).repartition(partitions, "bucket")
    gather = partial(spark_blocks.gathered_blocks, reading=reading, derived=domain if derives else None)
    return SparkSource(kept, buckets.sortWithinPartitions("bucket").mapInArrow(gather, kept.spelled), reading=True)


def _let_go(blocks: DataFrame) -> None:
    """Free what Spark keeps of them, unless its session is over: then nothing is kept."""
    with suppress(Exception):  # whichever error the bridge to Java has for that
        blocks.unpersist()


@final
class _Reader:
    """The names of a frame's columns, read as a file's are."""

    path = Path("the frame")
    files: tuple[Path, ...] = ()
    keyed = False
    private_size = ""

    def __init__(self, frame: DataFrame) -> None:
        try:
            import pyspark
        except ImportError:
            raise InvalidInput("a Spark frame needs pyspark: pip install qrelease[spark]") from None
        if int(pyspark.__version__.partition(".")[0]) < 4:
            raise InvalidInput(f"pyspark 4.0 or later is needed, got {pyspark.__version__}")
        if not callable(getattr(frame, "mapInArrow", None)):
            raise InvalidInput(f"a Spark data frame is needed, got {type(frame).__name__}")
        if frame.isStreaming:
            raise InvalidInput("the frame is streamed: a release is of records that do not change")
        self.header: tuple[str, ...] = tuple(frame.columns)

    def check_header(self, known: Collection[str] = ()) -> None:
        """Nothing separates the names."""

    def pieces(self, columns: Sequence[str]) -> Iterator[Any]:
        """None: Spark's workers read them."""
        return iter(())

    def texts(self) -> Iterator[Iterable[Iterable[str]]]:
        """None: a draft of a schema is made from a file."""
        return iter(())


def _branched(frame: DataFrame, branches: int) -> DataFrame:
    """Partial counts, with the branches on which they are added up."""
    from pyspark.sql import functions

    return frame.withColumn("branch", functions.col("branch") % branches)


def _shuffled(frame: DataFrame) -> int:
    """In how many partitions the frame's session shuffles."""
    told = str(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return int(told) if told.isdigit() and int(told) > 0 else _PARTITIONS


def _line(said: str) -> str:
    """The first line of what Spark says, which goes on with its stack."""
    return " ".join(said.strip().partition("\n")[0].split())
