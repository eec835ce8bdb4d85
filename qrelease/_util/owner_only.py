"""Files that only their owner may read, whatever the umask is: of what is not private. Standard library only."""

import os
import secrets
from pathlib import Path


def new_for_owner(path: str | os.PathLike[str]) -> int:
    """The descriptor of a new file, to write to; `FileExistsError` where there is one of that name."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)


def write_for_owner(path: Path, content: bytes) -> None:
    """Put content in the place of a file: a new one, so that who could read the old one does not go on reading."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with os.fdopen(new_for_owner(part), "wb") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def append_for_owner(path: Path, text: str) -> None:
    """Add to a file that is the owner's alone, which is made if there is none; no link is followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8") as file:
        file.write(text)
