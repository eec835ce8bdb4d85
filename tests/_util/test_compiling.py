"""Compiling is told of once: at once on a terminal, where lines are asked for when it takes long, elsewhere never.

Unless it is to be told everywhere: then as where lines are asked for.
"""

import subprocess
import sys

import pytest

_COMPILES = """
import io, sys, time
from contextlib import nullcontext
from qrelease._util import compiling, progress

class Terminal(io.StringIO):
    def isatty(self):
        return {tty}

sys.stderr = Terminal()
compiling.SILENT = {silent}
with progress.log_lines() if {lines} else nullcontext():
    compiling.tell_of_compiling(everywhere={everywhere})
    compiling.tell_of_compiling(everywhere={everywhere})
import numba

double = numba.njit(lambda number: 2 * number)
before = sys.stderr.getvalue()
found = double(2), double(2.0), before
print(found, sys.stderr.getvalue().count(compiling.COMPILING))
"""


@pytest.mark.parametrize(
    ("tty", "lines", "everywhere", "silent", "told"),
    [
        (True, False, False, 99, 1),
        (False, False, False, 0, 0),
        (False, True, False, 0, 1),
        (False, True, False, 99, 0),
        (False, False, True, 0, 1),
        (False, False, True, 99, 0),
    ],
)
def test_compiling_is_told_of_once_where_progress_is_shown(
    tty: bool, lines: bool, everywhere: bool, silent: int, told: int
) -> None:
    code = _COMPILES.format(tty=tty, lines=lines, everywhere=everywhere, silent=silent)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == f"(4, 4.0, '') {told}\n"
