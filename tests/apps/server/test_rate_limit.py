"""Rates of tokens and of networks."""

import pytest
from replies import problem
from serving import Client, admit, worker

from qrelease.apps.server.app import MIN_BURST, Limits
from qrelease.apps.server.rate_limit import Rates, network

WOMEN = {"where": "sex = 'F'"}


@pytest.mark.parametrize(
    ("host", "whose"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("testclient", "testclient"),
    ],
)
def test_addresses_are_counted_by_whose_they_are(host, whose):
    assert network(host) == whose


def test_rates_are_each_tokens_own(path):
    with worker(path, limits=Limits(rate=0.001, burst=3)) as app:
        ada, bob = Client(app, admit(path, "ada")), Client(app, admit(path, "bob"))
        assert [ada.get("/v1/schema").status for _ in range(4)] == [200, 200, 200, 429]
        assert bob.get("/v1/schema").status == 200  # though from the same address


def test_behind_a_proxy_nobodys_guesses_keep_others_out(path):
    """All come from one address there; what is counted against it is what brings no good token."""
    with worker(path, limits=Limits(rate=0.001, burst=2)) as app:
        assert [Client(app, "guess").get("/v1/schema").status for _ in range(4)] == [401, 401, 429, 429]
        for name in ("ada", "bob", "eve"):
            assert Client(app, admit(path, name)).get("/v1/schema").status == 200
        for page in ("/health", "/", "/openapi.json", "/static/page.js"):
            assert [Client(app).get(page).status for _ in range(5)] == [200] * 5
        assert [Client(app, "guess", host="192.0.2.9").get("/v1/schema").status for _ in range(3)] == [401, 401, 429]


def test_each_query_of_a_batch_counts(path):
    with worker(path, limits=Limits(rate=0.001, burst=5)) as app:
        ada = Client(app, admit(path, "ada"))
        assert ada.post("/v1/quote", {"queries": [WOMEN]}).status == 200
        assert ada.post("/v1/quote", {"queries": [WOMEN] * 4}).status == 200
        problem(ada.post("/v1/quote", {"queries": [WOMEN] * 2}), 429)
        assert ada.get("/v1/budget").status == 429


def test_a_batch_may_be_larger_than_what_may_be_asked_at_once(path):
    """It is waited for after it: else a server of a low rate would never take what its document allows."""
    with worker(path, limits=Limits(rate=0.1, burst=3)) as app:
        ada = Client(app, admit(path, "ada"))
        assert ada.post("/v1/quote", {"queries": [WOMEN] * 8}).status == 200
        refused = ada.post("/v1/quote", {"queries": [WOMEN]})
        assert "ask again in 60 s" in problem(refused, 429)
        assert refused.headers["retry-after"] == "60"


@pytest.mark.parametrize(
    ("rate", "burst"), [(200.0, 400), (1000.0, 2000), (50.0, 100), (1.0, MIN_BURST), (0.001, MIN_BURST)]
)
def test_what_may_be_asked_at_once_follows_the_rate(rate, burst):
    limits = Limits.at(rate)
    assert (limits.rate, limits.burst) == (rate, burst)


def test_who_has_a_network_has_one_rate(path):
    with worker(path, limits=Limits(rate=0.001, burst=2)) as app:
        guesses = (
            "2001:db8::1",
            "2001:db8::2:1",
            "2001:db8::3",
            "2001:db8:0:1::1",
            "::ffff:192.0.2.7",
            "::ffff:192.0.2.8",
        )
        statuses = [Client(app, "guess", host=host).get("/v1/schema").status for host in guesses]
        assert statuses == [401, 401, 429, 401, 401, 401]


def test_a_bucket_fills_up_again():
    now = [0.0]
    rates = Rates(2.0, 2.0, lambda: now[0])
    assert [rates.take("a") for _ in range(3)] == [True, True, False]
    now[0] = 0.5
    assert [rates.take("a"), rates.take("a"), rates.take("b", 2), rates.take("b")] == [True, False, True, False]
    assert rates.wait("b") == 0.5
    now[0] = 0.75
    assert rates.wait("b") == 0.25
    now[0] = 2.0
    assert rates.wait("b") == rates.wait("c") == 0
