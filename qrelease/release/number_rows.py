"""The answers to a release's questions about numbers, as lines of texts: what `numbers.csv` and the report show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from qrelease.queries.numeric import ONLY_BOUNDS

if TYPE_CHECKING:
    from qrelease.inference.number_tables import NumberTable
    from qrelease.release.release import Release

NUMBERS_FILE: Final = "numbers.csv"

COLUMNS: Final = ("question", "group", "value", "low", "high", "unbiased", "unbiased_low", "unbiased_high", "n", "note")
"""`value` and its interval are what to publish: of means, ratios, variances and counts, shrunk to what groups have in
common."""


def number_rows(release: Release) -> Iterator[tuple[str, ...]]:
    """A line for each group of each question, in order, without the header; numbers have six digits."""
    if release.measured_sums is None:
        return
    for question in release.measured_sums.questions:
        answer = release.measured_sums.answer(question, release.measurements)
        groups = _groups(answer)
        parts = (
            answer.model,
            answer.model_low,
            answer.model_high,
            answer.value,
            answer.low,
            answer.high,
            answer.count,
        )
        for group, only, *numbers in zip(
            groups, answer.bounded.tolist(), *(part.tolist() for part in parts), strict=True
        ):
            note = answer.note or (ONLY_BOUNDS if only else "")
            yield str(answer.question), group, *(f"{number:.6g}" for number in numbers), note


def _groups(answer: NumberTable) -> list[str]:
    """What each line is of: the labels of its group, and its cell or probability."""
    question = answer.question
    labels = [question.domain[name].labels for name in answer.names]
    named = [[known[code] for known, code in zip(labels, key, strict=True)] for key in answer.keys.tolist()]
    texts = [" * ".join(parts) or "all" for parts in named]
    if question.kind != "quantile":
        return texts
    probabilities = question.probabilities
    return [f"{label} (quantile {probabilities[i % len(probabilities)]})" for i, label in enumerate(texts)]
