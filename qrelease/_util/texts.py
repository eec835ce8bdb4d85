"""Values and numbers as short texts for messages: on one line, cut where they are long."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MISSING_MARKS = frozenset({"", "?", ".", "-", "na", "n/a", "nan", "nat", "null", "none"})
"""Texts, in small letters, that often stand for a missing value in files."""

_MAX_MISSPELLED = 64  # characters of a text for which names like it are looked for
_LIKENESS = 0.65  # of the letters of two texts, in order, which both have: at .6 'nope' was taken for 'income'
_MAX_COMPARED = 1000  # names among which they are looked for


_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)(?: (N\b|\d+(?:\.\d+)?(?:e-?\d+)?))?")
"""An option of the command line in a sentence, and the number that is its value."""

_NAMED = re.compile(r"\b(\w+) \(--\1\)")
"""A word, and the option of that name."""


def for_python(text: str) -> str:
    """A sentence with the options of the command line as arguments of Python: `--delta 1e-09` is `delta=1e-09`.

    Of what is named by its own word, `a delta (--delta)`, the word is left.
    """
    text = _NAMED.sub(r"\1", text)
    return _OPTION.sub(lambda m: m[1].replace("-", "_") + (f"={m[2]}" if m[2] else ""), text)


def quoted(text: str) -> str:
    """A value quoted on one line, cut where it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def listed(items: Iterable[object], most: int = 8) -> str:
    """The first few items of a list, in words."""
    shown = [repr(i) if isinstance(i, str) else f"{i:g}" for i in items]
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "")


def readable(count: int) -> str:
    """A whole number in a text: `65,536`; from 10^12 on as a power of two, `2^55`, or `about 2^60` where it is none."""
    if count < 10**12:
        return f"{count:,}"
    power = round(math.log2(count))
    return f"2^{power}" if count == 1 << power else f"about 2^{power}"


def rounded(number: float) -> str:
    """A size to three digits, and whole from a thousand on: `0.0123`, `12.3`, `12,345`."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


def meant(text: str, known: Sequence[str]) -> str:
    """A question for an unknown text, where a known one is near it; else nothing."""
    near = nearest(text, known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def nearest(text: str, known: Sequence[str], most: int) -> list[str]:
    """Those of some known texts that are near another, the nearest first; none where there are too many to compare."""
    if len(text) > _MAX_MISSPELLED or len(known) > _MAX_COMPARED:
        return []
    lower = {name.lower(): name for name in known}
    return [lower[name] for name in get_close_matches(text.lower(), lower, most, _LIKENESS)]


def aligned(rows: Sequence[Sequence[str]], names: int = 0) -> list[str]:
    """Columns of text, each as wide as its widest cell: the one with names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i == names else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
