"""`qrelease verify`: exit code 0 where no check fails, 1 where one does, 2 for bad input."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qrelease._util.strict_json import decode
from qrelease.apps.cli.shared import check_memory, ledger_place, opened
from qrelease.errors import InvalidInput
from qrelease.privacy.ledger_url import LedgerUrl


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_verify)
    parser.add_argument("release", type=Path, help="the folder that `qrelease release` wrote")
    parser.add_argument("--key", type=Path, help="the holder's public key, by which the release has to be signed")
    parser.add_argument(
        "--ledger",
        type=ledger_place,
        help="the holder's ledger, or what `qrelease ledger show --json` printed of it: it has to hold the charge",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _verify(arguments: argparse.Namespace) -> int:
    check_memory()
    from qrelease.evaluation.verify import verify

    ledger = None if arguments.ledger is None else _public_part(arguments.ledger)
    found = verify(arguments.release, key=arguments.key, ledger=ledger)
    print(json.dumps(found.to_json()) if arguments.json else found)
    return 0 if found.holds else 1


def _printed(file: Path) -> bytes | None:
    """What a file holds that starts as JSON does; None for another. It is opened once: a pipe can be read once only."""
    try:
        with file.open("rb") as content:
            start = content.read(1)
            return start + content.read() if start == b"{" else None
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None


def _public_part(file: Path | LedgerUrl) -> Mapping[str, Any]:
    """What anybody may see of a ledger, or of the JSON that was printed of one."""
    from qrelease.privacy.resuming import public_part

    printed = _printed(file) if isinstance(file, Path) else None
    if printed is None:
        with opened(file) as ledger:
            return public_part(ledger)
    try:
        found: Mapping[str, Any] = decode(printed.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} is no JSON: {error}") from None
    return found
