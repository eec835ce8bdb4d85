"""Estimates over HTTP: which statistics, what they cost whom, and what a later server knows of them."""

import asyncio
import json

import numpy as np
import pytest
from replies import problem
from serving import CAP, TABLE, WOMEN, Client, admit, spent, with_accounts, worker
from worlds import PEOPLE, random_table

from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.analysts import MAX_STORED_BYTES, Analysts
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.catalogue import parse_statistic
from qrelease.statistics.estimate import Estimate

GRADES = np.bincount(TABLE.columns[2], minlength=3)
ABOVE = "above-thresholds:grade,threshold=5000,positives=2"
ASKED = {"statistic": ABOVE, "epsilon": 0.125}


def estimate(client, body, key=None):
    return client.post("/v1/estimate", body, key)


def quoted(client, body):
    return client.post("/v1/estimate/quote", body).json


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        (ABOVE, tuple(f"{i}" for i in range(3) if GRADES[i] >= 5000)[:2]),
        (
            "above-thresholds:sex,threshold=0.7,positives=2,measure=mean,column=grade",
            tuple(s for i, s in enumerate("FM") if TABLE.columns[2][TABLE.columns[0] == i].mean() >= 0.7),
        ),
        (
            "above-thresholds:sex,threshold=9000,positives=2,measure=sum,column=grade",
            tuple(s for i, s in enumerate("FM") if TABLE.columns[2][TABLE.columns[0] == i].sum() >= 9000),
        ),
        ("most-common:grade,k=1", (f"{GRADES.argmax()}",)),
        ("mean:grade", TABLE.columns[2].mean()),
        ("quantile:grade,q=0.9", np.quantile(TABLE.columns[2], 0.9)),
        (
            "quantile:grade,q=0.9,by=sex",
            tuple(np.quantile(TABLE.columns[2][TABLE.columns[0] == i], 0.9) for i in range(2)),
        ),
    ],
)
def test_an_estimate_is_that_of_the_curator_at_its_price(server, path, text, exact):
    asked = {"statistic": text, "epsilon": 0.5}
    quote = quoted(server, asked)
    assert spent(path) == 0
    assert quote["source"] == "measured"
    assert quote["affordable"]
    reply = estimate(server, asked).json
    assert reply["cost"] == reply["takes"] == quote["cost"] == {"epsilon": 0.5}
    assert spent(path) == 0.5
    with Ledger.open(None, CAP, neighbours=Neighbours.REPLACE_ONE) as ledger:
        own = Curator(TABLE, ledger, Entropy.insecure(5)).estimate(parse_statistic(text), PureDP(0.5))
        assert ledger.spent == PureDP(0.5)
    found = Estimate.from_json(reply["estimate"])
    same = ("statistic", "parameters", "promise", "cost", "spends", "neighbours", "unit", "covers", "insecure")
    assert [getattr(found, name) for name in same] == [getattr(own, name) for name in same]
    assert [m.law for m in found.measured] == [m.law for m in own.measured]
    assert quote["promise"] == found.promise  # the number of records is public here
    assert found.value == (pytest.approx(exact, abs=0.05) if isinstance(exact, float) else exact)


def test_what_was_estimated_is_free_for_everybody_at_no_more_than_its_cost(server, path):
    first = estimate(server, ASKED).json
    bob = Client(server.app, admit(path, "bob"))
    assert quoted(bob, ASKED) == {
        "source": "cached",
        "cost": None,
        "takes": None,
        "affordable": True,
        "promise": first["estimate"]["promise"],
    }
    for epsilon in (0.125, 0.0625):
        again = estimate(bob, {**ASKED, "epsilon": epsilon}).json
        assert again == {"estimate": first["estimate"], "source": "cached", "cost": None, "takes": None}
    assert spent(path) == 0.125
    assert not any(bob.get("/v1/budget").json["analyst"]["spent"].values())
    assert estimate(bob, {**ASKED, "epsilon": 0.25}).json["source"] == "measured"
    assert estimate(bob, {**ASKED, "statistic": ABOVE.replace("5000", "5001")}).json["source"] == "measured"
    assert spent(path) == 0.5


def test_a_key_gives_the_same_bytes_and_names_one_request(server, path):
    first = estimate(server, ASKED, "k")
    assert estimate(server, ASKED, "k").content == first.content
    problem(estimate(server, {**ASKED, "epsilon": 0.25}, "k"), 409)
    problem(server.ask(WOMEN, "k"), 409)
    assert spent(path) == 0.125
    assert server.ask(WOMEN, "w").status == 200
    problem(estimate(server, ASKED, "w"), 409)
    first_asked, second_asked = server.get("/v1/history").json["requests"]
    assert first_asked == {"number": 1, "key": "k", "time": first_asked["time"], "queries": [], "estimate": ASKED}
    assert second_asked["queries"] == [WOMEN]
    assert "estimate" not in second_asked
    assert server.get("/v1/history/1").content == first.content


