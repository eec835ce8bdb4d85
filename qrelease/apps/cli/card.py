"""`qrelease card`."""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

from qrelease.apps.cli.shared import check_memory
from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_card)
    parser.add_argument("release", type=Path, help="the folder that `qrelease release` wrote")
    parser.add_argument(
        "--fill",
        type=Path,
        metavar="TOML",
        help='a TOML file with what only the holder knows, a line NAME = "TEXT" for each such field',
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it into this new file (default: print it)")
    parser.add_argument("--json", action="store_true", help="print one JSON object (default: Markdown)")


def _card(arguments: argparse.Namespace) -> None:
    check_memory()
    from qrelease.release.card import card, markdown
    from qrelease.release.reader import load

    filled = {} if arguments.fill is None else _read(arguments.fill)
    found = card(load(arguments.release), filled)
    text = json.dumps(found, indent=1, ensure_ascii=False) if arguments.json else markdown(found)
    if arguments.out is None:
        print(text, end="")
        return
    try:
        with arguments.out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput(f"{arguments.out} cannot be written: {error.strerror}") from None
    print(f"wrote {arguments.out}")


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise InvalidInput(f"{file}: {error}") from None
