"""What an analyst agreed to pay is the most that is taken, whatever others ask between a quote and the purchase."""

import sys

import pytest
from serving import Client, admit, spent, worker

from qrelease.privacy import ApproxDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.costs import six_digits
from qrelease.privacy.ledger import Ledger

WOMEN = {"where": "sex = 'F'"}
TARGET = {"where": "age < 60 and grade in {0, 1}"}
OTHERS = [
    {"where": f"age < {a} and grade in {{{g}}}"} for a in (20, 40) for g in ("0", "1", "2", "0, 1", "0, 2", "1, 2")
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


def quote(client, *queries):
    return client.post("/v1/quote", {"queries": list(queries)}).json["quotes"]


def ask(client, most, query, key=None):
    return client.post(f"/v1/query?most={most!r}", query, key)


def test_no_more_is_taken_than_was_agreed_to(path):
    with worker(path) as app:
        ada = Client(app, admit(path, "ada"))
        (price,) = quote(ada, WOMEN)
        most = price["takes"]["epsilon"]
        reply = ask(ada, 0.9 * most, WOMEN, "k")
        assert reply.status == 402
        now, allowed = six_digits(most), six_digits(0.9 * most, up=False)
        assert f"it would take {now} of your budget by now, and at most {allowed} may" in reply.json["detail"]
        assert spent(path) == 0
        assert ask(ada, most, WOMEN, "k").json["answers"][0]["cost"] == price["cost"]
        assert ask(ada, 0.0, WOMEN).json["answers"][0]["cost"] is None  # it is known by now
        again = ask(ada, 0.0, WOMEN, "k")  # the same request, whatever it may cost
        assert again.json["answers"][0]["cost"] == price["cost"]
        assert spent(path) == most


def test_what_another_asks_in_between_makes_nothing_dearer(path):
    """Once a class has paid its rent, the next query of it brings a synopsis: but not for who agreed to less."""
    with worker(path) as app:
        ada, bob = Client(app, admit(path, "ada")), Client(app, admit(path, "bob"))
        (agreed,) = quote(ada, TARGET)
        for query in OTHERS:
            (now,) = quote(ada, TARGET)
            if now["source"] == "synopsis":
                break
            assert bob.ask(query).status == 200
        most = agreed["takes"]["epsilon"]
        assert now["takes"]["epsilon"] > 2 * most
        before = spent(path)
        (answer,) = ask(ada, most, TARGET).json["answers"]
        assert (answer["source"], answer["cost"]) == ("measured", agreed["cost"])
        assert spent(path) == pytest.approx(before + most)


def test_a_batch_takes_no_more_than_was_agreed_to_in_all(path):
    with worker(path) as app:
        ada = Client(app, admit(path, "ada"))
        two = {"queries": [WOMEN, OTHERS[0]]}
        one, other = (price["takes"]["epsilon"] for price in quote(ada, *two["queries"]))
        assert ada.post(f"/v1/batch?most={1.5 * one!r}", two, "k").status == 402
        assert spent(path) == one  # as without: what was bought is cached
        assert ada.post(f"/v1/batch?most={other!r}", two, "k").status == 200
        assert spent(path) == pytest.approx(one + other)


def test_a_budget_with_a_delta_is_compared_in_its_epsilon(path):
    cap = ApproxDP(1.0, 1e-9)
    with worker(path, cap=cap) as app:
        with Ledger.open(path) as ledger:
            ada = Client(app, Analysts(ledger).add("ada", cap))
        (price,) = quote(ada, WOMEN)
        assert "rho" in price["cost"]
        assert ask(ada, 0.9 * price["takes"]["epsilon"], WOMEN).status == 402
        assert ask(ada, price["takes"]["epsilon"], WOMEN).status == 200


@pytest.mark.parametrize("most", ["-1", "nan", "inf", "1e999", "", "one", "1_0", "0x1"])
def test_what_is_agreed_to_is_a_number(path, most):
    with worker(path) as app:
        reply = Client(app, admit(path, "ada")).post(f"/v1/query?most={most}", WOMEN)
        assert reply.status == 400
        assert reply.json["detail"] in (
            f"most: {said}, got {most!r}"
            for said in (
                "expected `float`",
                "expected `float` >= 0.0",
                f"expected `float` <= {sys.float_info.max}",
                "number out of range",
            )
        )
