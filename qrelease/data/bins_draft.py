"""Bins proposed for a column of numbers: even ones, or uneven ones where one of those would hold nearly all values."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from qrelease.data.grids import exact_number

BINS = 10
"""About so many bins for a column of numbers."""

_DIGITS = 1e-9  # bins are at least this part of the largest number, so that edges are short decimals
_CROWDED = 0.45  # how likely two values may be in one bin before other bins are tried
_LIKELIHOOD_RATIO = 0.75  # and these are taken if two different values are at most this part as likely in one
_EXACT = 2.0**53  # whole numbers below this are floats of their own
_HEAP = 0.25  # a value that more than this part of all have gets a bin of its own, where a grid tells what that is
_STANDS_OUT = 5  # so many times as many records as those beside it an end has that is a heap
_SPREAD = 2.0  # times as likely as in equal shares two values are in one logarithmic bin, at most, for such bins
_LEAST_PARTS = 5  # equal shares of the values that are no heaps, however few they are
_LEAST_HALVED = 4  # values: two of fewer are the ends
_MAX_END_WIDTH = 4  # times its neighbour, of a bin at an end, before it is divided


_SHARE_NAME = re.compile(
    r"percent|prozent|pourcent|%|anteil|(^|[_\W\d])(pct|perc|share|proportion|fraction)s?($|[_\W\d])", re.I
)
"""What a column is called that holds shares or percentages."""

_NEAR_END = 0.1
"""A part of the whole: so near to its ends are the extremes of values that are taken for shares by themselves; the
largest of those that are called so is farther from 0."""


def limit_of_shares(low: float, high: float, name: str, *, fractions: bool) -> int:
    """100 or 1, the largest that shares can be, where numbers look like shares or percentages; else 0.

    low, high  the extremes that occur
    fractions  whether any is no whole number

    Examples
    --------
    >>> [limit_of_shares(*ends, "x", fractions=True) for ends in [(0, 100), (0.02, 0.97), (3, 60), (-5, 100)]]
    [100, 1, 0, 0]
    >>> limit_of_shares(3, 60, "share of women", fractions=False)
    100
    """
    said = _SHARE_NAME.search(name) is not None
    for limit in (1, 100) if fractions and "%" not in name else (100,):
        if low >= 0 and high <= limit:
            spread = low <= _NEAR_END * limit and high >= (1 - _NEAR_END) * limit
            return limit if spread or (said and high > _NEAR_END * limit) else 0
    return 0


_PUBLIC_LIMITS: Final = {
    r"hours?|hrs|stunden": "a day has 24 hours and a week 168",
    r"minutes?|mins|minuten": "an hour has 60 minutes and a day 1440",
    r"days?|tage?": "a week has 7 days, a month 31 and a year 366",
    r"weeks?|wochen?": "a year has 53 weeks",
    r"months?|monate?": "a year has 12 months",
    r"age|alter": "nobody is older than some 120 years",
}


_ABBREVIATIONS: Final = {"hr": "hours", "min": "minutes"}
"""Of a column of time, or of home runs, heart rates or minima."""


def public_limits(name: str, high: float) -> str:
    """What everybody knows of the largest value of a column of time, by its name; empty where nothing is known.

    A name that may abbreviate another word is one of time only where the values go up to such a limit.

    high  the largest value that occurs

    Examples
    --------
    >>> public_limits("hours_per_week", 99), public_limits("hr", 23)
    ('a day has 24 hours and a week 168', 'a day has 24 hours and a week 168')
    >>> public_limits("hours", 3000), public_limits("wage", 99), public_limits("hr", 73)
    ('', '', '')
    """
    for short, word in _ABBREVIATIONS.items():
        if _is_named(short, name):
            told = public_limits(word, high)
            return told if any(limit - 1 <= high <= limit for limit in map(int, re.findall(r"\d+", told))) else ""
    for words, told in _PUBLIC_LIMITS.items():
        if _is_named(words, name):
            return told if high <= max(map(int, re.findall(r"\d+", told))) else ""
    return ""


def _is_named(words: str, name: str) -> bool:
    return re.search(rf"(?:^|[_\W\d])(?:{words})(?:$|[_\W\d])", name, re.I) is not None


_CLOCK_NAME = re.compile(r"(?:^|[_\W\d])(?:times?|hhmm|clock|uhrzeit|zeit|heure|hora)(?:$|[_\W\d])", re.I)
_FEWEST_TIMES: Final = 10
_FEWEST_MINUTES: Final = 3

CLOCK_EDGES: Final = (*range(0, 2400, 100), 2360)
"""Whole hours as numbers HHMM, and the minute after the last."""

CLOCK_SHAPE: Final = tuple(pair for hour in range(0, 2400, 100) for pair in ((hour, 60), (hour + 60, 0)))[:-1]
"""The shape by which no record has a minute above 59."""


def is_clock(name: str, places: Collection[float]) -> bool:
    """Whether whole numbers are times of day, 515 for 5:15, by the column's name and because no minute is above 59.

    Examples
    --------
    >>> times = [hour + minute for hour in (500, 1200, 2300) for minute in (0, 15, 30, 59)]
    >>> is_clock("sched_dep_time", times), is_clock("sched_dep_time", [*times, 1075]), is_clock("pay", times)
    (True, False, False)
    """
    if _CLOCK_NAME.search(name) is None or not all(0 <= place <= 2400 and place % 100 < 60 for place in places):
        return False
    minutes = {place % 100 for place in places}
    return max(places, default=0) >= 1000 and len(places) >= _FEWEST_TIMES and len(minutes) >= _FEWEST_MINUTES


def share_bins(limit: int, seen: Mapping[float, int], step: Fraction) -> int | list[Any]:
    """Bins as those of `number_bins`, on a grid from 0 to a limit that is a value itself: no bin lies beyond it.

    The number of even ones, or a list of edges. Where more than one record in `BINS` has the limit, as for 100 %, that
    has a bin of its own.
    """
    bins, behind = number_bins(0, limit, seen, step), toml_number(limit + step)
    heaped = seen.get(limit, 0) * BINS > sum(seen.values())
    if isinstance(bins, list):
        inner = [edge for edge in bins if edge < limit]
        return [*inner, limit, behind] if heaped else [*inner, behind]
    count = min(BINS, int(limit / step) + 1)
    if count < BINS:
        return count
    even_edges = [*(limit * i / BINS for i in range(BINS)), *[limit] * heaped, float(behind)]
    edges = _with_heaps(even_edges, seen, step)
    return [*map(_short, edges)] if heaped or edges != even_edges else count


def number_bins(
    low: float, high: float, seen: Mapping[float, int], step: Fraction = Fraction(0)
) -> dict[str, Any] | list[Any]:
    """{start, stop, width} with bins of a round width; or a list of edges, by powers of ten or by quantiles.

    seen  how often values occur, of all or of some
    step  1 or 5 times a power of ten, whose multiples all edges are; 0 where values lie on no grid. Of whole numbers it
          is whole, and then the last edge is one step beyond the values, as it may be elsewhere.
    """
    start, stop, width = even(low, high, step)
    edges = [float(start + i * width) for i in range(int((stop - start) / width) + 1)]
    apart = heaps(seen)  # they say nothing about the scale on which the others lie
    others = {value: count for value, count in seen.items() if value not in apart} or seen
    crowded = crowding(edges, others)
    if max(crowded, crowding(edges, seen)) > _CROWDED:
        scales = [_logarithmic(low, high, others, step), _quantiles(low, high, seen, step)]
        found = min((edges for edges in scales if len(edges) > 2), key=lambda e: crowding(e, others), default=edges)
        equal = _equal(others)  # no bins tell these apart
        if crowding(found, others) - equal < _LIKELIHOOD_RATIO * (crowded - equal):
            return [*map(_short, _with_heaps(found, seen, step))]
    if (heaped := _with_heaps(edges, seen, step)) != edges:
        return [*map(_short, heaped)]
    return {"start": toml_number(start), "stop": toml_number(stop), "width": toml_number(width)}


def heaps(seen: Mapping[float, int]) -> list[float]:
    """The values that over a quarter of all have; 0 and the ends, if more than a tenth do, and far fewer beside them.

    No amount at all, or what is beyond a limit, is another thing than the amounts beside it.

    Examples
    --------
    >>> heaps({0.0: 19, 0.5: 1} | {20.25 + n: 1 for n in range(80)}), heaps({0: 19, 1: 14, 2: 11, 3: 8, 4: 48})
    ([0.0], [4])
    """
    ordered, total = sorted(seen), sum(seen.values())
    found = {value for value in ordered if seen[value] > _HEAP * total}
    for value in {0, *ordered[:1], *ordered[-1:]} & seen.keys():
        at = bisect.bisect_left(ordered, value)
        beside = max((seen[other] for other in ordered[max(at - 1, 0) : at + 2] if other != value), default=0)
        if seen[value] * BINS > total and seen[value] >= _STANDS_OUT * beside:
            found.add(ordered[at])
    return sorted(found)


def fewer(seen: Mapping[float, int]) -> dict[float, int]:
    """About half as many values for as many records: of two neighbours the one that more have stands for both.

    So each stretch keeps its share of the records, heaps stay where they are, and so do the ends.

    Examples
    --------
    >>> fewer({0.0: 90, 0.5: 1, 0.75: 2, 1.0: 1, 1.5: 60, 9.0: 1})
    {0.0: 90, 0.75: 3, 1.5: 61, 9.0: 1}
    """
    if len(seen) < _LEAST_HALVED:
        return {**seen}
    ordered = np.fromiter(seen, np.float64, len(seen))
    order = np.argsort(ordered)
    ordered, records = ordered[order], np.fromiter(seen.values(), np.int64, len(seen))[order]
    paired = 2 * ((len(seen) - 2) // 2)  # all between the ends, but for the last of an odd number
    values, counts = (part[1 : 1 + paired].reshape(-1, 2) for part in (ordered, records))
    kept = np.where(counts[:, 1] > counts[:, 0], values[:, 1], values[:, 0])
    found = np.concatenate([ordered[:1], kept, ordered[1 + paired :]])
    sums = np.concatenate([records[:1], counts.sum(axis=1), records[1 + paired :]])
    return dict(zip(found.tolist(), sums.tolist(), strict=True))


def _with_heaps(edges: list[float], seen: Mapping[float, int], step: Fraction) -> list[float]:
    """The edges, and those of values that many records have, as 40 hours, in bins that hold others too.

    In a bin values count as spread evenly, or as its middle: a heap at its lower end would be taken for larger numbers.
    """
    found = {*edges}
    for value in heaps(seen) if step else ():
        at = bisect.bisect_right(edges, value)
        own = _on_grid(value, step, round)
        inside = own == value and 0 < at < len(edges)
        if inside and any(edges[at - 1] <= other < edges[at] and other != value for other in seen):
            found |= {own, _on_grid(own + float(step), step, round)}
    return sorted(found)


def _short(edge: float) -> int | float:
    return toml_number(Fraction(repr(edge)))


def even(low: float, high: float, least: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Start, stop and width: 1, 2 or 5 times a power of ten, or a least one that is 1 or 5 times one."""
    top = max(abs(low), abs(high))
    rough = max((high - low) / BINS, top * _DIGITS, 1e-200) if top else 1.0
    power = Fraction(10) ** math.floor(math.log10(rough))
    width = max(next(m * power for m in (1, 2, 5, 10) if m * power >= exact_number(rough)), least)
    start = math.floor(Fraction(low) / width) * width
    return start, (math.floor(Fraction(high) / width) + 1) * width, width


