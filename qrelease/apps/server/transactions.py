"""The transactions of a worker: one thread alone touches the ledger and the session, so they need no locks.

Requests queue up. The thread takes those that wait, for `TransactionSettings.seconds`, and does them in one transaction
of the ledger: look the key up, charge, draw, write down. One fsync makes all of them durable together, and only then is
any of them answered. If anything fails that should not, the transaction is undone, nobody has seen what was drawn in
it, the session is opened again from the ledger, and each of its requests is done in a transaction by itself.

What can be put off is done while no request is on its way: to learn from the answers, to take in what other workers
wrote, to tidy the ledger up. It would hold up replies: this thread and the loop's have one interpreter between them.

Several workers take turns by a lock on a file beside the ledger: SQLite's own lock is what keeps them apart, but it
is waited for by sleeping, and wakes nobody. The lock goes with the process that holds it, also when that is killed.
A ledger on a server needs none of that: its lock wakes who waits, on whatever host.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from qrelease.errors import LedgerError, OutOfMemory, QReleaseError
from qrelease.privacy.ledger import Ledger

if TYPE_CHECKING:
    from qrelease.apps.server.service import Service

log = logging.getLogger("qrelease.server")


@dataclass(frozen=True)
class TransactionSettings:
    """How long transactions last, and what is done between them."""

    seconds: float = 0.004
    """Seconds after which a transaction takes on no more requests, since all that share an fsync wait for the last of
    them; but on a slow disk it takes on requests for as long as the last fsync took."""

    pause_seconds: float = 0.002
    """Seconds without requests after which what was put off is done: before, it would hold up the replies that are
    being sent and the requests that they lead to."""

    max_pause_seconds: float = 0.5
    """Seconds after which an idle worker reads, at the latest, what other workers wrote, so that it need not in a
    transaction."""

    tidying_seconds: float = 1.0
    """Seconds after which the ledger is tidied up where there was no pause to do it in: what its file does not have
    without its log is younger than that. Before half of them are over it is not tidied up in a pause either, since
    that waits for the disk twice, and in a pause after each answer the next one would often wait for it."""

    max_waiting: int = 1024
    """Requests that may queue up; further ones are told to try again."""


SETTINGS: Final = TransactionSettings()
"""The settings of all workers."""

_T = TypeVar("_T")
_Outcome = tuple[Any, Exception | None]


class Busy(Exception):  # noqa: N818  it is no error of anybody's
    """The work could not be done now; it was not done, or not yet."""


class Fault(Exception):  # noqa: N818
    """The work failed in a way that nobody foresaw; nothing of it was done."""


class Transactions:
    """Does work on a service, several requests in one transaction of the ledger.

    Parameters
    ----------
    ledger
        What the service writes to.
    open_service
        Makes the service from what is in the ledger, at the start and after a failure.
    turn
        The file by whose lock several workers take turns; None where the ledger's own lock is waited for without
        sleeping, as on a server.
    charged
        Told of the charges of each transaction, once they are durable.
    """

    def __init__(
        self,
        ledger: Ledger,
        open_service: Callable[[], Service],
        turn: Path | None,
        charged: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._charged = charged
        self._ledger, self._open, self._turn = ledger, open_service, turn
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waiting: deque[_Job] = deque()  # taken from the queue, and not done yet
        self._commit = 0.0  # seconds that the last one took
        self._untidy_since: float | None = None
        self._coming = 0
        self._service: Service | None = None
        self._thread = threading.Thread(target=self._work, name="transactions")

    def start(self) -> None:
        """Open the service, so that what is wrong with it is raised here, and begin."""
        self._service = self._open()
        self._ledger.store.hurry()
        self._thread.start()

    def stop(self) -> None:
        """Finish what was taken on, and end."""
        self._queue.put(None)
        self._thread.join()

    @property
    def well(self) -> bool:
        """Whether it is at work, and its last round was not undone."""
        return self._thread.is_alive() and self._service is not None

    @contextlib.contextmanager
    def coming(self) -> Iterator[None]:
        """While there may be work soon, nothing else is begun; for the thread of the loop."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    @property
    def _idle(self) -> bool:
        return not self._coming and self._queue.empty()

    async def do(self, work: Callable[[Service], _T], seconds: float) -> _T:
        """What `work` returns or raises, once all that it did is durable.

        `Busy` when that takes too long; then it may still be done.
        """
        if self._queue.qsize() + len(self._waiting) >= SETTINGS.max_waiting:
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
        descriptor = None if self._turn is None else os.open(self._turn, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while self._fill():
                outcomes = self._round([*self._waiting], descriptor)
                done = [self._waiting.popleft() for _ in outcomes]
                with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                    done[0].loop.call_soon_threadsafe(_deliver, done, outcomes)
                self._untidy_since = self._untidy_since or time.monotonic()
                if self._untidy_for > SETTINGS.tidying_seconds:
                    self._tidy()
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _fill(self) -> bool:
        """Take all the work that waits, and wait for some if there is none; False at the end."""
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._queue.get_nowait() if self._waiting else self._wait()
                if job is None:
                    self._queue.put(None)
                    break
                if not job.future.cancelled():
                    self._waiting.append(job)
        return bool(self._waiting)

    def _wait(self) -> _Job | None:
        """The next job; while none comes, there is time for what was put off."""
        pause = SETTINGS.pause_seconds
        while True:
            with contextlib.suppress(queue.Empty):
                return self._queue.get(timeout=pause)
            pause = (
                SETTINGS.pause_seconds
                if self._coming or self._keep_up()
                else min(2 * pause, SETTINGS.max_pause_seconds)
            )

    def _round(self, jobs: Sequence[_Job], descriptor: int | None) -> list[_Outcome]:
        """Do the first of the jobs, and as many more as there is time for, in one transaction: what came of each."""
        outcomes: list[_Outcome] = []
        try:
            with self._turn_of(descriptor):
                if self._service is None:
                    self._service = self._open()
                until = time.monotonic() + max(SETTINGS.seconds, self._commit)
                with self._service.together():
                    self._service.catch_up()
                    for job in jobs:
                        outcomes.append(job.done(self._service))
                        if time.monotonic() > until:
                            break
                    done = time.monotonic()
                self._commit = time.monotonic() - done
                self._charged(self._service.charges())
            return outcomes
        except LedgerError as error:
            log.error("%s", error)  # the operator's to mend
            self._service = None
            return [(None, Busy("the ledger is in trouble"))] * len(jobs)
        except Exception as error:
            self._service = None
            if len(jobs) > 1:  # whose fault it is shows when each is done by itself
                tried = jobs[: len(outcomes) + 1]
                return [outcome for job in tried for outcome in self._round([job], descriptor)]
            log.error("a fault: %s", type(error).__name__)  # its text may tell too much
            return [(None, Busy("out of memory") if isinstance(error, MemoryError) else Fault())]

    def _keep_up(self) -> bool:
        """Look what other workers wrote, learn from that and from what was done here, tidy up; whether it learned.

        As long as there is no work; what comes meanwhile waits for one thing to be learned, or for the disk. After a
        failure it is opened again, so that who asks for its health before asking anything else learns when it is over.
        """
        learned = False
        try:
            if self._service is None:
                self._service = self._open()
            self._service.catch_up()
            while self._idle and self._service.learn():
                learned = True
            if self._untidy_for > SETTINGS.tidying_seconds / 2 and self._idle:
                self._tidy()
        except LedgerError as error:
            log.error("%s", error)
            self._service = None
        except Exception as error:
            log.error("a fault: %s", type(error).__name__)
            self._service = None
        return learned

    @property
    def _untidy_for(self) -> float:
        """Seconds since the first transaction that the ledger was not tidied up after."""
        return 0.0 if self._untidy_since is None else time.monotonic() - self._untidy_since

    def _tidy(self) -> None:
        self._untidy_since = None
        with contextlib.suppress(LedgerError):  # the next round meets it again, and says so
            self._ledger.store.tidy()

    @contextlib.contextmanager
    def _turn_of(self, descriptor: int | None) -> Iterator[None]:
        """This worker's turn; while another has it, there is time to learn, which else is done in the turn."""
        if descriptor is None:
            yield
            return
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not (self._service and self._service.learn()):
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                    break
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


class _Job:
    """Some work, and who waits for it in which event loop."""

    def __init__(self, work: Callable[[Service], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work, self.loop = work, loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def done(self, service: Service) -> _Outcome:
        """What comes of it; a refusal is of this request alone, anything else ends the round."""
        try:
            return self.work(service), None
        except (LedgerError, OutOfMemory):
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
