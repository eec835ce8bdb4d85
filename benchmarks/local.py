"""The local model on real numbers: which mechanism is the most accurate for many attributes, and how fast a server is.

    python -m benchmarks.local --data DIR [--quick] [--json]

DIR has raw/flights.csv.gz, raw/planes.csv.gz, raw/rwm5yr.csv.gz and adult.csv.gz. All tables are public; people are
simulated by `qrelease.local.crowd` from fixed seeds, which protects nobody.

*The study* is that of RCP's authors done again with mechanisms that are private. 30 numeric columns, each scaled to
[0, 1] by its least and largest value, rows with a missing value left out. Data set d has m = 36 attributes: the
columns d, d + 1, …, from the first again after the last. Person i of n = 800 000 has row i of each, from the first
again after the last. Everybody reports on one attribute chosen by chance, at all of ε; laplace, piecewise, hybrid and
rcp divide by the number of people who answered, and harmony by n/m. `rcp` is `Coin`: with Duchi's and Harmony's it is
one law, so harmony differs from it by what it divides by. `rcp n/m` is what RCP's authors divide by; it is not ranked.
The first 50 000, 100 000, … of these people are data sets too, with means of their own and the same reports.

    rmse       of the 36 means, over all data sets; a fraction of the range; at all n, and by n at ε = 1
    rank       mean over the 30 data sets; ranks of five sum to 15
    friedman   its χ² and p-value; `apart` is Nemenyi's least difference of mean ranks that shows, at 5 %
    printed    the sums of the ranks that were printed at some ε; what is not 15 cannot be mean ranks of five

*The server*: seconds for reading and for estimating 10 million reports, strictly parsed from compact bytes, and how
many of them this process was at work; exit code 1 where that is more than ten. Of square waves it is the mean and a
histogram of 1024 bins. Reports on texts are on prefixes of a thousand words over 26 letters, of which the first is four
times as common as the second, and so on. They are a million, ten times over: that makes noise common, so that as many
prefixes are kept as ever are.
"""

import argparse
import csv
import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from scipy import stats

from qrelease.local import (
    Client,
    Coin,
    Hadamard,
    Hybrid,
    KAry,
    LocalHashing,
    LocalLaplace,
    Marginals,
    OneOf,
    OptimisedUnary,
    Piecewise,
    SquareWave,
    SquareWaveServer,
    Text,
    Unary,
    serve,
)
from qrelease.local.crowd import insecure_reports, places_of_values
from qrelease.local.means import MeanServer
from qrelease.local.several import Several

EPSILONS = (0.1, 0.2, 0.5, 0.8, 1.0, 2.0, 5.0, 8.0, 10.0)
PEOPLE, QUICK_PEOPLE = (50_000, 100_000, 200_000, 400_000, 800_000), (20_000, 40_000, 80_000)
ATTRIBUTES = 36
REPORTS = 10_000_000
BINS = 1024
"""Of the histogram that is found from square waves."""

LIMIT = 10.0
"""Seconds at work that reading and estimating so many reports may take."""

COLUMNS = {
    "raw/flights": ("sched_dep_time", "dep_delay", "arr_delay", "air_time", "distance", "flight"),
    "raw/planes": ("year", "engines", "seats"),
    "raw/rwm5yr": (
        *("docvis", "hospvis", "year", "edlevel", "age", "outwork", "female", "married", "kids", "hhninc", "educ"),
        *("self", "edlevel1", "edlevel2", "edlevel3"),
    ),
    "adult": ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
}
PRINTED = {0.2: 15.41, 8.0: 15.4, 10.0: 15.3}
RANKED = ("laplace", "harmony", "piecewise", "hybrid", "rcp")
UNRANKED = "rcp n/m"

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]


