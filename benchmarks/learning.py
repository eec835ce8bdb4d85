"""What a schema learned from the records loses against one that the public knew, and against plainer ways to make one.

    python -m benchmarks.learning [--data DIR] [--table NAME ...] [--epsilon E ...] [--persons M] [--quick] [--shares]
                                  [--weights] [--peers peers/bin/python] [--json]

Tables: adult, the bundled one, with its four columns of numbers as they are; and, from DIR/raw, flights (delays, times
and distances as they are, carriers and destinations that nobody listed) and rwm5yr (visits to doctors, incomes).
One ε (and δ = 1e-9) pays for all that is private. The schemas:

learned    bins and categories learned in one account of ρ with the release, of which they take `rho_share`
perfect    the bins and categories that the same rules make of exact counts, which cost nothing
equal      32 bins of equal width; categories perfect
quantiles  32 noisy quantiles by recursive halving (Kaplan, Schnapp & Stemmer 2022) for a tenth of ε, or what the tool
           takes of persons' categories; categories perfect
privtree   leaves of a PrivTree (Zhang, Xiao & Xie 2016), about 32 of them, for the same part; categories perfect
dpmm       those of dpmm's own PrivTree, 32 at most, where --peers has it (`adapters/dpmm_bins.py`); else as `privtree`

Each makes a release of all two-way marginals by `--mechanism` (default: auto) and as many synthetic records as there
are. What is printed: `wasserstein`, the mean over the columns of numbers of the 1-D Wasserstein distance in standard
deviations; `ranges`, the mean error of 500 random two-way ranges on raw values, in percent of the records; `three-way`,
the mean L1 distance of 60 three-way marginals over a common binning (16 bins of as many true records, categories of at
least 0.2 %); and of learned categories the share of records in those kept, beside what the optimal rule expects.

--persons  the unit is a person of at most M records: in flights an aircraft, in rwm5yr a patient. `quantiles` and
           `privtree` see the records that the bound keeps, with noise for M of them. Each error is printed twice:
           against all records, as without a person, which has the bias of the bound in it, that no schema has a part
           in; and, after a slash, against what the bound leaves, in which a record of a person with k records counts
           min(1, M/k): the error that the schema and the noise make. Schemas are to be compared by the second: the
           bias of the bound and that of records spread evenly within bins may cancel. A line `bound` has what is left
           of all without noise or bins
--shares   the learned schema alone, with other parts of ρ for the learning
--weights  the learned schema alone, with other weights of a column of categories, against one level of bins
--quick    adult at ε = 1, in seven columns

Noise comes from fixed seeds, so that errors can be repeated (dpmm's has none): it protects nobody.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease.apps.cli.mechanisms import mechanism_of
from qrelease.data.attribute import OTHER, Attribute
from qrelease.data.bundled import ADULT_CSV, ADULT_SCHEMA
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.schema import load
from qrelease.data.table import Table
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.learning import gaussian_selection, partition_selection
from qrelease.mechanisms.learning import schema as learning
from qrelease.mechanisms.learning.bins import cuts_of
from qrelease.mechanisms.learning.point_tree import Pieces
from qrelease.mechanisms.learning.round_points import RoundPoints
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Cost, split
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

DELTA = 1e-9
BINS = 32
EPSILONS = (0.1, 1.0, 10.0)
SHARES = (0.05, 0.1, 0.2, 0.3)
WEIGHTS = (12, 24, 48, 96)
SCHEMAS = ("learned", "perfect", "equal", "quantiles", "privtree", "dpmm")
FINE = 16
RANGES = 500
TRIPLES = 60
RARE = 0.002
ERRORS = ("wasserstein", "ranges", "three-way")
PERSONS = {"flights": "tailnum", "rwm5yr": "id"}

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Weighted = tuple[Sequence[Ints], Floats]  # columns of records, and how much each record counts


def number(name: str, low: float, high: float, step: float = 1, *, missing: bool = False) -> Attribute:
    """A column of numbers whose bins are to be learned."""
    marks = ("", "NA") if missing else ()
    ends, width = (Fraction(str(low)), Fraction(str(high))), Fraction(str(step))
    learn = BINS if (ends[1] - ends[0]) / width >= BINS else 0
    return Attribute(name, "number", within=ends, step=width, learn=learn, missing=marks, outside="clip")


def open_category(name: str) -> Attribute:
    """A column whose categories are to be learned."""
    return Attribute(name, "category", learn=1000, missing=("", "NA"))


def adult(quick: bool) -> tuple[Path, Domain]:
    """The bundled table."""
    numbers = {
        "age": number("age", 17, 90),
        "capital-gain": number("capital-gain", 0, 99_999),
        "capital-loss": number("capital-loss", 0, 4400),
        "hours-per-week": number("hours-per-week", 1, 99),
    }
    kept = ("age", "education", "marital-status", "sex", "capital-gain", "hours-per-week", "income")
    listed = [numbers.get(a.name, a) for a in load(ADULT_SCHEMA) if not quick or a.name in kept]
    return ADULT_CSV, Domain(tuple(listed))


def flights(data: Path) -> tuple[Path, Domain]:
    """Departures from New York City in 2013."""
    return data / "raw" / "flights.csv.gz", Domain(
        (
            open_category("carrier"),
            Attribute("origin", "category", categories=("EWR", "JFK", "LGA")),
            open_category("dest"),
            number("sched_dep_time", 0, 2359),
            number("dep_delay", -60, 1440, missing=True),
            number("arr_delay", -120, 1440, missing=True),
            number("air_time", 0, 720, missing=True),
            number("distance", 0, 5000),
        )
    )


def rwm5yr(data: Path) -> tuple[Path, Domain]:
    """German health reform: visits to doctors."""
    return data / "raw" / "rwm5yr.csv.gz", Domain(
        (
            number("docvis", 0, 150),
            number("hospvis", 0, 60),
            number("year", 1984, 1988),
            number("edlevel", 1, 4),
            number("age", 18, 70),
            *(number(name, 0, 1) for name in ("outwork", "female", "married", "kids", "self")),
            number("hhninc", 0, 40, 0.01),
            number("educ", 5, 20, 0.5),
        )
    )


def fine(table: Table) -> list[Ints]:
    """Points of numbers, and codes of what is listed; -1 where missing. Texts that are open go by their numbers."""
    found = []
    for attribute, column in zip(table.domain, table.columns, strict=True):
        if attribute.grid is not None:
            found.append(table.grid(attribute.name))
        else:
            codes = column.astype(np.int64)
            codes[codes == attribute.values] = -1
            found.append(codes)
    return found


def completed(table: Table, attributes: Sequence[Attribute]) -> Domain:
    """The domain of these attributes, of the same unit."""
    return Domain(tuple(attributes), person=table.domain.person)


def perfect(table: Table, *, width: bool = False) -> Domain:
    """What the rules of learning make of exact counts; or even bins."""
    made = []
    for attribute, codes in zip(table.domain, fine(table), strict=True):
        if not attribute.undecided:
            made.append(attribute)
        elif attribute.grid is None:
            kept = sorted(set(table.texts[attribute.name]) - {OTHER})
            made.append(replace(attribute, learn=0, categories=(*kept, OTHER), outside=OTHER))
        else:
            size = attribute.grid.size
            cuts = [size * i // BINS for i in range(BINS + 1)] if width else exact_cuts(codes[codes >= 0], size)
            made.append(binned(attribute, cuts))
    return completed(table, made)


def binned(attribute: Attribute, cuts: Sequence[int]) -> Attribute:
    """With bins that begin at these points."""
    assert attribute.grid is not None
    return replace(attribute, learn=0, edges=tuple(float(attribute.grid.value(int(cut))) for cut in cuts))


def exact_cuts(codes: Ints, size: int) -> list[int]:
    """Of exact counts at each point."""
    counts = np.bincount(codes, minlength=size).astype(float)
    starts = np.arange(size)
    return cuts_of(Pieces(starts, starts + 1, counts), BINS, RoundPoints(-1, len(starts)))


def quantile_cuts(codes: Ints, size: int, epsilon: float, rng: np.random.Generator) -> list[int]:
    """Recursive halving, five levels, each by the exponential mechanism with a fifth of ε. Its noise is numpy's."""
    summed = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=size))])

    def halved(low: int, high: int, levels: int) -> list[int]:
        if levels == 0 or high - low < 2:
            return []
        places = np.arange(low + 1, high)
        scores = -np.abs(summed[places] - (summed[low] + summed[high]) / 2)
        at = int(places[np.argmax(scores * epsilon / 5 + rng.gumbel(size=len(places)))])
        return [*halved(low, at, levels - 1), at, *halved(at, high, levels - 1)]

    return [0, *halved(0, size, 5), size]


