"""Error bounds that theorems promise for mechanisms, and the bound that a release states."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from qrelease.privacy.costs import Cost, Neighbours
from qrelease.queries.workload import Workload

BETA: Final = 0.05
"""The probability with which the promise of a release fails, where nothing else is asked for."""


@runtime_checkable
class Promising(Protocol):
    """A mechanism whose error a theorem bounds before anything is paid."""

    def error(self, workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """How far off the worst answer may be.

        Parameters
        ----------
        workload : Workload
            The k queries to answer.
        records : int
            The number of records n.
        cost : Cost
            What the release may cost.
        neighbours : Neighbours
            Which tables the promise compares.
        beta : float
            The probability with which an answer may be further off.

        Returns
        -------
        float
            A fraction of n: with probability 1 - β no answer is off by more. Above 1 it says nothing.
        """


def promise(error: Callable[[float], float], records: float, miss: float, beta: float) -> dict[str, Any]:
    """What a release writes down: with probability 1 - β no answer is off by more than `error`, a count.

    error    what is promised with probability 1 - β to a table of n records, a fraction of n; in counts it grows with
             n, from the least n on that it is finite for
    records  the number of records, noisy
    miss     how far it is off at most, in the event that the promise is made for; 0 where n is public

    Without an `error` (None) nothing is promised, as to a table that is known to be empty.
    """
    low, high = max(1.0, records - miss), records + miss
    counts = [error(n) * n for n in (low, high)] if high >= low else [math.inf]
    return {"promise": {"error": max(counts) if all(map(math.isfinite, counts)) else None, "beta": beta}}
