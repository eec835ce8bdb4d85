"""How often somebody may ask: token buckets, one for each bearer or address, a bounded number of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_NAMES: Final = 10_000
"""Buckets kept; of those not used for longest, a full one is as good as none."""


class Rates:
    """Lets everybody do so many things a second, and `burst` at once.

    clock  seconds, from any beginning
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, things: int = 1) -> bool:
        """Whether `name` may do so many more things now; if so, they are counted."""
        now = self._clock()
        level, then = self._buckets.pop(name, (self._burst, now))
        level = min(self._burst, level + (now - then) * self._rate)
        allowed = level >= things
        self._buckets[name] = (level - things * allowed, now)
        if len(self._buckets) > _NAMES:
            self._buckets.popitem(last=False)
        return allowed
