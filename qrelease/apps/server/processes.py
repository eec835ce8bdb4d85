"""The processes of a server: a parent, which loads the data, listens and restarts workers, and the forked workers.

The listening socket is made once and handed down, so that a worker that dies leaves the others answering. The one that
is forked in its place has the table and all code already, shares their memory, and goes on from the ledger: none of the
noise that is kept secret is carried into a fork. A worker ends as soon as its parent does, however that ended: it holds
the other end of a pipe. Nothing has to be put in order then, since all that was shown is in the ledger.
"""

from __future__ import annotations

import errno
import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from qrelease.apps.server.rate_limit import Rates
from qrelease.errors import InvalidInput, QReleaseError, RowsChangedWarning, TooLarge
from qrelease.privacy.ledger_url import LedgerUrl

if TYPE_CHECKING:
    from qrelease.apps.server.app import Handlers, Limits
    from qrelease.apps.server.metrics import Meter, Meters
    from qrelease.data.sources.dialect import Dialect
    from qrelease.data.table import Table
    from qrelease.mechanisms.online.session import Online, OnlineSession
    from qrelease.privacy import Cost, Neighbours

SWITCH_SECONDS: Final = 0.0005
"""Seconds after which the thread of the transactions and that of the HTTP side let each other run: a transaction that
waits may hold up all workers."""

SPARE_WORKERS: Final = 20
"""Workers that are replaced at once though they ended before they could take requests; from then on one is started
every `RESTART_SECONDS`."""

RESTART_SECONDS: Final = 5.0
"""Seconds between the starts of workers that end before they can take requests."""

ALLOWED_RATES: Final = (1e-3, 1e9)
"""Requests a second that may be allowed."""

MAX_PEOPLE: Final = 10**10
"""More people than there are: no table has so many records."""

MIN_SIMULATED_ALPHA: Final = 1e-3
"""The least alpha of a trial run, which makes up records in inverse proportion: a million."""

GRACE_SECONDS: Final = 10
"""Seconds for requests that are being answered when the server is told to stop."""

log = logging.getLogger("qrelease.server")


@dataclass(frozen=True)
class Settings:
    """One dataset of a server, and its session.

    name  its name in addresses; None for the one dataset of a server
    """

    data: str
    schema: str
    ledger: Path | LedgerUrl
    epsilon: float
    delta: float | None
    alpha: float
    beta: float
    neighbours: str
    columns: Sequence[str] | None
    dataset: str
    session: str
    declared: int | None
    records: int | None = None
    changed_rows: bool = False
    parent: str | None = None
    query: str | None = None
    dialect: Dialect | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        for name, text in (("dataset", self.dataset), ("session", self.session)):
            if not text or any("\ud800" <= c <= "\udfff" for c in text):
                raise InvalidInput(f"{name} must be a text that is not empty, got {text!r}")


