"""`qrelease answer`."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qrelease.data.sources.csv import write_rows
from qrelease.errors import InvalidInput, TooLarge

if TYPE_CHECKING:
    from qrelease.data.domain import Domain
    from qrelease.queries.numeric import NumericQuestion

_Query = TypeVar("_Query")
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class _Asked:
    """A query as it was given, and where it stands, if in a file."""

    text: str
    place: str


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_answer)
    parser.add_argument("release", type=Path, help="the folder of a release")
    parser.add_argument(
        "query",
        nargs="*",
        help="a condition, as in: age in 30..39 and income = '>50K'; or numbers by group: mean:age by sex*income",
    )
    parser.add_argument(
        "--file",
        type=Path,
        metavar="FILE",
        help="a file of queries, one a line, where # begins a comment; - is standard input",
    )
    parser.add_argument(
        "--format",
        choices=("text", "csv", "json"),
        default="text",
        help="how answers are printed (default: %(default)s); json prints one object a line",
    )
    parser.add_argument(
        "--where",
        default="",
        metavar="CONDITION",
        help="numbers only: count in only the records that meet this condition",
    )
    parser.add_argument(
        "--top", type=int, metavar="K", help="numbers only: print only the K groups with the largest values"
    )
    parser.add_argument(
        "--above", type=float, metavar="T", help="numbers only: print only the groups whose whole interval is above T"
    )
    parser.add_argument(
        "--percent", action="store_true", help="sums and counts only: print shares of the total of all groups"
    )
    parser.add_argument(
        "--cumulative", action="store_true", help="sums and counts by one column only: print running totals"
    )
    parser.add_argument(
        "--suppress",
        type=float,
        metavar="N",
        help="numbers only: leave the numbers blank, n too, of groups that have fewer than about N records; their rows"
        " stay",
    )


def _queries(arguments: argparse.Namespace) -> list[_Asked]:
    """The queries of the command line, then those of the file."""
    name = str(arguments.file)
    if arguments.file is None:
        lines: list[str] = []
    elif name == "-":
        name, lines = "standard input", sys.stdin.read().splitlines()
    else:
        try:
            lines = arguments.file.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise InvalidInput(f"{arguments.file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidInput(f"{arguments.file} is not UTF-8 text") from None
    found = [_Asked(text, "") for text in arguments.query]
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            found.append(_Asked(text, f"{name}, line {number}: "))
    if not found:
        raise InvalidInput("there is no condition or question to answer: give some, or a --file of them")
    return found


def _each(asked: Sequence[_Asked], queries: Sequence[_Query], make: Callable[[_Query], _Made]) -> list[_Made]:
    """What is made of each query. Where that fails for some of several, all of these are told, to be mended at once.

    asked  the queries as they were given
    """
    made, wrong = [], []
    for given, query in zip(asked, queries, strict=True):
        try:
            made.append(make(query))
        except (InvalidInput, TooLarge) as error:
            if len(asked) == 1:
                raise
            wrong.append(f"{given.place}{given.text!r}: {error}")
    if wrong:
        for told in wrong:
            print(f"qrelease: {told}", file=sys.stderr)
        raise InvalidInput(f"{len(wrong):,} of {len(asked):,} queries cannot be answered, so none was")
    return made


def _may_be(path: Path) -> bool:
    """Whether a path may be a release: a folder with a manifest, or a file that starts as JSON does."""
    from qrelease.release.manifest import MANIFEST

    if path.is_file():
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    return not path.is_dir() or (path / MANIFEST).exists()


def _answer(arguments: argparse.Namespace) -> None:
    from qrelease.release.manifest import MANIFEST
    from qrelease.release.number_caveats import caveats
    from qrelease.release.numbers import TableOptions, numbers_table
    from qrelease.release.reader import load

    if not _may_be(arguments.release):
        raise InvalidInput(
            f"{arguments.release} is no release: that is a folder that `qrelease release` wrote, with its {MANIFEST}"
        )
    release = load(arguments.release)
    asked = _queries(arguments)
    queries = _each(asked, [query.text for query in asked], partial(_understood, release.domain, arguments.where))
    options = TableOptions(
        arguments.top,
        above=arguments.above,
        percent=arguments.percent,
        cumulative=arguments.cumulative,
        suppress=arguments.suppress,
    )
    conditions = [query for query in queries if isinstance(query, str)]
    _check_options(arguments, conditions, beside=len(conditions) < len(queries))
    as_one = arguments.format == "csv" and len(queries) > 1
    if as_one and len(queries) != len(conditions) and not all(map(_is_one_row, queries)):
        raise InvalidInput(
            "one CSV table cannot hold several questions with groups, nor numbers and conditions together: ask for one"
            " at a time, or for --format json"
        )

    def answered(query: NumericQuestion | str) -> Any:
        return release.answer(query) if isinstance(query, str) else numbers_table(release, query, options)

    answers = _each(asked, queries, answered)
    if release.insecure:
        print("qrelease: INSECURE release: its noise came from a seed", file=sys.stderr)
    found = list(zip(queries, answers, strict=True))
    if conditions:
        _print([(query, answer) for query, answer in found if isinstance(query, str)], arguments.format)
    if as_one and not conditions:
        _print_rows(
            [(_heading(given.text, arguments.where), columns) for given, columns in zip(asked, answers, strict=True)]
        )
        return
    for given, (query, columns) in zip(asked, found, strict=True):
        if isinstance(query, str):
            continue
        _print_table(_heading(given.text, arguments.where), str(query), columns, arguments.format)
        if arguments.format == "text":
            for line in caveats(release, query, columns):
                print(line)


def _understood(domain: Domain, where: str, text: str) -> NumericQuestion | str:
    """A question about numbers, or the text of a condition."""
    from qrelease.data.predicates import parse
    from qrelease.queries.numeric import NumericQuestion

    if NumericQuestion.spells(text, domain.names):
        return _question(domain, text, where)
    try:
        parse(text, domain)
    except InvalidInput as wrong:
        question = "" if re.search("[=<>]", text) else NumericQuestion.meant(domain, text)
        raise InvalidInput(f"{wrong}{f' (did you mean {question}?)' if question else ''}") from None
    return text


def _check_options(arguments: argparse.Namespace, conditions: Sequence[str], *, beside: bool) -> None:
    """Raise `InvalidInput` for options that say nothing of a condition.

    beside  whether there are questions about numbers, too: which of their groups are shown is no matter of conditions
    """
    if not conditions:
        return
    names = ("where", "top", "above", "percent", "cumulative", "suppress")
    given = [name for name in names if getattr(arguments, name) not in (None, False, "")]
    wrong = [f"--{name}" for name in given if not (beside and name in ("top", "above"))]
    if wrong:
        plural = "are" if len(wrong) > 1 else "is"
        raise InvalidInput(
            f"{' and '.join(wrong)} {plural} for numbers, and {conditions[0]!r} is a condition: ask it by itself"
            f"{', or write both in one: (…) and (…)' if '--where' in wrong else ''}"
        )


def _question(domain: Domain, text: str, where: str) -> NumericQuestion:
    """A question about numbers, of records that meet a further condition."""
    from dataclasses import replace

    from qrelease.queries.numeric import NumericQuestion

    question = NumericQuestion.parse(domain, text)
    if not where.strip():
        return question
    both = f"({question.where}) and ({where})" if question.where else where
    return replace(question, where=both)


def _is_one_row(query: NumericQuestion | str) -> bool:
    """Whether it is a question about numbers whose answer is a single one: of no groups, bins or several quantiles."""
    if isinstance(query, str) or query.by or query.kind == "histogram":
        return False
    return len(query.probabilities) <= 1


def _print_rows(answers: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Answers of a single number each as one CSV table, with the questions as they were asked in the first column."""
    from qrelease.release.numbers import NUMBERS

    names = [name for name in answers[0][1] if name in NUMBERS]
    rows = [
        (text, *line)  # none where an option leaves it out
        for text, columns in answers
        for line in zip(*(_cells(columns[name]) for name in names), strict=True)
    ]
    write_rows(sys.stdout, ["question", *names], [rows])


