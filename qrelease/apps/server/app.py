"""The HTTP side: routes, tokens, limits and errors. It has no access to the table, only to the service.

Nothing is logged but the operator's own troubles, without names, tokens or queries. What a refusal says is a function
of the request and of what is public; so is the time that it takes, since what is refused draws nothing.

Requests are counted by whose token they bring. Those without a good one are counted by their address, and only those:
behind a proxy all analysts have the same. What takes no token, the pages and the server's health, is bytes that are
there already, and not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

import numpy as np
from msgspec import UNSET, to_builtins
from msgspec.json import encode as json_text
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from qrelease.apps.server.bodies import json_body
from qrelease.apps.server.metrics import MEDIA_TYPE, Meter
from qrelease.apps.server.openapi import ENDPOINTS, KEY_PATTERN, Endpoint, document
from qrelease.apps.server.pages import BrowserHeaders, fixed_route, page_routes
from qrelease.apps.server.problems import Ended, KeyReused, NoRoom, Problem, bytes_response, json_response
from qrelease.apps.server.questions import (
    MAX_ANSWERS,
    NumberQuestion,
    PublicFacts,
    Question,
    read_estimate,
    read_question,
)
from qrelease.apps.server.rate_limit import Rates, network
from qrelease.apps.server.shapes import (
    MAX_SHOWN,
    MAX_VALUES,
    Account,
    Asked,
    Drawn,
    EstimateQuery,
    Health,
    History,
    Kept,
    Limit,
    One,
    Page,
    Queries,
    Query,
    check_names,
    read_json,
    read_texts,
)
from qrelease.apps.server.synthetic import dummy_records, synthetic_records
from qrelease.apps.server.transactions import Busy, Fault, Transactions
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, QReleaseError, StreamHalted, TooLarge
from qrelease.mechanisms.online.hypothesis import MAX_HYPOTHESIS_CELLS
from qrelease.privacy.analysts import Analyst, Analysts, Revoked
from qrelease.privacy.analysts import Request as Recorded

if TYPE_CHECKING:
    from qrelease.apps.server.service import Service

log = logging.getLogger("qrelease.server")

_T = TypeVar("_T")

MAX_REMEMBERED_CONDITIONS: Final = 4096
"""Conditions that are not parsed again."""

MAX_REMEMBERED_CELLS: Final = 4096
"""Cells of the marginal of such a condition."""

MAX_REQUEST_CELLS: Final = 1 << 18
"""Cells of all queries of one request."""

TOKEN_SECONDS: Final = 1.0
"""Seconds for which a token that was found in the ledger is good without another look: so long a revoked one may be."""

MIN_BURST: Final = 20
"""Requests that anybody may make at once, whatever the rate: the page makes several when it is opened."""

_BEARER: Final = re.compile(r"(?i:bearer) +([A-Za-z0-9_-]{1,256})")

_request_text: Final = json.JSONEncoder(sort_keys=True).encode

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

    Parameters
    ----------
    body
        Bytes of a request's body.
    rate
        Queries, or other requests, a second of one analyst, in each worker; and requests without a good token from one
        address, or, since a client has so many of them, from the first 64 bits of one.
    burst
        And so many at once; a batch may be larger, and what it takes beyond them is waited for after it.
    seconds
        For a body to arrive, and for a transaction to answer it.
    """

    body: int = 1 << 16
    rate: float = 200.0
    burst: float = 400.0
    seconds: float = 10.0

    @classmethod
    def at(cls, rate: float) -> Self:
        """The limits at a rate: at once, as many requests as it gives in two seconds; the others are the usual ones."""
        return cls(rate=rate, burst=max(2 * rate, MIN_BURST))


