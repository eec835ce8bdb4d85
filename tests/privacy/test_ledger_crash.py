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
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qrelease.errors import BudgetExceeded
from qrelease.privacy import PureDP, split
from qrelease.privacy.costs import round_up
from qrelease.privacy.ledger import Charge, Entry, Ledger

SHARES, KEYS, ROUNDS = 400, 600, 12  # a ledger lasts ROUNDS rounds and cannot hold all of its KEYS
TOTAL = PureDP(1.0)
COST = split(TOTAL, [1.0] * SHARES)[0]


def charge(ledger: Ledger, key: str) -> Charge:
    return ledger.charge(COST, f"label of {key}", key)


def note(journal: int, *words: str) -> None:
    os.write(journal, (" ".join(words) + "\n").encode())


def write_forever(folder: Path, seed: int, broken: bool) -> None:
    """A writer; the broken one shows its answer before it is stored."""
    generator = random.Random(seed)
    journal = os.open(folder / "journal", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ledger = Ledger.open(folder / "ledger", TOTAL)
    while True:
        key = f"k{generator.randrange(KEYS)}"
        try:
            charged = charge(ledger, key)
        except BudgetExceeded:
            continue
        note(journal, "charged", key)
        answer = charged.answer or os.urandom(8).hex().encode()
        if broken:
            note(journal, "shown", key, answer.decode())
        if charged.answer is None:
            answer = ledger.store_answer(charged, answer)
        note(journal, "shown", key, answer.decode())


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
            write_forever(folder, seed, broken)
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


def broken_promises(folder: Path, generator: random.Random) -> list[str]:
    """What the ledger does not keep of what the journal says, after a round."""
    journal = folder / "journal"
    lines = [line.split() for line in journal.read_text().splitlines()] if journal.exists() else []
    shown: dict[str, set[str]] = {}
    for line in lines:
        if line[0] == "shown":
            shown.setdefault(line[1], set()).add(line[2])
    started = time.monotonic()
    with Ledger.open(folder / "ledger", TOTAL) as ledger, journal.open("a") as more:
        found = _against_history(ledger, {line[1] for line in lines})
        found += [f"{key} showed {len(answers)} answers" for key, answers in shown.items() if len(answers) > 1]
        for key in generator.sample(sorted(shown), min(8, len(shown))):
            again = charge(ledger, key)
            if again.fresh or {str(again.answer or b"", "ascii")} != shown[key]:
                found.append(f"{key} came back as {again}, {again.answer!r} where {shown[key]} was shown")
        crashed = [e.key for e in ledger.history() if e.kind == "charge" and not e.answered]
        for key in crashed[:3]:
            again = charge(ledger, str(key))
            if again.fresh or again.answer is not None:
                found.append(f"{key} has no answer but came back as {again}")
            more.write(f"shown {key} {ledger.store_answer(again, b'late').decode()}\n")
    if time.monotonic() - started > 20:
        found.append("locked out")
    return found


def _against_history(ledger: Ledger, charged: set[str]) -> list[str]:
    """Lost charges, charges beyond the total, sums that are not the sum of the history."""
    history = ledger.history()
    charges = [entry for entry in history if entry.kind == "charge"]
    exact = sum((Fraction(entry.cost.epsilon) for entry in charges), Fraction(0))  # type: ignore[union-attr]
    spent = ledger.spent
    found = [f"the charge of {key} is lost" for key in charged - {str(entry.key) for entry in charges}]
    if exact > 1 or len(charges) > SHARES:
        found.append(f"{len(charges)} charges exceed the total")
    if spent != (PureDP(round_up(exact)) if exact else None):
        found.append(f"the history comes to {float(exact)}, the sum says {spent}")
    found += [f"entry {entry.id} has an answer without a charge" for entry in history[:1] if entry.answered]
    return found


def exhaust(folder: Path) -> list[str]:
    """After the last round the ledger still takes every share that is left, and the file is sound."""
    with Ledger.open(folder / "ledger", TOTAL) as ledger:
        try:
            while True:
                ledger.charge(COST, "the rest")
        except BudgetExceeded:
            entries: tuple[Entry, ...] = ledger.history()
    with sqlite3.connect(folder / "ledger") as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    found = [] if sound else ["the file is not sound"]
    return found if len(entries) == SHARES + 1 else [*found, f"{len(entries) - 1} shares fitted, not {SHARES}"]


def main(base: Path, kills: int, seed: int, broken: bool) -> None:
    """Kill so many writers and print what was found."""
    generator, killed, found, charges = random.Random(seed), 0, [], 0
    while killed < kills:
        folder = base / f"after-{killed}"
        folder.mkdir()
        for _ in range(ROUNDS):
            killed += kill_writers(folder, generator, broken)
            found += broken_promises(folder, generator)
            if killed >= kills:
                break
        charges += journal.read_text().count("charged") if (journal := folder / "journal").exists() else 0
        found += exhaust(folder)
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


@pytest.mark.slow
def test_no_promise_breaks_on_a_disk(tmp_path: Path) -> None:
    result = run(tmp_path, 1000, 2)
    assert result["found"] == []
    assert result["killed"] >= 1000
    assert result["charged"] > 150


def test_a_writer_that_shows_before_it_stores_is_found_out(memory_disk: Path) -> None:
    assert run(memory_disk, 60, 3, broken=True)["found"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1")
