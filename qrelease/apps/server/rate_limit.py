"""Limits how often one analyst or address may ask: token buckets, a bounded number of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

_NAMES: Final = 10_000
"""Buckets kept; of those not used for longest, a full one is as good as none."""


def network(host: str) -> str:
    """Whose an address is: itself, or of IPv6, of which anybody has 2^64, its first 64 bits."""
    with suppress(ValueError):
        found = ip_address(host)
        if isinstance(found, IPv6Address):
            return str(found.ipv4_mapped or ip_network((int(found) >> 64 << 64, 64)))
    return host


class Rates:
    """Lets everybody do so many things a second, and `burst` at once; more only on credit, in one go.

    Parameters
    ----------
    clock
        Seconds, from any beginning.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, things: int = 1) -> bool:
        """Whether `name` may do so many more things now; if so, they are counted.

        Who may do one may do many, and then has to wait until all of them would have been allowed.
        """
        now = self._clock()
        level, then = self._buckets.pop(name, (self._burst, now))
        level = min(self._burst, level + (now - then) * self._rate)
        allowed = level >= min(things, 1)
        self._buckets[name] = (level - things * allowed, now)
        if len(self._buckets) > _NAMES:
            self._buckets.popitem(last=False)
        return allowed

    def wait(self, name: str) -> float:
        """Seconds until `name` may do one more thing."""
        level, then = self._buckets.get(name, (self._burst, self._clock()))
        return max((1 - level) / self._rate - (self._clock() - then), 0.0)
