"""`Learned`: a schema that was completed from private records, for a charge."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from qrelease.data.attribute import OTHER, Attribute
from qrelease.data.domain import Domain
from qrelease.data.schema import to_toml
from qrelease.errors import LedgerError
from qrelease.privacy.costs import ZCDP, Spend
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_entries import Charge
from qrelease.release.schema_cost import SchemaCost

_OUTNUMBERED = 2
"""How many times as many bins as the noise supports are learned where that is told. Fewer may still be of use: of
flights by aircraft at ε = 1 (`python -m benchmarks.learning`) it supports 20, and 32 had smaller errors than 20."""


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
    errors
        How far off each count is that the bins of a column follow, in the root mean square, in records, by column.
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
    errors: Mapping[str, float] = field(repr=False)
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
    def supported(self) -> dict[str, int]:
        """By column whose bins are mostly where noise put them, about how many it supports, which is at least 1.

        That many bins would each hold as many records as the counts behind them are off, of the noisy number that all
        have together; the columns are those with more than twice as many bins, and with several points in some. Of
        these the places say little. All of this is public.
        """
        found = {}
        for name, error in self.errors.items():
            attribute = self.domain[name]
            assert attribute.grid is not None
            supported = max(round(_records(attribute) / error), 1)
            if _OUTNUMBERED * supported < attribute.values < attribute.grid.size:
                found[name] = supported
        return found

    @property
    def cautions(self) -> tuple[str, ...]:
        """What whoever pays for a release over the schema should know, a line each: of `unnamed` and of `supported`."""
        told = []
        if self.unnamed:
            told.append(
                f"{', '.join(self.unnamed)}: no text is of enough records, or persons, to be named at this cost, so"
                " that all are 'other'; list the categories in the schema, from public knowledge, or spend more on"
                " learning"
            )
        if few := self.supported:
            bins = ", ".join(f"{name} {few[name]:,} of {self.domain[name].values:,}" for name in few)
            told.append(
                "too few records, or persons, to learn so many bins at this cost: the noise supports about as many as"
                f" follow, and the places of most are by chance: {bins}; write bins in the schema, from public"
                " knowledge, or spend more on learning"
            )
        return tuple(told)

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


def _records(attribute: Attribute) -> int:
    """The noisy number of records that have a value."""
    return sum(weight for _, weight in attribute.shape)


def _column(spend: Spend) -> str:
    return spend.what.partition(" of ")[2]


def _aside(spend: Spend) -> str:
    """What a column cost besides, which stands in brackets."""
    _, bracket, rest = spend.what.partition(" of ")[0].partition(" (")
    return bracket + rest
