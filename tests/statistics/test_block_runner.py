"""A function on blocks, each in a process of its own: no block sees, stops or answers for another."""

import io
import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qrelease.statistics.block_runner import loaded_function
from qrelease.statistics.sample_and_aggregate import run_on_blocks

FUNCTIONS = Path(__file__).parent / "functions.py"
FRAMES = [{"x": np.array([1.0, 2.0])}, {"x": np.array([3.0, 18.0])}, {"x": np.array([4.0])}]


def test_a_function_that_fails_has_no_answer_and_blocks_share_nothing():
    found = run_on_blocks(f"{FUNCTIONS}:fails", FRAMES, 10.0, 1 << 32)
    assert found[[0, 2]].tolist() == [1.0, 1.0]
    assert np.isnan(found[1])


def test_a_function_is_stopped_by_time_and_by_memory():
    assert np.isnan(run_on_blocks(f"{FUNCTIONS}:sleeps", FRAMES[:1], 0.3, 1 << 32)).all()
    assert np.isnan(run_on_blocks(f"{FUNCTIONS}:grows", FRAMES[:1], 10.0, 1 << 30)).all()
    assert np.isnan(run_on_blocks(f"{FUNCTIONS}:gone", FRAMES[:1], 10.0, 1 << 32)).all()


HOSTILE = """
import os, signal


def f(block):
    if 7.0 in block["x"]:
        WHAT
    return float(block["x"].mean())
"""


@pytest.mark.parametrize(
    "what", ["os.read(0, 1 << 20)", "os.kill(os.getppid(), signal.SIGKILL)", "os.killpg(0, signal.SIGKILL)"]
)
def test_a_block_takes_no_answer_from_the_others(tmp_path, what):
    file = tmp_path / "f.py"
    file.write_text(HOSTILE.replace("WHAT", what))
    frames = [{"x": np.full(3, float(i))} for i in range(10)]
    found = run_on_blocks(f"{file}:f", frames, 20.0, 1 << 30)
    others = [i for i in range(10) if i != 7]
    np.testing.assert_array_equal(found[others], others)


def test_a_block_does_not_see_those_that_follow(tmp_path):
    file = tmp_path / "peek.py"
    file.write_text("import sys\n\n\ndef f(block):\n    return float(len(sys.stdin.buffer.peek()))\n")
    frames = [{"x": np.full(3, float(i))} for i in range(4)]
    assert set(run_on_blocks(f"{file}:f", frames, 20.0, 1 << 30)) == {0.0}


def test_a_block_does_not_find_those_before_it_in_memory_that_it_did_not_write(tmp_path):
    """One function fills what it is given; the next looks for the records of that block in fresh arrays."""
    (tmp_path / "looking.py").write_text(
        "import numpy as np\n"
        "def f(block):\n"
        "    sizes = [len(block['x']) * k // 4 for k in range(1, 9)] * 8\n"
        "    return float(sum((np.frombuffer(bytearray(np.empty(n))) == 1234.5).sum() for n in sizes))\n"
    )
    frames = [{"x": np.full(n, value)} for n in (30, 1000, 4000) for value in (1234.5, 0.0, 0.0)]
    found = run_on_blocks(f"{tmp_path / 'looking.py'}:f", frames, 5.0, 1 << 32)
    assert found[[1, 2, 4, 5, 7, 8]].tolist() == [0.0] * 6


def run(told, *blocks):
    """The program itself: what it answers to blocks of bytes."""
    given = json.dumps({"seconds": 10.0, "bytes": 1 << 32, **told}).encode() + b"\n"
    for block in blocks:
        given += struct.pack("<q", len(block)) + block
    command = [sys.executable, "-m", "qrelease.statistics.block_runner"]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    return done.returncode, np.frombuffer(done.stdout, "<f8").tolist()


def packed(**columns):
    held = io.BytesIO()
    np.savez(held, **columns)
    return held.getvalue()


def test_the_program_answers_each_block_in_order_and_ends_with_its_input(tmp_path):
    (tmp_path / "f.py").write_text("def f(block):\n    return block['x'].sum() + len(block)\n")
    told = {"function": f"{tmp_path / 'f.py'}:f"}
    blocks = [packed(x=np.arange(n), y=np.zeros(n)) for n in (1, 5, 0, 100_000)]
    assert run(told, *blocks) == (0, [2.0, 12.0, 2.0, 4999950002.0])
    assert run(told) == (0, [])


def test_what_is_no_block_has_no_answer_and_a_block_cut_short_ends_it(tmp_path):
    (tmp_path / "f.py").write_text("def f(block):\n    return 1.0\n")
    told = {"function": f"{tmp_path / 'f.py'}:f"}
    code, found = run(told, packed(x=np.zeros(1)), b"no archive" * 9, packed(x=np.zeros(1)))
    assert code != 0 or np.isnan(found[1])
    assert found[0] == 1.0


def test_a_function_is_found_in_a_file_or_a_module(tmp_path):
    (tmp_path / "f.py").write_text("def g(block):\n    return 7\n")
    assert loaded_function(f"{tmp_path / 'f.py'}:g")({}) == 7
    assert loaded_function("math:sqrt") is math.sqrt
    for wrong in ("math:no_such", f"{tmp_path / 'f.py'}:f"):
        with pytest.raises(AttributeError):
            loaded_function(wrong)
    with pytest.raises((ImportError, OSError)):
        loaded_function(f"{tmp_path / 'none.py'}:f")
