"""A server without sockets for tests: its handlers over a small table, and a client that calls the app."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from instead import Instead
from worlds import PEOPLE, random_table

from qrelease.apps.server.app import Handlers, Limits, application
from qrelease.apps.server.questions import PublicFacts
from qrelease.apps.server.service import Service
from qrelease.apps.server.transactions import Transactions
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Neighbours, PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

CAP = PureDP(1.0)
TABLE = random_table(PEOPLE, 20_000, 0)
WOMEN = {"where": "sex = 'F'"}
YOUNG = {"range": {"column": "age", "low": "0", "high": "39"}}
GENEROUS = Limits(rate=1e6, burst=1e6, seconds=120.0)  # a first start compiles kernels


@dataclass
class Reply:
    """A response as it went over the wire."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self):
        return json.loads(self.content)


@dataclass
class Client:
    """Calls an ASGI application as one analyst; `host` is where from."""

    app: object
    token: str | None = None
    host: str = "192.0.2.1"
    keys: int = field(default=0)

    def get(self, path, **headers):
        return self.send("GET", path, b"", headers)

    def ask(self, query, key=None):
        """One query under a key, by default a new one."""
        return self.post("/v1/query", query, key)

    def post(self, path, body, key=None):
        self.keys += 1
        headers = {"content-type": "application/json", "idempotency-key": key or f"key {self.keys}".replace(" ", "-")}
        return self.send("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)

    def send(self, method, path, body, headers):
        return asyncio.run(self.exchange(method, path, [body], headers))

    async def exchange(self, method, path, parts, headers):
        """A request whose body comes in parts; None is a part that never comes."""
        path, _, query = path.partition("?")
        named = {"authorization": f"Bearer {self.token}", **headers} if self.token else headers
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""}
        scope |= {"method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode()}
        scope |= {"headers": [(k.encode(), v.encode("latin-1")) for k, v in named.items()], "client": (self.host, 1)}
        coming, sent, ended = iter(parts), [], []

        async def receive():
            part = None if ended else next(coming, b"")
            if part is None:  # after the last part a client that stays is not heard of
                await asyncio.sleep(60)
            elif not part:
                ended.append(True)
            return {"type": "http.request", "body": part, "more_body": bool(part)}

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return Reply(sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:]))


@contextlib.contextmanager
def worker(path: Path, **options):
    """One worker on a ledger, which is made if it is new: its application, with the options of `opened_handlers`."""
    with opened_handlers(path, **options) as handlers:
        yield application(handlers)


@contextlib.contextmanager
def opened_handlers(
    path: Path,
    *,
    seed=1,
    cap=CAP,
    limits=GENEROUS,
    mechanism=Online(),  # noqa: B008  frozen
    table=TABLE,
    service_of=Service,
    transactions_of=Transactions,
    meter=None,
    strangers=None,
    analysts_of=Analysts,
):
    """The handlers of one dataset of a worker.

    service_of       makes the service from a session and the ledger's analysts
    transactions_of  makes the transactions from the ledger, what makes the service, and the file of the turn
    analysts_of      makes the analysts whose tokens are looked up, from the ledger
    """
    total = None if path.exists() else cap
    with Ledger.open(path, total, neighbours=Neighbours.REPLACE_ONE) as ledger, Ledger.open(path) as door:
        curator = Curator(table, ledger, Entropy.insecure(seed))

        def service():
            return service_of(curator.open(mechanism, cap, key="server"), Analysts(ledger))

        told = {} if meter is None else {"charged": meter.charged}
        transactions = transactions_of(ledger, service, path.with_name("turn"), **told)
        transactions.start()
        try:
            public = PublicFacts.of(table.domain, ledger, mechanism)
            yield Handlers(transactions, analysts_of(door), public, limits, meter, strangers)
        finally:
            transactions.stop()


def admit(path, name, epsilon=1.0):
    """The token of a new analyst."""
    with Ledger.open(path) as ledger:
        return Analysts(ledger).add(name, PureDP(epsilon))


def spent(path):
    """What the ledger's file says was spent."""
    with Ledger.open(path) as ledger:
        return 0.0 if ledger.spent is None else ledger.spent.epsilon


def with_accounts(change):
    """A service whose analysts' accounts are changed."""

    def service_of(session, analysts):
        @contextlib.contextmanager
        def account(name):
            with analysts.account(name) as found:
                yield change(found)

        return Service(session, Instead(analysts, account=account))

    return service_of


def with_answers(answers):
    """A service whose session answers so: `answers(session, group, purse)`."""
    return lambda session, analysts: Service(Instead(session, answers=partial(answers, session)), analysts)
