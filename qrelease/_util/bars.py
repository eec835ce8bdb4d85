"""Progress bars that are no terminal's: in a notebook, and as lines of a log. Only `progress` makes them."""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any, ClassVar, Final

from tqdm import tqdm

NOTEBOOK_DELAY: Final = 1.0
"""Seconds after which a notebook shows a bar: what is quicker leaves no empty output behind."""


_LINE: Final = "{desc}: {n_fmt} of {total_fmt}, {elapsed} since the beginning, {remaining} to go"
_ENDLESS: Final = "{desc}: {n_fmt} so far, {elapsed} since the beginning"  # nobody knows how many there are


class _Shown(tqdm):  # type: ignore[type-arg]  # its items are those of whoever iterates
    """What tqdm counts, shown in another way than by moving a terminal's cursor."""

    def __init__(self, work: Any, **options: Any) -> None:
        super().__init__(work, gui=True, **options)
        self.sp = self.display

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Show how far the work is."""
        self.show(str(self) if msg is None else msg)

    def show(self, text: str) -> None:
        """Show a text in place of the one before, or after it."""
        raise NotImplementedError

    def close(self) -> None:
        """Show nothing more."""
        if not self.disable:
            self.disable = True
            self._decr_instances(self)  # type: ignore[attr-defined]  # the stubs lack it


class NotebookBar(_Shown):
    """A bar in the output of a cell, which is emptied when the work is done."""

    def __init__(self, work: Any, **options: Any) -> None:
        self.handle: Any = None
        super().__init__(work, **{"delay": NOTEBOOK_DELAY, **options})

    def show(self, text: str) -> None:
        """Replace what the cell shows."""
        from IPython.display import display

        if self.handle is None:
            self.handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self.handle.update({"text/plain": text}, raw=True)

    def close(self) -> None:
        """Leave an empty output."""
        if not self.disable and self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)
        super().close()


class LogLines(_Shown):
    """A line on stderr every so many seconds, of what is not within other work that has such lines."""

    _outermost: ClassVar[weakref.ref[LogLines] | None] = None

    def __init__(self, work: Any, seconds: float, **options: Any) -> None:
        self.seconds, self.shown = seconds, time.monotonic()
        self.outermost = self._outermost is None or self._outermost() is None
        if self.outermost:
            LogLines._outermost = weakref.ref(self)
        line = _ENDLESS if work is None and options.get("total") is None else _LINE
        rate = {"mininterval": seconds, "maxinterval": 2 * seconds, "miniters": 1}
        super().__init__(work, **{"bar_format": line, **options}, **rate)

    def show(self, text: str) -> None:
        """Write a line, unless the last one was just now: `elapsed` shows itself every second."""
        now = time.monotonic()
        if self.outermost and now - self.shown >= 0.9 * self.seconds:
            self.shown = now
            print(f"qrelease: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Write no line more."""
        if self.outermost:
            self.outermost, LogLines._outermost = False, None
        super().close()
