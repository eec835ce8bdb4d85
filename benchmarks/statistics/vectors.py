"""Means of vectors, tests, regressions and sums of costs: their errors, levels and powers, beside what bounds them.

    python -m benchmarks.statistics.vectors [--quick] [--data DIR] [--only PART] [--json] [--picture FILE.svg]

    composition  what k mechanisms cost by every rule; Laplace against Gaussian noise; `--picture` draws both
    vector-means mean square error in d dimensions along n and d: the box, the ball, the rate and the lower bound
    sparse-means support and error of sparse means against the dense one; seconds at 100 000 columns
    tracing      the attack behind the lower bound, on means with less and less noise
    regression   AUC on the bundled Adult table of each form at ε, against none; squares on tables in DIR/raw
    chi-squared  level and power of the χ² tests along n, with the noise accounted for and not
    uniformity   level and power along n; how many records each tester's promise needs

Noise is from fixed seeds and the tables are public or made up: nothing here is private. Exit code 1 where something
that is shown does not hold. Rivals are compared where they are installed.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import qrelease as qr
from benchmarks.statistics import rivals
from benchmarks.statistics.setting import Row, Section, Setting
from qrelease.data import adult
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.attacks.mean_tracing import trace
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.account import Part, account, shares
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.adassp import AdaSSP
from qrelease.statistics.base import EstimateResult
from qrelease.statistics.chi_squared import FitTest, IndependenceTest
from qrelease.statistics.design import Design, PublicRecords
from qrelease.statistics.lower_bounds import mean_bound, mean_rate, sparse_mean_rate
from qrelease.statistics.noise_source import ExactNoise
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.regression import FunctionalMechanism, NoisyDescent, regression_from_marginals
from qrelease.statistics.sparse_mean import PeelingMean, SparseMean
from qrelease.statistics.uniformity import EfficientTester, UniformityTest
from qrelease.statistics.vector_mean import TruncatedMean, VectorMean

Floats = npt.NDArray[np.float64]

LOST = "DOES NOT HOLD"
"""The table of what was to be shown and was not."""

DELTA = 1e-6
REPLACE = Neighbours.REPLACE_ONE


@dataclass
class Report:
    """Prints each part as a table or as JSON, and keeps what did not hold."""

    as_json: bool
    shown: bool = True
    lost: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def part(self, name: str, rows: Sequence[Row]) -> None:
        """One table."""
        self.rows += [{"table": name, **row} for row in rows]
        if not self.shown:
            return
        if self.as_json:
            for row in rows:
                print(json.dumps({"name": f"statistics {name}", **row}), flush=True)
            return
        cells = [list(rows[0]), *([_text(v) for v in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        print(name)
        for line in cells:
            print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
        print(flush=True)

    def check(self, holds: bool, what: str) -> None:
        """Keep what does not hold."""
        if not holds:
            self.lost.append(what)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def estimated(table: Table, statistic: Any, cost: Cost, seed: int, neighbours: Neighbours = REPLACE) -> EstimateResult:
    """What a statistic finds, also where its promise would be empty, which a curator refuses."""
    door = PrivateColumns(table, neighbours, Filter(cost), ExactNoise(Entropy.insecure(seed)))
    found: EstimateResult = statistic.estimate(door, cost)
    return found


# --- composition -------------------------------------------------------------------------------------------------


def by_rules(part: Part, delta: float) -> Row:
    found: Row = {}
    for total in account([part], delta):
        held = None if total.cost is None else total.cost.to_json().get("epsilon")
        found[total.rule] = "-" if held is None else held
    return found


def noise_of(epsilon: float, delta: float, k: int) -> Row:
    """Standard deviations of the noise on each of k counts that one person may all be in, under one (ε, δ)."""
    total = ApproxDP(epsilon, delta)
    best = {share.rule: share.cost for share in shares(total, k)}
    row: Row = {"k": k, "Laplace, basic": math.sqrt(2) * k / epsilon}
    for rule in ("advanced", "optimal"):
        cost = best[rule]
        row[f"Laplace, {rule}"] = math.sqrt(2) / (cost.epsilon if isinstance(cost, PureDP) else math.nan)
    rho = best["zCDP"]
    row["Gaussian, zCDP"] = 1 / math.sqrt(2 * (rho.rho if isinstance(rho, ZCDP) else math.nan))
    return row | {"Gaussian, exact": analytic_gaussian_sigma(math.sqrt(k), epsilon, delta)}


def composition(report: Report, quick: bool, _: Path | None) -> None:
    sizes = (1, 10, 100, 1000) if quick else (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
    rows = [{"k": k, **by_rules(Part("epsilon", 0.1, times=k), DELTA)} for k in sizes]
    report.part("epsilon of k mechanisms of epsilon=0.1 each, delta=1e-6", rows)
    for row in rows:
        least = min(v for rule, v in row.items() if rule not in ("k", "numerical") and v != "-")
        report.check(row["optimal"] <= least * (1 + 1e-9), f"optimal composition is not the least at k={row['k']}")
    noisy = [noise_of(1.0, DELTA, k) for k in sizes]
    report.part("standard deviation of the noise on each of k counts, epsilon=1, delta=1e-6", noisy)
    report.check(noisy[0]["Laplace, basic"] < noisy[0]["Gaussian, exact"], "Laplace is not better for one count")
    report.check(noisy[-1]["Laplace, basic"] > noisy[-1]["Gaussian, exact"], "Gaussian is not better for many counts")


def picture() -> bytes:
    """The two figures of the notes: rules of composition, and Laplace against Gaussian noise."""
    from io import BytesIO

    import matplotlib as mpl
    from matplotlib.figure import Figure

    sizes = [round(10 ** (i / 4)) for i in range(17)]
    costs = [{"k": k, **by_rules(Part("epsilon", 0.1, times=k), DELTA)} for k in sizes]
    noisy = [noise_of(1.0, DELTA, k) for k in sizes]
    style: Any = {
        "svg.hashsalt": "qrelease",
        "svg.fonttype": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(9.6, 4.2), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2)
        lines = zip(("basic", "advanced", "zCDP", "optimal"), ("o-", "s-", "^-", "D-"), strict=True)
        for rule, mark in lines:
            left.plot(sizes, [row[rule] for row in costs], mark, markersize=4, label=rule)
        for rule, mark in zip(list(noisy[0])[1:], ("o-", "s-", "D-", "^--", "v--"), strict=True):
            right.plot(sizes, [row[rule] for row in noisy], mark, markersize=4, label=rule)
        left.set_title("k mechanisms of epsilon = 0.1, delta = 1e-6", fontsize=10)
        left.set_ylabel("epsilon of all together")
        right.set_title("k counts at epsilon = 1, delta = 1e-6", fontsize=10)
        right.set_ylabel("standard deviation of the noise on each")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("k")
            axes.grid(color="#DDDDDD", linewidth=0.6)
            axes.legend(frameon=False)
        file = BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


# --- means -------------------------------------------------------------------------------------------------------


def signs(n: int, means: Floats, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.where(rng.random((n, len(means))) < (1 + means) / 2, 1, -1)


def bits(rows: npt.NDArray[np.int64]) -> Table:
    names = [f"b{i}" for i in range(rows.shape[1])]
    return Table(Domain.coded(dict.fromkeys(names, 2)), tuple((rows.T + 1) // 2))


def mean(report: Report, quick: bool, _: Path | None) -> None:
    rho, runs = ZCDP(0.01), 3 if quick else 20
    along = [(20, n) for n in (300, 1000, 3000)] + [(d, 1000) for d in (5, 80)]
    along += [] if quick else [(20, 10_000), (20, 30_000), (320, 1000), (320, 10_000)]
    rows = []
    for d, n in along:
        errors: dict[str, list[float]] = {"box": [], "ball": []}
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            means = rng.uniform(-1, 1, d)
            table = bits(signs(n, means, rng))
            for kind, statistic in (
                ("box", TruncatedMean(table.domain.names)),
                ("ball", VectorMean(table.domain.names)),
            ):
                value = estimated(table, statistic, rho, seed).value
                errors[kind].append(float(((2 * np.array(value) - 1 - means) ** 2).sum()))
        row = {"d": d, "n": n, **{kind: float(np.mean(found)) for kind, found in errors.items()}}
        row |= {"rate": mean_rate(d, n, rho), "bound": mean_bound(d, n, rho)}
        rows.append(row | {"box / rate": row["box"] / row["rate"], "box / bound": row["box"] / row["bound"]})
        report.check(row["box"] >= 0.7 * row["bound"], f"the mean beats the lower bound at d={d}, n={n}")
    report.part("mean square error of the means of d signs, rho=0.01, uniform means", rows)
    spread = max(r["box / rate"] for r in rows) / min(r["box / rate"] for r in rows)
    report.check(spread < 8, f"the error is not at its rate: ratios differ by {spread:.2g}")
    rows = []
    for width in (1, 10, 100):
        rng = np.random.default_rng(0)
        values = np.clip(np.rint(rng.normal(500, 400 / width, (10_000, 30))), 0, 1000).astype(np.int64)
        table = Table(Domain.coded({f"c{i}": 1001 for i in range(30)}), tuple(values.T))
        found = {}
        for kind, statistic in (("box", TruncatedMean(table.domain.names)), ("ball", VectorMean(table.domain.names))):
            errors_ = [np.array(estimated(table, statistic, rho, s).value) - values.mean(axis=0) for s in range(runs)]
            found[kind] = float(np.sqrt(np.mean(np.square(errors_))))
        rows.append({"range / spread": 2.5 * width, **found, "gain": found["box"] / found["ball"]})
    report.part("root mean square error of 30 columns on 0..1000, rho=0.01, n=10 000", rows)
    report.check(rows[-1]["gain"] > 5, "the ball does not follow the spread")


def sparse(report: Report, quick: bool, _: Path | None) -> None:
    cost, s, rows = ApproxDP(1.0, DELTA), 10, []
    for d, n in [(1000, 4000), (5000, 4000)] if quick else [(1000, 4000), (10_000, 4000), (100_000, 2000)]:
        rng = np.random.default_rng(d)
        chances = np.where(np.arange(d) < s, 0.5, 0.002)
        columns = tuple((rng.random(n) < c).astype(np.int64) for c in chances)
        table = Table(Domain.coded({f"b{i}": 2 for i in range(d)}), columns)
        truth = np.array([c.mean() for c in columns])
        statistics: list[Any] = [SparseMean(s), PeelingMean(s)]
        for statistic in statistics if d > 10_000 else [*statistics, TruncatedMean(table.domain.names)]:
            begun = time.perf_counter()
            value: Any = estimated(table, statistic, cost, 0).value
            seconds = time.perf_counter() - begun
            guess, found = np.zeros(d), "-"
            if isinstance(value, dict):
                places = [int(name[1:]) for name in value]
                guess[places], found = list(value.values()), f"{sum(p < s for p in places)}/{s}"
            else:
                guess[:] = value
            squares = float(((guess - truth) ** 2).sum())
            rate = sparse_mean_rate(d, s, n, cost, 0.5)
            row = {"d": d, "n": n, "statistic": statistic.name, "support": found, "squared error": squares}
            rows.append(row | {"rate": rate, "seconds": seconds})
        sparse_errors = {r["statistic"]: r["squared error"] for r in rows if r["d"] == d}
        report.check(
            all(int(r["support"].split("/")[0]) >= s - 1 for r in rows if r["support"] != "-"), f"lost at d={d}"
        )
        if "truncated-mean" in sparse_errors:
            report.check(sparse_errors["sparse-mean"] < sparse_errors["truncated-mean"] / 10, f"no gain at d={d}")
    report.part("sparse means, 10 columns of mean 0.5 among d of 0.002, epsilon=1, delta=1e-6", rows)


def tracing(report: Report, quick: bool, _: Path | None) -> None:
    d, n, runs, rows = 600, 60, 20 if quick else 200, []
    for rho in (math.inf, 10.0, 1.0, 0.1, 0.01, 0.001):
        sigma = 2 * math.sqrt(d) / n / math.sqrt(2 * rho)
        found, errors = [], []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            means = rng.uniform(-1, 1, d)
            members = signs(n, means, rng)
            published = members.mean(axis=0) + rng.normal(0, 1, d) * sigma
            found.append(trace(published, members, signs(300, means, rng), means))
            errors.append(float(((np.clip(published, -1, 1) - means) ** 2).sum()))
        bound = mean_bound(d, n, ZCDP(rho if rho < math.inf else 200.0))
        advantage = float(np.mean([f.advantage for f in found]))
        row = {"rho": rho, "squared error": float(np.mean(errors)), "bound at rho": bound, "advantage": advantage}
        rows.append(
            row
            | {"scores": float(np.mean([f.total for f in found])), "floor": float(np.mean([f.floor for f in found]))}
        )
        report.check(rows[-1]["squared error"] >= 0.98 * bound, f"a mean beats the lower bound at rho={rho}")
    report.part(f"tracing from a published mean of {d} signs of {n} people, at level 0.05", rows)
    report.check(
        rows[0]["advantage"] > 0.5 and rows[-1]["advantage"] < 0.05, "the attack does not end where noise begins"
    )


# --- regression --------------------------------------------------------------------------------------------------


def auc(scores: Floats, positive: npt.NDArray[np.bool_]) -> float:
    from scipy.stats import rankdata

    ranks, m = rankdata(scores), int(positive.sum())
    return float((ranks[positive].sum() - m * (m + 1) / 2) / (m * (len(scores) - m)))


def without_privacy(rows: Floats, yes: npt.NDArray[np.bool_]) -> Floats:
    """Logistic regression by Newton's method, with a little ridge."""
    weights, y = np.zeros(rows.shape[1]), np.where(yes, 1.0, -1.0)
    for _ in range(15):
        p = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (p - (y + 1) / 2) + 0.1 * weights
        hessian = (rows * (p * (1 - p))[:, None]).T @ rows + 0.1 * np.eye(len(weights))
        weights = weights - np.linalg.solve(hessian, gradient)
    return weights