def columns(data: Path) -> list[Floats]:
    """The 30 columns, each scaled to [0, 1]."""
    found = []
    for table, names in COLUMNS.items():
        with gzip.open(data / f"{table}.csv.gz", "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for name in names:
            values = np.array([float(row[name]) for row in rows if row[name]])
            found.append((values - values.min()) / np.ptp(values))
    return found


class People:
    """A data set of people who are each asked about one of m attributes; so are the first n of them, for several n."""

    def __init__(self, scaled: list[Floats], first: int, numbers: tuple[int, ...]) -> None:
        n = numbers[-1]
        rng = np.random.default_rng(1000 + first)
        chosen = rng.integers(0, ATTRIBUTES, n)
        self.numbers, self.rng = numbers, rng
        self.truth = np.empty((len(numbers), ATTRIBUTES))
        self.counts = np.empty((len(numbers), ATTRIBUTES), np.int64)
        places = []
        grid = Coin(1.0)
        for j in range(ATTRIBUTES):
            column = scaled[(first + j) % len(scaled)]
            asked = np.flatnonzero(chosen == j)
            for i, people in enumerate(numbers):
                whole, rest = divmod(people, len(column))
                self.truth[i, j] = (whole * column.sum() + column[:rest].sum()) / people
                self.counts[i, j] = np.searchsorted(asked, people)
            places.append(places_of_values(grid, column)[asked % len(column)])
        self.places = np.concatenate(places)
        # Who is asked about an attribute stands in the order of the people: those after the first so many begin there.
        ends = np.cumsum(self.counts[-1])
        self.starts = np.vstack([np.zeros(ATTRIBUTES, np.int64), self.counts[:-1]]) + np.append(0, ends[:-1])

    def sums(self, client: Client) -> tuple[Floats, MeanServer[Any]]:
        """The sums of what the reports on each attribute are worth, of the first n people, (numbers, m), in steps."""
        server = serve(client)
        assert isinstance(server, MeanServer)
        worths = server.worths(insecure_reports(client, self.places, self.rng))
        further = np.add.reduceat(worths, self.starts.T.reshape(-1)).reshape(ATTRIBUTES, -1).T
        return np.cumsum(further, axis=0), server

    def errors(self, epsilon: float) -> dict[str, Floats]:
        """Squared errors of each mechanism, (numbers, m)."""
        found = {}
        people = np.array(self.numbers)[:, None]
        for client in (LocalLaplace(epsilon), Piecewise(epsilon), Hybrid(epsilon), Coin(epsilon)):
            sums, server = self.sums(client)
            step = float(server.step)
            found[client.name] = step * sums / self.counts
            if isinstance(client, Coin):
                # Who was not asked counts the middle in Harmony, and a report of 0 in RCP.
                zero = float(server.worths(np.array([0]))[0])
                for name, origin in (("harmony", client.steps / 2), (UNRANKED, zero)):
                    found[name] = step * (origin + (sums - origin * self.counts) * ATTRIBUTES / people)
        found["rcp"] = found.pop("coin")
        return {name: (means - self.truth) ** 2 for name, means in found.items()}


def study(data: Path, numbers: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """One row for each ε and number of people."""
    scaled = columns(data)
    squares: dict[tuple[float, str], list[Floats]] = {}
    for first in range(len(scaled)):
        people = People(scaled, first, numbers)
        for epsilon in EPSILONS:
            for name, errors in people.errors(epsilon).items():
                squares.setdefault((epsilon, name), []).append(errors.mean(axis=1))
    for epsilon in EPSILONS:
        for i, n in enumerate(numbers):
            found = {name: np.array([errors[i] for errors in squares[epsilon, name]]) for name in (*RANKED, UNRANKED)}
            yield {"part": "study", "epsilon": epsilon, "people": n, "sets": len(scaled), **compared(found)} | {
                "printed_rank_sum": PRINTED.get(epsilon)
            }


def compared(found: dict[str, Floats]) -> dict[str, Any]:
    """Errors, ranks and tests from mean squared errors, an array (sets,) for each mechanism."""
    table = np.array([found[name] for name in RANKED])
    ranks = stats.rankdata(table, axis=0).mean(axis=1)
    k, sets = table.shape
    friedman = stats.friedmanchisquare(*table)
    by_hand = 12 * sets / (k * (k + 1)) * ((ranks**2).sum() - k * (k + 1) ** 2 / 4)
    assert abs(friedman.statistic - by_hand) < 1e-6 * max(1.0, by_hand)
    apart = stats.studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * sets))
    return {
        "rmse": {name: float(np.sqrt(errors.mean())) for name, errors in found.items()},
        "rank": dict(zip(RANKED, ranks.tolist(), strict=True)),
        "rank_sum": float(ranks.sum()),
        "friedman": float(friedman.statistic),
        "p": float(friedman.pvalue),
        "apart": float(apart),
    }


def simulated(client: Client, n: int, rng: np.random.Generator) -> Ints:
    """Reports of n people, (n,)."""
    if isinstance(client, Several):
        chosen, found = rng.integers(0, len(client.questions), n), np.empty(n, np.int64)
        for j, question in enumerate(client.questions):
            found[chosen == j] = client.offsets[j] + simulated(question, int((chosen == j).sum()), rng)
        return found
    if isinstance(client, Text):
        words = ["".join(rng.choice(list(client.alphabet), rng.integers(3, 9))) for _ in range(1000)]
        levels, who = rng.integers(0, client.levels, n), np.minimum(rng.zipf(2.0, n), 1000) - 1
        marks = np.array([[client.category(i, word) for word in words] for i in range(client.levels)])
        return levels * client.hashing.size + insecure_reports(client.hashing, marks[levels, who], rng)
    return insecure_reports(client, rng.integers(0, client.inputs, n), rng)


def wire(client: Client, n: int) -> bytes:
    """Compact reports: of simulated people, or, where every number is a report, of any bits."""
    rng = np.random.default_rng(7)
    some = n // 10
    if isinstance(client, Unary | OptimisedUnary):
        octets = rng.integers(0, 256, (some, client.width), dtype=np.uint8)
    else:
        octets = serve(client).from_codes(simulated(client, some, rng)).octets
    terms = np.frombuffer(bytes.fromhex(client.terms), np.uint8)
    return np.hstack([np.tile(terms, (some, 1)), octets]).tobytes() * 10