class Handlers:
    """One method an endpoint, of its name.

    Parameters
    ----------
    door
        The analysts, on a connection of its own: tokens and histories are read without waiting for a transaction.
    meter
        Where answers are counted; None for nowhere.
    strangers
        Counts requests without a good token, of all datasets of a server; None for this dataset's alone.
    """

    def __init__(
        self,
        transactions: Transactions,
        door: Analysts,
        public: PublicFacts,
        limits: Limits,
        meter: Meter | None = None,
        strangers: Rates | None = None,
    ) -> None:
        self.meter = meter
        self._transactions, self._door, self._public, self._limits = transactions, door, public, limits
        self._rates = Rates(limits.rate, limits.burst)
        self._strangers = strangers or self._rates
        self._holders: dict[str, tuple[Analyst, float]] = {}
        self._conditions: dict[tuple[str, bool], Question | NumberQuestion] = {}
        self._drawing = asyncio.Semaphore(1)
        self._reading = ThreadPoolExecutor(1, "reading")
        self._looking_since = math.inf

    async def respond(self, endpoint: Endpoint, request: Request) -> Response:
        """What comes of a request, counted."""
        begun = time.monotonic()
        handler: Callable[..., Awaitable[Response]] = getattr(self, endpoint.name)

        async def answer() -> Response:
            return await handler(**await self._given(endpoint, request))

        response = await responded(answer, under_key=endpoint.key)
        if self.meter:
            self.meter.answered(endpoint.name, response.status_code, time.monotonic() - begun)
        return response

    def rehearse(self) -> None:
        """Do once what a request needs before its transaction, so that no analyst waits while it is made ready."""
        self._door.holder("")
        for query in self._public.examples.queries:
            question = read_question(self._public.domain, query)
            if isinstance(question, Question):
                _ = question.group, question.texts

    async def account(self) -> Account | None:
        """The session's; None while nobody can tell."""
        try:
            return await self._do(lambda service: service.account)
        except (Busy, Fault, QReleaseError):
            return None

    @property
    def well(self) -> bool:
        """Whether transactions are done."""
        return self._transactions.well

    async def _given(self, endpoint: Endpoint, request: Request) -> dict[str, Any]:
        """What a request brings, checked: the analyst, the parameters, the key and the body, in this order."""
        given: dict[str, Any] = {} if endpoint.public else {"analyst": await self._analyst(request, endpoint)}
        try:
            if not endpoint.public:  # what watches a server's health may add something against caches
                check_names([name for name, _ in request.query_params.multi_items()], endpoint.query_names)
            if endpoint.parameters:
                texts = {**request.query_params, **request.path_params}
                given["asked"] = read_texts(texts, endpoint.parameters)
            if endpoint.key:
                given["key"] = _key(request)
            if endpoint.body:
                given["body"] = await json_body(request, endpoint.body, self._limits.body, self._limits.seconds)
        except InvalidInput as error:
            raise Problem(400, str(error)) from None
        return given

    async def _analyst(self, request: Request, endpoint: Endpoint) -> Analyst:
        """Who asks, by the token; it is looked up anew for a request with a body only once in a while.

        Such a request is answered in a transaction, where a token that was revoked in between is refused.
        """
        token = _token(request)
        hashed = sha256(token.encode()).hexdigest()
        analyst, until = self._holders.get(hashed, (None, 0.0))
        if time.monotonic() > until or not endpoint.body:
            self._holders.pop(hashed, None)
            analyst = await self.holder(request)
            if analyst is None:
                refuse_stranger(request, self._strangers)
            self._holders[hashed] = analyst, time.monotonic() + TOKEN_SECONDS
        assert analyst is not None
        self.welcome(request, analyst)
        return analyst

    async def holder(self, request: Request) -> Analyst | None:
        """Whose token a request brings, by the ledger."""
        token = _token(request)
        return await self._read(lambda: self._door.holder(token)) if token else None

    def welcome(self, request: Request, analyst: Analyst) -> None:
        """Count a request of an analyst's."""
        _vouch(request, trusted=True)
        self._count(f"by {analyst.name}")

    async def _read(self, look: Callable[[], _T]) -> _T:
        """What is in the ledger: in a thread of this dataset's own.

        A ledger on a server may keep who asks waiting, and nobody of another dataset. There is one connection, so a
        second thread would wait for the first. Once a look-up took too long, no further one waits for it.
        """

        def timed() -> _T:
            self._looking_since = time.monotonic()
            try:
                return look()
            finally:
                self._looking_since = math.inf

        try:
            async with asyncio.timeout(self._limits.seconds):
                if time.monotonic() > self._looking_since + self._limits.seconds:
                    raise TimeoutError
                return await asyncio.get_running_loop().run_in_executor(self._reading, timed)
        except TimeoutError:
            raise Busy("the ledger does not answer") from None

    def _count(self, whose: str, things: int = 1) -> None:
        _count(self._rates, whose, things)

    async def _do(self, work: Callable[[Service], _T]) -> _T:
        return await self._transactions.do(work, self._limits.seconds)

    async def schema(self, analyst: Analyst) -> Response:
        """The columns and the promise: the same for everybody."""
        return json_response(self._public.description)

    async def examples(self, analyst: Analyst) -> Response:
        """Queries to begin with: the same for everybody."""
        return json_response(self._public.examples)

    async def quote(self, analyst: Analyst, body: Queries) -> Response:
        """What queries would cost now."""
        with self._transactions.coming():
            questions = self._questions(analyst, body.queries)
            return json_response(await self._do(lambda service: service.quote(analyst.name, questions)))

    async def query(self, analyst: Analyst, key: str, body: Query, asked: Limit) -> Response:
        """Ask one query."""
        return await self._ask(analyst, key, Queries([body]), asked)

    async def batch(self, analyst: Analyst, key: str, body: Queries, asked: Limit) -> Response:
        """Ask several."""
        return await self._ask(analyst, key, body, asked)

    async def _ask(self, analyst: Analyst, key: str, body: Queries, asked: Limit) -> Response:
        most = None if asked.most is UNSET else asked.most
        with self._transactions.coming():
            questions, request = self._questions(analyst, body.queries), _request_text(to_builtins(body))
            return bytes_response(
                await self._do(lambda service: service.ask(analyst.name, key, request, questions, most))
            )

    async def estimate(self, analyst: Analyst, key: str, body: EstimateQuery, asked: Limit) -> Response:
        """Estimate a statistic."""
        most = None if asked.most is UNSET else asked.most
        with self._transactions.coming():
            question, request = read_estimate(self._public.domain, body), _request_text({"estimate": to_builtins(body)})
            return bytes_response(
                await self._do(lambda service: service.estimate(analyst.name, key, request, question, most))
            )

    async def estimate_quote(self, analyst: Analyst, body: EstimateQuery) -> Response:
        """What an estimate would cost now."""
        with self._transactions.coming():
            question = read_estimate(self._public.domain, body)
            return json_response(await self._do(lambda service: service.quote_estimate(analyst.name, question)))

    def _questions(self, analyst: Analyst, queries: list[Query]) -> list[Question | NumberQuestion]:
        """What the queries mean, ready for a transaction, which shall not wait for what can be done here."""
        self._count(f"by {analyst.name}", len(queries) - 1)  # the first is counted already
        found: list[Question | NumberQuestion] = []
        for query in queries:
            try:
                found.append(self._question(query))
            except (InvalidInput, TooLarge) as error:
                if len(queries) == 1:
                    raise
                asked = json_text(query).decode()[:MAX_SHOWN]
                raise type(error)(f"query {len(found) + 1} of {len(queries)}, {asked}: {error}") from None
        if sum(question.answers for question in found) > MAX_ANSWERS:
            raise TooLarge(f"a request has at most {MAX_ANSWERS:,} answers; ask for fewer cells at a time")
        if sum(question.cells for question in found) > MAX_REQUEST_CELLS:
            raise TooLarge(
                f"the queries of a request span at most {MAX_REQUEST_CELLS:,} cells; ask for fewer at a time"
            )
        for question in found:
            if isinstance(question, Question):
                _ = question.group, question.texts
        return found

    def _question(self, query: Query) -> Question | NumberQuestion:
        """`read_question`, remembered for conditions, which are asked again and again."""
        if query.where is UNSET:
            return read_question(self._public.domain, query)
        key = query.where, query.synopsis is UNSET or query.synopsis
        known = self._conditions.get(key)
        if known is None:
            known = read_question(self._public.domain, query)
            if len(self._conditions) >= MAX_REMEMBERED_CONDITIONS:
                self._conditions.clear()
            if known.cells <= MAX_REMEMBERED_CELLS:
                self._conditions[key] = known
        return known

    async def budget(self, analyst: Analyst) -> Response:
        """The analyst's account, and the whole server's."""
        with self._transactions.coming():
            return json_response(await self._do(lambda service: service.budget(analyst.name)))

    async def history(self, analyst: Analyst, asked: Page) -> Response:
        """The analyst's requests."""
        found = await self._read(lambda: self._door.requests(analyst.name, asked.first, asked.count))
        listed = [_asked(r) for r in found]
        return json_response(History(listed, asked.first + asked.count if len(found) == asked.count else None))

    async def history_one(self, analyst: Analyst, asked: One) -> Response:
        """The bytes of one answer."""
        found = await self._read(lambda: self._door.requests(analyst.name, asked.number, 1))
        if not found:
            raise Problem(404, "you have made fewer requests")
        return bytes_response(found[0].response)

    async def synthetic(self, analyst: Analyst, asked: Drawn) -> Response:
        """Records from the hypothesis: what is public already.

        They are drawn and written in a thread of their own, of one request at a time. Whether there are any follows
        from the sizes of the universe and of the request; whatever fails then is one and the same 503.
        """
        if not self._public.has_synthetic_records:
            cells = self._public.domain.size
            raise Problem(
                404,
                f"no synthetic records: the columns of this table have {cells:,} combinations of values (cells), and"
                f" a server draws records for {MAX_HYPOTHESIS_CELLS:,} at most; questions are answered all the same",
            )
        async with self._turn_to_draw(asked.rows):
            try:
                with self._transactions.coming():
                    synopsis = await self._do(lambda service: service.synopsis)
                rng = np.random.default_rng()
                content = await asyncio.to_thread(synthetic_records, synopsis, asked.rows, asked.format, rng)
            except (TooLarge, InvalidInput):
                raise Busy("no records could be drawn") from None
        return _records_response(content, asked.format)

    async def dummy(self, analyst: Analyst, asked: Drawn) -> Response:
        """Records from the schema alone: what anybody could make up who has read it."""
        async with self._turn_to_draw(asked.rows):
            try:
                content = await asyncio.to_thread(dummy_records, self._public.domain, asked.rows, asked.format)
            except InvalidInput as error:  # of the schema's rules, which are public
                raise Problem(404, str(error)) from None
        return _records_response(content, asked.format)

    @contextlib.asynccontextmanager
    async def _turn_to_draw(self, rows: int) -> AsyncIterator[None]:
        """One request at a time draws records; a `Problem` for more than a response has room for."""
        if rows * len(self._public.domain) > MAX_VALUES:
            most = MAX_VALUES // len(self._public.domain)
            raise Problem(400, f"a response has {MAX_VALUES:,} values at most; ask for {most:,} rows")
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._drawing.acquire()
        except TimeoutError:
            raise Busy("others are served") from None
        try:
            yield
        finally:
            self._drawing.release()

    async def health(self) -> Response:
        """Whether transactions are done; none is waited for."""
        if not self.well:
            raise Busy("no transaction can be done")
        return json_response(Health("ok"))


