"""Imports of optional packages that some attacks need, on first use."""

import os
import sys
from functools import cache
from typing import Any

from qrelease.errors import InvalidInput

_STDOUT = 1


def load_cvxpy() -> Any:
    """The modelling language with its solver. `InvalidInput` where either is not installed."""
    try:
        import cvxpy

        _make_first_solver()
    except ImportError:
        raise InvalidInput("this attack needs cvxpy with HiGHS: pip install 'qrelease[attack]'") from None
    return cvxpy


@cache
def _make_first_solver() -> None:
    """Make a process's first HiGHS unheard: it names itself on stdout, where a command's notice has to come first.

    The text comes from C, and before any option can be set, so the file descriptor is what is turned away.
    """
    import highspy

    sys.stdout.flush()
    kept, nowhere = os.dup(_STDOUT), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    try:
        highspy.Highs()  # type: ignore[no-untyped-call]
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)
        os.close(nowhere)