def tell_on_stderr(text: str) -> None:
    """Tell who started this process: one line."""
    print(f"qrelease: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Serving:
    """What a server is started with.

    rate       queries, or other requests, a second of one analyst, in each worker
    strangers  connections without a good token that one address may have
    secret     by which all workers choose the dataset that stands in for a name that there is not
    tell       gets a line of what may say something of the records: for the data holder's eyes alone
    """

    datasets: tuple[Settings, ...]
    rate: float = 200.0
    strangers: int = 64
    workers: int = 1
    secret: bytes = field(default_factory=lambda: os.urandom(16), repr=False)
    tell: Callable[[str], None] = field(default=tell_on_stderr, repr=False)

    def __post_init__(self) -> None:
        least, most = ALLOWED_RATES
        if not least <= self.rate <= most:
            raise InvalidInput(f"rate must be in {least:g}..{most:g}, got {self.rate:g}")
        if self.strangers < 1:
            raise InvalidInput(f"strangers must be at least 1, got {self.strangers:,}")
        if self.workers < 1:
            raise InvalidInput(f"workers must be at least 1, got {self.workers}")


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """A listening socket; `InvalidInput` if the address is taken or not this machine's.

    option  which names the port
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family)
        # Found out anew from the descriptor, the socket knows its protocol: else asyncio leaves Nagle's delays on.
        return socket.socket(fileno=made.detach())
    except (OSError, OverflowError) as error:
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}"
            f"{f'; take another by {option}' if taken else ''}"
        ) from None


def serve(
    serving: Serving,
    listening: socket.socket,
    metrics: socket.socket | None = None,
    begun: Callable[[], object] | None = None,
) -> None:
    """Serve until told to stop, in this process or, with several workers, under this one.

    metrics  another socket, at which `/metrics` is served too
    begun    called by each worker when it can take requests; then even a single one is a process of its own
    """
    if not all(find_spec(name) for name in ("starlette", "uvicorn", "h11", "msgspec")):
        raise InvalidInput("the server needs starlette, uvicorn and msgspec: pip install 'qrelease[server]'")
    loaded = [_Loaded.of(settings, serving.tell) for settings in serving.datasets]
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.WARNING)
    gc.collect()
    gc.freeze()  # what is loaded stays: to look through it for garbage takes 0.1 s, in the middle of a request
    meters = None
    if metrics is not None:
        from qrelease.apps.server.metrics import Meters

        meters = Meters.of(serving.workers, metrics, tuple(settings.name for settings in serving.datasets))
    if serving.workers == 1 and begun is None:
        _work(serving, loaded, listening, first=True, meter=None if meters is None else meters.meter(0))
    else:
        supervise(serving, loaded, listening, serving.workers, meters, begun or (lambda: None))


@dataclass(frozen=True)
class _Loaded:
    """What the workers share of a dataset."""

    settings: Settings
    table: Table
    mechanism: Online
    cost: Cost

    @classmethod
    def of(cls, settings: Settings, tell: Callable[[str], None]) -> _Loaded:
        """Read and check what the settings name; load all code by answering queries about made-up records."""
        import qrelease.apps.server.app
        import qrelease.apps.server.http_bounds  # noqa: F401  both for the workers
        from qrelease.data.table import Table
        from qrelease.mechanisms.base import check_parts
        from qrelease.mechanisms.online.session import Online
        from qrelease.mechanisms.online.state import SessionState
        from qrelease.privacy import Neighbours
        from qrelease.privacy.costs import cost_of
        from qrelease.privacy.unit import Unit
        from qrelease.queries.classes import Conjunctions
        from qrelease.release.curator import check_relation

        cost = cost_of(settings.epsilon, settings.delta)
        declared = None if settings.declared is None else Conjunctions(settings.declared)
        mechanism = Online(alpha=settings.alpha, beta=settings.beta, declared=declared, records=settings.records)
        table = Table.read(
            *(settings.data, settings.schema, settings.columns, settings.parent, settings.query, settings.dialect)
        )
        table.domain.check_decided()
        check_parts("a session", table.domain)
        neighbours = Neighbours.parse(settings.neighbours)
        check_relation(table, neighbours)
        _check_known(settings, table, tell)
        unit = Unit.of(neighbours, table.domain)
        of_a_record = unit.of_a_record(cost)
        records = len(table) if unit.public_records else None
        # What is refused whatever the table holds is refused here, before there is a ledger.
        mechanism.check(table.domain, of_a_record, unit.relation, records or mechanism.records or MAX_PEOPLE)
        if records is None:
            terms = mechanism.alpha, mechanism.beta, declared, None
            SessionState(table.domain, unit.relation, of_a_record, *terms).count()
        loaded = cls(settings, table, mechanism, cost)
        loaded.try_out(neighbours)
        return loaded

    def try_out(self, neighbours: Neighbours) -> None:
        """No analyst shall wait while kernels and prices are loaded, nor while a fork makes the pages its own."""
        import numpy as np

        from qrelease.apps.server.questions import read_question
        from qrelease.apps.server.service import Service
        from qrelease.apps.server.shapes import Query
        from qrelease.apps.server.synthetic import synthetic_records
        from qrelease.data.conditions import cell_text
        from qrelease.data.table import Table
        from qrelease.privacy import ApproxDP, PureDP
        from qrelease.privacy.analysts import Analysts
        from qrelease.privacy.ledger import Ledger
        from qrelease.release.curator import Curator

        enough = PureDP(8.0) if isinstance(self.cost, PureDP) else ApproxDP(8.0, 1e-9)
        domain = replace(self.table.domain, person=None)  # what is made up has a record a person
        alpha = max(self.mechanism.alpha, MIN_SIMULATED_ALPHA)
        mechanism = replace(self.mechanism, alpha=alpha, declared=None)
        made_up = Table(domain, (np.zeros(math.ceil(1000 / alpha), np.uint8),) * len(domain))
        with Ledger.open(None, enough, neighbours=neighbours) as ledger:
            session, analysts = Curator(made_up, ledger).open(mechanism, enough), Analysts(ledger)
            analysts.add("nobody", enough)
            service = Service(session, analysts)
            cells = [cell_text(a, 0) for a in domain if a.size > 1][:3]
            for text in (*cells, " and ".join(cells)) if cells else ():
                asked = read_question(domain, Query(where=text))
                with service.together():
                    service.catch_up()
                    service.ask("nobody", text, text, [asked])
                while service.learn():
                    pass
            with suppress(TooLarge):
                synthetic_records(session.synopsis, 1, "json", np.random.default_rng())


def _check_known(settings: Settings, table: Table, tell: Callable[[str], None]) -> None:
    """What a ledger that is there says of the relation, of the unit and of the records: before n, which is public under
    one relation alone, is looked at."""
    from qrelease.privacy.ledger import Ledger
    from qrelease.release.curator import Curator

    if not Ledger.exists(settings.ledger):
        return
    with Ledger.open(settings.ledger, dataset=settings.dataset, neighbours=settings.neighbours) as ledger:
        curator = Curator(table, ledger)
        notice = curator.notice
        if notice:
            tell(notice)
        curator.check_session(settings.session, changed_rows=settings.changed_rows)


def _work(
    serving: Serving,
    loaded: Sequence[_Loaded],
    listening: socket.socket,
    *,
    first: bool,
    begun: Callable[[], object] = lambda: None,
    meter: Meter | None = None,
) -> None:
    """Be a worker, until a SIGTERM or SIGINT; then finish what was begun. The first says where, and prices.

    begun  is called when the worker can take requests
    """
    from qrelease.apps.server.app import Limits, application
    from qrelease.apps.server.http_bounds import BoundedServer, configured

    sys.setswitchinterval(SWITCH_SECONDS)
    host, port = listening.getsockname()[:2]
    limits, told = Limits.at(serving.rate), list[str]()
    strangers = Rates(limits.rate, limits.burst)
    with ExitStack() as closing:
        handlers = {
            each.settings.name: closing.enter_context(_office(each, limits, strangers, meter, told)) for each in loaded
        }
        gc.freeze()  # what a worker begins with stays, too
        if first:
            print(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}", *told, sep="\n", flush=True)
        begun()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # uvicorn heeds them while it runs, and sends them again after
        if None in handlers:
            app = application(handlers[None])
        else:
            from qrelease.apps.server.datasets import datasets_application

            named = {str(name): each for name, each in handlers.items()}
            app = datasets_application(named, strangers, meter, serving.secret)
        sockets = [listening]
        if meter is None:
            config = configured(app, GRACE_SECONDS, serving.strangers)
        else:
            config = configured(app, GRACE_SECONDS, serving.strangers, watch=meter.connected)
            sockets.append(meter.meters.listening)
        BoundedServer(config).run(sockets=sockets)


@contextmanager
def _office(
    loaded: _Loaded, limits: Limits, strangers: Rates, meter: Meter | None, told: list[str]
) -> Iterator[Handlers]:
    """Everything behind the HTTP side of a dataset, open; closed after the last request.

    told  gets a line on what answers cost
    """
    from qrelease._util.parallel import one_thread
    from qrelease.apps.server.app import Handlers
    from qrelease.apps.server.questions import PublicFacts
    from qrelease.apps.server.service import Service
    from qrelease.apps.server.transactions import Transactions
    from qrelease.privacy import Neighbours
    from qrelease.privacy.analysts import Analysts
    from qrelease.privacy.ledger import Ledger
    from qrelease.release.curator import Curator

    settings = loaded.settings
    loaded.try_out(Neighbours.parse(settings.neighbours))
    table, mechanism, cost = loaded.table, loaded.mechanism, loaded.cost
    path = settings.ledger
    total = None if Ledger.exists(path) else cost
    with ExitStack() as closing:
        closing.enter_context(one_thread())  # a worker's products are small, and others keep the cores busy
        # Two connections: one for the transactions, and one for what is read without waiting for them.
        ledger, door = (
            closing.enter_context(
                Ledger.open(
                    path, total, dataset=settings.dataset, neighbours=settings.neighbours, person=table.person_column
                )
            )
            for _ in range(2)
        )
        curator = Curator(table, ledger)
        opened: list[OnlineSession] = []

        def service() -> Service:
            opened[:] = [curator.open(mechanism, cost, key=settings.session, changed_rows=settings.changed_rows)]
            return Service(opened[0], Analysts(ledger))

        # On a server they take turns by its lock, which wakes who waits.
        turn = path.with_name(f"{path.name}-turn") if isinstance(path, Path) else None
        own = None if meter is None else meter.of(settings.name)
        charged = {} if own is None else {"charged": own.charged}
        transactions = Transactions(ledger, service, turn, **charged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RowsChangedWarning)  # it was said
            transactions.start()
        closing.callback(transactions.stop)
        told.append(outlook(opened[0]) if settings.name is None else f"{settings.name}: {outlook(opened[0])}")
        public = PublicFacts.of(table.domain, ledger, mechanism)
        handlers = Handlers(transactions, Analysts(door), public, limits, own, strangers)
        handlers.rehearse()
        yield handlers


def outlook(session: OnlineSession) -> str:
    """What an answer costs and how many the budget holds, one line, of public facts: the session's count of records."""
    from qrelease.mechanisms.online.canonical_group import CanonicalGroup
    from qrelease.mechanisms.online.hypothesis import MAX_HYPOTHESIS_CELLS
    from qrelease.privacy import ZCDP, ApproxDP
    from qrelease.privacy.conversions import zcdp_of
    from qrelease.queries.workload import Workload

    domain, total = session.domain, session.cost
    (count,) = Workload.marginals(domain, [()]).groups
    cost = session.price(CanonicalGroup.of(domain, count))
    whole = zcdp_of(total) if isinstance(cost, ZCDP) and isinstance(total, ApproxDP) else total
    (price, *_), (most, *_) = cost.to_json().values(), whole.to_json().values()
    synthetic, most_cells = "", MAX_HYPOTHESIS_CELLS
    if domain.size > most_cells:
        synthetic = (
            f"; no synthetic records: there are {domain.size:,} cells, and they are drawn for {most_cells:,} at most"
        )
    left = ""
    if session.spent is not None:
        left = f", and what is left buys about {session.answers_left:,} more"
    within = f"{100 * session.mechanism.alpha:g}% of {session.records:,} records"
    return (
        f"a new answer within {within} costs {cost:.6g} by itself: {int(most / price):,} use up {total:.6g}{left};"
        f" those that follow from earlier ones are free, and a synopsis for many may be cheaper{synthetic}"
    )


def supervise(
    serving: Serving,
    loaded: Sequence[_Loaded],
    listening: socket.socket,
    workers: int,
    meters: Meters | None = None,
    begun: Callable[[], object] = lambda: None,
) -> None:
    """Start the workers and replace those that end, until a signal ends all.

    begun  is called by each when it can take requests
    """
    ours, theirs = os.pipe()

    def start(*, first: bool) -> tuple[int, int]:
        heard, say = os.pipe()
        free = min({*range(workers)} - {places[running] for running in alive})
        process = os.fork()
        if not process:
            os.close(theirs)
            meter = None if meters is None else meters.meter(free)

            def at_work() -> None:
                os.write(say, b"!")
                begun()

            _be_a_worker(serving, loaded, listening, ours, at_work, first=first, meter=meter)
        os.close(say)
        places[process] = free
        return process, heard

    alive: dict[int, int] = {}  # by process, where it says that it is at work
    places: dict[int, int] = {}  # by process, whose of the meters it has
    first = True
    starts = Rates(1 / RESTART_SECONDS, workers + SPARE_WORKERS)
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
        until = time.monotonic() + GRACE_SECONDS + 5  # who is not done by then ends with this process
        while alive and time.monotonic() < until:
            alive = {process: heard for process, heard in alive.items() if not os.waitpid(process, os.WNOHANG)[0]}
            time.sleep(0.01)
        os.close(theirs)
        os.close(ours)


def _be_a_worker(
    serving: Serving,
    loaded: Sequence[_Loaded],
    listening: socket.socket,
    parent: int,
    begun: Callable[[], object],
    *,
    first: bool,
    meter: Meter | None,
) -> NoReturn:
    """The rest of a forked process: it ends with 2, after one line, for a mistake that can be mended.

    parent  a pipe that ends with the parent
    begun   is called when the worker is at work
    """
    status = 1
    try:
        end_with(parent)
        _work(serving, loaded, listening, first=first, begun=begun, meter=meter)
        status = 0
    except (QReleaseError, OSError, MemoryError) as error:
        serving.tell(str(error) or "out of memory")
        status = 2
    finally:
        os._exit(status)


def end_with(parent: int) -> None:
    """End this process when a pipe does, whose other end the parent has."""

    def wait() -> None:
        os.read(parent, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