def _asked(request: Recorded) -> Asked:
    """A request of a history: the text of one is that of its queries, or of its estimate."""
    kept = read_json(request.request.encode(), Kept)
    queries = [] if kept.queries is UNSET else kept.queries
    return Asked(request.number, request.key, request.time, queries, kept.estimate)


def application(handlers: Handlers) -> ASGIApp:
    """The whole server, in front of transactions that have begun."""

    def route(endpoint: Endpoint) -> Route:
        async def answer(request: Request) -> Response:
            return await handlers.respond(endpoint, request)

        return Route(endpoint.path, answer, methods=[endpoint.method], name=endpoint.name)

    routes = [*map(route, ENDPOINTS), *page_routes(), metrics_route(handlers.meter, [handlers])]
    return routed([*routes, fixed_route("/openapi.json", json.dumps(document()).encode(), "application/json")])


def routed(routes: Sequence[Route], hint: str = "see /docs") -> ASGIApp:
    """The application of these routes, for browsers too.

    hint  what is said where there is nothing
    """

    async def not_there(request: Request, error: Exception) -> Response:
        return await _not_there(request, error, hint)

    served = Starlette(routes=routes, exception_handlers={HTTPException: not_there})
    served.router.redirect_slashes = False  # it would redirect to whatever Host a request names
    return BrowserHeaders(served)


