"""What a text that is no question about numbers probably means, in the spelling of `queries.numeric`.

Read more freely than there: other words for the kinds (`median`, `avg`, `share`), brackets or a space for the colon
(`mean(age)`, `mean of age`), probabilities anywhere (`quantile:age,q=0.5`, `p90:age`, `quantile(50%):age`), and groups
after `group by`, `per` or `for each`, joined by commas or `and`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from qrelease._util.texts import nearest
from qrelease.data.conditions import cell_text, name_text

if TYPE_CHECKING:
    from qrelease.data.domain import Attribute, Domain

_WORDS: Final = {
    "median": "quantile(.5)",
    "percentile": "quantile(.9)",
    "quartile": "quantile(.25,.5,.75)",
    "iqr": "quantile(.25,.75)",
    "min": "quantile(0)",
    "minimum": "quantile(0)",
    "max": "quantile(1)",
    "maximum": "quantile(1)",
    "range": "quantile(0,1)",
    "p": "quantile(.5)",
    "q": "quantile(.5)",
    "avg": "mean",
    "average": "mean",
    "total": "sum",
    "var": "variance",
    "std": "variance",
    "stddev": "variance",
    "stdev": "variance",
    "sd": "variance",
    "share": "ratio",
    "proportion": "ratio",
    "fraction": "ratio",
    "percent": "ratio",
    "percentage": "ratio",
    "rate": "ratio",
    "hist": "histogram",
    "distribution": "histogram",
    "mode": "histogram",
    "number": "count",
    "n": "count",
}
"""Other words for kinds of questions, and how the question begins that they mean; any may have an s at its end."""

_KINDS: Final = ("sum", "mean", "variance", "quantile", "ratio", "histogram", "count")
_IN_QUOTES: Final = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`"""
_CLAUSES: Final = tuple(
    re.compile(rf"{_IN_QUOTES}|(?<![\w.])(?i:(?P<by>{by})|(?P<where>{where}))(?![\w.])\s*[=:]?")
    for by, where in (
        (r"(?:group(?:ed|s)?\s+)?by", "where"),
        (r"(?:group(?:ed|s)?\s+)?by|per|for\s+each", "where|if|for|with|when"),
    )
)
"""Where groups and conditions begin; first without words that may be part of a column's name."""

_HEAD: Final = re.compile(r"\s*(?P<word>[^\W\d_]+)_?(?P<number>\d*\.?\d+)?(?!\w)\s*(?P<rest>.*)", re.DOTALL)
_PROBABILITY: Final = re.compile(r"(?:\w+\s*=\s*)?(?P<number>\d+\.?\d*|\.\d+)\s*(?P<percent>%|th\b)?")
_BETWEEN_PIECES: Final = re.compile(r"[()\[\]{},;:*+&]")
_JOINED: Final = re.compile(r"[()\[\]{},;*+&]|(?<!\w)(?i:and|x)(?!\w)")
_MAX_TEXT: Final = 1000  # characters of a text that is read


def questions_meant(domain: Domain, text: str) -> Iterator[str]:
    """What a text may mean, the likeliest first; whether a question is valid over the domain is not checked.

    Parameters
    ----------
    domain : Domain
        The universe, by whose columns the text is read.
    text : str
        Any text.

    Yields
    ------
    str
        A question, or nothing where none can be told.

    Examples
    --------
    >>> from qrelease.data.domain import Domain
    >>> domain = Domain.coded({"age": 90, "sex": 2, "race": 3})
    >>> next(questions_meant(domain, "quantile:age,q=0.5"))
    'quantile(.5):age'
    >>> next(questions_meant(domain, "average age group by sex, race"))
    'mean:age by sex*race'
    """
    for clauses in _CLAUSES if len(text) <= _MAX_TEXT else ():
        asked, by, where = _apart(clauses, text)
        head = _HEAD.fullmatch(asked)
        start = None if head is None else _start(head["word"])
        groups = _columns(domain, by, _JOINED)
        if head is None or start is None or groups is None:
            continue
        found = _question(domain, start, head["number"], head["rest"].strip(" \t:;,=-"), head["word"])
        if found is None:
            continue
        question, further = found
        groups = list(dict.fromkeys([*further, *groups]))
        grouped = f" by {'*'.join(map(name_text, groups))}" if groups else ""
        yield f"{question}{grouped}{f' where {where}' if where else ''}"


