"""Functions of a column with a small local sensitivity on most tables: their values, and how far they move near one.

x_1 <= … <= x_n are the codes of the column, x_i = 0 for i < 1 and x_i = K - 1 for i > n. LS(x) is the most that one
record changes the function, and A(x, k) the largest LS(y) of the tables y within k changes of x. All numbers here are
whole, in units of which `units(n)` make one step of the grid. A function of your own has the four methods of
`LocallyStable`, and an A that may be larger than that largest LS, as long as A(x, k) <= A(x', k + 1) for neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, final, runtime_checkable

import numpy as np

from qrelease._util.typing import Ints
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import Neighbours
from qrelease.statistics.grid import Grid, Numbers, exact_dot

_FINE: Final = 1 << 16
"""Units of a mean a step."""

_MAX_CELLS: Final = 1 << 40

EXACT_DISTANCES: Final = 128
"""Up to so many changes the local sensitivity of a Winsorised mean is exact; its time grows with their cube."""


@runtime_checkable
class LocallyStable(Protocol):
    """A function f of a column, with A(x, k): how far one more change moves f after k changes of the table x, at most.

    `SmoothSensitivity` and `ProposeTestRelease` release any object with these members. A(x, k) is a maximum over all
    tables that differ from x in at most k records.
    """

    @property
    def name(self) -> str:
        """The function's name, such as `median`."""

    def check(self, grid: Grid, neighbours: Neighbours) -> None:
        """Raise for a column, or a relation, that the function is not made for.

        Parameters
        ----------
        grid : Grid
            The column's values.
        neighbours : Neighbours
            Which tables the promise compares.

        Raises
        ------
        InvalidInput
            It names the column.
        """

    def units(self, records: int) -> int:
        """How many units one step of the grid is divided into, so that f is a whole number.

        Parameters
        ----------
        records : int
            The number of records n where that is public; it decides nothing where it is private.

        Returns
        -------
        int
            Public: 1, or a function of n where n is public.
        """

    def value(self, found: Numbers, neighbours: Neighbours) -> int:
        """f(x). Private.

        Parameters
        ----------
        found : Numbers
            The values of the column, and how often each occurs.
        neighbours : Neighbours
            Which tables the promise compares.

        Returns
        -------
        int
            In units.
        """

    def sensitivities(self, found: Numbers, most: int, neighbours: Neighbours) -> Ints:
        """A(x, 0), …, A(x, most). Private.

        Parameters
        ----------
        found : Numbers
            The values of the column, and how often each occurs.
        most : int
            The largest k.
        neighbours : Neighbours
            Which tables the promise compares.

        Returns
        -------
        ndarray of int, shape (most + 1,)
            In units; none is below the one before it.
        """


def window_sensitivities(found: Numbers, low: int, high: int, most: int) -> Ints:
    """max over s = 0..k+1 of x_(high + s) - x_(low + s - k - 1), for k = 0..most.

    How far the sum of the order statistics low..high moves when one record is replaced, k after k others were (Nissim,
    Raskhodnikova & Smith 2007, §3.1, for the median, where low = high). A record that is replaced moves each order
    statistic by one place at most, all of them up or all down, so the sum by at most x_(high + 1) - x_low, or x_high -
    x_(low - 1), and some record does. After k others, r of which went up, x_(high + 1) is x_(high + 1 + r) at most and
    x_low at least x_(low - k + r): the maximum over r, of both forms, is the one above. Time is O(most²).
    """
    steps = np.arange(most + 2)
    tops, bottoms = found.order(high + steps), found.order(low + steps - most - 1)
    # For k the places low - k - 1 + s, s = 0..k+1, are the entries most - k .. most + 1 of the second.
    return np.array([(tops[: k + 2] - bottoms[most - k :]).max() for k in range(most + 1)], np.int64)


