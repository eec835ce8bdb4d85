"""The `--help` of the program and of every command and action."""

import contextlib
import io
import os
import re
from unittest import mock

from . import doors

ACTIONS = [["schema", "draft"], *(["ledger", a] for a in ("show", "raise"))] + [
    ["analyst", a] for a in ("add", "revoke", "list")
]

COMMANDS = [[], *([name] for name in doors.COMMANDS), *ACTIONS]

CASES = [" ".join(["qrelease", *command]) for command in COMMANDS]


def record(case):
    """The lines that it prints, on a terminal of 100 columns."""
    out = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}),
        contextlib.redirect_stdout(out),
        contextlib.suppress(SystemExit),
    ):
        doors.main([*case.split()[1:], "--help"])
    # Where lines are broken depends on the version of Python: spaces are not pinned.
    return re.sub(r"\s+", " ", out.getvalue()).strip()
