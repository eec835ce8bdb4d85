"""How the numbers and dates of a column are written in the data, where that is not `1234.5` and `2024-12-31`.

It is a part of the public schema, and of the one rule by which a text becomes a code: each text is turned into the
plain one by itself, or is none. Nothing is guessed: `1.234` is 1234 where the schema says that points mark thousands,
and never because of what other records look like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final, final

from qrelease.errors import InvalidInput

_SPACES: Final = " \u00a0\u2009\u202f"
_THOUSANDS: Final = {"": "", ".": r"\.", ",": ",", " ": f"[{_SPACES}]", "'": "['’]"}
_SIGNS: Final = ("-", "−", "+")  # a hyphen, a minus
_PARTS: Final = {
    "d": "[0-9]{1,2}",
    "m": "[0-9]{1,2}",
    "Y": "[0-9]{4}",
    "H": "[0-9]{1,2}",
    "M": "[0-9]{2}",
    "S": "[0-9]{2}",
}
WRITTEN_AS: Final[Mapping[str, re.Pattern[str]]] = {
    "date": re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{4}([T ].*)?|\d{4}[./]\d{1,2}[./]\d{1,2}([T ].*)?"),
    "number": re.compile(
        r"(?!\d+$)[+-]?[$€£¥]? ?(\d{1,3}([., '\u00a0\u202f]\d{3})+|\d+)([.,]\d+)? ?([$€£¥%]|[A-Z]{3})?"
    ),
}
"""How dates and numbers are often written, by the kind of attribute that they are."""

_DIRECTIVE: Final = re.compile(r"%(.)")
_MAX_UNIT: Final = 20


@final
@dataclass(frozen=True, slots=True)
class Writing:
    """How numbers or dates are written: keys of a schema's entry, each with the default of plain ones.

    Attributes
    ----------
    decimal
        The mark before decimals of numbers, `.` or `,`.
    thousands
        The mark between groups of three digits: empty for none, `.`, `,`, `'`, or a space, which stands for those that
        do not break, too. A number may have all of these marks or none.
    unit
        A text before or behind a number, with or without a space, such as `€` or `%`; it may be absent, and the number
        is what stands beside it: 12 for `12 %`.
    format
        Of dates, in the terms of Python's `strptime`: `%d`, `%m` and `%Y` once each, and perhaps `%H`, `%M` and `%S`,
        with other characters between.

    Raises
    ------
    InvalidInput
        For marks that are none of these, or do not go together.

    Examples
    --------
    >>> Writing(decimal=",", thousands=".", unit="€").plain("€ 1.234,50"), Writing(decimal=",").plain("1.5")
    ('1234.50', None)
    >>> Writing(format="%d.%m.%Y").plain("31.12.2024"), Writing(format="%d.%m.%Y").written("2024-12-31")
    ('2024-12-31', '31.12.2024')
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    format: str = ""

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise InvalidInput(f"decimal must be '.' or ',', got {self.decimal!r}")
        if not isinstance(self.thousands, str) or self.thousands not in _THOUSANDS or self.thousands == self.decimal:
            raise InvalidInput(
                f"thousands must be '.', ',', ' ' or \"'\", and another mark than decimal, got {self.thousands!r}"
            )
        unit = self.unit if isinstance(self.unit, str) else " "
        if unit != unit.strip() or len(unit) > _MAX_UNIT or (unit and re.search(r"[0-9.,+\-−]", unit)):
            raise InvalidInput(f"unit must be a text such as € or kg, without digits and signs, got {self.unit!r}")
        if not isinstance(self.format, str) or (self.format and not _is_format(self.format)):
            raise InvalidInput(
                "format must have %d, %m and %Y once each, and may have %H, %M and %S, with other characters between"
                f" them, as %d.%m.%Y, got {self.format!r}"
            )

    @property
    def of_numbers(self) -> bool:
        """Whether it says something of numbers."""
        return (self.decimal, self.thousands, self.unit) != (".", "", "")

    @property
    def is_plain(self) -> bool:
        """Whether it says nothing."""
        return not (self.of_numbers or self.format)

    def plain(self, text: str) -> str | None:
        """A numeral or ISO date from a text without surrounding spaces; None for one that is not written so.

        Parameters
        ----------
        text
            A value of the data. It is private.

        Returns
        -------
        str or None
            Where nothing is said of how values are written, the text itself.
        """
        if self.format:
            return _iso(text, self.format)
        return _numeral(text, self) if self.of_numbers else text

    def written(self, plain: str) -> str:
        """A numeral or ISO date as the data would have it.

        Parameters
        ----------
        plain
            What `plain` gives: a number, or a date with a time of day or without.

        Returns
        -------
        str
            What `plain` reads as an equal number or date.
        """
        if self.format:
            year, month, day, *clock = re.split("[-T:]", plain)
            found = dict(zip("YmdHMS", (year, month, day, *clock, "00", "00", "00"), strict=False))
            return _DIRECTIVE.sub(lambda part: found[part[1]], self.format)
        if not self.of_numbers:
            return plain
        whole, _, decimals = f"{abs(Decimal(plain)):f}".partition(".")
        grouped = f"{int(whole):,}".replace(",", self.thousands)
        sign = "-" if Decimal(plain) < 0 else ""
        return f"{sign}{grouped}{self.decimal + decimals if decimals else ''}{' ' + self.unit if self.unit else ''}"


