"""What attacks recover: from exact and perturbed answers, and from what the package releases, at each ε.

    python -m benchmarks.attacks [--quick] [--data DIR] [--only PART] [--json]

    reconstruction  a secret bit of 2 000 people of the bundled Adult table, and from DIR (as for `benchmarks.error`) of
                    nltcs, acs and br2000, from 4 000 questions; small cases by a linear programme and exhaustively
    census          the records of blocks of Adult, from their cross-tables
    differencing    from pairs of questions, and by asking again: fresh noise, sticky noise, a session
    floating        from the low-order bits of Laplace noise: numpy's, OpenDP's where it is installed, the package's
    membership      whether one person is in: all mechanisms, and a twin of each that spends eight times the ε
    inference       a secret bit from the other columns, of people in the table and of others

Nothing here is private; the tables are public, and noise is from fixed seeds. Exit code 1 where an attack that has to
succeed fails, or one that has to fail succeeds.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from fractions import Fraction
from importlib.util import find_spec
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.membership import failures, games
from qrelease._util.typing import CodeColumns, Mask
from qrelease.data import adult
from qrelease.data.table import Table
from qrelease.evaluation.attacks import census
from qrelease.evaluation.attacks.answered import Publisher
from qrelease.evaluation.attacks.differencing import Averaging, averaging, differencing, repeated, split_questions
from qrelease.evaluation.attacks.floating import low_order_bits
from qrelease.evaluation.attacks.inference import Guesser, infer
from qrelease.evaluation.attacks.publishers import (
    Exact,
    FreshNoise,
    InSession,
    Percentages,
    Released,
    ReleasedTable,
    Rounded,
    Sticky,
    Suppressed,
    Swapped,
)
from qrelease.evaluation.attacks.reconstruction import (
    Reconstruction,
    all_subsets,
    exhaustive,
    least_squares,
    linear_programme,
    questions,
    reconstruct,
)
from qrelease.evaluation.results import NOTICE
from qrelease.mechanisms.base import Mechanism
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_laplace
from qrelease.privacy import ApproxDP, Cost, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

Floats = npt.NDArray[np.float64]

DELTA = 1e-9
PARTS = ("reconstruction", "census", "differencing", "floating", "membership", "inference")
PEOPLE, QUESTIONS = 2000, 4000
RATIO = 1.1
"""A release at ε = 1 gives at most so many times the base rate, of the questions that were asked of it."""


@dataclass
class Report:
    """Prints each part as a table or as JSON, and keeps what was not as it should be."""

    as_json: bool
    lost: list[str] = field(default_factory=list)

    def part(self, name: str, rows: Sequence[Any], **further: object) -> None:
        """One table of results of one kind."""
        records = [_flat(row) for row in rows]
        if self.as_json:
            for record in records:
                print(json.dumps({"name": f"attacks {name}", **further, **record, "notice": NOTICE}), flush=True)
            return
        print(f"{NOTICE}\n{name}" + "".join(f", {key} {value}" for key, value in further.items()))
        cells = [list(records[0]), *([_text(v) for v in record.values()] for record in records)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
        print(flush=True)

    def check(self, good: bool, what: str) -> None:
        """Keep what was lost."""
        if not good:
            self.lost.append(what)


def _flat(row: Any) -> dict[str, Any]:
    """The fields of a result, those of a part beside them."""
    found: dict[str, Any] = {}
    for key, value in asdict(row).items() if is_dataclass(row) and not isinstance(row, type) else row.items():
        found |= value if isinstance(value, dict) else {key: value}
    return found


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def cost_of(mechanism: Mechanism, epsilon: float) -> Cost:
    """Pure ε where the mechanism has it."""
    return ApproxDP(epsilon, DELTA) if mechanism.name in ("gaussian", "maxent", "matrix") else PureDP(epsilon)


# --- reconstruction ----------------------------------------------------------------------------------------------


def secrets(data: Path | None, quick: bool) -> Iterator[tuple[str, Mask]]:
    """A bit of 2 000 people of each table: the cell of a column that nearest to half of them are in."""
    yield "adult", bits_of(adult(["marital-status"]))
    for name in ("nltcs",) if quick else ("nltcs", "acs", "br2000"):
        if data is None or not (data / f"{name}.csv.gz").exists():
            print(f"SKIPPED {name}: no {name}.csv.gz; give its folder as --data DIR", file=sys.stderr)
        else:
            yield name, bits_of(Table.read_csv(data / f"{name}.csv.gz", data / f"{name}-domain.json"))


def bits_of(table: Table) -> Mask:
    chosen = np.random.default_rng(0).choice(len(table), PEOPLE, replace=False)
    found = [
        column[chosen] == code for column, n in zip(table.columns, table.domain.shape, strict=True) for code in range(n)
    ]
    return min(found, key=lambda bits: abs(bits.mean() - 0.5))


def reconstruction(report: Report, quick: bool, data: Path | None) -> None:
    for name, secret in secrets(data, quick):
        subsets = questions(PEOPLE, QUESTIONS, np.random.default_rng(1))
        rows = [reconstruct(p, secret, subsets, least_squares) for p in by_hand(secret)]
        for row in rows[:5]:
            report.check(row.recovered >= 0.99, f"{name}, {row.publisher}: only {row.recovered:.3f} recovered")
        for epsilon in [0.1, 1.0, 10.0] if name == "adult" and not quick else [1.0]:
            found = [reconstruct(p, secret, subsets, least_squares) for p in released(secret, epsilon, quick)]
            rows += found
            for row in found if epsilon <= 1 else []:
                few = row.recovered <= RATIO * row.base_rate or "of each person" in row.publisher
                report.check(few, f"{name}, {row.publisher}: {row.recovered:.3f} recovered")
        report.part("reconstruction", rows, dataset=name)
    report.part("reconstruction", list(by_number(report, quick)), dataset="adult", by="number of people")
    small = [*programmed(secret, 200 if quick else 1000), *exhausted(secret[:12])]
    for row in small:
        report.check(row.recovered >= 0.95, f"{row.attack}, {row.publisher}: only {row.recovered:.3f} recovered")
    report.part("reconstruction", small, dataset=name)


def by_number(report: Report, quick: bool) -> Iterator[Reconstruction]:
    """The same attack on fewer people, with four questions a person: it does not take thousands."""
    everybody = bits_of(adult(["marital-status"]))
    for people in (100, 500) if quick else (100, 500, 2000):
        secret = everybody[:people]
        subsets = questions(people, 4 * people, np.random.default_rng(1))
        private = Released(secret, Laplace(), PureDP(1.0), Entropy.insecure(0))
        for publisher in (Exact(secret), Rounded(secret, 5), Rounded(secret, 10), Sticky(secret, 2.0), private):
            row = reconstruct(publisher, secret, subsets, least_squares)
            if publisher is private:
                report.check(row.recovered <= RATIO * row.base_rate, f"{people} people: {row.recovered:.3f} recovered")
            else:
                least = 0.95 if people >= 500 else 0.85  # a rounding to 10 hides some of 100 people
                report.check(row.recovered >= least, f"{people} people, {row.publisher}: {row.recovered:.3f} recovered")
            yield row


def by_hand(secret: Mask) -> list[Publisher]:
    """Perturbed without a proof; the first five must give everything away."""
    return [
        Exact(secret),
        Rounded(secret, 5),
        Rounded(secret, 10),
        Suppressed(secret, 10),
        Percentages(secret),
        Swapped(secret, 0.1),
        Sticky(secret, 2.0),
        FreshNoise(secret, 10.0),
    ]


def released(secret: Mask, epsilon: float, quick: bool) -> list[Publisher]:
    """The same questions, or each person's bit, released within ε; quickly, with Laplace noise alone."""

    def of(publisher: type[Released] | type[ReleasedTable], mechanism: Mechanism) -> Publisher:
        return publisher(secret, mechanism, cost_of(mechanism, epsilon), Entropy.insecure(0))

    asked, tables = [of(Released, Laplace())], [of(ReleasedTable, Laplace())]
    if not quick:
        asked, tables = [*asked, of(Released, Gaussian())], [*tables, of(ReleasedTable, MaxEnt())]
    return [*asked, *tables, InSession(secret, Online(), PureDP(epsilon), Entropy.insecure(0))]


