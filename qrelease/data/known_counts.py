"""A cache of exact marginals for mechanisms that ask again in later rounds, and checks of which can be counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from qrelease._util.typing import Axes, Ints
from qrelease.data.domain import Domain, readable
from qrelease.errors import InvalidInput, TooLarge

MAX_COUNTED_CELLS = 1 << 28  # of all requested counts together: 2 GiB of int64

MAX_REMEMBERED_CELLS = 1 << 22  # of all that are kept


@final
class KnownCounts:
    """What was counted of records that do not change."""

    def __init__(self) -> None:
        self._known: dict[Axes, Ints] = {}
        self._cells = 0  # of all that are known

    def counts(self, domain: Domain, sets: Sequence[Axes], count: Callable[[list[Axes]], list[Ints]]) -> list[Ints]:
        """The marginal on each set of columns: those counted before, and one pass for the others.

        count  gives those on distinct, sorted sets

        Raises `InvalidInput` for a position that is no column, and `TooLarge` as `counted_cells` does.
        """
        width = len(domain)
        wrong = [s for s in sets if len(set(s)) < len(s) or not all(0 <= axis < width for axis in s)]
        if wrong:
            raise InvalidInput(f"columns to count must be distinct positions 0..{width - 1}, got {wrong[0]}")
        counted_cells(domain, sets)
        found = self._marginals([*dict.fromkeys(tuple(sorted(axes)) for axes in sets)], count)
        return [_in_order(found[tuple(sorted(axes))], axes, domain.shape) for axes in sets]

    def _marginals(self, sets: list[Axes], count: Callable[[list[Axes]], list[Ints]]) -> dict[Axes, Ints]:
        # One look at each: another thread may forget them all meanwhile.
        found = {axes: counts for axes in sets if (counts := self._known.get(axes)) is not None}
        new = [axes for axes in sets if axes not in found]
        if not new:
            return found
        counted = dict(zip(new, count(new), strict=True))
        cells = sum(len(marginal) for marginal in counted.values())
        if cells <= MAX_REMEMBERED_CELLS:
            before = self._cells
            if before + cells > MAX_REMEMBERED_CELLS:
                self._known.clear()
                before = 0
            self._known.update(counted)
            self._cells = before + cells
        return found | counted


def counted_cells(domain: Domain, sets: Sequence[Axes]) -> int:
    """The cells of all marginals on some sets; `TooLarge` where they are more than are counted at once."""
    cells = sum(domain.cells(axes) for axes in sets)
    if cells > MAX_COUNTED_CELLS:
        raise TooLarge(f"exact counts of {readable(cells)} cells do not fit; at most {MAX_COUNTED_CELLS:,} do")
    return cells


def _in_order(marginal: Ints, axes: Axes, shape: tuple[int, ...]) -> Ints:
    """A marginal on the sorted axes, as one whose digits run in the order of `axes`."""
    ordered = sorted(axes)
    if list(axes) == ordered:
        return marginal
    cube = np.asarray(marginal).reshape([shape[a] for a in ordered])
    return cube.transpose([ordered.index(a) for a in axes]).reshape(-1)
