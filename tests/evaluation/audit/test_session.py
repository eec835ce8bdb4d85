"""A session over HTTP: only what is noisy differs between neighbouring tables, and a server that leaks is convicted."""

import json
import logging
from dataclasses import replace
from functools import partial

import pytest

from qrelease.apps.server.in_process import in_process
from qrelease.apps.server.service import Service
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit.doors import audit_doors
from qrelease.evaluation.audit.observed import differences, neighbouring
from qrelease.evaluation.audit.session import estimates_door, server_door
from qrelease.mechanisms.online.session import Online
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
ONE = PureDP(1.0)


@pytest.mark.parametrize(
    ("neighbours", "cap", "fields"), [(ADD, PureDP(100.0), 300), (SWAP, ONE, 200), (ADD, ApproxDP(1.0, 1e-6), 5)]
)
def test_of_a_session_over_http_only_what_is_noisy_differs(neighbours, cap, fields):
    """A cap that is spent in the middle, too, and one that does not even buy the number of so few records."""
    found, estimates = audit_doors("online", Online(alpha=0.2, beta=0.05), cap, neighbours, in_process, seeds=1)
    assert not found.convicted, str(found)
    assert found.fields > fields
    assert not estimates.convicted, str(estimates)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize("cap", [PureDP(100.0), ONE, PureDP(1e-3), ApproxDP(50.0, 1e-6), ApproxDP(1.0, 1e-6)], ids=str)
def test_whatever_the_cap_of_a_session_only_what_is_noisy_differs(neighbours, cap):
    for found in audit_doors("online", Online(alpha=0.2, beta=0.05), cap, neighbours, in_process):
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
        return {"quotes": [{"cost": self.known}]} if self.where == "schema" else super().quote(*asked)

    def estimate(self, *asked):
        """An estimate without its noise: the bytes with the sum of the codes in a field that is no noisy one."""
        found = super().estimate(*asked)
        if self.where != "estimate":
            return found
        content = json.loads(found)
        content["estimate"]["unit"] = f"of {self.known}"
        return json.dumps(content).encode()


@pytest.mark.parametrize("where", ["detail", "log", "schema", "estimate"])
def test_a_server_that_leaks_is_convicted(where):
    leaking = partial(in_process, service_of=partial(Leaking, where=where))
    door = server_door(Online(alpha=0.2, beta=0.05), PureDP(100.0), leaking)
    found = differences("HTTP", "online", door, SWAP, seeds=1, pairs=neighbouring(SWAP)[-1:])
    paths = " ".join(d.path for d in found.differences)
    told = {
        "detail": "v1 budget/json/detail",
        "log": "log/0",
        "schema": "quotes/0/cost",
        "estimate": "v1 estimate/json/estimate/unit",
    }
    assert told[where] in paths, str(found)


@pytest.mark.parametrize(("neighbours", "cap"), [(ADD, PureDP(100.0)), (SWAP, ZCDP(20.0)), (ADD, PureDP(0.01))])
def test_of_the_estimates_of_a_session_only_what_is_noisy_differs(neighbours, cap):
    """Of a cap, too, that buys next to nothing."""
    door = estimates_door(Online(alpha=0.2, beta=0.05), cap)
    found = differences("session", "online", door, neighbours, seeds=3)
    assert not found.convicted, str(found)
    assert found.fields > (100 if cap != PureDP(0.01) else 5)


class Telling:
    """A session whose estimates are of the records and of no noise, in a noisy field, or whose refusals count them."""

    def __init__(self, session, where, table):
        self.session, self.where, self.table = session, where, table

    def __enter__(self):
        self.session.__enter__()
        return self

    def __exit__(self, *error):
        return self.session.__exit__(*error)

    def quote_estimate(self, statistic, cost):
        if self.where == "quote":
            raise InvalidInput(f"too few of {len(self.table)} records")
        return self.session.quote_estimate(statistic, cost)

    def estimate(self, statistic, cost):
        paid = self.session.estimate(statistic, cost)
        exact = tuple(replace(m, value=float(self.table.codes(1).sum())) for m in paid.estimate.measured)
        return replace(paid, estimate=replace(paid.estimate, measured=exact)) if self.where == "noise" else paid


@pytest.mark.parametrize(("where", "path"), [("quote", "quote/error"), ("noise", "measured/0/value")])
def test_a_session_that_tells_of_the_records_is_convicted(where, path):
    def door(table, neighbours, seed):
        telling = estimates_door(
            Online(alpha=0.2, beta=0.05),
            PureDP(100.0),
            opened=lambda c, m, cost: Telling(c.open(m, cost, key="estimates"), where, table),
        )
        return telling(table, neighbours, seed)

    found = differences("session", "online", door, ADD, seeds=3)
    assert any(path in d.path for d in found.differences), str(found)
