"""Several datasets behind one address: what their analysts see, and what nobody sees of the others."""

import asyncio
import contextlib
import json
import threading
from collections import Counter
from dataclasses import replace

import pytest
from replies import problem
from serving import GENEROUS, Client, admit, opened_handlers, spent
from worlds import PEOPLE, coded, random_table

from qrelease.apps.server.app import Limits
from qrelease.apps.server.datasets import datasets_application
from qrelease.apps.server.openapi import ENDPOINTS, document
from qrelease.apps.server.rate_limit import Rates
from qrelease.errors import LedgerError
from qrelease.privacy.analysts import Analysts

PEOPLE_TABLE, HOUSES_TABLE = random_table(PEOPLE, 20_000, 0), random_table(coded(3, 2), 20_000, 1)
NAMES = ("people", "houses")
OTHERS = ("people", "houses", "nothing", "People", "people%20", "..%2fpeople", "%00", "a" * 500)


@contextlib.contextmanager
def several(folder, limits=GENEROUS, tables=(PEOPLE_TABLE, HOUSES_TABLE), secret=b"secret", **options):
    """The application of two datasets, their ledgers beside each other; options by the dataset's name."""
    strangers = Rates(limits.rate, limits.burst)
    with contextlib.ExitStack() as opened:
        handlers = {}
        for name, table in zip(NAMES, tables, strict=True):
            own = {"limits": limits, "table": table, "strangers": strangers, **options.get(name, {})}
            handlers[name] = opened.enter_context(opened_handlers(folder / f"{name}.ledger", **own))
        yield datasets_application(handlers, strangers, None, secret)


@pytest.fixture
def both(tmp_path):
    with several(tmp_path) as app:
        yield app


def test_who_asks_at_the_root_is_told_where_the_datasets_are(both):
    assert "below /datasets/NAME" in problem(Client(both).post("/v1/query", {"where": "sex = 'F'"}), 404)
    assert "below /datasets/NAME" in problem(Client(both, "no-token").get("/v1/budget"), 404)


def under(client, name):
    """The same client, of one dataset."""

    class Under:
        def get(self, path, **headers):
            return client.get(f"/datasets/{name}{path}", **headers)

        def post(self, path, body, key=None):
            return client.post(f"/datasets/{name}{path}", body, key)

    return Under()


def asked(client, name):
    """What every endpoint of a dataset answers, without the times in it."""
    replies = []
    for endpoint in ENDPOINTS:
        path = f"/datasets/{name}{endpoint.path.replace('{number}', '1')}"
        body = json.dumps(endpoint.example).encode() if endpoint.body else b""
        headers = {"content-type": "application/json", "idempotency-key": "mine"} if endpoint.body else {}
        replies.append(client.send(endpoint.method, path, body, headers))
    return [(r.status, r.headers, r.content) for r in replies]


def test_each_dataset_answers_its_own_analysts_from_its_own_budget(both, tmp_path):
    ada = Client(both, admit(tmp_path / "people.ledger", "ada"))
    bob = Client(both, admit(tmp_path / "houses.ledger", "bob"))
    (women,) = under(ada, "people").post("/v1/query", {"where": "sex = 'F'"}).json["answers"]
    assert women["source"] == "measured"
    assert spent(tmp_path / "people.ledger") > 0 == spent(tmp_path / "houses.ledger")
    column = under(bob, "houses").get("/v1/schema").json["columns"][0]
    (found,) = under(bob, "houses").post("/v1/query", {"where": column["conditions"][0]}).json["answers"]
    assert found["source"] == "measured"
    assert spent(tmp_path / "houses.ledger") > 0
    assert under(ada, "people").get("/v1/budget").json["server"]["spent"]["epsilon"] == spent(
        tmp_path / "people.ledger"
    )


def test_a_token_lists_the_datasets_that_it_is_for_and_no_others(both, tmp_path):
    for name in NAMES:
        client = Client(both, admit(tmp_path / f"{name}.ledger", "ada"))
        assert client.get("/v1/datasets").json == {"datasets": [name]}
    problem(Client(both, "none").get("/v1/datasets"), 401)
    problem(Client(both).get("/v1/datasets"), 401)


@pytest.mark.parametrize("whose", ["nobody's", "another's", "revoked"])
def test_what_is_not_ones_own_answers_as_what_there_is_not(both, tmp_path, whose):
    """Whatever is asked: status, headers and bytes."""
    tokens = {
        "nobody's": "x" * 43,
        "another's": admit(tmp_path / "houses.ledger", "bob"),
        "revoked": admit(tmp_path / "people.ledger", "ada"),
    }
    if whose == "revoked":
        from qrelease.privacy.ledger import Ledger

        with Ledger.open(tmp_path / "people.ledger") as ledger:
            Analysts(ledger).revoke("ada")
    client = Client(both, tokens[whose])
    reference = asked(client, "there is not".replace(" ", "-"))
    assert Counter(status for status, *_ in reference) == {401: 12, 200: 1}  # and that is the server's health
    for name in OTHERS:
        if whose == "another's" and name == "houses":
            continue
        assert asked(client, name) == reference
    assert spent(tmp_path / "people.ledger") == spent(tmp_path / "houses.ledger") == 0


