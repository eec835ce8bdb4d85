"""Files compressed by their suffix (.gz, .xz, .bz2), read, or written so that a file is whole or absent."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TextIO

from qrelease.data.sources.stores import Place, StoredObject
from qrelease.errors import InvalidInput

_UNPACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}

_AHEAD = 1 << 23
"""Bytes that are asked of a store at a time."""

READ_ERRORS = (OSError, EOFError, lzma.LZMAError)
"""What Python raises while it opens or reads a file that is missing, of another format, or cut short."""


def open_bytes(path: Place) -> IO[bytes]:
    """The bytes of a file, decompressed as its suffix says."""
    raw: Any = io.BufferedReader(path.open(), _AHEAD) if isinstance(path, StoredObject) else path
    unpack = _UNPACKED.get(path.suffix, open if raw is path else None)
    found: IO[bytes] = raw if unpack is None else unpack(raw, "rb")
    return found


def open_text(path: Place, encoding: str = "utf-8") -> TextIO:
    """The text of a file, decompressed as its suffix says; a byte order mark at the start of UTF-8 is skipped."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="")


@contextlib.contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A UTF-8 text file to write, compressed by extension, that appears under its name only when complete.

    On any exception inside the block nothing is left behind and an older file stays as it was. Raises
    `InvalidInput` when the file cannot be written.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with contextlib.ExitStack() as stack:
            raw = stack.enter_context(open(part, "xb"))
            packed = stack.enter_context(_compressor(path)(raw))
            yield stack.enter_context(io.TextIOWrapper(packed, encoding="utf-8", newline=""))
        part.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error_text(error)}") from None
    finally:
        part.unlink(missing_ok=True)


def _compressor(path: Path) -> Callable[[IO[bytes]], Any]:
    """What wraps a raw file; gzip without name and time, so that equal rows are equal bytes."""
    match path.suffix:
        case ".gz":
            return lambda raw: gzip.GzipFile("", "wb", fileobj=raw, mtime=0)
        case ".xz":
            return lambda raw: lzma.open(raw, "wb")
        case ".bz2":
            return lambda raw: bz2.open(raw, "wb")
        case _:
            return contextlib.nullcontext


def error_text(error: BaseException) -> str:
    """The system's words for a failed open or read, without the path that the message already names."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
