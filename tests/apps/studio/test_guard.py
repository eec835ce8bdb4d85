"""Who may talk to the studio."""

import re

import pytest
from studios import HOST, PORT, TOKEN, studio_in, told

from qrelease.apps.studio.guard import new_token

GOOD = f"/{TOKEN}/api/files"


@pytest.fixture
def app(tmp_path):
    return studio_in(tmp_path).client.app


def test_the_address_that_was_printed_opens_the_page(app):
    found = told(app, f"/{TOKEN}/", host=HOST)
    assert found.status == 200
    assert found.headers["content-type"].startswith("text/html")
    assert told(app, GOOD, host=f"localhost:{PORT}", origin=f"http://{HOST}").status == 200


@pytest.mark.parametrize("path", ["/", "/api/files", f"/{TOKEN}", f"/{TOKEN[:-1]}/api/files", "/wröng/", f"//{TOKEN}/"])
def test_without_the_token_nothing_is_said(app, path):
    found = told(app, path, host=HOST)
    assert found.status == 401
    assert b"people" not in found.content
    assert TOKEN.encode() not in found.content


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},  # a name of another host that leads here (DNS rebinding)
        {"host": f"evil.example:{PORT}"},
        {"host": "127.0.0.1"},
        {"host": f"127.0.0.1:{PORT + 1}"},
        {"host": ""},
        {},
        {"host": HOST, "origin": "http://evil.example"},
        {"host": HOST, "origin": "null"},
        {"host": HOST, "origin": f"https://{HOST}"},
        {"host": HOST, "origin": f"http://127.0.0.1:{PORT + 1}"},
        {"host": HOST, "sec-fetch-site": "cross-site"},
        {"host": HOST, "sec-fetch-site": "same-site"},
    ],
)
def test_who_comes_from_elsewhere_is_refused_even_with_the_token(app, headers):
    found = told(app, GOOD, **headers)
    assert found.status == 403
    assert found.json["title"] == "not from here"


def test_from_elsewhere_the_page_alone_opens_and_in_a_window_of_its_own(app):
    opens = {"host": HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert told(app, f"/{TOKEN}/", **opens).status == 200
    assert told(app, f"/{TOKEN[:-1]}x/", **opens).status == 401
    for path, headers in (
        (GOOD, opens),
        (f"/{TOKEN}/studio.js", opens),
        (f"/{TOKEN}/", opens | {"sec-fetch-dest": "iframe"}),
        (f"/{TOKEN}/", opens | {"sec-fetch-mode": "no-cors"}),
        (f"/{TOKEN}/", opens | {"origin": "null"}),
    ):
        assert told(app, path, **headers).status == 403


def test_every_response_forbids_other_hosts(app):
    for path in (GOOD, f"/{TOKEN}/", "/nothing", f"/{TOKEN}/nothing"):
        headers = told(app, path, host=HOST).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"https?:|\*|data:", policy)
        assert headers["referrer-policy"] == "no-referrer"  # the address is a secret
        assert headers["x-content-type-options"] == "nosniff"


def test_tokens_are_long_and_never_the_same():
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", token) for token in tokens)
