"""Makes a release in a thread, by the code of `qrelease release`; one at a time."""

from __future__ import annotations

import argparse
import contextlib
import io
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from qrelease.apps.studio.terms import Program, Terms
from qrelease.errors import InvalidInput, QReleaseError


@final
class Releasing:
    """A release that is being made, or was: what is known of it so far.

    Attributes
    ----------
    terms
        What it is.
    out
        The folder that it makes.
    """

    def __init__(self, program: Program, terms: Terms, out: Path) -> None:
        self._program, self.terms, self.out = program, terms, out
        self._said, self._error, self._charged, self._begun = io.StringIO(), "", "", time.monotonic()
        self._seconds: float | None = None
        self._files: list[str] = []
        self._thread = threading.Thread(target=self._run, name="release")

    def start(self) -> None:
        """Begin, in a thread that the process waits for when it ends: what was charged shall not be cut off."""
        self._thread.start()

    def wait(self) -> None:
        """Return once it has ended."""
        self._thread.join()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._seconds is None

    @property
    def state(self) -> dict[str, Any]:
        """For the page: how it stands, what the program said, and where the ledger stands once it has ended."""
        seconds = time.monotonic() - self._begun if self._seconds is None else self._seconds
        said = [line for line in self._said.getvalue().splitlines() if line]
        found: dict[str, Any] = {"folder": self.out.name, "seconds": round(seconds, 1), "said": said}
        if self.running:
            return {"state": "running", **found}
        account = _account(self._program, self.terms.arguments)
        if self._error:
            error = f"{self._error}; {self._charged or 'nothing was charged'}"
            return {"state": "failed", "error": error, "charged": bool(self._charged), "ledger": account, **found}
        return {"state": "done", "files": self._files, "ledger": account, **found}

    def _run(self) -> None:
        arguments = self._program.parsed([*self.terms.words, f"--out={self.out}"])
        try:
            with contextlib.redirect_stdout(self._said), contextlib.redirect_stderr(self._said):
                self._program.make(arguments, self.terms.check_schema)
            self._files = sorted(file.name for file in self.out.iterdir())
        except (QReleaseError, OSError) as error:
            self._error = str(error) if isinstance(error, QReleaseError) else _of_system(error)
        except MemoryError:
            self._error = "out of memory: use fewer columns or coarser bins"
        except BaseException as error:
            # Its text may hold what is private.
            self._error = f"a fault of the program: {type(error).__name__}"
        finally:
            self._charged = getattr(arguments, "charged", "")
            self._seconds = time.monotonic() - self._begun


@final
class ReleaseMaker:
    """Makes releases, one at a time, and keeps those of this studio by the names of their folders."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made: dict[str, Releasing] = {}
        self._last: Releasing | None = None
        self._lock = threading.Lock()

    def begin(self, terms: Terms, place: Callable[[], Path]) -> Releasing:
        """Start a release in the folder that `place` gives; `AlreadyReleasing` while another one is made."""
        with self._lock:
            if self._last is not None and self._last.running:
                raise AlreadyReleasing("a release is being made: one at a time")
            found = Releasing(self._program, terms, place())
            found.start()  # if it raises, nothing was begun
            self._last = self._made[found.out.name] = found
        return found

    @property
    def last(self) -> Releasing | None:
        """The release that was begun last."""
        return self._last

    def file(self, folder: str, name: str) -> Path:
        """A file of a release that was made here; `InvalidInput` for any other."""
        found = self._made.get(folder)
        if found is None or found.running or name not in found.state.get("files", ()):
            raise InvalidInput("no such file of a release that was made here")
        if not (found.out / name).is_file():
            raise InvalidInput(f"the folder {folder} has no {name} any more")
        return found.out / name

    def wait(self) -> None:
        """Return once nothing is being made."""
        if self._last is not None:
            self._last.wait()


class AlreadyReleasing(Exception):  # noqa: N818
    """Another release is being made."""


def _of_system(error: OSError) -> str:
    return f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}"


def _account(program: Program, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Where the ledger stands; None where there is none."""
    try:
        found = program.account(arguments)
    except (QReleaseError, OSError):
        return None
    return None if found["new"] else found