def _is_format(text: str) -> bool:
    """Whether a format names a day once, and no digit stands beside another part's."""
    parts = _DIRECTIVE.findall(text)
    if len(set(parts)) != len(parts) or not {"d", "m", "Y"} <= set(parts) <= set(_PARTS):
        return False
    if ("M" in parts and "H" not in parts) or ("S" in parts and "M" not in parts):
        return False
    between = _DIRECTIVE.split(text)[2:-1:2]
    return all(between) and not re.search("[0-9%]", "".join(_DIRECTIVE.split(text)[::2]))


@lru_cache(1 << 6)
def _of_format(form: str) -> re.Pattern[str]:
    literal = _DIRECTIVE.split(form)
    return re.compile("".join(re.escape(t) if i % 2 == 0 else f"(?P<{t}>{_PARTS[t]})" for i, t in enumerate(literal)))


def _iso(text: str, form: str) -> str | None:
    found = _of_format(form).fullmatch(text)
    if found is None:
        return None
    part = {name: int(digits) for name, digits in found.groupdict().items()}
    day = f"{part['Y']:04}-{part['m']:02}-{part['d']:02}"
    return day + (f"T{part['H']:02}:{part.get('M', 0):02}:{part.get('S', 0):02}" if "H" in part else "")


@lru_cache(1 << 6)
def _digits(decimal: str, thousands: str) -> re.Pattern[str]:
    """A number without sign and unit."""
    grouped = f"[0-9]{{1,3}}(?:{_THOUSANDS[thousands]}[0-9]{{3}})+|" if thousands else ""
    behind = f"{re.escape(decimal)}(?P<{{}}>[0-9]+)"
    return re.compile(
        f"(?:(?P<whole>{grouped}[0-9]+)(?:{behind.format('decimals')})?|{behind.format('alone')})(?P<power>[eE][+-]?[0-9]+)?"
    )


def _numeral(text: str, writing: Writing) -> str | None:
    sign, rest = (text[0], text[1:]) if text[:1] in _SIGNS else ("", text)
    unit = writing.unit
    if unit and rest.startswith(unit):
        rest = rest.removeprefix(unit).lstrip()
        if not sign and rest[:1] in _SIGNS:
            sign, rest = rest[0], rest[1:]
    elif unit and rest.endswith(unit):
        rest = rest.removesuffix(unit).rstrip()
    found = _digits(writing.decimal, writing.thousands).fullmatch(rest)
    if found is None:
        return None
    whole = re.sub("[^0-9]", "", found["whole"] or "0")
    decimals = found["decimals"] or found["alone"]
    return ("-" if sign in ("-", "−") else "") + whole + (f".{decimals}" if decimals else "") + (found["power"] or "")
