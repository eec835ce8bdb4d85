"""The HTTP side: tokens, limits, malformed requests, health, and faults that tell nothing."""

import asyncio
import json
import logging
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instead import Instead
from replies import problem
from serving import GENEROUS, WOMEN, Client, admit, spent, with_answers, worker
from worlds import PEOPLE, PROPERTY, coded, random_table

from qrelease.apps.server.service import Service
from qrelease.apps.server.shapes import MAX_VALUES
from qrelease.apps.server.transactions import Transactions
from qrelease.errors import LedgerError


def test_schema_budget_and_synthetic_records(server):
    schema = server.get("/v1/schema").json
    assert [c["name"] for c in schema["columns"]] == list(PEOPLE.names)
    assert all(server.ask({"where": c}).status == 200 for c in schema["columns"][1]["conditions"])
    budget = server.get("/v1/budget").json
    assert budget["name"] == "ada"
    assert budget["analyst"]["spent"] == budget["server"]["spent"] != None  # noqa: E711
    records = server.get("/v1/synthetic?rows=7").json
    assert records["columns"] == list(PEOPLE.names)
    assert len(records["rows"]) == 7
    assert all(len(row) == len(PEOPLE) for row in records["rows"])
    assert server.get("/v1/synthetic?rows=7&format=csv").content.count(b"\n") == 8


def test_a_token_is_needed_and_is_stored_nowhere(server, path):
    for token in (None, "x", server.token[:-1] + ("a" if server.token[-1] != "a" else "b"), "é", "x" * 300):
        reply = Client(server.app, token).get("/v1/schema")
        problem(reply, 401)
        assert reply.headers["www-authenticate"] == "Bearer"
    stored = b"".join(p.read_bytes() for p in path.parent.iterdir())
    assert server.token.encode() not in stored
    assert b"ada" in stored
    assert Client(server.app).get("/health").status == 200


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("/v1/query?mst=1", "unknown parameter 'mst' (did you mean 'most'?); it may have most"),
        ("/v1/query?most=1&most=0", "'most' more than once"),
        ("/v1/batch?MOST=0", "(did you mean 'most'?)"),
        ("/v1/quote?most=0", "unknown parameter 'most'; it has none"),
    ],
)
def test_a_misspelt_limit_of_the_price_is_no_limit_that_is_left_out(server, target, told):
    body = WOMEN if "/query" in target else {"queries": [WOMEN]}
    assert told in problem(server.post(target, body), 400)
    assert not any(server.get("/v1/budget").json["server"]["spent"].values())


def test_other_parameters_are_known_too(server):
    for path in ("/v1/budget?rows=3", "/v1/synthetic?row=3", "/v1/history/1?number=2", "/v1/dummy?rows=3&rows=3"):
        problem(server.get(path), 400)
    assert server.get("/health?at=12").status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"where": NaN}', 400),
        (b"\xff", 400),
        (b"[" * 60_000, 400),
        (b" " * 70_000, 413),
        (b"null", 400),
        (b'{"where": "grade = 1", "where": "grade = 2"}', 400),
        (b'{"range": {"column": "age", "low": "0", "high": "9", "high": "39"}}', 400),
        (json.dumps({"where": "sex = 'F'"}).encode("utf-16"), 400),
        (json.dumps({"where": "sex = 'F'"}).encode("utf-8-sig"), 400),
        ({"where": 1}, 400),
        ({"where": ""}, 400),
        ({"where": "x" * 5000}, 400),
        (b'{"where": "\\ud800"}', 400),
        ({"where": "sex = 'F'", "marginal": ["sex"]}, 400),
        ({"marginal": []}, 400),
        ({"range": {"column": "age"}}, 400),
        ({"range": {"column": "age", "low": "0", "high": "9", "more": 1}}, 400),
        ({"where": "sex ="}, 422),
        ({"where": "height > 3"}, 422),
        ({"where": "(" * 4000}, 422),
        ({"marginal": ["height"]}, 422),
        ({"marginal": ["sex", "sex"]}, 422),
        ({"range": {"column": "age' or \"x", "low": "'", "high": '"'}}, 422),
        ({"range": {"column": "sex", "low": "F", "high": "M"}}, 422),
    ],
)
def test_what_is_malformed_is_refused_with_one_line(server, path, body, status):
    problem(server.ask(body), status)
    assert spent(path) == 0


@pytest.mark.parametrize("path_", ["/v1/quote", "/v1/batch"])
def test_of_several_queries_the_refused_one_is_named(server, path, path_):
    wrong = {"where": "height = 9"}
    told = problem(server.post(path_, {"queries": [WOMEN, wrong, WOMEN]}), 422)
    assert told.startswith('query 2 of 3, {"where":"height = 9"}: ')
    assert told.endswith(problem(server.post(path_, {"queries": [wrong]}), 422))
    assert spent(path) == 0


def test_requests_have_limits(server, path):
    problem(server.post("/v1/batch", {"queries": [WOMEN] * 101}), 400)
    problem(server.post("/v1/batch", {"queries": [{"marginal": list(PEOPLE.names)}] * 100}), 422)
    problem(server.send("POST", "/v1/query", b"{}", {"idempotency-key": "k", "content-type": "text/plain"}), 415)
    problem(server.send("POST", "/v1/query", json.dumps(WOMEN).encode(), {"content-type": "application/json"}), 400)
    problem(server.ask(WOMEN, "k" * 129), 400)
    for path_ in ("/v1/synthetic?rows=0", "/v1/synthetic?rows=100001", "/v1/history?count=x", "/v1/history/-1"):
        problem(server.get(path_), 400)
    problem(server.get("/v2"), 404)
    problem(server.send("DELETE", "/v1/query", b"", {}), 405)
    assert spent(path) == 0