def _apart(clauses: re.Pattern[str], text: str) -> tuple[str, str, str]:
    """What is asked, the groups and the condition of a text; of several conditions the conjunction."""
    parts: dict[str, list[str]] = {"asked": [], "by": [], "where": []}
    name, start = "asked", 0
    for match in clauses.finditer(text):
        if match.lastgroup is None:
            continue
        parts[name].append(text[start : match.start()])
        name, start = match.lastgroup, match.end()
    parts[name].append(text[start:])
    asked, by, where = ([part.strip(" \t,;") for part in parts[n]] for n in ("asked", "by", "where"))
    joined = where[0] if len(where) == 1 else " and ".join(f"({part})" for part in where)
    return " ".join(asked), ",".join(by), joined


def _start(word: str) -> str | None:
    """How the question begins that a word means: a kind, perhaps with probabilities."""
    lower = word.lower()
    known = {kind: kind for kind in _KINDS} | _WORDS
    for name in (lower, lower.removesuffix("s"), *nearest(lower, [w for w in known if len(w) > 2], 1)):
        if name in known:
            return known[name]
    return None


def _question(domain: Domain, start: str, number: str | None, rest: str, word: str) -> tuple[str, list[str]] | None:
    """A question without its groups and condition, and the further groups that were named as columns."""
    kind = start.partition("(")[0]
    if kind == "ratio":
        condition = _condition(domain, rest, several=word.lower().endswith("s"))
        return None if condition is None else (condition, [])
    texts, probabilities = [], [] if number is None else [_probability(number, percent=False)]
    for piece in _split(_BETWEEN_PIECES, rest):
        match = _PROBABILITY.fullmatch(piece)
        if match is None:
            texts.append(re.sub(r"\A(?:of|column\s*=)\s*(?=\S)", "", piece))
        else:
            probabilities.append(_probability(match["number"], percent=match["percent"] is not None))
    columns = _columns(domain, ",".join(texts), _BETWEEN_PIECES)
    if columns is None or not all(0 <= p <= 1 for p in probabilities):
        return None
    if kind == "count":
        return "count", columns
    if not columns or any(domain[name].kind != "category" for name in columns[1:]):
        return None
    if kind == "quantile" and probabilities:
        start = f"quantile({','.join(f'{p:g}'.removeprefix('0') or '0' for p in probabilities)})"
    elif start == "quantile":
        start = "quantile(.5)"
    return f"{start}:{name_text(columns[0])}", columns[1:]


def _condition(domain: Domain, text: str, *, several: bool) -> str | None:
    """The share that is asked for: of a condition, or, where a column alone is named, of one of its cells."""
    text = re.sub(r"\A(?i:of)\s+", "", text)
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    if not text:
        return None
    name = _name(domain, text)
    if name is None:
        return f"ratio:{text}"
    attribute = domain[name]
    if several:
        return f"histogram:{name_text(name)}"
    return f"ratio:{_one_cell(attribute)}" if attribute.size and not attribute.undecided else None


def _one_cell(attribute: Attribute) -> str:
    """A condition on a column, as an example: its cell `true`, else the first of a category, the middle of numbers."""
    if attribute.kind == "category":
        return cell_text(attribute, next((c for c, t in enumerate(attribute.categories) if t.lower() == "true"), 0))
    return cell_text(attribute, attribute.values // 2)


def _probability(text: str, *, percent: bool) -> float:
    """A probability, also written as a percentage: 50, 50 %, .5."""
    value = float(text)
    return value / 100 if percent or (value > 1 and "." not in text) else value


def _columns(domain: Domain, text: str, between: re.Pattern[str]) -> list[str] | None:
    """The columns that a text names; None where one of them is none."""
    found: list[str] = []
    for piece in _split(between, text):
        name = _name(domain, piece)
        several = [name] if name is not None else [_name(domain, part, similar=True) for part in piece.split()]
        for column in several:
            if column is None:
                return None
            found.append(column)
    return found


def _name(domain: Domain, text: str, *, similar: bool = False) -> str | None:
    """The column of a name, which may be in quotes, or in capitals; where `similar`, also of one that is near it."""
    plain = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"`" else text
    if plain in domain.names:
        return plain
    found = [name for name in domain.names if name.lower() == plain.lower()]
    found = found or (nearest(plain, domain.names, 1) if similar else [])
    return found[0] if found else None


def _split(between: re.Pattern[str], text: str) -> list[str]:
    """The parts of a text between separators that are not in quotes; none is empty."""
    parts, start = [], 0
    for match in re.finditer(f"{_IN_QUOTES}|(?P<sign>{between.pattern})", text):
        if match["sign"] is not None:
            parts.append(text[start : match.start()])
            start = match.end()
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]
