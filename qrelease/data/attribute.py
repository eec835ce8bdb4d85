"""One column of the universe: its finite list of cells, and which cell a raw value is in.

An `Attribute` is public. It comes from a schema that a person reviewed, never from the data. numpy is not imported
here, so that a schema can be read without it; `qrelease.data.decoding` draws values for cells.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args

from qrelease._util.texts import MISSING_MARKS, listed, quoted
from qrelease.data.dates import EPOCH, days, iso_date, iso_moment, moment
from qrelease.data.grids import MAX_POINTS, STEPS, PointGrid, exact_number
from qrelease.data.spelling import NAN, Meaning, meaning
from qrelease.data.writing import WRITTEN_AS, Writing
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["coded", "category", "number", "date"]

_MAX_EXACT_INTEGER = 2**53  # whole numbers up to here are exact as floats
MAX_KEYS = 2**32 - 2
"""Different texts in a column whose categories are to be learned, at most."""

MAX_LEARNED_BINS = 1024
"""Bins that are learned of a column, at most: an estimate of more would be of noise."""

OTHER = "other"
"""The category of all texts that are in none of those learned."""

MAX_POINT_CELLS = 64
"""Points of a grid that are cells of their own where no bins are given, at most."""

_PLAIN = Writing()

_NEAR_POINT = Fraction(1, 1000)  # steps: an edge of moments is a float, which is no whole number of minutes


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column of the universe: a finite list of cells, each with a label.

    Attributes
    ----------
    name
        The column's name, not empty.
    kind
        `coded`: integer codes 0..n-1, written as they are; `category`: one cell for each entry of `categories`;
        `number`, `date`: bins [e0, e1), [e1, e2), … from `edges`. Where values are not whole, the last bin contains its
        upper edge too, so that [0, 1] is one bin.
    codes
        n, of a `coded` column.
    categories
        The labels of a `category` column.
    edges
        The ends of the bins, ascending; dates as days since 1970-01-01.
    missing
        Raw texts that mean "missing". When there are any, the column has one more cell, the last, written out as the
        first text. A text that spells a number or a date in a column of those means that value, however it is spelled:
        `-9` is missing where `-9.0` is listed.
    outside
        Where a value that the schema does not list goes: `error`, `missing` (the missing cell), `clip` (the nearest
        bin), or one of the categories. These three words win over a category of that name.
    integer
        Whether the values of a `number` are whole, so that a decoded value is whole too.
    ordered
        Whether ranges and prefixes make sense; always true for bins.
    within
        The first and the last value there may be, both included, of a `number` or `date` that is kept as it is: on the
        exact `grid` of steps between them, beside its bin. Numbers count by their decimals; dates are days since
        1970-01-01. `outside` says where values beyond go. Every edge lies on the grid, the first is its first point,
        and the last its last point or one step more. Without edges each point is a cell, of up to 64; a column of more
        is `undecided`.
    step
        The distance of two points; of dates `Fraction(1, 1440)` for a minute, and so on (`grids.STEPS`). A number is
        taken to the nearest point, and a moment to the one that it comes after.
    learn
        How many bins, or categories, are to be learned from the records at most, at a cost in privacy: of a `number` or
        `date` with a grid and without edges, or of a `category` without categories. Until then it is `undecided`. The
        records of all other categories will be in one named `other`.
    shape
        How values lie on a grid, as the public knows, or learned: pairs of a point and a weight, which is spread evenly
        from it to the next pair's. Synthetic values inside a bin follow it.
    writing
        How the data write the values of a `number` or `date`, where that is not `1234.5` and `2024-12-31`. Only texts
        are read so: a number or date of a data frame is refused. Conditions, and what is released, are written plainly.

    Raises
    ------
    InvalidInput
        For fields that do not fit the kind, or each other; the message names the column.

    Examples
    --------
    >>> age = Attribute("age", "number", edges=(0, 18, 65, 100), integer=True, missing=("?",))
    >>> age.size, age.labels
    (4, ('0..17', '18..64', '65..99', '?'))
    >>> age.encode("42"), age.encode("?")
    (1, 3)
    """

    name: str
    kind: Kind
    codes: int = 0
    categories: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    outside: str = "error"
    integer: bool = False
    ordered: bool = False
    within: tuple[Fraction, ...] = ()
    step: Fraction = Fraction(0)
    learn: int = 0
    shape: tuple[tuple[int, int], ...] = ()
    writing: Writing = _PLAIN
    grid: PointGrid | None = field(default=None, init=False, compare=False, repr=False)
    cuts: tuple[int, ...] = field(default=(), init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(f"an attribute's name must be a non-empty text, got {self.name!r}")
        self._check_types()
        if self.learn:
            self._check_learn()
        if self.within or self.step:
            object.__setattr__(self, "grid", self._grid())
        self._check_kind()
        if self.values < 1:
            raise InvalidInput(f"attribute {self.name!r} must have at least one cell")
        self._check_tokens()
        if self.edges:
            self._check_edges()
        if self.grid is not None:
            object.__setattr__(self, "cuts", self._cuts(self.grid))
        if self.shape:
            self._check_shape()
        if self.edges or self.grid is not None:
            object.__setattr__(self, "ordered", True)
        allowed = {"error", *self.categories}
        allowed |= {"missing"} if self.missing else set()
        allowed |= {"clip"} if self.edges or self.grid is not None else set()
        if self.outside not in allowed:
            raise InvalidInput(
                f"attribute {self.name!r}: outside must be one of {listed(sorted(allowed))}, got {self.outside!r}"
            )

    def _check_types(self) -> None:
        """Turns lists into tuples and numbers into Python's, so that equal attributes are equal."""
        for key, kind in (("categories", str), ("missing", str), ("edges", Real)):
            found: object = getattr(self, key)
            if not isinstance(found, (list, tuple)) or not all(_is(v, kind) for v in found):
                words = "numbers" if kind is Real else "texts"
                raise InvalidInput(f"attribute {self.name!r}: {key} must be a list of {words}, got {found!r}")
            object.__setattr__(self, key, tuple(map(float if kind is Real else str, found)))
        object.__setattr__(self, "within", tuple(self._decimal("within", v) for v in self._pair()))
        object.__setattr__(self, "step", self._decimal("step", self.step))
        codes: object = self.codes
        if not _is(codes, Integral) or not 0 <= self.codes <= _MAX_EXACT_INTEGER:
            raise InvalidInput(f"attribute {self.name!r}: codes must be whole, at most 2^53, got {codes!r}")
        object.__setattr__(self, "codes", int(self.codes))

    def _pair(self) -> tuple[object, ...]:
        found: object = self.within
        if not isinstance(found, (list, tuple)) or len(found) not in (0, 2):
            raise InvalidInput(f"attribute {self.name!r}: within must be a first and a last value, got {found!r}")
        return tuple(found)

    def _decimal(self, key: str, value: object) -> Fraction:
        """An exact number; one that a schema file can spell, unless it is a moment."""
        number = None
        if (_is(value, Real) or _is(value, Decimal)) and math.isfinite(value):  # type: ignore[arg-type]
            number = exact_number(value) if isinstance(value, float) else Fraction(str(value))
        if number is None or (self.kind != "date" and exact_number(float(number)) != number):
            raise InvalidInput(f"attribute {self.name!r}: {key} must be of numbers of at most 15 digits, got {value!r}")
        return number

    def _grid(self) -> PointGrid:
        """The grid of `within` and `step`; sets `integer`, and bins of one point each where there are few points."""
        if self.kind not in ("number", "date"):
            raise InvalidInput(f"attribute {self.name!r}: within and step are for numbers and dates, not {self.kind!r}")
        if not self.within or not self.step:
            raise InvalidInput(f"attribute {self.name!r}: within and step go together, got only one of them")
        (low, high), step = self.within, self.step
        dates = self.kind == "date"
        if step < 0 or (dates and step not in STEPS.values()):
            allowed = f"one of {', '.join(STEPS)}" if dates else "positive"
            raise InvalidInput(f"attribute {self.name!r}: step must be {allowed}, got {_plain(step)}")
        if not low < high:
            raise InvalidInput(
                f"attribute {self.name!r}: within must be a first and a later last value, got {self.shown(low)} and "
                f"{self.shown(high)}"
            )
        points = (high - low) / step + 1
        if points > MAX_POINTS or max(abs(low), abs(high)) > MAX_POINTS * step:
            raise InvalidInput(f"attribute {self.name!r}: step makes a grid finer than 2^53; take a larger one")
        if points.denominator != 1:
            width = next(word for word, s in STEPS.items() if s == step) if dates else _plain(step)
            raise InvalidInput(
                f"attribute {self.name!r}: within must span whole steps of {width}, got {self.shown(low)} to "
                f"{self.shown(high)}"
            )
        whole = low.denominator == step.denominator == 1
        if self.integer and not whole:
            raise InvalidInput(f"attribute {self.name!r}: within and step of whole numbers must be whole")
        object.__setattr__(self, "integer", whole and not dates)
        grid = PointGrid(low, step, int(points), begins=dates)
        if not self.edges and not self.learn and grid.size <= MAX_POINT_CELLS:
            object.__setattr__(self, "edges", tuple(float(grid.value(p)) for p in range(grid.size + 1)))
        return grid

    def _check_learn(self) -> None:
        most = MAX_KEYS if self.kind == "category" else MAX_LEARNED_BINS
        if not _is(self.learn, Integral) or not 2 <= self.learn <= most:
            raise InvalidInput(f"attribute {self.name!r}: learn must be a whole number 2..{most}, got {self.learn!r}")
        if self.categories or self.edges or not (self.kind == "category" or self.within):
            raise InvalidInput(
                f"attribute {self.name!r}: only bins within a grid (within and step), or categories, can be learned"
            )
        if self.kind == "category" and (self.outside != "error" or OTHER in self.missing):
            raise InvalidInput(f"attribute {self.name!r}: values in no learned category go to {OTHER!r}")

    def _check_shape(self) -> None:
        points, weights = [p for p, _ in self.shape], [w for _, w in self.shape]
        size = 0 if self.grid is None or not self.edges else self.grid.size
        if not size or points[0] != 0 or points[-1] >= size or any(a >= b for a, b in pairwise(points)):
            raise InvalidInput(f"attribute {self.name!r}: shape must begin at the first point of a grid, and ascend")
        if any(w < 0 for w in weights) or not 0 < sum(weights) <= MAX_POINTS:
            raise InvalidInput(
                f"attribute {self.name!r}: weights of a shape must be whole, not negative, and not all 0"
            )

    def _cuts(self, grid: PointGrid) -> tuple[int, ...]:
        """The first point of each bin, and the number of points; none without edges."""
        found = []
        for edge in self.edges:
            steps = grid.steps(edge)
            if abs(steps - round(steps)) > (_NEAR_POINT if self.kind == "date" else 0):
                raise InvalidInput(
                    f"attribute {self.name!r}: bins must begin on the grid of within and step, got {self.shown(edge)}"
                )
            found.append(round(steps))
        if found and (found[0] != 0 or found[-1] not in (grid.size, grid.size - (not self.whole))):
            raise InvalidInput(
                f"attribute {self.name!r}: bins must go from {self.shown(grid.low)} to "
                f"{self.shown(grid.value(grid.size))}, as within and step do, got {self.shown(self.edges[0])} to "
                f"{self.shown(self.edges[-1])}: change both, or neither"
            )
        if any(a == b for a, b in pairwise(found)):
            raise InvalidInput(f"attribute {self.name!r}: each bin must hold a point of the grid of within and step")
        return (*found[:-1], grid.size) if found else ()

    def _check_kind(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(
                f"attribute {self.name!r}: kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}"
            )
        cells = {"codes": self.codes, "categories": self.categories, "bins": self.edges}
        own = {"coded": "codes", "category": "categories"}.get(self.kind, "bins")
        foreign = [key for key, value in cells.items() if value and key != own]
        if foreign:
            raise InvalidInput(f"attribute {self.name!r}: kind {self.kind!r} takes {own}, not {foreign[0]}")
        if self.integer and self.kind != "number":
            raise InvalidInput(f"attribute {self.name!r}: only a 'number' can be integer, got {self.kind!r}")
        if (self.writing.of_numbers and self.kind != "number") or (self.writing.format and self.kind != "date"):
            raise InvalidInput(
                f"attribute {self.name!r}: decimal, thousands, unit are for numbers and format is for dates, not for"
                f" {self.kind!r}"
            )

    def _check_tokens(self) -> None:
        for key, tokens in (("category", self.categories), ("missing mark", self.missing)):
            if len(set(tokens)) != len(tokens):
                twice = next(t for t in tokens if tokens.count(t) > 1)
                raise InvalidInput(f"attribute {self.name!r}: {key} {twice!r} is listed twice")
        both = set(self.missing) & set(self.categories)
        if both:
            raise InvalidInput(
                f"attribute {self.name!r}: {min(both)!r} is both a category and a missing mark; keep one"
            )

    def _check_edges(self) -> None:
        if not all(math.isfinite(e) for e in self.edges):
            raise InvalidInput(f"attribute {self.name!r}: bin edges must be finite, got {listed(self.edges)}")
        for low, high in zip(self.edges, self.edges[1:], strict=False):
            if not low < high:
                raise InvalidInput(
                    f"attribute {self.name!r}: bin edges must increase strictly, got {low:g} before {high:g}"
                )
        if self.whole and self.step.denominator == 1:
            rough = [e for e in self.edges if e != int(e) or abs(e) > _MAX_EXACT_INTEGER]
            if rough:
                raise InvalidInput(f"attribute {self.name!r}: edges of whole numbers must be whole, got {rough[0]:g}")
        if self.kind == "date":
            first, last = (float((d - EPOCH).days) for d in (date.min, date.max))
            if not (first <= self.edges[0] and self.edges[-1] <= last):
                raise InvalidInput(f"attribute {self.name!r}: dates must lie in {date.min}..{date.max}")

    @property
    def values(self) -> int:
        """Number of cells that hold a value (without the missing cell)."""
        match self.kind:
            case "coded":
                return self.codes
            case "category":
                return MAX_KEYS if self.learn else len(self.categories)
            case _:
                return self.grid.size if self.undecided and self.grid is not None else len(self.edges) - 1

    @property
    def undecided(self) -> bool:
        """Whether the bins or categories are still to be learned: a table can be read, but nothing can be released."""
        return (self.grid is not None and not self.edges) or (self.kind == "category" and self.learn > 0)

    @property
    def plain_numbers(self) -> bool:
        """Whether its values are numbers that are written as floats are."""
        return self.kind in ("coded", "number") and self.writing.is_plain

    @property
    def fine(self) -> Attribute:
        """The same column with each point of its grid as a cell of its own; unchanged where it has no grid."""
        return self if self.undecided or self.grid is None else replace(self, edges=(), shape=())

    def bins_of(self, points: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """The bin of each point of the grid.

        Parameters
        ----------
        points : ndarray of int, shape (n,)
            Steps above the first point of the grid.

        Returns
        -------
        ndarray of int, shape (n,)
            Codes of this column's cells.
        """
        import numpy as np  # only for whoever has such points

        found: NDArray[np.intp] = np.searchsorted(np.array(self.cuts[1:]), points, side="right")
        return found

    @property
    def size(self) -> int:
        """Number of cells, the missing cell included."""
        return self.values + bool(self.missing)

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers (codes, days or other steps of dates, or numbers declared integer)."""
        return self.integer or self.kind in ("coded", "date")

    def label(self, code: int) -> str:
        """The text of a cell for people: the category, the code, or the bin as `20..29`, `[0.5, 1)`.

        Parameters
        ----------
        code : int
            The cell, from 0 to `size` - 1.

        Returns
        -------
        str
            For the missing cell, its first text.

        Raises
        ------
        InvalidInput
            For a code that the column does not have.
        """
        if not 0 <= code < self.size:
            raise InvalidInput(f"attribute {self.name!r} has codes 0..{self.size - 1}, got {code}")
        if code == self.values:
            return self.missing[0]
        match self.kind:
            case "coded":
                return str(code)
            case "category":
                return "(not learned yet)" if self.learn else self.categories[code]
            case _:
                return self._bin_label(code)

    def _bin_label(self, code: int) -> str:
        if self.undecided and self.grid is not None:
            return self.shown(self.grid.value(code))
        if not self.whole:
            low, high = self.edges[code], self.edges[code + 1]
            return f"[{low:.12g}, {high:.12g}{']' if code == self.values - 1 else ')'}"
        first, last = self.ends(code)
        return first if first == last else f"{first}..{last}"

    def ends(self, code: int) -> tuple[str, str]:
        """The first and the last value of a bin of whole numbers or dates.

        Parameters
        ----------
        code : int
            The bin, from 0 to `values` - 1.

        Returns
        -------
        tuple of str
            Both as `shown` writes them; they are equal where the bin holds one value.
        """
        if self.grid is not None:
            return self.shown(self.grid.value(self.cuts[code])), self.shown(self.grid.value(self.cuts[code + 1] - 1))
        return self.shown(self.edges[code]), self.shown(self.edges[code + 1] - 1)

    def shown(self, number: float | Fraction) -> str:
        """A value of a number or a date, as a person writes it.

        Parameters
        ----------
        number : float or Fraction
            The value; of a date, days since 1970-01-01.

        Returns
        -------
        str
            Digits, an ISO date, or an ISO moment where the steps of the grid are shorter than a day.
        """
        if self.kind == "date":
            return iso_date(float(number)) if self.step.denominator == 1 else iso_moment(Fraction(number))
        return f"{float(number):.0f}" if self.whole else _plain(number)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all cells, in the order of their codes."""
        return tuple(self.label(c) for c in range(self.size))

    def encode(self, text: str) -> int:
        """The cell of a raw value as a file spells it: a function of that value alone.

        Spaces around it do not matter. What the schema lists is found by its spelling, else by its meaning (see
        `qrelease.data.spelling`): `1.0` and `1e0` are a listed `1`, and `TRUE` is a listed `true`. A number is a listed
        truth value, and the other way round, only among categories; in a column of numbers a truth value that the
        schema does not list is 1 or 0. `nan` and `NaN` that it does not list are missing where anything may be.

        Parameters
        ----------
        text : str
            The value. It is private.

        Returns
        -------
        int
            The code of the cell, from 0 to `size` - 1.

        Raises
        ------
        InvalidInput
            For a value that the schema has no place for. The message names the column, the value and what is allowed:
            it is for the data holder alone.
        """
        bare = text.strip()
        for spelling in (text, bare):
            if spelling in self.missing:
                return self.values
            if spelling in self.categories:
                return self.categories.index(spelling)
        means = self.meaning(bare)
        cells = self.listed(means)
        if cells:
            if len(cells) > 1:
                raise self.unclear(text)
            return next(iter(cells))
        if bare in NAN and (self.missing or self.blank in self.categories):
            return self.encode(self.blank)
        if self.kind == "category" and self.learn:
            raise InvalidInput(f"column {self.name!r}: its categories must be learned first")
        if self.kind == "category":
            return self._displaced(text, f"one of the {self.values} categories {listed(self.categories)}")
        return self.encode(str(int(means))) if isinstance(means, bool) else self._placed(text, means)

    def _placed(self, text: str, means: Meaning) -> int:
        """The cell of a value that the schema does not list, in a column of numbers or dates."""
        if self.kind == "date" and isinstance(means, datetime) and means.tzinfo and self.step.denominator == 1:
            raise InvalidInput(
                f"column {self.name!r}: value {quoted(text)} has an offset, and its day depends on the time zone; "
                "give local dates"
            )
        digits = str(int(means)) if isinstance(means, float) and means.is_integer() else text
        if not self.writing.is_plain:
            digits = self.writing.plain(text.strip()) or ""
        if isinstance(means, datetime):  # as every date is read, whichever way its zone is spelled
            digits = means.isoformat()
        number = self.parse(digits)
        if number is None:
            fraction = self.grid is not None and isinstance(means, float) and math.isfinite(means)
            finer = ", as `within` and `step` are; give a finer step, such as 0.01" if fraction and self.whole else ""
            return self._displaced(text, self._expected() + finer + self._written_otherwise(text.strip(), means))
        if self.kind == "date" and number in map(self.parse, self.missing):
            return self.values
        code = self.place(number)
        return self._displaced(text, f"within {self._span()}") if code is None else code

    def listed(self, means: Meaning) -> frozenset[int]:
        """The cells of the listed categories and missing marks that have a given meaning.

        Parameters
        ----------
        means : Meaning
            What a raw value means, as `meaning` gives it.

        Returns
        -------
        frozenset of int
            Codes; several where the schema lists spellings of one meaning apart, none where it lists none.

        Raises
        ------
        InvalidInput
            For a listed text that no rule can read, such as a time with an ambiguous zone `CST`; it names the column.
        """
        try:
            cells = _listed(self.kind, self.categories, self.missing, self.values, self.writing)
        except InvalidInput as error:
            raise InvalidInput(f"column {self.name!r}: {error}") from None
        return cells.get(_key(means, self.kind), frozenset())

    def meaning(self, bare: str) -> Meaning:
        """What a text of this column means: a number, a date, a truth value, or just itself.

        Parameters
        ----------
        bare : str
            The text, without surrounding spaces.

        Returns
        -------
        Meaning
            See `qrelease.data.spelling`.

        Raises
        ------
        InvalidInput
            For a text that no rule can read, such as a time with an ambiguous zone `CST`; it names the column.
        """
        try:
            return _meaning(bare, self.writing)
        except InvalidInput as error:
            raise InvalidInput(f"column {self.name!r}: {error}") from None

    @property
    def blank(self) -> str:
        """The text that a missing value of a data frame is read as: the first missing mark, or else the empty text."""
        words = self.missing or [c for c in ("", *NAN) if c in self.categories]
        return words[0] if words else ""

    def unclear(self, text: str) -> InvalidInput:
        """The error for a value that means the same as several listed spellings but equals none of them.

        Parameters
        ----------
        text : str
            The value. It is private, and so is the error.

        Returns
        -------
        InvalidInput
            To be raised by the caller.
        """
        return InvalidInput(
            f"column {self.name!r}: value {quoted(text)} may be one of several spellings that the schema tells apart; "
            "give the column as text, spelled as there"
        )

    def parse(self, text: str) -> float | Fraction | None:
        """The number that a raw value stands for, whether or not the column has a cell for it.

        Infinities, NaN, digit separators, and fractions in a column of whole numbers are no numbers here.

        Parameters
        ----------
        text : str
            The value.

        Returns
        -------
        float, Fraction or None
            Of a date, days since 1970-01-01, as an exact `Fraction` where the steps of the grid are shorter than a day.
            None where the text stands for no number.
        """
        if self.kind == "date":
            return days(text.strip()) if self.step.denominator == 1 else moment(text.strip())
        try:
            number = float(text)
        except ValueError:
            return None
        if not math.isfinite(number) or "_" in text or (self.whole and number != int(number)):
            return None
        return number

    def place(self, number: float | Fraction) -> int | None:
        """The cell of a parsed number: its code or its bin.

        Parameters
        ----------
        number : float or Fraction
            As `parse` gives it.

        Returns
        -------
        int or None
            None where the schema has no place for the number. While bins are to be learned, the point of the grid.
        """
        if self.kind == "coded":
            return int(number) if 0 <= number < self.codes else None
        if self.grid is not None:
            point = self.grid.place(number)
            if not 0 <= point < self.grid.size and self.outside != "clip":
                return None
            point = min(max(point, 0), self.grid.size - 1)
            return point if self.undecided else bisect_right(self.cuts, point) - 1
        if not self.edges:
            return None
        closed = not self.whole and number == self.edges[-1]
        if not (self.edges[0] <= number < self.edges[-1] or closed) and self.outside != "clip":
            return None
        return min(max(bisect_right(self.edges, number) - 1, 0), self.values - 1)

    def _displaced(self, text: str, expected: str) -> int:
        """The declared cell of a value the schema does not list, or the error that says so."""
        if self.outside in ("error", "clip"):
            raise InvalidInput(
                f"column {self.name!r}: value {quoted(text)} is not {expected}{self._cure(text.strip())}"
            )
        if self.outside == "missing" and self.missing:
            return self.values
        return self.categories.index(self.outside)

    def _cure(self, bare: str) -> str:
        """How the schema lists a text that often stands for a missing value."""
        if bare.lower() not in MISSING_MARKS:
            return ""
        marks = json.dumps([*self.missing, bare], ensure_ascii=False)
        return f"; if it stands for a missing value, the schema's entry of the column needs missing = {marks}"

    def _written_otherwise(self, bare: str, means: Meaning) -> str:
        """How the schema says of all values that they are written as one that looks like another country's."""
        kind = "date" if self.kind == "date" else "number"
        if not self.writing.is_plain or not isinstance(means, str) or not WRITTEN_AS[kind].fullmatch(bare):
            return ""
        keys = 'format, as in format = "%d/%m/%Y"' if kind == "date" else "decimal, thousands and unit"
        return f"; if all are written so, the schema's entry says it by {keys}"

    def _expected(self) -> str:
        match self.kind:
            case "date" if self.writing.format:
                return f"a date as {self.writing.written('2024-12-31')}, by the format {self.writing.format}"
            case "date":
                return "an ISO date (YYYY-MM-DD)"
            case _:
                example = self.writing.written("1234" if self.whole else "1234.5")
                written = f" written as {example}" if self.writing.of_numbers else ""
                return f"a {'whole ' * self.whole}number{written}"

    def _span(self) -> str:
        """The values the cells cover, first to last."""
        if self.kind == "coded":
            return f"the codes 0..{self.codes - 1}"
        if self.grid is not None:
            return f"{self.shown(self.grid.low)}..{self.shown(self.grid.high)}"
        if not self.whole:
            return f"the bins [{self.edges[0]:.12g}, {self.edges[-1]:.12g}]"
        return f"the bins {self.shown(self.edges[0])}..{self.shown(self.edges[-1] - 1)}"


def _plain(number: float | Fraction) -> str:
    return f"{float(number):.12g}"


def _is(value: object, kind: type) -> bool:
    """Whether a value is of a kind; a bool is no number here."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _meaning(bare: str, writing: Writing) -> Meaning:
    """What a text means by how values are written; just itself, where it is not written so."""
    plain = writing.plain(bare)
    return bare if plain is None else meaning(plain)


def _key(means: Meaning, kind: Kind) -> tuple[bool, Meaning]:
    """The key by which listed texts are found: True and 1 are one key of a category, and two of a number."""
    return isinstance(means, bool) and kind != "category", means


@lru_cache(1 << 8)
def _listed(
    kind: Kind, categories: tuple[str, ...], missing: tuple[str, ...], last: int, writing: Writing
) -> dict[tuple[bool, Meaning], frozenset[int]]:
    """The cells of the listed texts of each key; `last` is the missing one."""
    found: dict[tuple[bool, Meaning], set[int]] = {}
    for cell, text in [*enumerate(categories), *((last, mark) for mark in missing)]:
        found.setdefault(_key(_meaning(text.strip(), writing), kind), set()).add(cell)
    return {key: frozenset(cells) for key, cells in found.items()}
