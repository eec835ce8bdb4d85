"""Many files as one source."""

import pytest

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput


def test_files_of_a_pattern_have_the_same_columns(tmp_path):
    domain = Domain.coded({"a": 3})
    (tmp_path / "1.csv").write_text("a,b\n1,0\n")
    (tmp_path / "2.csv").write_text("b, a\n1,2\n")
    assert Table.read(tmp_path / "*.csv", domain).columns[0].tolist() == [1, 2]
    (tmp_path / "3.csv").write_text("a\n1\n")
    with pytest.raises(InvalidInput, match=r"3\.csv has other columns"):
        Table.read(tmp_path / "*.csv", domain)
    with pytest.raises(InvalidInput, match="no file has a name like"):
        Table.read(tmp_path / "*.parquet", domain)
