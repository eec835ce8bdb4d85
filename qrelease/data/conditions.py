"""Conditions on one attribute: from a comparison or range to the set of cells that meet it, and back to text.

A set of cells is an integer whose bit c stands for code c: unions, intersections and complements are exact,
and equal sets are equal values. A condition on a binned attribute must run along the edges of the bins: one
that cuts through a bin is an error that names the nearest edges, never an approximation. Where the schema
clips, a value beyond the edges counts as one in the end bin, and a condition out there is an error.

Every function raises `InvalidInput` that names the attribute. Values are spelled as in `predicates`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from qrelease._util.texts import MISSING_MARKS, meant, nearest
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from fractions import Fraction

    from qrelease.data.attribute import Attribute

_MAX_LISTED_CELLS = 2  # so many ordered cells without edges are listed, more are a range
_ONES = re.compile("1+")
_PERIOD = re.compile(r"([1-9]\d{3})(?:-(0[1-9]|1[0-2]))?")  # a year, or a month of one
_TRUTHS = ("true", "false")  # one value each, as records are read, in capitals or not: see `spelling.meaning`
_MAX_COMPARED = 1 << 12  # categories that are compared with the words of a condition
_MAX_BEGIN = 256  # characters of a condition, in which a category of several words is looked for
_MOST_LISTED = 30  # categories of which a message names all
_FEW_LISTED = 8  # those near a text, or the first, that it names of more

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "missing"})
"""Words of the language of `predicates`, which a column's name in quotes may be."""

_BARE_NAME = re.compile(r"[+-]?\.?\w+(?:[-.+:/]\w+)*")
"""What stands for itself without quotes; the tokens of `predicates` have the same."""


@final
class CellsDiffer(InvalidInput):
    """A condition that other cells of the same column could meet: other edges of bins, or other categories.

    column, cut  the column, and the point of its exact grid at which a bin would have to begin; None if there is none
    """

    column: str = ""
    cut: int | None = None


@final
class WrittenValue(NamedTuple):
    """A value as it was written. Quoted, it is a label or a missing mark first; bare, a number first."""

    text: str
    quoted: bool

    def __str__(self) -> str:
        return repr(self.text) if self.quoted else self.text


def name_text(name: str) -> str:
    """A column's name as conditions spell it: bare where that is unambiguous, else in double quotes."""
    plain = _BARE_NAME.fullmatch(name) is not None and name.lower() not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def cell_text(attribute: Attribute, code: int) -> str:
    """One cell of an attribute as a condition: `sex = 'Male'`, `age in 30..39`, `age is missing`."""
    return described(attribute, 1 << code, name_text(attribute.name))


def run_texts(attribute: Attribute, *, prefixes: bool) -> Iterator[str]:
    """All runs of consecutive cells of an ordered attribute as conditions, `age in 30..49`: see `runs`."""
    return runs(attribute, name_text(attribute.name), prefixes=prefixes)


def how_to_ask_for_missing(name: str) -> str:
    """What is said of a condition on a column that seems to mean missing values and is none."""
    return f"; for missing values write {name_text(name)} is missing"


def how_to_ask_for_period(attribute: Attribute, text: str) -> str:
    """What is said of a year, or a month of one, that stands where a column of dates needs a date; else nothing."""
    period = _PERIOD.fullmatch(text) if attribute.kind == "date" else None
    if period is None:
        return ""
    year, month = int(period[1]), int(period[2] or 0)
    first = f"{text}-01" if month else f"{text}-01-01"
    last = f"{text}-{monthrange(year, month)[1]}" if month else f"{text}-12-31"
    name = name_text(attribute.name)
    return f"; for all of {text} write {name} in {first}..{last}, and for earlier dates {name} < {first}"


