"""The desk: the one thread of a worker that touches the ledger and the session, and so needs no locks around them.

Requests queue up before it. It takes all that wait, up to `ROUND`, and does them in one transaction of the ledger:
look the token up, look the key up, charge, draw, write down. One fsync makes all of them durable together, and only
then is any of them answered. If anything fails that should not, the transaction is undone, nobody has seen what was
drawn in it, the session is opened again from the ledger, and each of its requests is done in a transaction by itself.

Several workers take turns by a lock on a file beside the ledger: SQLite's own lock is what keeps them apart, but it
is waited for by sleeping, and wakes nobody. The lock goes with the process that holds it, also when that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from qrelease.errors import LedgerError, QReleaseError
from qrelease.ledger import Ledger
from qrelease.server.service import Service

log = logging.getLogger("qrelease.server")

ROUND: Final = 64
"""Requests in one transaction: so many share an fsync, and so few make others wait."""

WAITING: Final = 1024
"""Requests that may queue up; further ones are told to try again."""

_T = TypeVar("_T")
_Outcome = tuple[Any, Exception | None]


class Busy(Exception):  # noqa: N818  it is no error of anybody's
    """The desk could not do the work now; it was not done, or not yet."""


class Fault(Exception):  # noqa: N818
    """The work failed in a way that nobody foresaw; nothing of it was done."""


class Desk:
    """Does work on a service, in rounds.

    open   makes the service from what is in the ledger, at the start and after a failure
    turn   the file by whose lock several workers take turns
    """

    def __init__(self, ledger: Ledger, open_service: Callable[[], Service], turn: Path) -> None:
        self._ledger, self._open, self._turn = ledger, open_service, turn
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._service: Service | None = None
        self._thread = threading.Thread(target=self._work, name="desk")

    def start(self) -> None:
        """Open the service, so that what is wrong with it is raised here, and begin."""
        self._service = self._open()
        self._thread.start()

    def stop(self) -> None:
        """Finish what was taken on, and end."""
        self._queue.put(None)
        self._thread.join()

    async def do(self, work: Callable[[Service], _T], seconds: float) -> _T:
        """What `work` returns or raises, once all that it did is durable.

        `Busy` when that takes too long; then it may still be done.
        """
        if self._queue.qsize() >= WAITING:
            raise Busy("too many requests are waiting")
        job = _Job(work, asyncio.get_running_loop())
        self._queue.put(job)
        try:
            async with asyncio.timeout(seconds):
                found: _T = await job.future
                return found
        except TimeoutError:
            raise Busy("it takes too long") from None

    def _work(self) -> None:
        descriptor = os.open(self._turn, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while jobs := self._taken():
                outcomes = self._round(jobs, descriptor)
                with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                    jobs[0].loop.call_soon_threadsafe(_deliver, jobs, outcomes)
        finally:
            os.close(descriptor)

    def _taken(self) -> list[_Job]:
        """All the work that waits, up to a round of it, and at least one; none at the end."""
        jobs: list[_Job] = []
        with contextlib.suppress(queue.Empty):
            while len(jobs) < ROUND:
                job = self._queue.get(block=not jobs)
                if job is None:
                    self._queue.put(None)
                    break
                if not job.future.cancelled():
                    jobs.append(job)
        return jobs

    def _round(self, jobs: list[_Job], descriptor: int) -> list[_Outcome]:
        """Do the jobs in one transaction: what each returned, or what it was refused with."""
        try:
            with _locked(descriptor):
                if self._service is None:
                    self._service = self._open()
                with self._ledger.transaction():
                    self._service.catch_up()
                    return [job.done(self._service) for job in jobs]
        except LedgerError as error:
            log.error("%s", error)  # the operator's to mend
            self._service = None
            return [(None, Busy("the ledger is in trouble"))] * len(jobs)
        except Exception as error:
            self._service = None
            if len(jobs) > 1:  # whose fault it is shows when each is done by itself
                return [outcome for job in jobs for outcome in self._round([job], descriptor)]
            log.error("a fault: %s", type(error).__name__)  # its text may tell too much
            return [(None, Fault())]


class _Job:
    """Some work, and who waits for it in which event loop."""

    def __init__(self, work: Callable[[Service], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work, self.loop = work, loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def done(self, service: Service) -> _Outcome:
        """What comes of it; a refusal is of this request alone, anything else ends the round."""
        try:
            return self.work(service), None
        except LedgerError:
            raise
        except QReleaseError as refusal:
            return None, refusal

    def deliver(self, outcome: _Outcome) -> None:
        """Tell whoever still waits; in the thread of the loop."""
        if not self.future.done():
            found, refusal = outcome
            if refusal is None:
                self.future.set_result(found)
            else:
                self.future.set_exception(refusal)


def _deliver(jobs: list[_Job], outcomes: list[_Outcome]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        job.deliver(outcome)


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
