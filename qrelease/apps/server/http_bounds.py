"""HTTP/1.1 with bounds: how large the head of a request may be, how long it may take, and how many may come at once.

A connection over which no good token came yet is a stranger's. Of those one address has a few, and each further one
takes the place of the oldest that is idle: so however many somebody opens, they lock nobody out, not even whoever comes
from the same address and asks at once.

What h11 and uvicorn refuse by themselves is said in the one form of all errors.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from qrelease.apps.server.problems import PROBLEMS, closing_response
from qrelease.apps.server.rate_limit import network

MAX_HEAD_BYTES: Final = 1 << 14
"""Bytes of a request's line and headers."""

HEAD_SECONDS: Final = 10.0
"""For them to arrive, from the first byte on, or from the beginning of the connection."""

MAX_CONNECTIONS: Final = 1000
"""Of one worker at a time, by default; further ones are told to try again."""

MAX_STRANGERS: Final = 64
"""Of one address, or of the first 64 bits of one of IPv6, without a good token, by default."""

LAST_SECONDS: Final = 2.0
"""For the first request of a connection that was taken just before the server stops, or reads its file again."""

BACKLOG: Final = 2048
"""Connections that wait until a worker accepts them."""

_TOO_MANY: Final = closing_response(503, "too many connections; ask again")


class Connection(h11.Connection):
    """h11's own bounds a head only while it is incomplete: one that comes in a piece may be as long as a piece."""

    def next_event(self) -> Any:
        """What came, in a bounded head."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            headers = sum(len(name) + len(value) + 4 for name, value in event.headers)
            if len(event.method) + len(event.target) + headers > MAX_HEAD_BYTES:
                raise h11.RemoteProtocolError("the head of the request is too large", error_status_hint=431)
        return event


class ImpatientProtocol(H11Protocol):
    """uvicorn's own, which waits for the rest of a head for ever, but with an end to that."""

    strangers = MAX_STRANGERS
    """Connections without a good token that one address may have."""

    most = MAX_CONNECTIONS
    """Connections at a time."""

    watch: Callable[[int], None] = staticmethod(lambda _: None)
    """Told how many connections there are, when one is made or lost."""

    trusted = False
    """Whether a good token came over it."""

    leaving = False
    """Whether the server stops."""

    origin = "nowhere"
    """The address that the connection comes from; looked up once, since each further connection asks all others."""

    _late: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = Connection(h11.SERVER, MAX_HEAD_BYTES)
        self.app_state = {**self.app_state, "connection": self}
        self.since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The head of a request is due."""
        super().connection_made(transport)
        self.origin = network(self.client[0]) if self.client else "nowhere"
        others = [c for c in self.connections if isinstance(c, ImpatientProtocol) and c is not self and not c.trusted]
        mine = [c for c in others if c.origin == self.origin]
        if len(mine) >= self.strangers:
            self._replace(mine)
        elif len(self.connections) > self.most:
            self._replace(others)
        self._late = self.loop.call_later(HEAD_SECONDS, transport.close)
        self.watch(len(self.connections))

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered on it, or nothing more until its client reads what was answered."""
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def _replace(self, others: Sequence[ImpatientProtocol]) -> None:
        """Close the oldest idle one of others instead of this; without any this one is told to come again."""
        idle = [c for c in others if c.idle]
        if not idle:
            self.app = _TOO_MANY
            return
        oldest = min(idle, key=lambda c: c.since)
        self.connections.discard(oldest)
        oldest.transport.abort()  # to close would wait, for ever, until what it has not read is sent

    def data_received(self, data: bytes) -> None:
        """Take in what has come of a request; a part of one does not move its deadline."""
        super().data_received(data)
        if self.leaving and self.cycle is not None:
            self.cycle.keep_alive = False
        waiting = self.conn.their_state is h11.IDLE
        if self._late is not None and not waiting:
            self._late.cancel()
            self._late = None
        elif self._late is None and waiting:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def shutdown(self) -> None:
        """End with the response that is due; with the first one, where no request came yet."""
        self.leaving = True
        self.loop.call_later(LAST_SECONDS if self.cycle is None else 0.0, super().shutdown)

    def send_400_response(self, msg: str) -> None:
        """Refuse what h11 did not take, as a problem, and hang up; but not in the middle of another response."""
        error = sys.exception()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not (self.cycle and self.cycle.response_started):
            hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
            status = hint if hint in PROBLEMS else 400
            refusal = closing_response(status, PROBLEMS[status])
            head = h11.Response(status_code=status, headers=refusal.raw_headers)
            for event in (head, h11.Data(data=bytes(refusal.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is due any more."""
        super().connection_lost(exc)
        self.watch(len(self.connections))
        if self._late is not None:
            self._late.cancel()


def configured(
    app: ASGIApp,
    grace: int,
    strangers: int = MAX_STRANGERS,
    connections: int = MAX_CONNECTIONS,
    watch: Callable[[int], None] = lambda _: None,
) -> uvicorn.Config:
    """How uvicorn serves an application, which has so many seconds to finish what it began when it is told to stop.

    strangers    connections without a good token that one address may have
    connections  connections at a time
    watch        told how many there are

    It logs its own troubles, and not its clients': of those there are as many as a client likes.
    """
    chosen = {"strangers": strangers, "most": connections, "watch": staticmethod(watch)}
    return uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level=logging.ERROR,
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        ws="none",
        http=type("Configured", (ImpatientProtocol,), chosen),
        backlog=1,
        timeout_graceful_shutdown=grace,
    )


class BoundedServer(uvicorn.Server):
    """uvicorn's own, but it accepts one connection at a time, and leaves those that wait to the other workers too."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin; the configuration's backlog, which asyncio takes for both, bounds only what is accepted at a time."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)
