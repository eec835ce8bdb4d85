"""What is predicted of a release, from public facts alone: the schema, the workload, the cost, a number of records."""

from __future__ import annotations

import argparse
from typing import Any, Final

from qrelease.apps.cli.shared import workload_of
from qrelease.data.schema import load
from qrelease.mechanisms.auto import Auto, choose
from qrelease.mechanisms.base import why_no_table
from qrelease.mechanisms.expected_errors import marginals_alone
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.privacy import Cost, Neighbours
from qrelease.privacy.costs import cost_of
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload

CURVE: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The ε at which quality is drawn."""


def asked(arguments: argparse.Namespace) -> tuple[Workload, Unit]:
    """The queries of a release, and whose promise its cost is."""
    domain = load(arguments.schema)
    return workload_of(arguments, domain), Unit.of(Neighbours.parse(arguments.neighbours), domain)


def left_for_workload(arguments: argparse.Namespace, workload: Workload, cost: Cost, unit: Unit) -> Cost:
    """The part of a cost that the workload gets, of a record: all, but where questions about numbers take their share.

    Raises `InvalidInput` for questions that the release would refuse.
    """
    with unit.explained():
        of_a_record = unit.of_a_record(cost)
        if not arguments.numbers:
            return of_a_record
        sums = NumberSums(arguments.numbers, mechanism=Auto())
        sums.check(workload, of_a_record, unit.relation)
        return sums.of_counts(workload, of_a_record, unit.relation)


def predicted(workload: Workload, records: int, cost: Cost, unit: Unit) -> dict[str, Any]:
    """What `auto` would take and how far off it would be: the share of records in a wrong cell of a table, and an
    answer's root mean squared error; None where it has no closed form.

    cost  of a record
    """
    if not marginals_alone(workload):
        why = "not predicted beforehand: this workload is more than tables, so the choice is made by simulation"
        return {"mechanism": None, "off": None, "error": None, "table": None, "why": why}
    with unit.explained():
        found = choose(workload, records, cost, unit.relation)
    first = found.predictions[0]
    off = None if first.l1 is None else min(first.l1 / 2, 1.0)
    table = why_no_table(found.mechanism, workload) is None
    return {"mechanism": first.mechanism, "off": off, "error": first.error, "table": table, "why": first.why}


def curve(arguments: argparse.Namespace, records: int) -> list[dict[str, Any]]:
    """The prediction at each ε of `CURVE`; empty where it has no closed form."""
    workload, unit = asked(arguments)
    found = []
    for epsilon in CURVE if marginals_alone(workload) else ():
        cost = left_for_workload(arguments, workload, cost_of(epsilon, arguments.delta), unit)
        told = predicted(workload, records, cost, unit)
        if told["off"] is not None:
            found.append({"epsilon": epsilon, "off": told["off"], "error": told["error"]})
    return found
