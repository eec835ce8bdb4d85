"""`qrelease studio`."""

import argparse
from pathlib import Path

from qrelease.apps.cli import STAYS
from qrelease.apps.cli.shared import check_memory


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_studio, uncharged=STAYS)
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path(),
        help="whose data files are offered, and where schemas and releases are written; default: this one",
    )
    parser.add_argument("--port", type=int, default=0, help="of 127.0.0.1; default: any that is free")
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address, which holds a secret, and open no browser"
    )


def _studio(arguments: argparse.Namespace) -> None:
    check_memory()
    from qrelease.apps.studio.running import run

    run(arguments.folder, arguments.port, browser=not arguments.no_browser)