def metrics_route(meter: Meter | None, handlers: Sequence[Handlers]) -> Route:
    """What the workers did for each dataset; but at the socket for it there is nothing."""

    async def metrics(request: Request) -> Response:
        if meter is None or (request.scope.get("server") or ("", 0))[1] != meter.meters.port:
            return await _not_there(request, HTTPException(404))
        accounts = await asyncio.gather(*(each.account() for each in handlers))
        return bytes_response(meter.meters.text(*accounts).encode(), MEDIA_TYPE)

    return Route("/metrics", metrics, methods=["GET"])


async def responded(answer: Callable[[], Awaitable[Response]], *, under_key: bool = False) -> Response:
    """What an answer says; every refusal becomes a problem here, and everything unforeseen a silent one."""
    again = "ask again, under the same key" if under_key else "ask again"
    try:
        return await answer()
    except Problem as refused:
        return refused.response()
    except ClientDisconnect:
        return Response(status_code=499)
    except (Busy, LedgerError, MemoryError) as trouble:  # what is free tells of the table: all say the same
        if isinstance(trouble, LedgerError):
            log.error("%s", trouble)
        elif isinstance(trouble, MemoryError):
            log.error("out of memory")
        return Problem(503, f"not now; {again}", retry_after="1").response()
    except QReleaseError as refusal:
        status = next(status for kind, status in _STATUS.items() if isinstance(refusal, kind))
        found = refusal.answers if isinstance(refusal, Ended) else ()
        return Problem(status, str(refusal), answers=found).response()
    except Exception as error:
        if not isinstance(error, Fault):
            log.error("a fault: %s", type(error).__name__)  # its text may tell too much
        return Problem(500, f"a fault of the server; {again}").response()


