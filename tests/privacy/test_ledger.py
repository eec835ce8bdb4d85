"""The ledger: exact sums, idempotent charges, one answer a charge, refusals that leave the file alone."""

import linecache
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from enum import Enum
from fractions import Fraction
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import numpy as np
import pytest

from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.privacy import (
    ZCDP,
    ApproxDP,
    Cost,
    Neighbours,
    PureDP,
    ledger_file,
    ledger_guard,
    ledger_store,
    split,
    zcdp_epsilon,
    zcdp_of,
)
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.conversions import zcdp_account
from qrelease.privacy.costs import round_up
from qrelease.privacy.ledger import Ledger

TOTAL = ApproxDP(1.0, 1e-9)
PRELUDE = """
import os, sys
from qrelease.errors import *
from qrelease.privacy.ledger import *
from qrelease.privacy import *
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path, TOTAL) as opened:
        yield opened


def python(code: str, *args: object) -> subprocess.Popen[str]:
    """A Python process that runs the code with the ledger imported."""
    return subprocess.Popen([sys.executable, "-c", PRELUDE + code, *map(str, args)], text=True, stdout=subprocess.PIPE)


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output


# Opening


def test_a_new_ledger(path: Path) -> None:
    with Ledger.open(path, TOTAL) as ledger:
        assert (ledger.total, ledger.spent, ledger.remaining) == (TOTAL, None, TOTAL)
        assert (ledger.dataset, ledger.neighbours) == ("people", Neighbours.ADD_REMOVE)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ledger.charge(PureDP(0.1), "a")
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert [file.name for file in path.parent.iterdir()] == ["people.ledger"]  # closed: nothing next to it


def test_it_is_still_there_when_opened_again(path: Path) -> None:
    with Ledger.open(path, TOTAL, dataset="census", neighbours="replace-one") as ledger:
        ledger.charge(ApproxDP(0.25, 1e-10), "first")
    for arguments in ({}, {"total": TOTAL}, {"dataset": "census", "neighbours": Neighbours.REPLACE_ONE}):
        with Ledger.open(path, **arguments) as ledger:  # type: ignore[arg-type]
            assert (ledger.dataset, ledger.neighbours) == ("census", Neighbours.REPLACE_ONE)
            assert (ledger.total, ledger.spent) == (TOTAL, ApproxDP(0.25, 1e-10))
            assert ledger.remaining == ApproxDP(0.75, 9e-10)
            assert repr(ledger) == (
                f"Ledger({str(path)!r}, dataset 'census', replace-one, total epsilon=1, delta=1e-09,"
                " spent epsilon=0.25, delta=1e-10, left epsilon=0.75, delta=9e-10)"
            )
        assert repr(ledger) == f"Ledger({str(path)!r}, dataset 'census', replace-one)", "closed: nothing is opened"


def test_what_is_left_is_shown_in_a_notebook_too(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a&b.ledger", PureDP(1.0)) as ledger:
        assert ledger.balance == {"total": "epsilon=1", "spent": "nothing", "left": "epsilon=1"}
        ledger.charge(PureDP(1 / 3), "a third")
        with ledger.transaction():
            assert repr(ledger).endswith("total epsilon=1, spent epsilon=0.333333, left epsilon=0.666666)")
        shown = ledger._repr_html_()
        assert "a&amp;b.ledger" in shown
        assert "epsilon=0.666666</td>" in shown
    assert "<table>" not in ledger._repr_html_()
    with Ledger.open(None, PureDP(1.0)) as ledger:
        ledger.charge(PureDP(1.0), "all")
        assert ledger.balance["left"] == "nothing"
    with Ledger.open(None, PureDP(1.3)) as ledger:
        ledger.charge(PureDP(1.0), "one")
        ledger.charge(PureDP(0.3), "rest")
        assert 0 < ledger.remaining.epsilon < 1e-15, "by rounding"
        assert ledger.balance["left"] == "nothing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"total": ApproxDP(2.0, 1e-9)}, "has a total of epsilon=1, delta=1e-09, not epsilon=2, delta=1e-09"),
        ({"total": PureDP(1.0)}, "not epsilon=1; leave it out, or use raise_total"),
        (
            {"dataset": "census"},
            "belongs to dataset 'people', not to 'census': if these are its records, name it: dataset='people'",
        ),
        ({"neighbours": "replace-one"}, "counts under add-remove, not under replace-one"),
    ],
)
def test_a_mismatch_is_refused(ledger: Ledger, path: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(LedgerError) as error:
        Ledger.open(path, **arguments)  # type: ignore[arg-type]
    assert str(error.value).startswith(f"ledger {path} ")
    assert message in str(error.value)


def test_bad_arguments_create_nothing(path: Path) -> None:
    for arguments in ({"total": 1.0}, {"total": TOTAL, "neighbours": "bounded"}, {"total": TOTAL, "dataset": "\ud800"}):
        with pytest.raises(InvalidInput):
            Ledger.open(path, **arguments)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="is new and needs a total"):
        Ledger.open(path)
    assert not list(path.parent.iterdir())


def test_bad_paths(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no folder"):
        Ledger.open(tmp_path / "missing" / "x.ledger", TOTAL)
    with pytest.raises(LedgerError, match="is not a file"):
        Ledger.open(tmp_path, TOTAL)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    with pytest.raises(LedgerError):
        Ledger.open(tmp_path / "dangling", TOTAL)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["dangling"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_unwritable_places(path: Path) -> None:
    path.parent.chmod(0o500)
    with pytest.raises(LedgerError, match="Permission denied"):
        Ledger.open(path, TOTAL)
    path.parent.chmod(0o700)
    Ledger.open(path, TOTAL).close()
    path.chmod(0o400)
    with pytest.raises(LedgerError, match="writable"), Ledger.open(path) as ledger:
        ledger.charge(PureDP(0.1), "a")


def test_in_memory() -> None:
    for place in (None, ":memory:"):
        with Ledger.open(place, TOTAL) as ledger, Ledger.open(place, TOTAL) as other:
            charge = ledger.charge(PureDP(0.5), "a", "k")
            assert ledger.store_answer(charge, b"42") == ledger.charge(PureDP(0.5), "a", "k").answer == b"42"
            assert (ledger.spent, other.spent) == (ApproxDP(0.5, 0.0), None)
    with pytest.raises(LedgerError, match="an in-memory ledger needs a total"):
        Ledger.open(None)


def test_closed(ledger: Ledger) -> None:
    charge = ledger.charge(PureDP(0.1), "a")
    ledger.close()
    ledger.close()
    uses: list[Callable[[], object]] = [
        lambda: ledger.total,
        ledger.history,
        lambda: ledger.charge(PureDP(0.1), "a"),
        lambda: ledger.store_answer(charge, b""),
    ]
    for use in uses:
        with pytest.raises(LedgerError, match="is closed"):
            use()


# Charges and answers


def test_a_charge_and_its_retry(ledger: Ledger) -> None:
    first = ledger.charge(ApproxDP(0.5, 5e-10), "marginals", "m-1")
    assert (first.fresh, first.answer, first.key, first.cost) == (True, None, "m-1", ApproxDP(0.5, 5e-10))
    crashed = ledger.charge(ApproxDP(0.5, 5e-10), "marginals", "m-1")
    assert (crashed.fresh, crashed.answer, crashed.id, crashed.time) == (False, None, first.id, first.time)
    assert ledger.store_answer(crashed, b"\x00bytes\xff") == b"\x00bytes\xff"
    assert ledger.store_answer(first, b"another draw") == b"\x00bytes\xff"
    again = ledger.charge(ApproxDP(0.5, 5e-10), "marginals", "m-1")
    assert (again.fresh, again.answer) == (False, b"\x00bytes\xff")
    assert ledger.spent == ApproxDP(0.5, 5e-10)
    assert "bytes" not in repr(again)
    assert datetime.now(UTC) - datetime.fromisoformat(first.time) < timedelta(minutes=5)
    assert datetime.fromisoformat(first.time).utcoffset() == timedelta(0)


def test_a_retry_is_free_when_nothing_is_left(ledger: Ledger) -> None:
    ledger.charge(TOTAL, "everything", "k")
    with pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(1e-9), "more", "l")
    assert not ledger.charge(TOTAL, "everything", "k").fresh


def test_an_empty_answer_is_an_answer(ledger: Ledger) -> None:
    ledger.store_answer(ledger.charge(PureDP(0.1), "a", "k"), b"")
    assert ledger.charge(PureDP(0.1), "a", "k").answer == b""


def test_charges_without_a_key_are_all_new(ledger: Ledger) -> None:
    charges = [ledger.charge(PureDP(0.125), "same") for _ in range(4)]
    assert len({charge.key for charge in charges}) == 4
    assert all(charge.fresh for charge in charges)
    assert ledger.spent == ApproxDP(0.5, 0.0)


class Named(str, Enum):  # noqa: UP042  whose str() is another text
    KEY = "monday"


@pytest.mark.parametrize("key", [np.array(["monday"])[0], Named.KEY], ids=["numpy", "enum"])
def test_a_text_of_another_type_is_that_text(path: Path, key: str) -> None:
    with Ledger.open(path, TOTAL, dataset=key) as ledger:
        charge = ledger.charge(PureDP(0.5), key, key=key)
        assert ledger.store_answer(charge, b"drawn") == b"drawn"
        assert ledger.session(PureDP(0.1), key, key="session").key == "session"
        token = Analysts(ledger).add(key, TOTAL)
        with Analysts(ledger).account("monday") as account:
            account.record(key, key, b"bytes")
    with Ledger.open(path) as ledger:
        assert ledger.dataset == "monday"
        assert ledger.charge(PureDP(0.5), "monday", key="monday").answer == b"drawn"
        assert [type(entry.label) for entry in ledger.history()] == [str] * 3
        assert Analysts(ledger).holder(token) is not None
        assert [(r.key, r.request) for r in Analysts(ledger).requests("monday", 1, 1)] == [("monday", "monday")]


def test_rows_of_anything_else_are_not_written(ledger: Ledger, path: Path) -> None:
    with pytest.raises(TypeError, match="plain"), ledger.store.writing():
        ledger.store.set_head(ledger.store.head()._replace(dataset=np.array(["others"])[0]))
    with Ledger.open(path) as again:
        assert again.dataset == "people"


@pytest.mark.parametrize(("cost", "label"), [(PureDP(0.2), "a"), (ApproxDP(0.1, 0.0), "a"), (PureDP(0.1), "b")])
def test_a_key_means_one_cost_and_one_label(ledger: Ledger, cost: Cost, label: str) -> None:
    ledger.charge(PureDP(0.1), "a", "k")
    with pytest.raises(LedgerError, match=r"key 'k' was charged as 'a' with epsilon=0\.1, not as"):
        ledger.charge(cost, label, "k")
    assert ledger.spent == ApproxDP(0.1, 0.0)


def test_a_refusal_charges_nothing(ledger: Ledger) -> None:
    ledger.charge(TOTAL, "all", "k")
    with pytest.raises(BudgetExceeded) as error:
        ledger.charge(ApproxDP(0.5, 0.0), "more", "l")
    assert str(error.value).startswith(
        "budget exceeded: total epsilon=1, delta=1e-09; spent epsilon=1, delta=1e-09; requested epsilon=0.5, delta=0"
    )
    bad: list[tuple[object, object, object]] = [
        *((PureDP(0.1), "", None), (PureDP(0.1), None, None), (PureDP(0.1), "a", ""), (PureDP(0.1), "a", 7)),
        *((0.1, "a", None), (None, "a", None), (PureDP(0.1), "\udcff", None)),
    ]
    for cost, label, key in bad:
        with pytest.raises(InvalidInput):
            ledger.charge(cost, label, key)  # type: ignore[arg-type]
    assert [entry.key for entry in ledger.history()] == [None, "k"]
    with Ledger.open(None, PureDP(1.0)) as pure, pytest.raises(InvalidInput, match=r"cannot hold a cost of rho=0\.1"):
        pure.charge(ZCDP(0.1), "a")


def test_answers_are_bytes_of_a_charge_of_this_ledger(ledger: Ledger) -> None:
    charge = ledger.charge(PureDP(0.1), "a")
    for bad in ("text", None, 3, [b"x"], bytearray(b"x")):
        with pytest.raises(InvalidInput, match="an answer must be bytes, got"):
            ledger.store_answer(charge, bad)  # type: ignore[arg-type]
    with Ledger.open(None, TOTAL) as other, pytest.raises(LedgerError, match="is not in this ledger"):
        other.store_answer(charge, b"x")


def test_sums_are_exact(path: Path) -> None:
    """Ten tenths are more than one; ten shares of one are not, through the file and back each time."""
    for cost in split(PureDP(1.0), [1.0] * 10):
        with Ledger.open(path, PureDP(1.0)) as ledger:
            ledger.charge(cost, "share")
    with Ledger.open(path) as ledger, pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(1e-15), "more")
    with Ledger.open(None, PureDP(1.0)) as tenths:
        for _ in range(9):
            tenths.charge(PureDP(0.1), "a tenth")
        with pytest.raises(BudgetExceeded, match=r"at most the epsilon=0\.0999999 that is left"):
            tenths.charge(PureDP(0.1), "a tenth")
        tenths.charge(PureDP(0.0999999), "what is left, as it is told")


def test_every_kind_of_cost_survives_the_file(path: Path) -> None:
    total = ApproxDP(1.0, 1e-6)
    spends = [PureDP(0.1), ApproxDP(0.2, 3e-7), *split(ZCDP(0.003), [3.0, 2.0, 1.0]), PureDP(5e-324)]
    for cost in spends:
        with Ledger.open(path, total) as ledger:
            ledger.charge(cost, str(cost))
    with Ledger.open(path) as ledger:
        assert [entry.cost for entry in ledger.history()] == [total, *spends]
        assert [entry.label for entry in ledger.history()] == ["created", *map(str, spends)]
        spent = ledger.spent
        assert isinstance(spent, ApproxDP)
        assert spent.epsilon == pytest.approx(0.1 + 0.2 + zcdp_epsilon(0.003, 7e-7), rel=1e-12)
        left = ledger.remaining
        assert left is not None
        ledger.charge(left, "the rest")
        with pytest.raises(BudgetExceeded):
            ledger.charge(ZCDP(1e-9), "more")


def test_a_zcdp_share_of_an_approximate_total_fits_to_the_last(ledger: Ledger) -> None:
    for share in split(zcdp_of(TOTAL), [1.0] * 7):
        ledger.charge(share, "share")
    with pytest.raises(BudgetExceeded):
        ledger.charge(ZCDP(1e-6), "more")


# Totals and history


def test_raising_the_total_is_in_the_history(ledger: Ledger) -> None:
    ledger.charge(TOTAL, "all", "k")
    ledger.raise_total(ApproxDP(1.5, 1e-9))
    assert ledger.total == ApproxDP(1.5, 1e-9)
    assert ledger.remaining == ApproxDP(0.5, 0.0)
    ledger.store_answer(ledger.charge(PureDP(0.25), "more"), b"x")
    found = [(entry.id, entry.kind, entry.label, entry.cost, entry.answered) for entry in ledger.history()]
    assert found == [
        (1, "total", "created", TOTAL, False),
        (2, "charge", "all", TOTAL, False),
        (3, "total", "raised", ApproxDP(1.5, 1e-9), False),
        (4, "charge", "more", PureDP(0.25), True),
    ]


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        (PureDP(1.0), PureDP(2.0), True),
        (PureDP(1.0), ApproxDP(1.0, 1e-9), True),
        (ZCDP(1.0), ZCDP(1.5), True),
        (ApproxDP(1.0, 1e-9), ApproxDP(1.0, 1e-8), True),
        (PureDP(1.0), PureDP(1.0), False),
        (PureDP(1.0), PureDP(0.5), False),
        (PureDP(1.0), ApproxDP(0.5, 1e-9), False),
        (PureDP(1.0), ZCDP(9.0), False),
        (ApproxDP(1.0, 1e-9), PureDP(9.0), False),
        (ApproxDP(1.0, 1e-9), ApproxDP(9.0, 1e-10), False),
    ],
)
def test_a_total_only_grows(old: Cost, new: Cost, allowed: bool) -> None:
    with Ledger.open(None, old) as ledger:
        if allowed:
            ledger.raise_total(new)
        else:
            told = "whose place it takes: a larger epsilon"
            with pytest.raises(InvalidInput, match=f"a raised total must be larger than .*{told}"):
                ledger.raise_total(new)
        assert ledger.total == (new if allowed else old)
        assert len(ledger.history()) == 1 + allowed
        with pytest.raises(InvalidInput, match="the cost must be"):
            ledger.raise_total(2.0)  # type: ignore[arg-type]


def test_raising_after_zcdp_spends_keeps_their_order(path: Path) -> None:
    with Ledger.open(path, ApproxDP(1.0, 1e-9)) as ledger:
        ledger.charge(zcdp_of(ApproxDP(1.0, 1e-9)), "all")
        order = zcdp_account(1.0, 1e-9)[0]
        ledger.raise_total(ApproxDP(4.0, 2e-9))
        ledger.charge(ApproxDP(1e-6, 1e-9), "the new delta")
        more = float((3 - Fraction(1e-6)) / order)
        ledger.charge(ZCDP(more * 0.999), "the new rest")
        with pytest.raises(BudgetExceeded):
            ledger.charge(ZCDP(more * 0.002), "more")


# Damage


def refuses_and_leaves(path: Path, message: str) -> None:
    before = path.read_bytes()
    for total in (None, TOTAL):
        with pytest.raises(LedgerError, match=message):
            Ledger.open(path, total)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"age,sex\n39,Male\n", b"SQLite format 3\x00", bytes(4096), b"x" * 100_000])
def test_foreign_files_are_refused_untouched(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refuses_and_leaves(path, "is not a qrelease ledger")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_foreign_databases_are_refused_untouched(path: Path, mode: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE head (dataset TEXT)")
    connection.close()
    refuses_and_leaves(path, "is not a qrelease ledger")


def test_a_later_format_is_refused_untouched(path: Path) -> None:
    Ledger.open(path, TOTAL).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 6")
    connection.close()
    refuses_and_leaves(path, "has format 6, this qrelease reads formats 4 and 5")


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE head SET tally = \'["0", "0", "0", null]\'',
        'UPDATE head SET total = \'{"epsilon": 9.0, "delta": 1e-09}\'',
        "UPDATE head SET neighbours = 'replace-one'",
        "UPDATE head SET entries = 7",
        "DELETE FROM head",
        "DROP TABLE head",
    ],
)
def test_an_edited_head_is_refused_untouched(path: Path, statement: str) -> None:
    with Ledger.open(path, TOTAL) as ledger:
        ledger.charge(PureDP(0.5), "a", "k")
    edit(path, statement)
    refuses_and_leaves(path, "is damaged; restore it from a backup")


def edit(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET cost = '{\"epsilon\": 0.25}' WHERE id = 2",
        "UPDATE entries SET label = 'other' WHERE id = 2",
        "DELETE FROM entries WHERE id = 3",
        "DELETE FROM entries WHERE id = 2",
    ],
)
def test_an_edited_history_is_noticed(path: Path, statement: str) -> None:
    with Ledger.open(path, TOTAL) as ledger:
        ledger.charge(PureDP(0.5), "a", "k")
        ledger.charge(PureDP(0.1), "b", "l")
    edit(path, statement)
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="is damaged; restore it from a backup"):
        ledger.history()


def test_an_edited_answer_or_entry_is_noticed_by_the_retry(path: Path) -> None:
    with Ledger.open(path, TOTAL) as ledger:
        for key in "klm":
            ledger.store_answer(ledger.charge(PureDP(0.1), "a", key), b"answer")
    edit(path, "UPDATE answers SET answer = x'00' WHERE id = 2")
    edit(path, "UPDATE entries SET time = 'never' WHERE id = 3")
    edit(path, "DELETE FROM answers WHERE id = 4")
    with Ledger.open(path) as ledger:
        for key in "klm":
            with pytest.raises(LedgerError, match="is damaged"):
                ledger.charge(PureDP(0.1), "a", key)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a ledger with 30 charges and their answers."""
    path = tmp_path_factory.mktemp("sound") / "people.ledger"
    with Ledger.open(path, TOTAL) as ledger:
        for number in range(30):
            ledger.store_answer(ledger.charge(PureDP(0.01), f"query {number}", str(number)), b"x" * 200)
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(60))
def test_random_damage_is_an_error_or_harmless(path: Path, sound: bytes, seed: int) -> None:
    """Flipped bits, copied pages, cut ends: the sums and answers are as they were, or there is a ledger error."""
    spent = ApproxDP(round_up(30 * Fraction(0.01)), 0.0)
    random, content = Random(seed), bytearray(sound)
    pages = range(0, len(content), 4096)
    match seed % 4:
        case 0:
            content = content[: random.randrange(len(content))]
        case 1:
            page, other = random.sample(pages, 2)
            content[page : page + 4096] = content[other : other + 4096]
        case _:
            for _ in range(1 + seed % 7):
                content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)
    try:
        with Ledger.open(path) as ledger:
            assert ledger.spent == spent
            assert len(ledger.history()) == 31
            known = ledger.charge(PureDP(0.01), "query 7", "7")
            assert known.answer == b"x" * 200 or known.fresh
    except LedgerError:
        pass


