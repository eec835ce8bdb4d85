"""`Curator`: where the private data, the budget and the mechanisms meet."""

from typing import final

from qrelease.contracts import Mechanism, OnlineMechanism, Opened, PayingMechanism, parameters
from qrelease.entropy import Entropy, WordSource, is_insecure
from qrelease.errors import InvalidInput, LedgerError
from qrelease.ledger import Ledger
from qrelease.measure import Private
from qrelease.privacy import Cost, Filter, Neighbours
from qrelease.privacy.costs import check_cost
from qrelease.release import Release
from qrelease.table import Table
from qrelease.workload import Workload


@final
class Curator:
    """The private table, its budget and the source of noise: the only door to private counts.

    The neighbouring relation is the ledger's. `release` charges the ledger, durably, before the first bit of noise is
    drawn; what can be known to be wrong is raised before the charge.
    """

    def __init__(self, table: Table, ledger: Ledger, entropy: WordSource | None = None) -> None:
        self._table = table
        self._ledger = ledger
        self._entropy = Entropy() if entropy is None else entropy

    @property
    def ledger(self) -> Ledger:
        """The budget."""
        return self._ledger

    def release(self, mechanism: Mechanism, workload: Workload, cost: Cost) -> Release:
        """Run a mechanism once, for one charge.

        Raises `BudgetExceeded` if the ledger does not cover the cost, and whatever the mechanism's own check finds.
        Nothing is charged then.
        """
        _check_made(mechanism)
        if not isinstance(mechanism, Mechanism):
            raise InvalidInput(f"a release takes a mechanism such as MWEM(), not an online one, got {mechanism!r}")
        if not isinstance(workload, Workload):
            raise InvalidInput(f"a release takes a Workload, such as Workload.marginals(domain, 2), got {workload!r}")
        if workload.domain != self._table.domain:
            raise InvalidInput("the workload is over another domain than the table")
        workload.check_bounded()
        check_cost(cost)
        self._table.check_counts(workload.sets)
        if self._ledger.store.in_writing:
            raise LedgerError("a release is not made inside a transaction, which could undo its charge")
        neighbours = self._ledger.neighbours
        mechanism.check(workload, cost, neighbours)
        described = parameters(mechanism)  # by now, as a user's own object may fail at it
        self._ledger.charge(cost, f"{mechanism.name}: {len(workload):,} queries")
        private = Private(self._table, neighbours, Filter(cost), self._entropy)
        draft = mechanism.release(private, workload, cost)
        rules = {"impossible": "kept" if draft.constrained else "not kept"} if workload.domain.impossible else {}
        return Release(
            draft.synopsis,
            workload,
            cost,
            neighbours,
            self._ledger.dataset,
            mechanism.name,
            {**described, **draft.choices, **rules},
            draft.measurements,
            tuple(private.spends),
            is_insecure(self._entropy),
            self._entropy.insecure_seed,
        )

    def open(
        self, mechanism: OnlineMechanism[Opened] | PayingMechanism[Opened], cost: Cost, *, key: str | None = None
    ) -> Opened:
        """Open a session of an online mechanism; or go on with one.

        It is for one charge, before the first bit of noise, or, if the mechanism pays as it goes, for a charge before
        each draw, of which all together are at most the cost.

        key  names the session: one that was opened under it before goes on where it ended, for no further charge, with
             the same mechanism and cost. Without a key it is a new one.

        Raises `BudgetExceeded` if the ledger does not cover the cost, and whatever the mechanism's own check finds.
        Nothing is charged then.
        """
        _check_made(mechanism)
        if not isinstance(mechanism, OnlineMechanism | PayingMechanism):
            raise InvalidInput(
                f"a session takes an online mechanism such as PrivateMultiplicativeWeights(), got {mechanism!r}"
            )
        check_cost(cost)
        neighbours = self._ledger.neighbours
        records = len(self._table) if neighbours is Neighbours.REPLACE_ONE else None
        mechanism.check(self._table.domain, cost, neighbours, records)
        private, label = Private(self._table, neighbours, Filter(cost), self._entropy), f"{mechanism.name}: a session"
        if isinstance(mechanism, PayingMechanism):
            return mechanism.join(private, self._ledger.session(cost, label, key))
        charge = self._ledger.charge(cost, label, key)
        return mechanism.open(private, cost, self._ledger.journal(charge))

    def __repr__(self) -> str:
        return f"Curator({self._ledger!r}; the records are private)"


def _check_made(mechanism: object) -> None:
    """`InvalidInput` for a class, which has the methods of what it makes, too."""
    if isinstance(mechanism, type):
        name = mechanism.__name__
        raise InvalidInput(f"take a mechanism that was made, {name}(), not the class {name} itself")
