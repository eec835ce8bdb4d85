"""A ledger in one file of SQLite: its log, copies and moves of the file, and those who read or are killed meanwhile."""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from qrelease.errors import LedgerError
from qrelease.privacy import PureDP, ledger_file
from qrelease.privacy.ledger import Ledger
from tests.privacy.processes import KILLED, python


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_log_that_is_taken_away_while_it_is_open_ends_its_use(path, end):
    """Another process would begin a new one, and neither would see what the other charges."""
    with Ledger.open(path) as ledger:
        ledger.charge(PureDP(0.25), "a")
        Path(f"{path}{end}").unlink()
        with pytest.raises(LedgerError, match="-wal and -shm beside"):
            ledger.charge(PureDP(0.25), "b")


def test_a_store_that_is_left_over_says_nothing_at_the_end():
    """One whose making failed, and one that is alive when the interpreter ends."""
    code = """
from pathlib import Path
from qrelease.privacy.ledger_file import LedgerFile
try:
    LedgerFile(Path("null\\0byte"))
except ValueError:
    print("no such name")
ledger = Ledger.open(sys.argv[1], PureDP(1.0))
class Late:
    def __init__(self, kept): self.kept, self.me = kept, self
late = Late(ledger)
"""
    with tempfile.TemporaryDirectory() as folder:
        prelude = "import sys\nfrom qrelease.privacy import PureDP\nfrom qrelease.privacy.ledger import Ledger\n"
        command = [sys.executable, "-c", prelude + code]
        path = Path(folder) / "p.ledger"
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "no such name\n", "")


def test_the_end_of_a_store_needs_no_module(path):
    """At the end of the interpreter the names of modules may be gone already."""
    ledger, kept = Ledger.open(path), ledger_file.os
    try:
        ledger_file.os = None
        ledger.store.database.__del__(lambda: True)
    finally:
        ledger_file.os = kept
    ledger.charge(PureDP(0.5), "still open")
    ledger.close()


def test_a_ledger_that_is_moved_to_another_folder_without_its_log_forgets_nothing(path, tmp_path):
    """After a kill, and while it is open: what was charged is in the file."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60, check=False)
    with Ledger.open(shutil.move(path, elsewhere)) as ledger:
        assert ledger.spent == PureDP(0.75)
        for number in range(8):
            charge = ledger.charge(PureDP(2.0**-5), str(number), key=str(number))
            ledger.store_answer(charge, b"an answer")
            with Ledger.open(shutil.copy(elsewhere / path.name, elsewhere / f"{number}.ledger")) as copy:
                assert copy.history() == ledger.history()


def test_a_copy_of_the_file_alone_has_all_that_several_processes_charged(path, tmp_path):
    """Each while the others write and read; a copy that is taken in the middle of it may be refused as damaged."""
    code = """
import subprocess
name = sys.argv[1]
with Ledger.open(name) as ledger:
    for number in range(20):
        charge = ledger.charge(PureDP(2.0**-10), "a query")
        copy = f"{name}.{os.getpid()}.{number}"
        subprocess.run(["cp", name, copy])  # not here: to close the file gives up all locks that this process has on it
        try:
            with Ledger.open(copy) as other:
                assert len(other.history()) >= charge.id, (number, charge.id, len(other.history()))
        except LedgerError as error:
            print(error)
        ledger.history()
print("done")
"""
    prelude = "import os, sys\nfrom qrelease.errors import *\nfrom qrelease.privacy.ledger import *\n"
    command = [sys.executable, "-c", f"{prelude}from qrelease.privacy import *\n{code}", str(path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=120)[0].splitlines() for process in started]
    assert [lines[-1] for lines in said] == ["done"] * 3
    assert sum(map(len, said)) < 33  # more than half of the copies were opened
    with Ledger.open(path) as ledger:
        assert ledger.spent == PureDP(60 * 2.0**-10)


def test_a_reader_that_does_not_end_holds_up_no_charge(path, tmp_path):
    """What is not taken over into the file for it is in the log, and goes over with the next charge."""
    with Ledger.open(path) as ledger:
        ledger.charge(PureDP(0.25), "before")
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM head").fetchall()
        ledger.charge(PureDP(0.25), "meanwhile")
        assert ledger.spent == PureDP(0.5)
        reader.close()
        ledger.charge(PureDP(0.25), "after")
        with Ledger.open(shutil.copy(path, tmp_path / "copy.ledger")) as copy:
            assert copy.spent == PureDP(0.75)


def test_who_reads_an_earlier_state_is_waited_for_once(path):
    """What is charged meanwhile is in the log, and in the file with the first charge after that."""
    with Ledger.open(path) as ledger:
        ledger.raise_total(PureDP(9.0))
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        took = []
        for _ in range(3):
            begun = time.monotonic()
            ledger.charge(PureDP(1.0), "beside a reader")
            took.append(time.monotonic() - begun)
        assert min(took[1:]) < 0.5 < took[0]
        reader.execute("COMMIT")
        reader.close()
        ledger.charge(PureDP(1.0), "after it")
        copy = path.with_name("copy.ledger")
        python("import shutil; shutil.copy(sys.argv[1], sys.argv[2])", path, copy)
    with Ledger.open(copy) as ledger:
        assert ledger.spent == PureDP(4.0)


def test_many_may_open_a_new_ledger_at_once(tmp_path):
    """While one links it to its name and removes the draft, and another adds tables, which changes the version."""
    wrong = []

    def use(path, ready):
        ready.wait()
        try:
            with Ledger.open(path, PureDP(1.0)) as ledger:
                ledger.rows_of(lambda key: ("0" * 64, "1" * 64))
        except LedgerError as error:
            wrong.append(error)

    for number in range(150):
        ready = threading.Barrier(4)
        threads = [threading.Thread(target=use, args=(tmp_path / f"{number}.ledger", ready)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