def privtree_cuts(codes: Ints, size: int, epsilon: float, rng: np.random.Generator) -> list[int]:
    """Leaves of a binary tree: with λ = 3/ε and decay λ ln 2, and a threshold that gives about 32 of them."""
    summed = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=size))])
    scale, threshold = 3 / epsilon, len(codes) / 20  # the number of records is taken as known
    decay = scale * np.log(2)
    cuts, left = [size], [(0, size, 0)]
    while left:
        low, high, depth = left.pop()
        biased = max(summed[high] - summed[low] - depth * decay, threshold - decay)
        if high - low > 1 and biased + rng.laplace(scale=scale) > threshold:
            middle = (low + high) // 2
            left += [(low, middle, depth + 1), (middle, high, depth + 1)]
        else:
            cuts.append(low)
    return sorted(cuts)


def dpmm_cuts(python: str) -> Callable[[Ints, int, float, np.random.Generator], list[int]]:
    """Leaves of dpmm's own PrivTree, in its own environment."""

    def cuts(codes: Ints, size: int, epsilon: float, rng: np.random.Generator) -> list[int]:
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            np.save(file, codes)
            file.flush()
            adapter = Path(__file__).parent / "adapters" / "dpmm_bins.py"
            told = {"lower": 0, "upper": size, "epsilon": epsilon, "bins": BINS}
            options = [part for name, value in told.items() for part in (f"--{name}", str(value))]
            run = subprocess.run([python, adapter, file.name, *options], capture_output=True, text=True, check=True)
        return sorted({int(np.ceil(edge)) for edge in json.loads(run.stdout)})

    return cuts


