"""Which columns of a table follow from others: a second column that has one value wherever the first has one value.

What is found is read off private data. That no record contradicts it does not make it public knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final, final

import numpy as np
import numpy.typing as npt

MAX_VALUES: Final = 100
"""Values of a column that is looked at."""

_MAX_COLUMNS = 256
_MIN_RECORDS = 20  # for each value of the first column, in the mean: of fewer the columns may go together by chance
_TRIED_FIRST = 1000  # records: a column of many values mostly has too many within these already
_UNSEEN = 255  # in place of a code


@final
class _Codes(dict[str, int]):
    """A number for each text, in the order in which they come; spaces around it do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.values_seen: dict[str, int] = {}

    def __missing__(self, text: str) -> int:
        code = self.values_seen.setdefault(text.strip(), min(len(self.values_seen), MAX_VALUES))
        if len(self) < 2 * _UNSEEN:  # as they are spelled
            self[text] = code
        return code


@final
class Dependencies:
    """What is left of the pairs of columns that may follow from one another, after the records that were seen.

    columns   how many columns there are; of more than 256 the others are not looked at
    """

    def __init__(self, columns: int) -> None:
        self._records = 0
        self._codes = {axis: _Codes() for axis in range(min(columns, _MAX_COLUMNS))}
        # For each column those that may follow from it, (m,), and the value of each beside each of its, (m, values).
        self._following: dict[int, tuple[npt.NDArray[np.intp], npt.NDArray[np.uint8]]] = {}
        for axis in self._codes:
            others = np.array([other for other in self._codes if other != axis], np.intp)
            self._following[axis] = others, np.full((len(others), MAX_VALUES + 1), _UNSEEN, np.uint8)

    def see(self, columns: Sequence[Sequence[str]]) -> None:
        """Take in some records: the texts of each column."""
        size = len(columns[0]) if columns else 0
        coded = np.zeros((len(columns), size), np.uint8)
        for axis in [*self._codes]:
            code, seen = self._codes[axis].__getitem__, self._codes[axis].values_seen
            first = [*map(code, columns[axis][:_TRIED_FIRST])]
            if len(seen) <= MAX_VALUES:  # else the others need no code
                coded[axis] = np.fromiter(chain(first, map(code, columns[axis][_TRIED_FIRST:])), np.uint8, size)
            if len(seen) > MAX_VALUES:
                del self._codes[axis], self._following[axis]
        self._records += size
        looked_at = np.isin(np.arange(len(columns)), [*self._codes])
        for axis, (others, known) in self._following.items():
            kept = looked_at[others]
            others, known = others[kept], known[kept]
            if not len(others):
                self._following[axis] = others, known
                continue
            given, values = coded[axis], coded[others]
            before = known[:, given]
            known[:, given] = values
            same = ((before == _UNSEEN) | (before == values)).all(axis=1) & (known[:, given] == values).all(axis=1)
            self._following[axis] = others[same], known[same]

    def found(self) -> list[tuple[int, tuple[int, ...]]]:
        """Each column that others follow from, with these, without what follows from it by way of another.

        Columns that follow from each other stand once each way, the first of them for all. A column of one value
        follows from none.
        """
        sizes = {axis: len(codes.values_seen) for axis, codes in self._codes.items()}
        enough = {axis for axis, size in sizes.items() if size > 1 and self._records >= _MIN_RECORDS * size}
        follows = {
            axis: {int(b) for b in self._following[axis][0] if sizes[int(b)] > 1} if axis in enough else set()
            for axis in sizes
        }
        first = {a: min([a, *(b for b in follows[a] if a in follows[b])]) for a in follows}
        found: list[tuple[int, tuple[int, ...]]] = []
        for a in follows:
            if first[a] != a:
                continue
            alike = [b for b in follows[a] if first[b] == a]
            later = {first[b] for b in follows[a]} - {a}
            direct = [b for b in later if not any(b in follows[m] for m in later if m != b)]
            if alike or direct:
                found.append((a, tuple(sorted([*alike, *direct]))))
            found += [(b, (a,)) for b in sorted(alike)]
        return found