def regression(report: Report, quick: bool, data: Path | None) -> None:
    table = adult()
    order = np.random.default_rng(0).permutation(len(table))
    sides = [tuple(c[part] for c in table.columns) for part in (order[:36_000], order[36_000:])]
    train = Table(table.domain, sides[0])
    names = table.domain.names
    known, test = (PublicRecords(dict(zip(names, side, strict=True))) for side in sides)
    positive, design = table.domain["income"].labels[1], Design.of(table.domain, "income", None)
    yes = test.cells("income") == 1
    best = auc(design.rows(test) @ without_privacy(design.rows(known) / 1024, known.cells("income") == 1), yes)
    rows: list[Row] = [
        {"epsilon": math.inf, "statistic": "logistic, without privacy", "AUC": best, "seconds": math.nan}
    ]
    for epsilon in (1.0,) if quick else (0.1, 1.0, 3.0):
        cost = ApproxDP(epsilon, DELTA)
        forms: dict[str, tuple[Any, Cost]] = {
            "descent": (NoisyDescent("income"), cost),
            "descent of the text": (NoisyDescent("income", epochs=60, curvature=0), cost),
            "descent, 4 batches": (NoisyDescent("income", epochs=5, batches=4), cost),
            "adassp": (AdaSSP("income", positive=positive), cost),
            "functional mechanism": (FunctionalMechanism("income", positive=positive), PureDP(epsilon)),
        }
        for name, (statistic, price) in forms.items():
            begun = time.perf_counter()
            value = estimated(train, statistic, price, 0, Neighbours.ADD_REMOVE).value
            seconds = time.perf_counter() - begun
            score = auc(design.predict(value, test), yes) if isinstance(value, dict) else math.nan
            rows.append({"epsilon": epsilon, "statistic": name, "AUC": score, "seconds": seconds})
        sides_ = design.rows(known) / 1024, known.cells("income") == 1, design.rows(test) / 1024
        for name, scored in rivals.classifiers(design, cost).items():
            begun = time.perf_counter()
            score = auc(scored(*sides_), yes)
            rows.append({"epsilon": epsilon, "statistic": name, "AUC": score, "seconds": time.perf_counter() - begun})
        if not quick:
            rows.append(from_release(train, test, yes, cost, positive))
    report.part("AUC on 12 842 held-out records of Adult, from 36 000; delta=1e-6", rows)
    at_one = {row["statistic"]: row["AUC"] for row in rows if row["epsilon"] == 1.0}
    report.check(at_one["descent"] > best - 0.01, f"descent has an AUC of {at_one['descent']:.4f} at epsilon 1")
    squares(report, quick, data)