def test_a_ledger_that_was_moved_or_replaced_is_noticed(ledger: Ledger, path: Path) -> None:
    ledger.charge(PureDP(0.1), "a")
    moved = path.rename(path.with_name("moved"))
    with pytest.raises(LedgerError, match="was moved or replaced since it was opened"):
        ledger.charge(PureDP(0.1), "lost")
    with pytest.raises(LedgerError, match="is not there, but its log"):
        Ledger.open(path, TOTAL)  # it would begin with what is in that log
    path.write_bytes(b"another")
    with pytest.raises(LedgerError, match="was moved or replaced"):
        ledger.charge(PureDP(0.1), "lost")
    path.unlink()
    moved.rename(path)
    ledger.charge(PureDP(0.1), "b")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX limits")
def test_a_full_disk_is_an_error_and_loses_nothing(path: Path) -> None:
    """A limit on file sizes stands in for the full disk."""
    code = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger.open(sys.argv[1], PureDP(1000.0))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
charged = 0
try:
    while charged < 10_000:
        ledger.charge(PureDP(0.1), "x" * 1000)
        charged += 1
except LedgerError:
    print(charged, flush=True)
os._exit(0)
"""
    charged = int(finish(python(code, path)))
    assert 10 < charged < 10_000
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == 1 + charged
        ledger.charge(PureDP(0.1), "after")


# Threads and processes


def test_threads_share_a_ledger(path: Path) -> None:
    shares = split(PureDP(1.0), [1.0] * 160)
    with Ledger.open(path, PureDP(1.0)) as ledger:
        refused: list[BudgetExceeded] = []

        def work(mine: tuple[Cost, ...]) -> None:
            for number, cost in enumerate((*mine, *mine[:5])):
                try:
                    ledger.charge(cost, "share" if number < len(mine) else "too much")
                except BudgetExceeded as error:
                    refused.append(error)

        threads = [threading.Thread(target=work, args=(shares[i::8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        charged = [entry.cost for entry in ledger.history()[1:]]
        assert (len(charged), len(refused)) == (160, 40)
        assert sum(Fraction(cost.epsilon) for cost in charged) <= 1  # type: ignore[union-attr]


RACE = """
share = split(PureDP(1.0), [1.0] * 240)[0]
accepted = 0
with Ledger.open(sys.argv[1], PureDP(1.0)) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        while True:
            ledger.charge(share, f"by {os.getpid()}")
            accepted += 1
    except BudgetExceeded:
        print(accepted)