def _heading(text: str, where: str) -> str:
    """A question in the words in which it was asked, and the condition that was given beside it."""
    if not where.strip():
        return text.strip()
    comma = "," if re.search(r"\bwhere\b", text) else ""  # both conditions are meant
    return f"{text.strip()}{comma} where {where.strip()}"


def _print_table(heading: str, query: str, columns: Mapping[str, Any], form: str) -> None:
    """A table of numbers: aligned for people, below a heading, as CSV, or as JSON with an object a line."""
    names = list(columns)
    rows = list(zip(*(_cells(column) for column in columns.values()), strict=True))
    if form == "json":
        for row in rows:
            print(json.dumps({"query": query, **dict(zip(names, row, strict=True))}, ensure_ascii=False))
    elif form == "csv":
        write_rows(sys.stdout, names, [rows])
    else:
        lines = [names, *([_shown(cell) for cell in row] for row in rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
        print(heading)
        for line in lines:
            print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _cells(column: Any) -> list[Any]:
    """Values of a column, None where one is missing."""
    missing = [False] * len(column.values) if column.missing is None else column.missing.tolist()
    return [None if gone else value for value, gone in zip(column.values.tolist(), missing, strict=True)]


def _shown(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _print(answers: Sequence[tuple[str, Any]], form: str) -> None:
    """Print answers as lines for people, as CSV, or as JSON, an object a line; what is not known is empty or null."""
    if form == "text":
        for query, answer in answers:
            print(f"{answer}\t{query}")
        return
    rows = [{"query": query, **_numbers(answer)} for query, answer in answers]
    if form == "json":
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return
    write_rows(sys.stdout, list(rows[0]), [[tuple(row.values()) for row in rows]])


def _numbers(answer: Any) -> dict[str, float | None]:
    """The parts of an answer under the names of answers.csv; None for one that is not known."""
    parts = {"answer": answer.value, "noisy": answer.noisy, "error_95": answer.error, "model_95": answer.model_error}
    return {name: None if math.isnan(value) else value for name, value in parts.items()}
