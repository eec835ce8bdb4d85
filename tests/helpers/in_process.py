"""The command line in this process: what `qrelease` does in a folder, with all that it prints and logs."""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path

from qrelease.apps.cli import main
from qrelease.evaluation.audit.commands import Ran
from qrelease.evaluation.audit.observed import listening


def in_process(arguments: Sequence[str], folder: Path) -> Ran:
    heard: dict[str, object] = {}
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as stdout,
        contextlib.redirect_stderr(io.StringIO()) as stderr,
        listening(heard),
    ):
        try:
            code = main(arguments)
        except SystemExit as end:  # argparse's
            code = int(end.code or 0)
    return Ran(code, stdout.getvalue(), stderr.getvalue(), [str(line) for line in heard.values()])
