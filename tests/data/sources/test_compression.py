"""Files that are compressed by their suffix, and written whole or not at all."""

import os

import numpy as np
import pytest
from sources import PEOPLE, codes

from qrelease.data.sources.compression import written
from qrelease.data.sources.csv import write_csv
from qrelease.data.table import Table
from qrelease.errors import InvalidInput


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2"])
def test_write_csv_compresses_by_extension(tmp_path, suffix):
    path = tmp_path / f"s.csv{suffix}"
    records = [np.arange(5000) % 2]
    write_csv(path, PEOPLE.project([1]), records, np.random.default_rng(0))
    assert codes(Table.read_csv(path, PEOPLE.project([1]))) == [records[0].tolist()]
    first = path.read_bytes()
    write_csv(path, PEOPLE.project([1]), records, np.random.default_rng(0))
    assert path.read_bytes() == first
    assert os.listdir(tmp_path) == [path.name]


def test_a_failed_write_leaves_nothing(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("old")

    def interrupted():
        with written(path) as out:
            out.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["s.csv"]
    with pytest.raises(InvalidInput, match=r"s\.csv cannot be written: No such file or directory"):
        write_csv(tmp_path / "absent" / "s.csv", PEOPLE.project([1]), [np.array([0])], np.random.default_rng(0))