def from_release(train: Table, test: PublicRecords, yes: npt.NDArray[np.bool_], cost: Cost, positive: str) -> Row:
    """From the marginals of a release of as many ε, for nothing more."""
    begun = time.perf_counter()
    with Ledger.open(None, cost, dataset="people") as ledger:
        curator = Curator(train, ledger, Entropy.insecure(0))
        release = curator.release(qr.MaxEnt(), qr.Workload.marginals(train.domain, 2), cost)
    weights = regression_from_marginals(
        train.domain, "income", lambda w: np.asarray(release.answer(w)), positive=positive, deviation=5.0
    )
    score = auc(Design.of(train.domain, "income", None).predict(weights, test), yes)
    name = "a release's marginals, free"
    return {
        "epsilon": cost.to_json()["epsilon"],
        "statistic": name,
        "AUC": score,
        "seconds": time.perf_counter() - begun,
    }


def squares(report: Report, quick: bool, data: Path | None) -> None:
    """Least squares of an ordered column of tables that everybody has, against descent at equal cost."""
    tables = {"adult": (adult(), "hours-per-week")}
    for name, target in (("acs", None), ("br2000", None)):
        if data is None or not (data / f"{name}.csv.gz").exists():
            print(f"SKIPPED {name}: no {name}.csv.gz; give its folder as --data DIR", file=sys.stderr)
        else:
            table = Table.read_csv(data / f"{name}.csv.gz", data / f"{name}-domain.json")
            widest = max(table.domain, key=lambda a: a.values).name
            tables[name] = table, target or widest
    rows = []
    for name, (table, target) in tables.items():
        design, cost = Design.of(table.domain, target, None), ApproxDP(1.0, DELTA)
        known = PublicRecords(dict(zip(table.domain.names, table.columns, strict=True)))
        y = design.numbers()[0][known.cells(target)] / 1024
        x = design.rows(known) / 1024
        exact = float(np.mean((x @ np.linalg.lstsq(x, y, rcond=None)[0] - y) ** 2))
        row: Row = {"table": name, "target": target, "variance": float(y.var()), "without privacy": exact}
        for label, statistic in (
            ("adassp", AdaSSP(target)),
            ("adassp of the text", AdaSSP(target, refinements=0)),
            ("descent", NoisyDescent(target, loss="linear")),
            ("descent of the text", NoisyDescent(target, loss="linear", epochs=60, curvature=0)),
        ):
            errors = []
            for seed in range(1 if quick else 5):
                value: Any = estimated(table, statistic, cost, seed, Neighbours.ADD_REMOVE).value
                errors.append(float(np.mean((design.predict(value, known) - y) ** 2)))
            row[label] = float(np.mean(errors))
        rows.append(row)
    report.part("mean square error of linear regression, epsilon=1, delta=1e-6, mean of runs", rows)