"""


def race(path: Path, processes: int) -> list[int]:
    """The charges that each process got in; all start together, on a ledger that the first of them creates."""
    code = PRELUDE + RACE
    pipe = subprocess.PIPE
    racers = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], text=True, stdin=pipe, stdout=pipe)
        for _ in range(processes)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    outputs = [racer.communicate("go\n", timeout=120)[0] for racer in racers]
    assert all(racer.returncode == 0 for racer in racers)
    return [int(output) for output in outputs]


@pytest.mark.parametrize("processes", [4, pytest.param(16, marks=pytest.mark.slow)])
def test_processes_racing_for_one_budget_spend_exactly_it(path: Path, processes: int) -> None:
    accepted = race(path, processes)
    assert sum(accepted) == 240
    with Ledger.open(path) as ledger:
        charged = [entry.cost for entry in ledger.history()[1:]]
        assert len(charged) == 240
        exact = sum(Fraction(cost.epsilon) for cost in charged)  # type: ignore[union-attr]
        assert Fraction(1) - Fraction(1, 2**40) < exact <= 1
        assert ledger.spent == PureDP(float(exact))


def test_two_processes_with_one_key_show_one_answer(path: Path) -> None:
    code = """
with Ledger.open(sys.argv[1], PureDP(1.0)) as ledger:
    for number in range(50):
        charge = ledger.charge(PureDP(0.01), "query", str(number))
        answer = charge.answer or ledger.store_answer(charge, os.urandom(8).hex().encode())
        print(answer.decode())
