"""HTTP/1.1 with bounds: how large the head of a request may be, how long it may take, and how many may come at once.

What h11 and uvicorn refuse by themselves is said in the one form of all errors.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from qrelease.server.api import PROBLEMS
from qrelease.server.app import problem

HEAD: Final = 1 << 14
"""Bytes of a request's line and headers."""

SECONDS: Final = 10.0
"""For them to arrive, from the first byte on, or from the beginning of the connection."""

CONNECTIONS: Final = 1000
"""Of one worker at a time; further ones are told to try again."""

BACKLOG: Final = 2048
"""Connections that wait until a worker accepts them."""

_FULL: Final = problem(503, "too many connections; ask again")


class Connection(h11.Connection):
    """h11's own bounds a head only while it is incomplete: one that comes in a piece may be as long as a piece."""

    def next_event(self) -> Any:
        """What came, in a bounded head."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            headers = sum(len(name) + len(value) + 4 for name, value in event.headers)
            if len(event.method) + len(event.target) + headers > HEAD:
                raise h11.RemoteProtocolError("the head of the request is too large", error_status_hint=431)
        return event


class ImpatientProtocol(H11Protocol):
    """uvicorn's own, which waits for the rest of a head for ever, but with an end to that."""

    _late: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = Connection(h11.SERVER, HEAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The head of a request is due."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self.app = _FULL
        self._late = self.loop.call_later(SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """It is here, or a part of it, which sets no later date."""
        super().data_received(data)
        waiting = self.conn.their_state is h11.IDLE
        if self._late is not None and not waiting:
            self._late.cancel()
            self._late = None
        elif self._late is None and waiting:
            self._late = self.loop.call_later(SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        """Refuse what h11 did not take, as a problem, and hang up; but not in the middle of another response."""
        error = sys.exception()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not (self.cycle and self.cycle.response_started):
            hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
            status = hint if hint in PROBLEMS else 400
            refusal = problem(status, PROBLEMS[status])
            head = h11.Response(status_code=status, headers=refusal.raw_headers)
            for event in (head, h11.Data(data=bytes(refusal.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is due any more."""
        super().connection_lost(exc)
        if self._late is not None:
            self._late.cancel()


def configured(app: ASGIApp, grace: int) -> uvicorn.Config:
    """How uvicorn serves an application, which has so many seconds to finish what it began when it is told to stop.

    It logs its own troubles, and not its clients': of those there are as many as a client likes.
    """
    return uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level=logging.ERROR,
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        ws="none",
        http=ImpatientProtocol,
        backlog=1,
        timeout_graceful_shutdown=grace,
    )


class Server(uvicorn.Server):
    """uvicorn's own, but it accepts one connection at a time, and leaves those that wait to the other workers too."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin; the configuration's backlog, which asyncio takes for both, bounds only what is accepted at a time."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)
