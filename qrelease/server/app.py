"""The HTTP side: routes, tokens, limits and errors. It sees nothing private: all it shows comes from the desk.

Nothing is logged but the operator's own troubles, without names, tokens or queries. What a refusal says is a function
of the request and of what is public; so is the time that it takes, since what is refused draws nothing.

Requests are counted by whose token they bring. Those without a good one are counted by their address, and only those:
behind a proxy all analysts have the same. What takes no token, the pages and the server's health, is bytes that are
there already, and not counted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final, Self, TypeVar

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qrelease.analysts import Analyst, Analysts, Revoked
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, QReleaseError, StreamHalted, TooLarge
from qrelease.server.api import ENDPOINTS, KEY, MAX_VALUES, PROBLEMS, SCHEMAS, Endpoint, check, document, parameter
from qrelease.server.desk import Busy, Desk, Fault
from qrelease.server.limits import Rates
from qrelease.server.service import MAX_ANSWERS, KeyReused, NoRoom, Public, Question, Service, asked
from qrelease.server.synthetic import records

log = logging.getLogger("qrelease.server")

_T = TypeVar("_T")

REMEMBERED: Final = 4096
"""Conditions that are not parsed again."""

SMALL: Final = 4096
"""Cells of the marginals of such conditions."""

MAX_SUM: Final = 1 << 18
"""Cells of all queries of one request."""

REVOKED_WITHIN: Final = 1.0
"""Seconds after which a token that was revoked is good no longer: so long one look at the ledger lasts."""

FEW: Final = 20
"""Requests that anybody may make at once, whatever the rate: the page makes several when it is opened."""

_BEARER: Final = re.compile(r"(?i:bearer) +([A-Za-z0-9_-]{1,256})")

_PAGES: Final = {
    "/": "index.html",
    "/docs": "docs.html",
    "/static/page.js": "page.js",
    "/static/chart.js": "chart.js",
    "/static/docs.js": "docs.js",
    "/static/style.css": "style.css",
    "/static/icon.svg": "icon.svg",
}
_KINDS: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}

_request_text: Final = json.JSONEncoder(sort_keys=True).encode

_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
        b" base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

_STATUS: Final[Mapping[type[Exception], int]] = {
    Revoked: 401,
    KeyReused: 409,
    NoRoom: 429,
    BudgetExceeded: 402,
    StreamHalted: 402,
    QReleaseError: 422,
}


@dataclass(frozen=True)
class Limits:
    """What a client may do.

    body     bytes of a request's body
    rate     queries, or other requests, a second of one analyst, in each worker; and requests without a good token from
             one address, or, since a client has so many of them, from the first 64 bits of one
    burst    and so many at once; a batch may be larger, and what it takes beyond them is waited for after it
    seconds  for a body to arrive, and for the desk to answer
    """

    body: int = 1 << 16
    rate: float = 200.0
    burst: float = 400.0
    seconds: float = 10.0

    @classmethod
    def at(cls, rate: float) -> Self:
        """Of a rate, and what it gives in two seconds at once; the other limits are the usual ones."""
        return cls(rate=rate, burst=max(2 * rate, FEW))


class _Problem(Exception):  # noqa: N818  it becomes a response
    """Why a request is refused, as its client is told."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        self.status, self.detail, self.headers = status, detail, headers

    def response(self) -> Response:
        content = {"title": PROBLEMS[self.status], "status": self.status, "detail": self.detail}
        return _json(content, self.status, "application/problem+json", **self.headers)


def problem(status: int, detail: str) -> Response:
    """A problem of a whole connection, which ends with it: an application that answers everything so."""
    return _Problem(status, detail, connection="close").response()


