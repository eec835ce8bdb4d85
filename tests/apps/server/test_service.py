"""The service: answers, quotes, budgets, keys, and what is on disk after whatever goes wrong."""

import asyncio
import json
import re
import sqlite3
import time
from dataclasses import astuple
from hashlib import sha256

import numpy as np
import pytest
from instead import Instead
from replies import problem, read
from serving import CAP, TABLE, WOMEN, YOUNG, Client, admit, spent, with_accounts, with_answers, worker
from worlds import PEOPLE, coded, random_table

from qrelease.apps.cli import main
from qrelease.apps.server.processes import outlook
from qrelease.apps.server.questions import read_question
from qrelease.apps.server.service import BUDGET_NOTE, Service
from qrelease.apps.server.shapes import Query
from qrelease.apps.server.transactions import Transactions
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, OutOfMemory
from qrelease.mechanisms.online.hypothesis import MAX_HYPOTHESIS_CELLS
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Filter, Neighbours, PureDP
from qrelease.privacy.analysts import MAX_STORED_BYTES, Analysts, Revoked
from qrelease.privacy.costs import six_digits
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_store import row_digest
from qrelease.queries.classes import Conjunctions
from qrelease.release.curator import Curator

# --- answers


def test_queries_are_conditions_ranges_and_marginals(server):
    (women,) = server.ask(WOMEN).json["answers"]
    assert women["query"] == "sex = 'F'"
    assert women["source"] == "measured"
    assert women["cost"]["epsilon"] > 0
    assert len(repr(women["error"])) <= 13  # twelve digits and a point
    exact = np.bincount(TABLE.columns[0], minlength=2)[0]
    assert abs(women["value"] - exact) <= women["error"] < 0.1 * len(TABLE)
    (young,) = server.ask(YOUNG).json["answers"]
    assert young["query"] == "age in 0..39"
    assert abs(young["value"] - np.isin(TABLE.columns[1], (0, 1)).sum()) <= young["error"] < 0.1 * len(TABLE)
    cells = server.ask({"marginal": ["age", "sex"]}).json["answers"]
    assert len(cells) == 8
    assert cells[0]["query"] == "sex = 'F' and age in 0..19"
    counts = np.bincount(4 * TABLE.columns[0].astype(int) + TABLE.columns[1], minlength=8)
    assert all(abs(c["value"] - n) <= c["error"] < 0.1 * len(TABLE) for c, n in zip(cells, counts, strict=True))
    assert sum(cell["cost"] is not None for cell in cells) <= 1  # one record is in one cell


def test_a_budget_says_how_many_more_counts_it_buys(server):
    before = server.get("/v1/budget").json
    (quote,) = server.post("/v1/quote", {"queries": [WOMEN]}).json["quotes"]
    for name in ("analyst", "server"):
        account = before[name]
        assert account["answers"] == int(account["left"]["epsilon"] / quote["cost"]["epsilon"]) > 3
    server.ask(WOMEN)
    now = server.get("/v1/budget").json
    assert [before[name]["answers"] - now[name]["answers"] for name in ("analyst", "server")] == [1, 1]
    server.ask(WOMEN)  # which is free
    assert server.get("/v1/budget").json == {**now, "requests": 2}


MEANS = {"numbers": "mean:age by sex where grade < 2"}


def test_numbers_by_group_are_quoted_answered_and_remembered(server, path):
    (quote,) = server.post("/v1/quote", {"queries": [MEANS]}).json["quotes"]
    assert spent(path) == 0
    assert quote["affordable"]
    answers = server.ask(MEANS).json["answers"]
    assert [a["query"] for a in answers] == [f"mean:age where sex = '{sex}' and grade in {{0, 1}}" for sex in "FM"]
    assert all(a["low"] <= a["value"] <= a["high"] for a in answers)
    assert answers[0]["cost"]["epsilon"] <= quote["cost"]["epsilon"] * 1.001
    assert answers[1]["cost"] is None
    other = Client(server.app, admit(path, "bob"))
    again = other.ask(MEANS).json["answers"]
    assert [a["value"] for a in again] == [a["value"] for a in answers]
    untouched = other.get("/v1/budget").json["analyst"]
    assert untouched["spent"] == {"epsilon": 0.0}
    assert untouched["left"] == untouched["total"]
    budget = server.get("/v1/budget").json
    for account in (budget["analyst"], budget["server"]):  # what can still be bought, and no more
        assert 0 < account["left"]["epsilon"] < account["total"]["epsilon"]
        assert account["left"]["epsilon"] == pytest.approx(account["total"]["epsilon"] - account["spent"]["epsilon"])
    assert "note" not in budget  # epsilons add up
    (median,) = server.ask({"numbers": "quantile(.5):grade"}).json["answers"]
    assert median["query"] == "quantile(0.5):grade"
    assert median["rank_error"] > 0
    assert server.get("/v1/history").json["requests"][0]["queries"] == [MEANS]
    assert quote["note"].startswith("a record tells no more of age than its bin")  # ages are in wide bins
    assert not any("note" in one for one in (*answers, median))
    wide = {"numbers": "mean:age by sex*grade"}
    (forewarned,) = server.post("/v1/quote", {"queries": [wide]}).json["quotes"]
    assert "6 groups at alpha=" in forewarned["note"]


