"""A parent table and its children released together: error of both, and what children tell of their parents.

    python -m benchmarks.two_tables [--data DIR] [--only TABLE] [--epsilon E ...] [--shares] [--seeds N] [--json]

Tables, from DIR/raw: flights, whose parents are the aircraft of planes; and rwm5yr, where the parents are persons, with
what their earliest record says of them, and the children their visits to doctors by year. δ = 1e-9; of each parent at
most m children are kept. Errors are mean L1 distances of normalised two-way marginals from those of all parents, and of
all children that have one: what is left out counts too.

    parents    the released answers about parents, the number of their children (up to m) among the columns
    children   the released answers about children and their parents' columns
    drawn      the pairs of a child's column and a parent's one, in synthetic parents and children
    unlinked   the same, with the same synthetic children dealt out to these parents at random
    orphans    synthetic children without a parent

--shares   several parts of the cost for the parents, beside the one that `qrelease release --both` takes. `regret` is
           the mean of how many times larger the first three are than the least that any of the parts gives

Noise comes from fixed seeds, so that errors can be repeated: it protects nobody, and the tables are public. Exit code 1
where there is an orphan.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.persons import DELTA, DOCTOR_VISITS, FLIGHTS, distance
from benchmarks.synthesizers import PLANES
from qrelease._util.typing import Floats, Ints
from qrelease.apps.two_tables import PARENTS_SHARE, release_linked
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.data.two_tables import TwoTables
from qrelease.mechanisms.auto import Auto
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
OF_FLIGHTS = ("carrier", "origin", "dep_delay", "distance")
OF_PLANES = ("year", "engines", "seats")
OF_PERSONS = ("edlevel", "age", "female")
OF_VISITS = ("docvis", "hospvis", "year", "outwork", "kids")


def flights(data: Path) -> TwoTables:
    """Planes, and at most ten flights of each."""
    columns = [a for a in (*FLIGHTS, *PLANES) if a.name in (*OF_FLIGHTS, *OF_PLANES)]
    domain = Domain(tuple(columns), person=Person("tailnum", 10, ("", "NA")))
    return TwoTables.read(data / "raw" / "flights.csv.gz", data / "raw" / "planes.csv.gz", domain)


def rwm5yr(data: Path) -> TwoTables:
    """Persons, and at most five of their records."""
    person = Person("id", 5)
    columns = {a.name: a for a in DOCTOR_VISITS}
    file = data / "raw" / "rwm5yr.csv.gz"
    read = Table.read(file, Domain(tuple(columns[n] for n in (*OF_PERSONS, *OF_VISITS)), person=person))
    assert read.persons is not None
    keys, by_name = read.persons.codes, dict(zip(read.domain.names, read.columns, strict=True))
    order = np.lexsort((by_name["year"], keys))
    earliest = order[np.unique(keys[order], return_index=True)[1]]
    persons = Domain(tuple(columns[n] for n in OF_PERSONS), person=person)
    visits = Domain(tuple(columns[n] for n in OF_VISITS), person=person)
    return TwoTables.of(
        Table.of_persons(persons, [by_name[n][earliest] for n in OF_PERSONS], keys[earliest].tolist()),
        Table.of_persons(visits, [by_name[n] for n in OF_VISITS], keys.tolist()),
    )


TABLES = {"flights": flights, "rwm5yr": rwm5yr}


def _pairs(domain: Domain, own: Sequence[str], columns: Sequence[Ints]) -> list[Floats]:
    """Counts of each column of a child with each of its parent's."""
    names = [name for name in domain.names if name not in own]
    found = []
    for one, other in product(own, names):
        a, b = domain.axis(one), domain.axis(other)
        size = domain.shape[a] * domain.shape[b]
        found.append(np.bincount(columns[a] * domain.shape[b] + columns[b], minlength=size).astype(np.float64))
    return found


def errors_of(both: TwoTables, epsilon: float, share: float, seed: int) -> dict[str, float]:
    """Of one release of both tables."""
    cost, domain = ApproxDP(epsilon, DELTA), both.children.domain
    assert domain.person is not None
    with Ledger.open(None, cost, person=domain.person.column) as ledger:
        released = release_linked(both, ledger, Auto(table=True), cost, share=share, entropy=Entropy.insecure(seed))
    line = {}
    for name in ("parents", "children"):
        table, release = getattr(both, name), getattr(released, name)
        workload = Workload.marginals(table.domain, 2)
        truth = [c.astype(np.float64) for c in table.counts(workload.sets)]
        found = [np.maximum(part, 0) for part in np.split(release.answers(), workload.bounds[1:-1])]
        line[name] = distance(table.domain, workload.sets, found, truth)
    rng = np.random.default_rng(seed)
    parents, of, own = released.codes(None, rng)
    true = _pairs(domain, both.own, [c.astype(np.int64) for c in both.children.columns])
    for name, parent in (("drawn", of), ("unlinked", rng.permutation(of))):
        joined = dict(zip(both.own, own, strict=True))
        joined |= {n: c[parent] for n, c in zip(released.parents.domain.names, parents, strict=True)}
        found = _pairs(domain, both.own, [joined[n].astype(np.int64) for n in domain.names])
        line[name] = distance(domain, (), found, true)
    return line | {"orphans": float(((of < 0) | (of >= len(parents[0]))).sum())}


def lines(
    both: TwoTables, name: str, epsilon: float, shares: Sequence[float], seeds: int
) -> Iterator[dict[str, str | float]]:
    """One for each part of the cost for the parents."""
    found = []
    for share in shares:
        runs = [errors_of(both, epsilon, share, seed) for seed in range(seeds)]
        found.append({key: float(np.mean([run[key] for run in runs])) for key in runs[0]})
    least = {key: min(line[key] for line in found) for key in ("parents", "children", "drawn")}
    for share, line in zip(shares, found, strict=True):
        regret = float(np.mean([line[key] / least[key] for key in least]))
        more = {"regret": regret} if len(shares) > 1 else {}
        yield {"table": name, "epsilon": epsilon, "share": share, **line, **more}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the lines; 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(), help="the folder with raw/; default: here")
    parser.add_argument("--only", choices=[*TABLES])
    parser.add_argument("--epsilon", action="append", type=float)
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    missed = False
    for name in [arguments.only] if arguments.only else TABLES:
        if not (arguments.data / "raw" / f"{name}.csv.gz").exists():
            print(f"SKIPPED {name}: no raw/{name}.csv.gz; give its folder as --data DIR", file=sys.stderr)
            continue
        both = TABLES[name](arguments.data)
        for epsilon in arguments.epsilon or (1.0,):
            shares = SHARES if arguments.shares else (PARENTS_SHARE,)
            for line in lines(both, name, epsilon, shares, arguments.seeds):
                told = "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else v for k, v in line.items())
                print(json.dumps(line) if arguments.json else told, flush=True)
                missed |= bool(line["orphans"])
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