def programmed(secret: Mask, people: int) -> list[Reconstruction]:
    """By a linear programme of so many unknowns."""
    few = secret[:people]
    subsets = questions(people, (4 if people <= 200 else 2) * people, np.random.default_rng(2))
    return [reconstruct(Rounded(few, 10), few, subsets, linear_programme)]


def exhausted(secret: Mask) -> list[Reconstruction]:
    """All candidates, all questions."""
    return [reconstruct(p, secret, all_subsets(len(secret)), exhaustive) for p in (Exact(secret), Rounded(secret, 3))]


# --- census ------------------------------------------------------------------------------------------------------


def blocks(report: Report, quick: bool) -> None:
    population = adult(["age", "race", "sex", "marital-status"])
    prior = population.histogram() / len(population)
    rules = {
        "exact": census.exact,
        "rounded to 5": census.rounded(5),
        "rounded to 10": census.rounded(10),
        "hidden below 5": census.suppressed(5),
    }
    sets = [*combinations(range(len(population.domain)), 3)]
    rows = []
    for i, people in enumerate([40] if quick else [20, 40, 80]):
        chosen = np.random.default_rng(i).choice(len(population), people, replace=False)
        block = Table(population.domain, tuple(c[chosen] for c in population.columns))
        published = {name: census.publish(block, sets, rule) for name, rule in rules.items()}
        rng = np.random.default_rng(i)
        published |= {f"sticky noise of {sd:g}": census.sticky(block, sets, sd, rng) for sd in (0.5, 2.0)}
        published["10% swapped"] = census.swapped(block, sets, population, 0.1, rng)
        mechanisms: list[Mechanism] = [Laplace(), MaxEnt()]
        for mechanism, epsilon in product(mechanisms, (1.0, 100.0)):
            tables = census.released(block, sets, mechanism, PureDP(epsilon), Entropy.insecure(i))
            published[f"{mechanism.name}, epsilon={epsilon:g}"] = tables
        for name, tables in published.items():
            fitted = census.fit_block(tables, people, prior=prior, seconds=2 if quick else 10)
            found = census.beside_truth(name, block, fitted, population)
            rows.append(found)
            if name == "exact":
                report.check(found.recovered == people, f"block of {people}, exact: {found.recovered} recovered")
            if name == "10% swapped":
                report.check(found.recovered >= 0.85 * people, f"block of {people}, {name}: {found.recovered}")
            if name.endswith("epsilon=1"):
                report.check(found.recovered <= RATIO * found.guessed + 2, f"block of {people}: {found.recovered}")
    report.part("census", rows)


