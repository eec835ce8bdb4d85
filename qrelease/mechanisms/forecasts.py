"""Predictions of the seconds and memory that a release will take, from public facts, before anything is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from qrelease._util import memory

if TYPE_CHECKING:
    from qrelease.privacy.costs import Cost
    from qrelease.queries.workload import Workload

MAGNITUDES: Final = 10_000, 100_000, 1_000_000
"""Numbers of records that are foretold for, where theirs is private."""


@runtime_checkable
class Forecasting(Protocol):
    """A mechanism that tells beforehand what a release takes, from public facts alone."""

    @property
    def name(self) -> str:
        """The mechanism's name."""

    def seconds(self, workload: Workload, cost: Cost, records: int) -> float:
        """About how long a release takes.

        Parameters
        ----------
        workload : Workload
            The queries to answer.
        cost : Cost
            What the release may cost.
        records : int
            The number of private records n.

        Returns
        -------
        float
            Seconds.
        """

    def memory(self, workload: Workload) -> int:
        """About how much memory a release takes at most.

        Parameters
        ----------
        workload : Workload
            The queries to answer.

        Returns
        -------
        int
            Bytes.
        """


NOTICED: Final = 2.0
"""Seconds from which on a release is worth a forecast that nobody asked for."""


def takes_long(mechanism: Forecasting, workload: Workload, cost: Cost, records: int | None) -> bool:
    """Whether a release may take more than `NOTICED`, of as many records as `forecast` is for."""
    numbers = MAGNITUDES if records is None else (records,)
    return any(mechanism.seconds(workload, cost, n) > NOTICED for n in numbers)


def forecast(mechanism: Forecasting, workload: Workload, cost: Cost, records: int | None) -> str:
    """One line: about how many seconds and how much memory a release takes.

    records  how many private ones there are, where that is public; None: the line is for some powers of ten
    """
    seconds_of = {
        n: rough(mechanism.seconds(workload, cost, n)) for n in (MAGNITUDES if records is None else (records,))
    }
    first, *others = {*seconds_of.values()}
    times = (
        ", ".join(f"{seconds} s for {n:,}" for n, seconds in seconds_of.items()) + " records"
        if others
        else f"{first} s"
    )
    return f"{mechanism.name} takes about {times}; {memory.size(mechanism.memory(workload))} of memory"


def rough(seconds: float) -> str:
    """Seconds to two digits, and one second at least: no forecast is better."""
    return format(float(f"{max(seconds, 1.0):.2g}"), ",.0f")
