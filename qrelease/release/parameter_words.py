"""The parameters of a mechanism, as a card and a page tell them: names in words, values as a reader writes them."""

from __future__ import annotations

from collections.abc import Mapping

_PARAMETERS: Mapping[str, str] = {
    "records": "records, about",
    "table": "a synthetic table was asked for",
    "error": "error of unbiased answers, before the fit, records (root mean square)",
    "to_choose": "to choose the mechanism",
    "no_table": "why there is no synthetic table",
}
"""Names of parameters that are no words a reader of the card knows."""


def worded(name: str) -> str:
    """A parameter's name in words, as far as the code has one."""
    return _PARAMETERS.get(name, name.replace("_", " "))


def shown(value: object) -> object:
    """A parameter's value as a reader would write it, numbers to four digits; plain types."""
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return float(f"{value:.4g}")
        case None:
            return "by its rule"
        case Mapping():
            return "; ".join(f"{worded(str(k))}: {shown(v)}" for k, v in value.items()) or "none"
        case list() | tuple():
            return ", ".join(f"({shown(v)})" if isinstance(v, list | tuple) else str(shown(v)) for v in value) or "none"
    return value
