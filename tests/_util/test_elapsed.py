"""The sign that something is at work: on a terminal, after a while, and nowhere else."""

import contextlib
import io
import sys
import time
from dataclasses import dataclass
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
