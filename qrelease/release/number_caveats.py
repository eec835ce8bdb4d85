"""What a reader of answers about numbers has to know of their intervals: the same on the terminal and in Python."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from qrelease._util import callers
from qrelease.errors import InvalidInput, ModelAloneWarning
from qrelease.queries.measures import needs_of
from qrelease.release.unmeasured import unlinked_columns

if TYPE_CHECKING:
    from qrelease.queries.numeric import NumericQuestion
    from qrelease.release.frames import Column
    from qrelease.release.release import Release

MODEL: Final = "model"
"""The source of an answer that the model alone gives."""

_OTHERS: Final = {
    "clipped": "no interval: values were clipped to narrower bounds than the schema's, and nobody knows how far"
    " that moved the answers",
    "bounds": "the interval is all that the column's bounds allow: there is too much noise for so few records to"
    " say more; a larger epsilon, a --delta, or larger and fewer groups help",
    "noise": "noise moved the value to a bound of the column: only the interval says something; larger and fewer"
    " groups, or narrower bounds that are public knowledge (within, or --clip), help",
}


def caveats(release: Release, question: NumericQuestion, table: Mapping[str, Column]) -> list[str]:
    """A line for each reason why some intervals of a table say nothing, as the terminal shows them."""
    sources = _sources(table)
    said = {MODEL: f"{_of_model(release, question)}; measure it: {_by_command(question)}"} if MODEL in sources else {}
    return [_of_lines(sources, source, told) for source, told in {**said, **_OTHERS}.items() if source in sources]


def warn_of_model(release: Release, question: NumericQuestion, table: Mapping[str, Column]) -> None:
    """A `ModelAloneWarning` where some answers are the model's alone: one for all lines of a table."""
    sources = _sources(table)
    if MODEL in sources:
        ways = f"{_by_python(question)}, or {_by_command(question)}"
        told = _of_lines(sources, MODEL, f"{_of_model(release, question)}; measure it: {ways}")
        warnings.warn(told, ModelAloneWarning, stacklevel=callers.level())


def _sources(table: Mapping[str, Column]) -> list[str]:
    """The source of each line; empty where there is no value to tell of, or a count of a model that has an interval."""
    values, low, sources = table["value"], table["low_95"], table["source"].values.tolist()
    valued = [True] * len(sources) if values.missing is None else (~values.missing).tolist()
    bounded = [True] * len(sources) if low.missing is None else (~low.missing).tolist()
    rows = zip(sources, valued, bounded, strict=True)
    return ["" if source == MODEL and (has_ends or not is_there) else source for source, is_there, has_ends in rows]


def _of_lines(sources: Sequence[str], source: str, told: str) -> str:
    count = sources.count(source)
    return told if count == len(sources) else f"{count} of {len(sources)} lines ({source}): {told}"


def _of_model(release: Release, question: NumericQuestion) -> str:
    """That a model says something, and what it does not know of how the columns depend on each other."""
    lacking = unlinked_columns(release, question.axes)
    return f"no interval: the model alone says this, and it may be far off{f' ({lacking})' if lacking else ''}"


def _by_command(question: NumericQuestion) -> str:
    """The option of `qrelease release` that has a question measured: sums of it, where the schema allows any."""
    if _is_counted(question):
        return f"qrelease release --workload {shlex.quote('marginals:' + '*'.join(_names(question)))}"
    return f"qrelease release --numbers {shlex.quote(str(question))}"


def _by_python(question: NumericQuestion) -> str:
    """The same of a `Synthesizer`."""
    if _is_counted(question):
        return f"workload=qr.Workload.marginals(domain, [{_names(question)}]) of a qr.Synthesizer"
    return f"numbers=[{str(question)!r}] of a qr.Synthesizer"


def _is_counted(question: NumericQuestion) -> bool:
    """Whether counts are to be measured for a question, as there are no exact values of what is asked to be summed."""
    if question.domain.counts_once:
        return True
    try:
        needs_of(question, {})
    except InvalidInput:
        return True
    return False


def _names(question: NumericQuestion) -> list[str]:
    return [question.domain.names[axis] for axis in question.axes]