"""
    Ledger.open(path, PureDP(1.0)).close()
    processes = [python(code, path) for _ in range(3)]
    shown = [finish(process) for process in processes]
    assert shown[0] == shown[1] == shown[2]
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == 51


def test_reading_while_another_process_writes(ledger: Ledger, path: Path) -> None:
    """A writer that holds its transaction open blocks no reader, and delays a writer only until it ends."""
    ledger.charge(PureDP(0.25), "before")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with Ledger.open(path) as reader:
        assert reader.spent == ApproxDP(0.25, 0.0)
        assert len(reader.history()) == 2
    done: list[object] = []
    writer = threading.Thread(target=lambda: done.append(ledger.charge(PureDP(0.25), "during")))
    writer.start()
    writer.join(0.2)
    assert not done
    connection.execute("ROLLBACK")
    connection.close()
    writer.join(60)
    assert done


def test_another_writer_that_never_ends_is_an_error(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qrelease.privacy.ledger_file.BUSY_SECONDS", 0.05)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with Ledger.open(path) as impatient, pytest.raises(LedgerError, match="stayed locked by another process"):
        impatient.charge(PureDP(0.1), "a")
    connection.close()
    ledger.charge(PureDP(0.1), "a")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_ledger_may_be_used_on_both_sides_of_a_fork(path: Path) -> None:
    code = """
