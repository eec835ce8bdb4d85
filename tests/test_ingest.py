"""Every source of records reads each of them by itself: one record, taken away or replaced, moves no other.

A new source joins with a line in `SOURCES`. Worlds are random: attributes of all kinds with all sorts of marks, records
of all sorts of values, among them those that change the type of a column.
"""

import bz2
import contextlib
import csv
import datetime as dt
import gzip
import io
import json
import lzma
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from stores import web_server

from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.persons import person_identity
from qrelease.data.sources.csv_blocks import BlockCsvReader
from qrelease.data.sources.databases import sqlite_reader
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoder import Spellings
from qrelease.data.sources.encoding import Reader
from qrelease.data.sources.files import open_reader
from qrelease.data.spelling import meaning, text_of
from qrelease.data.table import Table
from qrelease.data.writing import Writing
from qrelease.errors import InvalidInput

TOKENS = (
    *("", "?", "n/a", "x", "True", "true", "false", "False", "NaN", "nan", "None", "inf", "0", "-0", "1", "1.0", "01"),
    *("2", "2.5", "1e3", "1000", " 1 ", "-9", "-9.0", "9007199254740993", "9007199254740992", "2020-01-31"),
    *("2020-01-31 00:00:00", "2020-02-01T06:30:00", "1900-01-01", "2020-01-30T22:00:00+00:00", "1 day, 0:00:00"),
    *("2024-10-27T00:30:00+00:00", "2024-10-27T02:30:00+01:00", "2024-10-27 02:30:00"),
)
TEXTS = (*TOKENS, "other", "TRUE", "007", "1e400", "20200131", "2020-01-31T00:00:00+02:00")
WRITTEN = (
    "1.000",
    "1,000",
    "2,5",
    "1.000,5",
    "1,000.5",
    "€ 2",
    "2 €",
    "-€ 9",
    "31.01.2020",
    "01/31/2020",
    "31.1.2020 00:00",
)
NUMBERS = (0, 1, 2, 3, -9, 1000, 0.0, -0.0, 1.0, 2.5, -9.0, 0.1, 1e3, 1e16, 1e300, float("inf"), 2**53 + 1, 2**62 + 1)
FLIPS = (True, False, None, float("nan"), Decimal("2.50"), Decimal(1), 2**63, 2**64 + 1, np.float32(2.5), 1 + 0j, 1j)
DATES = (dt.date(2020, 1, 31), dt.date(1900, 1, 1))
MOMENTS = (dt.datetime(2020, 1, 31), dt.datetime(2020, 2, 1, 6, 30), dt.datetime(1900, 1, 1))
ZONED = tuple(moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=h))) for moment in MOMENTS[:2] for h in (0, 2))
BERLIN = ZoneInfo("Europe/Berlin")
LOCAL = (  # the hour that the clock repeats, where two moments are equal to Python and hash alike; and around it
    *(dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)),
    *(dt.datetime(2024, 10, 27, hour, 30, tzinfo=BERLIN) for hour in (1, 3)),
    dt.datetime(2020, 1, 31, tzinfo=BERLIN),
)
OTHER = (dt.timedelta(1), b"x", dt.time(6, 30))
POOLS = (
    (NUMBERS, (*NUMBERS, *FLIPS, *TEXTS, *DATES, *MOMENTS, *ZONED, *OTHER)),
    ((0, 1, 2, 3), (*FLIPS, "n/a", "x", 2.5, 2**62 + 1, *DATES, *OTHER)),
    ((True, False), (*FLIPS, *NUMBERS, "n/a", "x", *DATES)),
    (DATES, (*DATES, *MOMENTS, *ZONED, None, "x", 1, 20200131)),
    (MOMENTS, (*DATES, *MOMENTS, *ZONED, None, "x", 1)),
    (ZONED, (*ZONED, *MOMENTS, *LOCAL, None, "x")),
    (LOCAL, (*LOCAL, *MOMENTS, *ZONED, dt.date(2024, 10, 27), None, "x", 1)),
    (LOCAL[:2], (*LOCAL, None)),
    (TEXTS, (*TEXTS, None, 1, True, b"x")),
    (WRITTEN, (*WRITTEN, *TEXTS, None, 1, 1.5, True, b"x", *DATES)),
    ((*NUMBERS, *FLIPS, *TEXTS), (*NUMBERS, *FLIPS, *TEXTS, *DATES, *ZONED, *OTHER)),
)


def csv_text(
    names: list[str],
    records: list[Any],
    quoting: int = csv.QUOTE_MINIMAL,
    end: str = "\n",
    separator: str = ",",
    escape: str | None = None,
) -> str:
    """A file that spells each value as Python's csv module does."""
    out = io.StringIO()
    style: dict[str, Any] = {"doublequote": escape is None, "escapechar": escape}
    writer = csv.writer(out, quoting=quoting, lineterminator=end, delimiter=separator, **style)
    writer.writerow(["n", *names])  # the number of the record: so no line is blank
    for number, value in enumerate(records):
        writer.writerow([number, *[value.decode() if isinstance(value, bytes) else value] * len(names)])
    return out.getvalue()