def test_requests_that_come_at_once_are_charged_once(server, path):
    async def storm():
        headers = {"content-type": "application/json"}
        body = json.dumps(ASKED).encode()
        keys = [f"k{i % 4}" for i in range(20)]
        sent = (server.exchange("POST", "/v1/estimate", [body], {**headers, "idempotency-key": key}) for key in keys)
        return await asyncio.gather(*sent)

    replies = asyncio.run(storm())
    assert len({json.dumps(r.json["estimate"]) for r in replies}) == 1
    assert spent(path) == 0.125
    assert server.get("/v1/budget").json["requests"] == 4


def test_other_workers_and_later_ones_go_on_with_estimates_keys_and_budgets(path):
    with worker(path, seed=1) as one, worker(path, seed=2) as two:
        token = admit(path, "ada")
        first = estimate(Client(one, token), ASKED, "k")
        assert quoted(Client(two, token), ASKED)["source"] == "cached"
        assert estimate(Client(two, token), ASKED, "k").content == first.content
        assert estimate(Client(two, token), ASKED, "l").json["estimate"] == first.json["estimate"]
        women = Client(two, token).ask(WOMEN).json["answers"][0]
        before = Client(one, token).get("/v1/budget").json
    assert before["server"]["spent"]["epsilon"] == pytest.approx(0.125 + women["cost"]["epsilon"])
    with worker(path, seed=3) as later:
        ada = Client(later, token)
        assert ada.get("/v1/budget").json == before
        assert estimate(ada, ASKED, "k").content == first.content
        assert estimate(ada, {**ASKED, "epsilon": 0.1}).json["estimate"] == first.json["estimate"]
        assert ada.ask(WOMEN).json["answers"][0]["value"] == women["value"]
        fresh = estimate(ada, {"statistic": "mean:grade", "epsilon": 0.25}).json
        assert fresh["source"] == "measured"
        assert ada.get("/v1/budget").json["server"]["spent"]["epsilon"] == pytest.approx(
            before["server"]["spent"]["epsilon"] + 0.25
        )
    with Ledger.open(path) as ledger:
        assert [e.label for e in ledger.history()].count("online: estimate") == 2


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({**ASKED, "statistic": "sample-and-aggregate:age,function=/etc/f.py:f"}, 422, "a statistic is NAME:COLUMN"),
        ({**ASKED, "statistic": "noisy-descent:grade"}, 422, "above-thresholds"),
        ({**ASKED, "statistic": "mean"}, 422, "NAME:COLUMN"),
        ({**ASKED, "statistic": "mean:salary"}, 422, "no attribute 'salary'"),
        ({**ASKED, "statistic": "mean:sex"}, 422, "'sex'"),
        ({**ASKED, "statistic": "quantile:grade,q=1.2"}, 422, "must be in (0, 1), got 1.2"),
        ({**ASKED, "statistic": "quantile:grade,interval=2"}, 422, "interval must be yes or no"),
        ({**ASKED, "statistic": "quantile:grade,by=salary"}, 422, "no attribute 'salary'"),
        ({**ASKED, "statistic": "above-thresholds:grade"}, 422, "needs one more of threshold"),
        ({**ASKED, "statistic": "above-thresholds:sex,threshold=1,measure=mean"}, 422, "column=hours"),
        (
            {**ASKED, "statistic": "above-thresholds:sex,threshold=7,measure=mean,column=grade"},
            422,
            "between the bounds",
        ),
        ({**ASKED, "statistic": "above-thresholds:sex,threshold=abc"}, 422, "threshold"),
        ({**ASKED, "statistic": f"{ABOVE}000000"}, 422, "at most 1,000 groups"),
        ({**ASKED, "statistic": "above-thresholds:sex/sex,threshold=1"}, 422, "sex"),
        ({**ASKED, "epsilon": -1}, 422, "epsilon"),
        ({**ASKED, "epsilon": 0}, 422, "epsilon"),
        ({**ASKED, "epsilon": 1e-320}, 422, "at least 1e-12"),
        ({"statistic": ABOVE, "rho": 0.1}, 422, "cannot hold a cost of rho"),
        ({**ASKED, "delta": 1e-6}, 422, "take rho, or epsilon alone"),
        ({"statistic": ABOVE}, 400, "Expected rho, or epsilon alone"),
        ({**ASKED, "rho": 0.1}, 400, "Expected rho, or epsilon alone"),
        ({**ASKED, "epsilon": "much"}, 400, "epsilon"),
        ({**ASKED, "epsilonn": 1}, 400, "did you mean"),
        ({"epsilon": 0.1}, 400, "statistic"),
    ],
)
def test_bad_requests_are_problems_and_cost_nothing(server, path, body, status, told):
    before = server.get("/v1/budget").json
    for reply in (estimate(server, body), server.post("/v1/estimate/quote", body)):
        assert told in problem(reply, status)
    assert server.get("/v1/budget").json == before
    assert spent(path) == 0


