"""Where a ledger stands: one file under one name on a local disk, with its write-ahead log beside it.

SQLite finds the log by the name of the file. Under a second name, or where the file alone is mounted into a container,
there would be a second log, and what is charged in one of them is not seen in the other: the budget would be spent
twice. So would it be over a network, where the memory that processes share is not shared between machines.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from qrelease._util.durable import file_identity
from qrelease.errors import LedgerError

NETWORK: Final = frozenset(
    [
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda", "davfs", "vboxsf", "prl_fs"),
        *("9p", "virtiofs", "gfs", "gfs2", "ocfs2", "gpfs", "lustre", "beegfs", "ceph", "orangefs", "pvfs2", "panfs"),
        *("acfs", "wekafs", "glusterfs", "vmhgfs"),
    ]
)
"""Kinds of file systems, as Linux names them, that several machines, or a machine and its guests, may write to."""

LOCAL_IN_USER_SPACE: Final = frozenset(
    [
        *("fuse.fuse-overlayfs", "fuse.ntfs", "fuse.ntfs-3g", "fuse.exfat", "fuse.zfs", "fuse.lxcfs"),
        *("fuse.encfs", "fuse.gocryptfs", "fuse.cryfs", "fuse.ext2", "fuse.ext4", "fuse.fuse-ext2"),
    ]
)
"""Kinds of file systems of programs (FUSE) that are on a disk of this machine: all others are taken for a network's."""

SECOND_VIEWS: Final = frozenset(["fuse.bindfs", "fuse.mergerfs"])
"""Kinds of file systems of programs that show files which are in other folders of this machine, too. What maps a file
into memory here, or locks it, does not see what does so there."""

MOUNTS: Final = Path("/proc/self/mountinfo")
_DRAFT = ".{name}.{unique}.new"
_LOG_MARKS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""How a write-ahead log of SQLite's begins (its file format, 4.1)."""

_SIDE_FILES: Final = "-wal", "-shm", "-journal"
"""What SQLite adds to a database's name for files of its own (its file format, 1.3)."""

_ESCAPE = re.compile(r"\\([0-7]{3})")


def draft_of(path: Path) -> Path:
    """A new name beside a ledger, under which it is made."""
    return path.with_name(_DRAFT.format(name=path.name, unique=f"{os.getpid()}-{os.urandom(4).hex()}"))


def check_name(path: Path) -> None:
    """Raise `LedgerError` if the file has a second name (a hard link).

    The draft of a creation that was killed before it took its draft away is no other name of a ledger: it is removed.
    """
    while True:
        links = _links(path)
        if links <= 1:  # of a file that is gone, who looks at its identity says so
            return
        others = list(_other_names(path))
        removed = [other for other in others if _is_draft(other, path) and _removed(other)]
        if not removed and not (not others and _links(path) < links):  # a creation at work may have removed its draft
            break
    named = ", ".join(map(str, others)) or "in another folder"
    raise LedgerError(
        f"ledger {path} has {links} names (hard links), the others {named}: what is charged under one would not be"
        " seen under another; leave one name"
    )


def _links(path: Path) -> int:
    """How many names a file has, 0 if it is gone."""
    try:
        return path.stat().st_nlink
    except OSError:
        return 0


def _removed(draft: Path) -> bool:
    """Whether a draft is taken away; one that has a log was used under its own name, and stays."""
    if Path(f"{draft}-wal").exists():
        return False
    try:  # also of a creation that is at work: it closed its draft before it gave it a second name
        draft.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def check_suffix(path: Path) -> None:
    """`LedgerError` for a name that SQLite would take for its own: of another ledger, and it would delete the file."""
    name = Path(os.path.realpath(path)).name
    ending = next((ending for ending in _SIDE_FILES if name.casefold().endswith(ending)), None)
    if ending is not None:
        raise LedgerError(
            f"ledger {path}: files whose names end with {ending} belong to another database, which would delete this"
            " one: give it another name"
        )


def check_side_files(path: Path) -> None:
    """`LedgerError` where a file has a name that SQLite will use beside a new ledger: it may be an older ledger.

    It is not opened: to close it again would free the locks that this process may have on it.
    """
    file = Path(os.path.realpath(path))
    for ending in ("-shm", "-journal"):
        beside = Path(f"{file}{ending}")
        with suppress(OSError):
            if beside.stat().st_size and not file.exists():
                raise LedgerError(
                    f"{beside.name} lies where ledger {path} is to be made, and would be overwritten: it may be an"
                    " older ledger; move it away"
                )


