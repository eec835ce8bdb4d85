"""Progress bars that are no terminal's: in a notebook, and as lines of a log. Only `progress` makes them."""

from __future__ import annotations

import sys
from typing import Any, Final

from tqdm import tqdm

NOTEBOOK_DELAY: Final = 1.0
"""Seconds after which a notebook shows a bar: what is quicker leaves no empty output behind."""


_LINE: Final = "{desc}: {n_fmt} of {total_fmt}, {elapsed} since the beginning, {remaining} to go"


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
    """A line on stderr every so many seconds."""

    def __init__(self, work: Any, seconds: float, **options: Any) -> None:
        rate = {"mininterval": seconds, "maxinterval": 2 * seconds, "miniters": 1}
        super().__init__(work, **options, **rate, bar_format=_LINE)

    def show(self, text: str) -> None:
        """Write a line."""
        print(f"qrelease: {text}", file=sys.stderr, flush=True)
