"""Least squares from sufficient statistics against descent, at equal cost, on tables that nothing was tuned on.

`AdaSSP` was made better with adult, acs and br2000 at hand, with the targets of `vectors.squares`. What is here was
chosen afterwards, in one go: raw tables as numbers, and other targets and columns of the shared ones.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t

from benchmarks.statistics.setting import Row, Setting, results
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.privacy.costs import ApproxDP
from qrelease.statistics.adassp import AdaSSP
from qrelease.statistics.design import Design, PublicRecords
from qrelease.statistics.regression import NoisyDescent

CELLS = 101
"""Points that a number has between its public bounds."""

Numbers = dict[str, tuple[float, float]]

FLIGHTS: Numbers = {
    "sched_dep_time": (0, 2400),
    "dep_delay": (-60, 240),
    "arr_delay": (-120, 240),
    "air_time": (0, 720),
    "distance": (0, 5000),
}
RWM: Numbers = {"docvis": (0, 50), "age": (20, 70), "hhninc": (0, 20), "educ": (7, 18), "year": (1984, 1988)}
PLANES: Numbers = {"year": (1950, 2013), "seats": (0, 450), "engines": (1, 4)}


@dataclass(frozen=True)
class Problem:
    """A target and features of a table. Raw columns are numbers between bounds, or else categories, which are public.

    Attributes
    ----------
    every
        Takes one record of so many, where there are more than it needs.
    """

    file: str
    target: str
    features: tuple[str, ...] = ()
    numbers: Numbers | None = None
    every: int = 1

    def table(self, setting: Setting) -> Table:
        """With the target and the features alone; records that miss the target stay out."""
        assert setting.data is not None
        if self.numbers is None:
            return Table.read_csv(setting.data / f"{self.file}.csv.gz", setting.data / f"{self.file}-domain.json")
        names = (self.target, *self.features)
        texts = setting.texts(f"raw/{self.file}", names)
        kept = [i for i, text in enumerate(texts[self.target]) if text][:: self.every]
        attributes, columns = [], []
        for name in names:
            values = [texts[name][i] for i in kept]
            if name in self.numbers:
                low, high = self.numbers[name]
                points = np.array([float(v) if v else math.nan for v in values])
                codes = np.rint(np.clip((points - low) / (high - low), 0, 1) * (CELLS - 1))
                missing = np.isnan(codes)
                attributes.append(
                    Attribute(name, "coded", codes=CELLS, ordered=True, missing=("",) if missing.any() else ())
                )
                columns.append(np.where(missing, CELLS, codes).astype(np.uint8))
            else:
                labels, found = np.unique(values, return_inverse=True)
                attributes.append(Attribute(name, "coded", codes=len(labels)))
                columns.append(found.astype(np.uint8))
        return Table(Domain(tuple(attributes)), tuple(columns))


PROBLEMS = (
    Problem("flights", "air_time", ("carrier", "origin", "distance", "sched_dep_time"), FLIGHTS, 8),
    Problem("flights", "arr_delay", ("carrier", "origin", "distance", "sched_dep_time", "dep_delay"), FLIGHTS, 8),
    Problem("flights", "dep_delay", ("carrier", "dest", "sched_dep_time"), FLIGHTS, 8),
    Problem("rwm5yr", "docvis", ("age", "hhninc", "educ", "female", "married", "kids", "outwork", "year"), RWM),
    Problem("rwm5yr", "hhninc", ("age", "educ", "female", "married", "kids", "outwork", "self", "edlevel"), RWM),
    Problem("planes", "seats", ("year", "type", "engines", "engine"), PLANES),
    Problem("adult", "age"),
    Problem("adult", "education-num", ("age", "workclass", "occupation", "race", "sex", "native-country")),
    Problem("br2000", "10"),
    Problem("br2000", "4", ("0", "1", "3", "5", "6", "9", "12")),
    Problem("acs", "22"),
    Problem("acs", "4", ("0", "1", "2", "3", "5", "6", "7")),
    Problem("nltcs", "traveling"),
)


def forms(problem: Problem) -> dict[str, Any]:
    """By name."""
    target, features = problem.target, problem.features or None
    return {
        "adassp": AdaSSP(target, features),
        "of the text": AdaSSP(target, features, refinements=0),
        "descent": NoisyDescent(target, features, loss="linear"),
        "plain descent": NoisyDescent(target, features, loss="linear", epochs=60, curvature=0),
    }


def least_squares(setting: Setting) -> Iterator[Row]:
    """Excess mean square error over least squares without privacy, in thousandths of the target's variance, means over
    runs at ε = 1, δ = 1e-6: of AdaSSP, of its form in the text in one step, of descent in the metric of noisy moments
    and of plain descent. `less` is how much less AdaSSP has than the better descent, with the half width of a 95 %
    interval; `wins` is yes or no where that interval is off 0, and in the last row the tables of a yes. Tables, targets
    and seeds that nothing was tuned on."""
    if setting.data is None:
        return
    runs, cost, better = setting.runs(20), ApproxDP(1.0, 1e-6), set[str]()
    for problem in PROBLEMS[::2] if setting.quick else PROBLEMS:
        table = problem.table(setting)
        design = Design.of(table.domain, problem.target, problem.features or None)
        known = PublicRecords(dict(zip(table.domain.names, table.columns, strict=True)))
        y = design.numbers()[0][known.cells(problem.target)] / 1024
        x = design.rows(known) / 1024
        exact = float(np.mean((x @ np.linalg.lstsq(x, y, rcond=None)[0] - y) ** 2))
        unit = float(y.var()) / 1000
        row: Row = {"table": problem.file, "target": problem.target, "n": len(y), "p": design.width}
        row["explained"] = 1 - exact / (1000 * unit)
        found = {}
        for name, statistic in forms(problem).items():
            values: list[Any] = [r.value for r in results(statistic, table, cost, runs, first=1_000)]
            errors = [np.mean((design.predict(value, known) - y) ** 2) - exact for value in values]
            found[name] = np.array(errors) / unit
            row[name] = float(np.mean(found[name]))
        rival = min(("descent", "plain descent"), key=lambda name: row[name])
        gain = found[rival] - found["adassp"]
        half = float(t.ppf(0.975, runs - 1)) * float(gain.std(ddof=1)) / math.sqrt(runs)
        row |= {"less": float(gain.mean()), "±": half, "wins": "yes" if row[rival] - row["adassp"] > half else "tie"}
        if row["adassp"] - row[rival] > half:
            row["wins"] = "no"
        if row["wins"] == "yes":
            better.add(problem.file)
        yield row
    yield {"table": "all", "wins": f"on {len(better)} tables: {', '.join(sorted(better))}"}