# --- differencing and averaging ----------------------------------------------------------------------------------

SAME = ["age >= 40 and sex = Male", "sex = Male and age >= 40", "not (age < 40 or sex != Male)"]


def asking_again(report: Report, quick: bool) -> None:
    secret = bits_of(adult(["marital-status"]))[:1000]
    rng = np.random.default_rng(3)
    private = Released(secret, Laplace(), PureDP(1.0), Entropy.insecure(0))
    publishers: list[Publisher] = [
        Exact(secret),
        Rounded(secret, 5),
        Sticky(secret, 1.0),
        FreshNoise(secret, 1.0),
        private,
    ]
    targets = 60 if quick else 200
    found = [differencing(p, secret, targets, rng, repeats=r) for p in publishers for r in (1, 40)]
    report.part("differencing", found)
    report.check(min(row.recovered for row in found[1:-2:2]) > 0.8, "40 pairs of questions did not tell the bits")
    report.check(found[-1].recovered <= 0.7, f"a release was read by differences: {found[-1].recovered:.3f}")
    half = rng.random(len(secret)) < 0.5
    rows = {
        "fresh noise of 10": repeated(FreshNoise(secret, 10.0), half, 1000),
        "sticky noise of 10": repeated(Sticky(secret, 10.0), half, 100),
        "sticky noise of 10, in two parts": split_questions(Sticky(secret, 10.0), half, 1000, rng),
        "a session, in other words": in_other_words(),
    }
    report.check(rows["a session, in other words"].distinct == 1, "asking a session again gave something new")
    truth = float((secret & half).sum())
    known = {name: truth for name in rows if name.startswith(("fresh", "sticky"))}
    report.part(
        "averaging", [{"publisher": n, "truth": known.get(n, float("nan")), **asdict(r)} for n, r in rows.items()]
    )


def in_other_words() -> Averaging:
    with Ledger.open(None, PureDP(1.0), dataset="adult") as ledger:
        curator = Curator(adult(["age", "sex"]), ledger, Entropy.insecure(0))
        with curator.open(Online(), PureDP(1.0)) as session:
            return averaging(lambda words: session.answer(words).value, SAME * 10)


# --- low-order bits ----------------------------------------------------------------------------------------------


