"""Files that survive a crash, and locks that let one process at a time use a file. Standard library only."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Self, final

from qrelease._util.owner_only import new_for_owner


def file_identity(path: Path | str) -> tuple[int, int] | None:
    """What tells a file from all others of this machine; None if there is none."""
    with suppress(OSError):
        return _told_by(os.stat(path))
    return None


def _told_by(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


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


def sync_tree(folder: Path) -> None:
    """Make all files of a folder durable, and their names in it, down to the last folder."""
    for entry in folder.iterdir():
        if entry.is_dir():
            sync_tree(entry)
            continue
        descriptor = os.open(entry, os.O_RDWR)  # Windows syncs no file that is open for reading
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_folder(folder)


def replace_durably(path: Path, text: str) -> tuple[int, int]:
    """Put a text in the place of a file, for its owner alone, and return its new `file_identity`.

    After it the text is on disk, and after a crash before that the old one is.
    """
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")  # no name that somebody chose for another file
    try:
        with os.fdopen(new_for_owner(part), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            written = _told_by(os.fstat(file.fileno()))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)
    return written


@final
class Lock:
    """A file that this process alone has. The system gives it back when the process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Take a file, which is made if there is none; None where another process, or part of this one, has it."""
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            _take(descriptor)
        except OSError:
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    @property
    def stands(self) -> bool:
        """Whether the file still has its name: another one of that name could be taken beside it."""
        return file_identity(self._path) == _told_by(os.fstat(self._descriptor))

    def free(self) -> None:
        """Give the lock back; to be called once."""
        with suppress(OSError):
            _give_back(self._descriptor)  # also of the copies that children of a fork have
        os.close(self._descriptor)


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