ledger, memory = Ledger.open(sys.argv[1], PureDP(1.0)), Ledger.open(None, PureDP(1.0))
ledger.charge(PureDP(0.125), "before")
children = []
for child in range(3):
    pid = os.fork()
    if pid == 0:
        for number in range(10):
            ledger.charge(PureDP(2.0**-10), f"child {child}")
        try:
            memory.charge(PureDP(0.5), "twice")
        except LedgerError as error:
            os._exit("was opened before a fork" not in str(error))
        os._exit(1)
    children.append(pid)
for number in range(10):
    ledger.charge(PureDP(2.0**-10), "parent")
memory.charge(PureDP(0.5), "once")
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
print(ledger.spent.epsilon)
"""
    assert float(finish(python(code, path))) == 0.125 + 40 / 1024
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == 42


def connection_of(ledger: Ledger) -> sqlite3.Connection:
    return ledger.store.database._live()


def test_the_work_of_a_charge_does_not_grow() -> None:
    """SQLite's own count of steps for the 10th and the 2 000th charge."""
    with Ledger.open(None, PureDP(1e9)) as ledger:
        steps: list[int] = []
        for number in range(2000):
            if number in (10, 1999):
                count = [0]
                connection = connection_of(ledger)
                connection.set_progress_handler(lambda count=count: count.__setitem__(0, count[0] + 1), 1)
            ledger.charge(PureDP(0.1), "a")
            if number in (10, 1999):
                connection.set_progress_handler(None, 1)
                steps.append(count[0])
    assert steps[1] <= 1.1 * steps[0]