def test_the_largest_groups_come_first_and_bear_the_cost_of_all(server, path):
    asked = {"numbers": "count by grade*sex"}
    (quote,) = server.post("/v1/quote", {"queries": [{**asked, "top": 2}]}).json["quotes"]
    first = server.ask({**asked, "top": 2}).json["answers"]
    assert [a["cost"] is None for a in first] == [False, True]
    assert first[0]["cost"]["epsilon"] <= quote["cost"]["epsilon"] * 1.001
    assert first[0]["takes"]["epsilon"] == pytest.approx(spent(path))
    everything = server.ask(asked).json["answers"]
    assert not any(a["cost"] for a in everything)  # they were all paid for
    ranked = sorted((a["value"] for a in everything), reverse=True)
    assert [a["value"] for a in first] == ranked[:2] != [a["value"] for a in everything][:2]
    assert [a["value"] for a in server.ask({**asked, "top": 99}).json["answers"]] == ranked
    assert server.get("/v1/history").json["requests"][0]["queries"] == [{**asked, "top": 2}]
    problem(server.ask({**asked, "top": 0}), 400)
    problem(server.ask({"numbers": "quantile(.2,.5):age", "top": 1}), 422)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mean:agee", "no column 'agee' (did you mean 'age'?)"),
        ("mean:sex", "column 'sex' holds texts and has no mean"),
        ("quantile(1.2):age", "a quantile is of a probability from 0 to 1, got 1.2"),
        ("mean:age by sex*sex", "grouped by twice"),
        ("histogram:age", "ask for the marginal"),
        ("average:age", "a question is sum:COLUMN"),
        ("mean:age where grade", "condition, position 6"),
    ],
)
def test_bad_questions_about_numbers_are_problems_and_cost_nothing(server, path, text, told):
    for reply in (server.ask({"numbers": text}), server.post("/v1/quote", {"queries": [{"numbers": text}]})):
        problem(reply, 422)
        assert told in reply.json["detail"]
    assert spent(path) == 0


def test_numbers_beyond_a_budget_are_refused_before_anything_is_asked(path):
    with worker(path) as app:
        poor = Client(app, admit(path, "poor", 1e-6))
        (quote,) = poor.post("/v1/quote", {"queries": [MEANS]}).json["quotes"]
        assert not quote["affordable"]
        assert quote["cost"]["epsilon"] > 0
        before = spent(path)
        problem(poor.ask(MEANS), 402)
        assert spent(path) == before


def test_a_query_that_was_asked_before_is_free_for_everybody(server, path):
    first = server.ask(WOMEN).json["answers"][0]
    other = Client(server.app, admit(path, "bob"))
    again = other.ask({"where": "not sex = 'M'"}).json["answers"][0]
    assert (again["value"], again["error"], again["cost"]) == (first["value"], first["error"], None)
    assert again["source"] == "cached"
    assert other.get("/v1/budget").json["analyst"]["spent"] == {"epsilon": 0.0}


def test_a_quote_is_the_price_and_asks_nothing(server, path):
    body = {"queries": [WOMEN, {"marginal": ["grade"]}]}
    quotes = server.post("/v1/quote", body).json["quotes"]
    assert [q["affordable"] for q in quotes] == [True, True]
    assert spent(path) == 0
    (answer,) = server.ask(WOMEN).json["answers"]
    assert answer["cost"] == quotes[0]["cost"]
    assert answer["error"] == quotes[0]["error"]
    assert server.post("/v1/quote", body).json["quotes"][0] == {
        "source": "cached",
        "cost": None,
        "takes": None,
        "affordable": True,
        "error": answer["error"],
    }


def test_a_quote_says_what_it_takes_of_the_budget_in_the_budgets_terms(path):
    """A price in rho, an (epsilon, delta) budget: the difference of what is spent, before and after."""
    with worker(path, cap=ApproxDP(1.0, 1e-6)) as app:
        with Ledger.open(path) as ledger:
            ada = Client(app, Analysts(ledger).add("ada", ApproxDP(0.2, 1e-7)))
            poor = Client(app, Analysts(ledger).add("poor", ApproxDP(1e-4, 1e-7)))
        before, takes = {"epsilon": 0.0, "delta": 0.0}, []
        for query in (WOMEN, YOUNG):
            (quote,) = ada.post("/v1/quote", {"queries": [query]}).json["quotes"]
            (beyond,) = poor.post("/v1/quote", {"queries": [query]}).json["quotes"]
            assert (beyond["cost"], beyond["affordable"], quote["affordable"]) == (quote["cost"], False, True)
            assert ada.ask(query).json["answers"][0]["cost"] == quote["cost"]
            budget = ada.get("/v1/budget").json
            account = budget["analyst"]
            after = account["spent"]
            assert after["epsilon"] + account["left"]["epsilon"] < 0.999 * account["total"]["epsilon"]
            assert budget["note"] == BUDGET_NOTE  # as a stranger adds them up; once for both accounts
            assert not any("note" in budget[name] for name in ("analyst", "server"))
            assert "docs/" not in BUDGET_NOTE
            assert quote["takes"] == pytest.approx({k: after[k] - before[k] for k in after}, abs=1e-15)
            assert [*quote["cost"]] == ["rho"]
            takes.append(quote["takes"])
            before = after
        assert takes[0]["delta"] == 1e-7 > takes[1]["delta"] == 0
        with Ledger.open(path) as ledger:
            Analysts(ledger).raise_budget("ada", ApproxDP(2.0, 1e-7))
            unused = Analysts(ledger).out_of_reach("ada")
        raised = ada.get("/v1/budget").json["note"]
        assert raised.startswith(f"{BUDGET_NOTE}; about epsilon={unused:.2g} of yours cannot be used")
        assert takes[0]["epsilon"] > 1.5 * takes[1]["epsilon"] > 0  # the root of a sum