def csv_file(
    suffix: str = "", pack: Callable[[bytes], bytes] = bytes, mark: bytes = b"", encoding: str = "utf-8", **how: Any
) -> Any:
    def make(names: list[str], records: list[Any], folder: Path) -> Path:
        path = folder / f"t.csv{suffix}"
        path.write_bytes(pack(mark + csv_text(names, records, **how).encode(encoding)))
        return path

    return make


def by(reader: Callable[[Path], Reader], file: Any) -> Any:
    """A source that is read by a reader of its own, whatever its size."""
    return lambda names, records, folder: reader(file(names, records, folder))


def csv_bare(names: list[str], records: list[Any], folder: Path) -> Reader:
    """A file without its header."""
    path = csv_file()(names, records, folder)
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    return BlockCsvReader(path, Dialect(header=("n", *names)), block=16)


def small_blocks(path: Path) -> Reader:
    return BlockCsvReader(path, block=16)


def in_dialect(dialect: Dialect) -> Callable[[Path], Reader]:
    return lambda path: BlockCsvReader(path, dialect, 16)


def frame(column: Callable[[list[Any]], Any], library: Any = pd.DataFrame) -> Any:
    return lambda names, records, _: library({"n": list(range(len(records))), **dict.fromkeys(names, column(records))})


def numbered(names: list[str], column: Any) -> pa.Table:
    return pa.table({"n": range(len(column)), **dict.fromkeys(names, column)})


def parquet_file(column: Callable[[list[Any]], Any]) -> Any:
    def make(names: list[str], records: list[Any], folder: Path) -> Path:
        parquet.write_table(numbered(names, column(records)), folder / "t.parquet", row_group_size=2)
        return folder / "t.parquet"

    return make


def many_files(names: list[str], records: list[Any], folder: Path) -> Path:
    table = numbered(names, pa.array(records))  # one type for all: a file that is written apart may have another
    for place in range(0, max(len(records), 1), 2):
        parquet.write_table(table.slice(place, 2), folder / f"part-{place // 2}.parquet")
    for left in range((len(records) + 1) // 2 or 1, 9):
        (folder / f"part-{left}.parquet").unlink(missing_ok=True)
    return folder / "part-*.parquet"


def arrow_file(names: list[str], records: list[Any], folder: Path) -> Path:
    table = numbered(names, pa.array(records))
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=2)
    return folder / "t.arrow"


def arrow_stream(names: list[str], records: list[Any], folder: Path) -> Path:
    table = numbered(names, pa.array(records))
    with pa.ipc.new_stream(folder / "t.arrows", table.schema) as stream:
        stream.write_table(table, max_chunksize=2)
    return folder / "t.arrows"


@cache
def served(folder: Path) -> str:
    """The address of a web server over a folder, which ends with the tests."""
    return CLOSING.enter_context(web_server(folder)).url


CLOSING = contextlib.ExitStack()


@pytest.fixture(autouse=True, scope="module")
def closing() -> Iterator[None]:
    with CLOSING:
        yield


def at_url(make: Any) -> Any:
    """A file, read from a web server."""

    def source(names: list[str], records: list[Any], folder: Path) -> Reader:
        return open_reader(served(folder) + make(names, records, folder).name)

    return source


