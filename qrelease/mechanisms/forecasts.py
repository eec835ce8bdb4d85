"""Predictions of the seconds and memory that a release will take, from public facts, before anything is charged."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import numpy as np

from qrelease.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from qrelease.privacy.costs import Cost, Neighbours
    from qrelease.queries.workload import Workload

MAGNITUDES: Final = 10_000, 100_000, 1_000_000
"""Numbers of records that are foretold for, where theirs is private."""


@runtime_checkable
class Forecasting(Mechanism, Protocol):
    """A mechanism that tells beforehand what a release takes, from public facts alone."""

    def seconds(self, workload: Workload, cost: Cost, records: int) -> float:
        """About how long measuring and fitting take, before any synthetic record is drawn.

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
            Seconds on the machine that they were measured on: `pace` says how much slower this one is.
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


@dataclass(frozen=True)
class Foretold:
    """What a mechanism that chooses among others would take, before a charge; nothing where it would simulate first.

    lines  what would be chosen, how far off, with what table, and what a δ would gain
    brief  which, in one short line, and what a δ would gain; or none
    among  the mechanisms that would be chosen, each for some number of records
    """

    lines: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()
    among: tuple[Mechanism, ...] = ()


@runtime_checkable
class Choosing(Mechanism, Protocol):
    """A mechanism that takes another one, and tells which, from public facts alone."""

    def foretold(
        self,
        workload: Workload,
        cost: Cost,
        neighbours: Neighbours,
        records: int | None = None,
        part: Callable[[Cost], Cost] | None = None,
    ) -> Foretold:
        """What it would take.

        Parameters
        ----------
        workload : Workload
            The queries to answer.
        cost : Cost
            What the release may cost.
        neighbours : Neighbours
            Which tables the promise compares.
        records : int, optional
            How many there are, where that is public; by default it is told of some powers of ten.
        part : callable, optional
            What of a cost there is for the workload, where numbers are measured beside it; by default all.

        Returns
        -------
        Foretold
            Lines for people, and the mechanisms.
        """


@runtime_checkable
class CountsByAnother(Mechanism, Protocol):
    """A mechanism that measures numbers, and has another one answer the workload for a part of the cost."""

    mechanism: Mechanism | None

    def of_counts(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> Cost:
        """The part of a cost that the other mechanism may spend.

        Parameters
        ----------
        workload : Workload
            The queries to answer.
        cost : Cost
            What the release may cost.
        neighbours : Neighbours
            Which tables the promise compares.

        Returns
        -------
        Cost
            All of it, where there is no other mechanism.
        """


@dataclass(frozen=True)
class PaceSettings:
    """The small piece of work whose time tells how fast a machine is, now: lookups and exponentials, as fits make."""

    entries: int = 1 << 17
    """Entries of the table that is looked up in: a mebibyte, which is in no core's first cache."""
    lookups: int = 1 << 18
    """Lookups of a piece of work."""
    repeats: int = 60
    """Pieces, one after another: so many take longer than the turn of another process."""
    seconds: float = 7e-4
    """Of a piece, on one core of the machine that all forecasts were measured on."""


PACE: Final = PaceSettings()


@cache
def pace() -> float:
    """How many times slower than the machine that forecasts were measured on this one is, with what else it does.

    It is measured once in a process, by some 50 milliseconds of work on made-up numbers: how long a core takes for it,
    times the square root of how much longer it waits for its turns. Other processes come and go while a release runs,
    so that half of the waiting, as a logarithm, is what can be told of it. Only what is told goes by this: nothing that
    is released.
    """
    rng = np.random.default_rng(0)
    table, where = rng.random(PACE.entries), rng.integers(0, PACE.entries, PACE.lookups)
    found = np.empty(PACE.lookups)

    def work() -> None:
        np.take(table, where, out=found, mode="clip")
        np.exp(found, out=found)

    work()  # the first one finds the memory
    begin, worked = time.perf_counter(), time.thread_time()
    for _ in range(PACE.repeats):
        work()
    whole, own = time.perf_counter() - begin, time.thread_time() - worked
    return slowdown(whole, own)


def slowdown(whole: float, own: float) -> float:
    """`pace`, where all pieces of work took so many seconds by the clock, and so many of a core."""
    return sqrt(max(whole, own) / own) * own / (PACE.repeats * PACE.seconds)


def rough(seconds: float) -> str:
    """Seconds to two digits, and one second at least: no forecast is better."""
    return format(float(f"{max(seconds, 1.0):.2g}"), ",.0f")
