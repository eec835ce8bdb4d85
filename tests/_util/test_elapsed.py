"""The sign that something is at work: on a terminal, after a while, and nowhere else."""

import contextlib
import io
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qrelease as qr
from qrelease._util.elapsed import SILENT, elapsed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("on", [io.StringIO, Terminal])
def test_what_takes_long_is_seen_on_a_terminal_alone(on: type[io.StringIO]) -> None:
    seen = on()
    with contextlib.redirect_stderr(seen):
        with elapsed("short"):
            pass
        assert "short" not in seen.getvalue()
        with elapsed("releasing"):
            deadline = time.monotonic() + (10 if seen.isatty() else SILENT + 0.3)
            while "releasing: 00:0" not in seen.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
    assert ("releasing: 00:0" in seen.getvalue()) == seen.isatty()


def test_a_line_that_was_shown_is_cleared_at_the_end() -> None:
    seen = Terminal()
    with contextlib.redirect_stderr(seen), elapsed("releasing"):
        until_seen("releasing", seen)
    assert seen.getvalue().endswith(" \r")  # what is printed next does not stand behind it


@dataclass(frozen=True)
class Slow:
    """A mechanism that is at work until that is seen; after ten seconds it gives up."""

    name = "slow"

    def check(self, *_: Any) -> None:
        """Nothing is wrong with it."""

    def release(self, private: Any, workload: Any, cost: Any) -> Any:
        deadline = time.monotonic() + 10
        while "releasing: 00:0" not in sys.stderr.getvalue() and time.monotonic() < deadline:  # type: ignore[union-attr]
            time.sleep(0.01)
        return qr.Laplace().release(private, workload, cost)


def test_a_release_from_python_is_seen_at_work_too() -> None:
    domain = qr.Domain.coded({"a": 2})
    table, workload = qr.Table(domain, (np.array([0, 1, 1]),)), qr.Workload.marginals(domain, 1)
    seen, cost = Terminal(), qr.PureDP(1.0)
    with contextlib.redirect_stderr(seen), qr.Ledger.open(None, cost) as ledger:
        qr.Curator(table, ledger, qr.Entropy.insecure(1)).release(Slow(), workload, cost)
    assert "releasing: 00:0" in seen.getvalue()


def until_seen(what: str, seen: Terminal) -> None:
    deadline = time.monotonic() + 10
    while f"{what}: 00:0" not in seen.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_what_it_is_at_work_on_may_change() -> None:
    seen = Terminal()
    with contextlib.redirect_stderr(seen), elapsed("reading") as at:
        at("writing")
        until_seen("writing", seen)
    assert "writing: 00:0" in seen.getvalue()
    assert "reading: 00:0" not in seen.getvalue()


@pytest.mark.skipif(sys.platform == "win32", reason="a named pipe")
def test_a_verification_says_what_it_does(tmp_path: Path) -> None:
    domain, cost = qr.Domain.coded({"a": 2}), qr.PureDP(1.0)
    table, workload = qr.Table(domain, (np.array([0, 1, 1]),)), qr.Workload.marginals(domain, 1)
    with qr.Ledger.open(None, cost) as ledger:
        qr.Curator(table, ledger).release(qr.Laplace(), workload, cost).save(tmp_path / "out")
    seen, key = Terminal(), tmp_path / "key"
    os.mkfifo(key)

    def late() -> None:
        until_seen("checking the files", seen)
        key.write_text("none")

    writer = threading.Thread(target=late)
    with contextlib.redirect_stderr(seen), pytest.raises(qr.InvalidInput):
        writer.start()
        qr.verify(tmp_path / "out", key=key)
    writer.join()
    assert "checking the files: 00:0" in seen.getvalue()
