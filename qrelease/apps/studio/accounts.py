"""The ledger of a data file, found and summarised for the data holder."""

from __future__ import annotations

import argparse
from typing import Any

from qrelease.apps.cli.ledgers import known_ledger, ledger_path
from qrelease.apps.cli.shared import cost_meant
from qrelease.data.schema import load
from qrelease.errors import QReleaseError
from qrelease.privacy import Neighbours
from qrelease.privacy.ledger import Ledger


def ledger_standing(arguments: argparse.Namespace) -> dict[str, Any]:
    """Where the ledger that a release would charge stands, and why it does not take the cost; reads no data."""
    place, cost, domain = ledger_path(arguments), cost_meant(arguments), load(arguments.schema)
    person = None if domain.person is None else domain.person.column
    ledger = known_ledger(arguments, cost, Neighbours.parse(arguments.neighbours), person)
    if ledger is None:
        return {"place": str(place), "new": True, "why": None}
    why = None
    with ledger:
        ledger.check_unit(person)
        try:
            ledger.check(cost)
        except QReleaseError as error:
            why = str(error)
        return {"place": str(place), "new": False, "why": why, **_standing(ledger)}


def _standing(ledger: Ledger) -> dict[str, Any]:
    """Total, spent and left in words, and the share of the total that is spent."""
    spent, left = ledger.spent, ledger.remaining
    total = next(iter(ledger.total.to_json().values()))
    taken = 0.0 if spent is None else next(iter(spent.to_json().values()))
    return {
        "total": str(ledger.total),
        "spent": "nothing" if spent is None else str(spent),
        "left": "nothing" if left is None else str(left),
        "share": min(taken / total, 1.0),
    }
