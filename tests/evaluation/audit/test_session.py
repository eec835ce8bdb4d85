"""A session over HTTP: only what is noisy differs between neighbouring tables, and a server that leaks is convicted."""

import logging
from functools import partial

import pytest

from qrelease.apps.server.in_process import in_process
from qrelease.apps.server.service import Service
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit.doors import audit_doors
from qrelease.evaluation.audit.observed import differences, neighbouring
from qrelease.evaluation.audit.session import server_door
from qrelease.mechanisms.online.session import Online
from qrelease.privacy import ApproxDP, Neighbours, PureDP

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
ONE = PureDP(1.0)


@pytest.mark.parametrize(
    ("neighbours", "cap", "fields"), [(ADD, PureDP(100.0), 300), (SWAP, ONE, 200), (ADD, ApproxDP(1.0, 1e-6), 5)]
)
def test_of_a_session_over_http_only_what_is_noisy_differs(neighbours, cap, fields):
    """A cap that is spent in the middle, too, and one that does not even buy the number of so few records."""
    (found,) = audit_doors("online", Online(alpha=0.2, beta=0.05), cap, neighbours, in_process, seeds=1)
    assert not found.convicted, str(found)
    assert found.fields > fields


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize("cap", [PureDP(100.0), ONE, PureDP(1e-3), ApproxDP(50.0, 1e-6), ApproxDP(1.0, 1e-6)], ids=str)
def test_whatever_the_cap_of_a_session_only_what_is_noisy_differs(neighbours, cap):
    (found,) = audit_doors("online", Online(alpha=0.2, beta=0.05), cap, neighbours, in_process)
    assert not found.convicted, str(found)


class Leaking(Service):
    """A service that tells the sum of the codes of the table, in one of three places."""

    def __init__(self, session, analysts, where):
        super().__init__(session, analysts)
        self.where, table = where, session._draws._private._table
        self.known = sum(int(column.sum()) for column in table.columns)
        if where == "log":
            logging.getLogger("qrelease.server").error("serving, with codes that sum to %d", self.known)

    def budget(self, analyst):
        if self.where == "detail":
            raise InvalidInput(f"the codes of the table sum to {self.known}")
        return super().budget(analyst)

    def quote(self, *asked):
        return [{"cost": self.known}] if self.where == "schema" else super().quote(*asked)


@pytest.mark.parametrize("where", ["detail", "log", "schema"])
def test_a_server_that_leaks_is_convicted(where):
    leaking = partial(in_process, service_of=partial(Leaking, where=where))
    door = server_door(Online(alpha=0.2, beta=0.05), PureDP(100.0), leaking)
    found = differences("HTTP", "online", door, SWAP, seeds=1, pairs=neighbouring(SWAP)[-1:])
    paths = " ".join(d.path for d in found.differences)
    assert {"detail": "v1 budget/json/detail", "log": "log/0", "schema": "quotes/0/cost"}[where] in paths, str(found)