def check_mount(path: Path) -> None:
    """`LedgerError` for a file that is mounted by itself, and for a file system of the network or a view, on Linux."""
    file = Path(os.path.realpath(path))
    point, kind = _mount_of(file)
    if point == file:
        raise LedgerError(
            f"ledger {path} is mounted as a single file, without the log beside it: mount the folder that it is in"
        )
    if kind in SECOND_VIEWS:
        raise LedgerError(
            f"ledger {path} is on {kind}, which shows files that are in another folder, too: what is charged there"
            " would not be seen here; name it where it is"
        )
    if kind in NETWORK or (kind.partition(".")[0] == "fuse" and kind not in LOCAL_IN_USER_SPACE):
        raise LedgerError(f"ledger {path} is on a network file system ({kind}); it must be on a local disk")


def is_mount_point(path: Path) -> bool:
    """Whether something is mounted just there: a file by itself, whose folder is not the one that it seems to be in."""
    file = Path(os.path.realpath(path))
    return _mount_of(file)[0] == file


def _mount_of(file: Path) -> tuple[Path, str]:
    """As `mount_of`, of this process; of a system that has no such list, nothing is mounted."""
    try:
        return mount_of(file, MOUNTS.read_text(errors="surrogateescape"))
    except OSError:
        return Path("/"), ""


def mount_of(path: Path, mounts: str) -> tuple[Path, str]:
    """The point under which a path is mounted, and the kind of file system, by the text of Linux's `mountinfo`."""
    found, kind = Path("/"), ""
    above = {path, *path.parents}
    for point, its_kind in _mounted(mounts):
        # A later mount covers an earlier one at the same point.
        if point in above and len(point.parts) >= len(found.parts):
            found, kind = point, its_kind
    return found, kind


@lru_cache(maxsize=2)
def _mounted(mounts: str) -> tuple[tuple[Path, str], ...]:
    """Each mount's point and kind, in order: the list is read for each ledger, and seldom another one."""
    found = []
    for line in mounts.splitlines():
        head, _, tail = line.partition(" - ")
        fields = head.split(" ")
        if len(fields) < 5 or not tail:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        found.append((point, tail.split(" ")[0]))
    return tuple(found)


def check_no_log(path: Path) -> None:
    """`LedgerError` where a log lies beside the name of a ledger that is to be made: it would be taken for its own."""
    log = Path(f"{path}-wal")
    try:
        left = log.stat().st_size
    except OSError:
        return
    if path.exists():
        raise FileExistsError
    if left:
        raise LedgerError(
            f"ledger {path} is not there, but its log {log.name} is, with charges: bring the ledger back,"
            " or move the log away if its budget is of no account"
        )


def check_own_log(path: Path) -> None:
    """Raise `LedgerError` where a log lies in the folder of a ledger and what it belongs to does not: perhaps its own.

    A ledger that was renamed while it was open, or after a process was killed, left its log under the old name, with
    charges of a server's last second that SQLite would forget without a word. One that has a log under its own name was
    not renamed.
    """
    file = Path(os.path.realpath(path))
    with suppress(OSError):
        if Path(f"{file}-wal").stat().st_size:
            return
    with suppress(OSError), os.scandir(file.parent) as entries:
        for entry in entries:
            name = entry.name.removesuffix("-wal")
            if name != entry.name and _is_log(Path(entry.path)) and not (file.parent / name).exists():
                raise LedgerError(
                    f"the log {entry.name} beside ledger {path} has charges of a ledger that is not there: if this one"
                    f" was {name}, rename it back, or its log along; if not, move the log away"
                )


def _is_log(path: Path) -> bool:
    """Whether a file is a write-ahead log of SQLite's with something in it."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(4) in _LOG_MARKS
    return False


def _other_names(path: Path) -> Iterator[Path]:
    """The names of the same file in the folder that it is in."""
    file = Path(os.path.realpath(path))
    with suppress(OSError), os.scandir(file.parent) as entries:
        same = file_identity(file)
        for entry in entries:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if entry.name != file.name and (status.st_dev, status.st_ino) == same:
                    yield Path(entry.path)


def _is_draft(other: Path, path: Path) -> bool:
    start, end = _DRAFT.format(name=Path(os.path.realpath(path)).name, unique="\0").split("\0")
    return other.name.startswith(start) and other.name.endswith(end)