def test_a_hurried_log_keeps_its_length_and_all_that_is_in_it(tmp_path):
    """Also of a ledger that ends without being closed: the file and its log as they are then."""
    path, log = tmp_path / "people.ledger", tmp_path / "people.ledger-wal"
    with Ledger.open(path, PureDP(1.0)) as ledger:
        ledger.charge(PureDP(0.25), "before")
        ledger.store.hurry()
        length = log.stat().st_size
        for i in range(300):
            ledger.charge(PureDP(2.0**-10), "a query", str(i))
            if i == 100:
                ledger.store.tidy()
        assert log.stat().st_size == length
        for name in ("people.ledger", "people.ledger-wal"):
            shutil.copy(tmp_path / name, tmp_path / name.replace("people", "copy"))
    with Ledger.open(tmp_path / "copy.ledger") as copy:
        assert copy.spent == PureDP(0.25 + 300 * 2.0**-10)
        assert len(copy.history()) == 302
    link = tmp_path / "link.ledger"
    link.symlink_to(path)  # its log is beside the file itself
    with Ledger.open(link) as again:
        again.store.hurry()
        assert log.stat().st_size == length
        assert again.charge(PureDP(2.0**-10), "a query", "7").fresh is False


@pytest.mark.parametrize("hurried", [False, True])
def test_the_log_is_not_begun_anew_while_it_is_taken_over(tmp_path, hurried):
    """SQLite before 3.51.3 could then forget what is committed next: its "WAL-reset bug"."""
    path, log, kept = tmp_path / "people.ledger", tmp_path / "people.ledger-wal", []

    def commit_too(statement: str) -> None:
        if "wal_checkpoint" not in statement or len(kept) == 20:
            return
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            before = log.read_bytes()[:24]  # its head, with two numbers that change where it is begun anew
            other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            other.execute("UPDATE head SET rowid = rowid")
            kept.append(log.read_bytes()[:24] == before)

    with Ledger.open(path, PureDP(1.0)) as ledger:
        if hurried:
            ledger.store.hurry()
        connection_of(ledger).set_trace_callback(commit_too)
        for i in range(330):
            ledger.charge(PureDP(2.0**-10), "a query", str(i))
        connection_of(ledger).set_trace_callback(None)
    assert kept == [True] * 20