def several_words(attribute: Attribute, text: str) -> str:
    """The longest category of several words that a text begins with, whatever its capitals and spaces; else nothing."""
    if len(attribute.categories) > _MAX_COMPARED:  # others wait for a server meanwhile
        return ""
    begin = " ".join(text[:_MAX_BEGIN].split()).lower() + " "
    fitting = (c for c in attribute.categories if " " in c and _begins(begin, " ".join(c.split()).lower()))
    return max(fitting, key=len, default="")


def _begins(text: str, words: str) -> bool:
    return bool(words) and text.startswith(words) and not text[len(words)].isalnum()


def listed_bare(texts: Sequence[str]) -> str:
    """Some values as conditions list them, in parentheses, in quotes where these are needed."""
    plain = (text if _BARE_NAME.fullmatch(text) and text.lower() not in KEYWORDS else _quoted(text) for text in texts)
    return f"({', '.join(plain)})"


def _perhaps_missing(attribute: Attribute, value: WrittenValue) -> str:
    """The same of a value, where it is spelled as missing values often are; else nothing."""
    return how_to_ask_for_missing(attribute.name) if value.text.strip().lower() in MISSING_MARKS else ""


def everything(attribute: Attribute) -> int:
    """All cells, the missing one included."""
    return (1 << attribute.size) - 1


def missing(attribute: Attribute) -> int:
    """The missing cell."""
    if not attribute.missing:
        raise InvalidInput(
            f"attribute {attribute.name!r} has no missing cell: its entry in the schema has no `missing`, so that no"
            " record is without a value there"
        )
    return 1 << attribute.values


def equal_to(attribute: Attribute, value: WrittenValue) -> int:
    """The one cell that a label, a missing mark, a code, or a value with a bin of its own stands for."""
    number = None if value.quoted or attribute.kind == "category" else attribute.parse(value.text)
    if number is None:
        code = _named(attribute, value)
        if code is not None:
            return 1 << code
        number = _position(attribute, value)
    if attribute.edges and not attribute.whole:
        raise InvalidInput(f"attribute {attribute.name!r} holds bins of numbers; ask for a range, in a..b")
    last = attribute.edges[-1] if attribute.edges else attribute.codes
    if not (attribute.edges[0] if attribute.edges else 0) <= number < last:
        raise InvalidInput(
            f"attribute {attribute.name!r} has no cell for {value}; "
            f"it covers {attribute.label(0)} to {attribute.label(attribute.values - 1)}"
        )
    if not attribute.edges:
        return 1 << int(number)
    return _run(_below(attribute, number, "<"), _below(attribute, number, "<="))


def like(attribute: Attribute, pattern: WrittenValue) -> int:
    """The categories that a pattern fits: % stands for any text, _ for one character, all else for itself."""
    if attribute.kind != "category":
        raise InvalidInput(f"attribute {attribute.name!r} holds no texts; like is for categories")
    fits = _fitting(pattern.text)
    fitting = np.fromiter(map(fits, attribute.categories), dtype=np.bool_, count=len(attribute.categories))
    cells = int.from_bytes(np.packbits(fitting, bitorder="little"), "little")
    if not cells:
        listed = _listed(attribute, pattern.text)
        raise CellsDiffer(f"attribute {attribute.name!r} has no category like {pattern.text!r}; it has {listed}")
    return cells


def _listed(attribute: Attribute, text: str) -> str:
    """The categories; of very many those that are nearest to a text, and then the first."""
    known = attribute.categories
    if len(known) <= _MOST_LISTED:
        return ", ".join(map(_quoted, known))
    shown = list(dict.fromkeys([*nearest(text, known, _FEW_LISTED), *known[:_FEW_LISTED]]))[:_FEW_LISTED]
    return f"{', '.join(map(_quoted, shown))} and {len(known) - len(shown):,} more"


