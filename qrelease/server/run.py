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
from collections.abc import Callable, Iterator, Sequence
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
"""Workers that are replaced at once though they ended before they were at work; from then on one in `AGAIN` seconds."""

AGAIN: Final = 5.0

RATES: Final = (1e-3, 1e9)
"""Requests a second that may be allowed."""

PEOPLE: Final = 10**10
"""More than there are."""

REHEARSED: Final = 1e-3
"""The least alpha of a rehearsal, which makes up records in inverse proportion: a million."""

GRACE: Final = 10
"""Seconds for requests that are being answered when the server is told to stop."""

log = logging.getLogger("qrelease.server")


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

    def __post_init__(self) -> None:
        least, most = RATES
        if not least <= self.rate <= most:
            raise InvalidInput(f"rate must be in {least:g}..{most:g}, got {self.rate:g}")
        for name, text in (("dataset", self.dataset), ("session", self.session)):
            if not text or any("\ud800" <= c <= "\udfff" for c in text):
                raise InvalidInput(f"{name} must be a text that is not empty, got {text!r}")


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
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.WARNING)
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
        from qrelease.books import Books
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
        # What is refused whatever the table holds is refused here, before there is a ledger.
        mechanism.check(table.domain, cost, neighbours, PEOPLE if records is None else records)
        if records is None:
            Books(table.domain, neighbours, cost, mechanism.alpha, mechanism.beta, declared, None).count()
        loaded = cls(table, mechanism, cost)
        loaded.rehearse(neighbours)
        return loaded

    def rehearse(self, neighbours: Neighbours) -> None:
        """No analyst shall wait while kernels and prices are loaded, nor while a fork makes the pages its own."""
        import numpy as np

        from qrelease.curator import Curator
        from qrelease.ledger import Ledger
        from qrelease.predicate import cell_text
        from qrelease.privacy import ApproxDP, PureDP
        from qrelease.server.synthetic import records
        from qrelease.table import Table

        enough = PureDP(8.0) if isinstance(self.cost, PureDP) else ApproxDP(8.0, 1e-9)
        domain, alpha = self.table.domain, max(self.mechanism.alpha, REHEARSED)
        mechanism = replace(self.mechanism, alpha=alpha, declared=None)
        made_up = Table(domain, (np.zeros(math.ceil(1000 / alpha), np.uint8),) * len(domain))
        with Ledger.open(None, enough, neighbours=neighbours) as ledger:
            session = Curator(made_up, ledger).open(mechanism, enough)
            cells = [cell_text(a, 0) for a in domain if a.size > 1][:3]
            for text in (*cells, " and ".join(cells)) if cells else ():
                session.answer(text)
            with suppress(TooLarge):
                records(session.synopsis, 1, "json", np.random.default_rng())


def _work(
    settings: Settings,
    loaded: _Loaded,
    listening: socket.socket,
    *,
    first: bool,
    begun: Callable[[], object] = lambda: None,
) -> None:
    """Be a worker, until a SIGTERM or SIGINT; then finish what was begun. The first says where, and prices.

    begun  is called when the desk is at work
    """
    from qrelease.server.app import application
    from qrelease.server.protocol import Server, configured

    sys.setswitchinterval(SWITCH)
    host, port = listening.getsockname()[:2]
    greeting = f"listening on http://{f'[{host}]' if ':' in host else host}:{port}" if first else None
    with _office(settings, loaded, greeting) as handlers:
        begun()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # uvicorn heeds them while it runs, and sends them again after
        Server(configured(application(handlers), GRACE)).run(sockets=[listening])


@contextmanager
def _office(settings: Settings, loaded: _Loaded, greeting: str | None) -> Iterator[Handlers]:
    """Everything behind the HTTP side, open, which is when the greeting is said; closed after the last request."""
    from qrelease.analysts import Analysts
    from qrelease.curator import Curator
    from qrelease.ledger import Ledger
    from qrelease.privacy import Neighbours
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
        if greeting:
            print(greeting, outlook(opened[0]), sep="\n", flush=True)
        yield Handlers(desk, Analysts(door), Public.of(table.domain, ledger, mechanism), Limits.at(settings.rate))


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

    def start(*, first: bool) -> tuple[int, int]:
        heard, say = os.pipe()
        process = os.fork()
        if not process:
            os.close(theirs)
            _be_a_worker(settings, loaded, listening, ours, say, first=first)
        os.close(say)
        return process, heard

    alive: dict[int, int] = {}  # by process, where it says that it is at work
    first = True
    starts = Rates(1 / AGAIN, workers + SPARE)
    replaced = 0  # of those to be started, who were at work
    try:
        while True:
            for process in [*alive]:
                ended, status = os.waitpid(process, os.WNOHANG)
                if not ended:
                    continue
                heard, code = alive.pop(process), os.waitstatus_to_exitcode(status)
                if code == 2:
                    raise InvalidInput("a worker could not start; see above")
                replaced += len(os.read(heard, 1))
                os.close(heard)
                how = f"by signal {-code}" if code < 0 else f"with status {code}"
                log.error("worker %d ended %s; another takes its place", process, how)
            while len(alive) < workers and (replaced or starts.take("a worker")):
                replaced = max(replaced - 1, 0)
                process, heard = start(first=first)
                alive[process], first = heard, False
            time.sleep(0.05)
    except KeyboardInterrupt:
        return
    finally:
        for process, heard in alive.items():
            os.kill(process, signal.SIGTERM)
            os.close(heard)
        until = time.monotonic() + GRACE + 5  # who is not done by then ends with this process
        while alive and time.monotonic() < until:
            alive = {process: heard for process, heard in alive.items() if not os.waitpid(process, os.WNOHANG)[0]}
            time.sleep(0.01)
        os.close(theirs)
        os.close(ours)


def _be_a_worker(
    settings: Settings, loaded: _Loaded, listening: socket.socket, parent: int, say: int, *, first: bool
) -> NoReturn:
    """The rest of a forked process: it ends with 2, after one line, for a mistake that can be mended.

    parent  a pipe that ends with the parent
    say     another, that gets a byte when the worker is at work
    """
    status = 1
    try:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        _work(settings, loaded, listening, first=first, begun=lambda: os.write(say, b"!"))
        status = 0
    except (QReleaseError, OSError, MemoryError) as error:
        print(f"qrelease: {error or 'out of memory'}", file=sys.stderr, flush=True)
        status = 2
    finally:
        os._exit(status)


def _end_with(parent: int) -> None:
    os.read(parent, 1)  # returns when the other end is closed
    os._exit(1)