def drawn_bins(table: Table, rule: Any, epsilon: float, seed: int) -> Domain:
    """A perfect schema but for its bins, which a rule draws with an equal part of ε for each column.

    Of persons the rule sees the records that the bound keeps: for all of them, noise for m would be too little.
    """
    rng = np.random.default_rng(seed)
    known, kept = perfect(table), table.bounded(b"a key")
    assert isinstance(kept, Table)  # each record counts as one while a schema is being learned
    open_ = [a for a in table.domain if a.undecided]
    found: list[Attribute] = []
    if table.domain.person is not None:
        epsilon /= table.domain.person.at_most
    for attribute, codes, given in zip(table.domain, fine(kept), known, strict=True):
        if attribute in open_ and attribute.grid is not None:
            given = binned(attribute, rule(codes[codes >= 0], attribute.grid.size, epsilon / len(open_), rng))
        found.append(given)
    return completed(table, found)


class Judge:
    """Errors of synthetic records against the true ones, in what both are before any bins.

    bounded  the same records with their persons, where the unit is one
    """

    def __init__(self, table: Table, bounded: Table | None = None) -> None:
        self.table, self.true = table, fine(table)
        self.all: Weighted = (self.true, np.ones(len(table)))
        self.left = None if bounded is None else (self._numbered(bounded), bound_weights(bounded))
        rng = np.random.default_rng(7)
        self.numbers = [i for i, a in enumerate(table.domain) if a.grid is not None]
        self.wide = [i for i in self.numbers if table.domain.attributes[i].undecided]
        self.edges = [self._edges(i) for i in range(len(table.domain))]
        pairs = list(combinations(self.wide, 2)) or [(self.numbers[0], self.numbers[1])]
        self.ranges = []
        for _ in range(RANGES):
            pair = pairs[rng.integers(len(pairs))]
            ends = [np.sort(rng.choice(self.true[i][self.true[i] >= 0], 2)) for i in pair]
            self.ranges.append((pair, ends))
        triples = list(combinations(range(len(table.domain)), 3))
        self.triples = [triples[i] for i in rng.permutation(len(triples))[:TRIPLES]]

    def _edges(self, axis: int) -> Ints:
        """The codes at which fine bins begin; of categories the frequent ones."""
        codes = self.true[axis]
        if axis in self.numbers:
            return np.unique(np.quantile(codes[codes >= 0], np.arange(1, FINE) / FINE, method="higher"))
        counts = np.bincount(codes[codes >= 0])
        return np.flatnonzero(counts >= RARE * len(codes))

    def coarse(self, axis: int, codes: Ints) -> Ints:
        """0 where missing or rare."""
        edges = self.edges[axis]
        if axis in self.numbers:
            return np.where(codes < 0, 0, 1 + np.searchsorted(edges, codes, side="right"))
        place = np.minimum(np.searchsorted(edges, codes), len(edges) - 1)
        return np.where((codes >= 0) & (edges[place] == codes), 1 + place, 0)

    def _numbered(self, table: Table) -> list[Ints]:
        """The columns of another table, with its open texts numbered as here."""
        found = fine(table)
        for axis, name in enumerate(table.domain.names):
            if name in table.texts:
                numbers = {text: i for i, text in enumerate(self.table.texts[name])}
                own = np.array([numbers[text] for text in table.texts[name]])
                found[axis] = np.where(found[axis] < 0, -1, own[found[axis]])
        return found

    def synthetic(self, release: Any, rows: int) -> list[Ints]:
        """The columns of a synthetic table as those of the true one."""
        frame = release.synthetic(rows, seed=5, frame="pandas")
        open_ = [a.name for a in self.table.domain if a.undecided and a.grid is None]
        rest = Domain(tuple(a for a in self.table.domain if a.name not in open_))
        read = dict(zip(rest.names, fine(Table.from_frame(frame, rest)), strict=True))
        for name in open_:
            numbers = {text: i for i, text in enumerate(self.table.texts[name])}
            read[name] = frame[name].map(numbers).fillna(-1).astype(np.int64).to_numpy()
        return [read[name] for name in self.table.domain.names]

    def errors(self, found: Sequence[Ints]) -> dict[str, float]:
        """The three errors against all records, and, where the unit is a person, against what its bound leaves."""
        drawn = (found, np.ones(len(found[0])))
        errors = self._errors(self.all, drawn)
        return errors if self.left is None else errors | of_left(self._errors(self.left, drawn))

    def bound(self) -> dict[str, float]:
        """The three errors of what a person's bound leaves, without any noise."""
        assert self.left is not None
        return self._errors(self.all, self.left) | of_left(dict.fromkeys(ERRORS, 0.0))

    def _errors(self, true: Weighted, found: Weighted) -> dict[str, float]:
        shares = [np.array([self._share(asked, *one) for asked in self.ranges]) for one in (true, found)]
        three = (
            np.mean([self._wasserstein(axis, true, found) for axis in self.wide]),
            100 * np.abs(shares[0] - shares[1]).mean(),
            np.mean([self._distance(axes, true, found) for axes in self.triples]),
        )
        return dict(zip(ERRORS, map(float, three), strict=True))

    def _wasserstein(self, axis: int, *both: Weighted) -> float:
        size = 1 + max(int(columns[axis].max()) for columns, _ in both)
        shares = []
        for columns, weights in both:
            known = columns[axis] >= 0
            below = np.cumsum(np.bincount(columns[axis][known], weights[known], size))
            shares.append(below / max(float(below[-1]), 1e-9))
        true = self.true[axis]
        return float(np.abs(shares[0] - shares[1]).sum() / true[true >= 0].std())

    def _share(self, asked: Any, columns: Sequence[Ints], weights: Floats) -> float:
        (i, j), (first, second) = asked
        a, b = columns[i], columns[j]
        inside = (a >= first[0]) & (a <= first[1]) & (b >= second[0]) & (b <= second[1])
        return float(weights[inside].sum() / weights.sum())

    def _distance(self, axes: tuple[int, ...], *both: Weighted) -> float:
        shape = [len(self.edges[a]) + 2 for a in axes]
        tables = []
        for columns, weights in both:
            cells = np.ravel_multi_index([self.coarse(a, columns[a]) for a in axes], shape)
            tables.append(np.bincount(cells, weights, int(np.prod(shape))) / weights.sum())
        return float(np.abs(tables[0] - tables[1]).sum())