def crowding(edges: Sequence[float], seen: Mapping[float, int]) -> float:
    """How likely two values are in one bin: 1 where one bin has all, 1/2 where two have half each."""
    counts = [0] * (len(edges) + 1)
    for value, count in seen.items():
        counts[bisect.bisect_right(edges, value)] += count
    return sum(c * c for c in counts) / max(sum(counts), 1) ** 2


def _equal(seen: Mapping[float, int]) -> float:
    """How likely two values are equal, which is the least that `crowding` can be."""
    return sum(c * c for c in seen.values()) / max(sum(seen.values()), 1) ** 2


def _logarithmic(low: float, high: float, others: Mapping[float, int], step: Fraction) -> list[float]:
    """0 and 1, 2 and 5 times powers of ten, from below nearly all values on, five decades at most.

    None where values are negative, and where they are not about evenly in such bins.

    others  the values that are no heaps
    """
    if low < 0 or high <= 0 or not 1e-100 < high < 1e100:
        return []
    top = math.floor(math.log10(high))
    places = [(m, power) for power in range(top - 4, top + 2) for m in (1, 2, 5)]
    exact = [Fraction(10) ** power * m for m, power in places]
    edges = [float(e) for e in exact if not step or e % step == 0]
    beyond = next(e for e in edges if e > high)
    first = _passed(others, 1 / (2 * BINS))
    begun = max((e for e in edges if e <= first), default=edges[0])
    found = [0.0, *(e for e in edges if begun <= e <= beyond)]
    return found if crowding(found, others) * (len(found) - 1) <= _SPREAD else []