# --- tests -------------------------------------------------------------------------------------------------------


def chi2(report: Report, quick: bool, _: Path | None) -> None:
    from scipy.stats import chi2_contingency

    cost, runs, rows = PureDP(0.2), 100 if quick else 300, []
    for n in (100, 1000, 5000) if quick else (50, 100, 300, 1000, 3000, 10_000):
        rng, found = np.random.default_rng(n), dict.fromkeys(("level", "power", "uncorrected", "fit level"), 0)
        for seed in range(runs):
            for strength, key in ((0.0, "level"), (0.1, "power")):
                a = rng.integers(0, 3, n)
                b = np.where(rng.random(n) < strength, a == 0, rng.random(n) < 0.4).astype(np.int64)
                table = Table(Domain.coded({"a": 3, "b": 2}), (a.astype(np.uint8), b.astype(np.uint8)))
                estimate = estimated(table, IndependenceTest("a", "b"), cost, seed)
                found[key] += _rejects(estimate)
                if key == "level":
                    drawn: Any = estimate.measured[0].value
                    counts = np.array(drawn).reshape(3, 2)
                    found["uncorrected"] += int(
                        chi2_contingency(np.maximum(counts, 1), correction=False).pvalue <= 0.05
                    )
                    found["fit level"] += _rejects(estimated(table, FitTest("a", (1.0, 1.0, 1.0)), cost, seed))
        rows.append({"n": n, **{key: count / runs for key, count in found.items()}})
        report.check(rows[-1]["fit level"] < 0.05 + 4 * math.sqrt(0.0475 / runs), f"the fit has no level at n={n}")
        report.check(rows[-1]["level"] < 0.07 + 4 * math.sqrt(0.0475 / runs), f"independence has no level at n={n}")
    report.part("chi-squared tests at level 0.05, epsilon=0.2: shares of rejections", rows)
    report.check(rows[0]["uncorrected"] > 0.1, "the uncorrected test was not convicted")


