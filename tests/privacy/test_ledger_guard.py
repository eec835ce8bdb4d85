"""One thread at a time, and a fork: each process has a connection of its own, and a transaction is its parent's."""

import os
from pathlib import Path

import pytest

from qrelease.errors import LedgerError
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from tests.privacy.processes import python


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_inside_a_transaction_is_the_parents(path):
    """Every use by the child is an error, at once, also of a ledger that it opens anew; the parent goes on."""
    code = """
import warnings
from qrelease.privacy.analysts import Analysts
warnings.simplefilter("ignore", DeprecationWarning)
ledger = Ledger.open(sys.argv[1])
charge = ledger.charge(PureDP(0.125), "before", "k")
shared = ledger.session(PureDP(0.5), "a session", "s")
uses = [
    lambda: ledger.charge(PureDP(0.25), "child"), lambda: ledger.spent, ledger.history,
    lambda: ledger.store_answer(charge, b"child"), lambda: ledger.journal(charge),
    lambda: ledger.session(PureDP(0.5), "a session", "t"), shared.read, lambda: Analysts(ledger).list(),
    lambda: Analysts(ledger).add("ada", PureDP(0.1)), lambda: Ledger.open(sys.argv[1]),
    lambda: ledger.transaction().__enter__(),
]
try:
    with ledger.transaction():
        pid = os.fork()
        if not pid:
            for number, use in enumerate(uses):
                try:
                    use()
                except LedgerError as error:
                    assert "inside a transaction" in str(error), error
                    continue
                os.write(1, f"use {number} went through".encode())
        else:
            assert os.waitpid(pid, 0)[1] == 0
            ledger.charge(PureDP(0.25), "parent")
except LedgerError as error:  # what the child meets at the end of the transaction
    assert not pid and "inside a transaction" in str(error)
    try:
        ledger.spent
    except LedgerError:
        os._exit(0)
ledger.charge(PureDP(0.125), "after")
print(ledger.spent.epsilon, len(ledger.history()))
"""
    assert python(code, path) == ["0.5 5"]
    with Ledger.open(path) as ledger:
        assert [entry.label for entry in ledger.history()] == ["created", "before", "a session", "parent", "after"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_ends_by_itself_leaves_the_transaction_of_its_parent_alone(path):
    """Also when Python takes the child's objects apart, and when the transaction is larger than SQLite's cache."""
    code = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
ledger = Ledger.open(sys.argv[1])
with ledger.transaction():
    for number in range(1500):
        ledger.charge(PureDP(2.0**-20), "x" * 4000)
    pid = os.fork()
    if not pid:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] >> 8 in (0, 1)
    ledger.charge(PureDP(0.25), "parent")
print(len(ledger.history()))
"""
    assert python(code, path) == ["1502"]
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == 1502


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_memory_ledger_too_is_not_used_after_a_fork_inside_a_transaction():
    code = """
ledger = Ledger.open(None, PureDP(1.0))
with ledger.transaction():
    pid = os.fork()
    if not pid:
        try:
            ledger.charge(PureDP(0.5), "child")
        except LedgerError as error:
            os._exit("before a fork" not in str(error))
    ledger.charge(PureDP(0.5), "parent")
assert os.waitpid(pid, 0)[1] == 0
print(ledger.spent.epsilon)
"""
    assert python(code) == ["0.5"]


def test_a_thread_that_would_wait_for_itself_is_told(path):
    ledger = Ledger.open(path)
    for use in (ledger.close, ledger.store.tidy):
        with ledger.transaction(), pytest.raises(LedgerError, match="is in use by this very thread"):
            use()
    ledger.charge(PureDP(0.5), "a")
    ledger.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("mechanism", "otherwise"),
    [("Online(alpha=0.2)", "0"), ("PrivateMultiplicativeWeights(alpha=0.9, queries=10)", "4")],  # whose budget stays
)
def test_a_session_that_another_thread_was_using_at_a_fork_is_closed_to_the_child(mechanism, otherwise, path):
    """It would wait for ever for a thread that is not there."""
    code = f"""
import signal, threading, warnings
import numpy as np
import qrelease as qr
warnings.simplefilter("ignore", DeprecationWarning)
table = qr.Table(qr.Domain.coded({{"a": 2, "b": 2}}), (np.arange(4000) % 2, np.arange(4000) // 2 % 2))
ledger = Ledger.open(sys.argv[1])
session = qr.Curator(table, ledger).open(qr.{mechanism}, PureDP(0.5), key="k")
inside, done = threading.Event(), threading.Event()

def use():
    with session._lock:
        inside.set()
        done.wait()

def child():
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm(20)  # which ends it
    try:
        session.answer("a = 1")
        os._exit(0)
    except LedgerError as error:
        os._exit(3 if "another thread was using the session with key 'k'" in str(error) else 4)

other = threading.Thread(target=use)
other.start()
inside.wait()
print(child())
done.set()
other.join()
print(child())
with session._lock:  # of the thread that forks, which lives on in the child
    print(child())
"""
    assert python(code, path) == ["3", otherwise, otherwise]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's list of open files")
def test_the_child_of_a_fork_has_no_file_of_its_parents_ledger_open(path):
    """Also where not all was read that a statement found: SQLite would trust in locks that the child does not have."""
    code = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
ledger = Ledger.open(sys.argv[1])
for number in range(3):
    ledger.charge(PureDP(0.125), "before")
with ledger.store.reading():
    found = ledger.store.execute("SELECT id FROM entries ORDER BY id")
    print(found.fetchone()[0])
pid = os.fork()
if not pid:
    names = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if name.isdigit()
             if os.path.lexists(f"/proc/self/fd/{name}")]
    print(sum(name.startswith(sys.argv[1]) for name in names), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    assert python(code, path) == ["1", "0"]
