"""Audits of sessions: over HTTP, from the schema to refusals of every kind; and of the estimates of `Curator.open`.

The application is the one that is served, called as a server calls it; the noise is insecure, so that it can be the
same for two tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from qrelease.data.table import Table
from qrelease.errors import QReleaseError
from qrelease.evaluation.audit.observed import Door, Seen, flat, ledger_seen, lines_of, listening
from qrelease.mechanisms.online.session import Online, OnlineSession
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, split
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.base import Statistic
from qrelease.statistics.mean import Mean, TextbookMean
from qrelease.statistics.quantile import Quantile
from qrelease.statistics.quantiles import TreeQuantiles
from qrelease.statistics.selection import MostCommon

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_Message = MutableMapping[str, Any]


ServerStarter = Callable[[Curator, Path, Online, Cost], AbstractContextManager[tuple["ASGIApp", str]]]
"""How a server serves a curator's table: the application, and an analyst's token; `apps.server.in_process`."""


Opener = Callable[[Curator, Online, Cost], OnlineSession]
"""How a session is opened: as `Curator.open` does, or a broken twin of it."""

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


def server_door(mechanism: Online, cap: Cost, serving: ServerStarter) -> Door:
    """A session over HTTP, from schema to refusals: each reply's status, headers and content; log lines; the ledger."""

    def seen(table: Table, neighbours: Neighbours, seed: int) -> Seen:
        found: dict[str, object] = {}
        with contextlib.ExitStack() as closing:
            path = Path(closing.enter_context(tempfile.TemporaryDirectory())) / "people.ledger"
            closing.enter_context(listening(found))
            try:
                ledger = closing.enter_context(
                    Ledger.open(path, cap, neighbours=neighbours, person=table.person_column)
                )
                curator = Curator(table, ledger, Entropy.insecure(seed))
                app, token = closing.enter_context(serving(curator, path, mechanism, cap))
                found |= asyncio.run(_conversation(app, token))
            except QReleaseError as error:
                found["error"] = f"{type(error).__name__}: {error}"
            found |= ledger_seen(ledger)
        return found

    return seen


_ESTIMATED: Final = (
    Quantile("b"),
    Quantile("b"),
    Quantile("b", interval=False, by=("a",)),
    Mean("b"),
    MostCommon(("a", "b"), 2),
    TreeQuantiles("b", (0.25, 0.5)),
    TextbookMean("b"),
)
"""What a session estimates, one after another: one of them twice, and the last is not for sessions."""


def estimates_door(
    mechanism: Online, cap: Cost, statistics: Sequence[Statistic] = _ESTIMATED, opened: Opener | None = None
) -> Door:
    """`Curator.open`, and what the session estimates: every field, what it says beforehand, the errors, and the ledger.

    Each takes a hundredth of the cap, in ε or ρ.

    opened  how a session is opened; by default, as anybody does
    """

    def seen(table: Table, neighbours: Neighbours, seed: int) -> Seen:
        found: dict[str, object] = {}
        with (
            Ledger.open(None, cap, neighbours=neighbours, person=table.person_column) as ledger,
            listening(found),
        ):
            curator = Curator(table, ledger, Entropy.insecure(seed))
            each = split(cap if not isinstance(cap, ApproxDP) else PureDP(cap.epsilon), 100)[0]
            try:
                with (opened or _opened)(curator, mechanism, split(cap, [0.9, 0.1])[0]) as session:
                    for number, statistic in enumerate(statistics):
                        found |= _estimated(session, statistic, each, f"session/{number} {statistic.name}")
                    found |= lines_of(_ADDRESS.sub("", repr(session)), "session/repr")
            except QReleaseError as error:
                found |= lines_of(f"{type(error).__name__}: {error}", "session/error")
            found |= ledger_seen(ledger)
        return found

    return seen


def _opened(curator: Curator, mechanism: Online, cost: Cost) -> OnlineSession:
    return curator.open(mechanism, cost, key="estimates")


def _estimated(session: OnlineSession, statistic: Statistic, cost: PureDP | ZCDP, at: str) -> dict[str, object]:
    """The quote of an estimate, the estimate itself and what it costs, each with its error."""
    found: dict[str, object] = {}
    try:
        quote = session.quote_estimate(statistic, cost)
        found |= {f"{at}/quote/cost": str(quote.cost), f"{at}/quote/source": quote.source}
    except QReleaseError as error:
        found |= lines_of(f"{type(error).__name__}: {error}", f"{at}/quote/error")
    try:
        paid = session.estimate(statistic, cost)
        found |= flat(paid.estimate.to_json(), f"{at}/estimate")
        found |= {f"{at}/cost": str(paid.cost), f"{at}/source": paid.source}
    except QReleaseError as error:
        found |= lines_of(f"{type(error).__name__}: {error}", f"{at}/error")
    return found


