"""Typed sources give the same codes: of records, of persons, and of derived columns."""

import contextlib
import json
import sqlite3

import polars as pl
import pytest
from sources import DERIVED, FRAME, RECORDS, ROWS

from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.schema import load
from qrelease.data.sources.csv import CsvReader
from qrelease.data.table import Table

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def sources(tmp_path):
    """The same records in every kind of source, each a function of a schema."""
    duckdb = pytest.importorskip("duckdb")
    table = pa.table(FRAME)
    pl.DataFrame(FRAME).write_csv(tmp_path / "t.csv")
    for part in range(4):
        parquet.write_table(table.slice(50 * part, 50), tmp_path / f"part-{part}.parquet", row_group_size=20)
    with pa.ipc.new_stream(tmp_path / "t.arrows", table.schema) as stream:
        for first in range(0, len(table), 30):  # in several batches
            stream.write_table(table.slice(first, 30))
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=30)
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n\n" for row in ROWS))
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.register("given", table)
        connection.execute("create table visits as select row_number() over () as n, id, ward, age from given")
    with contextlib.closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection, connection:
        connection.execute("create table visits (id, ward text, age)")
        connection.executemany("insert into visits values (:id, :ward, :age)", ROWS)
    relation = duckdb.from_arrow(table)
    query = "select id, ward, age from visits order by n"
    return {
        "csv": lambda schema: Table.of_reader(CsvReader(tmp_path / "t.csv"), schema),
        "parquet": lambda schema: Table.read(tmp_path / "part-*.parquet", schema),
        "arrow": lambda schema: Table.read(tmp_path / "t.arrow", schema),
        "arrow stream": lambda schema: Table.read(tmp_path / "t.arrows", schema),
        "json": lambda schema: Table.read(tmp_path / "t.jsonl", schema),
        "duckdb": lambda schema: Table.read(tmp_path / "t.duckdb", schema, query=query),
        "sqlite": lambda schema: Table.read(tmp_path / "t.sqlite", schema, query="visits"),
        "csv, a query": lambda schema: Table.read(tmp_path / "t.csv", schema, query="select * from t"),
        "parquet, a query": lambda schema: Table.read(tmp_path / "part-*.parquet", schema, query="from files"),
        "arrow, a query": lambda schema: Table.read(tmp_path / "t.arrow", schema, query="select id, age, ward from t"),
        "arrow stream, a query": lambda schema: Table.read(tmp_path / "t.arrows", schema, query="from t"),
        "json, a query": lambda schema: Table.read(tmp_path / "t.jsonl", schema, query="select id, ward, age from t"),
        "polars": lambda schema: Table.from_frame(pl.LazyFrame(FRAME), schema),
        "relation": lambda schema: Table.from_frame(relation, schema),
    }


def test_all_give_the_same_codes_of_records_persons_and_derived_columns(sources, tmp_path):
    (tmp_path / "derived.toml").write_text(DERIVED)
    learned = Attribute("ward", "category", learn=2, missing=("",))
    schemas = (
        Domain(RECORDS),
        Domain(RECORDS, person=Person("id", 3)),
        load(tmp_path / "derived.toml"),
        Domain((learned,)),
    )
    for schema in schemas:
        tables = {name: read(schema) for name, read in sources.items()}
        first = tables["csv"]
        for name, table in tables.items():
            assert [c.tolist() for c in table.columns] == [c.tolist() for c in first.columns], name
            assert table.fingerprint(b"key") == first.fingerprint(b"key"), name
            assert table.texts == first.texts, name
            if schema.at_most == 3:
                kept, others = table.bounded(b"secret"), first.bounded(b"secret")
                assert [c.tolist() for c in kept.columns] == [c.tolist() for c in others.columns], name
