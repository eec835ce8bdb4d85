"""Runs a user's function on blocks of records, each in a process of its own: a program, run with `python -m`.

It reads from standard input a line of JSON, {"function": "file.py:name", "seconds": s, "bytes": b}, and then blocks: a
length of 8 bytes, and an .npz archive of one array for each column. It writes a float of 8 bytes for each block, NaN
where the function failed, took too long, or returned no number. The function is loaded once, before any block; each
block is a fork of that, so what one does to its memory no other sees.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import math
import os
import resource
import select
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qrelease._util.typing import Floats


def load(text: str) -> Callable[[Mapping[str, Floats]], float]:
    """The function of `file.py:name` or `module:name`."""
    place, _, name = text.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location("users_function", place)
        if spec is None or spec.loader is None:
            raise ImportError(place)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    function: Callable[[Mapping[str, Floats]], float] = getattr(module, name)
    return function


def _answer(function: Callable[[Mapping[str, Floats]], Any], block: bytes, seconds: float, size: int) -> float:
    """The answer of one block, in a fork that is killed after so many seconds."""
    with np.load(io.BytesIO(block), allow_pickle=False) as arrays:  # here, as a fork copies each page that it touches
        frame = {name: arrays[name] for name in arrays.files}
    read, write = os.pipe()
    child = os.fork()
    if not child:
        _run(function, frame, write, seconds, size)
    os.close(write)
    ready, _, _ = select.select([read], [], [], seconds)
    found = os.read(read, 8) if ready else b""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    return float(struct.unpack("<d", found)[0]) if len(found) == 8 else math.nan


def _run(
    function: Callable[[Mapping[str, Floats]], Any], frame: dict[str, Floats], write: int, seconds: float, size: int
) -> None:
    """The child; it ends here whatever happens."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds) + 1,) * 2)
        silent = os.open(os.devnull, os.O_RDWR)
        os.dup2(silent, 0)  # where the blocks come in that follow
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.write(write, struct.pack("<d", float(function(frame))))
    finally:
        os._exit(0)


def _exactly(source: io.FileIO, size: int) -> bytes:
    """Read so many bytes, or fewer where there are no more."""
    found = bytearray()
    while len(found) < size and (piece := source.read(size - len(found))):
        found += piece
    return bytes(found)


def main() -> None:
    """Serve the blocks on standard input until it ends."""
    with open(0, "rb", buffering=0, closefd=False) as source:  # so that no fork holds what comes later
        told = json.loads(source.readline())
        function = load(told["function"])
        while head := _exactly(source, 8):
            block = _exactly(source, struct.unpack("<q", head)[0])
            sys.stdout.buffer.write(struct.pack("<d", _answer(function, block, told["seconds"], told["bytes"])))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
