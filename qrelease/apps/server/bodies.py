"""The JSON body of a request, within bounds of size and time."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from starlette.requests import Request

from qrelease.apps.server.problems import Problem


async def json_body(request: Request, most: int, seconds: float) -> Any:
    """The body of a request; a `Problem` unless it is JSON of at most so many bytes and arrives in so many seconds."""
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
        return _parse_json(raw.decode())
    except (ValueError, RecursionError):
        raise Problem(400, "the body is not JSON in UTF-8, with each name given once") from None


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two members of one name a reader before this one may have seen the other."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a name is given twice")
    return found


_parse_json: Final = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_each_once).decode