def test_ctrl_c_at_any_line_into_a_transaction_leaves_a_ledger_that_works(tmp_path: Path) -> None:
    """Interrupted at the first line of those that begin a charge's transactions, the second, and so on.

    Not on the way out, nor at a bare `try`: there a tracer would interrupt where Python takes no signal, between a lock
    and the `with` that releases it.
    """
    files = {module.__file__ for module in (ledger_file, ledger_guard, ledger_store)}

    def interrupted_at(number: int) -> bool:
        seen, inside = 0, set[FrameType]()

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal seen
            code = frame.f_code
            if code.co_filename not in files or code.co_name not in ("transaction", "held", "writing", "_patiently"):
                return None
            if code.co_name == "_patiently":  # whose end is that of BEGIN: there signals are taken
                seen += event == "return"
                if event == "return" and seen == number:
                    raise KeyboardInterrupt
                return trace
            line = linecache.getline(code.co_filename, frame.f_lineno).strip()
            if event == "line" and frame not in inside and not line.startswith("try:"):
                seen += 1
                if "yield" in line:
                    inside.add(frame)
                if seen == number:
                    raise KeyboardInterrupt
            return trace

        with Ledger.open(tmp_path / f"{number}.ledger", PureDP(1.0)) as ledger:
            before, stopped = sys.gettrace(), False
            sys.settrace(trace)
            try:
                ledger.charge(PureDP(0.25), "interrupted", key="one")
            except KeyboardInterrupt:
                stopped = True
            finally:
                sys.settrace(before)
            assert ledger.charge(PureDP(0.25), "interrupted", key="one").answer is None
            ledger.charge(PureDP(0.5), "afterwards")
            assert ledger.spent == PureDP(0.75)
            assert [entry.kind for entry in ledger.history()] == ["total", "charge", "charge"]
        return stopped

    interruptions = next(number for number in range(1, 200) if not interrupted_at(number)) - 1
    assert interruptions > 15
