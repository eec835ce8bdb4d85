"""The sign on a terminal that something is at work."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qrelease._util.progress import progress

SILENT = 2.0
"""Seconds after which what is at work shows that it is."""


@contextmanager
def elapsed(what: str) -> Iterator[Callable[[str], None]]:
    """Show how long something has been at work, once it takes longer than `SILENT`: where `progress` shows it.

    Gives a function that says what it is at work on from then on.
    """
    bar = progress(desc=what, bar_format="{desc}: {elapsed} so far", delay=SILENT)
    over = threading.Event()

    def show() -> None:
        wait = SILENT
        while not over.wait(wait):
            bar.refresh()
            bar.last_print_t = time.time()  # at its end tqdm clears what it knows to have shown, by this alone
            wait = min(wait, 1.0)

    shower = threading.Thread(target=show, daemon=True)
    if not bar.disable:
        shower.start()
    try:
        yield lambda now: bar.set_description_str(now, refresh=False)
    finally:
        over.set()
        if not bar.disable:
            shower.join()
        bar.close()
