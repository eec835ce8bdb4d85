"""Durable charges per second, what the 100 000th costs next to the first, and the same of the filters.

    python -m benchmarks.ledger [--json] [--folder FOLDER]

A charge is a commit with its fsync, so the figures are those of the disk that FOLDER is on (the temporary folder by
default). `reference` is the figure asked for and `ratio` is value / reference: at least 1 for a rate, at most 1 for a
slowdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from qrelease.privacy import ZCDP, ApproxDP, Cost, Filter, PureDP
from qrelease.privacy.ledger import Ledger

CHARGES, WINDOW, ROUNDS = 100_000, 100, 20
TOTAL = ApproxDP(1e6, 1e-6)


class Row(NamedTuple):
    """One line of the report."""

    name: str
    value: float
    unit: str
    reference: float

    @property
    def ratio(self) -> float:
        return self.value / self.reference

    def as_dict(self) -> dict[str, float | str]:
        return {**self._asdict(), "ratio": self.ratio}

    def __str__(self) -> str:
        return (
            f"{self.name:<45} {self.value:>12,.2f} {self.unit:<10} reference {self.reference:>7,.1f}"
            f"  ratio {self.ratio:.2f}"
        )


def seconds(action: Callable[[], object]) -> float:
    """The median over a window of calls."""
    times = []
    for _ in range(WINDOW):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def side_by_side(new: Callable[[], object], old: Callable[[], object]) -> float:
    """How much slower the old is, by windows in turn, so that the machine's moods meet both alike."""
    pairs = [(seconds(new), seconds(old)) for _ in range(ROUNDS)]
    return statistics.median(slow for _, slow in pairs) / statistics.median(fast for fast, _ in pairs)


def charging(ledger: Ledger) -> Callable[[], object]:
    return lambda: ledger.charge(PureDP(0.1), "a query")


def rate(action: Callable[[], object], calls: int = 2000) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        action()
    return calls / (time.perf_counter() - start)


def charges(folder: Path) -> list[Row]:
    """A ledger of one charge next to one of 100 000, which gets there without waiting for the disk."""
    with Ledger.open(folder / "new.ledger", TOTAL) as new, Ledger.open(folder / "old.ledger", TOTAL) as old:
        old.store.database._live().execute("PRAGMA synchronous = OFF")
        rate(charging(old), CHARGES - WINDOW * ROUNDS)
        old.store.database._live().execute("PRAGMA synchronous = FULL")
        slowdown = side_by_side(charging(new), charging(old))
        return [
            Row("durable charge", rate(charging(new)), "charges/s", 500.0),
            Row("durable charge and answer of 1 kB", rate(lambda: answered(new)), "pairs/s", 250.0),
            Row(f"charge {CHARGES:,} next to the first", slowdown, "x slower", 1.5),
        ]


def answered(ledger: Ledger) -> bytes:
    return ledger.store_answer(ledger.charge(PureDP(0.1), "a query"), bytes(1000))


WRITER = """
import sys
from qrelease.privacy.ledger import Ledger
from qrelease.privacy import PureDP
with Ledger.open(sys.argv[1]) as ledger:
    for _ in range(int(sys.argv[2])):
        ledger.charge(PureDP(0.1), "a query")
"""


def together(folder: Path, processes: int = 4, each: int = 1000) -> list[Row]:
    path = folder / "together.ledger"
    Ledger.open(path, TOTAL).close()
    command = [sys.executable, "-c", WRITER, str(path), str(each)]
    start = time.perf_counter()
    writers = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.getcwd()}) for _ in range(processes)]
    if any(writer.wait() for writer in writers):
        raise RuntimeError("a writer failed")
    value = processes * each / (time.perf_counter() - start)
    return [Row(f"durable charge, {processes} processes at once", value, "charges/s", 500.0)]


def filters() -> list[Row]:
    rows = []
    kinds: list[tuple[str, Cost]] = [("pure", PureDP(0.1)), ("zCDP", ZCDP(0.1))]
    for name, cost in kinds:
        new, old = Filter(TOTAL), Filter(TOTAL)
        rate(partial(old.spend, cost), CHARGES - WINDOW * ROUNDS)
        slowdown = side_by_side(partial(new.spend, cost), partial(old.spend, cost))
        # OpenDP's filter took 2.4 s for 1 000 spends, quadratic in their number.
        rows.append(Row(f"filter spend, {name}", rate(partial(new.spend, cost)), "spends/s", 1000 / 2.4))
        rows.append(Row(f"filter spend {CHARGES:,} next to the first, {name}", slowdown, "x slower", 1.5))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        rows = [*charges(folder), *together(folder), *filters()]
    if options.json:
        print(json.dumps([row.as_dict() for row in rows], indent=1))
        return
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