def _passed(seen: Mapping[float, int], part: float) -> float:
    """The first value with which more than a part of all is passed."""
    left = part * sum(seen.values())
    for value in sorted(seen):
        left -= seen[value]
        if left < 0:
            break
    return value


def _quantiles(low: float, high: float, seen: Mapping[float, int], step: Fraction) -> list[float]:
    """Between the limits, about as many of the values in each bin, rounded to two digits; heaps have bins of their own.

    Heaps are passed over: a bin beside one holds as many as others. They are added before bins at the ends are divided,
    which are then as narrow as those beside a heap.
    """
    apart = heaps(seen) if step else []
    ordered = [(value, count) for value, count in sorted(seen.items()) if value not in apart]
    total = sum(count for _, count in ordered)
    parts = max(math.ceil(BINS * total / sum(seen.values())), _LEAST_PARTS)
    edges, passed = {_rounded(low, math.floor)}, 0
    for value, count in ordered:
        has_bin = passed + count < total or count * parts >= total  # the largest value alone has none
        if has_bin and (passed + count) * parts // total > passed * parts // total:
            edges.add(_rounded(value, math.ceil))
        passed += count
    for value in apart:
        own = _on_grid(value, step, round)
        edges |= {own, _on_grid(own + float(step), step, round)}
    last = _on_grid(_rounded(high, math.ceil), step, math.ceil)
    if last <= high:
        last = _on_grid(high + float(step), step, math.ceil) if step else math.nextafter(high, math.inf)
    found = sorted({_on_grid(e, step, math.floor) for e in edges})
    inner = [e for e in found if (e < last and e > low) or e == found[0]]
    return _ends_divided([*inner, last], step)


