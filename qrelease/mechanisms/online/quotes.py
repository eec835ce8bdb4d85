"""What answers cost those who ask: quotes, the budgets beside a session's own, and sums of costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, final

from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP, round_up
from qrelease.privacy.filters import RhoAccount, Tally, spent

if TYPE_CHECKING:
    from qrelease.statistics.estimate import Estimate


@final
@dataclass(frozen=True)
class Quote:
    """What answers would cost now, and where they would come from.

    Parameters
    ----------
    cost
        The most that they would cost; None if nothing.
    source
        Where the first answer that costs something would come from, as in `OnlineAnswer`.
    note
        A sentence where the answers can tell little, as those about many groups, or where they often cost less than
        this, as quantiles do; else nothing.
    error
        How far off each answer may be, from public facts alone. Of counts it is what the session promises. Of sums,
        means and shares it is about what holds where all groups have as many records and none lacks the number. None
        where it rests on what is private: of means and shares of some of the records, and of variances and quantiles.
    """

    cost: Cost | None
    source: Literal["cached", "hypothesis", "measured", "synopsis"]
    note: str = ""
    error: float | None = None


@final
@dataclass(frozen=True)
class PaidEstimate:
    """A statistic that a session estimated.

    Parameters
    ----------
    estimate
        What was found, and all that is public of it.
    source
        `measured`, or `cached` where it was paid for before.
    cost
        What it cost now; None for nothing.
    """

    estimate: Estimate
    source: Literal["cached", "measured"]
    cost: Cost | None


class Purse(Protocol):
    """A budget beside the session's own, such as that of the analyst who asks."""

    def admits(self, cost: Cost) -> None:
        """Raise `BudgetExceeded` if it does not hold a cost."""

    def spend(self, cost: Cost) -> None:
        """Take a cost out of it; `BudgetExceeded` if it does not hold that."""


def price_of(cost: Cost) -> float:
    """A cost as a price: its ρ, or its ε."""
    return cost.rho if isinstance(cost, ZCDP) else cost.epsilon


def total_cost(cap: Cost, costs: Sequence[Cost]) -> Cost | None:
    """What purchases of a session with this cap cost together, rounded up; None if there were none."""
    if len(costs) < 2:
        return costs[0] if costs else None
    epsilon = sum((Fraction(c.epsilon) for c in costs if not isinstance(c, ZCDP)), Fraction(0))
    rho = sum((Fraction(c.rho) for c in costs if isinstance(c, ZCDP)), Fraction(0))
    if not isinstance(cap, ApproxDP) or not epsilon:
        return ZCDP(round_up(rho)) if rho else PureDP(round_up(epsilon))
    delta = sum((Fraction(c.delta) for c in costs if isinstance(c, ApproxDP)), Fraction(0))
    backing = Fraction(cap.delta)
    account = RhoAccount.opened(cap, epsilon, backing - delta) if rho else None
    return spent(cap, Tally(epsilon, backing if rho else delta, rho, account))
