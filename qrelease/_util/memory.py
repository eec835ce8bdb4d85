"""How much memory this process may still take, and the refusal of work that needs more.

A refusal has to come before the charge, so it rests on what can be known by then: the sizes of public things. What it
is compared with is the least that any limit leaves, the machine's, the container's, or the process's own.

What is left is less by the private table, record for record. So it may refuse, by an `OutOfMemory` that ends the work
and that the data holder alone sees, but it never decides what is in a release. What exceeds the limits themselves is
`TooLarge`, which is public; within `unused` that is all that is checked.
"""

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from qrelease.errors import OutOfMemory, TooLarge

FILE_SYSTEM = Path("/")

ANSWER_BYTES = 160
"""Bytes that an answer takes until it is written, exact, noisy, processed, and as text in the manifest: measured."""

USABLE_SHARE = 0.8
"""The share of the memory left that may be taken: the rest is for whatever else is running."""

LIBRARY_BYTES = 128 << 20
"""Bytes of numpy, scipy, numba and LLVM. Without them they fail in many ways, few of which are one line."""

LATER_BYTES = 128 << 20
"""Bytes for what is loaded, compiled and written besides whatever a caller counts."""

_UNLIMITED = 1 << 60
"""Version 1 of control groups has no word for no limit: it is a number beyond this."""

_LIBRARY_ADDRESS_BYTES = 128 << 20
"""Address space that libraries reserve without ever using it."""

_THREAD_ADDRESS_BYTES = 96 << 20
"""Address space that each thread reserves without ever using it."""


_UNUSED = ContextVar("unused", default=False)


@contextmanager
def unused() -> Iterator[None]:
    """Within it, `check` goes by what there would be if nobody had taken any, and so does not depend on the records."""
    token = _UNUSED.set(True)
    try:
        yield
    finally:
        _UNUSED.reset(token)


def check(needed: int, what: str, advice: str, *, ahead: bool = True) -> None:
    """Raise unless so many bytes may still be taken.

    ahead  whether libraries are to be loaded and files to be written besides, as before a charge; what passes then
           passes at work too

    `TooLarge` if they are more than the machine and its limits have, which is public; `OutOfMemory`, which names both
    sizes, if they are more than this process may take now.
    """
    needed += LATER_BYTES * ahead
    needs = f"{what}: about {size(needed)} are needed"
    if needed > _left(room(), ahead=ahead, empty=True):
        raise TooLarge(f"{needs}, more than this machine has; {advice}")
    left = _left(free(), ahead=ahead, empty=False)
    if needed > left and not _UNUSED.get():
        raise OutOfMemory(f"{needs} and {size(left)} are free; {advice}")


def _left(left: int, *, ahead: bool, empty: bool) -> int:
    """Bytes that are left of so many, less the address space that libraries are still to take where it is limited.

    empty  whether to go by what there would be if nobody had taken any
    """
    spaces = (limit - (0 if empty else used) - _reserved() for limit, used in _of_process()) if ahead else ()
    return min([left, *(max(0, int(USABLE_SHARE * space)) for space in spaces)])


def forget(arrays: Iterable[object]) -> None:
    """Let go of what was read of arrays that are files mapped into memory; it is read again where it is needed."""
    advice = getattr(mmap, "MADV_DONTNEED", None)
    for array in arrays:
        mapped = getattr(array, "_mmap", None)
        if mapped is not None and advice is not None:
            mapped.madvise(advice)


def free() -> int:
    """Bytes that may still be taken, of the least of what the kernel has, a control group or a limit leaves."""
    return max(0, int(USABLE_SHARE * min(limit - used for limit, used in _limits())))


def room() -> int:
    """Bytes that might be taken if nobody had taken any: of the machine and the limits alone, so public."""
    return max(0, int(USABLE_SHARE * min(limit for limit, _ in _limits())))


def size(count: int) -> str:
    """Bytes as people read them: `1.2 GiB`, `300 MiB`."""
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.0f} MiB"


def _limits() -> Iterator[tuple[int, int]]:
    """Each limit, and how much of it is used."""
    yield from _of_machine()
    yield from _of_groups()
    yield from _of_process()


def _of_machine() -> Iterator[tuple[int, int]]:
    fields = _fields(FILE_SYSTEM / "proc/meminfo", "MemAvailable:", "MemTotal:")
    available = fields.get("MemAvailable:")
    if available is not None:
        total = fields.get("MemTotal:", available)
        yield total * 1024, (total - available) * 1024
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 0
    else:
        yield 8 << 30, 0


def _of_groups() -> Iterator[tuple[int, int]]:
    """The limits of the control groups, v1 and v2, from this process's group up to the root.

    Cached pages of files count as used there and are given back under pressure: the inactive ones are free.
    """
    for group in _groups(FILE_SYSTEM, _text(FILE_SYSTEM / "proc/self/cgroup")):
        most = _number(group.limit)
        if most is not None and most < _UNLIMITED and (taken := _number(group.used)) is not None:
            yield most, taken - _fields(group.statistics, group.cached).get(group.cached, 0)


class _Group(NamedTuple):
    """The files of a control group, and what a line calls the cached pages that are inactive."""

    limit: str
    used: str
    statistics: str
    cached: str


@lru_cache(maxsize=8)
def _groups(file_system: Path, said: str) -> tuple[_Group, ...]:
    """The groups that `/proc/self/cgroup` says, and those above them."""
    found = []
    for line in said.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, limit, used, cached = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            root, cached = "sys/fs/cgroup/memory", "total_inactive_file"
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = file_system / root / path.lstrip("/")
        for folder in (group, *group.parents):
            found.append(_Group(str(folder / limit), str(folder / used), str(folder / "memory.stat"), cached))
            if folder == file_system / root:
                break
    return tuple(found)


def _of_process() -> Iterator[tuple[int, int]]:
    """`ulimit -v` and `ulimit -d`, where there are such limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    kinds = ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:"))
    limits = {name: resource.getrlimit(kind)[0] for kind, name in kinds}
    limits = {name: limit for name, limit in limits.items() if limit != resource.RLIM_INFINITY}
    if limits:
        for name, used in _fields(FILE_SYSTEM / "proc/self/status", *limits).items():
            yield limits[name], used * 1024


def _reserved() -> int:
    """Bytes of address space that libraries and threads will take."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _LIBRARY_ADDRESS_BYTES + _THREAD_ADDRESS_BYTES * threads


def _number(path: str) -> int | None:
    """The number in a file of the kernel's; None where there is no file, or a word."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _fields(path: str | Path, *names: str) -> dict[str, int]:
    """The lines `name number …` of a file of the kernel's that have one of the names."""
    rows = (line.split() for line in _text(path).splitlines() if line.startswith(names))
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[0] in names and row[1].isdecimal()}


def _text(path: str | Path) -> str:
    """The content of a file of the kernel's; nothing where there is none. (`open` takes ten times as long.)"""
    parts: list[bytes] = []
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            while part := os.read(descriptor, 1 << 16):
                parts.append(part)
        finally:
            os.close(descriptor)
    return b"".join(parts).decode("ascii", errors="replace")
