"""The solver of some attacks: it is unheard, and where it is not installed a line says what to install."""

import subprocess
import sys

import pytest

from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.extras import load_cvxpy


def test_the_solver_prints_nothing():
    """What a command prints begins with a notice, and as JSON has nothing else in it: from the first programme on."""
    code = """
import numpy as np
from qrelease.evaluation.attacks.publishers import Exact
from qrelease.evaluation.attacks.reconstruction import linear_programme, questions, reconstruct
secret, subsets = np.arange(20) % 2 == 0, questions(20, 80, np.random.default_rng(0))
print("first", flush=True)
assert reconstruct(Exact(secret), secret, subsets, linear_programme).recovered == 1.0
print("last")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("first\nlast\n", "")


def test_without_the_modelling_language_a_line_says_what_to_install(not_installed):
    not_installed("cvxpy")
    with pytest.raises(InvalidInput, match=r"needs cvxpy with HiGHS: pip install 'qrelease\[attack\]'"):
        load_cvxpy()


def test_without_the_solver_too_and_what_is_printed_afterwards_is_heard():
    """In a process of its own: the first solver of a process is made but once."""
    code = """
import sys
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.extras import load_cvxpy
sys.modules["highspy"] = None
try:
    load_cvxpy()
except InvalidInput as error:
    print(error)
del sys.modules["highspy"]
print("made by", load_cvxpy().__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = "this attack needs cvxpy with HiGHS: pip install 'qrelease[attack]'\nmade by cvxpy\n"
    assert (done.stdout, done.stderr) == (said, "")
