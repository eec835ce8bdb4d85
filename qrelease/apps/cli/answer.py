"""`qrelease answer`."""

import argparse
import csv
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_answer)
    parser.add_argument("release", type=Path, help="the folder of a release")
    parser.add_argument("query", nargs="*", help="a condition, as in: age in 30..39 and income = '>50K'")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="conditions, one a line; - is standard input; # begins a comment"
    )
    parser.add_argument(
        "--format", choices=("text", "csv", "json"), default="text", help="default: %(default)s; json has one a line"
    )


def _queries(arguments: argparse.Namespace) -> list[str]:
    """The queries of the command line, then those of the file."""
    if arguments.file is None:
        lines: list[str] = []
    elif str(arguments.file) == "-":
        lines = sys.stdin.read().splitlines()
    else:
        try:
            lines = arguments.file.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise InvalidInput(f"{arguments.file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidInput(f"{arguments.file} is not UTF-8 text") from None
    found = [*arguments.query, *(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))]
    if not found:
        raise InvalidInput("there is no condition to answer: give some, or a --file of them")
    return found


def _may_be(path: Path) -> bool:
    """Whether a path may be a release: a folder with a manifest, or a file that starts as JSON does."""
    from qrelease.release.manifest import MANIFEST

    if path.is_file():
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    return not path.is_dir() or (path / MANIFEST).exists()


def _answer(arguments: argparse.Namespace) -> None:
    from qrelease.data.predicates import parse
    from qrelease.release.manifest import MANIFEST
    from qrelease.release.reader import load

    if not _may_be(arguments.release):
        raise InvalidInput(
            f"{arguments.release} is no release: that is a folder that `qrelease release` wrote, with its {MANIFEST}"
        )
    release = load(arguments.release)
    queries = _queries(arguments)
    for query in queries:  # all are understood, or none is answered
        parse(query, release.domain)
    if release.insecure:
        print("qrelease: INSECURE release: its noise came from a seed", file=sys.stderr)
    _print([(query, release.answer(query)) for query in queries], arguments.format)


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
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _numbers(answer: Any) -> dict[str, float | None]:
    """The parts of an answer under the names of answers.csv; None for one that is not known."""
    parts = {"answer": answer.value, "noisy": answer.noisy, "error_95": answer.error, "model_95": answer.model_error}
    return {name: None if math.isnan(value) else value for name, value in parts.items()}
