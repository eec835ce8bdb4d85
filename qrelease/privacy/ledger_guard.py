"""Guards a ledger's connection: one thread at a time, and no use after a fork.

Before a fork connections are closed, since neither SQLite's locks nor a conversation with a server survive one; parent
and child connect again on their next use. Of a fork inside a transaction the parent goes on with it, and to the child
the ledger is closed for good.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from qrelease.errors import LedgerError

FORK_SECONDS: Final = 60.0
"""Seconds that a fork waits for other threads to be done with a ledger."""


class Guard:
    """The lock of a connection, and who is inside: the thread that has the lock, and whether it writes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._holder: int | None = None
        self._writer: int | None = None

    @property
    def held_here(self) -> bool:
        """Whether this thread is using it, so that waiting for it would never end."""
        return self._holder == threading.get_ident()

    @property
    def in_writing(self) -> bool:
        """Whether this thread is inside `writing`."""
        return self._writer == threading.get_ident()

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """One thread at a time; of a thread that would wait for itself it is a `LedgerError`."""
        if self.held_here:
            raise LedgerError(f"{name} is in use by this very thread, in a transaction that is not over")
        with self.lock:
            try:  # before it is set: Ctrl-C may come just after
                self._holder = threading.get_ident()
                yield
            finally:
                self._holder = None

    @contextmanager
    def writing(self, write: bool) -> Iterator[None]:
        """While the thread that has the lock writes, or only reads."""
        try:
            self._writer = threading.get_ident() if write else None
            yield
        finally:
            self._writer = None

    def renew(self) -> None:
        """In the child of a fork: whoever held it is not here."""
        self.lock, self._holder, self._writer = threading.Lock(), None, None


class Connected(Protocol):
    """What has a connection that a fork must not share."""

    guard: Guard

    def before_fork(self) -> None:
        """Let go of the connection until the next use; the caller holds the lock."""

    def lose(self) -> None:
        """Give the connection up, in the child of a fork inside a transaction, which is the parent's."""


_connected: "weakref.WeakSet[Connected]" = weakref.WeakSet()
_forking = threading.Lock()
_held: list[Connected] = []


def watch(connected: Connected) -> None:
    """Take care of it at forks."""
    _connected.add(connected)


def _before_fork() -> None:
    """Close what can be closed: not what this thread is using, nor what another does not let go of."""
    _forking.acquire()
    for connected in list(_connected):
        if connected.guard.held_here or not connected.guard.lock.acquire(timeout=FORK_SECONDS):
            continue
        _held.append(connected)
        connected.before_fork()


def _after_fork() -> None:
    while _held:
        _held.pop().guard.lock.release()
    _forking.release()


def _after_fork_in_child() -> None:
    for connected in set(_connected) - set(_held):
        connected.guard.renew()
        connected.lose()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