def _on_grid(value: float, step: Fraction, towards: Any) -> float:
    """A multiple of a step beside a value, or the value itself, where it is one or there is no step."""
    return float(towards(exact_number(value) / step) * step) if step else value


def _ends_divided(edges: Sequence[float], step: Fraction) -> list[float]:
    """With a bin at an end that is much wider than its neighbour divided, each part twice as wide as the one before it.

    In a bin values count as spread evenly, or as its middle: of an end where a few values are far out, most are near.
    """
    if len(edges) < 3:
        return list(edges)
    first, second, third = edges[:3]
    before = [-e for e in _doubling(-second, -first, third - second, step)]
    second_last, inner, last = edges[-3:]
    behind = _doubling(inner, last, inner - second_last, step) if len(edges) > 3 or not before else []
    return sorted({*edges, *before, *behind})


def _doubling(start: float, stop: float, width: float, grid: Fraction) -> list[float]:
    """Edges between two others, twice as far apart at each step, beginning behind a bin of a width."""
    found: list[float] = []
    if stop - start <= _MAX_END_WIDTH * width:
        return found
    edge, step = start, 2 * width
    while stop - edge > 1.5 * step:
        edge = _on_grid(_rounded(edge + step, math.ceil), grid, round)
        found.append(edge)
        step *= 2
    return found


def _rounded(value: float, towards: Any) -> float:
    """A number to two significant digits."""
    if not value or not 1e-100 < abs(value) < 1e100:
        return value
    unit = Fraction(10) ** (math.floor(math.log10(abs(value))) - 1)
    return float(towards(Fraction(value) / unit) * unit)


def toml_number(number: Fraction) -> int | float:
    """A number as a schema spells it."""
    short = number.denominator == 1 and abs(number) < _EXACT
    return int(number) if short else float(number)
