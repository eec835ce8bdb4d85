"""Synthetic records over HTTP: beside other requests, and each cell with its share."""

import asyncio
import json
import threading
import time
from dataclasses import replace

import numpy as np
from instead import Instead
from replies import problem
from serving import GENEROUS, Client, admit, worker
from worlds import coded, random_table

from qrelease.apps.server.service import Service
from qrelease.apps.server.synthetic import MAX_ROUNDED_WORK, synthetic_records
from qrelease.errors import InvalidInput, OutOfMemory, TooLarge
from qrelease.inference.controlled_rounding import marginals
from qrelease.inference.histogram import Histogram
from qrelease.mechanisms.online.hypothesis import MAX_HYPOTHESIS_CELLS

WOMEN = {"where": "sex = 'F'"}
YOUNG = {"range": {"column": "age", "low": "0", "high": "39"}}


def test_a_universe_too_large_for_a_hypothesis_has_no_synthetic_records(path):
    domain = coded(2, MAX_HYPOTHESIS_CELLS // 2 + 1)
    with worker(path, table=random_table(domain, 1_000, 0)) as app:
        refused = problem(Client(app, admit(path, "ada")).get("/v1/synthetic"), 404)
    assert f"no synthetic records: the columns of this table have {domain.size:,} combinations" in refused


def test_whether_there_are_synthetic_records_follows_from_public_sizes_alone(path, caplog):
    """A private table takes memory: whatever fails for want of it is one and the same 503, and logs no size."""
    found, failing = set(), []

    class Full(Service):
        """Its hypothesis cannot be had, or no records of it be drawn."""

        @property
        def synopsis(self):
            where, error = failing[0] if failing else ("", None)
            if where == "transaction":
                raise error

            def sample(*given):
                if where == "thread":
                    raise error
                return hypothesis.sample(*given)

            hypothesis = super().synopsis
            return Instead(hypothesis, sample=sample)

    with worker(path, service_of=Full) as app:
        ada = Client(app, admit(path, "ada"))
        for where in ("transaction", "thread"):
            for error in (OutOfMemory("64 MiB are free"), MemoryError("of 20"), TooLarge("cells"), InvalidInput("no")):
                failing[:] = [(where, error)]
                reply = ada.get("/v1/synthetic")
                found.add((reply.status, reply.content, tuple(sorted(reply.headers.items()))))
        ((status, content, _),) = found
        assert (status, json.loads(content)["detail"]) == (503, "not now; ask again")
        assert not any(c.isdigit() for record in caplog.records for c in record.getMessage())
        failing.clear()
        assert ada.get("/v1/synthetic?rows=3").status == 200


def test_synthetic_records_are_drawn_outside_transactions_and_one_request_waits_for_another_so_long(path):
    begun, going, learned = threading.Event(), threading.Event(), []

    class Slow(Service):
        """Its records take until they may be there."""

        @property
        def synopsis(self):
            hypothesis = super().synopsis
            return Instead(
                hypothesis, sample=lambda *given: (begun.set(), going.wait(10), hypothesis.sample(*given))[2]
            )

        def learn(self):
            learned.append(1)
            return super().learn()

    with worker(path, limits=replace(GENEROUS, seconds=0.5), service_of=Slow) as app:
        ada = Client(app, admit(path, "ada"))
        assert ada.ask(WOMEN).status == 200

        async def meanwhile():
            drawing = asyncio.create_task(ada.exchange("GET", "/v1/synthetic?rows=7&format=csv", [b""], {}))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            headers = {"content-type": "application/json", "idempotency-key": "k"}
            asked = await ada.exchange("POST", "/v1/query", [json.dumps(YOUNG).encode()], headers)
            refused = await ada.exchange("GET", "/v1/synthetic", [b""], {})
            learned.clear()
            until = time.monotonic() + 8  # shorter than the records are waited for
            while not learned and time.monotonic() < until:
                await asyncio.sleep(0.01)
            learned.append(2)
            going.set()
            return asked, refused, await drawing

        asked, refused, drawn = asyncio.run(meanwhile())
        assert asked.status == 200
        assert problem(refused, 503) == "not now; ask again"  # there is no key
        assert learned[0] == 1  # no transaction has to do it any more
        assert drawn.content.count(b"\n") == 8


def test_of_many_synthetic_records_too_each_cell_has_its_share():
    """Few are settled; of many, each cell of the universe has what it expects, but for two, and they are shuffled."""
    domain, rows = coded(*[2] * 10), 50_000
    assert rows * len(marginals(domain.shape, rows)) > MAX_ROUNDED_WORK
    state = Histogram(domain, [(0,), (1, 2)], 1.0)
    state.multiply(np.random.default_rng(0).normal(size=state.logs.shape))
    found = synthetic_records(state, rows, "csv", np.random.default_rng(1)).decode().splitlines()
    assert found[0] == ",".join(domain.names)
    codes = np.array([row.split(",") for row in found[1:]], int).T
    cells = np.ravel_multi_index([*codes], domain.shape)
    assert (np.abs(np.bincount(cells, minlength=domain.size) - rows * state.values) < 2 + 1e-6).all()
    assert 0.4 < (np.diff(cells) < 0).mean() < 0.6


def test_many_synthetic_records_do_not_fall_on_one_value_of_a_column():
    """As they would at equal distances, where these are a multiple of how often its values come round."""
    rows = 1 << 14
    assert rows * len(marginals((2,) * 16, rows)) > MAX_ROUNDED_WORK
    drawn = json.loads(
        synthetic_records(Histogram(coded(*[2] * 16), [(0,)], 1.0), rows, "json", np.random.default_rng(2))
    )["rows"]
    assert np.abs(np.mean(drawn, axis=0) - 0.5).max() < 5 / np.sqrt(4 * rows)
