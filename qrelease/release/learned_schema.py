"""`Learned`: a schema that was completed from private records, for a charge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from qrelease.data.attribute import OTHER
from qrelease.data.domain import Domain
from qrelease.data.schema import to_toml
from qrelease.privacy.costs import Spend
from qrelease.privacy.ledger_entries import Charge


@final
@dataclass(frozen=True)
class Learned:
    """A schema with bins and categories learned from the records, for a charge; hence public. `Curator.learn` makes it.

    Attributes
    ----------
    domain
        With all bins and categories: what `Table.viewed` takes.
    charge
        What paid for it.
    spends
        The parts of its cost, one for each column that was learned.

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

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The columns of which no text had enough records to be named at that cost: all of them are `other`."""
        learned = {_column(spend) for spend in self.spends}
        return tuple(a.name for a in self.domain if a.name in learned and a.categories == (OTHER,))

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
