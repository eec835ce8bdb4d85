"""`qrelease key`."""

import argparse
from pathlib import Path


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_make)
    parser.add_argument(
        "name", type=Path, help="makes NAME.key, which you keep secret, and NAME.pub, which you publish"
    )


def _make(arguments: argparse.Namespace) -> None:
    from qrelease.release.checksums import new_key

    private, public = new_key(arguments.name)
    print(f"wrote {private}: keep it secret, without a copy it is lost; sign by `qrelease release --sign {private}`")
    print(f"wrote {public}: publish it, where people know it for yours; `qrelease verify FOLDER --key {public}`")
