"""The wire of a client: whom it talks to, what it sends again, what it says when that ends."""

import socket
import subprocess
import sys

import pytest
from serving import admit, worker
from wire import listening_server, scripted

import qrelease as qr
from qrelease.apps.server.app import Limits

TOKEN = "secret-token-of-ada"
ANSWER = {"query": "a = 1", "value": 1.0, "error": 1.0, "source": "cached", "cost": None}
GOOD = (200, {}, {"answers": [ANSWER]})


def problem(status, detail="not now", **headers):
    content = {"title": "t", "status": status, "detail": detail}
    return status, {"Content-Type": "application/problem+json", **headers}, content


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://data.example.org", "https"),
        ("http://192.0.2.1:80", "https"),
        ("http://localhost.example.org", "https"),
        ("http://0.0.0.0", "https"),
        ("ftp://127.0.0.1", "https://HOST"),
        ("data.example.org", "https://HOST"),
        ("https://", "https://HOST"),
        ("https://data.example.org:none", "https://HOST"),
        ("https://data.example.org/a b", "https://HOST"),
        ("https://ada:secret-token-of-ada@data.example.org", "no user"),
        ("https://data.example.org/?token=secret-token-of-ada", "no query"),
    ],
)
def test_a_token_goes_nowhere_in_the_clear(url, told):
    with pytest.raises(qr.InvalidInput, match=told) as raised:
        qr.connect(url, TOKEN)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://x.example"])
def test_this_machine_and_tls_will_do(url):
    assert TOKEN not in repr(qr.connect(url, TOKEN))


def test_the_token_is_in_no_error_of_a_wrong_one():
    with pytest.raises(qr.InvalidInput) as raised:
        qr.connect("https://x.example", f"{TOKEN}\r\nHost: y")
    assert TOKEN not in str(raised.value)
    with pytest.raises(qr.InvalidInput, match="holds no certificates"):
        qr.connect("https://x.example", TOKEN, ca="nowhere.pem")


def test_a_token_may_be_a_line_of_a_file():
    with scripted(GOOD) as (port, asked), qr.connect(f"http://127.0.0.1:{port}", f" {TOKEN}\r\n") as client:
        assert client.ask("a = 1").value == 1
    assert asked[0][2]["Authorization"] == f"Bearer {TOKEN}"


def test_what_passes_is_asked_again_under_one_key():
    broken = (503, {"Content-Type": "text/html"}, b"<h1>a proxy</h1>")
    replies = [problem(503, **{"Retry-After": "0"}), problem(500), problem(429, **{"Retry-After": "0"}), broken, GOOD]
    with scripted(*replies) as (port, asked), qr.connect(f"http://127.0.0.1:{port}", TOKEN) as client:
        assert client.ask("a = 1", most=0.1).value == 1
    assert len(asked) == 5
    assert len({(path, headers["Idempotency-Key"], body) for _, path, headers, body in asked}) == 1


@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (
            problem(401, "a good token is needed"),
            qr.ServiceError,
            r"^http://127.0.0.1:\d+ answered 401: a good token is.*give",
        ),
        (problem(429, "your requests fill the room"), qr.ServiceError, "fill the room"),
        (problem(402, "budget exceeded"), qr.BudgetExceeded, "budget exceeded"),
        (problem(409, "a key of its own"), qr.InvalidInput, "a key of its own"),
        (problem(422, "two\nlines"), qr.InvalidInput, "two lines"),
        ((307, {"Location": "http://192.0.2.1/"}, b""), qr.ServiceError, "a redirect, which is not followed"),
        ((200, {"Content-Type": "text/html"}, b"<h1>hello</h1>"), qr.ServiceError, "not an answer of a qrelease"),
        ((200, {}, b"{"), qr.ServiceError, "not JSON"),
    ],
)
def test_what_stays_is_said_at_once(reply, error, told):
    with scripted(reply) as (port, asked), pytest.raises(error, match=told) as raised:
        qr.connect(f"http://127.0.0.1:{port}", TOKEN).ask("a = 1", key="mine")
    assert len(asked) == 1
    assert TOKEN not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_patience_ends_with_the_key_to_go_on_with():
    with socket.create_server(("127.0.0.1", 0)) as unheard:
        port = unheard.getsockname()[1]
        silent = qr.connect(f"http://127.0.0.1:{port}", TOKEN, timeout=0.05, patience=0.2)
        with pytest.raises(qr.ServiceError, match=r"no answer within 0.05 s; .* key='mine'") as raised:
            silent.ask("a = 1", key="mine")
    assert raised.value.key == "mine"
    assert raised.value.status is None
    with pytest.raises(qr.ServiceError, match="did not answer"):
        silent.budget()


def test_what_was_never_sent_is_not_paid_for():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(qr.ServiceError, match=r"did not answer: .*; nothing was sent, and nothing is paid") as raised:
        qr.connect(f"http://127.0.0.1:{port}", TOKEN, patience=0.1).ask("a = 1", key="mine")
    assert "it may be paid for" not in str(raised.value)
    with scripted(GOOD) as (port, asked), pytest.raises(qr.ServiceError, match=r"no TLS.*http://.*nothing was sent"):
        qr.connect(f"https://127.0.0.1:{port}", TOKEN, patience=0.1).ask("a = 1", key="mine")
    assert not asked


def test_what_was_sent_once_may_be_paid_for_though_later_nobody_listens():
    with scripted(problem(503, **{"Retry-After": "0"})) as (port, _):
        client = qr.connect(f"http://127.0.0.1:{port}", TOKEN, patience=1.0)
        with pytest.raises(qr.ServiceError, match=r"it may be paid for: ask again with key='mine'"):
            client.ask("a = 1", key="mine")


def test_a_rate_is_kept_by_waiting(tmp_path):
    path = tmp_path / "people.ledger"
    with worker(path, limits=Limits(rate=5, burst=2, seconds=60)) as app, listening_server(app) as port:
        with qr.connect(f"http://127.0.0.1:{port}", admit(path, "ada")) as client:
            assert [client.budget().requests for _ in range(4)] == [0] * 4
        client = qr.connect(f"http://127.0.0.1:{port}", admit(path, "bob"), patience=0.1)
        with pytest.raises(qr.ServiceError, match="more requests than this server takes"):
            [client.budget() for _ in range(4)]
        client.close()


def test_a_connection_that_was_closed_meanwhile_is_opened_again():
    with scripted(GOOD, GOOD) as (port, _), qr.connect(f"http://127.0.0.1:{port}", TOKEN) as client:
        client.ask("a = 1")
        client.ask("a = 1")  # HTTP/1.0 closes after each


def test_a_forked_process_has_a_connection_of_its_own(tmp_path):
    path = tmp_path / "people.ledger"
    with worker(path) as app, listening_server(app) as port:
        code = (
            "import os, sys, qrelease as qr\n"
            f"client = qr.connect('http://127.0.0.1:{port}', sys.argv[1])\n"
            "assert client.budget().requests == 0\n"
            "child = os.fork()\n"
            "for _ in range(20): assert client.budget().name == 'ada'\n"
            "if not child: os._exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0\n"
        )
        subprocess.run([sys.executable, "-c", code, admit(path, "ada")], check=True)
