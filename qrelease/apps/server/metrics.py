"""What a server did, in numbers for whoever runs it: the text format of Prometheus, which is a few lines by itself.

Nothing here is private: requests, statuses and seconds are what clients see, the budget and what was spent of it is
what every analyst may ask for, and connections are the network's. No count depends on a record.

Every worker writes to a row of its own in memory that all share, so whichever is asked says what all did. A worker that
takes the place of another goes on with its row: a counter only grows while the server runs.
"""

from __future__ import annotations

import mmap
import socket
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from qrelease.apps.server.openapi import ENDPOINTS
from qrelease.apps.server.problems import PROBLEMS

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
    """The numbers of all workers; each has one row, made before they are forked.

    rows       (workers, cells) in shared memory
    listening  where they are asked for, a socket of this machine's alone
    """

    rows: npt.NDArray[np.int64]
    listening: socket.socket

    @classmethod
    def of(cls, workers: int, listening: socket.socket) -> Meters:
        """All zero."""
        shared = mmap.mmap(-1, workers * _CELLS * 8)
        return cls(np.frombuffer(shared, np.int64).reshape(workers, _CELLS), listening)

    @property
    def port(self) -> int:
        """Where they are asked for."""
        return int(self.listening.getsockname()[1])

    def meter(self, worker: int) -> Meter:
        """One worker's, which has no connections yet."""
        self.rows[worker, _CONNECTIONS] = 0
        return Meter(self, worker)

    def text(self, account: Mapping[str, Any] | None) -> str:
        """Everything, with the session's account: its `total` and `spent`; without them while nobody can tell."""
        return "\n".join([*_lines(self.rows.sum(axis=0), account), ""])


@dataclass(frozen=True)
class Meter:
    """One worker's numbers."""

    meters: Meters
    worker: int

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """A request of an endpoint was answered."""
        row, start = self.meters.rows[self.worker], _ROUTES[endpoint] * _PER_ROUTE
        row[start + _STATUS[status]] += 1
        row[start + len(_STATUSES) + bisect_left(BUCKETS, seconds)] += 1
        row[start + _PER_ROUTE - 1] += round(1e6 * seconds)

    def charged(self, charges: int) -> None:
        """So many charges became durable."""
        self.meters.rows[self.worker, _CHARGES] += charges

    def connected(self, connections: int) -> None:
        """So many connections are open now."""
        self.meters.rows[self.worker, _CONNECTIONS] = connections


def _lines(row: npt.NDArray[np.int64], account: Mapping[str, Any] | None) -> Iterator[str]:
    yield from _head("requests_total", "counter", "Requests that were answered, by route and status.")
    for endpoint in ENDPOINTS:
        start = _ROUTES[endpoint.name] * _PER_ROUTE
        for status, i in _STATUS.items():
            if row[start + i]:
                named = f'method="{endpoint.method}",route="{endpoint.path}",status="{status}"'
                yield f"qrelease_requests_total{{{named}}} {row[start + i]}"
    yield from _head("request_seconds", "histogram", "Seconds until a request was answered, by route.")
    for endpoint in ENDPOINTS:
        start = _ROUTES[endpoint.name] * _PER_ROUTE + len(_STATUSES)
        counts = np.cumsum(row[start : start + len(BUCKETS) + 1]).tolist()
        named = f'method="{endpoint.method}",route="{endpoint.path}"'
        for end, count in zip((*(f"{b:g}" for b in BUCKETS), "+Inf"), counts, strict=True):
            yield f'qrelease_request_seconds_bucket{{{named},le="{end}"}} {count}'
        yield f"qrelease_request_seconds_sum{{{named}}} {int(row[start + len(BUCKETS) + 1]) / 1e6!r}"
        yield f"qrelease_request_seconds_count{{{named}}} {counts[-1]}"
    yield from _head("connections", "gauge", "Open connections.")
    yield f"qrelease_connections {row[_CONNECTIONS]}"
    yield from _head("charges_total", "counter", "Charges that requests made.")
    yield f"qrelease_charges_total {row[_CHARGES]}"
    for name, told in (("total", "What all answers together may cost."), ("spent", "What they have cost.")):
        if account is not None:
            yield from _head(f"budget_{name}", "gauge", told)
            cost = account[name] or dict.fromkeys(account["total"], 0.0)
            for parameter, value in cost.items():
                yield f'qrelease_budget_{name}{{parameter="{parameter}"}} {value!r}'


def _head(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP qrelease_{name} {told}"
    yield f"# TYPE qrelease_{name} {kind}"
