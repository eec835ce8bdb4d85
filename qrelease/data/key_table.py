"""The codes of whole numbers that have come, looked up all at once: keys of persons, of which there may be millions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import numpy as np
import numpy.typing as npt

from qrelease.data.sources.kernels import key_places, read_only

_FEWEST: Final = 1 << 10  # slots of a table


@final
class KeyTable:
    """Codes by key; each is asked for once, when its key comes first.

    expected  about how many keys there are to be: where there are more, the table is made anew
    """

    def __init__(self, expected: int = 0) -> None:
        self._count = 0
        self._keys, self._places = _slots(max(_FEWEST, 1 << (2 * expected).bit_length()))
        self._codes = np.empty(len(self._keys), np.int64)  # by place

    def codes(
        self,
        keys: npt.NDArray[np.int64],
        new_codes: Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.int64]],
    ) -> npt.NDArray[np.int64]:
        """The codes of keys, (n,).

        new_codes  gives the codes of all keys that are new, from their positions, in order, and themselves
        """
        self._make_room(len(keys))
        found, firsts = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        new = key_places(read_only(keys, np.int64), self._keys, self._places, self._count, found, firsts)
        positions = firsts[:new]
        if new:
            self._codes[self._count : self._count + new] = new_codes(positions, keys[positions])
            self._count += new
        return self._codes[found]

    def _make_room(self, more: int) -> None:
        """At least half of the slots stay empty, whatever comes."""
        needed = 2 * (self._count + more)
        if needed <= len(self._keys):
            return
        held = self._places >= 0
        known = np.empty(self._count, np.int64)
        known[self._places[held]] = self._keys[held]
        self._keys, self._places = _slots(1 << needed.bit_length())
        self._codes = np.append(self._codes[: self._count], np.empty(len(self._keys) - self._count, np.int64))
        unused = np.empty(self._count, np.int64)
        key_places(read_only(known, np.int64), self._keys, self._places, 0, unused, unused.copy())


def _slots(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The keys in slots, and the place of each; -1 where a slot is empty."""
    return np.zeros(count, np.int64), np.full(count, -1)
