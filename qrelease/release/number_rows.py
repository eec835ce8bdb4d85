"""The answers to a release's questions about numbers: as lines of texts, which `numbers.csv` and the report show, and
as a typed table with a column for each attribute, which is `numbers.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from qrelease._util.typing import Floats
from qrelease.queries.numeric import AT_A_BOUND, ONLY_BOUNDS
from qrelease.release.frames import Column, key_name, told_apart

if TYPE_CHECKING:
    from qrelease.inference.number_tables import NumberTable
    from qrelease.release.release import Release

NUMBERS_FILE: Final = "numbers"
"""With `.csv` or `.parquet` behind it."""

COLUMNS: Final = ("question", "group", "value", "low", "high", "unbiased", "unbiased_low", "unbiased_high", "n", "note")
"""`value` and its interval are what to publish: shrunk to what groups have in common."""


def number_rows(release: Release) -> Iterator[tuple[str, ...]]:
    """A line for each group of each question, in order, without the header; numbers have six digits."""
    for answer in release.number_tables():
        parts = (part.tolist() for part in _parts(answer))
        for group, note, *numbers in zip(_groups(answer), _notes(answer), *parts, strict=True):
            yield str(answer.question), group, *(f"{number:.6g}" for number in numbers), note


def number_columns(release: Release) -> dict[str, Column]:
    """The same lines as a table: in place of `group` a column for each attribute that any question groups by, null in
    the lines of the others; and `probability`, where there are quantiles. Numbers have all digits.
    """
    answers = [*release.number_tables()]
    sizes = [len(answer) for answer in answers]
    question, *_, note = COLUMNS
    keys: dict[str, Column] = {}
    for name in dict.fromkeys(name for answer in answers for name in answer.names):
        keys[key_name(name, _OWN, release.domain.names)] = _texts([_labels(answer, name) for answer in answers])
    probabilities = [_probabilities(answer) for answer in answers]
    if any(answer.question.kind == "quantile" for answer in answers):
        joined = np.concatenate(probabilities)
        keys["probability"] = Column(joined, np.isnan(joined))
    numbers = (np.concatenate(parts) for parts in zip(*map(_parts, answers), strict=True))
    return {
        question: _texts([[str(a.question)] * size for a, size in zip(answers, sizes, strict=True)]),
        **keys,
        **{name: Column(part, np.isnan(part)) for name, part in zip(COLUMNS[2:-1], numbers, strict=True)},
        note: _texts([[text or None for text in _notes(answer)] for answer in answers]),
    }


_OWN: Final = (*COLUMNS, "probability")


def _parts(answer: NumberTable) -> tuple[Floats, ...]:
    """The numbers of each line, in the order of `COLUMNS`."""
    of_model = answer.model, answer.model_low, answer.model_high
    return (*of_model, answer.value, answer.low, answer.high, answer.count)


def _notes(answer: NumberTable) -> list[str]:
    told = np.select([answer.bounded, answer.at_bound], [ONLY_BOUNDS, AT_A_BOUND], "").tolist()
    said = [answer.note or text for text in told]
    return ["; ".join(part for part in (answer.way, note) if part) for note in said]


def _labels(answer: NumberTable, name: str) -> Sequence[str | None]:
    """The label of each line in a column; None where the question does not group by it."""
    if name not in answer.names:
        return [None] * len(answer)
    labels = told_apart(answer.question.domain[name])
    return [labels[code] for code in answer.keys[:, answer.names.index(name)].tolist()]


def _probabilities(answer: NumberTable) -> Floats:
    """Which quantile each line is; NaN where it is none."""
    if answer.question.kind != "quantile":
        return np.full(len(answer), np.nan)
    return np.resize(np.array(answer.question.probabilities, np.float64), len(answer))


def _texts(parts: Iterable[Sequence[str | None]]) -> Column:
    values = [text for part in parts for text in part]
    return Column(np.array(values, dtype=object), np.array([text is None for text in values], np.bool_))


def _groups(answer: NumberTable) -> list[str]:
    """What each line is of: the labels of its group, and its cell or probability."""
    question = answer.question
    labels = [told_apart(question.domain[name]) for name in answer.names]
    named = [[known[code] for known, code in zip(labels, key, strict=True)] for key in answer.keys.tolist()]
    texts = [" * ".join(parts) or "all" for parts in named]
    if question.kind != "quantile":
        return texts
    probabilities = question.probabilities
    return [f"{label} (quantile {probabilities[i % len(probabilities)]})" for i, label in enumerate(texts)]
