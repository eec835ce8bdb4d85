"""The progress bar of readers."""

import contextlib
import datetime as dt
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet
from sources import TEXT

from qrelease._util.progress import log_lines
from qrelease.data.schema_draft import draft

FRAME = {
    "age": [19, None, 40],
    "sex": ["F", "M", "F"],
    "day": [dt.date(2020, 1, 31), None, dt.date(2020, 2, 1)],
    "extra": [1.5, 2.5, 3.5],
}


@pytest.mark.parametrize("size", [(24, 80), (0, 0)])  # `script`, where its input is no terminal, makes one of no size
@pytest.mark.parametrize("name", ["people.csv", "people.pq"])
def test_reading_shows_its_progress_on_a_terminal_only(tmp_path, name, size):
    termios = pytest.importorskip("termios", reason="a terminal as on Unix")
    (tmp_path / "people.csv").write_text(TEXT, encoding="utf-8")
    parquet.write_table(pa.table(FRAME), tmp_path / "people.pq")
    code = f"from qrelease.data.schema_draft import draft; draft({str(tmp_path / name)!r})"
    silent = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert silent.stderr == silent.stdout == b""
    terminal, end = os.openpty()
    os.set_blocking(terminal, False)
    termios.tcsetwinsize(end, size)
    subprocess.run([sys.executable, "-c", code], stderr=end, check=True)
    stated = b"reading:   0%" if name == "people.pq" else b"reading: 0.00 rows"  # a Parquet file says how many
    assert stated in os.read(terminal, 1000)
    os.close(terminal)
    os.close(end)


@pytest.mark.parametrize("name", ["people.arrow", "people.duckdb", "people.sqlite"])
def test_a_draft_of_batches_says_how_far_it_is(tmp_path, name, capsys):
    path, query = tmp_path / name, None
    if path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.table(FRAME).schema) as writer:
            writer.write_table(pa.table(FRAME))
    else:
        database, query = pytest.importorskip(f"{path.suffix[1:]}".replace("sqlite", "sqlite3")), "select * from people"
        with contextlib.closing(database.connect(path)) as connection:
            connection.execute("create table people (age integer, sex text)")
            connection.execute("insert into people values (19, 'F'), (40, 'M')")
            connection.commit()
    with log_lines(0.0):
        draft(path, query=query)
    assert "qrelease: reading: " in capsys.readouterr().err
