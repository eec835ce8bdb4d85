"""The budget book: memory, composition, rounds, and why it does not go by the value."""

import contextlib
import math
import os
import pickle
import re
import stat
import subprocess
import sys
import threading
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from paths import at_most_e_to, law_of, worst_ratio

from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.local import Book, Coin, DeviceEntropy, KAry


def test_an_answer_is_given_again_whatever_the_value_is_by_then():
    book, client = Book(1.0), KAry(1.0, 1000)
    first = book.report("job", client, 3, DeviceEntropy())
    assert all(book.report("job", client, v, DeviceEntropy()) == first for v in range(50))
    assert (book.spent, book.left) == (1, 0)
    with pytest.raises(BudgetExceeded, match="total epsilon=1, spent 1, asked 1"):
        book.report("job", client, 3, DeviceEntropy(), round=1)


def test_questions_and_rounds_add_up_exactly():
    book = Book(Fraction(1, 2))
    for round in range(3):
        book.report("mood", Coin(Fraction(1, 10)), 0.5, DeviceEntropy(), round=round)
    book.report("sport", KAry(Fraction(2, 10), 3), 1, DeviceEntropy())
    assert book.left == 0
    with pytest.raises(BudgetExceeded):
        book.report("age", Coin(Fraction(1, 10**9)), 0.5, DeviceEntropy())


def test_a_book_lasts_and_holds_no_value(tmp_path):
    path = tmp_path / "book.json"
    with Book(1.0, path) as book:
        first = book.report("place", KAry(0.5, 1 << 40), 123456789, DeviceEntropy())
    again = Book(1.0, path)
    assert again.spent == Fraction(1, 2)
    assert again.report("place", KAry(0.5, 1 << 40), 7, DeviceEntropy()) == first
    if first.code != 123456789:
        assert "123456789" not in path.read_text()
    with pytest.raises(InvalidInput, match="in other terms"):
        again.report("place", KAry(0.25, 1 << 40), 7, DeviceEntropy())
    again.close()
    with pytest.raises(InvalidInput, match="a total epsilon=1, not 2"):
        Book(2.0, path)
    path.write_text('{"format": 1, "epsilon": "1", "answers": {"0 a": {"epsilon": "-1", "terms": "", "report": ""}}}')
    with pytest.raises(InvalidInput, match="no budget book"):
        Book(1.0, path)
    path.write_text("[]")
    with pytest.raises(InvalidInput, match="no budget book"):
        Book(1.0, path)


