"""`qrelease schema draft`."""

import argparse
from pathlib import Path

from qrelease.apps.cli.shared import DATA, action
from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    draft = action(
        actions, "draft", _draft, "Write a schema drafted from the data, every entry of it marked as unreviewed."
    )
    draft.add_argument("data", type=Path, help=DATA)
    draft.add_argument("--rows", type=int, metavar="N", help="look at the first N records only; default: at all")
    draft.add_argument("--out", type=Path, help="default: standard output")


def _draft(arguments: argparse.Namespace) -> None:
    from qrelease.data.schema_draft import draft
    from qrelease.data.sources.compression import written

    text = draft(arguments.data, arguments.rows)
    if arguments.out is None:
        print(text, end="")
        return
    if arguments.out.exists():
        raise InvalidInput(f"{arguments.out} exists already; drafts do not overwrite")
    with written(arguments.out) as file:
        file.write(text)
    print(f"wrote {arguments.out}: review every entry, then set its reviewed = true")