def of_left(errors: dict[str, float]) -> dict[str, float]:
    """Errors by the names that they have where they are against what the bound leaves."""
    return {f"{name} of what is left": error for name, error in errors.items()}


def bound_weights(table: Table) -> Floats:
    """How much of each record the bound on a person's records leaves: min(1, m/k), and nothing of nobody's."""
    assert table.persons is not None
    assert table.domain.at_most is not None
    codes = table.persons.codes
    counts = np.bincount(codes[codes >= 0])
    return np.where(codes >= 0, np.minimum(1.0, table.domain.at_most / np.maximum(counts[codes], 1)), 0.0)


def kept_shares(table: Table, domain: Domain, account: learning.OneAccount) -> dict[str, str]:
    """Of each learned list of categories: records in it, and what its rule and the optimal one expect at that cost.

    The optimal rule is of one category a unit: so many records have it, or, of persons, so many whose first one it is.
    """
    if not table.texts:
        return {}
    costs, said = learning.column_costs(table.domain, account), {}
    delta = learning.lone_delta(table.domain, account)
    bounded = table.bounded(b"a key")
    for name in table.texts:
        cost = costs[name]
        codes = fine(table)[table.domain.axis(name)]
        counts = np.bincount(codes[codes >= 0], minlength=len(table.texts[name]))
        assert isinstance(cost, ZCDP)
        epsilon, one = (2 * cost.rho) ** 0.5, counts
        if table.domain.at_most is not None:
            chances = gaussian_selection.chance(bounded.votes[name], cost.rho, delta)
            one = np.bincount(firsts(table, codes), minlength=len(counts))
            best = partition_selection.chance(one, epsilon, delta)
        else:
            chances = best = partition_selection.chance(counts, epsilon, delta)
        kept = np.isin(np.array(table.texts[name]), list(set(domain[name].categories) - {OTHER}))
        shares = [(weights * counts).sum() / counts.sum() for weights in (kept, chances, best)]
        said[name] = "{:.4f} (its rule {:.4f}, optimal for one {:.4f})".format(*shares)
    return said


