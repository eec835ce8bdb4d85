"""How far long work is: on a terminal, in a notebook, and nowhere else unless lines of a log are asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")

LINE_SECONDS: Final = 30.0
"""Between two lines of a log that say how far something is."""

_COLUMNS, _ROWS = 80, 24  # of a terminal that does not say how large it is

_log: ContextVar[float | None] = ContextVar("_log", default=None)
_hidden: ContextVar[bool] = ContextVar("_hidden", default=False)


@contextmanager
def log_lines(seconds: float = LINE_SECONDS) -> Iterator[None]:
    """Let all long work in here say every so many seconds how far it is, where stderr is no terminal."""
    before = _log.set(seconds)
    try:
        yield
    finally:
        _log.reset(before)


def logs_lines() -> bool:
    """Whether lines of a log are asked for here."""
    return _log.get() is not None


@contextmanager
def showing(wanted: bool | None) -> Iterator[bool]:
    """Show how far long work in here is, or show nothing: as whoever calls from Python wants it.

    Gives whether it is shown.

    wanted  None: where stderr is a terminal, or a notebook's; True: as lines of a log elsewhere, too
    """
    seen = sees_work() if wanted is None else wanted
    before = _hidden.set(wanted is False)
    try:
        with log_lines() if wanted else nullcontext():
            yield seen
    finally:
        _hidden.reset(before)


def sees_work() -> bool:
    """Whether somebody looks on: at a terminal, or in a notebook."""
    return sys.stderr.isatty() or in_notebook()


@overload
def progress(work: Iterable[T], *, lines: float | None = ..., **options: Any) -> tqdm[T]: ...
@overload
def progress(work: None = ..., *, lines: float | None = ..., **options: Any) -> tqdm[Any]: ...
def progress(work: Iterable[T] | None = None, *, lines: float | None = None, **options: Any) -> tqdm[Any]:
    """A progress bar around some work, or one to `update`; it goes when the work is done.

    Parameters
    ----------
    work : iterable, optional
        The steps.
    lines : float, optional
        Seconds between two lines on stderr, where that is neither a terminal nor a notebook's; by default none, or as
        `log_lines` says. Of work within other work, the outermost alone is told of.
    **options
        As tqdm takes them, such as `desc` and `total`. A bar with `disable=True` shows nothing anywhere.

    Returns
    -------
    tqdm
        An iterable of the steps, with `update` and `close`.

    Examples
    --------
    >>> list(progress(range(3), desc="rounds"))
    [0, 1, 2]
    """
    from tqdm import tqdm  # on first need: whoever reads a public schema does not load it

    if _hidden.get():
        options["disable"] = True
    if not options.get("disable"):
        options.pop("disable", None)
        if in_notebook():
            from qrelease._util.bars import NotebookBar

            return NotebookBar(work, **options)
        lines = _log.get() if lines is None else lines
        if lines is not None and not sys.stderr.isatty():
            from qrelease._util.bars import LogLines

            return LogLines(work, lines, **options)
        options["disable"] = None  # not on a terminal
        options |= _room()
    return tqdm(work, leave=False, **options)


def _room() -> dict[str, int]:
    """How large stderr's terminal is taken to be where it does not say, in which tqdm would show nothing; else empty.

    So it is where a program such as `script` makes the terminal, and nobody's own is behind it.
    """
    try:
        columns, _ = os.get_terminal_size(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # no terminal, or no file
        return {}
    return {} if columns else {"ncols": _COLUMNS, "nrows": _ROWS}


def in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter, which then has loaded IPython."""
    ipython: Any = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython() if ipython is not None else None, "kernel")