def _fitting(pattern: str) -> Callable[[str], bool]:
    """Whether a text is of a pattern: its parts between % one after another, each at the first place where it fits.

    A server reads patterns while others wait: so each part is looked for by compiled code, and none is tried anew.
    """
    first, *others = (re.compile(".".join(map(re.escape, part.split("_"))), re.DOTALL) for part in pattern.split("%"))
    if not others:
        return lambda text: first.fullmatch(text) is not None
    *between, last = others
    inside, ending = [part for part in between if part.pattern], len(pattern) - pattern.rindex("%") - 1

    def fits(text: str) -> bool:
        found = first.match(text)
        for part in inside:
            if found is None:
                return False
            found = part.search(text, found.end())
        end = len(text) - ending
        return found is not None and found.end() <= end and last.match(text, end) is not None

    return fits


def compared(attribute: Attribute, operator: str, value: WrittenValue, *, negated: bool = False) -> int:
    """The cells on one side of a value; `operator` is < <= > or >=. The missing cell is on neither side.

    negated  whether the others are asked for
    """
    number = _ordered(attribute, value, operator)
    if operator in ("<", "<="):
        return _run_within(attribute, 0, _below(attribute, number, operator), negated=negated)
    start = _below(attribute, number, "<" if operator == ">=" else "<=")
    return _run_within(attribute, start, attribute.values, negated=negated)


def between(attribute: Attribute, low: WrittenValue, high: WrittenValue, *, negated: bool = False) -> int:
    """The cells of low..high, both included; for bins of numbers that are not whole, from low up to high.

    There a range means the bins between two edges, so that it contains its upper end only at the last edge.

    negated  whether the others are asked for
    """
    start, stop = _ordered(attribute, low), _ordered(attribute, high)
    if start > stop:
        raise InvalidInput(f"attribute {attribute.name!r}: the range {low}..{high} runs backwards")
    half_open = attribute.edges and not attribute.whole and stop < attribute.edges[-1]
    cells = _below(attribute, start, "<"), _below(attribute, stop, "<" if half_open else "<=")
    return _run_within(attribute, *cells, negated=negated)


def described(attribute: Attribute, cells: int, name: str) -> str:
    """A set of cells as the condition that means it, in one fixed spelling; `name` is the attribute's."""
    rest = everything(attribute) ^ cells
    if attribute.missing and missing(attribute) in (cells, rest):
        return f"{name} is {'' if cells == missing(attribute) else 'not '}missing"
    if not attribute.ordered and rest.bit_count() == 1 and attribute.size > 2:
        return f"{name} != {next(_items(attribute, rest))[0]}"
    return _joined(name, list(_items(attribute, cells)))


def _joined(name: str, items: list[tuple[str, bool]]) -> str:
    if len(items) == 1:
        text, is_range = items[0]
        return f"{name} {'in' if is_range else '='} {text}"
    return f"{name} in {{{', '.join(text for text, _ in items)}}}"


def runs(attribute: Attribute, name: str, *, prefixes: bool) -> Iterator[str]:
    """All runs of consecutive cells of an ordered attribute, (0,0), (0,1), …, (1,1), …, as `described` spells each.

    prefixes  only those that begin at the first cell
    """
    count = attribute.values
    lowers, uppers = zip(*(_range_ends(attribute, code) for code in range(count)), strict=True)
    for low in range(1 if prefixes else count):
        short = min(low + _MAX_LISTED_CELLS, count)  # runs of so few cells may be spelled as no ranges
        head = f"{name} in {lowers[low]}.."
        found = [_joined(name, _run_items(attribute, low, high)) for high in range(low, short)]
        found += [head + upper for upper in uppers[short:]]
        if not low:
            found[-1] = described(attribute, _run(0, count), name)  # all cells may mean: not missing
        yield from found


def _items(attribute: Attribute, cells: int) -> Iterator[tuple[str, bool]]:
    """The members of a set as text, runs of ordered cells as ranges; with each, whether it is a range."""
    values = attribute.values
    for run in _ONES.finditer(f"{cells:b}"[::-1], 0, values):
        yield from _run_items(attribute, run.start(), run.end() - 1)
    if cells >> values:
        yield _quoted(attribute.missing[0]), False