def _rejects(estimate: EstimateResult) -> bool:
    value = estimate.value
    return isinstance(value, dict) and value["p_value"] <= 0.05


def uniformity(report: Report, quick: bool, _: Path | None) -> None:
    cost, runs, rows = ApproxDP(1.0, DELTA), 40 if quick else 100, []
    for d, along in (
        ((10, (100, 300)), (100, (1500,))) if quick else ((10, (50, 100, 200, 300, 500)), (100, (500, 1000, 2000)))
    ):
        for n in along:
            rng = np.random.default_rng(n)
            shares_ = []
            for norm in (0.0, 0.5):
                tables = [bits(signs(n, np.full(d, norm / math.sqrt(d)), rng)) for _ in range(runs)]
                test = UniformityTest(tables[0].domain.names)
                shares_.append(sum(_rejects(estimated(t, test, cost, i)) for i, t in enumerate(tables)) / runs)
            rows.append({"d": d, "n": n, "level": shares_[0], "power at norm 0.5": shares_[1]})
            report.check(shares_[0] < 0.05 + 4 * math.sqrt(0.0475 / runs), f"the test has no level at d={d}, n={n}")
    report.part("uniformity test at level 0.05, epsilon=1, delta=1e-6", rows)
    rows = []
    for d in (10, 100, 1000):
        domain = Domain.coded({f"b{i}": 2 for i in range(d)})
        testers: dict[str, Any] = {
            "uniformity-test": UniformityTest(domain.names),
            "efficient, proved": EfficientTester(domain.names, 0.5),
            "efficient, printed": EfficientTester(domain.names, 0.5, "printed"),
        }
        rows.append({"d": d, **{name: needed(tester, domain, cost) for name, tester in testers.items()}})
        ordered = [v for key, v in rows[-1].items() if key != "d"]
        report.check(ordered == sorted(ordered), f"the testers are not in order at d={d}")
    report.part("records from which a norm of 0.5 is promised to be told, beta=0.05", rows)


