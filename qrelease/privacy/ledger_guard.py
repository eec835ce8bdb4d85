"""Guards a ledger's connection, and what a session knows of it: one thread at a time, and no use after a fork.

Before a fork connections are closed, since neither SQLite's locks nor a conversation with a server survive one; parent
and child connect again on their next use. Of a fork inside a transaction the parent goes on with it, and to the child
the ledger is closed for good. To the child a session is closed, too, that another thread of the parent was using then.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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


class SessionLock:
    """The lock of a session: one thread at a time, which may take it again while it has it.

    In the child of a fork no other thread lives on. If one had the lock, nobody would ever give it back, and what it
    was changing may be half changed: there `lock` is a `LedgerError`.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._lock = threading.RLock()
        self._torn = False
        _session_locks.add(self)

    @property
    def lock(self) -> AbstractContextManager[object]:
        """To be taken by a `with` just then: Python's own, between whose taking and the block no Ctrl-C comes."""
        if self._torn:
            raise LedgerError(
                f"another thread was using the session with key {self._key!r} when this process was forked: open it"
                " again, under its key"
            )
        return self._lock

    def look_after_fork(self) -> None:
        """In the child of a fork: give it up, if a thread had it that is not here."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._torn = True


class Connected(Protocol):
    """What has a connection that a fork must not share."""

    guard: Guard

    def before_fork(self) -> None:
        """Let go of the connection until the next use; the caller holds the lock."""

    def lose(self) -> None:
        """Give the connection up, in the child of a fork inside a transaction, which is the parent's."""


_connected: "weakref.WeakSet[Connected]" = weakref.WeakSet()
_session_locks: "weakref.WeakSet[SessionLock]" = weakref.WeakSet()
_forking = threading.Lock()
_held: list[Connected] = []


def watch(connected: Connected) -> None:
    """Take care of it at forks."""
    _connected.add(connected)


@contextmanager
def unforked() -> Iterator[None]:
    """No other thread forks meanwhile: for a connection that nobody takes care of at forks. It shall be short."""
    with _forking:
        yield


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
    for lock in list(_session_locks):
        lock.look_after_fork()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