def test_alike_queries_are_quoted_once(path):
    """Of a request: a batch of repetitions keeps nobody waiting, and what a price takes is worked out once."""
    seen = []

    def counted(name, method):
        return lambda *a: (seen.append(name), method(*a))[1]

    def service_of(session, analysts):
        of = with_accounts(lambda account: Instead(account, takes=counted("takes", account.takes)))
        return of(Instead(session, quote=counted("quote", session.quote)), analysts)

    with worker(path, service_of=service_of) as app:
        ada = Client(app, admit(path, "ada"))
        spellings = ["sex = 'F'", "not sex = 'M'", "sex in {'F'}", "grade = 1"]
        quotes = ada.post("/v1/quote", {"queries": [{"where": s} for s in spellings] * 10}).json["quotes"]
    assert seen.count("quote") == 2
    assert seen.count("takes") == 2  # of a price, and of the total
    assert len(quotes) == 40
    assert all(q == quotes[0] for q in quotes)
    assert quotes[0]["cost"] == quotes[0]["takes"]


def test_a_history_is_ones_own(server, path):
    first = server.ask(WOMEN)
    server.post("/v1/batch", {"queries": [WOMEN, YOUNG]})
    other = Client(server.app, admit(path, "bob"))
    other.ask(YOUNG)
    history = server.get("/v1/history").json
    assert [r["queries"] for r in history["requests"]] == [[WOMEN], [WOMEN, YOUNG]]
    assert server.get("/v1/history/1").content == first.content
    assert server.get("/v1/history?first=2&count=1").json["next"] == 3
    assert [r["queries"] for r in other.get("/v1/history").json["requests"]] == [[YOUNG]]
    problem(other.get("/v1/history/2"), 404)
    assert "bob" not in json.dumps([server.get(p).json for p in ("/v1/history", "/v1/budget", "/v1/schema")])


def test_a_query_for_which_there_is_no_memory_is_undone_and_tells_nothing(path):
    failing = [True]

    def full(session, *asked):
        answered = session.answers(*asked)
        if failing.pop():
            raise OutOfMemory("64 MiB are free")
        return answered

    with worker(path, service_of=with_answers(full)) as app:
        ada = Client(app, admit(path, "ada"))
        assert problem(ada.ask(WOMEN), 503) == "not now; ask again, under the same key"
        assert spent(path) == 0
        failing.append(False)
        assert ada.ask(WOMEN).status == 200


# --- keys


def test_a_repeated_key_gives_the_same_bytes_and_costs_nothing(server, path):
    first = server.ask(WOMEN, "k")
    cost = spent(path)
    server.ask(YOUNG)
    assert server.ask(WOMEN, "k").content == first.content
    assert server.get("/v1/history").json["next"] is None
    assert spent(path) == pytest.approx(2 * cost)
    problem(server.ask(YOUNG, "k"), 409)
    assert Client(server.app, admit(path, "bob")).ask(YOUNG, "k").status == 200  # keys are each analyst's own


def test_other_workers_and_later_ones_know_keys_answers_and_budgets(path):
    with worker(path, seed=1) as one, worker(path, seed=2) as two:
        token = admit(path, "ada")
        first = Client(one, token).ask(WOMEN, "k")
        assert Client(two, token).post("/v1/quote", {"queries": [WOMEN]}).json["quotes"][0]["source"] == "cached"
        assert Client(two, token).ask(WOMEN, "k").content == first.content
        second = Client(two, token).ask({"marginal": ["age"]}, "l").json["answers"]
        third = Client(one, token).ask({"marginal": ["age"]}).json["answers"]
        assert [a["value"] for a in third] == [a["value"] for a in second]
        assert {a["cost"] is None for a in third} == {True}
        before = Client(one, token).get("/v1/budget").json
    with worker(path, seed=3) as later:
        ada = Client(later, token)
        assert ada.get("/v1/budget").json == before
        assert ada.ask(WOMEN, "k").content == first.content
        assert ada.ask(WOMEN).json["answers"][0]["source"] == "cached"


def test_requests_that_come_at_once_are_charged_once(server, path):
    async def storm():
        headers = {"content-type": "application/json", "idempotency-key": "k"}
        body = json.dumps(WOMEN).encode()
        return await asyncio.gather(*(server.exchange("POST", "/v1/query", [body], headers) for _ in range(50)))

    replies = asyncio.run(storm())
    assert {r.content for r in replies} == {replies[0].content}
    assert spent(path) == replies[0].json["answers"][0]["cost"]["epsilon"]
    assert server.get("/v1/budget").json["requests"] == 1


# --- budgets


def test_an_analysts_budget_ends_and_the_others_go_on(path):
    with worker(path) as app:
        price = Client(app, admit(path, "rich")).post("/v1/quote", {"queries": [WOMEN]}).json["quotes"][0]["cost"]
        poor = Client(app, admit(path, "poor", 1.5 * price["epsilon"]))
        assert poor.ask(WOMEN).status == 200
        assert "poor's budget exceeded: total epsilon=" in problem(poor.ask(YOUNG, "k"), 402)
        quote = poor.post("/v1/quote", {"queries": [YOUNG]}).json["quotes"]
        (error,) = {one["error"] for one in quote}
        told = {"source": "measured", "cost": price, "takes": price, "affordable": False, "error": error}
        assert quote == [told]
        assert error > 0
        assert spent(path) == price["epsilon"]
        assert Client(app, admit(path, "other")).ask(YOUNG).status == 200
        assert poor.ask(YOUNG, "k").json["answers"][0]["cost"] is None  # a refusal is not kept; by now it is cached


