"""Runs a user's function on blocks of records, each in a process of its own: a program, run with `python -m`.

It reads from standard input a line of JSON, {"function": "file.py:name", "seconds": s, "bytes": b}, and then blocks: a
length of 8 bytes, and an .npz archive of one array for each column. It writes a float of 8 bytes for each block, NaN
where the function failed, took too long, or returned no number. The function is loaded once, before any block; each
block is read and handled by a fork of that. So what one does to its memory no other sees, and no block was ever in the
memory of another's process: what a function finds in memory that it did not write is no record of anybody else.
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
from typing import Any, Final

import numpy as np

from qrelease._util.typing import Floats

_BEGUN: Final = b"+"
"""What a fork writes once it has read its block: its time begins."""


def loaded_function(text: str) -> Callable[[Mapping[str, Floats]], float]:
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


def _answer(
    function: Callable[[Mapping[str, Floats]], Any], source: io.FileIO, length: int, seconds: float, size: int
) -> float:
    """The answer of the next block, in a fork that reads it and is then killed after so many seconds.

    Raises `EOFError` where the fork ended before it had read the whole block: what follows in the source is unknown.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        _run(function, source, length, write, seconds, size)
    os.close(write)
    begun = os.read(read, 1)
    ready = select.select([read], [], [], seconds)[0] if begun else []
    found = os.read(read, 8) if ready else b""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    if not begun:
        raise EOFError("a block was not read to its end")
    return float(struct.unpack("<d", found)[0]) if len(found) == 8 else math.nan


def _run(
    function: Callable[[Mapping[str, Floats]], Any],
    source: io.FileIO,
    length: int,
    write: int,
    seconds: float,
    size: int,
) -> None:
    """The child; it ends here whatever happens."""
    try:
        with np.load(io.BytesIO(_exactly(source, length)), allow_pickle=False) as arrays:
            frame = {name: arrays[name] for name in arrays.files}
        silent = os.open(os.devnull, os.O_RDWR)
        os.dup2(silent, 0)  # where the blocks come in that follow
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds) + 1,) * 2)
        os.write(write, _BEGUN)
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
        function = loaded_function(told["function"])
        while head := _exactly(source, 8):
            found = _answer(function, source, struct.unpack("<q", head)[0], told["seconds"], told["bytes"])
            sys.stdout.buffer.write(struct.pack("<d", found))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
