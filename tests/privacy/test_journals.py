"""The ledger's journals, and sessions that are killed: what was shown is never forgotten or drawn again.

The file is also the program that is killed, since a test process with threads had better not fork.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from qrelease.errors import LedgerError
from qrelease.privacy import Neighbours, PureDP, ledger_store
from qrelease.privacy.ledger import Ledger

ONE = PureDP(1.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


def written(path, *entries, key="k"):
    with Ledger.open(path, None if path.exists() else ONE) as ledger:
        journal = ledger.journal(ledger.charge(PureDP(0.25), "a session", key))
        for entry in entries:
            journal.append(entry)


def read(path, key="k"):
    with Ledger.open(path) as ledger:
        return ledger.journal(ledger.charge(PureDP(0.25), "a session", key)).entries


def test_what_is_appended_is_there_when_it_is_read_again(path):
    assert (written(path), read(path)) == (None, ())
    written(path, b"one", b"", b"\0\xff")
    written(path, b"four")
    written(path, b"other", key="another")
    assert read(path) == (b"one", b"", b"\0\xff", b"four")
    assert read(path, "another") == (b"other",)


def test_a_ledger_in_memory_has_journals_too():
    with Ledger.open(None, ONE) as ledger:
        charge = ledger.charge(ONE, "a session")
        journal = ledger.journal(charge)
        journal.append(b"one")
        journal.append(b"two")
        assert ledger.journal(charge).entries == (b"one", b"two")


def test_of_two_writers_only_the_first_goes_on(path):
    written(path, b"one")
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        first, second = (source.journal(source.charge(PureDP(0.25), "a session", "k")) for source in (ledger, other))
        first.append(b"two")
        for _ in range(2):
            with pytest.raises(LedgerError, match="the session with key 'k' was taken over by another process"):
                second.append(b"mine")
        first.append(b"three")
    assert read(path) == (b"one", b"two", b"three")


def test_nothing_is_appended_inside_a_transaction_that_could_still_undo_it(path):
    with Ledger.open(path, ONE) as ledger:
        journal = ledger.journal(ledger.charge(PureDP(0.25), "a session", "k"))
        with ledger.transaction(), pytest.raises(LedgerError, match="cannot go on inside a transaction"):
            journal.append(b"one")
        journal.append(b"two")
    assert read(path) == (b"two",)


def test_a_ledger_without_sessions_is_as_it_was(path):
    """The tables come with the first entry, so that older programs read ledgers that have no sessions."""
    written(path)
    with sqlite3.connect(path) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert tables == {"head", "entries", "answers"}


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM journal WHERE number = 3",
        "DELETE FROM journal WHERE number = 1",
        "DELETE FROM journal; DELETE FROM journals WHERE 0",
        "DELETE FROM journal; DELETE FROM journals",
        "DROP TABLE journal; DROP TABLE journals",
        "DELETE FROM journal; DELETE FROM journals; DELETE FROM answers",
        "UPDATE journal SET entry = x'00' WHERE number = 2",
        "UPDATE journal SET entry = 'text' WHERE number = 2",
        "UPDATE journal SET number = 4 WHERE number = 3",
        "UPDATE journals SET entries = 2",
        "DELETE FROM journal WHERE number = 3; UPDATE journals SET entries = 2",
    ],
)
def test_damage_is_noticed(path, damage):
    written(path, b"one", b"two", b"three")
    with sqlite3.connect(path) as connection:
        connection.executescript(damage)
    connection.close()
    with pytest.raises(LedgerError, match="is damaged"):
        read(path)


@pytest.mark.parametrize("entry", [b"", b"one", b'"\0\xff'])
def test_the_chain_of_a_journal_is_that_of_all_rows(entry):
    last = sha256(b"before").hexdigest()
    expected = ledger_store.row_digest(last, 7, 12, sha256(entry).hexdigest())
    assert ledger_store.journal_digest(last, 7, 12, entry) == expected


def test_a_foreign_table_is_damage_still(path):
    written(path, b"one")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE more (a)")
    connection.close()
    with pytest.raises(LedgerError, match="is damaged"):
        Ledger.open(path)


# --- sessions under kill -9


def asked(number):
    """The conditions of a stream without end, in which some come again: of more than a fast machine ever asks."""
    generator = random.Random(number // 2 if number % 3 else number // 7)
    a, b = (", ".join(str(v) for v in generator.sample(range(8), generator.randrange(1, 8))) for _ in "ab")
    return f"a in {{{a}}} and b in {{{b}}}"


def open_session(path, seed):
    """A session over a table that its first hypothesis does not answer, and its ledger."""
    from qrelease.data.domain import Domain
    from qrelease.data.table import Table
    from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
    from qrelease.noise.entropy import Entropy
    from qrelease.release.curator import Curator

    a = np.minimum(np.random.default_rng(0).geometric(0.6, 200_000) - 1, 7)
    ledger = Ledger.open(path, PureDP(4.0), neighbours=Neighbours.ADD_REMOVE)
    curator = Curator(Table(Domain.coded({"a": 8, "b": 8}), (a, a)), ledger, Entropy.insecure(seed))
    return curator.open(PrivateMultiplicativeWeights(), PureDP(4.0), key="stream"), ledger


def ask_forever(path, shown, seed):
    session, _ = open_session(path, seed)
    number = random.Random(seed).randrange(100_000)
    while True:
        number += 1
        answer = session.answer(asked(number))
        os.write(shown, f"{json.dumps([asked(number), answer.value, answer.source])}\n".encode())


def main(folder, kills):
    """Kill a session so many times; print what was found."""
    generator, path, notes = random.Random(0), folder / "ledger", folder / "shown"
    open_session(path, 0)[1].close()  # loads all there is to load
    shown = os.open(notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for kill in range(kills):
        size, pid = notes.stat().st_size, os.fork()
        if pid == 0:
            ask_forever(path, shown, kill)
        # One in four is killed whenever it comes, the others after some answers, however slow the machine is.
        enough = size + 100 * generator.randrange(4, 12) if kill % 4 else size
        while notes.stat().st_size < enough and os.waitpid(pid, os.WNOHANG) == (0, 0):
            time.sleep(0.001)
        time.sleep(generator.uniform(0, 0.03))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    session, ledger = open_session(path, 10**6)
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    entries = [json.loads(e) for e in session._journal.entries[2:]]
    resumed, measured = sum("resumed" in e for e in entries), sum("sign" in e for e in entries)
    found = [q for q, value, source in lines if (a := session.answer(q)).value != value or a.source != source]
    if session.updates_left != session.updates - resumed - measured:
        found.append("updates that were used up are there again")
    if ledger.spent != PureDP(4.0) or len(ledger.history()) != 2:
        found.append("it was charged twice")
    print(json.dumps({"shown": len(lines), "resumed": resumed, "measured": measured, "found": found}))


def killed(folder, kills):
    done = subprocess.run(
        [sys.executable, __file__, str(folder), str(kills)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill")
@pytest.mark.parametrize("kills", [12, pytest.param(150, marks=pytest.mark.slow)])
def test_a_session_that_is_killed_forgets_nothing_that_it_showed(tmp_path, kills):
    result = killed(tmp_path, kills)
    assert result["found"] == []
    assert result["shown"] > 2 * kills  # it was killed at work
    assert result["measured"] > 0
    assert kills / 2 < result["resumed"] <= kills  # not one that was killed before its first new question


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