def test_the_total_is_never_exceeded(path):
    cap = PureDP(0.02)
    with worker(path, cap=cap) as app:
        ada = Client(app, admit(path, "ada", 10.0))
        statuses = [ada.ask({"where": f"sex = 'F' and {c}"}).status for a in PEOPLE for c in conditions(a)]
        assert set(statuses) == {200, 402}
        costs = [a["cost"] for n in range(statuses.count(200)) for a in answers(ada, n + 1)]
        assert sum(c["epsilon"] for c in costs if c) == pytest.approx(spent(path))
        assert 0 < spent(path) <= cap.epsilon


def conditions(attribute):
    return [f"{attribute.name} in {{'{label}'}}" for label in attribute.labels]


def answers(client, number):
    return client.get(f"/v1/history/{number}").json["answers"]


def test_a_batch_that_is_not_covered_gives_nothing_and_what_it_bought_is_cached(path):
    with worker(path) as app:
        price = Client(app, admit(path, "rich")).post("/v1/quote", {"queries": [WOMEN]}).json["quotes"][0]["cost"]
        poor = Client(app, admit(path, "poor", 1.5 * price["epsilon"]))
        reply = poor.post("/v1/batch", {"queries": [WOMEN, YOUNG]})
        (found,) = reply.json["answers"]
        assert (found["query"], found["cost"], found["takes"]) == ("sex = 'F'", price, price)
        assert (
            "question 1 is answered of 2: 1 of 2 answers were found, which stand in `answers` of this reply;"
            f" {six_digits(price['epsilon'])} of your budget was charged by this request, and they are kept"
            in problem(reply, 402)
        )
        again = poor.post("/v1/batch", {"queries": [WOMEN, YOUNG]})
        assert again.json["answers"] == [{**found, "cost": None, "takes": None, "source": "cached"}]
        assert "nothing was charged, and they are kept" in problem(again, 402)
        some = Client(app, admit(path, "some", 2.5 * price["epsilon"]))
        grades = [{"where": f"grade = {k}"} for k in (0, 1)]
        detail = problem(some.post("/v1/batch", {"queries": [WOMEN, *grades, YOUNG]}), 402)
        assert "questions 1 to 3 are answered of 4: 3 of 4 answers" in detail
        budget = poor.get("/v1/budget").json
        assert budget["requests"] == 0
        assert budget["analyst"]["spent"] == price
        assert poor.ask(WOMEN).json["answers"][0]["source"] == "cached"
        assert problem(poor.post("/v1/batch", {"queries": [YOUNG, WOMEN]}), 402).endswith("; nothing was charged")


# --- tokens


def test_the_command_line_admits_and_revokes(path, capsys):
    with worker(path) as app:
        assert main(["analyst", "add", "ada", "--ledger", str(path), "--epsilon", "0.5"]) == 0
        token = capsys.readouterr().out.strip()
        assert len(token) == 43
        ada = Client(app, token)
        assert ada.get("/v1/budget").json["analyst"]["total"] == {"epsilon": 0.5}
        assert main(["analyst", "add", "ada", "--ledger", str(path), "--epsilon", "0.5"]) == 2
        assert main(["analyst", "revoke", "ada", "--ledger", str(path)]) == 0
        assert main(["analyst", "list", "--ledger", str(path)]) == 0
        assert "ada  budget epsilon=0.5, spent nothing, 0 requests, revoked" in capsys.readouterr().out
        assert Client(app, "x").get("/v1/budget").status == 401
    with worker(path) as app:
        problem(Client(app, token).get("/v1/budget"), 401)


# --- limits


def test_a_session_is_gone_on_with_whatever_number_of_records_is_given(path):
    with Ledger.open(path, CAP) as ledger:
        curator = Curator(TABLE, ledger, Entropy.insecure(1))
        first = curator.open(Online(), CAP, key="k").answer("sex = 'F'")
        again = curator.open(Online(records=20_000), CAP, key="k").answer("sex = 'F'")
        assert (again.value, again.source) == (first.value, "cached")


def test_what_is_kept_for_an_analyst_is_bounded(server, path):
    server.ask(WOMEN, "k")
    with Ledger.open(path) as ledger, Analysts(ledger).account("ada") as account:
        account.record("long", "{}", bytes(MAX_STORED_BYTES - 600))
    server.ask(WOMEN, "l")
    sizes = []
    for i in range(5):
        assert server.ask(WOMEN, f"m{i}").json["answers"][0]["source"] == "cached"
        sizes.append(server.get("/v1/budget").json["requests"])
    assert sizes[-1] == sizes[-2] < 7
    assert server.ask(WOMEN, "m4").content == server.ask(WOMEN, "m4").content
    cost = spent(path)
    assert "fill the" in problem(server.ask(YOUNG), 429)
    assert spent(path) == cost
    other = Client(server.app, admit(path, "bob"))
    assert other.ask(YOUNG).status == 200
    assert server.ask(YOUNG).json["answers"][0]["cost"] is None  # known by now