_CONDITION_QUERY: Final = {"where": "a = 1"}
_MARGINAL_QUERY: Final = {"marginal": ["a", "b"]}
_QUANTILE: Final = {"statistic": "quantile:b", "epsilon": 2.0}
_SCRIPT: Final[tuple[tuple[str, str, object], ...]] = (
    ("GET", "/v1/schema", None),
    ("POST", "/v1/quote", {"queries": [_CONDITION_QUERY, _MARGINAL_QUERY]}),
    ("POST", "/v1/query", _CONDITION_QUERY),
    ("POST", "/v1/query", _CONDITION_QUERY),
    ("POST", "/v1/batch", {"queries": [_MARGINAL_QUERY, _CONDITION_QUERY]}),
    ("POST", "/v1/query?most=0", {"where": "b = 2"}),
    ("POST", "/v1/batch?most=1e-9", {"queries": [{"where": "b = 1"}, {"where": "b = 0"}]}),
    ("POST", "/v1/query", {"where": "c = 1"}),
    ("POST", "/v1/query", {"where": "a ="}),
    ("POST", "/v1/query", []),
    ("POST", "/v1/estimate/quote", _QUANTILE),
    ("POST", "/v1/estimate", _QUANTILE),
    ("POST", "/v1/estimate", _QUANTILE),
    ("POST", "/v1/estimate", {"statistic": "mean:b", "epsilon": 2.0}),
    ("POST", "/v1/estimate", {"statistic": "quantile:b,by=a,interval=no", "epsilon": 2.0}),
    ("POST", "/v1/estimate?most=0", {"statistic": "most-common:a,k=1", "epsilon": 2.0}),
    ("POST", "/v1/estimate", {"statistic": "quantile:b,q=0.25", "epsilon": 1e6}),
    ("POST", "/v1/estimate", {"statistic": "textbook-mean:b", "epsilon": 2.0}),
    ("POST", "/v1/estimate", {"statistic": "quantile:b", "epsilon": 2.0, "delta": 1e-9}),
    ("GET", "/v1/budget", None),
    ("GET", "/v1/history", None),
    ("GET", "/v1/synthetic?rows=3", None),
    ("GET", "/v1/synthetic?rows=0", None),
    ("GET", "/v1/dummy?rows=3", None),
    ("GET", "/v1/history/99", None),
    ("GET", "/health", None),
    ("GET", "/nowhere", None),
)
"""What is asked of a server, one after another."""


async def _conversation(app: ASGIApp, token: str) -> dict[str, object]:
    """The replies to the script, by number; the first request again without a token."""
    found: dict[str, object] = {}
    for number, (method, path, body) in enumerate([*_SCRIPT, _SCRIPT[0]]):
        held = token if number < len(_SCRIPT) else ""
        status, headers, content = await _asked(app, method, path, body, held, f"key-{number}")
        at = f"http/{number} {method} {path.replace('/', ' ')}"
        found[f"{at}/status"] = status
        found |= {f"{at}/headers/{name}": text for name, text in headers.items()}
        if "json" not in headers["content-type"]:
            found[at] = content
            continue
        told = json.loads(content)
        if isinstance(told, dict) and "detail" in told:  # a sentence, of which the numbers alone may be noisy
            found |= lines_of(told.pop("detail"), f"{at}/json/detail")
        found |= flat(told, f"{at}/json")
    return found


async def _asked(
    app: ASGIApp, method: str, path: str, body: object, token: str, key: str
) -> tuple[int, dict[str, str], bytes]:
    """One request to an application, and the status, headers and content of the reply."""
    path, _, query = path.partition("?")
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "idempotency-key": key}
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
    }
    scope |= {"method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode()}
    scope |= {"headers": [(k.encode(), v.encode()) for k, v in headers.items()], "client": ("192.0.2.1", 1)}
    content, sent = b"" if body is None else json.dumps(body).encode(), list[_Message]()

    async def receive() -> _Message:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: _Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    named = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], named, b"".join(m.get("body", b"") for m in sent[1:])
