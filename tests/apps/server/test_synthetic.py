"""Synthetic records over HTTP: beside other requests, and each cell with its share."""

import asyncio
import json
import threading
from dataclasses import replace

import numpy as np
from replies import problem
from serving import GENEROUS, TABLE, Client, admit, worker
from worlds import PEOPLE, coded

from qrelease.apps.server.service import Service
from qrelease.apps.server.synthetic import records
from qrelease.errors import InvalidInput, OutOfMemory, TooLarge
from qrelease.inference.histogram import Histogram

WOMEN = {"where": "sex = 'F'"}
YOUNG = {"range": {"column": "age", "low": "0", "high": "39"}}


def test_a_universe_too_large_for_a_hypothesis_has_no_synthetic_records(server, monkeypatch):
    monkeypatch.setattr("qrelease.mechanisms.online.hypothesis.MAX_HYPOTHESIS_CELLS", TABLE.domain.size - 1)
    assert "no synthetic records: the universe has" in problem(server.get("/v1/synthetic"), 404)


def test_whether_there_are_synthetic_records_follows_from_public_sizes_alone(server, monkeypatch, caplog):
    """A private table takes memory: whatever fails for want of it is one and the same 503, and logs no size."""
    found = set()
    for where in ("qrelease.apps.server.app.records", "qrelease.mechanisms.online.session.OnlineSession.synopsis"):
        for error in (OutOfMemory("64 MiB are free"), MemoryError("of 20 000"), TooLarge("cells"), InvalidInput("no")):

            def full(*_, error=error):
                raise error

            with monkeypatch.context() as patch:
                patch.setattr(where, property(full) if "synopsis" in where else full)
                reply = server.get("/v1/synthetic")
            found.add((reply.status, reply.content, tuple(sorted(reply.headers.items()))))
    ((status, content, _),) = found
    assert (status, json.loads(content)["detail"]) == (503, "not now; ask again")
    assert not any(c.isdigit() for record in caplog.records for c in record.getMessage())
    assert server.get("/v1/synthetic?rows=3").status == 200


def test_synthetic_records_are_drawn_beside_the_desk_and_one_request_waits_for_another_so_long(path, monkeypatch):
    begun, going = threading.Event(), threading.Event()

    def slow(*_):
        begun.set()
        return b"rows" if going.wait(10) else b""

    monkeypatch.setattr("qrelease.apps.server.app.records", slow)
    with worker(path, limits=replace(GENEROUS, seconds=0.5)) as app:
        ada = Client(app, admit(path, "ada"))
        assert ada.ask(WOMEN).status == 200

        async def meanwhile():
            drawing = asyncio.create_task(ada.exchange("GET", "/v1/synthetic", [b""], {}))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            headers = {"content-type": "application/json", "idempotency-key": "k"}
            asked = await ada.exchange("POST", "/v1/query", [json.dumps(YOUNG).encode()], headers)
            refused = await ada.exchange("GET", "/v1/synthetic", [b""], {})
            monkeypatch.setattr(Service, "learn", lambda _: learned.append(1))
            await asyncio.sleep(0.1)
            learned.append(2)
            going.set()
            return asked, refused, await drawing

        learned = []
        asked, refused, drawn = asyncio.run(meanwhile())
        assert asked.status == 200
        assert problem(refused, 503) == "not now; ask again"  # there is no key
        assert learned[0] == 1  # it is no work for the desk any more
        assert drawn.content == b"rows"


def test_of_many_synthetic_records_too_each_cell_has_its_share(monkeypatch):
    """Few are settled; of many, each cell of the universe has what it expects, but for two, and they are shuffled."""
    state = Histogram(PEOPLE, [(0,), (1, 2)], 1.0)
    state.multiply(np.random.default_rng(0).normal(size=state.logs.shape))
    whole, expected = 20_000, 20_000 * state.values
    monkeypatch.setattr("qrelease.apps.server.synthetic.MAX_ROUNDED_WORK", 0)
    monkeypatch.setattr(Histogram, "sample", lambda *_: 1 / 0)
    found = records(state, whole, "csv", np.random.default_rng(1)).decode().splitlines()
    assert found[0] == ",".join(PEOPLE.names)
    columns = zip(*(row.split(",") for row in found[1:]), strict=True)
    codes = [[a.encode(text) for text in column] for a, column in zip(PEOPLE, columns, strict=True)]
    cells = np.ravel_multi_index(codes, PEOPLE.shape)
    assert (np.abs(np.bincount(cells, minlength=PEOPLE.size) - expected) < 2 + 1e-6).all()
    assert 0.4 < (np.diff(cells) < 0).mean() < 0.6


def test_many_synthetic_records_do_not_fall_on_one_value_of_a_column(monkeypatch):
    """As they would at equal distances, where these are a multiple of how often its values come round."""
    monkeypatch.setattr("qrelease.apps.server.synthetic.MAX_ROUNDED_WORK", 0)
    rows = 1 << 12
    drawn = json.loads(records(Histogram(coded(*[2] * 16), [(0,)], 1.0), rows, "json", np.random.default_rng(2)))[
        "rows"
    ]
    assert np.abs(np.mean(drawn, axis=0) - 0.5).max() < 5 / np.sqrt(4 * rows)
