"""Records of parquet files."""

import datetime as dt

import pyarrow as pa
import pytest
from pyarrow import parquet
from sources import CODES, PEOPLE, TEXT, codes

from qrelease.data.domain import Domain
from qrelease.data.sources.parquet import BATCH
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
