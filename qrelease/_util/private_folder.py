"""Folders for temporary files that are deleted even after a process was killed."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

from qrelease._util.durable import Lock

_PREFIX: Final = "qrelease-"
_LOCK: Final = ".qrelease-lock"
"""A file in a folder that the process which made the folder has locked while it lives."""


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder for temporary files, which only this user may read; it is deleted afterwards.

    What a killed process left is deleted by the next one of the same user that makes such a folder.
    """
    _delete_left_over()
    while True:
        with TemporaryDirectory(prefix=_PREFIX) as folder:
            lock = Lock.take(Path(folder, _LOCK))
            if lock is None or not lock.stands:  # another process took it for left over, just before it was locked
                if lock is not None:
                    lock.free()
                continue
            try:
                yield folder
                return
            finally:
                lock.free()


def _delete_left_over() -> None:
    """Delete this user's folders whose processes are gone."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
            if mine and stat.S_ISDIR(status.st_mode) and (folder / _LOCK).exists():
                lock = Lock.take(folder / _LOCK)
                if lock is not None:
                    lock.free()
                    shutil.rmtree(folder, ignore_errors=True)
