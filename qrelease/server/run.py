"""The processes of a server: one that listens and looks after the workers, and the workers.

The listening socket is made once and handed down, so that a worker that dies leaves the others answering, and the one
started in its place goes on from the ledger. A worker ends as soon as its parent does, however that ended: it holds
the other end of a pipe. Nothing has to be put in order then, since all that was shown is in the ledger.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qrelease.errors import InvalidInput, QReleaseError

if TYPE_CHECKING:
    from qrelease.server.app import Handlers

SWITCH: Final = 0.0005
"""Seconds after which the desk and the HTTP side let each other run: a desk that waits may hold up all workers."""

CONNECTIONS: Final = 1000
"""Of one worker at a time; further ones are told to try again."""

GRACE: Final = 10
"""Seconds for requests that are being answered when the server is told to stop."""


@dataclass(frozen=True)
class Settings:
    """What a server is started with; the same for all its workers."""

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
        made = socket.create_server((host, port), family=family, backlog=2048)
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
    if workers == 1:
        work(settings, listening)
    else:
        _supervise(settings, listening, workers)


def work(settings: Settings, listening: socket.socket) -> None:
    """Be a worker, until a SIGTERM or SIGINT; then finish what was begun."""
    import uvicorn

    from qrelease.server.app import application
    from qrelease.server.protocol import HEAD, ImpatientProtocol

    sys.setswitchinterval(SWITCH)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.WARNING)
    with _office(settings) as handlers:
        config = uvicorn.Config(
            application(handlers),
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            lifespan="off",
            ws="none",
            http=ImpatientProtocol,
            h11_max_incomplete_event_size=HEAD,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=GRACE,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # uvicorn heeds them while it runs, and sends them again after
        uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def _office(settings: Settings) -> Iterator[Handlers]:
    """Everything behind the HTTP side, open; closed after the last request."""
    from qrelease.analysts import Analysts
    from qrelease.conjunctions import Conjunctions
    from qrelease.ledger import Ledger
    from qrelease.mechanisms.online import Online
    from qrelease.privacy import ApproxDP, Neighbours, PureDP
    from qrelease.release import Curator
    from qrelease.rows import PARQUET
    from qrelease.server.app import Handlers, Limits
    from qrelease.server.desk import Desk
    from qrelease.server.service import Public, Service
    from qrelease.table import Table

    cost = ApproxDP(settings.epsilon, settings.delta) if settings.delta else PureDP(settings.epsilon)
    declared = None if settings.declared is None else Conjunctions(settings.declared)
    mechanism = Online(alpha=settings.alpha, beta=settings.beta, declared=declared)
    read = Table.read_parquet if Path(settings.data).suffix.lower() in PARQUET else Table.read_csv
    table = read(settings.data, settings.schema, settings.columns)
    path, total = Path(settings.ledger), None
    if not path.exists():
        records = len(table) if Neighbours.parse(settings.neighbours) is Neighbours.REPLACE_ONE else None
        mechanism.check(table.domain, cost, Neighbours.parse(settings.neighbours), records)
        total = cost
    with ExitStack() as closing:
        # Two connections: the desk's, and one for what is read without waiting there.
        ledger, door = (
            closing.enter_context(Ledger.open(path, total, dataset=settings.dataset, neighbours=settings.neighbours))
            for _ in range(2)
        )
        curator = Curator(table, ledger)

        def service() -> Service:
            return Service(curator.open(mechanism, cost, key=settings.session), Analysts(ledger))

        desk = Desk(ledger, service, path.with_name(f"{path.name}-turn"))
        desk.start()
        closing.callback(desk.stop)
        yield Handlers(desk, Analysts(door), Public.of(table.domain, ledger, mechanism), Limits(rate=settings.rate))


def worker(settings: str, listening: str, parent: str) -> int:
    """The main function of a worker process; 2, after one line, for a mistake that can be mended."""
    threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    try:
        work(Settings(**json.loads(settings)), socket.socket(fileno=int(listening)))
    except (QReleaseError, OSError, MemoryError) as error:
        print(f"qrelease: {error or 'out of memory'}", file=sys.stderr)
        return 2
    return 0


def _end_with(parent: int) -> None:
    os.read(parent, 1)  # returns when the other end is closed
    os._exit(1)


def _supervise(settings: Settings, listening: socket.socket, workers: int) -> None:
    ours, theirs = os.pipe()
    command = [
        sys.executable,
        "-m",
        "qrelease.server",
        json.dumps(asdict(settings)),
        str(listening.fileno()),
        str(ours),
    ]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  our own interpreter and module
            command, pass_fds=(listening.fileno(), ours), stdin=subprocess.DEVNULL
        )

    alive = {start() for _ in range(workers)}
    try:
        while True:
            time.sleep(0.05)
            for process in [p for p in alive if p.poll() is not None]:
                alive.remove(process)
                if process.returncode == 2:
                    raise InvalidInput("a worker could not start; see above")
                alive.add(start())
    except KeyboardInterrupt:
        return
    finally:
        for process in alive:
            process.terminate()
        for process in alive:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE + 5)
        os.close(theirs)
        os.close(ours)