@final
@dataclass(frozen=True)
class Median:
    """The lower median, x_⌈n/2⌉ of the sorted values; 0 where there are no records.

    A function for `SmoothSensitivity` and `ProposeTestRelease`, which take the column. The median of a column by itself
    is the statistic `Quantile("salary", 0.5)`.

    *Where records come and go*, LS is one gap, x_(h+1) - x_h with h = ⌊n/2⌋. To make the gap from x_i to x_j the one of
    a table takes j - i - 1 removals between, and as many more changes as bring the number of records at most x_i to
    half: max(s - n - 1, n - s, 0) for s = i + j. The sum is 2j - n - 2 for s > n, whatever i is, and n - 1 - 2i for
    s <= n, whatever j is: so the widest gaps within k changes are those with s = n + 1 or s = n, and

        A(x, k) = x_(i + k + 1) - x_i,   i = ⌊(n - k)/2⌋.

    *Where records are replaced* it is `window_sensitivities` with low = high.

    References
    ----------
    Nissim, Raskhodnikova & Smith 2007, for replaced records.

    Examples
    --------
    >>> Median().sensitivities(Numbers.listed([2, 5, 5, 9], 100), 3, Neighbours.ADD_REMOVE)
    array([0, 3, 7, 9])
    """

    name: ClassVar[str] = "median"

    def check(self, grid: Grid, neighbours: Neighbours) -> None:
        """See `LocallyStable`."""
        if neighbours is Neighbours.REPLACE_ONE and grid.missing:
            raise InvalidInput(f"column {grid.name!r} may have missing values: take add-remove neighbours")

    def units(self, records: int) -> int:
        """See `LocallyStable`."""
        return 1

    def value(self, found: Numbers, neighbours: Neighbours) -> int:
        """See `LocallyStable`."""
        return int(found.order(np.array([(found.n + 1) // 2]))[0])

    def sensitivities(self, found: Numbers, most: int, neighbours: Neighbours) -> Ints:
        """See `LocallyStable`."""
        if neighbours is Neighbours.REPLACE_ONE:
            return window_sensitivities(found, (found.n + 1) // 2, (found.n + 1) // 2, most)
        k = np.arange(most + 1)
        first = (found.n - k) // 2
        return found.order(first + k + 1) - found.order(first)


@final
@dataclass(frozen=True)
class TrimmedMean:
    """The mean without the t lowest and t highest values, t = ⌊trim n⌋; for replace-one neighbours only.

    In units of 1/(n - 2t) of a step it is a whole number, the sum, and A is `window_sensitivities`.

    Parameters
    ----------
    trim
        The share left out at either end, from 0 to below 0.5.

    References
    ----------
    Bun & Steinke 2019, *Average-case averages*, for its smooth sensitivity.

    Examples
    --------
    >>> numbers = Numbers.listed([2, 5, 6, 99], 100)
    >>> TrimmedMean(0.25).value(numbers, Neighbours.REPLACE_ONE) / TrimmedMean(0.25).units(4)
    5.5
    """

    trim: float = 0.1
    name: ClassVar[str] = "trimmed mean"

    def check(self, grid: Grid, neighbours: Neighbours) -> None:
        """See `LocallyStable`."""
        _check_trim(self.name, self.trim, grid, neighbours)

    def units(self, records: int) -> int:
        """See `LocallyStable`."""
        return max(records - 2 * _cut(self.trim, records), 1)

    def value(self, found: Numbers, neighbours: Neighbours) -> int:
        """See `LocallyStable`."""
        t = _cut(self.trim, found.n)
        places = np.clip(found.cumulative, t, found.n - t)
        return exact_dot(found.values, np.diff(places, prepend=t))

    def sensitivities(self, found: Numbers, most: int, neighbours: Neighbours) -> Ints:
        """See `LocallyStable`."""
        t = _cut(self.trim, found.n)
        return window_sensitivities(found, t + 1, found.n - t, most)


@final
@dataclass(frozen=True)
class WinsorisedMean:
    """The mean after the t lowest values are raised to x_(t+1) and the t highest lowered to x_(n-t), t = ⌊trim n⌋.

    For neighbours that replace a record; in units of 1/n of a step it is a whole number W. Order statistics move as
    those of `window_sensitivities` do, and the first and the last that count have weight t + 1. With l = t + 1 and
    h = n - t the most that one record moves W is therefore

        (1 + t)(x_(h+1) - x_l) - t(x_h - x_(l+1)),   or the same with l - 1 and h - 1.

    *Within k replacements* such a table is widest where x_l is some x_(l-a), x_(h+1) some x_(h+1+b), a + b <= k, and
    the values between them stand close together: of those, k go, u at the low end and k - u at the high end. (What
    comes instead can stand anywhere between.) So

        A(x, k) = max of (1 + t)(x_(h+1+b) - x_(l-a)) - t max(x_(h+b-k+u) - x_(l-a+1+u), 0)  over a + b <= k, u <= k.

    Of one value that counts (l = h, an odd n) W is n times the median. That takes O(k²) steps for each k. Beyond
    `EXACT_DISTANCES` on A is the bound in which the three windows are widened
    one by one: it is larger than the largest LS, and grows as `LocallyStable` asks.

    Parameters
    ----------
    trim
        The share that is replaced at either end, from 0 to below 0.5.

    References
    ----------
    Smith 2011 for such a mean; A is derived above, and compared with all small tables by the tests.

    Examples
    --------
    >>> numbers = Numbers.listed([2, 5, 6, 99], 100)
    >>> WinsorisedMean(0.25).value(numbers, Neighbours.REPLACE_ONE) / WinsorisedMean(0.25).units(4)
    5.5
    """

    trim: float = 0.1
    name: ClassVar[str] = "winsorised mean"

    def check(self, grid: Grid, neighbours: Neighbours) -> None:
        """See `LocallyStable`."""
        _check_trim(self.name, self.trim, grid, neighbours)

    def units(self, records: int) -> int:
        """See `LocallyStable`."""
        return max(records, 1)

    def value(self, found: Numbers, neighbours: Neighbours) -> int:
        """See `LocallyStable`."""
        if not found.n:
            return 0
        t = _cut(self.trim, found.n)
        low, high = found.order(np.array([t + 1, found.n - t])).tolist()
        return found.total(low, high)

    def sensitivities(self, found: Numbers, most: int, neighbours: Neighbours) -> Ints:
        """See `LocallyStable`."""
        t = _cut(self.trim, found.n)
        low, high = t + 1, found.n - t
        if low >= high:
            return found.n * window_sensitivities(found, low, low, most)
        near = min(most, EXACT_DISTANCES)
        exact = [
            max(_winsorised(found, low, high, t, k), _winsorised(found, low - 1, high - 1, t, k))
            for k in range(near + 1)
        ]
        if most == near:
            return np.array(exact, np.int64)
        ends = window_sensitivities(found, low, low, most) + window_sensitivities(found, high, high, most)
        bound = np.minimum(window_sensitivities(found, low, high, most) + t * ends, (1 + t) * (found.cells - 1))
        bound[: near + 1] = exact
        return bound


def _winsorised(found: Numbers, low: int, high: int, t: int, k: int) -> int:
    """The maximum over a, b and u in `WinsorisedMean`, for l = low and h = high."""
    step = np.arange(k + 1)
    bottom, top = found.order(low - step), found.order(high + 1 + step)  # by a, by b
    above = found.order(low - step[:, None] + 1 + step)  # x_(l-a+1+u), by a and u
    below = found.order(high + step[:, None] - k + step)  # x_(h+b-k+u), by b and u
    if high - low > k:
        # No two of the values between cross: for each u the best b up to k - a is a running maximum.
        best = np.maximum.accumulate((1 + t) * top[:, None] - t * below, axis=0)[::-1]
        return int((best - (1 + t) * bottom[:, None] + t * above).max())
    inside = np.maximum(below[None] - above[:, None], 0)  # by a, b and u
    moved = (1 + t) * (top[None, :, None] - bottom[:, None, None]) - t * inside
    return int(moved[step[:, None] + step <= k].max())


def _cut(trim: float, records: int) -> int:
    """How many values are left out, or replaced, at either end."""
    return min(math.floor(trim * records), (records - 1) // 2) if records else 0


def _check_trim(name: str, trim: float, grid: Grid, neighbours: Neighbours) -> None:
    if not (isinstance(trim, float | int) and 0 <= trim < 0.5):
        raise InvalidInput(f"trim must be in [0, 0.5), got {trim!r}")
    if neighbours is not Neighbours.REPLACE_ONE or grid.missing:
        raise InvalidInput(f"a {name} needs a public number of values: replace-one neighbours, none missing")


@final
@dataclass(frozen=True)
class StableMean:
    """The mean of all values, rounded to 2^-16 of a grid step; the middle of the grid where there are no records.

    From n records one that goes moves it by |x - mean|/(n - 1) <= (K - 1)/n, one that comes by at most (K - 1)/(n + 1),
    which lecture notes take for the larger one; one that is replaced by (K - 1)/n. Rounding adds one unit at most. A(x,
    k) is that for n - k records, and for n where records are replaced.

    References
    ----------
    Dwork & Lei 2009 for the use; lecture notes have the local sensitivity wrong, as is said above.

    Examples
    --------
    >>> StableMean().value(Numbers.listed([2, 5], 100), Neighbours.ADD_REMOVE) / StableMean().units(2)
    3.5
    """

    name: ClassVar[str] = "mean"

    def check(self, grid: Grid, neighbours: Neighbours) -> None:
        """See `LocallyStable`."""
        if neighbours is Neighbours.REPLACE_ONE and grid.missing:
            raise InvalidInput(f"column {grid.name!r} may have missing values: take add-remove neighbours")
        if grid.cells > _MAX_CELLS:
            raise InvalidInput(f"column {grid.name!r} has too many values for a mean: at most 2^40")

    def units(self, records: int) -> int:
        """See `LocallyStable`."""
        return _FINE

    def value(self, found: Numbers, neighbours: Neighbours) -> int:
        """See `LocallyStable`."""
        if not found.n:
            return (found.cells - 1) * _FINE // 2
        return (2 * _FINE * found.total(0, found.cells - 1) + found.n) // (2 * found.n)

    def sensitivities(self, found: Numbers, most: int, neighbours: Neighbours) -> Ints:
        """See `LocallyStable`."""
        gone = np.zeros(most + 1, np.int64) if neighbours is Neighbours.REPLACE_ONE else np.arange(most + 1)
        left = np.maximum(found.n - gone, 1)
        bounds: Ints = -((1 - found.cells) * _FINE // left) + 1
        return bounds