def json_lines(names: list[str], records: list[Any], folder: Path) -> Path:
    lines = [json.dumps({"n": number, **dict.fromkeys(names, value)}) for number, value in enumerate(records)]
    lines = lines or [json.dumps(dict.fromkeys(["n", *names]))]
    (folder / "t.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder / "t.jsonl"


def sqlite_file(names: list[str], records: list[Any], folder: Path, kind: str = "") -> Reader:
    """Each value has a type of its own there, which the declared one may turn into another."""
    (folder / "t.sqlite").unlink(missing_ok=True)
    kept = [value.isoformat() if isinstance(value, dt.date | dt.time) else value for value in records]
    with contextlib.closing(sqlite3.connect(folder / "t.sqlite")) as connection, connection:
        columns = ", ".join(["n", *(f"{name} {kind}" for name in names)])
        connection.execute(f"create table t ({columns})")
        for number, value in enumerate(kept):
            connection.execute(
                f"insert into t values ({', '.join('?' * (len(names) + 1))})", [number, *[value] * len(names)]
            )
    return sqlite_reader(folder / "t.sqlite", "t")


def sqlite_query(names: list[str], records: list[Any], folder: Path) -> Reader:
    """The same rows by a select, which joins another table of as many rows."""
    sqlite_file(names, records, folder)
    with contextlib.closing(sqlite3.connect(folder / "t.sqlite")) as connection, connection:
        connection.execute("create table also (n integer primary key, word)")
        connection.executemany("insert into also values (?, 'x')", [(number,) for number in range(len(records))])
    given = ", ".join(["n", *(f't."{name}" as {name}' for name in names)])
    return sqlite_reader(folder / "t.sqlite", f"select {given} from t join also using (n) where word like 'X'")


def by_query(file: Any) -> Any:
    """A file whose rows a query gives."""
    return by(lambda path: open_reader(path, "select * from t where n = n"), file)


def joined_files(names: list[str], records: list[Any], folder: Path) -> Reader:
    """A file that is joined with another one, which has a row for each number."""
    (folder / "joined").mkdir(exist_ok=True)
    csv_file()(names, records, folder / "joined")
    (folder / "joined" / "also.csv").write_text("".join(f"{n}\n" for n in ("n", *range(len(records)))))
    query = f"select n, {', '.join(names)} from t join also using (n) order by cast(n as int)"
    return open_reader(folder / "joined" / "*.csv", query)


def pandas_csv(names: list[str], records: list[Any], _: Path) -> Any:
    return pd.read_csv(io.StringIO(csv_text(names, records)))


def polars_csv(names: list[str], records: list[Any], _: Path) -> Any:
    return pl.read_csv(csv_text(names, records).encode(), infer_schema_length=None)


def polars_loose(records: list[Any]) -> pl.Series:
    return pl.Series(records, strict=False)


def polars_as_arrow(records: list[Any]) -> pa.Array:
    """Of a column of Python's objects polars would give their addresses in memory."""
    made = polars_loose(records)
    if made.dtype == pl.Object:
        raise TypeError("no column of one type")
    return made.to_arrow()


def pandas_object(records: list[Any]) -> pd.Series:
    return pd.Series(records, dtype=object)


def pandas_float32(records: list[Any], dtype: Any) -> pd.Series:
    with np.errstate(over="ignore"):  # 1e300 is infinite there
        return pd.Series(records, dtype=dtype)


SOURCES: dict[str, Any] = {
    "csv": csv_file(),
    "csv.gz, quoted": csv_file(".gz", gzip.compress, quoting=csv.QUOTE_ALL),
    "csv.xz, numbers bare": csv_file(".xz", lambda raw: lzma.compress(raw, preset=0), quoting=csv.QUOTE_NONNUMERIC),
    "csv.bz2, CRLF, byte order mark": csv_file(".bz2", bz2.compress, b"\xef\xbb\xbf", end="\r\n"),
    "csv, by its bytes": by(BlockCsvReader, csv_file()),
    "csv.gz, quoted, by bytes in small blocks": by(small_blocks, csv_file(".gz", gzip.compress, quoting=csv.QUOTE_ALL)),
    "csv, tabs and UTF-16": by(
        in_dialect(Dialect("\t", encoding="utf-16")), csv_file(separator="\t", encoding="utf-16")
    ),
    "csv without a header": csv_bare,
    "csv, backslashes": by(in_dialect(Dialect(escape="\\")), csv_file(escape="\\", quoting=csv.QUOTE_ALL)),
    "csv, decimal commas": by(in_dialect(Dialect(";", decimal=",")), csv_file(separator=";")),
    "pandas": frame(pd.Series),
    "pandas, objects": frame(pandas_object),
    "pandas, nullable": frame(lambda records: pandas_object(records).convert_dtypes()),
    "pandas, Arrow": frame(lambda records: pandas_object(records).convert_dtypes(dtype_backend="pyarrow")),
    "pandas, inferred objects": frame(lambda records: pandas_object(records).infer_objects()),
    "pandas, categories": frame(lambda records: pd.Series(records).astype("category")),
    "pandas, float32": frame(lambda records: pandas_float32(records, "float32")),
    "pandas, Float32": frame(lambda records: pandas_float32(records, "Float32")),
    "pandas.read_csv": pandas_csv,
    "polars": frame(polars_loose, pl.DataFrame),
    "polars, a word first": frame(lambda records: pl.Series(["word", *records], strict=False)[1:], pl.DataFrame),
    "polars, strict": frame(pl.Series, pl.DataFrame),
    "polars, objects": frame(lambda records: pl.Series(records, dtype=pl.Object), pl.DataFrame),
    "polars, float32": frame(lambda records: pl.Series(records, dtype=pl.Float32, strict=False), pl.DataFrame),
    "polars.read_csv": polars_csv,
    "Arrow": frame(pa.array, pa.table),
    "Arrow, dictionary": frame(lambda records: pa.array(records).dictionary_encode(), pa.table),
    "Arrow, float32": frame(lambda records: pa.array(records, pa.float32()), pa.table),
    "Parquet": parquet_file(pa.array),
    "Parquet, float32": parquet_file(lambda records: pa.array(records, pa.float32())),
    "Parquet of polars": parquet_file(polars_as_arrow),
    "Parquet, many files": many_files,
    "Arrow, a file": arrow_file,
    "Arrow, a stream": arrow_stream,
    "polars, lazy": frame(polars_loose, pl.LazyFrame),
    "JSON lines": json_lines,
    "csv.gz at a URL": at_url(csv_file(".gz", gzip.compress)),
    "Parquet at a URL": at_url(parquet_file(pa.array)),
    "SQLite": sqlite_file,
    "SQLite, numeric columns": lambda *given: sqlite_file(*given, kind="numeric"),
    "SQLite, a query": sqlite_query,
    "csv, a query": by_query(csv_file()),
    "csv, a query that joins": joined_files,
    "Parquet, a query": by_query(parquet_file(pa.array)),
    "JSON lines, a query": by_query(json_lines),
    "SQLite, columns of text": lambda *given: sqlite_file(*given, kind="text"),
}
SLOW_TO_OPEN = ("csv, a query", "csv, a query that joins", "Parquet, a query", "JSON lines, a query")
SOON_OPEN = [source for source in SOURCES if source not in SLOW_TO_OPEN]
LOSSY = ("polars", "Arrow", "Parquet", "pandas, categories")  # turn moments, spans and bytes into others of them
CHANGING = (*LOSSY, "pandas.read_csv", "pandas, Arrow", "pandas, nullable")

UNMAKEABLE = (
    TypeError,
    ValueError,
    OverflowError,
    ArithmeticError,
    pa.ArrowException,
    pl.exceptions.PolarsError,
    sqlite3.Error,
)
"""What libraries raise where they have no column for the values: then there is no table to read."""


def kind_of(value: Any) -> str:
    """Values of one kind can stand in one typed column without being turned into something else."""
    match value:
        case dt.datetime():
            return "zoned" if value.tzinfo else "moment"
        case dt.date() | dt.time() | dt.timedelta() | bytes():
            return type(value).__name__
    return "plain"


def takes(source: str, records: list[Any]) -> bool:
    """Whether a source keeps all values as they are; None and texts go with everything.

    Polars takes the type of one of NumPy's floats for all, where 1e300 is
    infinite. Pandas reads a column of CSV as
    texts, marks and all, where a number is beyond 64 bits.
    """
    if "polars" in source and any(isinstance(value, np.floating) for value in records):
        return all(isinstance(value, np.floating | str | None) for value in records)
    if source.startswith("pandas.read_csv") and any(
        isinstance(value, int) and abs(value) >= 1 << 63 for value in records
    ):
        return False
    if source == "pandas, categories" and {*map(id, LOCAL[:2])} <= {*map(id, records)}:
        return False  # among other objects pandas takes two equal moments, of the hour that is repeated, for one
    kinds = {kind_of(value) for value in records if value is not None and not isinstance(value, str)}
    return len(kinds) < 2 or not source.startswith(LOSSY)


MARKS = (
    Writing(decimal=","),
    Writing(decimal=",", thousands=".", unit="€"),
    Writing(thousands=",", unit="€"),
    Writing(thousands=","),
)
FORMATS = (Writing(format="%d.%m.%Y"), Writing(format="%m/%d/%Y"), Writing(format="%d.%m.%Y %H:%M"))


def random_attribute(rng: np.random.Generator, name: str) -> Attribute:
    kind = ("category", "number", "integer", "coded", "date", "number on a grid", "date on a grid")[rng.integers(7)]
    drawn = [str(t) for t in rng.permutation(np.array((*TOKENS, *WRITTEN[:6]), dtype=object))]
    marks = tuple(drawn[: rng.integers(5)])
    given: dict[str, Any] = {"missing": marks, "outside": "missing" if marks and rng.random() < 0.8 else "error"}
    if kind in ("number", "integer", "date") and rng.random() < 0.3:
        given["outside"] = "clip"
    if kind.startswith(("number", "integer", "date")) and rng.random() < 0.5:
        ways = FORMATS if kind.startswith("date") else MARKS
        given["writing"] = ways[rng.integers(len(ways))]
    match kind:
        case "category":
            labels = (*drawn[5 : 5 + rng.integers(1, 12)], "other")
            return Attribute(
                name, "category", categories=labels, missing=marks, outside=labels[rng.integers(len(labels))]
            )
        case "coded":
            return Attribute(name, "coded", codes=int(rng.integers(1, 5)), **given)
        case "date":
            return Attribute(name, "date", edges=(-25_600, 18_262, 18_292, 18_322), **given)
    if kind == "number on a grid":
        step = (1, 0.5, 0.01)[rng.integers(3)]
        ends = {"edges": (-10, 0, 2, 1001) if step == 1 else (-10, 2, 1000), "within": (-10, 1000), "step": step}
        return Attribute(name, "number", **ends, **given)
    if kind == "date on a grid":
        step, last = ((1, 18_321), (Fraction(1, 1440), 18_322 - Fraction(1, 1440)))[rng.integers(2)]
        return Attribute(
            name, "date", edges=(-25_600, 18_262, 18_292, 18_322), within=(-25_600, last), step=step, **given
        )
    edges = sorted(set(rng.choice([-10, 0, 1, 2, 3, 10, 1001], 4).tolist()) | {-10, 5})
    return Attribute(name, "number", edges=edges, integer=kind == "integer", **given)


def read_from(source: Any, domain: Domain) -> Table:
    if isinstance(source, Path):
        return Table.read(source, domain)
    return (Table.of_reader if hasattr(source, "pieces") else Table.from_frame)(source, domain)


def product(source: Any, domain: Domain) -> list[list[Any]]:
    """What the package reads: codes, and on a grid both bins and points."""
    table = read_from(source, domain)
    found = [column.tolist() for column in table.columns]
    for axis, attribute in enumerate(domain):
        if attribute.grid is not None:
            found[axis] = list(zip(found[axis], table.grid(attribute.name).tolist(), strict=True))
    return found


Reader = Callable[[Any, Domain], list[list[Any]]]


@dataclass
class Suite:
    """Random pairs of neighbouring tables. `pairs` counts those whose other records were read and compared.

    changing  how the names of sources begin that may refuse two records together and neither alone
    """

    reader: Reader
    folder: Path
    changing: tuple[str, ...] = CHANGING
    pairs: int = 0
    refused: dict[Any, set[str]] = field(default_factory=dict)

    def read(self, source: str, records: list[Any], domain: Domain) -> list[list[int] | None] | None:
        """The codes of each column, None for one that is refused; None altogether where there is no such table."""
        try:
            data = SOURCES[source](list(domain.names), records, self.folder)
        except UNMAKEABLE:
            return None
        left = list(domain.names)
        while left:
            try:
                found = dict(zip(left, self.reader(data, domain.project(map(domain.axis, left))), strict=True))
                return [found.get(name) for name in domain.names]
            except InvalidInput as error:
                left.remove(re.search(r"column '(c\d+)'", str(error))[1])
        return [None] * len(domain)

    def alone(self, source: str, value: Any, domain: Domain) -> set[str]:
        """The columns that refuse a value when it is the only record: no table with it needs to be read there."""
        key = source, type(value), repr(value), id(domain)
        if key not in self.refused:
            self.refused[key] = set(self._refusing(source, value, domain))
        return self.refused[key]

    def _refusing(self, source: str, value: Any, domain: Domain) -> Iterator[str]:
        """Their names, in order: a reader names the first column that refuses a record, so those before it take it."""
        try:
            data = SOURCES[source](list(domain.names), [value], self.folder)
        except UNMAKEABLE:
            return
        left = list(domain.names)
        while left:
            try:
                self.reader(data, domain.project(map(domain.axis, left)))
                return
            except InvalidInput as error:
                yield (name := re.search(r"column '(c\d+)'", str(error))[1])
                left = left[left.index(name) + 1 :]

    def world(self, rng: np.random.Generator, source: str, whole: Domain) -> None:
        """A table, its neighbours, and their comparison; `AssertionError` shows a record that moved another."""
        usual, odd = POOLS[rng.integers(len(POOLS))]
        records = [usual[i] for i in rng.integers(len(usual), size=rng.integers(2, 6))]
        place = int(rng.integers(len(records)))
        others = [*records[:place], *records[place + 1 :]]
        refused = set().union(*(self.alone(source, value, whole) for value in others))
        for newcomer in [odd[i] for i in rng.integers(len(odd), size=4)]:
            table = [*others[:place], newcomer, *others[place:]]
            left = [a for a in whole if a.name not in refused | self.alone(source, newcomer, whole)]
            if not left or not takes(source, table):
                continue
            domain = Domain(tuple(left))
            alone, found = self.read(source, others, domain), self.read(source, table, domain)
            if alone is None or found is None:
                continue
            for attribute, before, after in zip(domain, alone, found, strict=True):
                if (
                    before is None or after is None
                ):  # refused, although no record of its own: where a library changed it
                    assert source.startswith(self.changing), (attribute, others, newcomer)
                    continue
                self.pairs += 1
                assert [*after[:place], *after[place + 1 :]] == before, (attribute, others, newcomer)

    def run(self, source: str, pairs: int, seed: int | list[int], width: int = 6, worlds: int | None = None) -> None:
        """Worlds until so many pairs are compared; of a source that is slow to open, a tenth of them.

        width   columns of a schema
        worlds  of each schema, by default as many as it has columns: what a schema refuses is found once
        """
        pairs = -(-pairs // 10) if source in SLOW_TO_OPEN else pairs
        rng = np.random.default_rng(seed)
        while self.pairs < pairs:
            domain = Domain(tuple(random_attribute(rng, f"c{i}") for i in range(width)))
            for _ in range(worlds or width):
                self.world(rng, source, domain)
                if self.pairs >= pairs:
                    break
            self.refused.clear()


@pytest.mark.parametrize("source", SOURCES)
def test_no_record_moves_another(source, tmp_path):
    Suite(product, tmp_path).run(source, 5_000 // len(SOURCES) + 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOON_OPEN)
def test_no_record_moves_another_in_many_worlds(source, tmp_path):
    seed = [2, list(SOURCES).index(source)]  # each source has schemas of its own
    Suite(product, tmp_path).run(source, 200_000 // len(SOURCES) + 1, seed, width=60, worlds=200)


def by_column_type(source: Any, domain: Domain) -> list[list[int]]:
    """The reader as it was: numbers of a typed column by their digits, those among objects also by words."""

    def spelled(attribute: Attribute, value: Any) -> str:
        text = str(value) if isinstance(value, dt.timedelta | complex) else text_of(value)
        if text is None:
            return attribute.blank
        number = meaning(text)
        words = (str(number == 1), str(number == 1).lower()) if number in (0, 1) else ()
        return next((t for t in (text, f"{text}.0", *words) if t in (*attribute.missing, *attribute.categories)), text)

    found = []
    for attribute in domain:
        column = source[attribute.name]
        typed = column.dtype.kind in "iuf" and attribute.kind in ("number", "coded")
        texts = [(text_of(v) or attribute.blank) if typed else spelled(attribute, v) for v in column.tolist()]
        found.append([attribute.encode(text) for text in texts])
    return found


@pytest.mark.parametrize("source", ["pandas", "pandas.read_csv"])
def test_a_reader_that_goes_by_the_type_of_the_column_is_convicted(source, tmp_path):
    with pytest.raises(AssertionError):
        Suite(by_column_type, tmp_path).run(source, 5_000, 1)


class FirstEight(Spellings):
    """Spellings are remembered by their first eight bytes: the record that comes first decides for others."""

    def codes(self, block: bytes, starts: Any, ends: Any) -> Any:
        found = [self.seen(block[s:e]) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]
        return np.array(found, self.encoder.dtype)

    def seen(self, raw: bytes) -> int:
        return self.__dict__.setdefault("known", {}).setdefault(raw[:8], self.encoder[raw.decode()])


class Halves(Spellings):
    """A block in which every cell is a numeral is read as numbers, and any other as categories are."""

    def codes(self, block: bytes, starts: Any, ends: Any) -> Any:
        texts = [block[s:e].decode() for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]
        if all(isinstance(meaning(text.strip()), float) for text in texts):
            texts = [str(int(float(text))) if abs(float(text)) < 1e9 else text for text in texts]
        return self.encoder.codes(texts, len(texts))


@dataclass
class TwinReader:
    """A reader of blocks that looks spellings up in another way."""

    reader: BlockCsvReader
    way: type[Spellings]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)

    def pieces(self, columns: Any) -> Any:
        for piece in self.reader.pieces(columns):
            yield TwinPiece(piece, self.way)


@dataclass
class TwinPiece:
    piece: Any
    way: type[Spellings]

    def codes(self, encoder: Any, column: str) -> Any:
        return self.way(encoder, Dialect()).codes(*self.piece.cells.column(column))


@pytest.mark.parametrize("way", [FirstEight, Halves])
def test_a_reader_of_blocks_whose_records_look_at_others_is_convicted(way, tmp_path):
    def by_another(source: Any, domain: Domain) -> list[list[Any]]:
        return product(TwinReader(source, way), domain)

    with pytest.raises(AssertionError):
        Suite(by_another, tmp_path).run("csv, by its bytes", 5_000, 1)


NUMBER = Attribute("n", "coded", codes=10)


def whose(source: Any, domain: Domain) -> list[list[Any]]:
    """The person of each record, by each column and its marks; None for a record of nobody."""
    found, records = [], len(read_from(source, Domain((NUMBER,))))
    for attribute in domain:
        table = read_from(source, Domain((NUMBER,), person=Person(attribute.name, 9, attribute.missing)))
        persons = dict(zip(table.columns[0].tolist(), map(tuple, table.persons.unit.tolist()), strict=True))
        found.append([persons.get(number) for number in range(records)])
    return found


def learned(source: Any, domain: Domain) -> list[list[Any]]:
    """The category of each record where the categories are to be learned; None for a missing one."""
    open_to_all = Domain(tuple(Attribute(a.name, "category", learn=5, missing=a.missing) for a in domain))
    table = read_from(source, open_to_all)
    return [
        [dict(enumerate(table.texts[name])).get(code) for code in column.tolist()]
        for name, column in zip(open_to_all.names, table.columns, strict=True)
    ]


EVERY = ("",)
"""Sources that may refuse a table although each record is read alone: all, where two spellings of a key meet."""


@pytest.mark.parametrize("source", SOURCES)
def test_no_record_moves_the_person_of_another(source, tmp_path):
    Suite(whose, tmp_path, EVERY).run(source, 50, 3)


@pytest.mark.parametrize("source", SOURCES)
def test_no_record_moves_the_category_to_be_learned_of_another(source, tmp_path):
    Suite(learned, tmp_path).run(source, 50, 4)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOON_OPEN)
def test_no_record_moves_whose_another_is_or_its_category_in_many_worlds(source, tmp_path):
    Suite(whose, tmp_path, EVERY).run(source, 100, 5)
    Suite(learned, tmp_path).run(source, 300, 6, width=20)


def spelled(source: Any, name: str) -> list[str]:
    """The texts of a frame's column."""
    column = source[name]
    try:
        return [text_of(value) or "" for value in (column.to_list() if isinstance(column, pl.Series) else column)]
    except InvalidInput as error:
        raise InvalidInput(f"column {name!r}: {error}") from None


def by_mark_as_written(source: Any, domain: Domain) -> list[list[Any]]:
    """The reader of persons as it was: marks are texts, whatever these mean."""
    return [[None if t in a.missing else person_identity(t) for t in spelled(source, a.name)] for a in domain]


def by_truth_apart(source: Any, domain: Domain) -> list[list[Any]]:
    """Another, to which a truth value is no number; so were categories to be learned."""

    def stands_for(text: str) -> Any:
        means = meaning(text.strip())
        return ("truth", means) if isinstance(means, bool) else person_identity(text)

    marks = [{stands_for(mark) for mark in a.missing} for a in domain]
    return [
        [None if stands_for(t) in known else stands_for(t) for t in spelled(source, a.name)]
        for a, known in zip(domain, marks, strict=True)
    ]


@pytest.mark.parametrize("reader", [by_mark_as_written, by_truth_apart])
def test_readers_of_persons_by_the_spelling_of_a_column_are_convicted(reader, tmp_path):
    with pytest.raises(AssertionError):
        Suite(reader, tmp_path, EVERY).run("polars", 3_000, 3)


def test_a_truth_value_to_be_learned_is_the_number_that_it_may_turn_into():
    domain = Domain((Attribute("x", "category", learn=5, missing=("",)),))
    for newcomers in ([], [7]):
        column = pl.Series([True] * 500 + [False] * 300 + newcomers, strict=False)
        table = Table.from_frame(pl.DataFrame({"x": column}), domain)
        assert [table.texts["x"][code] for code in table.columns[0][:800]] == ["1"] * 500 + ["0"] * 300


ISSUE = Domain((Attribute("x", "number", edges=(0, 1, 2, 3), integer=True, missing=("", "False"), outside="missing"),))


@pytest.mark.parametrize("newcomer", ["n/a", None, float("nan"), 2.5, Decimal("2.5"), 2**70, dt.date(2020, 1, 1), 1j])
@pytest.mark.parametrize("dtype", [None, object])
def test_one_newcomer_does_not_turn_zeros_into_falsehoods(newcomer, dtype):
    before = Table.from_frame(pd.DataFrame({"x": pd.Series([0] * 500, dtype=dtype)}), ISSUE).histogram()
    assert before.tolist() == [500, 0, 0, 0]
    try:
        after = Table.from_frame(pd.DataFrame({"x": pd.Series([0] * 500 + [newcomer], dtype=dtype)}), ISSUE).histogram()
    except InvalidInput as error:
        assert (newcomer, "row 500" in str(error)) == (1j, True)  # noqa: PT017
    else:
        assert after.tolist() == [500, 0, 0, 1]


GERMAN = Attribute(
    *("c0", "number"),
    edges=(-10, 0, 1000, 2000),
    within=(-10, 2000),
    step=0.01,
    missing=("", "k.A.", "-9,00"),
    writing=Writing(decimal=",", thousands=".", unit="€"),
)
NOT_AS_WRITTEN = "float32|decimal commas|json lines, a query"
"""Sources that have no texts, that have decimal commas everywhere, or in which numbers are texts too."""

DAY = Attribute("c0", "date", edges=(18_262, 18_292, 18_322), missing=("", "k.A."), writing=Writing(format="%d.%m.%Y"))


@pytest.mark.parametrize("source", [s for s in SOURCES if not re.search(NOT_AS_WRITTEN, s.lower())])
def test_every_source_reads_numbers_and_dates_as_the_schema_says_that_they_are_written(source, tmp_path):
    suite = Suite(product, tmp_path)
    numbers = ["1.234,50", "€ 12", "-3,5 €", "1.000,00", "k.A.", "-9,0", "0,29", "1.234,50"]
    (found,) = suite.read(source, numbers, Domain((GERMAN,)))
    points = [124_450, 2200, 650, 101_000, -1, -1, 1029, 124_450]
    assert found == [(bin_, point) for bin_, point in zip([2, 1, 0, 2, 3, 3, 1, 2], points, strict=True)]
    assert suite.read(source, ["31.01.2020", "k.A.", "1.2.2020", "01.01.2020"], Domain((DAY,))) == [[1, 2, 1, 0]]
    for wrong in ("1234.5", "12.34", "1.23,5", "12 $", "2020-01-31"):
        assert suite.read(source, ["k.A.", wrong], Domain((GERMAN,))) == [None]
    for wrong in ("2020-01-31", "31.02.2020", "01/31/2020", "31.01.20", "31.01.2020 06:30"):
        assert suite.read(source, ["k.A.", wrong], Domain((DAY,))) == [None]


@pytest.mark.parametrize("library", [pd, pl])
def test_numbers_that_a_library_made_of_texts_are_refused_as_one_record_decides_what_they_are(library):
    """`1.000` is 1000 here, and a library's reader takes it for 1, unless there is a word in the column."""
    attribute = replace(GERMAN, outside="missing")
    domain = Domain((attribute,))
    alone, beside = (library.read_csv(io.StringIO("c0\n1.000\n2.000\n" + more)) for more in ("", "word\n"))
    table = Table.from_frame(beside, domain)
    assert table.columns[0].tolist() == [2, 2, 3]
    with pytest.raises(InvalidInput, match=r"row 0 .*column 'c0': value 1 is no text, and the schema says how texts"):
        Table.from_frame(alone, domain)
    read_anew = [attribute.fine.encode(text_of(value)) for value in alone["c0"].to_list()]
    assert read_anew != table.columns[0][:2].tolist(), "which would be a record that moves others"


@pytest.mark.parametrize("value", [1000, 2.5, True, Decimal("2.5"), dt.date(2020, 1, 31), dt.datetime(2020, 1, 31)])
def test_values_that_are_no_texts_are_refused_one_by_one_where_the_schema_says_how_texts_are_written(value):
    for attribute in (GERMAN, DAY):
        for column in ([None, value], ["k.A.", value]):
            with pytest.raises(InvalidInput, match=r"row 1 .*is no text"):
                Table.from_frame(pd.DataFrame({"c0": pd.Series(column, dtype=object)}), Domain((attribute,)))


def test_sources_agree_on_the_code_of_a_value(tmp_path):
    """A value that several sources hold as it is has one code in all of them, or is refused."""
    rng, compared = np.random.default_rng(0), 0
    suite = Suite(product, tmp_path)
    domain = Domain(tuple(random_attribute(rng, f"c{i}") for i in range(8)))
    values = [*NUMBERS, *FLIPS[:7], *TEXTS, *DATES, *MOMENTS]
    for turn, value in enumerate(values[i] for i in rng.permutation(len(values))[:30]):
        if value is None or value != value or value in ("", "None", "NaN", "nan", "n/a"):
            continue  # a missing value has no spelling of its own in a file, and its words are missing to others
        without = "float32|sqlite" if isinstance(value, bool) else "float32"  # SQLite has 1 for a truth value
        slow = SLOW_TO_OPEN if turn % 5 else ()
        kept = [source for source in SOURCES if not re.search(without, source.lower()) and source not in slow]
        read = [suite.read(source, [value], domain) for source in kept]
        for codes in zip(*(r for r in read if r is not None), strict=True):
            compared += 1
            assert len({code[0] for code in codes if code is not None}) <= 1, (value, codes)
    assert compared > 100


def test_equal_moments_with_other_texts_are_not_taken_for_one_another():
    """In the hour that a clock repeats, two moments of one zone are equal and hash alike, and differ in their texts."""
    texts = ("2024-10-27T00:30:00+00:00", "2024-10-27T01:30:00+00:00")
    domain = Domain((Attribute("t", "category", categories=texts),))
    first, second = (dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=f) for f in (0, 1))
    for others in ([second] * 5, [first] * 5):
        code = int(others[0] is second)
        for newcomer in (first, second):
            column = pl.Series([newcomer, *others], dtype=pl.Datetime("us", "Europe/Berlin"))
            (codes,) = Table.from_frame(pl.DataFrame({"t": column}), domain).columns
            assert codes.tolist() == [int(newcomer is second), *[code] * 5]


def test_whether_a_null_is_refused_does_not_depend_on_what_was_read_before():
    domain = Domain((Attribute("x", "category", categories=("a", " nan "), missing=("?",), outside="missing"),))
    for records in (["a", None], ["nan", None], [None, "nan"]):
        with pytest.raises(InvalidInput, match="nan"):
            Table.from_frame(pd.DataFrame({"x": pd.Series(records, dtype=object)}), domain)


@pytest.mark.parametrize("values", [MOMENTS, ZONED[1:3], (dt.time(6, 30), dt.time(0)), (Decimal("2.50"), Decimal(1))])
def test_a_word_that_turns_a_column_of_polars_into_text_moves_no_other(values):
    listed = tuple(dict.fromkeys(str(text_of(value)) for value in values))
    domain = Domain((Attribute("c", "category", categories=(*listed, "other"), outside="other"),))
    read = [
        Table.from_frame(pl.DataFrame({"c": column}), domain).columns[0][-len(values) :].tolist()
        for column in (pl.Series(values), pl.Series(["word", *values], strict=False))
    ]
    assert read[0] == read[1] == [listed.index(str(text_of(value))) for value in values]


def test_the_short_name_of_a_zone_is_refused_also_where_the_schema_lists_it():
    """Polars writes a moment of Berlin so beside a word, and as a moment it is read in UTC."""
    moment = pl.Series(["word", LOCAL[0]], strict=False)
    for listed in ("word", moment[1]):
        domain = Domain((Attribute("c", "category", categories=(listed, "other"), outside="other"),))
        with pytest.raises(InvalidInput, match=r"column 'c'.* short name of a time zone"):
            Table.from_frame(pl.DataFrame({"c": moment}), domain)


def test_whole_numbers_of_many_digits_in_json_are_read_as_floats_are(tmp_path):
    domain = Domain((Attribute("c", "number", edges=(0, 1, 2), missing=("",), outside="missing"),))
    for digits in ("1" + "0" * 5_000, "-1" + "0" * 5_000, "1" + "0" * 308):
        (tmp_path / "t.jsonl").write_text(f'{{"c": 1}}\n{{"c": {digits}}}\n')
        assert Table.read(tmp_path / "t.jsonl", domain).columns[0].tolist() == [1, 2]
