"""What makes a file durable, and one process its only user. Nothing but the standard library."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, where folders can be synced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def replace_durably(path: Path, text: str) -> None:
    """Put a text in the place of a file: after it the text is on disk, and after a crash before that the old one is."""
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)


def lock(path: Path) -> Callable[[], None] | None:
    """Take a file, which is made if there is none, for this process alone; the function that gives it back.

    None where another process, or another part of this one, has it. The system gives it back when the process ends.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        _take(descriptor)
    except OSError:
        os.close(descriptor)
        return None

    def free() -> None:
        with suppress(OSError):
            _give_back(descriptor)  # also of the copies that children of a fork have
        os.close(descriptor)

    return free


try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

    def _take(descriptor: int) -> None:
        flock(descriptor, LOCK_EX | LOCK_NB)

    def _give_back(descriptor: int) -> None:
        flock(descriptor, LOCK_UN)

except ImportError:  # Windows
    from msvcrt import LK_NBLCK, LK_UNLCK, locking  # type: ignore[attr-defined]

    def _take(descriptor: int) -> None:
        locking(descriptor, LK_NBLCK, 1)

    def _give_back(descriptor: int) -> None:
        locking(descriptor, LK_UNLCK, 1)