class Handlers:
    """One method an endpoint, of its name.

    door  the analysts, on a connection of its own: tokens and histories are read without waiting at the desk
    """

    def __init__(self, desk: Desk, door: Analysts, public: Public, limits: Limits) -> None:
        self._desk, self._door, self._public, self._limits = desk, door, public, limits
        self._rates = Rates(limits.rate, limits.burst)
        self._holders: dict[str, tuple[Analyst, float]] = {}
        self._conditions: dict[str, Question] = {}
        self._drawing = asyncio.Semaphore(1)

    def route(self, endpoint: Endpoint) -> Route:
        """The route of an endpoint; every refusal becomes a problem here, and everything unforeseen a silent one."""
        handler: Callable[..., Awaitable[Response]] = getattr(self, endpoint.name)
        again = "ask again, under the same key" if endpoint.key else "ask again"

        async def answer(request: Request) -> Response:
            try:
                return await handler(**await self._given(endpoint, request))
            except _Problem as problem:
                return problem.response()
            except ClientDisconnect:
                return Response(status_code=499)
            except (Busy, LedgerError) as trouble:
                if isinstance(trouble, LedgerError):
                    log.error("%s", trouble)
                return _Problem(503, f"not now; {again}", retry_after="1").response()
            except QReleaseError as refusal:
                status = next(status for kind, status in _STATUS.items() if isinstance(refusal, kind))
                return _Problem(status, refusal.public).response()
            except Exception as error:
                if not isinstance(error, Fault):
                    log.error("a fault: %s", type(error).__name__)  # its text may tell too much
                return _Problem(500, f"a fault of the server; {again}").response()

        return Route(endpoint.path, answer, methods=[endpoint.method], name=endpoint.name)

    async def _given(self, endpoint: Endpoint, request: Request) -> dict[str, Any]:
        """What a request brings, checked: the analyst, the parameters, the key and the body, in this order."""
        given: dict[str, Any] = {} if endpoint.public else {"analyst": self._analyst(request)}
        try:
            for name, schema in (endpoint.parameters or {}).items():
                text = request.path_params.get(name, request.query_params.get(name))
                given[name] = parameter(text, name, schema)
            if endpoint.key:
                given["key"] = _key(request)
            if endpoint.body:
                given["body"] = await self._body(request)
                check(given["body"], SCHEMAS[endpoint.body])
        except InvalidInput as error:
            raise _Problem(400, str(error)) from None
        return given

    def _analyst(self, request: Request) -> Analyst:
        match = _BEARER.fullmatch(_only(request, "authorization"))
        token = match.group(1) if match else ""
        hashed = sha256(token.encode()).hexdigest()
        analyst, until = self._holders.get(hashed, (None, 0.0))
        if time.monotonic() > until:
            self._holders.pop(hashed, None)
            analyst = self._door.holder(token) if token else None
            if analyst is None:
                self._count(_address(request))
                raise _Problem(401, "a good token is needed: Authorization: Bearer TOKEN", www_authenticate="Bearer")
            self._holders[hashed] = analyst, time.monotonic() + REVOKED_WITHIN
        assert analyst is not None
        self._count(f"by {analyst.name}")
        return analyst

    def _count(self, whose: str, things: int = 1) -> None:
        if not self._rates.take(whose, things):
            after = max(math.ceil(self._rates.wait(whose)), 1)
            detail = f"more requests than this server takes; ask again in {after:,} s"
            raise _Problem(429, detail, retry_after=f"{after}")

    async def _body(self, request: Request) -> Any:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise _Problem(415, "the body must be application/json")
        raw = bytearray()
        try:
            async with asyncio.timeout(self._limits.seconds):
                async for part in request.stream():
                    raw += part
                    if len(raw) > self._limits.body:
                        raise _Problem(413, f"a body has at most {self._limits.body:,} bytes", connection="close")
        except TimeoutError:
            raise _Problem(408, f"a body has {self._limits.seconds:g} s to arrive", connection="close") from None
        try:
            return _parse_json(raw.decode())
        except (ValueError, RecursionError):
            raise _Problem(400, "the body is not JSON in UTF-8, with each name given once") from None

    async def _do(self, work: Callable[[Service], _T]) -> _T:
        return await self._desk.do(work, self._limits.seconds)

    async def schema(self, analyst: Analyst) -> Response:
        """The columns and the promise: the same for everybody."""
        return _json(self._public.description)

    async def quote(self, analyst: Analyst, body: dict[str, Any]) -> Response:
        """What queries would cost now."""
        with self._desk.coming():
            questions = self._questions(analyst, body["queries"])
            return _json({"quotes": await self._do(lambda service: service.quote(analyst.name, questions))})

    async def query(self, analyst: Analyst, key: str, body: dict[str, Any], most: float | None) -> Response:
        """Ask one query."""
        return await self._ask(analyst, key, {"queries": [body]}, most)

    async def batch(self, analyst: Analyst, key: str, body: dict[str, Any], most: float | None) -> Response:
        """Ask several."""
        return await self._ask(analyst, key, body, most)

    async def _ask(self, analyst: Analyst, key: str, body: dict[str, Any], most: float | None) -> Response:
        with self._desk.coming():
            questions, request = self._questions(analyst, body["queries"]), _request_text(body)
            return _bytes(await self._do(lambda service: service.ask(analyst.name, key, request, questions, most)))

    def _questions(self, analyst: Analyst, bodies: list[dict[str, Any]]) -> list[Question]:
        """What the queries mean, ready for the desk, which shall not wait for what can be done here."""
        self._count(f"by {analyst.name}", len(bodies) - 1)  # the first is counted already
        found = [self._asked(body) for body in bodies]
        if sum(question.answers for question in found) > MAX_ANSWERS:
            raise TooLarge(f"a request has at most {MAX_ANSWERS:,} answers; ask for fewer cells at a time")
        if sum(question.cells for question in found) > MAX_SUM:
            raise TooLarge(f"the queries of a request span at most {MAX_SUM:,} cells; ask for fewer at a time")
        for question in found:
            _ = question.unit, question.texts
        return found

    def _asked(self, body: dict[str, Any]) -> Question:
        """`asked`, remembered for conditions, which are asked again and again."""
        text = body.get("where")
        if text is None:
            return asked(self._public.domain, body)
        known = self._conditions.get(text)
        if known is None:
            known = asked(self._public.domain, body)
            if len(self._conditions) >= REMEMBERED:
                self._conditions.clear()
            if known.cells <= SMALL:
                self._conditions[text] = known
        return known

    async def budget(self, analyst: Analyst) -> Response:
        """The analyst's account, and the whole server's."""
        with self._desk.coming():
            return _json(await self._do(lambda service: service.budget(analyst.name)))

    async def history(self, analyst: Analyst, first: int, count: int) -> Response:
        """The analyst's requests."""
        found = self._door.requests(analyst.name, first, count)
        listed = [{"number": r.number, "key": r.key, "time": r.time, **json.loads(r.request)} for r in found]
        return _json({"requests": listed, "next": first + count if len(found) == count else None})

    async def history_one(self, analyst: Analyst, number: int) -> Response:
        """The bytes of one answer."""
        found = self._door.requests(analyst.name, number, 1)
        if not found:
            raise _Problem(404, "you have made fewer requests")
        return _bytes(found[0].response)

    async def synthetic(self, analyst: Analyst, rows: int, format: str) -> Response:
        """Records from the hypothesis: what is public already.

        The desk only hands it out. They are drawn and written beside the loop, of one request at a time.
        """
        if rows * len(self._public.domain) > MAX_VALUES:
            most = MAX_VALUES // len(self._public.domain)
            raise _Problem(400, f"a response has {MAX_VALUES:,} values at most; ask for {most:,} rows")
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._drawing.acquire()
        except TimeoutError:
            raise Busy("others are served") from None
        try:
            with self._desk.coming():
                synopsis = await self._do(lambda service: service.synopsis)
            content = await asyncio.to_thread(records, synopsis, rows, format, np.random.default_rng())
        except (TooLarge, InvalidInput) as error:
            raise _Problem(404, f"no synthetic records: {error.public}") from None
        finally:
            self._drawing.release()
        return _bytes(content, "text/csv; charset=utf-8" if format == "csv" else "application/json")

    async def health(self) -> Response:
        """Whether the desk is at work; it is not waited for."""
        if not self._desk.well:
            raise Busy("the desk is in trouble")
        return _json({"status": "ok"})


