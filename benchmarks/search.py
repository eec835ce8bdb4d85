"""How far the exact search of SmallDB reaches: ranges of a million million databases and more, on real tables.

    python -m benchmarks.search [--data DIR] [--json]

Each line is one draw of the exponential mechanism: how many databases there are, what fraction of as many nodes was
looked at, the tries, the seconds, and how far the drawn database is off. DIR holds nltcs.csv.gz and nltcs-domain.json,
as for `benchmarks.error`; the other tables are columns of the bundled Adult table. Nodes, tries and seconds depend on
the table: on private data they are private. Noise comes from a fixed seed. Exit code 1 if a draw takes over a minute.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from qrelease.data.bundled import adult
from qrelease.data.table import Table
from qrelease.mechanisms.small_db.branch_and_bound import draw_database
from qrelease.mechanisms.small_db.databases import Bounds, Databases
from qrelease.noise.entropy import Entropy
from qrelease.queries.dense import dense
from qrelease.queries.workload import Workload

EPSILONS = (0.01, 0.1, 1.0)
SECONDS = 60.0


@dataclass(frozen=True)
class Found:
    """One draw. `visited` nodes, `off` a fraction of the records."""

    table: str
    cells: int
    queries: int
    records: int
    epsilon: float
    databases: float
    visited: int
    fraction: float
    tries: int
    seconds: float
    peak_mib: float
    off: float


def worlds(data: Path | None) -> Iterator[tuple[str, Table, int, int]]:
    """Name, table, order of the marginals, records of the small database."""
    yield "adult, 3 columns", adult(["marital-status", "sex", "income"]), 2, 22
    yield "adult, 4 columns", adult(["marital-status", "race", "sex", "income"]), 2, 7
    if data is None or not (data / "nltcs.csv.gz").exists():
        print("SKIPPED nltcs: no nltcs.csv.gz; give its folder as --data DIR", file=sys.stderr)
        return
    whole = Table.read_csv(data / "nltcs.csv.gz", data / "nltcs-domain.json")
    for columns, order, records in [(6, 2, 11), (6, 3, 14), (7, 2, 12), (8, 3, 8)]:
        names = whole.domain.names[:columns]
        table = Table.read_csv(data / "nltcs.csv.gz", data / "nltcs-domain.json", names)
        yield f"nltcs, {columns} columns", table, order, records


def search(name: str, table: Table, order: int, records: int, epsilon: float) -> Found:
    rows, _ = dense(Workload.marginals(table.domain, order))
    answers, n = rows @ table.histogram(), len(table)
    began = time.perf_counter()
    databases = Databases.over(rows, records)
    bounds = Bounds(records * answers, np.full(len(rows), n))
    gamma = Fraction(epsilon) / (2 * records)
    drawn = draw_database(databases, bounds, gamma, Entropy.insecure(0))
    seconds = time.perf_counter() - began
    off = int(databases.errors(bounds, np.array([drawn.number]))[0]) / (records * n)
    size = len(databases)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seen = size, drawn.visited, drawn.visited / size, drawn.tries
    return Found(name, rows.shape[1], len(rows), records, epsilon, *seen, seconds, peak, off)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of nltcs.csv.gz and nltcs-domain.json")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from a fixed seed, to be repeated; the tables are public", file=sys.stderr)
    slow = False
    if not arguments.json:
        print("table               cells queries  m   eps databases     nodes  fraction   tries       s    MiB    off")
    for world in worlds(arguments.data):
        for epsilon in EPSILONS:
            found = search(*world, epsilon)
            slow |= found.seconds > SECONDS
            if arguments.json:
                print(json.dumps({"name": "search", **asdict(found)}), flush=True)
            else:
                print(
                    f"{found.table:18}{found.cells:7}{found.queries:8}{found.records:3}{epsilon:6g}{found.databases:10.1e}"
                    f"{found.visited:10,}{found.fraction:10.1e}{found.tries:8,}{found.seconds:8.2f}{found.peak_mib:7.0f}"
                    f"{found.off:7.3f}",
                    flush=True,
                )
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
