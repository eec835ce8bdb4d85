"""Work on slices of arrays, on all cores, and memory that suits vector instructions."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

MIN_PARALLEL_CELLS = 1 << 21
"""Cells from which on a pass uses all cores: with fewer, starting the others costs about as much as it saves."""

_MAX_PIECES = 16
"""Pieces that a pass on all cores is cut into."""

PAGE_BYTES = 4096


def in_parallel(
    work: Callable[[int, slice], Result], length: int, touched: int, most: int = _MAX_PIECES
) -> list[Result]:
    """The results of `work` on consecutive pieces of range(length), in order.

    The pieces do not depend on the number of cores, so neither does a sum of floats over them, to the last bit.

    work     is given a piece's number and its slice
    touched  cells that the whole work reads or writes: with fewer than `MIN_PARALLEL_CELLS` there is one piece
    most     pieces at most, where each needs memory of its own
    """
    pieces = max(min(most, length), 1) if touched >= MIN_PARALLEL_CELLS else 1
    cuts = [slice(length * i // pieces, length * (i + 1) // pieces) for i in range(pieces)]
    return at_once(lambda i: work(i, cuts[i]), range(pieces))


def at_once(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of `work` on each item, in order, on threads: numba kernels release the interpreter lock."""
    if len(items) == 1 or cores() == 1:
        return [work(item) for item in items]
    return [*pool(os.getpid()).map(work, items)]


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, each worked out on another core while the one before it is used."""
    if cores() == 1:
        yield from items
        return
    threads, end = pool(os.getpid()), object()
    coming = threads.submit(next, items, end)
    try:
        while (item := coming.result()) is not end:
            coming = threads.submit(next, items, end)
            yield item  # type: ignore[misc]
    finally:  # what the items are made from may be closed next
        wait([coming])


def begun(work: Callable[[], Result]) -> Callable[[], Result]:
    """Begin a work on another core; what is returned waits for its result. With one core it is done at once."""
    if cores() == 1:
        result = work()
        return lambda: result
    return pool(os.getpid()).submit(work).result


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of linear algebra that are loaded: numpy's and scipy's, each with threads of its own."""
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()


class _Entries:
    """Who is inside `one_thread`, of all threads: the first sets the limit, and the last takes it back."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            self._limit = self._limit or _libraries().limit(limits=1, user_api="blas")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()
                self._limit = None


_ENTRIES: Final = _Entries()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra take one thread inside, for many small products one after another.

    OpenBLAS divides a scalar product of 10 000 numbers, which takes a microsecond, among threads that wait for each
    other. Where other processes keep the cores busy, each waits some milliseconds for its turn: a fit of 14 000
    coordinates, which takes six seconds, took a minute on two busy cores.

    The setting is one of the whole process: it lasts until the last thread that is inside is out.
    """
    _ENTRIES.enter()
    try:
        yield
    finally:
        _ENTRIES.leave()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool(process: int) -> ThreadPoolExecutor:  # a forked child has none of its parent's threads
    return ThreadPoolExecutor(cores(), thread_name_prefix="qrelease")


def aligned(cells: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """An uninitialised vector (cells,) that begins on a page: vector instructions are fastest on whole cache lines."""
    size = np.dtype(dtype).itemsize
    raw = np.empty(cells * size + PAGE_BYTES, np.uint8)
    begin = -raw.ctypes.data % PAGE_BYTES
    return raw[begin : begin + cells * size].view(dtype)


def filled(cells: int, value: float) -> npt.NDArray[np.float64]:
    """A vector (cells,) of float64 that begins on a page and holds one value everywhere."""
    found: npt.NDArray[np.float64] = aligned(cells)
    found.fill(value)
    return found
