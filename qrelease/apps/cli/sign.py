"""`qrelease sign`."""

import argparse
from pathlib import Path

from qrelease.apps.cli.shared import check_memory


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_sign)
    parser.add_argument("release", type=Path, help="the folder that `qrelease release` wrote")
    parser.add_argument("--key", type=Path, required=True, help="the private key (see `qrelease key`)")


def _sign(arguments: argparse.Namespace) -> None:
    check_memory()
    from qrelease.errors import InvalidInput
    from qrelease.release import checksums
    from qrelease.release.reader import load

    key = checksums.private_key(arguments.key)
    load(arguments.release)  # which refuses a folder whose files are not those that its hashes are of
    if not (arguments.release / checksums.SUMS).is_file():
        raise InvalidInput(f"{arguments.release} has no {checksums.SUMS}: it was made by an earlier version")
    checksums.sign(arguments.release, key)
    print(f"wrote {checksums.SIGNATURE} in {arguments.release}")