def test_nobody_uses_up_the_delta_that_the_others_answers_need(path):
    """The zCDP account of a session is backed by what is left of its delta when it opens."""
    with worker(path, cap=ApproxDP(2.0, 1e-6)) as app:
        with Ledger.open(path) as ledger:
            tokens = [Analysts(ledger).add(name, ApproxDP(2.0, 1e-6)) for name in ("ada", "bob")]
        ada, bob = (Client(app, token) for token in tokens)
        told = problem(estimate(ada, {"statistic": "mean:grade", "epsilon": 0.01, "delta": 1e-6}, "k"), 422)
        assert "take rho, or epsilon alone" in told
        assert ada.get("/v1/budget").json["requests"] == 0
        assert spent(path) == 0
        assert bob.ask(WOMEN).status == 200
        assert estimate(bob, {"statistic": "mean:grade", "rho": 0.001}).status == 200


def test_what_a_budget_does_not_hold_is_refused_and_quoted(path):
    with worker(path) as app:
        poor, rich = Client(app, admit(path, "poor", 0.1)), Client(app, admit(path, "rich", 10.0))
        assert "poor's budget exceeded: total epsilon=0.1" in problem(estimate(poor, ASKED, "k"), 402)
        quote = quoted(poor, ASKED)
        assert quote["cost"] == quote["takes"] == {"epsilon": 0.125}
        assert not quote["affordable"]
        told = problem(estimate(rich, {**ASKED, "epsilon": 1.5}), 402)
        assert told.startswith("the server's budget exceeded: total epsilon=1;")
        assert told.endswith("(the data holder alone can raise it); nothing was charged")
        assert "ask for a new quote" in problem(rich.post("/v1/estimate?most=0.1", ASKED), 402)
        assert spent(path) == 0
        assert rich.get("/v1/budget").json["requests"] == 0
        assert rich.post("/v1/estimate?most=0.125", ASKED).status == 200
        assert estimate(poor, ASKED, "k").json["cost"] is None  # a refusal is not kept; by now it is known


def test_an_estimate_takes_of_a_budget_in_its_terms(path):
    """Also where it costs rho, and the budgets are in epsilon and delta."""
    cap = ApproxDP(1.0, 1e-6)
    with worker(path, cap=cap) as app:
        with Ledger.open(path) as ledger:
            token = Analysts(ledger).add("ada", cap)
        ada = Client(app, token)
        asked = {"statistic": "mean:grade", "rho": 0.001}
        quote, reply = quoted(ada, asked), estimate(ada, asked).json
        assert reply["cost"] == {"rho": 0.001}
        assert reply["takes"] == quote["takes"] == ada.get("/v1/budget").json["analyst"]["spent"]
        assert 0 < reply["takes"]["epsilon"] < 1


def test_whose_room_is_used_up_is_given_known_estimates_alone(path):
    class Full:
        """An account that stored as much as it may."""

        def __init__(self, account):
            self._account = account

        full = True

        def __getattr__(self, name):
            return getattr(self._account, name)

    with worker(path) as app:
        known = estimate(Client(app, admit(path, "ada")), ASKED).json["estimate"]
    with worker(path, service_of=with_accounts(Full)) as app:
        bob = Client(app, admit(path, "bob"))
        assert estimate(bob, ASKED).json["estimate"] == known
        assert f"{MAX_STORED_BYTES:,} bytes" in problem(estimate(bob, {**ASKED, "epsilon": 0.25}), 429)
        assert bob.get("/v1/budget").json["requests"] == 0
    assert spent(path) == 0.125


def test_queries_are_answered_as_well_after_estimates(server):
    """An estimate answers no query, and the session's promise is the same."""
    estimate(server, ASKED)
    cells = server.ask({"marginal": ["grade"]}).json["answers"]
    assert all(abs(c["value"] - n) <= c["error"] < 0.1 * len(TABLE) for c, n in zip(cells, GRADES, strict=True))
    assert server.get("/v1/synthetic?rows=10").status == 200


def test_too_many_groups_are_refused(path):
    wide = random_table(type(PEOPLE).coded({"a": 300, "b": 300}), 1000, 0)
    with worker(path, table=wide, mechanism=Online(alpha=0.2)) as app:
        ada = Client(app, admit(path, "ada"))
        told = problem(estimate(ada, {"statistic": "most-common:a/b", "epsilon": 0.1}), 422)
        assert told == "the columns span 90,000 cells; at most 65,536 are allowed"
        told = problem(estimate(ada, {"statistic": "quantile:a,by=a/b", "epsilon": 0.1}), 422)
        assert told == "an estimate has at most 1,000 groups, got 90,000"
        assert spent(path) == 0
