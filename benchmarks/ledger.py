"""Durable charges per second, what the 100 000th costs next to the first, and the same of the filters.

    python -m benchmarks.ledger [--json] [--folder FOLDER]
    python -m benchmarks.ledger --rates            # SQLite and PostgreSQL side by side, and nothing else
    python -m benchmarks.ledger --kills 300        # four hosts on one server, where everything is killed that can be

A charge is a commit with its fsync, so the figures are those of the disk that FOLDER is on (the temporary folder by
default). `reference` is the figure asked for and `ratio` is value / reference: at least 1 for a rate, at most 1 for a
slowdown. `--rates` says what the disk does beside it, before and after: how often a second a page of 8 KiB in the midst
of a file is written and synchronised by one process, as a database's log is. A commit by one process cannot be faster;
those of several processes, where they wait for the disk together, can. PostgreSQL is a server of the benchmark's own on
this machine, with fsync; where there is none, its lines are missing.
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
from qrelease.privacy.ledger_file import LedgerFile
from tests.helpers.postgres import Server, running

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
        file = old.store.database
        assert isinstance(file, LedgerFile)
        file._live().execute("PRAGMA synchronous = OFF")
        rate(charging(old), CHARGES - WINDOW * ROUNDS)
        file._live().execute("PRAGMA synchronous = FULL")
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


def together(place: str, name: str = "", processes: int = 4, each: int = 1000, asked: float = 500.0) -> list[Row]:
    """Processes that charge one ledger at once."""
    Ledger.open(place, TOTAL).close()
    command = [sys.executable, "-c", WRITER, place, str(each)]
    start = time.perf_counter()
    writers = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.getcwd()}) for _ in range(processes)]
    if any(writer.wait() for writer in writers):
        raise RuntimeError("a writer failed")
    value = processes * each / (time.perf_counter() - start)
    return [Row(f"durable charge, {processes} processes at once{name}", value, "charges/s", asked)]


def databases(folder: Path, disk: Path | None) -> list[Row]:
    """The same charges on a file and on a server, which is on this machine too, and on this disk."""
    asked = 300.0
    rows = [synced(folder, "before", asked)]
    with running(disk) as server:
        for name, place in {
            "SQLite": str(folder / "side.ledger"),
            "PostgreSQL": "" if server is None else server.url("side"),
        }.items():
            if place:
                with Ledger.open(place, TOTAL) as ledger:
                    rows.append(Row(f"durable charge, {name}", rate(charging(ledger)), "charges/s", asked))
                rows += together(f"{place}_4", f", {name}", asked=asked)
        if server is not None:
            rows.append(beside_an_insert(server))
    return [*rows, synced(folder, "after", asked)]


def beside_an_insert(server: Server) -> Row:
    """What a charge costs over the least that the server can do durably: an INSERT of one row, committed by itself."""
    import psycopg

    address = server.url("inserts")
    with (
        Ledger.open(address, TOTAL) as ledger,
        psycopg.connect(address.partition("?")[0], autocommit=True) as connection,
    ):
        connection.execute("CREATE TABLE inserts.bare (label TEXT)")
        slowdown = side_by_side(lambda: connection.execute("INSERT INTO inserts.bare VALUES ('a')"), charging(ledger))
    return Row("durable charge next to an INSERT, PostgreSQL", slowdown, "x slower", 1.5)


def synced(folder: Path, when: str, asked: float) -> Row:
    """What the disk allows a process that waits for it each time."""
    with open(folder / "synced", "w+b", buffering=0) as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())

        def page() -> None:
            os.pwrite(file.fileno(), bytes(8192), 1 << 19)
            os.fdatasync(file.fileno())

        return Row(f"page written and synchronised, {when}", rate(page, 300), "pages/s", asked)


def killed(kills: int) -> None:
    """Print what was killed and what was lost."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(__file__).parents[1] / "tests" / "helpers" / "host_kills.py"
        command = [sys.executable, str(program), folder, str(kills), "1"]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": os.getcwd()}, capture_output=True, check=True)
    print("\n".join(f"{name:<30} {value}" for name, value in json.loads(done.stdout).items()))


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
    parser.add_argument("--rates", action="store_true", help="SQLite and PostgreSQL side by side alone")
    parser.add_argument("--kills", type=int, help="kill so much of four hosts and their server")
    options = parser.parse_args()
    if options.kills:
        killed(options.kills)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        rows = databases(folder, options.folder)
        if not options.rates:
            rows = [*charges(folder), *together(str(folder / "together.ledger")), *rows, *filters()]
    if options.json:
        print(json.dumps([row.as_dict() for row in rows], indent=1))
        return
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
