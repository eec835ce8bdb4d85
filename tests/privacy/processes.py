"""Processes that use a ledger."""

import subprocess
import sys


def python(code, *arguments, seconds=60):
    """What a process prints that runs some code; one that hangs is a failure."""
    modules = ("errors", "privacy.ledger", "privacy")
    prelude = "import os, sys\n" + "".join(f"from qrelease.{m} import *\n" for m in modules)
    command = [sys.executable, "-c", prelude + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


KILLED = """
import os, sys
from qrelease.privacy.ledger import Ledger
from qrelease.privacy import PureDP
ledger = Ledger.open(sys.argv[1])
ledger.charge(PureDP(0.75), "first")
os.kill(os.getpid(), 9)
"""


KILLED_IN_A_HURRY = KILLED.replace("ledger.charge", "ledger.store.hurry(); ledger.charge")
