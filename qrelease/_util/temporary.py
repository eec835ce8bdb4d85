"""Room in the folder of temporary files."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import gettempdir
from typing import Final

from qrelease.errors import OutOfMemory

_FULL: Final = "the records do not fit in the folder of temporary files: name another by TMPDIR"


def check_disk(needed: int) -> None:
    """Raise `OutOfMemory` where the folder of temporary files has not room for so many bytes.

    Without their number, which tells of the records.
    """
    if needed > shutil.disk_usage(gettempdir()).free:
        raise OutOfMemory(_FULL)


@contextmanager
def told_of_full_disk() -> Iterator[None]:
    """The same where the disk is full in the end, or files may not become as large."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise OutOfMemory(_FULL) from None