def test_strangers_are_as_many_whatever_dataset_they_name(tmp_path):
    """Else a name that is used up at another number of requests would be one that there is."""
    with several(tmp_path, Limits(rate=0.001, burst=4)) as app:
        for first in ("people", "nothing"):
            for then in ("houses", "nothing2"):
                client = Client(app, "none", host=f"192.0.2.{len(first)}{len(then)}")
                seen = [under(client, name).get("/v1/budget").status for name in (first, then) * 3]
                assert seen == [401] * 4 + [429] * 2
                problem(client.get("/v1/datasets"), 429)


def test_analysts_of_one_name_do_not_count_for_each_other(tmp_path):
    with several(tmp_path, Limits(rate=0.001, burst=2, seconds=60.0)) as app:
        clients = [(Client(app, admit(tmp_path / f"{name}.ledger", "ada")), name) for name in NAMES]
        for client, name in clients:
            assert [under(client, name).get("/v1/schema").status for _ in range(3)] == [200, 200, 429]


def test_what_strangers_and_analysts_of_another_dataset_see_is_the_same_for_every_table(tmp_path):
    """The list, every refusal, pages and health, beside a dataset of other records, and of one more."""
    seen = []
    for number, rows in enumerate((1, 2, 20_000)):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        with several(folder, tables=(random_table(PEOPLE, max(rows, 10_000) + rows, number), HOUSES_TABLE)) as app:
            ada = Client(app, admit(folder / "people.ledger", "ada"))
            assert under(ada, "people").post("/v1/query", {"where": "sex = 'F'"}).status == 200
            bob = Client(app, admit(folder / "houses.ledger", "bob"))
            pages = ("/", "/health", "/docs", "/openapi.json", "/v1/datasets", "/datasets/people/", "/metrics", "/nil")
            replies = [(r.status, r.headers, r.content) for r in (bob.get(page) for page in pages)]
            seen.append((replies, asked(bob, "people")))
    assert seen[0] == seen[1] == seen[2]


def test_a_dataset_in_trouble_leaves_the_others_at_work(tmp_path):
    def broken(session, analysts):
        class Broken:
            def __getattr__(self, name):
                raise LedgerError("the disk is full")

        return Broken()

    with several(tmp_path, people={"service_of": broken}) as app:
        ada = Client(app, admit(tmp_path / "people.ledger", "ada"))
        bob = Client(app, admit(tmp_path / "houses.ledger", "bob"))
        problem(under(ada, "people").get("/v1/budget"), 503)
        assert under(bob, "houses").get("/v1/budget").status == 200
        assert bob.get("/health").status == 200


def test_a_ledger_that_cannot_be_asked_is_no_business_of_other_analysts(tmp_path):
    with several(tmp_path) as app:
        ada = Client(app, admit(tmp_path / "people.ledger", "ada"))
        bob = Client(app, admit(tmp_path / "houses.ledger", "bob"))
        (tmp_path / "people.ledger").rename(tmp_path / "elsewhere")
        assert bob.get("/v1/datasets").json == {"datasets": ["houses"]}
        problem(ada.get("/v1/datasets"), 503)


def test_a_ledger_that_hangs_keeps_nobody_of_another_dataset_waiting(tmp_path):
    """However many ask for the one; and once that is known, nobody waits for it either."""
    over, looked = threading.Event(), []

    class Hanging(Analysts):
        def holder(self, token):
            looked.append(token)
            over.wait(60)
            return super().holder(token)

    async def asked_of_both(app):
        people, houses = (Client(app, tokens[name]) for name in NAMES)

        def get(client, path):
            return client.exchange("GET", path, [b""], {})

        waiting = [asyncio.create_task(get(people, "/datasets/people/v1/schema")) for _ in range(100)]
        await asyncio.sleep(0.05)
        found = (await get(houses, "/datasets/houses/v1/schema")).status
        statuses = {(await task).status for task in waiting}
        listed = (await get(houses, "/v1/datasets")).json
        late = (await get(people, "/datasets/people/v1/schema")).status
        begun = len(looked)
        over.set()
        await asyncio.sleep(0.1)
        after = (await get(people, "/datasets/people/v1/schema")).status
        return found, statuses, listed, late, begun, after

    with several(tmp_path, replace(GENEROUS, seconds=2.0), people={"analysts_of": Hanging}) as app:
        tokens = {name: admit(tmp_path / f"{name}.ledger", "ada") for name in NAMES}
        found = asyncio.run(asked_of_both(app))
    assert found == (200, {503}, {"datasets": ["houses"]}, 503, 1, 200)


def test_which_dataset_stands_in_for_a_name_that_there_is_not_is_secret(tmp_path):
    """While one is in trouble, names that there are not answer like one or the other."""
    answered = []
    for number, secret in enumerate((b"one", b"two")):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        with several(folder, secret=secret) as app:
            (folder / "people.ledger").rename(folder / "elsewhere")
            stranger = Client(app, "of-nobody")
            answered.append([under(stranger, f"made-up-{i}").get("/v1/budget").status for i in range(24)])
    assert [set(statuses) for statuses in answered] == [{401, 503}] * 2
    assert answered[0] != answered[1]


def test_pages_and_the_document_are_the_same_whatever_name_is_in_their_address(both):
    client = Client(both)
    for page in ("/", "/docs", "/static/page.js", "/openapi.json", "/health"):
        (found,) = {under(client, name).get(page).content for name in OTHERS}
        assert found
    assert b"Your datasets" in client.get("/").content
    assert client.get("/static/datasets.js").status == 200
    described = client.get("/openapi.json").json
    assert described == document(several=True)
    assert {"/v1/datasets", "/health", "/datasets/{dataset}/v1/query"} <= described["paths"].keys()
