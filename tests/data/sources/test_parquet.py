"""Records of parquet files."""

import datetime as dt
import sys
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sources import CODES, PEOPLE, TEXT, codes

from qrelease.data.domain import Domain
from qrelease.data.sources.parquet import BATCH, ParquetReader
from qrelease.data.spelling import shown
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

FRAME = {
    "age": [19, None, 40],
    "sex": ["F", "M", "F"],
    "day": [dt.date(2020, 1, 31), None, dt.date(2020, 2, 1)],
    "extra": [1.5, 2.5, 3.5],
}


def test_read_parquet(tmp_path, not_installed):
    path = tmp_path / "people.parquet"
    parquet.write_table(pa.table(FRAME), path)
    assert codes(Table.read_parquet(path, PEOPLE)) == CODES
    parquet.write_table(pa.table({"sex": ["F"] * (BATCH - 1) + ["M", "F"]}), path)  # two batches
    assert codes(Table.read_parquet(path, PEOPLE, columns=["sex"])) == [[0] * (BATCH - 1) + [1, 0]]
    parquet.write_table(pa.table({"sex": ["F"] * (BATCH + 2) + ["X"]}), path)
    with pytest.raises(InvalidInput, match=rf"people\.parquet row {BATCH + 2} \(from 0\): column 'sex': value 'X'"):
        Table.read_parquet(path, PEOPLE, columns=["sex"])
    parquet.write_table(pa.table(FRAME | {"sex": ["F", "M", "X"]}), path)
    with pytest.raises(InvalidInput, match=r"people\.parquet row 2 \(from 0\): column 'sex': value 'X'"):
        Table.read_parquet(path, PEOPLE)
    with pytest.raises(InvalidInput, match=r"people\.parquet has no column 'x'; it has age, sex, day, extra"):
        Table.read_parquet(path, Domain.coded({"x": 2}))
    path.write_text(TEXT)
    with pytest.raises(InvalidInput, match=r"people\.parquet cannot be read"):
        Table.read_parquet(path, PEOPLE)
    with pytest.raises(InvalidInput, match=r"absent\.parquet cannot be read"):
        Table.read_parquet(tmp_path / "absent.parquet", PEOPLE)
    not_installed("pyarrow")
    with pytest.raises(InvalidInput, match="Parquet needs pyarrow: pip install pyarrow"):
        Table.read_parquet(path, PEOPLE)


_KINDS = {
    "int8": pa.array([1, None, -3, 1], pa.int8()),
    "large": pa.array([2**53, -(2**53), 2**53 + 1, None]),
    "exact": pa.array([2**53, -(2**53), 0, 2**53]),
    "unsigned": pa.array([2**64 - 1, 0, 2**53 + 1, 5], pa.uint64()),
    "float": pa.array([float("nan"), -0.0, 0.1, 1e300]),
    "infinite": pa.array([float("inf"), 2.0, None, 0.0]),
    "single": pa.array([0.1, 0.1, None, 3.0], pa.float32()),
    "decimal": pa.array([Decimal("1.50"), Decimal("-2.00"), None, Decimal("1.50")]),
    "truth": pa.array([True, False, None, True]),
    "text": pa.array(["", "a", None, "a"]),
    "listed": pa.array(["b", None, "a", "b"]).dictionary_encode(),
    "day": pa.array([dt.date(2020, 1, 31), None, dt.date(1900, 1, 1), dt.date(2020, 1, 31)]),
    "moment": pa.array([dt.datetime(2020, 1, 31, 6, 30), None, dt.datetime(2020, 1, 31), None]),
    "zoned": pa.array([dt.datetime(2020, 1, 31, 6, 30), None, None, None], pa.timestamp("us", "Europe/Vienna")),
    "span": pa.array([5, None, 7, 5], pa.duration("s")),
    "bytes": pa.array([b"ab", b"\xff", None, b""]),
    "list": pa.array([[1], None, [], [1]]),
    "nothing": pa.nulls(4),
}


def test_texts_of_a_draft_are_those_of_each_value(tmp_path):
    path = tmp_path / "kinds.parquet"
    table = pa.table(_KINDS)
    parquet.write_table(table, path)
    (found,) = ParquetReader(path).texts()
    for name, texts, column in zip(table.column_names, found, parquet.read_table(path).columns, strict=True):
        expected = [shown(value) for value in column.to_pylist()]
        assert texts == expected, name
        assert [*map(type, texts)] == [*map(type, expected)], name


def test_equal_values_of_a_column_are_spelled_once_for_a_draft(tmp_path):
    """Whole numbers are spelled by Arrow, and floats each once."""
    path = tmp_path / "people.parquet"
    parquet.write_table(pa.table({"income": np.arange(5_000), "score": np.arange(5_000) % 8 / 2}), path)
    called = Counter()
    sys.setprofile(lambda frame, event, _: called.update([frame.f_code.co_name] if event == "call" else []))
    try:
        (found,) = ParquetReader(path).texts()
    finally:
        sys.setprofile(None)
    assert found[0] == [*map(str, range(5_000))]
    assert called["shown"] < 20
