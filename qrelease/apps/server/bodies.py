"""The JSON body of a request, within bounds of size and time."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from starlette.requests import Request

from qrelease._util.strict_json import decode
from qrelease.apps.server.problems import Problem
from qrelease.apps.server.shapes import read_json
from qrelease.errors import InvalidInput

_T = TypeVar("_T")


async def json_body(request: Request, kind: type[_T], most: int, seconds: float) -> _T:
    """The body of a request; a `Problem` unless it is JSON of at most so many bytes and arrives in so many seconds.

    `InvalidInput` for JSON of another shape.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "the body must be application/json")
    raw = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                raw += part
                if len(raw) > most:
                    raise Problem(413, f"a body has at most {most:,} bytes", connection="close")
    except TimeoutError:
        raise Problem(408, f"a body has {seconds:g} s to arrive", connection="close") from None
    try:
        decode(raw.decode())
        return read_json(raw, kind)
    except InvalidInput:
        raise
    except (ValueError, RecursionError):
        raise Problem(400, "the body is not JSON in UTF-8, with each name given once") from None
