"""A short repr for dataclasses of many fields: what says nothing is left out, and long values are cut."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

_ITEMS: Final = 3
_LETTERS: Final = 60


def brief(record: Any, names: Collection[str] | None = None) -> str:
    """The repr of a dataclass in one short line: without fields at their default, or that are None or empty.

    Numbers and costs have six digits; of several items the first three are shown.

    names  of the fields that may be shown; all by default
    """
    shown = []
    for field in fields(record):
        if names is not None and field.name not in names:
            continue
        value = getattr(record, field.name)
        empty = value is None or (isinstance(value, str | tuple | Mapping) and not value)
        if not empty and (field.default is MISSING or value != field.default):
            shown.append(f"{field.name}={_short(value)}")
    return f"{type(record).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= _LETTERS else f"{value[: _LETTERS - 3]}...")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_short(each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple):
        more = f", ... {len(value) - _ITEMS:,} more" if len(value) > _ITEMS else ""
        return f"({', '.join(map(_short, value[:_ITEMS]))}{more})"
    is_number = isinstance(value, float) or hasattr(value, "rounded")  # or a cost, which takes as many digits
    return f"{value:.6g}" if is_number else repr(value)
