"""The application in this process: one analyst with the whole cap, over a curator's own ledger."""

import pytest
from instead import Instead
from replies import problem
from serving import TABLE, WOMEN, YOUNG, Client, spent, worker

from qrelease.apps.server.in_process import in_process
from qrelease.apps.server.service import Service
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Neighbours, PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

CAP = PureDP(1.0)


@pytest.fixture
def curator(path):
    with Ledger.open(path, CAP, neighbours=Neighbours.REPLACE_ONE) as ledger:
        yield Curator(TABLE, ledger, Entropy.insecure(1))


def test_it_answers_as_a_worker_does_and_charges_the_curators_ledger(curator, path):
    with in_process(curator, path, Online(), CAP) as (app, token):
        ada = Client(app, token)
        assert ada.get("/v1/budget").json["analyst"] == {
            "total": {"epsilon": 1.0},
            "spent": {"epsilon": 0.0},
            "left": {"epsilon": 1.0},
            "answers": 139,  # 20,000 records at an alpha of .05: a thousand records off
        }
        answers = [ada.ask(query).json["answers"] for query in (WOMEN, YOUNG)]
        assert curator.ledger.spent == PureDP(spent(path))
        assert spent(path) > 0
        problem(Client(app, token + "x").ask(WOMEN), 401)
    other = path.with_name("other.ledger")
    with worker(other, seed=1) as app:
        with Ledger.open(other) as ledger:
            bob = Client(app, Analysts(ledger).add("ada", CAP))
        assert [bob.ask(query).json["answers"] for query in (WOMEN, YOUNG)] == answers


def test_after_it_the_session_has_ended_and_the_ledger_can_be_charged(curator, path):
    with in_process(curator, path, Online(), PureDP(0.5)) as (app, token):
        ada = Client(app, token)
        assert ada.get("/v1/budget").json["analyst"]["total"] == {"epsilon": 0.5}
        (bought,) = ada.ask(WOMEN).json["answers"]
    before = spent(path)
    curator.ledger.charge(PureDP(0.25), "something else")
    assert spent(path) == pytest.approx(before + 0.25)
    again = curator.open(Online(), PureDP(0.5), key="server").answer("sex = 'F'")
    assert (again.value, again.source) == (bought["value"], "cached")


def test_a_service_of_ones_own_answers(curator, path):
    def service_of(session, analysts):
        return Instead(Service(session, analysts), budget=lambda name: {"whose": name})

    with in_process(curator, path, Online(), CAP, service_of) as (app, token):
        assert Client(app, token).get("/v1/budget").json == {"whose": "ada"}
