"""Bodies of requests: JSON in UTF-8 within bounds of size and time, and each refusal's status."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from qrelease.apps.server.bodies import json_body
from qrelease.apps.server.problems import Problem


def read(*parts, shape=Any, kind="application/json", pause=0.0, most=64, seconds=5.0):
    """What `json_body` makes of a body that arrives in these parts."""
    left = list(parts)

    async def receive():
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}
    return asyncio.run(json_body(Request(scope, receive), shape, most, seconds))


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_a_body_may_come_in_parts_that_split_a_character(kind):
    raw = '{"query": "Straße"}'.encode()
    assert read(raw[:16], raw[16:17], raw[17:], kind=kind) == {"query": "Straße"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"NaN",
        b"[Infinity]",
        b'{"a": 1, "a": 2}',
        b'{"b": {"a": 1, "a": 1}}',
        b'"\xff"',
        b'"\\ud800"',
        b"1 2",
    ],
)
def test_what_is_no_plain_json_is_refused(raw):
    with pytest.raises(Problem) as refused:
        read(raw)
    assert refused.value.status == 400


def test_depth_beyond_the_parser_is_refused():
    with pytest.raises(Problem) as refused:
        read(b"[" * 200_000, most=1 << 20)
    assert refused.value.status == 400


def test_size_is_counted_while_a_body_arrives():
    assert read(b" " * 62, b"10", most=64) == 10
    with pytest.raises(Problem) as refused:
        read(b" " * 62, b"10", b"0", b"never read", most=64)
    assert (refused.value.status, refused.value.headers) == (413, {"connection": "close"})


def test_a_body_that_trickles_is_cut_off():
    with pytest.raises(Problem) as refused:
        read(*[b"1"] * 60, pause=0.05, seconds=0.2)
    assert (refused.value.status, refused.value.headers) == (408, {"connection": "close"})


@pytest.mark.parametrize("kind", ["", "text/json", "application/jsonp", "multipart/form-data"])
def test_other_kinds_of_content_are_refused_unread(kind):
    with pytest.raises(Problem) as refused:
        read(b"{}", kind=kind)
    assert refused.value.status == 415
