"""The processes of a server: one that listens, loads and looks after the workers, and the workers, its forks.

The listening socket is made once and handed down, so that a worker that dies leaves the others answering. The one that
is forked in its place has the table and all code already, shares their memory, and goes on from the ledger: none of the
noise that is kept secret is carried into a fork. A worker ends as soon as its parent does, however that ended: it holds
the other end of a pipe. Nothing has to be put in order then, since all that was shown is in the ledger.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.server.limits import Rates

if TYPE_CHECKING:
    from qrelease.mechanisms.online import Online, PayingSession
    from qrelease.privacy import Cost, Neighbours
    from qrelease.server.app import Handlers
    from qrelease.table import Table

SWITCH: Final = 0.0005
"""Seconds after which the desk and the HTTP side let each other run: a desk that waits may hold up all workers."""

SPARE: Final = 20
"""Workers that are replaced at once; from then on one in `AGAIN` seconds, should they keep ending."""

AGAIN: Final = 5.0

GRACE: Final = 10
"""Seconds for requests that are being answered when the server is told to stop."""


@dataclass(frozen=True)
class Settings:
    """What a server is started with."""

    data: str
    schema: str
    ledger: str
    epsilon: float
    delta: float | None
    alpha: float
    beta: float
    neighbours: str
    columns: Sequence[str] | None
    dataset: str
    session: str
    declared: int | None
    rate: float


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `InvalidInput` if the address is taken or not this machine's."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family)
        # Found out anew from the descriptor, the socket knows its protocol: else asyncio leaves Nagle's delays on.
        return socket.socket(fileno=made.detach())
    except (OSError, OverflowError) as error:
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}"
        ) from None


def serve(settings: Settings, listening: socket.socket, workers: int) -> None:
    """Serve until told to stop, in this process or, with several workers, under this one."""
    if not all(find_spec(name) for name in ("starlette", "uvicorn", "h11")):
        raise InvalidInput("the server needs starlette and uvicorn: pip install 'qrelease[server]'")
    if workers < 1:
        raise InvalidInput(f"workers must be at least 1, got {workers}")
    loaded = _Loaded.of(settings)
    gc.collect()
    gc.freeze()  # what is loaded stays: to look through it for garbage takes 0.1 s, in the middle of a request
    if workers == 1:
        _work(settings, loaded, listening, first=True)
    else:
        _supervise(settings, loaded, listening, workers)


@dataclass(frozen=True)
class _Loaded:
    """What the workers share."""

    table: Table
    mechanism: Online
    cost: Cost

    @classmethod
    def of(cls, settings: Settings) -> _Loaded:
        """Read and check what the settings name; load all code by answering queries about made-up records."""
        import qrelease.server.app
        import qrelease.server.protocol  # noqa: F401  both for the workers
        from qrelease.conjunctions import Conjunctions
        from qrelease.mechanisms.online import Online
        from qrelease.privacy import ApproxDP, Neighbours, PureDP
        from qrelease.rows import PARQUET
        from qrelease.table import Table

        cost = ApproxDP(settings.epsilon, settings.delta) if settings.delta else PureDP(settings.epsilon)
        declared = None if settings.declared is None else Conjunctions(settings.declared)
        mechanism = Online(alpha=settings.alpha, beta=settings.beta, declared=declared)
        read = Table.read_parquet if Path(settings.data).suffix.lower() in PARQUET else Table.read_csv
        table = read(settings.data, settings.schema, settings.columns)
        neighbours = Neighbours.parse(settings.neighbours)
        records = len(table) if neighbours is Neighbours.REPLACE_ONE else None
        mechanism.check(table.domain, cost, neighbours, records)
        loaded = cls(table, mechanism, cost)
        loaded.rehearse(neighbours)
        return loaded

    def rehearse(self, neighbours: Neighbours) -> None:
        """No analyst shall wait while kernels and prices are loaded, nor while a fork makes the pages its own."""
        import numpy as np

        from qrelease.ledger import Ledger
        from qrelease.predicate import cell_text
        from qrelease.privacy import ApproxDP, PureDP
        from qrelease.release import Curator
        from qrelease.table import Table

        enough = PureDP(8.0) if isinstance(self.cost, PureDP) else ApproxDP(8.0, 1e-9)
        domain, mechanism = self.table.domain, replace(self.mechanism, declared=None)
        made_up = Table(domain, (np.zeros(math.ceil(1000 / mechanism.alpha), np.uint8),) * len(domain))
        with Ledger.open(None, enough, neighbours=neighbours) as ledger:
            session = Curator(made_up, ledger).open(mechanism, enough)
            cells = [cell_text(a, 0) for a in domain if a.size > 1][:3]
            for text in (*cells, " and ".join(cells)) if cells else ():
                session.answer(text)
            with suppress(TooLarge):
                _ = session.synopsis


def _work(settings: Settings, loaded: _Loaded, listening: socket.socket, *, first: bool) -> None:
    """Be a worker, until a SIGTERM or SIGINT; then finish what was begun. The first says what answers cost."""
    import uvicorn

    from qrelease.server.app import application
    from qrelease.server.protocol import ImpatientProtocol, Server

    sys.setswitchinterval(SWITCH)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.WARNING)
    with _office(settings, loaded, first=first) as handlers:
        config = uvicorn.Config(
            application(handlers),
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            lifespan="off",
            ws="none",
            http=ImpatientProtocol,
            backlog=1,
            timeout_graceful_shutdown=GRACE,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # uvicorn heeds them while it runs, and sends them again after
        Server(config).run(sockets=[listening])


@contextmanager
def _office(settings: Settings, loaded: _Loaded, *, first: bool) -> Iterator[Handlers]:
    """Everything behind the HTTP side, open; closed after the last request."""
    from qrelease.analysts import Analysts
    from qrelease.ledger import Ledger
    from qrelease.privacy import Neighbours
    from qrelease.release import Curator
    from qrelease.server.app import Handlers, Limits
    from qrelease.server.desk import Desk
    from qrelease.server.service import Public, Service

    loaded.rehearse(Neighbours.parse(settings.neighbours))
    table, mechanism, cost = loaded.table, loaded.mechanism, loaded.cost
    path = Path(settings.ledger)
    total = None if path.exists() else cost
    with ExitStack() as closing:
        # Two connections: the desk's, and one for what is read without waiting there.
        ledger, door = (
            closing.enter_context(Ledger.open(path, total, dataset=settings.dataset, neighbours=settings.neighbours))
            for _ in range(2)
        )
        curator = Curator(table, ledger)
        opened: list[PayingSession] = []

        def service() -> Service:
            opened[:] = [curator.open(mechanism, cost, key=settings.session)]
            return Service(opened[0], Analysts(ledger))

        desk = Desk(ledger, service, path.with_name(f"{path.name}-turn"))
        desk.start()
        closing.callback(desk.stop)
        if first:
            print(outlook(opened[0]), flush=True)
        yield Handlers(desk, Analysts(door), Public.of(table.domain, ledger, mechanism), Limits(rate=settings.rate))


def outlook(session: PayingSession) -> str:
    """What an answer costs and how many the budget holds, one line, of public facts: the session's count of records."""
    from qrelease.books import Unit
    from qrelease.privacy import ZCDP, ApproxDP
    from qrelease.privacy.conversions import zcdp_of
    from qrelease.workload import Workload

    domain, total = session.domain, session.cost
    (count,) = Workload.marginals(domain, [()]).groups
    cost = session.price(Unit.of(domain, count))
    whole = zcdp_of(total) if isinstance(cost, ZCDP) and isinstance(total, ApproxDP) else total
    (price, *_), (most, *_) = cost.to_json().values(), whole.to_json().values()
    within = f"{100 * session.mechanism.alpha:g}% of {session.records:,} records"
    return (
        f"a new answer within {within} costs {cost:.6g} by itself: {int(most / price):,} use up {total:.6g};"
        " those that follow from earlier ones are free, and a synopsis for many may be cheaper"
    )


