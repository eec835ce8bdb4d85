"""The exact grid of a column of numbers or moments: low, low + step, low + 2 step, …

Records are kept as places on it, so sums of them are sums of whole numbers. numpy is imported only for whole columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_POINTS: Final = 2**53
"""Points of a grid, and steps from 0 to either end, at most: a float tells so many apart."""

STEPS: Final = {
    "second": Fraction(1, 86_400),
    "minute": Fraction(1, 1440),
    "hour": Fraction(1, 24),
    "day": Fraction(1),
}
"""The steps of dates, in days."""

_SURE_STEPS: Final = 2**40  # so near to 0 a float is off by less than a thousandth of a step
_TIE: Final = 0.49  # parts of a step: farther from every point, floats do not decide which is the nearest


def exact_number(number: float | Fraction) -> Fraction:
    """A number by its decimals: the float 0.1 is 1/10."""
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


@final
@dataclass(frozen=True, slots=True)
class PointGrid:
    """`size` points from `low` on, a `step` apart.

    Attributes
    ----------
    low, step
        Exact; of moments in days since 1970-01-01.
    size
        Number of points, at most 2^53.
    begins
        Whether a value belongs to the point at or before it, as a moment belongs to its minute; else to the nearest
        one, the upper one of two.

    Examples
    --------
    >>> grid = PointGrid(Fraction(0), Fraction(1, 100), 101)
    >>> grid.place(0.29), grid.value(29)
    (29, Fraction(29, 100))
    """

    low: Fraction
    step: Fraction
    size: int
    begins: bool = False

    @property
    def high(self) -> Fraction:
        """The last point."""
        return self.low + (self.size - 1) * self.step

    def steps(self, number: float | Fraction) -> Fraction:
        """How many steps a number lies above `low`, exactly."""
        return (exact_number(number) - self.low) / self.step

    def place(self, number: float | Fraction) -> int:
        """The point of a number, counted from 0; beyond either end, where it would be if the grid went on."""
        return math.floor(self.steps(number) + (0 if self.begins else Fraction(1, 2)))

    def value(self, place: int) -> Fraction:
        """The number at a point."""
        return self.low + place * self.step

    def places(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """The points (n,) of numbers, as `place` has them; -1 for one beyond the ends, and where floats cannot decide.

        Every number is off by at most half of its last bit, and so is `low`: within 2^40 steps of 0, that and the
        rounding here come to less than a thousandth of a step.
        """
        import numpy as np

        if self.begins or max(abs(self.low), abs(self.high)) > _SURE_STEPS * self.step:
            return np.full(len(numbers), -1)
        with np.errstate(invalid="ignore", over="ignore"):
            steps = (numbers - float(self.low)) / float(self.step)
            nearest = np.rint(steps)
            sure = (np.abs(steps - nearest) < _TIE) & (nearest >= 0) & (nearest < self.size)
            return np.where(sure, nearest, -1).astype(np.int64)

    def values(self, places: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """The numbers (n,) at points, each the float that is nearest to the exact one."""
        import numpy as np

        unit = math.lcm(self.low.denominator, self.step.denominator)
        low, step = int(self.low * unit), int(self.step * unit)
        if max(abs(low), abs(int(self.high * unit)), unit) > MAX_POINTS:
            return np.array([float(self.value(int(place))) for place in places])
        found: NDArray[np.float64] = (low + places.astype(np.int64) * step) / unit
        return found
