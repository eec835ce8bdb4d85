"""The terms of a release as the words of `qrelease release`, and what they come to: price and predicted quality.

The words are the only form in which terms are handed on: the price is of them, the release is made from them, and the
script that is exported has them. A price looks at the schema, the ledger and public numbers; it reads no data.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from qrelease.apps.cli.ledgers import known_ledger, ledger_path
from qrelease.apps.cli.release import parsed
from qrelease.apps.cli.shared import cost_meant, workload_of
from qrelease.data.domain import Domain
from qrelease.data.schema import load
from qrelease.errors import InvalidInput, QReleaseError
from qrelease.evaluation.planning import plan
from qrelease.mechanisms.auto import choose
from qrelease.mechanisms.base import why_no_table
from qrelease.mechanisms.expected import marginals_alone
from qrelease.privacy import Cost, Neighbours
from qrelease.privacy.conversions import guessing_chance
from qrelease.privacy.costs import cost_of
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload

MAX_PARTS: Final = 100
"""Parts of a workload."""

CURVE: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The ε at which quality is drawn."""

BASELINE: Final = "gaussian"
"""The mechanism that a prediction is compared with, where there is a δ."""

_OPTIONAL: Final = ("delta", "total_epsilon", "total_delta")
_FIELDS: Final = ("epsilon", "delta", "workload", "neighbours", "total_epsilon", "total_delta")


@final
@dataclass(frozen=True)
class Terms:
    """What a release is to be, checked as the command line checks it.

    words  the arguments of `qrelease release`, without `--out`
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, data: Path, schema: Path, given: Mapping[str, Any]) -> Terms:
        """The terms in a request's body; `InvalidInput` for what is missing, unknown, or of another type."""
        for name in given:
            if name not in _FIELDS:
                raise InvalidInput(f"{name!r} is no term of a release; there are {', '.join(_FIELDS)}")
        words = [str(data), f"--schema={schema}"]
        parts: Any = given.get("workload")
        texts = isinstance(parts, list) and all(isinstance(part, str) for part in parts)
        if not texts or not 1 <= len(parts) <= MAX_PARTS:
            raise InvalidInput(f"workload must be a list of 1 to {MAX_PARTS} texts, as marginals:2")
        words += [f"--workload={part}" for part in parts]
        if given.get("neighbours") not in [n.value for n in Neighbours]:
            raise InvalidInput(f"neighbours must be {' or '.join(n.value for n in Neighbours)}")
        words.append(f"--neighbours={given['neighbours']}")
        for name in ("epsilon", *_OPTIONAL):
            value = given.get(name)
            if value is None and name in _OPTIONAL:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidInput(f"{name.replace('_', ' ')} must be a number")
            words.append(f"--{name.replace('_', '-')}={value!r}")
        parsed(words)
        return cls(tuple(words))

    @property
    def arguments(self) -> argparse.Namespace:
        """As the command line parses them."""
        return parsed(self.words)

    @property
    def domain(self) -> Domain:
        """The public universe."""
        return load(self.arguments.schema)

    @property
    def cost(self) -> Cost:
        """What will be charged."""
        return cost_meant(self.arguments)

    def price(self, records: int) -> dict[str, Any]:
        """What the terms cost and what is predicted of them, for about so many records."""
        arguments, cost, domain = self.arguments, self.cost, self.domain
        workload = workload_of(arguments, domain)
        unit = Unit(Neighbours.parse(arguments.neighbours), domain.at_most)
        planned = plan(
            workload,
            records,
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            neighbours=arguments.neighbours,
            trials=0,
            mechanisms=["laplace", BASELINE],
        )
        return {
            "cost": str(cost),
            "chance": guessing_chance(cost),
            "subject": planned.subject,
            "promised": {p.mechanism: p.promised for p in planned.forecasts},
            "predicted": predicted(workload, records, cost, unit),
            "ledger": self.account(),
        }

    def curve(self, records: int) -> list[dict[str, Any]]:
        """The predicted quality at each ε of `CURVE`; empty where it has no closed form."""
        arguments, domain = self.arguments, self.domain
        workload = workload_of(arguments, domain)
        unit = Unit(Neighbours.parse(arguments.neighbours), domain.at_most)
        found = []
        for epsilon in CURVE if marginals_alone(workload) else ():
            told = predicted(workload, records, cost_of(epsilon, arguments.delta), unit)
            if told["off"] is not None:
                found.append({"epsilon": epsilon, "off": told["off"], "error": told["error"]})
        return found

    def account(self) -> dict[str, Any]:
        """Where the ledger of these data stands, and whether it covers the cost."""
        arguments, cost, domain = self.arguments, self.cost, self.domain
        place = ledger_path(arguments)
        person = None if domain.person is None else domain.person.column
        ledger = known_ledger(arguments, cost, Neighbours.parse(arguments.neighbours), person)
        if ledger is None:
            return {"place": str(place), "new": True, "why": None}
        with ledger:
            ledger.check_unit(person)
            return {"place": str(place), "new": False, "why": _refused(ledger, cost), **standing(ledger)}


def predicted(workload: Workload, records: int, cost: Cost, unit: Unit) -> dict[str, Any]:
    """What `auto` would take and how far off it would be: the share of records in a wrong cell of a table, and an
    answer's root mean squared error; None where it has no closed form.
    """
    if not marginals_alone(workload):
        why = "not predicted beforehand: this workload is more than tables, so the choice is made by rehearsal"
        return {"mechanism": None, "off": None, "error": None, "table": None, "why": why}
    with unit.explained():
        found = choose(workload, records, unit.of_a_record(cost), unit.relation)
    first = found.predictions[0]
    off = None if first.l1 is None else min(first.l1 / 2, 1.0)
    table = why_no_table(found.mechanism, workload) is None
    return {"mechanism": first.mechanism, "off": off, "error": first.error, "table": table, "why": first.why}


def standing(ledger: Ledger) -> dict[str, Any]:
    """The account of a ledger, for the data holder."""
    spent, left = ledger.spent, ledger.remaining
    total = next(iter(ledger.total.to_json().values()))
    taken = 0.0 if spent is None else next(iter(spent.to_json().values()))
    return {
        "total": str(ledger.total),
        "spent": "nothing" if spent is None else str(spent),
        "left": "nothing" if left is None else str(left),
        "share": min(taken / total, 1.0),
    }


def _refused(ledger: Ledger, cost: Cost) -> str | None:
    """Why the ledger does not take a cost; None where it does."""
    try:
        ledger.check(cost)
    except QReleaseError as error:
        return str(error)
    return None