def application(handlers: Handlers) -> ASGIApp:
    """The whole server, in front of a desk that is at work."""
    folder = files("qrelease.server") / "static"
    routes = [handlers.route(endpoint) for endpoint in ENDPOINTS]
    routes += [
        _fixed(path, (folder / name).read_bytes(), _KINDS[name.rpartition(".")[2]]) for path, name in _PAGES.items()
    ]
    routes.append(_fixed("/openapi.json", json.dumps(document()).encode(), "application/json"))
    served = Starlette(routes=routes, exception_handlers={HTTPException: _not_there})
    served.router.redirect_slashes = False  # it would redirect to whatever Host a request names
    return _Headers(served)


def _fixed(path: str, content: bytes, kind: str) -> Route:
    response = _bytes(content, kind)

    async def answer(_: Request) -> Response:
        return response

    return Route(path, answer, methods=["GET"])


async def _not_there(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _Problem(status, "see /docs", **dict(getattr(error, "headers", None) or {})).response()


class _Headers:
    """Adds to every response what keeps a browser from doing more with it than show it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)


def _address(request: Request) -> str:
    """Where from: an address, or of IPv6, of which anybody has 2^64, the network."""
    host = request.client.host if request.client else "nowhere"
    with suppress(ValueError):
        found = ip_address(host)
        if isinstance(found, IPv6Address):
            return f"from {found.ipv4_mapped or ip_network((int(found) >> 64 << 64, 64))}"
    return f"from {host}"


def _only(request: Request, header: str) -> str:
    """What a header says; nothing, if there are several of them: one may be meant for somebody in between."""
    found = request.headers.getlist(header)
    return found[0] if len(found) == 1 else ""


def _key(request: Request) -> str:
    key = _only(request, "idempotency-key")
    if not re.fullmatch(KEY, key):
        raise InvalidInput("one Idempotency-Key header is needed: 1 to 128 visible ASCII characters")
    return key


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two members of one name a reader before this one may have seen the other."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a name is given twice")
    return found


_parse_json: Final = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_each_once).decode


def _json(content: object, status: int = 200, kind: str = "application/json", **headers: str) -> Response:
    return _bytes(json.dumps(content).encode(), kind, status, **headers)


def _bytes(content: bytes, kind: str = "application/json", status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(content, status, {"cache-control": "no-store", **named}, kind)