def needed(tester: Any, domain: Domain, cost: Cost) -> int:
    low, high = 2, 4
    while tester.error_bound(domain, high, cost, REPLACE, beta=0.05) > 0.5:
        low, high = high, 2 * high
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        told = tester.error_bound(domain, middle, cost, REPLACE, beta=0.05) <= 0.5
        low, high = (low, middle) if told else (middle, high)
    return high


PARTS: dict[str, Callable[[Report, bool, Path | None], None]] = {
    "composition": composition,
    "vector-means": mean,
    "sparse-means": sparse,
    "tracing": tracing,
    "regression": regression,
    "chi-squared": chi2,
    "uniformity": uniformity,
}


def section(name: str) -> Section:
    """A part as a section of `benchmarks.statistics`, with the title of each table beside its rows."""

    def rows(setting: Setting) -> Iterator[Row]:
        kept = Report(as_json=True, shown=False)
        PARTS[name](kept, setting.quick, setting.data)
        yield from kept.rows
        yield from ({"table": LOST, "what": line} for line in kept.lost)

    rows.__doc__ = f"See `benchmarks.statistics.vectors`, part {name}."
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs and sizes")
    parser.add_argument("--data", type=Path, help="folder of NAME.csv.gz and NAME-domain.json")
    parser.add_argument("--only", choices=tuple(PARTS), help="one part")
    parser.add_argument("--json", action="store_true", help="one object a line instead of tables")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="draw the rules of composition, and nothing else"
    )
    arguments = parser.parse_args()
    if arguments.picture is not None:
        print(
            "drawing what up to 10,000 mechanisms cost by every rule, and the noise of as many counts: half a minute of"
            " one core, and longer where other work shares it",
            file=sys.stderr,
            flush=True,
        )
        started = time.perf_counter()
        arguments.picture.write_bytes(picture())
        print(f"wrote {arguments.picture}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
        return 0
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are public", file=sys.stderr)
    report = Report(arguments.json)
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            begun = time.perf_counter(), time.process_time()
            part(report, arguments.quick, arguments.data)
            wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
            print(f"{name}: {wall:.0f} s, of which {cpu:.0f} s at work", file=sys.stderr)
    for line in report.lost:
        print(f"FAILED {line}", file=sys.stderr)
    return 1 if report.lost else 0


if __name__ == "__main__":
    sys.exit(main())