def test_the_hypothesis_learns_while_nobody_asks(path):
    seen, failing = [], []

    def learn():
        seen.append(1)
        if failing:
            raise ZeroDivisionError
        return len(seen) % 3

    with worker(path, service_of=lambda *given: Instead(Service(*given), learn=learn)) as app:
        ada = Client(app, admit(path, "ada"))
        ada.ask(WOMEN)
        deadline = time.monotonic() + 5
        while len(seen) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(seen) >= 3
        failing.append(1)
        assert ada.ask(YOUNG).status == 200
        assert ada.ask(YOUNG).json["answers"][0]["source"] == "cached"  # it is opened again from the ledger


def test_nothing_is_learned_while_a_request_is_on_its_way(path):
    """From when its body is there until its reply: one that trickles in keeps nobody from learning."""
    seen, holding = [], []

    class Held(Transactions):
        async def do(self, *arguments):
            if holding:
                arrived, going = holding
                arrived.set()
                await going.wait()
            return await super().do(*arguments)

    def service_of(*given):
        service = Service(*given)
        return Instead(service, learn=lambda: seen.append(1) or service.learn())

    with worker(path, service_of=service_of, transactions_of=Held) as app:
        ada = Client(app, admit(path, "ada"))
        assert ada.ask(WOMEN).status == 200

        async def learned():
            deadline = time.monotonic() + 10
            while not seen and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            return bool(seen)

        async def slowly():
            holding[:] = arrived, going = asyncio.Event(), asyncio.Event()
            headers = {"content-type": "application/json", "idempotency-key": "k"}
            coming = asyncio.create_task(ada.exchange("POST", "/v1/query", [json.dumps(YOUNG).encode()], headers))
            await arrived.wait()
            await asyncio.sleep(0.1)  # for what was begun before
            seen.clear()
            await asyncio.sleep(0.3)
            assert not seen
            going.set()
            assert (await coming).status == 200
            assert await learned()

        async def never():
            headers = {"content-type": "application/json", "idempotency-key": "l"}
            coming = asyncio.create_task(ada.exchange("POST", "/v1/query", [b"{", None], headers))
            await asyncio.sleep(0.1)
            seen.clear()
            assert await learned()
            assert not coming.done()
            coming.cancel()

        asyncio.run(slowly())
        asyncio.run(never())


# --- troubles


def test_what_cannot_be_written_down_is_not_charged_nor_shown(path, caplog):
    full = [1]

    def service_of(session, analysts):
        of = with_accounts(lambda account: Instead(account, record=lambda *_: 1 / 0) if full else account)
        service = of(session, analysts)
        return Instead(service, budget=lambda name: 1 / 0 if full else service.budget(name))

    with worker(path, service_of=service_of) as app:
        ada = Client(app, admit(path, "ada"))
        assert "same key" in problem(ada.ask(WOMEN, "k"), 500)
        assert problem(ada.get("/v1/budget"), 500) == "a fault of the server; ask again"
        assert spent(path) == 0
        full.clear()
        first = ada.ask(WOMEN, "k").json["answers"][0]
        assert first["source"] == "measured"
        assert spent(path) == first["cost"]["epsilon"]
    assert [r.message for r in caplog.records] == ["a fault: ZeroDivisionError"] * 2


@pytest.mark.parametrize("cap", [PureDP(0.5), ApproxDP(0.5, 1e-6)], ids=str)
def test_an_answer_says_what_it_took_of_the_budget_in_the_budgets_terms(path, cap):
    """So that prices in rho, too, can be added up and compared with the budget."""
    with worker(path, cap=cap) as app:
        with Ledger.open(path) as ledger:
            token = Analysts(ledger).add("ada", cap)
        ada = Client(app, token)
        for queries in (
            [WOMEN, YOUNG],
            [MEANS],
            [{"numbers": "quantile(.5):grade"}, {"marginal": ["sex", "grade"]}, WOMEN],
        ):
            before = ada.get("/v1/budget").json["analyst"]["spent"]
            quotes = ada.post("/v1/quote", {"queries": queries}).json["quotes"]
            answers = ada.post("/v1/batch", {"queries": queries}).json["answers"]
            assert [a["takes"] is None for a in answers] == [a["cost"] is None for a in answers]
            after = ada.get("/v1/budget").json["analyst"]["spent"]
            took = {name: sum((a["takes"] or {name: 0})[name] for a in answers) for name in after}
            assert took == pytest.approx({name: after[name] - before[name] for name in after}, abs=1e-12)
            if queries[0] == WOMEN:
                assert answers[0]["takes"] == pytest.approx(quotes[0]["takes"])


def test_an_analyst_is_told_who_can_raise_which_budget(path):
    with worker(path, cap=PureDP(0.02), mechanism=Online(alpha=0.05)) as app:
        poor, rich = Client(app, admit(path, "poor", 1e-4)), Client(app, admit(path, "rich", 1.0))
        said = problem(poor.ask(WOMEN), 402)
        assert said.startswith("poor's budget exceeded: total epsilon=0.0001; spent")
        assert "the data holder can raise your budget" in said
        replies = [
            rich.ask({"where": f"age in {{{a}}} and grade = {g}"}) for a in ("0..19", "20..39") for g in range(3)
        ]
        replies += [rich.ask({"numbers": "quantile(.1,.5,.9):age by sex*grade"})]
        said = [problem(r, 402) for r in replies if r.status != 200]
        assert said
        assert all(s.startswith("the server's budget exceeded: total epsilon=0.02; spent") for s in said)
        assert all("the data holder alone can raise it" in s and "ask for at most" not in s for s in said)


