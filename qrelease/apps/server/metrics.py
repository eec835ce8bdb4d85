"""Metrics of a server for those who run it, written in the text format of Prometheus.

Nothing here is private: requests, statuses and seconds are what clients see, the budget and what was spent of it is
what every analyst may ask for, and connections are the network's. No count depends on a record.

Every worker writes to rows of its own, one a dataset, in memory that all share, so whichever is asked says what all
did. A worker that takes the place of another goes on with its rows: a counter only grows while the server runs, or
until its datasets are read anew.
"""

from __future__ import annotations

import math
import mmap
import socket
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from qrelease.apps.server.openapi import ENDPOINTS
from qrelease.apps.server.problems import PROBLEMS
from qrelease.apps.server.shapes import Account

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, the upper ends of the buckets of latencies."""

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_STATUSES: Final = (200, 499, *PROBLEMS)
_ROUTES: Final = {endpoint.name: i for i, endpoint in enumerate(ENDPOINTS)}
_STATUS: Final = {status: i for i, status in enumerate(_STATUSES)}
_PER_ROUTE: Final = len(_STATUSES) + len(BUCKETS) + 2  # and slower ones, and microseconds in all
_CONNECTIONS: Final = len(_ROUTES) * _PER_ROUTE
_CHARGES: Final = _CONNECTIONS + 1
_CELLS: Final = _CHARGES + 1


@dataclass(frozen=True)
class Meters:
    """The numbers of all workers; each has one row a dataset, made before they are forked.

    rows       (workers, datasets, cells) in shared memory
    listening  where they are asked for, a socket of this machine's alone
    datasets   their names; None for the one dataset of a server
    """

    rows: npt.NDArray[np.int64]
    listening: socket.socket
    datasets: tuple[str | None, ...]

    @classmethod
    def of(cls, workers: int, listening: socket.socket, datasets: tuple[str | None, ...] = (None,)) -> Meters:
        """Numbers for so many workers, all zero, in memory that they share."""
        shape = workers, len(datasets), _CELLS
        shared = mmap.mmap(-1, 8 * math.prod(shape))
        return cls(np.frombuffer(shared, np.int64).reshape(shape), listening, datasets)

    @property
    def port(self) -> int:
        """The port on which the numbers are asked for."""
        return int(self.listening.getsockname()[1])

    def meter(self, worker: int) -> Meter:
        """The numbers of one worker, which has no connections yet."""
        self.rows[worker, 0, _CONNECTIONS] = 0
        return Meter(self, worker)

    def text(self, *accounts: Account | None) -> str:
        """Everything, with each session's account: its `total` and `spent`; without them while nobody can tell."""
        return "\n".join([*_lines(self.rows.sum(axis=0), self.datasets, accounts), ""])


@dataclass(frozen=True)
class Meter:
    """One worker's numbers, of one dataset."""

    meters: Meters
    worker: int
    dataset: int = 0

    def of(self, dataset: str | None) -> Meter:
        """The same worker's numbers of another dataset."""
        return Meter(self.meters, self.worker, self.meters.datasets.index(dataset))

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """A request of an endpoint was answered."""
        row, start = self.meters.rows[self.worker, self.dataset], _ROUTES[endpoint] * _PER_ROUTE
        row[start + _STATUS[status]] += 1
        row[start + len(_STATUSES) + bisect_left(BUCKETS, seconds)] += 1
        row[start + _PER_ROUTE - 1] += round(1e6 * seconds)

    def charged(self, charges: int) -> None:
        """Count charges that became durable."""
        self.meters.rows[self.worker, self.dataset, _CHARGES] += charges

    def connected(self, connections: int) -> None:
        """Set the number of connections that are open now."""
        self.meters.rows[self.worker, 0, _CONNECTIONS] = connections


def _lines(
    rows: npt.NDArray[np.int64], datasets: Sequence[str | None], accounts: Sequence[Account | None]
) -> Iterator[str]:
    named = [{} if dataset is None else {"dataset": dataset} for dataset in datasets]
    yield from _head("requests_total", "counter", "Requests that were answered, by route and status.")
    for own, row in zip(named, rows, strict=True):
        for endpoint in ENDPOINTS:
            start = _ROUTES[endpoint.name] * _PER_ROUTE
            for status, i in _STATUS.items():
                if row[start + i]:
                    labels = {**own, "method": endpoint.method, "route": endpoint.path, "status": status}
                    yield _sample("requests_total", labels, row[start + i])
    yield from _head("request_seconds", "histogram", "Seconds until a request was answered, by route.")
    for own, row in zip(named, rows, strict=True):
        for endpoint in ENDPOINTS:
            start = _ROUTES[endpoint.name] * _PER_ROUTE + len(_STATUSES)
            counts = np.cumsum(row[start : start + len(BUCKETS) + 1]).tolist()
            labels = {**own, "method": endpoint.method, "route": endpoint.path}
            for end, count in zip((*(f"{b:g}" for b in BUCKETS), "+Inf"), counts, strict=True):
                yield _sample("request_seconds_bucket", {**labels, "le": end}, count)
            yield _sample("request_seconds_sum", labels, repr(int(row[start + len(BUCKETS) + 1]) / 1e6))
            yield _sample("request_seconds_count", labels, counts[-1])
    yield from _head("connections", "gauge", "Open connections.")
    yield _sample("connections", {}, rows[0, _CONNECTIONS])
    yield from _head("charges_total", "counter", "Charges that requests made.")
    for own, row in zip(named, rows, strict=True):
        yield _sample("charges_total", own, row[_CHARGES])
    known = [(own, account) for own, account in zip(named, accounts, strict=True) if account is not None]
    for name, told in (("total", "What all answers together may cost."), ("spent", "What they have cost.")):
        if known:
            yield from _head(f"budget_{name}", "gauge", told)
        for own, account in known:
            cost = account.total if name == "total" else account.spent
            for parameter, value in cost.items():
                yield _sample(f"budget_{name}", {**own, "parameter": parameter}, repr(value))


def _sample(name: str, labels: Mapping[str, object], value: object) -> str:
    told = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"qrelease_{name}{{{told}}} {value}" if told else f"qrelease_{name} {value}"


def _head(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP qrelease_{name} {told}"
    yield f"# TYPE qrelease_{name} {kind}"