def speed(n: int) -> Iterator[dict[str, Any]]:
    """One row a mechanism: seconds for reading and for estimating n reports."""
    clients: list[Client] = [KAry(1.0, 64), Unary(1.0, 64), OptimisedUnary(1.0, 64), LocalHashing(1.0, 64)]
    clients += [Hadamard(1.0, 64), Coin(1.0), Piecewise(1.0), SquareWave(1.0), Hybrid(1.0), LocalLaplace(1.0)]
    clients += [OneOf(1.0, (Coin(1.0),) * ATTRIBUTES), Marginals(1.0, (5, 5, 5), ((0, 1), (0, 2), (1, 2)))]
    for client in [*clients, *(Text(epsilon, ascii_lowercase, 8, step) for epsilon in (1.0, 3.0) for step in (1, 2))]:
        octets, server = wire(client, n), serve(client)
        begin, working = time.perf_counter(), time.process_time()
        batch = server.read(octets)
        middle = time.perf_counter()
        server.estimate(batch)
        if isinstance(server, SquareWaveServer):
            server.distribution(batch, BINS)
        end, worked = time.perf_counter(), time.process_time()
        yield {
            "part": "speed",
            "mechanism": client.name,
            "epsilon": client.epsilon,
            "step": client.step if isinstance(client, Text) else None,
            "reports": n,
            "read": middle - begin,
            "estimate": end - middle,
            "at_work": worked - working,
            "limit": LIMIT,
        }


def print_study(every: list[dict[str, Any]]) -> None:
    """As four tables."""
    names = (*RANKED, UNRANKED)
    sets, people = every[-1]["sets"], every[-1]["people"]
    rows = [row for row in every if row["people"] == people]
    print(f"RMSE of 36 means over {sets} data sets of {people:,} people, in fractions of the range")
    print(f"{'epsilon':>8}" + "".join(f"{name:>11}" for name in names))
    for row in rows:
        print(f"{row['epsilon']:>8g}" + "".join(f"{row['rmse'][name]:>11.4g}" for name in names))
    print("\nThe same at epsilon 1, of the first so many people; and who has the least mean rank there")
    print(f"{'people':>8}" + "".join(f"{name:>11}" for name in names))
    for row in (row for row in every if row["epsilon"] == 1.0):
        best = min(RANKED, key=lambda name: row["rank"][name])
        print(f"{row['people']:>8}" + "".join(f"{row['rmse'][name]:>11.4g}" for name in names) + f"   {best}")
    print("\nMean ranks, Friedman's test, and the difference that shows at 5 % (Nemenyi)")
    print(f"{'epsilon':>8}" + "".join(f"{name:>11}" for name in RANKED) + f"{'chi2':>9}{'p':>9}{'apart':>7}")
    for row in rows:
        ranks = "".join(f"{row['rank'][name]:>11.2f}" for name in RANKED)
        print(f"{row['epsilon']:>8g}{ranks}{row['friedman']:>9.1f}{row['p']:>9.1g}{row['apart']:>7.2f}")
    print("\nSums of mean ranks of five: they are 15; what was printed where it is not, and who is first here")
    print(f"{'epsilon':>8}{'needed':>8}{'printed':>9}{'here':>8}   first here (not told apart from)")
    for row in rows:
        if row["printed_rank_sum"] is not None:
            order = sorted(RANKED, key=lambda name: row["rank"][name])
            tied = [name for name in order[1:] if row["rank"][name] - row["rank"][order[0]] < row["apart"]]
            said = f"{order[0]} ({', '.join(tied) or 'none'})"
            print(f"{row['epsilon']:>8g}{15:>8}{row['printed_rank_sum']:>9g}{row['rank_sum']:>8.2f}   {said}")


def main() -> int:
    """Print the tables, or with `--json` one object a line; 1 where a server is too slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the tables")
    parser.add_argument("--quick", action="store_true", help="a tenth of the people, and three numbers of them")
    parser.add_argument("--json", action="store_true", help="one object a line")
    arguments = parser.parse_args()
    rows = list(study(arguments.data, QUICK_PEOPLE if arguments.quick else PEOPLE))
    if not arguments.json:
        print_study(rows)
        print(f"\n{REPORTS:,} reports, seconds (limit {LIMIT:g} at work)")
    speeds = []
    for row in speed(REPORTS):
        speeds.append(row)
        if not arguments.json:
            took = f"read {row['read']:6.2f}  estimate {row['estimate']:6.2f}, at work {row['at_work']:6.2f}"
            said = row["mechanism"] + (f", epsilon {row['epsilon']:g}, step {row['step']}" if row["step"] else "")
            print(f"{said:>23}  {took}", flush=True)
    if arguments.json:
        for row in (*rows, *speeds):
            print(json.dumps(row))
    slow = [row for row in speeds if row["at_work"] > LIMIT]
    for row in slow:
        print(f"FAILED {row['mechanism']}: {row['at_work']:.1f} s at work for {REPORTS:,} reports", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