def _run_items(attribute: Attribute, low: int, high: int) -> list[tuple[str, bool]]:
    """The same of one run of cells."""
    shortest = 1 if attribute.edges else _MAX_LISTED_CELLS + 1 if attribute.ordered else attribute.size + 1
    if high - low + 1 < shortest:
        return [(_value_text(attribute, code), False) for code in range(low, high + 1)]
    first, last = _range_ends(attribute, low)[0], _range_ends(attribute, high)[1]
    return [(first, False) if attribute.edges and attribute.whole and first == last else (f"{first}..{last}", True)]


def _range_ends(attribute: Attribute, code: int) -> tuple[str, str]:
    """A cell as the first of a range, and as the last."""
    if not attribute.edges:
        return (_value_text(attribute, code),) * 2
    if not attribute.whole:
        return repr(attribute.edges[code]), repr(attribute.edges[code + 1])
    first, last = (_quoted(end) if ":" in end else end for end in attribute.ends(code))
    return first, last


def _value_text(attribute: Attribute, code: int) -> str:
    return _quoted(attribute.label(code)) if attribute.kind == "category" else attribute.label(code)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _named(attribute: Attribute, value: WrittenValue) -> int | None:
    """The cell that a value, which is no bare number, names by a label or a missing mark; None if it names none."""
    if value.text in attribute.missing:
        return attribute.values
    if attribute.kind == "category" and value.text in attribute.categories:
        return attribute.categories.index(value.text)
    if attribute.edges and value.quoted and value.text in attribute.labels:
        return attribute.labels.index(value.text)
    if attribute.kind == "category" and value.text.lower() in _TRUTHS:
        cells = attribute.listed(value.text.lower() == "true")
        return next(iter(cells)) if len(cells) == 1 else None
    return None


def _meant(attribute: Attribute, text: str) -> str:
    """Which category, or which pattern of categories, was probably meant; empty where none can be told."""
    pattern = text.replace("*", "%")
    if "%" in pattern and any(map(_fitting(pattern), attribute.categories)):
        return f" (did you mean like {_quoted(pattern)}?)"
    return meant(text, attribute.categories)


def _counted_elsewhere(attribute: Attribute, value: WrittenValue) -> str:
    """What is said of a value that is not listed where such values are counted in a category of their own.

    A category that is near is another value, and not what was meant, unless only the case of its letters differs.
    """
    cased = next((c for c in attribute.categories if c.casefold() == value.text.casefold()), None)
    if cased is None and "*" in value.text.replace("%", "*"):
        near = _meant(attribute, value.text)
    else:
        near = "" if cased is None else f" (did you mean {cased!r}?)"
    other = cell_text(attribute, attribute.categories.index(attribute.outside))
    return (
        f"{value.text!r} is not among the categories that were learned or listed for {attribute.name!r}{near}: such"
        f" values are counted in {attribute.outside!r} ({other}){_perhaps_missing(attribute, value)}"
    )


def _position(attribute: Attribute, value: WrittenValue) -> float | Fraction:
    """Where a value stands on the attribute's axis: its number, or its place among the categories."""
    if attribute.kind == "category":
        if value.text in attribute.categories:
            return attribute.categories.index(value.text)
        if attribute.outside in attribute.categories:
            raise CellsDiffer(_counted_elsewhere(attribute, value))
        raise CellsDiffer(
            f"attribute {attribute.name!r} has no category {value.text!r}{_meant(attribute, value.text)}; "
            f"it has {_listed(attribute, value.text)}{_perhaps_missing(attribute, value)}"
        )
    number = attribute.parse(value.text)
    if number is None:
        kind = "a date (YYYY-MM-DD)" if attribute.kind == "date" else "a number"
        kind = "a whole number" if attribute.integer or attribute.kind == "coded" else kind
        raise InvalidInput(
            f"attribute {attribute.name!r} needs {kind}, got {value.text!r}{_perhaps_missing(attribute, value)}"
            f"{how_to_ask_for_period(attribute, value.text)}"
        )
    return number