def bits(report: Report, quick: bool) -> None:
    scale, rng, entropy = 8.0, np.random.default_rng(4), Entropy.insecure(4)

    def exactly(digits: int) -> Callable[[float, int], Floats]:
        """The package's noise on the multiples of 2^-digits."""
        wide, step = Fraction(scale) * 2**digits, 2.0**-digits
        return lambda truth, k: np.asarray(truth + discrete_laplace(wide, k, entropy) * step)

    samplers = {
        "numpy": lambda truth, k: np.asarray(rng.laplace(truth, scale, k)),
        "qrelease, integers": exactly(0),
        "qrelease, grid of 2^-45": exactly(45),
    }
    if find_spec("opendp") is not None:
        import opendp.prelude as opendp

        opendp.enable_features("contrib")
        space = opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float)
        noisy = opendp.m.make_laplace(*space, scale=scale)
        samplers["opendp make_laplace"] = lambda truth, k: np.array([noisy(truth) for _ in range(k)])
    runs = 500 if quick else 4000
    rows = [low_order_bits(name, s, scale=scale, runs=runs, rng=rng) for name, s in samplers.items()]
    report.part("floating", rows)
    for row in rows:
        report.check(row.advantage.convicts == (row.sampler == "numpy"), f"low-order bits: {row}")


def membership(report: Report, quick: bool) -> None:
    rows = games(quick)
    report.part("membership", rows)
    report.lost += failures(rows)


# --- attribute inference -----------------------------------------------------------------------------------------


def inferences(report: Report, quick: bool) -> None:
    table = adult(["age", "education", "marital-status", "occupation", "sex", "income"])
    size, order = 4000 if quick else 12_000, np.random.default_rng(6).permutation(len(table))
    shape = table.domain.shape[:-1]

    def side(i: int) -> tuple[CodeColumns, Mask]:
        chosen = order[i * size : (i + 1) * size]
        return [c[chosen] for c in table.columns[:-1]], np.asarray(table.columns[-1][chosen] == 1)

    members, away, third = side(0), side(1), side(2)
    inside = Table(table.domain, tuple(c[order[:size]] for c in table.columns))
    rows = [
        infer("the records themselves", Guesser.of(*members, shape), members, away),
        infer("other people's records", Guesser.of(*third, shape), members, away),
    ]
    for epsilon in [1.0] if quick else [0.1, 1.0, 10.0]:
        cost = ApproxDP(epsilon, DELTA)
        with Ledger.open(None, cost, dataset="adult") as ledger:
            curator = Curator(inside, ledger, Entropy.insecure(6))
            release = curator.release(MaxEnt(), Workload.marginals(table.domain, 2), cost)
        codes, weights = release.weighted_codes(None, np.random.default_rng(0))
        guesser = Guesser.of(codes[:-1], np.asarray(codes[-1] == 1), shape, weights)
        rows.append(infer(f"maxent, epsilon={epsilon:g}", guesser, members, away))
    report.part("inference", [{**asdict(r), "leak": r.leak, "deviation": r.deviation} for r in rows])
    report.check(rows[0].leak > 5 * rows[0].deviation, "the records themselves did not give their people away")
    report.check(abs(rows[1].leak) < 4 * rows[1].deviation, f"inference: {rows[1]}")
    for row in rows[2:]:
        good = row.source.endswith("=10") or row.leak < max(rows[0].leak / 3, 4 * row.deviation)
        report.check(good, f"inference: {row}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="epsilon 1, fewer runs and blocks, small programmes, of DIR nltcs alone"
    )
    parser.add_argument("--data", type=Path, help="folder of NAME.csv.gz and NAME-domain.json")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--json", action="store_true", help="one object a line instead of tables")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    report, quick = Report(arguments.json), arguments.quick
    parts: dict[str, Callable[[], None]] = {
        "reconstruction": lambda: reconstruction(report, quick, arguments.data),
        "census": lambda: blocks(report, quick),
        "differencing": lambda: asking_again(report, quick),
        "floating": lambda: bits(report, quick),
        "membership": lambda: membership(report, quick),
        "inference": lambda: inferences(report, quick),
    }
    for name, part in parts.items():
        if arguments.only in (None, name):
            begun = time.perf_counter(), time.process_time()
            part()
            wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
            print(f"{name}: {wall:.0f} s, of which {cpu:.0f} s at work", file=sys.stderr)
    for line in report.lost:
        print(f"FAILED {line}", file=sys.stderr)
    return 1 if report.lost else 0


if __name__ == "__main__":
    sys.exit(main())
