"""The answers to a release's questions about numbers, as lines of texts: what `numbers.csv` and the report show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from qrelease.release.release import Release

NUMBERS_FILE: Final = "numbers.csv"

COLUMNS: Final = ("question", "group", "value", "low", "high", "unbiased", "unbiased_low", "unbiased_high", "n", "note")
"""`value` and its interval are what to publish: of a mean and a ratio, shrunk to what groups have in common."""


def number_rows(release: Release) -> Iterator[tuple[str, ...]]:
    """A line for each group of each question, in order, without the header; numbers have six digits."""
    if release.measured_sums is None:
        return
    for question in release.measured_sums.questions:
        answer = release.number(question)
        for row in answer.rows():
            numbers = (f"{row[name]:.6g}" for name in COLUMNS[2:-1])
            yield str(answer.question), str(row["group"]), *numbers, answer.note