def test_the_cells_of_a_request_are_bounded(path):
    """Each condition on both columns is about their 2^16 cells: four are a request's 2^18."""
    cells = [{"where": f"a = {i} and b = 0"} for i in range(5)]
    with worker(path, table=random_table(coded(256, 256), 20_000, 0)) as app:
        ada = Client(app, admit(path, "ada"))
        assert ada.post("/v1/quote", {"queries": cells[:4]}).status == 200
        assert "span at most 262,144 cells" in problem(ada.post("/v1/batch", {"queries": cells}), 422)
    assert spent(path) == 0


def test_health_does_not_wait_for_transactions(path):
    done, going, gone = [], threading.Event(), []

    def slow(*_):
        done.append("begun")
        going.wait(60)
        done.append("ended")

    def failing(method):
        def tried(*arguments):
            if gone:
                raise LedgerError("gone")
            return method(*arguments)

        return tried

    def service_of(*given):
        service = Service(*given)
        return Instead(service, budget=slow, catch_up=failing(service.catch_up))

    with worker(path, service_of=failing(service_of)) as app:
        ada = Client(app, admit(path, "ada"))

        async def both():
            waiting = asyncio.create_task(ada.exchange("GET", "/v1/budget", [b""], {}))
            while not done:
                await asyncio.sleep(0.01)
            assert (await ada.exchange("GET", "/health", [b""], {})).status == 200
            assert done == ["begun"]
            going.set()
            await waiting

        asyncio.run(both())
        gone.append(1)
        problem(ada.ask(WOMEN), 503)
        problem(ada.get("/health"), 503)
        gone.clear()
        deadline = time.monotonic() + 10
        while ada.get("/health").status != 200 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert ada.get("/health").status == 200  # though nobody asked


def test_a_response_holds_so_many_values(path):
    columns = 32
    with worker(path, table=random_table(coded(2, *[1] * (columns - 1)), 20_000, 0)) as app:
        ada = Client(app, admit(path, "ada"))
        assert len(ada.get(f"/v1/synthetic?rows={MAX_VALUES // columns}").json["rows"]) == MAX_VALUES // columns
        refused = problem(ada.get(f"/v1/synthetic?rows={MAX_VALUES // columns + 1}"), 400)
        assert refused.endswith(f"ask for {MAX_VALUES // columns:,} rows")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


WORDS = st.sampled_from(
    ["sex", "age", "=", "in", "'F'", "20..39", "and", "or", "not", "(", ")", "{", "}", ",", "?", "is"]
)


TEXTS = st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=12)


QUERIES = (
    st.builds(lambda text: {"where": text}, TEXTS)
    | st.builds(lambda names: {"marginal": names}, st.lists(st.sampled_from([*PEOPLE.names, "x"]), max_size=4))
    | st.builds(lambda *v: {"range": dict(zip(("column", "low", "high"), v, strict=True))}, TEXTS, TEXTS, TEXTS)
    | JSON
)


def test_no_body_makes_it_fail(tmp_path):
    with worker(tmp_path / "people.ledger") as app:
        ada = Client(app, admit(tmp_path / "people.ledger", "ada"))

        @PROPERTY
        @given(QUERIES | st.lists(QUERIES, max_size=3).map(lambda found: {"queries": found}))
        def check(body):
            for path in ("/v1/query", "/v1/batch", "/v1/quote"):
                reply = ada.post(path, body)
                assert reply.status in (200, 400, 402, 422), reply.content
                if reply.status != 200:
                    problem(reply, reply.status)

        check()


def test_what_takes_too_long_is_told_to_ask_again_and_finds_its_answer(path):
    waits = [0.3]

    def slow(session, *asked):
        time.sleep(waits.pop() if waits else 0)
        return session.answers(*asked)

    with worker(path, limits=replace(GENEROUS, seconds=0.1), service_of=with_answers(slow)) as app:
        ada = Client(app, admit(path, "ada"))
        reply = ada.ask(WOMEN, "k")
        problem(reply, 503)
        assert reply.headers["retry-after"] == "1"
        time.sleep(0.4)
        assert ada.ask(WOMEN, "k").json["answers"][0]["source"] == "measured"
        assert ada.get("/v1/budget").json["requests"] == 1


def test_nothing_of_a_request_is_logged(server, caplog):
    caplog.set_level(logging.DEBUG)
    server.ask({"where": "sex = 'F' and grade = 1"}, "a-secret-key")
    problem(server.ask({"where": "a secret"}), 422)
    Client(server.app, "a-secret-token").get("/v1/schema")
    text = caplog.text
    assert not [w for w in (server.token, "secret", "sex", "ada") if w in text]


def test_a_fault_tells_nothing(path, caplog):
    """Neither one in the thread of the loop nor one in a transaction."""

    def fail(*_):
        raise RuntimeError("a private number: 17")

    class Failing(Transactions):
        async def do(self, *_):
            fail()

    for broken in ({"transactions_of": Failing}, {"service_of": with_answers(fail)}):
        with worker(path.with_name(f"{len(caplog.messages)}.ledger"), **broken) as app:
            ada = Client(app, admit(path.with_name(f"{len(caplog.messages)}.ledger"), "ada"))
            assert "17" not in problem(ada.ask({"where": "grade = 2"}), 500)
    assert caplog.messages == ["a fault: RuntimeError"] * 2
