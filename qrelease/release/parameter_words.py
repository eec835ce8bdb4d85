"""The parameters of a mechanism, as a card and a page tell them: names in words, values as a reader writes them."""

from __future__ import annotations

from collections.abc import Mapping

_PARAMETERS: Mapping[str, str] = {
    "records": "records, about",
    "table": "only mechanisms that give a synthetic table were taken into account",
    "error": "error of unbiased answers, before the fit, records (root mean square)",
    "to_choose": "to choose the mechanism",
    "predicted_for": "about how many records the errors were predicted for",
    "no_table": "why there is no synthetic table",
    "counted_with_sums": "numbers of the measurements that were drawn with the sums",
}
"""Names of parameters that are no words a reader of the card knows."""


_IN_SIGMAS: Mapping[str, str] = {
    "error": "error of unbiased answers, before the fit (root mean square), in units of the σ that one count needs",
    "bound": "the least such error that any noise of this kind can have, in the same units",
}
"""Of a plan that has a `bound`, which is in units of σ: that of the noise by which one count has the release's cost."""


def in_words(parameters: Mapping[str, object]) -> dict[str, object]:
    """Parameters with names in words, as far as the code has some, and values as a reader would write them."""
    names = {**_PARAMETERS, **_IN_SIGMAS} if "bound" in parameters else _PARAMETERS
    return {names.get(name, name.replace("_", " ")): shown(value) for name, value in parameters.items()}


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
            return "; ".join(f"{name}: {told}" for name, told in in_words(value).items()) or "none"
        case list() | tuple():
            return ", ".join(f"({shown(v)})" if isinstance(v, list | tuple) else str(shown(v)) for v in value) or "none"
    return value
