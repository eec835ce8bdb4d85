"""JSON that every reader reads alike: each name once in its object, and numbers that are numbers."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two members of one name one reader takes the first, and another the last."""
    found = dict(members)
    if len(found) < len(members):
        given = [name for name, _ in members]
        raise ValueError(f"the name {next(n for n in found if given.count(n) > 1)!r} is given twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")


decode: Final = json.JSONDecoder(object_pairs_hook=_each_once, parse_constant=_no_number).decode
"""What a text says; `ValueError` for what is no JSON, for a name that is given twice, and for NaN and infinities."""
