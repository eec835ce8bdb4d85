"""A server that reads its file of datasets again on SIGHUP, without an interruption of its answers.

This process holds the listening socket and no table. What serves is a child of it, with workers of its own; on a SIGHUP
another child reads everything anew, and once all its workers can take requests the one before is told to stop: it ends
what it began, and closes its ledgers. Both take requests from the same socket meanwhile, so none is refused. A file
that is wrong ends with the child that read it, and the service stays as it was. Nothing is handed over from one to the
other but by the ledgers, which several processes may always share.

At the start, who starts the server reads on the terminal what is wrong with the records, with their values. After a
SIGHUP the same goes to a file that only its owner may read: standard error is a log by then, and whoever reads logs is
not one whom the records were shown to.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from qrelease._util.owner_only import append_for_owner
from qrelease.apps.server.processes import GRACE_SECONDS, Serving, end_with, serve, tell_on_stderr
from qrelease.errors import QReleaseError

log = logging.getLogger("qrelease.server")

Read = Callable[[], Serving]


@dataclass
class _Service:
    """A child that serves.

    process  its id
    heard    a pipe with a byte for each worker that can take requests
    workers  how many it will have
    status   with which it ended; None while it runs
    """

    process: int
    heard: int
    workers: int
    begun: int = 0
    status: int | None = field(default=None)

    @property
    def ready(self) -> bool:
        """Whether all workers were at work."""
        with suppress(BlockingIOError):
            self.begun += len(os.read(self.heard, 1 << 10))
        return self.begun >= self.workers

    @property
    def ended(self) -> bool:
        """Whether it is there no more."""
        if self.status is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self.status = os.waitstatus_to_exitcode(status)
                os.close(self.heard)
        return self.status is not None

    def stop(self) -> None:
        """Tell it to end what it began."""
        if not self.ended:
            os.kill(self.process, signal.SIGTERM)


def keep_serving(read: Read, listening: socket.socket, metrics: socket.socket | None, said: Path) -> int:
    """Serve what `read` gives, and what it gives after each SIGHUP, until told to stop; the exit code.

    said  the file of what a reload says of the records, for its owner alone; there is none where it said nothing

    Raises `InvalidInput` as `read` does, the first time.
    """
    ours, theirs = os.pipe()  # which ends with this process
    asked = [True]
    before = signal.signal(signal.SIGHUP, lambda *_: asked.append(True))
    here: _Service | None = None
    coming: _Service | None = None
    ending: list[_Service] = []

    def begin() -> _Service:
        serving = read()
        with suppress(OSError):
            said.unlink()
        if here is not None:
            serving = replace(serving, tell=lambda text: _tell_owner(text, said))
        heard, say = os.pipe()
        process = os.fork()
        if not process:
            for end in (theirs, heard):
                os.close(end)
            _serve(serving, listening, metrics, ours, say)
        os.close(say)
        os.set_blocking(heard, False)
        return _Service(process, heard, serving.workers)

    try:
        while True:
            if asked and coming is None:
                asked.clear()
                try:
                    coming = begin()
                except QReleaseError as error:
                    if here is None:
                        raise
                    tell_on_stderr(f"{error}; the service goes on as it was")
            if coming is not None and coming.ended:
                if here is None:
                    return coming.status or 1
                tell_on_stderr("the service goes on as it was")
                coming = None
            elif coming is not None and coming.ready:
                if here is not None:
                    here.stop()
                    ending.append(here)
                    tell_on_stderr("the file was read again")
                here, coming = coming, None
            if here is not None and here.ended:
                tell_on_stderr("the service ended")
                return here.status or 1
            ending = [service for service in ending if not service.ended]
            time.sleep(0.05)
    except KeyboardInterrupt:
        return 0
    finally:
        left = [service for service in (here, coming, *ending) if service is not None]
        for service in left:
            service.stop()
        until = time.monotonic() + GRACE_SECONDS + 10  # who is not done by then ends with this process
        while time.monotonic() < until and not all(service.ended for service in left):
            time.sleep(0.01)
        signal.signal(signal.SIGHUP, before)
        os.close(theirs)
        os.close(ours)


def _serve(
    serving: Serving, listening: socket.socket, metrics: socket.socket | None, parent: int, say: int
) -> NoReturn:
    """The rest of a child; 2, after one line, for a mistake that can be mended."""
    status = 1
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the parent's alone; a terminal sends it to all
        end_with(parent)
        serve(serving, listening, metrics, begun=lambda: os.write(say, b"!"))
        status = 0
    except KeyboardInterrupt:
        status = 0
    except (QReleaseError, OSError, MemoryError) as error:
        serving.tell(str(error) or "out of memory")
        status = 2
    finally:
        os._exit(status)


def _tell_owner(text: str, said: Path) -> None:
    """Add a line to the file, and say where it is; where there can be none, the line is lost, and no log gets it."""
    try:
        append_for_owner(said, f"qrelease: {text}\n")
    except OSError as error:
        tell_on_stderr(f"{said} cannot be written, which would say what is to be said of the records: {error.strerror}")
    else:
        tell_on_stderr(f"what is to be said of the records is in {said}, for its owner alone")
