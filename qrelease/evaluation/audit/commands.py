"""Audits through the command line: commands run on neighbouring tables, with everything that they print and write.

What is printed is compared line by line, and in each line the words apart from the numbers: a number may be noisy, the
words around it say nothing of the table.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.schema import to_toml
from qrelease.data.sources.csv import write_rows
from qrelease.data.table import Table
from qrelease.evaluation.audit.observed import SHAPE, domain
from qrelease.privacy.costs import Cost, Neighbours


class Ran(NamedTuple):
    """What a command did: its exit code, what it printed, and the lines that it logged beside that."""

    exit: int
    stdout: str
    stderr: str
    log: Sequence[str] = ()


Running = Callable[[Sequence[str], Path], Ran]
"""How a command is run, with these arguments and in this folder."""


@dataclass(frozen=True)
class Scene:
    """Commands that are run one after another over a table, `people.csv`, and what is in its schema.

    With parents the first record of each person is a row of `parents.csv`, which has the first column, and the others
    are the children in `people.csv`, which has the second: so a person of one record is a parent without children.

    name      of whose fields may differ, in the list of noisy ones
    commands  the arguments of each, where {cost} is what each may cost, {total} the budget of a ledger for all of them,
              {of_records} the relation, and {common} the options that all have
    domain    the columns of `people.csv`, whose cells are the texts 0, 1, 2
    children  of a parent that are kept, at most, unless the audit says how many; None where there are no parents
    """

    name: str
    commands: tuple[str, ...]
    domain: Domain
    children: int | None = None


_NUMBERS: Final = Domain(
    (
        Attribute("a", "category", categories=("0", "1")),
        Attribute("b", "number", edges=(0.0, 1.0, 2.0, 3.0), within=(Fraction(0), Fraction(2)), step=Fraction(1)),
    )
)
_LEARNED_BINS: Final = Attribute("b", "number", within=(Fraction(0), Fraction(15)), step=Fraction(1), learn=3)
_BINS: Final = Domain((_NUMBERS["a"], _LEARNED_BINS))
_OPEN: Final = Domain((Attribute("a", "category", learn=3), _LEARNED_BINS))

_PUBLIC, _PARENTS = "public.csv", "parents.csv"
_RELEASE: Final = "release people.csv --out out {cost} {of_records} {common}"
_LEARN: Final = "schema learn people.csv --out learned.toml {cost} {of_records} {common}"
_QUANTILES: Final = "--numbers quantile(.5):b --numbers mean:b"
_QUESTIONS: Final = "--numbers mean:b --numbers sum:b --numbers ratio:a=1 --numbers histogram:b --numbers variance:b"


def estimated(statistic: str) -> Scene:
    """An estimate of a statistic."""
    return Scene(
        "estimate", (f"estimate people.csv {statistic} --out out {{cost}} {{of_records}} {{common}}",), _NUMBERS
    )


def release_command(mechanism: str) -> Scene:
    """A release by a mechanism."""
    return Scene(mechanism, (f"{_RELEASE} --mechanism {mechanism}",), domain())


SCENES: Final[Mapping[str, tuple[Scene, ...]]] = {
    "estimate": tuple(map(estimated, ("mean:b", "quantile:b", "most-common:a/b,k=2"))),
    "learn": tuple(Scene("learn", (_LEARN,), columns) for columns in (_BINS, _OPEN)),
    "score": (
        Scene(
            "score",
            (
                f"{_RELEASE} --mechanism laplace {{total}}",
                f"score people.csv {_PUBLIC} --json {{cost}} {{common}}",
                f"score people.csv {_PUBLIC} {{cost}} {{common}}",
            ),
            _NUMBERS,
        ),
    ),
    "numbers": (
        Scene("numbers", (f"{_RELEASE} --mechanism laplace {_QUESTIONS}",), _NUMBERS),
        Scene("numbers", (f"{_RELEASE} --mechanism sums --clip b=learn {_QUESTIONS}",), _NUMBERS),
        Scene("numbers", (f"{_RELEASE} --mechanism sums --records 1000000 {_QUANTILES}",), _NUMBERS),
    ),
    "parent": (Scene("parent", (f"{_RELEASE} --mechanism laplace --parent {_PARENTS}",), domain(), 2),),
    "both": (Scene("both", (f"{_RELEASE} --mechanism laplace --parent {_PARENTS} --both",), domain(), 2),),
    "learned": (
        *(Scene("learned", (f"{_RELEASE} --mechanism laplace",), columns) for columns in (_BINS, _OPEN)),
        Scene("learned", (f"{_RELEASE} --mechanism gaussian",), _OPEN),  # charged as one with its schema
    ),
}
"""What is attacked besides the mechanisms of a release, by its name."""


def started(command: Sequence[str] = (sys.executable, "-m", "qrelease")) -> Running:
    """Runs each command in a process of its own, as a user does."""

    def run(arguments: Sequence[str], folder: Path) -> Ran:
        done = subprocess.run(  # noqa: S603  its own command line
            [*command, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


def write_inputs(here: Path, scene: Scene, table: Table) -> None:
    """What the commands read: the table, its schema, and a public table of the same columns."""
    schema = replace(scene.domain, person=table.domain.person)
    (here / "schema.toml").write_text(to_toml(schema), encoding="utf-8")
    columns: dict[str, list[object]] = {name: codes.tolist() for name, codes in zip(SHAPE, table.columns, strict=True)}
    if table.persons is not None and table.person_column is not None:
        columns[table.person_column] = [f"p{digest:x}" for digest, _ in table.persons.unit.tolist()]
    if scene.children is None:
        _write(here / "people.csv", columns, range(len(table)))
    else:
        (parent, child, key), whose = columns, [*columns.values()][-1]
        first = {person: row for row, person in reversed([*enumerate(whose)])}
        others = sorted({*range(len(table))} - {*first.values()})
        _write(here / _PARENTS, {name: columns[name] for name in (key, parent)}, sorted(first.values()))
        _write(here / "people.csv", {name: columns[name] for name in (key, child)}, others)
    if any(_PUBLIC in text for text in scene.commands):
        (here / _PUBLIC).write_text("a,b\n" + "0,0\n1,2\n1,1\n" * 8, encoding="utf-8")


def _write(file: Path, columns: Mapping[str, Sequence[object]], chosen: Iterable[int]) -> None:
    """Some rows of a table as CSV."""
    with file.open("w", encoding="utf-8", newline="") as out:
        write_rows(out, list(columns), [([values[row] for values in columns.values()] for row in chosen)])


def filled_arguments(text: str, cost: Cost, neighbours: Neighbours, seed: int) -> list[str]:
    """The arguments of a command."""
    prices = cost.to_json().items()
    return text.format(
        cost=" ".join(f"--{name} {price!r}" for name, price in prices),
        total=" ".join(f"--total-{name} {4 * price!r}" for name, price in prices),
        of_records=f"--neighbours {neighbours.value}",
        common=f"--schema schema.toml --insecure-seed {seed} --ledger people.ledger",
    ).split()
