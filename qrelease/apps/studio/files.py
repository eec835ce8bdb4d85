"""The folder that a studio was started in: which data files it has, and what is written there.

A file is chosen by its name in the folder, and no link leads out of it. A file elsewhere is one whose path the holder
types: that is meant, and so it is another field of a request.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from qrelease._util import memory
from qrelease._util.owner_only import new_for_owner
from qrelease._util.texts import quoted
from qrelease.data.sources.compression import error_text
from qrelease.data.sources.files import DATABASE_SUFFIXES, PACKED_SUFFIXES, SQLITE_SUFFIXES, SUFFIXES, unpacked
from qrelease.errors import InvalidInput

MAX_LISTED: Final = 1000
"""Files of a folder that are shown."""

MAX_NAME: Final = 200
"""Characters of the name of a file that is sent."""


@final
@dataclass(frozen=True)
class Folder:
    """A folder, by its real path."""

    path: Path

    def listed(self) -> dict[str, list[str]]:
        """The names of its data files and of its schemas; of files that are no links out of it."""
        names = sorted(file.name for file in self.path.iterdir() if not file.name.startswith(".") and self._own(file))
        return {
            "data": [name for name in names if is_data(name)][:MAX_LISTED],
            "schemas": [name for name in names if name.endswith(".toml")][:MAX_LISTED],
        }

    def _own(self, file: Path) -> bool:
        try:
            return file.is_file() and file.resolve().parent == self.path
        except OSError:
            return False

    def chosen(self, name: str) -> Path:
        """The file of a name in the folder; `InvalidInput` for a path that leads out of it, and where there is none."""
        _check_name(name)
        file = self.path / name
        if file.is_symlink() and not self._own(file):
            raise InvalidInput(f"{quoted(name)} is a link that leads out of the folder: type the path that is meant")
        if not self._own(file):
            raise InvalidInput(f"the folder has no file {quoted(name)}")
        return file

    def typed(self, path: str) -> Path:
        """The file of a path that the holder typed, from this folder or from the root."""
        if not path.strip() or "\0" in path:
            raise InvalidInput("the path of a file is needed")
        file = Path(os.path.expanduser(path.strip()))
        file = file if file.is_absolute() else self.path / file
        try:
            if file.is_file():
                return Path(os.path.abspath(file))
        except OSError as error:
            raise InvalidInput(f"{quoted(path)} cannot be read: {error_text(error)}") from None
        raise InvalidInput(f"there is no file {quoted(path)}")

    async def keep(self, name: str, size: int, parts: AsyncIterator[bytes]) -> Path:
        """A file that is sent, as a new one of that name that only its owner may read; whole, or not at all."""
        _check_name(name)
        if not is_data(name):
            raise InvalidInput(f"a data file ends in {', '.join(_ENDINGS)}; got {quoted(name)}")
        file, part = self.path / name, self.path / f".{secrets.token_hex(8)}.part"
        free = shutil.disk_usage(self.path).free
        if size > free:
            raise InvalidInput(f"{quoted(name)} has {memory.size(size)}, and the disk {memory.size(free)} free")
        try:
            with os.fdopen(new_for_owner(part), "wb") as out:
                async for piece in parts:
                    out.write(piece)
                if out.tell() != size:
                    raise InvalidInput(f"{quoted(name)} did not arrive whole: choose it again")
            os.link(part, file)  # refuses where there is one
        except FileExistsError:
            raise InvalidInput(
                f"the folder has a file {quoted(name)} already: choose that one, or rename one"
            ) from None
        except OSError as error:
            raise InvalidInput(f"{quoted(name)} cannot be written: {error_text(error)}") from None
        finally:
            part.unlink(missing_ok=True)
        return file

    def free_name(self, stem: str, ending: str = "") -> Path:
        """A path of the folder that nothing has yet: the name, or with a number behind it."""
        number, found = 1, self.path / f"{stem}{ending}"
        while os.path.lexists(found):
            number += 1
            found = self.path / f"{stem}-{number}{ending}"
        return found


_ENDINGS: Final = tuple(s for s in SUFFIXES if s not in (*DATABASE_SUFFIXES, *SQLITE_SUFFIXES, *PACKED_SUFFIXES))


def is_data(name: str) -> bool:
    """Whether a file of that name is one that is read without a query."""
    return unpacked(name).suffix.lower() in _ENDINGS


def _check_name(name: str) -> None:
    """Raise `InvalidInput` for what is no plain name of a file."""
    plain = 0 < len(name) <= MAX_NAME and not name.startswith(".") and not any(c in "/\\:" or ord(c) < 32 for c in name)
    if not plain:
        raise InvalidInput(
            f"a file is chosen by its name, without a path, got {quoted(name)}; to take one from elsewhere, type its"
            " path"
        )
