"""Durable charges per second, what the 100 000th costs next to the first, and the same of the filters.

    python -m benchmarks.ledger [--json] [--folder FOLDER]
    python -m benchmarks.ledger --rates            # SQLite and PostgreSQL side by side, and nothing else
    python -m benchmarks.ledger --kills 300        # four hosts on one server, where everything is killed that can be

A charge is a commit with its fsync, so the figures are those of the disk that FOLDER is on (the temporary folder by
default). `reference` is the figure asked for and `ratio` is value / reference: at least 1 for a rate, at most 1 for a
slowdown. `--rates` says what the disk does beside it, before and after: how often a second a page of 8 KiB in the midst
of a file is written and synchronised by one process, as a database's log is. A commit by one process cannot be faster;
those of several processes, where they wait for the disk together, can. PostgreSQL is a server of the benchmark's own on
this machine, with fsync; where there is none, its lines are missing. Beside its charges are the rates of the least that
it can do durably, an INSERT of one row that is committed by itself, by as many processes on the same disk, in turns
with the charges: what a charge takes more is ours, the rest is the server's and the disk's. Of several processes the
seconds count from when all of them are ready.
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
            f"{self.name:<52} {self.value:>12,.2f} {self.unit:<10} reference {self.reference:>7,.1f}"
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


def side_by_side(new: Callable[[], object], old: Callable[[], object], rounds: int = ROUNDS) -> tuple[float, float]:
    """The seconds that each of two takes, by windows in turn, so that the machine's moods meet both alike."""
    pairs = [(seconds(new), seconds(old)) for _ in range(rounds)]
    return statistics.median(fast for fast, _ in pairs), statistics.median(slow for _, slow in pairs)


def slowdown(new: Callable[[], object], old: Callable[[], object]) -> float:
    """How much slower the old is."""
    fast, slow = side_by_side(new, old)
    return slow / fast


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
        slower = slowdown(charging(new), charging(old))
        return [
            Row("durable charge", rate(charging(new)), "charges/s", 500.0),
            Row("durable charge and answer of 1 kB", rate(lambda: answered(new)), "pairs/s", 250.0),
            Row(f"charge {CHARGES:,} next to the first", slower, "x slower", 1.5),
        ]


def answered(ledger: Ledger) -> bytes:
    return ledger.store_answer(ledger.charge(PureDP(0.1), "a query"), bytes(1000))


CHARGER = """
import sys
from qrelease.privacy.ledger import Ledger
from qrelease.privacy import PureDP
with Ledger.open(sys.argv[1]) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        ledger.charge(PureDP(0.1), "a query")
"""

INSERTER = """
import sys
import psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        connection.execute("INSERT INTO bare VALUES ('a')")
"""


def at_once(program: str, place: str, processes: int, each: int) -> float:
    """Seconds that processes take, from when all of them are ready, to do something so many times each at once."""
    command, environment = [sys.executable, "-c", program, place, str(each)], os.environ | {"PYTHONPATH": os.getcwd()}
    writers = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(processes)
    ]
    pipes = [(writer.stdin, writer.stdout) for writer in writers]
    for _, told in pipes:
        if told is None or told.readline() != b"ready\n":
            raise RuntimeError("a writer failed")
    start = time.perf_counter()
    for asked, _ in pipes:
        if asked is not None:
            asked.close()
    ends = [writer.wait() for writer in writers]  # all of them are waited for
    if any(ends):
        raise RuntimeError("a writer failed")
    return time.perf_counter() - start


def together(place: str, name: str = "", processes: int = 4, each: int = 1000, asked: float = 500.0) -> list[Row]:
    """Processes that charge one ledger at once."""
    Ledger.open(place, TOTAL).close()
    value = processes * each / at_once(CHARGER, place, processes, each)
    return [Row(f"durable charge, {processes} processes at once{name}", value, "charges/s", asked)]


def databases(folder: Path, disk: Path | None) -> list[Row]:
    """The same charges on a file and on a server, which is on this machine too, and on this disk."""
    asked = 300.0
    rows = [synced(folder, "before", asked)]
    with Ledger.open(folder / "side.ledger", TOTAL) as ledger:
        rows.append(Row("durable charge, SQLite", rate(charging(ledger)), "charges/s", asked))
    rows += together(f"{folder / 'side.ledger'}_4", ", SQLite", asked=asked)
    with running(disk) as server:
        if server is not None:
            rows += beside_inserts(server, asked)
            for processes in (4, 8):
                rows += together_beside_inserts(server, processes, asked)
    return [*rows, synced(folder, "after", asked)]


def beside_inserts(server: Server, asked: float) -> list[Row]:
    """Charges of one process, and the least that the server can do durably, in turns."""
    import psycopg

    address = server.url("inserts")
    with Ledger.open(address, TOTAL) as ledger, psycopg.connect(plain(address), autocommit=True) as connection:
        connection.execute("CREATE TABLE inserts.bare (label TEXT)")
        least, ours = side_by_side(
            lambda: connection.execute("INSERT INTO inserts.bare VALUES ('a')"), charging(ledger)
        )
    return [
        Row("INSERT and COMMIT, PostgreSQL", 1 / least, "rows/s", asked),
        Row("durable charge, PostgreSQL", 1 / ours, "charges/s", asked),
        Row("durable charge next to an INSERT, PostgreSQL", ours / least, "x slower", 1.5),
    ]


def together_beside_inserts(
    server: Server, processes: int, asked: float, each: int = 200, rounds: int = 4
) -> list[Row]:
    """The same of several processes at once."""
    address = server.url(f"at_once_{processes}")
    server.do("CREATE TABLE IF NOT EXISTS bare (label TEXT)")
    Ledger.open(address, TOTAL).close()
    pairs = [
        (at_once(INSERTER, plain(address), processes, each), at_once(CHARGER, address, processes, each))
        for _ in range(rounds)
    ]
    least, ours = (processes * each * rounds / sum(seconds) for seconds in zip(*pairs, strict=True))
    return [
        Row(f"INSERT and COMMIT, {processes} processes at once, PostgreSQL", least, "rows/s", asked),
        Row(f"durable charge, {processes} processes at once, PostgreSQL", ours, "charges/s", asked),
    ]


def plain(address: str) -> str:
    """The address of a ledger's server without what is ours."""
    return address.partition("?")[0]


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
        slower = slowdown(partial(new.spend, cost), partial(old.spend, cost))
        # OpenDP's filter took 2.4 s for 1 000 spends, quadratic in their number.
        rows.append(Row(f"filter spend, {name}", rate(partial(new.spend, cost)), "spends/s", 1000 / 2.4))
        rows.append(Row(f"filter spend {CHARGES:,} next to the first, {name}", slower, "x slower", 1.5))
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
