"""Work on slices of arrays, on all cores, and memory that suits vector instructions."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item")
Result = TypeVar("Result")

# Passes over fewer cells than this stay on one core: to start the others costs about as much as they save.
PARALLEL = 1 << 21
# Into so many pieces other passes are cut.
_PIECES = 16

PAGE = 4096  # bytes


def in_parallel(work: Callable[[int, slice], Result], length: int, touched: int, most: int = _PIECES) -> list[Result]:
    """The results of `work` on each piece's number and slice of range(length), in order: one if few cells are touched.

    The pieces are the same on however many cores: sums of floats over them are, too, to the last bit.

    most  pieces, where each needs memory of its own
    """
    pieces = max(min(most, length), 1) if touched >= PARALLEL else 1
    cuts = [slice(length * i // pieces, length * (i + 1) // pieces) for i in range(pieces)]
    return at_once(lambda i: work(i, cuts[i]), range(pieces))


def at_once(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of `work` on each of some items, in order: kernels release the interpreter lock, so threads do."""
    if len(items) == 1 or cores() == 1:
        return [work(item) for item in items]
    return [*_pool(os.getpid()).map(work, items)]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(process: int) -> ThreadPoolExecutor:  # a forked child has none of its parent's threads
    return ThreadPoolExecutor(cores(), thread_name_prefix="qrelease")


def aligned(cells: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """An uninitialised vector that begins on a page: vector instructions are fastest on whole cache lines."""
    size = np.dtype(dtype).itemsize
    raw = np.empty(cells * size + PAGE, np.uint8)
    begin = -raw.ctypes.data % PAGE
    return raw[begin : begin + cells * size].view(dtype)


def filled(cells: int, value: float) -> npt.NDArray[np.float64]:
    """As many equal numbers, so aligned."""
    found: npt.NDArray[np.float64] = aligned(cells)
    found.fill(value)
    return found
