"""What learning a schema costs and may find, before anything is spent: by public facts alone, for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, final

from qrelease.data.domain import Domain
from qrelease.data.predicates import before_learning
from qrelease.errors import InvalidInput
from qrelease.mechanisms.learning import schema as learning
from qrelease.privacy.costs import Cost, Neighbours, Spend
from qrelease.privacy.unit import Unit
from qrelease.queries.numeric import NumericQuestion
from qrelease.release.curator import IN_RHO


def told_of_learning(domain: Domain, cost: Cost, neighbours: Neighbours) -> list[str]:
    """Before a schema is learned by itself: what its cost goes into, and how finely that learns, a line each.

    Raises what `Curator.learn` would of these arguments.

    Examples
    --------
    >>> import qrelease as qr
    >>> hours = qr.Attribute("hours", "number", within=(0, 168), step=1, learn=16)
    >>> for line in told_of_learning(qr.Domain((hours,)), qr.PureDP(0.1), qr.Neighbours.ADD_REMOVE):
    ...     print(line)
    learn bins of hours: epsilon=0.1; 16 at most; each count behind them is off by about 35.4 records (root mean square)
    """
    unit = Unit.of(neighbours, domain).of_records
    with unit.explained():
        least, errors = learning.least_named(domain, cost, unit), learning.count_errors(domain, cost, unit)
    told = []
    for spend, name in zip(learning.spends(domain, cost), learning.column_costs(domain, cost), strict=True):
        line = f"{spend.what}: {spend.cost:.6g}; {domain[name].learn:,} at most; "
        if name in least:
            line += f"a text that about {least[name]:,} records have is as likely to become one as not"
        else:
            line += f"each count behind them is off by about {errors[name]:,.3g} records (root mean square)"
        told.append(line)
    return told


@final
@dataclass(frozen=True)
class LearningForecast:
    """How a release divides a cost under a schema that leaves bins or categories open, and a domain to plan with.

    Attributes
    ----------
    names
        The columns that are to be learned.
    stand_in
        The domain with as many bins and categories as may be learned, all bins of one width: no cell of it means
        anything, but their number is the most that there can be.
    whole
        What learning and the release cost together.
    spends
        What learning costs, by column.
    left
        What is left for the release.
    together
        Whether both are charged at once, in ρ, as they are by the mechanisms of `IN_RHO` where there is a δ; else one
        after the other.
    alone
        What learning would cost by itself, where the rest of the cost is left for a release.
    least
        How many records, or votes of persons, a category seems to have at least that is named, by column.

    Examples
    --------
    >>> import qrelease as qr
    >>> hours = qr.Attribute("hours", "number", within=(0, 168), step=1, learn=16)
    >>> found = LearningForecast.of(qr.Domain((hours,)), 1_000, qr.PureDP(1.0), qr.Neighbours.ADD_REMOVE)
    >>> print(f"{found.stand_in.size} cells; {found.alone:.6g}, and {found.left:.6g} are left")
    16 cells; epsilon=0.1, and epsilon=0.9 are left
    """

    names: tuple[str, ...]
    stand_in: Domain
    whole: Cost
    spends: tuple[Spend, ...]
    left: Cost
    together: bool
    alone: Cost
    least: Mapping[str, int]

    @classmethod
    def of(cls, domain: Domain, n: int, cost: Cost, neighbours: Neighbours, *, numbers: bool = False) -> Self:
        """What is known of learning from about n records, for a part of a cost.

        Parameters
        ----------
        domain
            Some of its columns are open.
        n
            About how many records there are.
        cost
            What learning and the release cost together.
        neighbours
            The relation under which it holds.
        numbers
            Whether questions about numbers are measured too: then both are not charged together.

        Raises
        ------
        InvalidInput
            Where nothing is to be learned, for categories without a δ, and where the part buys no noise there is.
        """
        unit = Unit.of(neighbours, domain).of_records
        alone, left = learning.divided(domain, cost)
        parts: learning.LearningCost = alone
        with unit.explained():
            account = None if numbers else learning.one_account(domain, cost, unit)
            if account is not None:
                parts, left = account, account.release
            least = learning.least_named(domain, parts, unit)
        bounded = tuple(
            replace(a, learn=max(min(a.learn, n // least[a.name]), 2)) if a.name in least else a for a in domain
        )
        stand_in = learning.learnable_domain(replace(domain, attributes=bounded), most=True)
        spends = learning.spends(domain, parts)
        return cls(domain.undecided, stand_in, cost, spends, left, account is not None, alone, least)

    @property
    def open(self) -> dict[str, int]:
        """How many bins or categories the stand-in has for each column that is to be learned, `other` not counted."""
        return {name: self.stand_in[name].values - (name in self.least) for name in self.names}

    @property
    def mechanisms(self) -> tuple[str, ...] | None:
        """The names of those that a release for what is left can be by; None for all."""
        return tuple(name for name in IN_RHO if name != "auto") if self.together else None

    def is_about_learned(self, text: str) -> bool:
        """Whether a query, as a workload or `NumericQuestion.parse` takes it, has a condition on columns to be learned.

        Raises `InvalidInput` for a condition that is none, whatever is learned.
        """
        if NumericQuestion.names_kind(text):
            without = NumericQuestion.before_learning(self.stand_in, text, self.names)
            try:
                return NumericQuestion.parse(self.stand_in, text) != without
            except InvalidInput:  # of cells that the stand-in does not have
                return True
        kind, _, condition = text.partition(":")
        if kind.strip() != "where" or not condition.strip():
            return False
        about = before_learning(condition.strip(), self.stand_in, self.names).axes
        return not {self.stand_in.names[axis] for axis in about}.isdisjoint(self.names)

    def __str__(self) -> str:
        counts = (
            f"{name} {many:,} {'categories' if name in self.least else 'bins'}" for name, many in self.open.items()
        )
        if self.together:
            told = (
                f"  `qrelease release` charges {self.whole:.6g} once, for learning and the release (by"
                f" {', '.join(IN_RHO[:-1])} or {IN_RHO[-1]}; by others one after the other). It converts them to rho:"
                f" {self.left:.6g} is for the release, which all below is about, and for learning"
            )
        else:
            told = (
                f"  of {self.whole:.6g} `qrelease release` leaves {self.left:.6g} for the release, which all below is"
                " about, and takes for learning"
            )
        lines = [
            f"to be learned, so not known to a plan: {', '.join(self.names)}",
            told,
            *(f"    {spend.what}: {spend.cost:.6g}" for spend in self.spends),
            *(
                f"  a text of {name} that about {records:,} records have is as likely to become a category as not; what"
                " becomes none is counted as `other`"
                for name, records in self.least.items()
            ),
            f"  planned with a stand-in: {', '.join(counts)}; it is the most that can be learned, and with fewer the"
            " errors are smaller as a rule",
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {
            "cost": self.whole.to_json(),
            "spends": [{"what": spend.what, "cost": spend.cost.to_json()} for spend in self.spends],
            "release": self.left.to_json(),
            "together": self.together,
            "stand_in": self.open,
            "least_named": dict(self.least),
        }