def refuse_stranger(request: Request, strangers: Rates) -> NoReturn:
    """A `Problem` for a request without a good token: 401, or 429 where there were many of its address."""
    _vouch(request, trusted=False)
    _count(strangers, _address(request))
    raise Problem(401, "a good token is needed: Authorization: Bearer TOKEN", www_authenticate="Bearer")


def _count(rates: Rates, whose: str, things: int = 1) -> None:
    if not rates.take(whose, things):
        after = max(math.ceil(rates.wait(whose)), 1)
        detail = f"more requests than this server takes; ask again in {after:,} s"
        raise Problem(429, detail, retry_after=f"{after}")


def _token(request: Request) -> str:
    match = _BEARER.fullmatch(_only(request, "authorization"))
    return match.group(1) if match else ""


async def _not_there(_: Request, error: Exception, hint: str = "see /docs") -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return Problem(status, hint, **dict(getattr(error, "headers", None) or {})).response()


def _records_response(content: bytes, format: str) -> Response:
    return bytes_response(content, "text/csv; charset=utf-8" if format == "csv" else "application/json")


def _vouch(request: Request, *, trusted: bool) -> None:
    """Tell the connection whether a good token came over it: those without one are few for each address."""
    connection = request.scope.get("state", {}).get("connection")
    if connection is not None:
        connection.trusted = trusted


def _address(request: Request) -> str:
    """Where a request comes from: an IPv4 address, or the network of an IPv6 one, as anybody has 2^64 of these."""
    return f"from {network(request.client.host) if request.client else 'nowhere'}"


def _only(request: Request, header: str) -> str:
    """What a header says; nothing, if there are several of them: one may be meant for somebody in between."""
    found = request.headers.getlist(header)
    return found[0] if len(found) == 1 else ""


def _key(request: Request) -> str:
    key = _only(request, "idempotency-key")
    if not re.fullmatch(KEY_PATTERN, key):
        raise InvalidInput("one Idempotency-Key header is needed: 1 to 128 visible ASCII characters")
    return key
