"""What is heard over sockets: heads, bodies and connections have bounds."""

import asyncio
import contextlib
import json
import socket

from replies import problem
from serving import Client, Reply, admit, worker

from qrelease.apps.server.app import Limits
from qrelease.apps.server.http_bounds import MAX_HEAD_BYTES, BoundedServer, configured

WOMEN = {"where": "sex = 'F'"}


def over_sockets(app, *requests, **bounds):
    """What a server says to requests, each on a connection of its own, until it or the request ends that."""

    async def talk():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = BoundedServer(configured(app, 1, **bounds))
            task = asyncio.create_task(serving.serve(sockets=[listening]))
            found = []
            for request in requests:
                reader, writer = await asyncio.open_connection(*listening.getsockname())
                writer.write(request)
                head, _, content = (await asyncio.wait_for(reader.read(), 20)).partition(b"\r\n\r\n")
                named = (line.decode().lower().split(": ", 1) for line in head.split(b"\r\n")[1:])
                found.append(Reply(int(head.split()[1]), dict(named), content))
                writer.close()
            serving.should_exit = True
            await task
            return found

    return asyncio.run(talk())


def head(*lines):
    return "\r\n".join(("GET /health HTTP/1.1", "Host: localhost", "Connection: close", *lines, "", "")).encode()


def test_heads_are_bounded_and_what_is_no_http_is_a_problem_too(path, caplog):
    long = "x: " + "y" * MAX_HEAD_BYTES
    with worker(path) as app:
        good, tall, many, wide, cut, odd, what = over_sockets(
            app,
            head("x: " + "y" * (MAX_HEAD_BYTES - 200)),
            head(long),
            head(*["x: y"] * (MAX_HEAD_BYTES // 5)),
            head().replace(b"/health", b"/" + b"h" * MAX_HEAD_BYTES),
            head(long)[:-4],
            head("Transfer-Encoding: gzip"),
            b"what?\r\n\r\n",
        )
    assert good.status == 200
    for reply, status in ((tall, 431), (many, 431), (wide, 431), (cut, 431), (odd, 400), (what, 400)):
        problem(reply, status)
        assert reply.headers["connection"] == "close"
    assert caplog.text == ""  # there may be as many as anybody likes


def test_what_is_said_twice_is_not_heard(path):
    """A proxy may have heard the other."""

    def request(*lines):
        return head(*lines).replace(b"GET /health", b"POST /v1/query") + json.dumps(WOMEN).encode()

    with worker(path) as app:
        tokens = [f"Authorization: Bearer {admit(path, name)}" for name in ("ada", "bob")]
        body = ["Content-Type: application/json", f"Content-Length: {len(json.dumps(WOMEN))}"]
        keys = ["Idempotency-Key: k", "Idempotency-Key: l"]
        good, two_tokens, two_keys = over_sockets(
            app,
            request(tokens[0], keys[0], *body),
            request(*tokens, keys[0], *body),
            request(tokens[0], *keys, *body),
        )
    assert good.status == 200
    problem(two_tokens, 401)
    problem(two_keys, 400)


def test_too_many_connections_are_told_to_come_again(path):
    with worker(path) as app:
        (reply,) = over_sockets(app, head(), connections=0)
    assert "too many connections" in problem(reply, 503)


def test_idle_connections_of_one_address_lock_nobody_out(path, caplog):
    """However many are open: the oldest idle one without a good token makes room; one with a good token is kept."""

    async def talk(app, token):
        async def asked(reader, writer):
            writer.write(
                head(f"Authorization: Bearer {token}").replace(b"/health", b"/v1/schema").replace(b"close", b"x")
            )
            status = int((await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).split()[1])
            await reader.read(1 << 16)
            return status

        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = BoundedServer(configured(app, 1, strangers=3, connections=8))
            task = asyncio.create_task(serving.serve(sockets=[listening]))
            where = listening.getsockname()
            known = await asyncio.open_connection(*where)
            statuses = [await asked(*known)]
            idle = [await asyncio.open_connection(*where) for _ in range(40)]
            late = await asyncio.open_connection(*where)
            statuses += [await asked(*late), await asked(*known)]
            open_now = len(serving.server_state.connections)
            ended = [await asyncio.wait_for(reader.read(), 20) for reader, _ in idle[:36]]
            for _, writer in (known, late, *idle):
                writer.close()
            serving.should_exit = True
            await task
            return statuses, open_now, ended

    with worker(path) as app:
        statuses, open_now, ended = asyncio.run(talk(app, admit(path, "ada")))
    assert statuses == [200, 200, 200]
    assert open_now <= 2 + 3
    assert ended == [b""] * 36
    assert caplog.text == ""


def test_connections_that_do_not_read_their_answers_lock_nobody_out(path):
    """An answer that is begun, and waits for who asked to read it, is as idle as none."""
    many = head().replace(b"/health", b"/openapi.json").replace(b"close", b"x") * 400

    async def stalled(serving, seen):
        async with asyncio.timeout(20):
            while not any(c.flow.write_paused for c in serving.server_state.connections - seen):
                await asyncio.sleep(0.01)
        seen |= serving.server_state.connections

    async def talk(app, token):
        loop, seen = asyncio.get_running_loop(), set()
        with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as closing:
            serving = BoundedServer(configured(app, 1, strangers=3, connections=8))
            task = asyncio.create_task(serving.serve(sockets=[listening]))
            for _ in range(6):
                deaf = closing.enter_context(socket.socket())
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                deaf.setblocking(False)
                await loop.sock_connect(deaf, listening.getsockname())
                await loop.sock_sendall(deaf, many)
                await stalled(serving, seen)
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(head(f"Authorization: Bearer {token}").replace(b"/health", b"/v1/schema"))
            status = int((await asyncio.wait_for(reader.read(), 20)).split()[1])
            writer.close()
            held = sum(c.transport.get_extra_info("socket").fileno() >= 0 for c in seen)
            serving.should_exit = True
            await task
            return status, held

    with worker(path) as app:
        status, held = asyncio.run(talk(app, admit(path, "ada")))
    assert status == 200
    assert held <= 3  # of six: the others hold no descriptor either


def test_a_body_that_does_not_come_is_not_waited_for(path):
    with worker(path, limits=Limits(seconds=0.5)) as app:  # so long the look-up of the token may take, too
        ada = Client(app, admit(path, "ada"))
        headers = {"content-type": "application/json", "idempotency-key": "k"}
        problem(asyncio.run(ada.exchange("POST", "/v1/query", [b"{", None], headers)), 408)