def _ordered(attribute: Attribute, value: WrittenValue, operator: str = "") -> float | Fraction:
    """Where a value stands on an axis that has an order; the operator before it may be the first sign of a category."""
    if not attribute.ordered:
        signed = "".join([operator, *value.text.split()])
        code = next((c for c, text in enumerate(attribute.categories) if "".join(text.split()) == signed), None)
        if operator and code is not None:
            raise InvalidInput(
                f"attribute {attribute.name!r} is not ordered: did you mean {cell_text(attribute, code)}?"
            )
        raise InvalidInput(
            f"attribute {attribute.name!r} is not ordered; use =, != or in {{…}} (only a schema that says ordered ="
            " true of it, before a release, gives it an order)"
        )
    return _position(attribute, value)


def _below(attribute: Attribute, number: float | Fraction, operator: str) -> int:
    """How many of the value cells lie below (<) a number, or below and at it (<=)."""
    closed = operator == "<="
    cut = _first_beyond(attribute, number, closed=closed)
    if not attribute.edges:
        return min(max(int(number) + closed, 0), attribute.values)
    edges: Sequence[float] = attribute.edges
    if attribute.whole and attribute.grid is not None:
        edges, number = attribute.cuts, attribute.grid.steps(number)
    if attribute.whole:
        number, closed = number + closed, False
    if attribute.outside == "clip" and not edges[0] <= number <= edges[-1]:
        raise _beyond_the_ends(attribute)
    if number < edges[0] or (number == edges[0] and not closed):
        return 0
    if number > edges[-1] or (number == edges[-1] and (closed or attribute.whole)):
        return attribute.values
    place = bisect_left(edges, number)
    if edges[place] == number and not closed and place < attribute.values:
        return place
    return _cut_through(attribute, place if edges[place] == number and closed else place - 1, cut)


def _run_within(attribute: Attribute, start: int, stop: int, *, negated: bool) -> int:
    """The cells start..stop-1 of a condition on values; an error where it asks for what lies beyond the end bins alone.

    No bin meets that, and 0 would be a wrong answer where the end bins hold such records: `age > 119` of bins up to
    119. Of one that is negated, `not age <= 119`, the bins that do not meet it are asked for.
    """
    none_left = (start, stop) == (0, attribute.values) if negated else start == stop and start in (0, attribute.values)
    if attribute.outside == "clip" and none_left:
        raise _beyond_the_ends(attribute)
    return _run(start, stop)


def _beyond_the_ends(attribute: Attribute) -> InvalidInput:
    return InvalidInput(
        f"attribute {attribute.name!r}: the end bins, {attribute.label(0)} and "
        f"{attribute.label(attribute.values - 1)}, take in whatever lies beyond (outside = 'clip'); "
        "a condition must stay within them"
    )


def _first_beyond(attribute: Attribute, number: float | Fraction, *, closed: bool) -> int | None:
    """The first point of a grid of numbers that is not below a number; if it is closed, beyond it."""
    if attribute.grid is None or attribute.kind != "number":
        return None
    steps = attribute.grid.steps(number)
    return math.floor(steps) + 1 if closed else math.ceil(steps)


def _cut_through(attribute: Attribute, code: int, cut: int | None) -> int:
    if cut in attribute.cuts:  # only points of the grid have records
        return attribute.cuts.index(cut)
    show = attribute.shown if attribute.kind == "date" else "{:.12g}".format
    low, high = (show(edge) for edge in attribute.edges[code : code + 2])
    error = CellsDiffer(
        f"attribute {attribute.name!r}: the condition cuts through the bin {attribute.label(code)}; "
        f"the nearest edges are {low} and {high} (use < or >= there)"
    )
    error.column, error.cut = attribute.name, cut
    raise error


def _run(start: int, stop: int) -> int:
    """The cells start..stop-1."""
    return (1 << stop) - (1 << start)