def _supervise(settings: Settings, loaded: _Loaded, listening: socket.socket, workers: int) -> None:
    ours, theirs = os.pipe()

    def start(*, first: bool) -> int:
        process = os.fork()
        if not process:
            os.close(theirs)
            _be_a_worker(settings, loaded, listening, ours, first=first)
        return process

    alive: set[int] = set()
    first = True
    starts = Rates(1 / AGAIN, workers + SPARE)
    try:
        while True:
            for process in [*alive]:
                ended, status = os.waitpid(process, os.WNOHANG)
                alive.discard(ended)
                if ended and os.waitstatus_to_exitcode(status) == 2:
                    raise InvalidInput("a worker could not start; see above")
            while len(alive) < workers and starts.take("a worker"):
                alive.add(start(first=first))
                first = False
            time.sleep(0.05)
    except KeyboardInterrupt:
        return
    finally:
        for process in alive:
            os.kill(process, signal.SIGTERM)
        until = time.monotonic() + GRACE + 5  # who is not done by then ends with this process
        while alive and time.monotonic() < until:
            alive = {process for process in alive if not os.waitpid(process, os.WNOHANG)[0]}
            time.sleep(0.01)
        os.close(theirs)
        os.close(ours)


def _be_a_worker(
    settings: Settings, loaded: _Loaded, listening: socket.socket, parent: int, *, first: bool
) -> NoReturn:
    """The rest of a forked process: it ends with 2, after one line, for a mistake that can be mended."""
    status = 1
    try:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        _work(settings, loaded, listening, first=first)
        status = 0
    except (QReleaseError, OSError, MemoryError) as error:
        print(f"qrelease: {error or 'out of memory'}", file=sys.stderr, flush=True)
        status = 2
    finally:
        os._exit(status)


def _end_with(parent: int) -> None:
    os.read(parent, 1)  # returns when the other end is closed
    os._exit(1)