def refused(path):
    """What another process is told that opens a book."""
    code = "import sys\nfrom qrelease.local import *\ntry: Book(1.0, sys.argv[1])\nexcept Exception as e: print(e)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_one_process_has_a_book_open(tmp_path):
    path = tmp_path / "book.json"
    with Book(1.0, path) as book:
        book.report("a", KAry(0.5, 3), 1, DeviceEntropy())
        assert "is open already" in refused(path)
        with pytest.raises(LedgerError, match="is open already"):
            Book(1.0, path)
    assert refused(path) == ""
    with pytest.raises(LedgerError, match="is closed"):
        book.report("a", KAry(0.5, 3), 1, DeviceEntropy())
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(book)
    path.write_text("[]")
    for _ in range(2):  # a refusal holds no lock
        with pytest.raises(InvalidInput, match="no budget book"):
            Book(1.0, path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("name", ["book.json", None])
def test_the_child_of_a_fork_answers_nothing_and_keeps_no_lock_of_its_own(name, tmp_path):
    path = name and tmp_path / name
    code = """
import os, sys
from qrelease.local import *
book = Book(1.0, sys.argv[1] or None)
child = os.fork()
if child:
    os.waitpid(child, 0)
try:
    book.report("a", KAry(0.5, 3), 1, DeviceEntropy())
    print("answered", flush=True)
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
if not child:
    os._exit(0)
print(book.spent)
book.report("b", KAry(0.5, 3), 1, DeviceEntropy())
"""
    done = subprocess.run([sys.executable, "-c", code, str(path or "")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"LedgerError: the budget book.* was opened before a fork: .*\nanswered\n1/2\n", done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_waits_for_no_thread_that_is_not_there(tmp_path):
    """One that was writing an answer down, in the parent, had the lock."""
    code = """
import os, signal, sys, threading
from qrelease.errors import LedgerError
from qrelease.local import *
book, inside, done = Book(1.0, sys.argv[1]), threading.Event(), threading.Event()

class Slow:
    insecure_seed = None
    def words(self, n):
        inside.set()
        done.wait()
        return DeviceEntropy().words(n)

other = threading.Thread(target=book.report, args=("a", KAry(0.5, 3), 1, Slow()))
other.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(20)  # which ends it
    try:
        book.report("b", KAry(0.5, 3), 1, DeviceEntropy())
    except LedgerError:
        os._exit(3)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
other.join()
print(book.spent)
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "book.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "3\n1/2\n", done.stderr


def test_an_answer_is_on_the_disk_with_its_name_before_it_leaves(tmp_path, monkeypatch):
    """What is synced, in order: the file, and after it took its name the folder."""
    path, done = tmp_path / "book.json", []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor):
        sync(descriptor)
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    def named(self, other):
        done.append("name")
        return replace(self, other)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    with Book(1.0, path) as book:
        book.report("a", KAry(0.5, 3), 1, DeviceEntropy())
    assert done == ["file", "name", "folder"]


def test_threads_do_not_spend_twice(tmp_path):
    with Book(1.0, tmp_path / "book.json") as book:
        given, start = [], threading.Barrier(8)

        def ask(i):
            start.wait()
            with contextlib.suppress(BudgetExceeded):
                given.append(book.report(f"q{i}", KAry(0.5, 3), 1, DeviceEntropy()))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(given), book.left) == (2, 0)


def test_nothing_is_charged_for_what_is_refused():
    book = Book(1.0)
    for bad in (
        lambda: book.report("a", KAry(1.0, 3), 5, DeviceEntropy()),
        lambda: book.report("", KAry(1.0, 3), 1, DeviceEntropy()),
    ):
        with pytest.raises(InvalidInput):
            bad()
    assert book.spent == 0


def transcript(client, values, draws, remembered):
    """What a device says to the same question three times, with a memory by `remembered(round, value)`."""
    memory = {}
    for round, value in enumerate(values):
        key = remembered(round, value)
        if key not in memory:
            memory[key] = client.draw(value, draws)
    return tuple(memory[remembered(round, value)] for round, value in enumerate(values))


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_whole_history_of_values_is_private_and_a_memory_by_value_is_not(rounds):
    client, histories = KAry(0.5, 2), list(product(range(2), repeat=3))
    book = [
        law_of(lambda draws, h=h: transcript(client, h, draws, lambda round, _: min(round, rounds - 1)))
        for h in histories
    ]
    ratio = worst_ratio(book)
    assert at_most_e_to(ratio, Fraction(rounds, 2))
    assert math.log(ratio) == pytest.approx(rounds / 2)
    by_value = [law_of(lambda draws, h=h: transcript(client, h, draws, lambda _, value: value)) for h in histories]
    assert worst_ratio(by_value) == math.inf


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_book_has_one_name(tmp_path, link):
    path, other = tmp_path / "book", tmp_path / "other"
    with Book(1.0, path) as book:
        book.report("sport", KAry(Fraction(2, 10), 3), 1, DeviceEntropy())
    link(path, other)
    if link is os.link:
        for name in (path, other):
            with pytest.raises(LedgerError, match="second name"):
                Book(1.0, name)
        return
    with Book(1.0, path), pytest.raises(LedgerError, match="open already"):
        Book(1.0, other)


@pytest.mark.parametrize("text", ['{"format": 1, "epsilon": "1/0", "answers": {}}', "[" * 100_000])
def test_a_broken_book_is_told(tmp_path, text):
    (tmp_path / "book").write_text(text)
    with pytest.raises(InvalidInput, match="is no budget book"):
        Book(1.0, tmp_path / "book")


def moved(book, lock, folder):
    book.rename(folder / "elsewhere")
    return folder / "elsewhere"


def removed(book, lock, folder):
    book.unlink()
    lock.unlink()
    return book


def written_anew(book, lock, folder):
    (folder / "copy").write_text(book.read_text())
    (folder / "copy").replace(book)


def without_lock(book, lock, folder):
    lock.unlink()
    return book


def with_another_lock(book, lock, folder):
    lock.rename(folder / "old.lock")
    lock.touch()
    return book


@pytest.mark.skipif(os.name == "nt", reason="Windows moves no open file")
@pytest.mark.parametrize("change", [moved, removed, written_anew, without_lock, with_another_lock])
@pytest.mark.parametrize("written", [True, False])
def test_what_was_moved_under_an_open_book_is_not_spent_twice(tmp_path, change, written):
    """Else the same book is open twice, and each spends what is left."""
    path, lock = tmp_path / "book", tmp_path / "book.lock"
    client = KAry(Fraction(1, 4), 3)
    Book(1.0, path).report("first", client, 1, DeviceEntropy())  # closed by the collector of garbage
    with Book(1.0, path) as book:
        if written:
            book.report("second", client, 1, DeviceEntropy())
        said = 1 + written
        other = change(path, lock, tmp_path)
        before = other and other.exists() and other.read_text()
        with pytest.raises(LedgerError, match="or its lock was moved or replaced"):
            book.report("third", client, 1, DeviceEntropy())
        if before:
            assert other.read_text() == before
            with Book(1.0, other) as second:
                assert second.spent == Fraction(said, 4)
        assert book.report("first", client, 0, DeviceEntropy()) is not None  # nothing new is said


def test_a_book_that_another_made_meanwhile_is_not_written_over(tmp_path):
    path = tmp_path / "book"
    with Book(1.0, path) as book:
        path.write_text("{}")
        with pytest.raises(LedgerError, match="or its lock was moved or replaced"):
            book.report("a", KAry(0.5, 3), 1, DeviceEntropy())
        assert path.read_text() == "{}"


def test_a_book_leaves_others_alone_whatever_they_are_called(tmp_path):
    with Book(1.0, tmp_path / "me.part") as other:
        other.report("sport", KAry(0.5, 3), 1, DeviceEntropy())
    with Book(1.0, tmp_path / "me") as book:
        book.report("sport", KAry(0.5, 3), 1, DeviceEntropy())
    with Book(1.0, tmp_path / "me.part") as other:
        assert other.left == 0.5