def firsts(table: Table, codes: Ints) -> Ints:
    """The first category that each person has."""
    assert table.persons is not None
    _, at = np.unique(table.persons.codes[codes >= 0], return_index=True)
    return codes[codes >= 0][at]


def ran(
    table: Table,
    judge: Judge,
    schema: str,
    epsilon: float,
    share: float,
    mechanism: str,
    seed: int,
    peers: str | None,
) -> dict[str, Any]:
    """One release with a kind of schema, and its errors.

    peers  the Python of the environment that dpmm is installed in
    """
    begun = perf_counter()
    whole = ApproxDP(epsilon, DELTA)
    line: dict[str, Any] = {"schema": schema, "epsilon": epsilon, "share": share if schema == "learned" else None}
    first, rest = split(whole, [share := learning.learning_share(table.domain), 1 - share])
    cost: Cost = whole if schema in ("perfect", "equal") else rest
    ledger = Ledger.open(None, whole, dataset="benchmark", person=table.person_column)
    made = Auto(table=True) if mechanism == "auto" else mechanism_of(mechanism)
    learned = None
    if schema == "learned":
        learned = Curator(table, ledger, Entropy.insecure(seed)).learn_for(made, whole)
        assert learned.left is not None
        domain, cost = learned.domain, learned.left.cost
        account = learning.one_account(table.domain, whole, Unit.of(ledger.neighbours, table.domain).of_records)
        assert account is not None
        line |= kept_shares(table, domain, account)
    elif schema in ("perfect", "equal"):
        domain = perfect(table, width=schema == "equal")
    else:
        rules = {"quantiles": quantile_cuts, "privtree": privtree_cuts, "dpmm": peers and dpmm_cuts(peers)}
        domain = drawn_bins(table, rules[schema], first.epsilon, seed)
    line["learning s"] = perf_counter() - begun
    curator = Curator(table.viewed(domain), ledger, Entropy.insecure(seed + 1))
    release = curator.pay(made, Workload.marginals(domain, 2), cost, learned=learned).release()
    line |= judge.errors(judge.synthetic(release, len(table)))
    return line | {"seconds": perf_counter() - begun}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--table", action="append", choices=["adult", "flights", "rwm5yr"])
    parser.add_argument("--epsilon", action="append", type=float)
    parser.add_argument("--schema", action="append", choices=SCHEMAS)
    parser.add_argument("--persons", type=int, metavar="M")
    parser.add_argument("--mechanism", default="auto")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--weights", action="store_true")
    parser.add_argument("--peers", metavar="PYTHON", help="of the environment that dpmm is installed in")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    if arguments.peers is None:
        if arguments.schema and "dpmm" in arguments.schema:
            parser.error("dpmm needs --peers")
        print("SKIPPED dpmm's PrivTree: give a python that has it as --peers PYTHON", file=sys.stderr)
    names = arguments.table or (["adult", "flights", "rwm5yr"] if arguments.data and not arguments.quick else ["adult"])
    for name in names:
        if name != "adult" and arguments.data is None:
            parser.error(f"{name} needs --data")
        path, domain = (
            adult(arguments.quick) if name == "adult" else {"flights": flights, "rwm5yr": rwm5yr}[name](arguments.data)
        )
        table = plain = Table.read(path, domain)
        if arguments.persons:
            if name not in PERSONS:
                parser.error(f"{name} has one record a person")
            table = Table.read(path, replace(domain, person=Person(PERSONS[name], arguments.persons, ("", "NA"))))
        judge = Judge(plain, table if arguments.persons else None)
        if arguments.persons:
            line = {"table": name, "schema": "bound", "epsilon": None, "share": None}
            show(line | judge.bound(), arguments.json)
        for epsilon in arguments.epsilon or ([1.0] if arguments.quick else EPSILONS):
            varied = arguments.shares or arguments.weights
            runnable = [schema for schema in SCHEMAS if schema != "dpmm" or arguments.peers]
            schemas = ["learned"] if varied else arguments.schema or runnable
            parts = SHARES if arguments.shares else (learning.RHO_SHARE,)
            weights = WEIGHTS if arguments.weights else (learning.CATEGORIES_RHO_WEIGHT,)
            for schema in schemas:
                for share, weight in product(parts, weights):
                    if arguments.shares:
                        learning.RHO_SHARE = share
                    learning.CATEGORIES_RHO_WEIGHT = weight
                    lines = [
                        ran(table, judge, schema, epsilon, share, arguments.mechanism, 10 * s, arguments.peers)
                        for s in range(arguments.seeds)
                    ]
                    line = {"table": name, "weight": weight if arguments.weights else None} | {
                        key: float(np.mean([one[key] for one in lines])) if isinstance(value, float) else value
                        for key, value in lines[0].items()
                    }
                    show(line, arguments.json)
    return 0


def show(line: dict[str, Any], as_json: bool) -> None:
    """One line of a table, or one object."""
    if as_json:
        print(json.dumps(line), flush=True)
        return
    numbers = "  ".join(
        f"{k} " + " / ".join(f"{line[part]:.4g}" for part in (k, *of_left({k: 0.0})) if part in line)
        for k in (*ERRORS, "learning s", "seconds")
        if k in line
    )
    part = "".join(f" {what} {line[what]:g}" for what in ("share", "weight") if line.get(what) is not None)
    kept = "".join(f"  {k}: kept {v}" for k, v in line.items() if isinstance(v, str) and k not in ("table", "schema"))
    epsilon = "-" if line["epsilon"] is None else f"{line['epsilon']:g}"
    print(f"{line['table']:8} eps {epsilon:4} {line['schema']:9}{part}  {numbers}{kept}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
