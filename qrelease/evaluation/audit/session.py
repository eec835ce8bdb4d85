"""Audits through the server: a session over HTTP, from the schema to refusals of every kind.

The application is the one that is served, called as a server calls it; the noise is insecure, so that it can be the
same for two tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from qrelease.data.table import Table
from qrelease.errors import QReleaseError
from qrelease.evaluation.audit.observed import Door, Seen, flat, ledger_seen, listening
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_Message = MutableMapping[str, Any]


ServerStarter = Callable[[Curator, Path, Online, Cost], AbstractContextManager[tuple["ASGIApp", str]]]
"""How a server serves a curator's table: the application, and an analyst's token; `apps.server.in_process`."""


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


_CONDITION_QUERY: Final = {"where": "a = 1"}
_MARGINAL_QUERY: Final = {"marginal": ["a", "b"]}
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
        found |= flat(json.loads(content), f"{at}/json") if "json" in headers["content-type"] else {at: content}
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
