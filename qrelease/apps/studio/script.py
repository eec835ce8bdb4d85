"""Exports what was done in the studio as a shell or Python script that makes the same release again."""

from __future__ import annotations

import shlex
from typing import Final

from qrelease.apps.studio.releasing import Releasing
from qrelease.data.sources.files import dataset_name
from qrelease.privacy.costs import cost_of

_SHELL: Final = """\
#!/bin/sh
# Made by qrelease studio: the release {name}, once more. It is another charge to the same ledger,
# which refuses what does not fit. Give it the folder that it shall make: sh release.sh FOLDER
set -eu
{command} \\
    --out "${{1:-{again}}}"
"""

_PYTHON: Final = """\
\"\"\"Made by qrelease studio: the release {name}, once more.

It is another charge to the same ledger, which refuses what does not fit. Give it the folder that it shall make:
python release.py FOLDER
\"\"\"

import sys

import qrelease as qr

table = qr.Table.read({data!r}, {schema!r})
{workload}
cost = {cost!r}
with qr.Ledger.open({ledger!r}, dataset={dataset!r}, neighbours={neighbours!r}) as ledger:
    release = qr.Curator(table, ledger).release({mechanism}, workload, cost)
    print(release)
    print("spent in all:", ledger.spent, "of", ledger.total)
release.save(sys.argv[1] if len(sys.argv) > 1 else {again!r})
"""


def shell(made: Releasing) -> str:
    """The command line that made a release, as a script of a shell."""
    data, *options = made.terms.words
    command = ["qrelease", "release", data, *options]
    return _SHELL.format(
        name=_comment(made.out.name),
        command=" \\\n    ".join([shlex.join(command[:3]), *map(shlex.quote, options)]),
        again=_again(made),
    )


def python(made: Releasing) -> str:
    """The same in Python."""
    arguments, parts = made.terms.arguments, made.terms.arguments.workload
    workload = [f"workload = qr.Workload.parse(table.domain, {parts[0]!r})"]
    workload += [f"workload += qr.Workload.parse(table.domain, {part!r})" for part in parts[1:]]
    cost = repr(cost_of(arguments.epsilon, arguments.delta))
    return _PYTHON.format(
        name=_comment(made.out.name),
        data=str(arguments.data),
        schema=str(arguments.schema),
        workload="\n".join(workload),
        cost=_Code(f"qr.{cost}"),
        mechanism=_mechanism(arguments.numbers),
        ledger=made.state["ledger"]["place"],
        dataset=dataset_name(arguments.data),
        neighbours=arguments.neighbours,
        again=_again(made),
    )


def _mechanism(numbers: list[str] | None) -> str:
    """What was run, as code."""
    return "qr.Auto()" if numbers is None else f"qr.NumberSums({numbers!r}, mechanism=qr.Auto())"


class _Code(str):
    """A text that is code already."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _again(made: Releasing) -> str:
    return f"{_comment(made.out.name)}-again"


def _comment(name: str) -> str:
    """The name of a folder with nothing in it that a shell or a text in Python would read otherwise."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
