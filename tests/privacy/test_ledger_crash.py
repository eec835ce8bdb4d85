"""kill −9 at random points of writing processes: no promise of the ledger breaks.

Several writers at once charge, store and "show" answers for keys that they share, until each is killed at a moment of
its own. What a writer believes done it appends to a journal with one write. After each round the ledger is held
against the journal. The default run kills 300 writers on a memory disk where there is one
(a killed process leaves the page cache alone, so the disk behind it does not matter, only its speed), the slow one
1 000 on the disk.

The file is also the program that the test runs, since a test process with threads had better not fork.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from ledger_promises import broken_promises, exhaust, whole_lines, write_forever

ROUNDS = 12  # that a ledger lasts


def kill_writers(folder: Path, generator: random.Random, broken: bool) -> int:
    """Start one to four writers and kill each at a moment of its own; returns how many.

    The moments count from the start, or, every other time, from the first charge, so that a slow disk lets some happen.
    """
    journal, writers = folder / "journal", []
    size = journal.stat().st_size if journal.exists() else 0
    for _ in range(generator.randint(1, 4)):
        seed, after = generator.getrandbits(32), generator.uniform(0, 0.04)
        pid = os.fork()
        if pid == 0:
            write_forever(str(folder / "ledger"), journal, seed, broken=broken)
        writers.append((after, pid))
    start = time.monotonic()
    if generator.random() < 0.5:
        while time.monotonic() < start + 5 and not (journal.exists() and journal.stat().st_size > size):
            time.sleep(0.001)
        start = time.monotonic()
    for after, pid in sorted(writers):
        time.sleep(max(0.0, start + after - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            raise RuntimeError(f"a writer ended by itself with {status}")
    return len(writers)


def exhausted(folder: Path) -> list[str]:
    """After the last round the ledger still takes every share that is left, and the file is sound."""
    found = exhaust(str(folder / "ledger"))
    with sqlite3.connect(folder / "ledger") as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return found if sound else ["the file is not sound", *found]


def main(base: Path, kills: int, seed: int, broken: bool) -> None:
    """Kill so many writers and print what was found."""
    generator, killed, found, charges = random.Random(seed), 0, [], 0
    while killed < kills:
        folder = base / f"after-{killed}"
        folder.mkdir()
        for _ in range(ROUNDS):
            killed += kill_writers(folder, generator, broken)
            found += broken_promises(str(folder / "ledger"), folder / "journal", generator)
            if killed >= kills:
                break
        charges += journal.read_text().count("charged") if (journal := folder / "journal").exists() else 0
        found += exhausted(folder)
    print(json.dumps({"killed": killed, "charged": charges, "found": found[:20]}))


def run(base: Path, kills: int, seed: int, broken: bool = False) -> dict[str, Any]:
    arguments = [sys.executable, __file__, str(base), str(kills), str(seed), str(int(broken))]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill")


@pytest.fixture
def memory_disk(tmp_path: Path) -> Iterator[Path]:
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_no_promise_breaks_when_writers_are_killed(memory_disk: Path) -> None:
    result = run(memory_disk, 300, 1)
    assert result["found"] == []
    assert result["killed"] >= 300
    assert result["charged"] > 300  # they were killed at work


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk, even where temporary files are in memory: what is in /var/tmp outlives the machine's end."""
    if not os.access("/var/tmp", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.slow
def test_no_promise_breaks_on_a_disk(disk: Path) -> None:
    result = run(disk, 1000, 2)
    assert result["found"] == []
    assert result["killed"] >= 1000
    assert result["charged"] > 150


def test_a_writer_that_shows_before_it_stores_is_found_out(memory_disk: Path) -> None:
    assert run(memory_disk, 60, 3, broken=True)["found"]


def test_a_line_that_was_written_half_is_not_read() -> None:
    text = "charged k5\ncharged k5shown k5 ab\nshown charged k7\nshown k7 ab\ncharged k53"
    assert whole_lines(text) == [["charged", "k5"], ["shown", "k7", "ab"]]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1")
