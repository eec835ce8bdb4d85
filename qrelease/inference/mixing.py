"""Anderson mixing: speeds up an iteration to a fixed point by combining its last steps.

Where a step g is nearly linear near its end x = g(x), what it changes, g(x) - x, is nearly linear too. So of the points
that were visited last the combination is sought, with coefficients that sum to 1, that would have changed least, and
the same combination of where their steps led is where to go on from (Anderson 1965; for linear steps that is GMRES,
Walker & Ni 2011). Raking along a direction that the ridge hardly holds takes a hundred passes else, and some twenty so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

import numpy as np

from qrelease._util.typing import Floats

_RIDGE: Final = 1e-10  # over the largest eigenvalue: changes that are alike give no wild coefficients
_WORSE: Final = 2.0  # times the last change, from which on earlier points tell nothing


@final
class Mixing:
    """The last steps, so many of them, from which the next point follows.

    Examples
    --------
    >>> import numpy as np
    >>> matrix, x = np.array([[0.9, 0.05], [0.0, 0.5]]), np.zeros(2)
    >>> mixing, even = Mixing(3), np.full(2, 0.5)
    >>> for _ in range(4):
    ...     after = matrix @ x + 1
    ...     (x,) = mixing.next(after - x, even, (after,))
    >>> bool(np.allclose(x, np.linalg.solve(np.eye(2) - matrix, np.ones(2))))
    True
    """

    def __init__(self, kept: int) -> None:
        self._changes: deque[Floats] = deque(maxlen=kept)
        self._results: deque[tuple[Floats, ...]] = deque(maxlen=kept)
        self._last = np.inf

    def next(self, change: Floats, importance: Floats, result: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """The point to go on from, in the parts (any,) that a step leads to.

        change      (n,) of what tells how far it is still to go
        importance  (n,) of each entry of it, not negative
        result      where the step led, vectors that are kept and not copied
        """
        size = float(importance @ change**2)
        if size > _WORSE**2 * self._last:
            self._changes.clear()
            self._results.clear()
        self._last = size
        self._changes.append(change)
        self._results.append(result)
        if len(self._changes) == 1:
            return result
        changes = np.stack(self._changes)
        steps = np.diff(changes, axis=0)
        weighed = steps * importance
        squares = weighed @ steps.T
        held = squares + _RIDGE * np.trace(squares) * np.eye(len(squares))
        shares = np.linalg.lstsq(held, weighed @ change, rcond=None)[0]
        coefficients = np.append(shares, 1.0) - np.append(0.0, shares)
        ends = zip(*self._results, strict=True)
        return tuple(_sum(coefficients, parts) for parts in ends)


def _sum(coefficients: Floats, parts: Sequence[Floats]) -> Floats:
    found = np.zeros_like(parts[0])
    for coefficient, part in zip(coefficients, parts, strict=True):
        found += coefficient * part
    return found
