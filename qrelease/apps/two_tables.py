"""Releasing a parent table and its children within one cost: the two halves are checked, then charged, then drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final

from qrelease._util import callers
from qrelease.data.two_tables import TwoTables
from qrelease.errors import InvalidInput, RowsChangedWarning
from qrelease.mechanisms.base import Mechanism, check_parts, check_table
from qrelease.noise.entropy import WordSource
from qrelease.privacy.costs import Cost, Neighbours, split
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.linked import LinkedRelease

PARENTS_SHARE: Final = 0.5
"""Of the cost, for the parents: the part by which the errors of both are the least times larger than they could be, of
those that `python -m benchmarks.two_tables --shares` compares."""


def check_linked(
    tables: TwoTables,
    mechanism: Mechanism,
    cost: Cost,
    neighbours: Neighbours,
    *,
    workload: Workload | None = None,
    share: float = PARENTS_SHARE,
) -> None:
    """Raise what is known to be wrong before there is a ledger; see `release_linked`."""
    if not 0 < share < 1:
        raise InvalidInput(f"share must be between 0 and 1, got {share!r}")
    if neighbours is Neighbours.REPLACE_ONE and tables.children.domain.counts_once:
        # A parent without children is in no count of theirs: replaced by one who has some, their sum is another.
        raise InvalidInput(
            "two tables under replace-one: how many parents have children is private, and where each parent counts once"
            ' it would be told; take add-remove, or weights = "records" in [person]'
        )
    for asked, part in zip(_workloads(tables, workload), split(cost, [share, 1 - share]), strict=True):
        unit = Unit.of(neighbours, asked.domain)
        check_parts(mechanism, asked.domain)
        with unit.explained():
            mechanism.check(asked, unit.of_a_record(part), unit.relation)
        check_table(mechanism, asked)


def _workloads(tables: TwoTables, workload: Workload | None) -> tuple[Workload, Workload]:
    """Those of the parents and of the children."""
    domains = tables.parents.domain, tables.children.domain
    children = Workload.marginals(domains[1], min(2, len(domains[1]))) if workload is None else workload
    return Workload.marginals(domains[0], min(2, len(domains[0]))), children


def release_linked(
    tables: TwoTables,
    ledger: Ledger,
    mechanism: Mechanism,
    cost: Cost,
    *,
    workload: Workload | None = None,
    share: float = PARENTS_SHARE,
    entropy: WordSource | None = None,
    again: bool = False,
    changed_rows: bool = False,
    store: Callable[[LinkedRelease], None] | None = None,
) -> LinkedRelease:
    """Release two tables under one cost. Nothing is charged unless the ledger covers all of it.

    A run that was cut off is resumed by the same arguments, as one of `Curator.release` is.

    Parameters
    ----------
    tables : TwoTables
        The two tables.
    ledger : Ledger
        The budget of the parents with their children: its unit is a person by the key's column.
    mechanism : Mechanism
        How both are released; it must give synthetic records.
    cost : PureDP, ApproxDP or ZCDP
        Of both together.
    workload : Workload, optional
        Queries over `tables.children.domain`, by default all marginals of two columns; those of the parents are all of
        two columns.
    share : float
        Of the cost, for the parents.
    entropy : Entropy, optional
        As for a `Curator`.
    again, changed_rows : bool
        As for its `release`.
    store : callable, optional
        Stores the release before it counts as made: where that fails, the same arguments go on with it for free.

    Returns
    -------
    LinkedRelease
        Public: both releases, from which parents and their children are drawn together.

    Raises
    ------
    BudgetExceeded
        Where the ledger does not cover the whole cost. Nothing is charged then.
    InvalidInput
        Whatever the mechanism's check finds for either table. Nothing is charged then.

    Examples
    --------
    >>> import qrelease as qr
    >>> import numpy as np
    >>> from qrelease.data.person import Person
    >>> person, rng = Person("plane", 3), np.random.default_rng(0)
    >>> seats = qr.Domain(qr.Domain.coded({"seats": 3}).attributes, person=person)
    >>> late = qr.Domain(qr.Domain.coded({"late": 2}).attributes, person=person)
    >>> planes = qr.Table.of_persons(seats, [rng.integers(3, size=300)], range(300))
    >>> flights = qr.Table.of_persons(late, [rng.integers(2, size=700)], rng.integers(300, size=700))
    >>> with qr.Ledger.open(None, qr.PureDP(2.0), person="plane") as ledger:
    ...     both = TwoTables.of(planes, flights)
    ...     found = release_linked(both, ledger, qr.MaxEnt(), qr.PureDP(2.0), entropy=qr.Entropy.insecure(1))
    >>> parents, of, own = found.codes(None, np.random.default_rng(0))
    >>> bool(of.max() < len(parents[0])), len(own)
    (True, 1)
    """
    check_linked(tables, mechanism, cost, ledger.neighbours, workload=workload, share=share)
    parts, workloads = split(cost, [share, 1 - share]), _workloads(tables, workload)
    curators = [Curator(table, ledger, entropy) for table in (tables.parents, tables.children)]
    left: list[Cost] = []
    for curator, asked, part in zip(curators, workloads, parts, strict=True):
        curator.check(mechanism, asked, part)
        if again or not curator.has_paid(mechanism, asked, part):
            left.append(part)
    if left:
        ledger.check(cost if len(left) > 1 else left[0])
    # Of both before the first is charged, which counts as an earlier one.
    notices = [] if changed_rows else [curator.notice for curator in curators if curator.notice is not None]
    for notice in notices:
        warnings.warn(notice, RowsChangedWarning, stacklevel=callers.level())
    if not (again or changed_rows or notices):
        for curator, asked, part in zip(curators, workloads, parts, strict=True):
            curator.warn_if_released_before(mechanism, asked, part)
    payments = [
        curator.payment(mechanism, asked, part, again=again, changed_rows=True)
        for curator, asked, part in zip(curators, workloads, parts, strict=True)
    ]
    with ledger.transaction():  # both or none, whatever others charge meanwhile
        charges = [charged() for charged, _ in payments]
    paid = [made(charge) for (_, made), charge in zip(payments, charges, strict=True)]
    releases = [each.release() for each in paid]
    found = LinkedRelease(releases[0], releases[1], tables.own)
    if store is not None:
        store(found)
    with ledger.transaction():  # else a run that is cut off in between would pay for one of them anew
        for each, release in zip(paid, releases, strict=True):
            each.finish(release)
    return found
