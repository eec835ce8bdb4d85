"""JSON that every reader reads alike: each name once in its object."""

from __future__ import annotations

import json
from typing import Any, Final


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two members of one name one reader takes the first, and another the last."""
    found = dict(members)
    if len(found) < len(members):
        given = [name for name, _ in members]
        raise ValueError(f"the name {next(n for n in found if given.count(n) > 1)!r} is given twice")
    return found


decode: Final = json.JSONDecoder(object_pairs_hook=_each_once).decode
"""What a text says; `ValueError` for what is no JSON, and for a name that is given twice."""
