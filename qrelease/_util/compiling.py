"""What says that code is compiled, which only the first runs on a machine wait for."""

import sys
import time
from functools import lru_cache

from qrelease._util.elapsed import SILENT
from qrelease._util.progress import logs_lines, sees_work

COMPILING = (
    "qrelease: compiling, once, what no earlier run has: ten to forty seconds more (`qrelease warmup` does all of it)"
)


def tell_of_compiling(*, everywhere: bool = False) -> None:
    """Say on stderr, once, why nothing happens while code is compiled that no earlier run compiled.

    At once on a terminal and in a notebook; where lines of a log are asked for, when it has taken more than `SILENT`;
    elsewhere not at all.

    everywhere  tell it elsewhere, too, when it has taken so long: for what others wait for, as a server
    """
    if everywhere or sees_work() or logs_lines():
        _listen()


@lru_cache(maxsize=1)
def _listen() -> None:
    from numba.core import event

    class Told(event.Listener):
        told, within, begun, spent = False, 0, 0.0, 0.0

        def on_start(self, _: event.Event) -> None:
            if not self.within:
                self.begun = time.monotonic()
            self.within += 1
            self.tell()

        def on_end(self, _: event.Event) -> None:
            self.tell()
            self.within -= 1
            if not self.within:
                self.spent += time.monotonic() - self.begun

        def tell(self) -> None:
            spent = self.spent + time.monotonic() - self.begun
            if not self.told and (spent > SILENT or sees_work()):
                self.told = True
                print(COMPILING, file=sys.stderr)

    event.register("numba:compile", Told())  # type: ignore[no-untyped-call]