def test_the_outlook_says_where_there_are_no_synthetic_records():
    for cells, told in ((MAX_HYPOTHESIS_CELLS // 2 + 1, True), (2, False)):
        table = random_table(coded(2, cells), 1_000, 0)
        with Ledger.open(None, PureDP(1.0), neighbours="replace-one") as ledger:
            said = outlook(Curator(table, ledger, Entropy.insecure(1)).open(Online(), PureDP(1.0)))
        assert ("; no synthetic records: there are 4,194,306 cells" in said) == told


@pytest.mark.parametrize("cap", [PureDP(0.5), ApproxDP(0.5, 1e-6)])
@pytest.mark.parametrize("neighbours", [*Neighbours])
def test_the_outlook_is_what_answers_cost_and_how_many_there_are(path, cap, neighbours):
    with Ledger.open(path, cap, neighbours=neighbours) as ledger:
        session = Curator(TABLE, ledger, Entropy.insecure(1)).open(Online(), cap)
        said = outlook(session)
        assert f" {session.records:,} records" in said
        assert ("and what is left buys about" in said) == (neighbours is Neighbours.ADD_REMOVE)  # which counted records
        cost = session.answer("sex = 'F'").cost
        assert f"costs {cost:.6g} by itself" in said
        assert f", and what is left buys about {session.answers_left:,} more; those" in outlook(session)
    holds = Filter(cap)
    for _ in range(int(re.search(r"([\d,]+) use up", said)[1].replace(",", ""))):
        holds.spend(cost)
    assert not holds.admits(cost)


def test_an_analyst_who_cannot_pay_for_a_synopsis_pays_for_answers(path):
    """Where the session would buy one, and so would a richer analyst."""
    with worker(path, mechanism=Online(declared=Conjunctions(2))) as app:
        rich = Client(app, admit(path, "rich"))
        synopsis = rich.post("/v1/quote", {"queries": [WOMEN]}).json["quotes"][0]
        assert synopsis["source"] == "synopsis"
        poor = Client(app, admit(path, "poor", synopsis["cost"]["epsilon"] / 2))
        (quote,) = poor.post("/v1/quote", {"queries": [WOMEN]}).json["quotes"]
        assert (quote["source"], quote["affordable"]) == ("measured", True)
        assert poor.ask(WOMEN).json["answers"][0]["cost"] == quote["cost"]
        assert poor.get("/v1/budget").json["analyst"]["spent"] == quote["cost"]
        assert rich.ask(YOUNG).json["answers"][0]["source"] == "synopsis"
        assert poor.ask({"where": "grade = 1"}).json["answers"][0]["cost"] is None


def test_a_synopsis_is_noted_and_may_be_declined(path):
    """The note says what the answer takes by itself; without a synopsis just that is charged."""
    with worker(path, mechanism=Online(declared=Conjunctions(2))) as app:
        ada = Client(app, admit(path, "ada"))
        alone = {**WOMEN, "synopsis": False}
        quoted = ada.post("/v1/quote", {"queries": [WOMEN, alone]}).json
        synopsis, single = quoted["quotes"]
        assert (synopsis["source"], single["source"]) == ("synopsis", "measured")
        takes = f'epsilon={six_digits(single["takes"]["epsilon"])} of your budget: to ask so, add "synopsis": false'
        free = "a synopsis, which makes later questions of this kind on 'sex' alone free; without it the answer would"
        assert synopsis["note"] == f"this buys {free} take {takes}"
        assert "note" not in single
        (answer,) = ada.ask(alone).json["answers"]
        assert (answer["cost"], answer["source"]) == (single["cost"], "measured")
        assert "note" not in answer
        assert ada.get("/v1/history").json["requests"][0]["queries"] == [alone]
        (other,) = ada.ask({**YOUNG, "synopsis": True}).json["answers"]
        assert other["source"] == "synopsis"
        assert other["note"] == f"this bought {free.replace('sex', 'age')} have taken {takes}"
        means = {"numbers": "mean:age by sex"}
        assert ada.ask(means).json["answers"][0]["cost"] is None
        assert "Expected `bool`" in problem(ada.ask({**WOMEN, "synopsis": "no"}), 400)
    with worker(path.with_name("another"), mechanism=Online(declared=Conjunctions(2))) as app:
        bob = Client(app, admit(path.with_name("another"), "bob"))
        quotes = bob.post("/v1/quote", {"queries": [means, {**means, "synopsis": False}]}).json["quotes"]
        assert [quote["source"] for quote in quotes] == ["synopsis", "measured"]
        assert "this buys a synopsis" in quotes[0]["note"]
        answers = bob.ask({**means, "synopsis": False}).json["answers"]
        assert {answer["source"] for answer in answers} == {"measured"}
        assert answers[0]["cost"]["epsilon"] <= quotes[1]["cost"]["epsilon"] * 1.001


def test_answers_by_group_say_their_group(server):
    """By columns, in the order that was asked for, with values of their types; null is no value."""
    cells = server.ask({"marginal": ["age", "sex"]}).json["answers"]
    assert [[*cell["group"]] for cell in cells] == [["age", "sex"]] * 8
    assert [cell["group"] for cell in cells[:4]] == [
        {"age": age, "sex": "F"} for age in ("0..19", "20..39", "40..59", None)
    ]
    assert "sex = 'F' and age = '?'" in cells[3]["query"] or cells[3]["query"] == "sex = 'F' and age is missing"
    means = server.ask({"numbers": "mean:age by grade*sex"}).json["answers"]
    assert [mean["group"] for mean in means] == [{"grade": grade, "sex": sex} for grade in (0, 1, 2) for sex in "FM"]
    ranked = server.ask({"numbers": "mean:age by grade*sex", "top": 2}).json["answers"]
    by_query = {mean["query"]: mean["group"] for mean in means}
    assert [one["group"] for one in ranked] == [by_query[one["query"]] for one in ranked]
    halves = server.ask({"numbers": "quantile(.25,.5):grade by sex"}).json["answers"]
    assert [half["group"]["sex"] for half in halves] == ["F", "F", "M", "M"]
    assert "group" not in server.ask(WOMEN).json["answers"][0]
    assert "group" not in server.ask({"numbers": "mean:age"}).json["answers"][0]


def test_a_quote_of_several_queries_has_their_total(path):
    with worker(path) as app:
        ada = Client(app, admit(path, "ada"))
        batch = {"queries": [WOMEN, YOUNG, WOMEN, MEANS, {"numbers": "mean:age by sex where grade in {0, 1}"}]}
        quoted = ada.post("/v1/quote", batch).json
        sums = sum(quoted["quotes"][k]["takes"]["epsilon"] for k in (0, 1, 3))
        assert quoted["total"]["affordable"]
        assert quoted["total"]["takes"] == quoted["total"]["cost"]
        assert sums * 0.999 <= quoted["total"]["takes"]["epsilon"] < sums + quoted["quotes"][4]["takes"]["epsilon"]
        assert "total" not in ada.post("/v1/quote", {"queries": [WOMEN]}).json
        poor = Client(app, admit(path, "poor", 1.5 * quoted["quotes"][0]["takes"]["epsilon"]))
        poors = poor.post("/v1/quote", batch).json
        assert [quote["affordable"] for quote in poors["quotes"][:2]] == [True, True]
        assert poors["total"] == {**quoted["total"], "affordable": False}
        assert spent(path) == 0
        taken = [a["takes"]["epsilon"] for a in ada.post("/v1/batch", batch).json["answers"] if a["takes"]]
        assert sum(taken) <= quoted["total"]["takes"]["epsilon"] * 1.001
        assert ada.post("/v1/quote", batch).json["total"] == {"cost": None, "takes": None, "affordable": True}


def test_what_an_analyst_turns_out_not_to_cover_is_undone(path):
    with worker(path, service_of=with_accounts(lambda account: Instead(account, admits=lambda *_: None))) as app:
        poor = Client(app, admit(path, "poor", 1e-9))
        problem(poor.ask(WOMEN), 500)
        assert spent(path) == 0
        assert poor.get("/v1/budget").json["server"]["spent"] == {"epsilon": 0.0}


def test_one_requests_fault_is_not_the_others(path):
    bad = read_question(PEOPLE, Query(where="grade = 1")).group

    def failing(session, group, purse):
        found = session.answers(group, purse)
        return 1 / 0 if group.queries == bad.queries else found

    async def together(server):
        bodies = [{"where": f"grade = {i}"} for i in range(3)]
        headers = [{"content-type": "application/json", "idempotency-key": str(i)} for i in range(3)]
        asked = zip(bodies, headers, strict=True)
        return await asyncio.gather(
            *(server.exchange("POST", "/v1/query", [json.dumps(b).encode()], h) for b, h in asked)
        )

    with worker(path, service_of=with_answers(failing)) as app:
        replies = asyncio.run(together(Client(app, admit(path, "ada"))))
    assert [r.status for r in replies] == [200, 500, 200]
    costs = [r.json["answers"][0]["cost"] for r in (replies[0], replies[2])]
    assert spent(path) == pytest.approx(sum(c["epsilon"] for c in costs))


def test_a_damaged_ledger_is_noticed(path):
    with worker(path) as app:
        ada = Client(app, admit(path, "ada"))
        ada.ask(WOMEN, "k")
        ada.ask(YOUNG, "l")
    with Ledger.open(path) as ledger:
        (forged,) = Analysts(ledger).requests("ada", 2, 1)
        ((first,),) = ledger.store.execute("SELECT digest FROM requests WHERE number = 1").fetchall()
    linked = row_digest(first, 1, *astuple(forged)[:-1], sha256(b"{}").hexdigest())
    for change in (
        'UPDATE analysts SET tally = \'["0", "0", "0", null]\'',
        "UPDATE analysts SET budget = '{\"epsilon\": 9.0}'",
        "DELETE FROM analysts",
        "DELETE FROM requests WHERE number = 1",
        "DELETE FROM requests WHERE number = 2",
        "UPDATE requests SET response = x'7b7d' WHERE number = 1",
        f"UPDATE requests SET response = x'7b7d', digest = '{linked}' WHERE number = 2",
        "UPDATE registry SET analysts = 2",
    ):
        copy = path.with_name("copy")
        with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
            source.backup(target)
            target.execute(change)
        target.close()
        with Ledger.open(copy) as ledger, pytest.raises(LedgerError, match="damaged"):
            analysts = Analysts(ledger)
            analysts.list()
            analysts.requests("ada", 1, 10)
        if "SET response" in change:
            with Ledger.open(copy) as ledger, pytest.raises(LedgerError, match="damaged"):
                read(ledger, "ada", "k" if "number = 1" in change else "l")
        copy.unlink()


def test_an_answers_path_does_not_depend_on_its_noise(path):
    """The same statements in the same order, whatever the noise: what takes time is the same."""
    found = {}
    for seed in range(6):
        seen, made = [], []

        def traced(ledger, *rest, seen=seen, made=made):
            connection = ledger.store.database._live()
            connection.set_trace_callback(lambda text: seen.append(" ".join(text.split()[:5])))
            made.append(Transactions(ledger, *rest))
            return made[0]

        file = path.with_name(f"{seed}.ledger")
        with worker(file, seed=seed, transactions_of=traced) as app:
            ada = Client(app, admit(file, "ada"))
            with made[0].coming():  # else it reads what other workers wrote, now and then
                time.sleep(0.05)
                seen.clear()
                value = ada.ask(WOMEN).json["answers"][0]["value"]
                found[value] = tuple(seen)
    assert len(found) > 3
    assert len(set(found.values())) == 1
    statements = found.popitem()[1]
    assert statements.count("BEGIN IMMEDIATE") == statements.count("COMMIT") == 1
    assert sum(text.startswith("INSERT INTO journal ") for text in statements) == 2
    for once in ("UPDATE head SET tally =", "INSERT INTO journals VALUES", "UPDATE analysts"):
        assert sum(text.startswith(once) for text in statements) == 1  # the last, that has all of it


def test_analysts_have_good_names_and_budgets_of_the_totals_kind(path):
    with Ledger.open(path, CAP) as ledger:
        analysts = Analysts(ledger)
        for name in ("", "a b", "-a", "x" * 65, "ä"):
            with pytest.raises(InvalidInput, match="name"):
                analysts.add(name, PureDP(1.0))
        with pytest.raises(InvalidInput, match="is an epsilon alone, as the total has"):
            analysts.add("ada", ApproxDP(1.0, 1e-9))
        assert analysts.list() == ()
        assert analysts.holder("x") is None
        analysts.add("ada", PureDP(0.5))
        with analysts.account("ada") as account:
            account.spend(PureDP(0.375))
            with pytest.raises(BudgetExceeded):
                account.spend(PureDP(0.25))
        assert analysts.named("ada").spent == PureDP(0.375)
        with pytest.raises(InvalidInput, match="no analyst 'bob'"):
            analysts.revoke("bob")
        analysts.revoke("ada")
        with pytest.raises(Revoked, match="token of 'ada' was revoked"), analysts.account("ada"):
            pass


def test_what_a_revoked_analyst_still_asks_is_refused_in_the_transaction(server, path):
    """A worker may take the token for good a moment longer, but nothing is bought with it."""
    assert server.ask(WOMEN).status == 200  # from here on its hash is known for a second
    before = spent(path)
    with Ledger.open(path) as ledger:
        Analysts(ledger).revoke("ada")
    assert server.ask(YOUNG).status == 401
    assert spent(path) == before
    for page in ("schema", "budget", "history", "history/1", "synthetic"):
        assert server.get(f"/v1/{page}").status == 401, "at once, and everywhere"


def test_a_disk_that_is_full_in_the_midst_undoes_all(path):
    """SQLite may end the transaction by itself at any statement: what follows must not be written alone."""
    with Ledger.open(path, CAP) as ledger:
        analysts = Analysts(ledger)
        analysts.add("ada", PureDP(1.0))
        (pages,) = ledger.store.execute("PRAGMA page_count").fetchone()
        ledger.store.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(LedgerError), ledger.transaction():
            ledger.charge(PureDP(0.5), "a query")
            with analysts.account("ada") as account:
                account.spend(PureDP(0.5))
                account.record("k", "{}", bytes(200_000))
        ledger.store.execute("PRAGMA max_page_count = 100000")
        assert ledger.spent is analysts.named("ada").spent is None
        assert analysts.requests("ada", 1, 10) == ()


def test_two_accounts_of_one_analyst_do_not_overwrite_each_other(path):
    with Ledger.open(path, CAP) as ledger:
        analysts = Analysts(ledger)
        analysts.add("ada", PureDP(1.0))
        with pytest.raises(AssertionError, match="open beside it"), analysts.account("ada") as outer:
            outer.spend(PureDP(0.25))
            with analysts.account("ada") as inner:
                inner.spend(PureDP(0.5))
        assert analysts.named("ada").spent is None


def test_a_transaction_is_all_or_nothing(path):
    with Ledger.open(path, CAP) as ledger:
        analysts = Analysts(ledger)
        analysts.add("ada", PureDP(1.0))
        with pytest.raises(ZeroDivisionError), ledger.transaction():
            ledger.charge(PureDP(0.5), "a query")
            with analysts.account("ada") as account:
                account.spend(PureDP(0.5))
                account.record("k", "{}", b"{}")
            assert ledger.spent == PureDP(0.5)
            1 / 0  # noqa: B018
        assert ledger.spent is analysts.named("ada").spent is read(ledger, "ada", "k") is None
        with ledger.transaction(), analysts.account("ada") as account:
            ledger.charge(PureDP(0.25), "a query")
            account.record("k", "{}", b"{}")
    with Ledger.open(path) as ledger:
        assert ledger.spent == PureDP(0.25)
        assert read(ledger, "ada", "k").response == b"{}"
