"""HTTP/1.1 with a bound on how large the head of a request may be, and how long it may take to arrive."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD: Final = 1 << 14
"""Bytes of a request's line and headers."""

SECONDS: Final = 10.0
"""For them to arrive, from the first byte on, or from the beginning of the connection."""


class ImpatientProtocol(H11Protocol):
    """uvicorn's own, which waits for the rest of a head for ever, but with an end to that."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The head of a request is due."""
        super().connection_made(transport)
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

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is due any more."""
        super().connection_lost(exc)
        if self._late is not None:
            self._late.cancel()
