"""The progress bar of readers."""

import datetime as dt
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet
from sources import TEXT

FRAME = {
    "age": [19, None, 40],
    "sex": ["F", "M", "F"],
    "day": [dt.date(2020, 1, 31), None, dt.date(2020, 2, 1)],
    "extra": [1.5, 2.5, 3.5],
}


@pytest.mark.parametrize("name", ["people.csv", "people.pq"])
def test_reading_shows_its_progress_on_a_terminal_only(tmp_path, name):
    termios = pytest.importorskip("termios", reason="a terminal as on Unix")
    (tmp_path / "people.csv").write_text(TEXT, encoding="utf-8")
    parquet.write_table(pa.table(FRAME), tmp_path / "people.pq")
    code = f"from qrelease.data.schema_draft import draft; draft({str(tmp_path / name)!r})"
    silent = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert silent.stderr == silent.stdout == b""
    terminal, end = os.openpty()
    os.set_blocking(terminal, False)
    termios.tcsetwinsize(end, (24, 80))
    subprocess.run([sys.executable, "-c", code], stderr=end, check=True)
    stated = b"reading:   0%" if name == "people.pq" else b"reading: 0.00 rows"  # a Parquet file says how many
    assert stated in os.read(terminal, 1000)
    os.close(terminal)
    os.close(end)
