"""`Learned`: a schema that was completed from private records, for a charge."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import final

from qrelease.data.attribute import OTHER
from qrelease.data.domain import Domain
from qrelease.data.schema import to_toml
from qrelease.errors import LedgerError
from qrelease.privacy.costs import ZCDP, Spend
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_entries import Charge
from qrelease.release.schema_cost import SchemaCost


@final
@dataclass(frozen=True)
class Left:
    """What is left of a charge for one release, after the schema that it is over was learned.

    cost       ρ of the unit
    mechanism  the name of the one that it was charged for
    ledger     that was charged
    """

    cost: ZCDP
    mechanism: str
    ledger: Ledger = field(repr=False)
    _filter: Filter = field(repr=False)
    _process: int = field(default_factory=os.getpid, repr=False)

    @classmethod
    def of(cls, cost: ZCDP, mechanism: str, ledger: Ledger) -> Left:
        """All of it, unspent."""
        return cls(cost, mechanism, ledger, Filter(cost))

    def spend(self) -> None:
        """Take it: once, and in the process that learned, as a fork would draw under the same charge.

        Raises `BudgetExceeded` the second time, and `LedgerError` in another process.
        """
        if os.getpid() != self._process:
            raise LedgerError("what is left after a schema was learned is spent by the process that learned it")
        self._filter.spend(self.cost)


@final
@dataclass(frozen=True)
class Learned:
    """A schema with bins and categories learned from the records, for a charge; hence public. `Curator.learn` makes it.

    What `Curator.learn_for` makes has a part of its charge left, for one release.

    Attributes
    ----------
    domain
        With all bins and categories: what `Table.viewed` takes.
    charge
        What paid for it.
    spends
        The parts of its cost, one for each column that was learned.
    left
        What is left of the charge for a release; None where it paid for the schema alone.

    Examples
    --------
    >>> import qrelease as qr
    >>> hours = qr.Attribute("hours", "number", within=(0, 99), step=1, learn=4)
    >>> table = qr.Table(qr.Domain((hours,)), ([40] * 700,))
    >>> curator = qr.Curator(table, qr.Ledger.open(None, qr.PureDP(1.0)), qr.Entropy.insecure(1))
    >>> print(curator.learn(qr.PureDP(0.5)).spends[0].cost)
    epsilon=0.5
    """

    domain: Domain
    charge: Charge
    spends: tuple[Spend, ...]
    left: Left | None = None

    def __repr__(self) -> str:
        learned = ", ".join(dict.fromkeys(map(_column, self.spends)))
        left = "" if self.left is None else ", of which a release is to be paid"
        return f"Learned({learned} of {self.domain}; for {self.charge.cost}{left})"

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The columns of which no text had enough records to be named at that cost: all of them are `other`."""
        learned = {_column(spend) for spend in self.spends}
        return tuple(a.name for a in self.domain if a.name in learned and a.categories == (OTHER,))

    @property
    def paid_for(self) -> SchemaCost:
        """What the charge paid for, as a release over the schema says it."""
        return SchemaCost(tuple(dict.fromkeys(map(_column, self.spends))), self.charge.cost, self.charge.id)

    def to_toml(self) -> str:
        """The completed schema as a file that `schema.load` reads, with what each part cost as comments."""
        head = (
            f"Learned from records, for {self.charge.cost}: charge {self.charge.id} of the ledger, {self.charge.time}."
        )
        notes = {_column(spend): f"learned, for {spend.cost}{_aside(spend)} of that charge" for spend in self.spends}
        return to_toml(self.domain, head, notes)


def _column(spend: Spend) -> str:
    return spend.what.partition(" of ")[2]


def _aside(spend: Spend) -> str:
    """What a column cost besides, which stands in brackets."""
    _, bracket, rest = spend.what.partition(" of ")[0].partition(" (")
    return bracket + rest
