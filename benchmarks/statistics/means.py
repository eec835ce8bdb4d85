"""Means of real columns against OpenDP's and diffprivlib's."""

import math
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.statistics import dpl
from benchmarks.statistics.setting import Row, Setting, column, results, rmse
from qrelease.privacy.costs import Neighbours, PureDP
from qrelease.statistics.base import Statistic
from qrelease.statistics.clipped_mean import ClippedMean, QuantileMean, SparseVectorMean
from qrelease.statistics.lower_bounds import least_error
from qrelease.statistics.mean import Mean, TextbookMean

EPSILONS = (0.01, 0.1, 1.0)

COLUMNS: dict[tuple[str, str], tuple[int, int, float]] = {
    ("adult", "age"): (0, 100, 1.0),
    ("adult", "capital-gain"): (0, 120, 1.0),
    ("adult", "hours-per-week"): (0, 100, 1.0),
    ("raw/flights", "dep_delay"): (-120, 2_000, 1.0),
    ("raw/flights", "air_time"): (0, 1_500, 1.0),
    ("raw/flights", "distance"): (0, 10_000, 1.0),
    ("raw/rwm5yr", "docvis"): (0, 366, 1.0),
    ("raw/rwm5yr", "hhninc"): (0, 100_000, 1000.0),
}
"""Columns with public bounds, and how many steps make a unit. Adult's columns are coded as in the file."""

FORMS: dict[str, Statistic] = {
    "mean": Mean("x"),
    "centred": TextbookMean("x"),
    "naive": TextbookMean("x", origin="zero"),
    "clipped": ClippedMean("x"),
    "quantiles": QuantileMean("x"),
    "sparse vector": SparseVectorMean("x"),
}

Rival = Callable[[Any, int, int], list[list[float]]]
"""Of codes, their cells and how many runs; a list of means for each of `EPSILONS`."""


def opendp_means(codes: Any, cells: int, runs: int) -> list[list[float]]:
    """Clamp, sum and count by OpenDP, ε/2 each; the exact parts once, its Laplace noise in each run."""
    import opendp.prelude

    dp: Any = opendp.prelude

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    exact = [space >> dp.t.then_clamp((0, cells - 1)) >> dp.t.then_sum(), space >> dp.t.then_count()]
    parts = [(transformation(codes.tolist()), transformation.map(d_in=1)) for transformation in exact]
    means = []
    for epsilon in EPSILONS:
        found = []
        for value, moved in parts:
            scale = dp.binary_search_param(
                lambda s: dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=s),
                d_in=moved,
                d_out=epsilon / 2,
            )
            noisy = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=scale)
            found.append([float(noisy(value)) for _ in range(runs)])
        means.append([min(max(s / max(n, 1.0), 0.0), cells - 1.0) for s, n in zip(*found, strict=True)])
    return means


def diffprivlib_means(codes: Any, cells: int, runs: int) -> list[list[float]]:
    """By its `mean`, which takes n as public."""
    return [dpl.means(codes, cells, epsilon, runs) for epsilon in EPSILONS]


RIVALS: dict[str, Rival] = {"opendp": opendp_means, "diffprivlib": diffprivlib_means}


def means(setting: Setting) -> Iterator[Row]:
    """RMSE of the mean of a column, in its unit, of each form with n private; diffprivlib's takes n as public. Where a
    library does not import stands `skipped`. `least` is what none has less of on all tables: those that learn the
    bounds may have less on this one."""
    if setting.data is None:
        return
    runs = setting.runs(100)
    for (file, name), (low, cells, steps) in COLUMNS.items():
        values = np.array(setting.column(file, name))
        codes = np.clip(np.rint(values * steps).astype(np.int64) - low, 0, cells - 1)
        table, truth = column(codes, cells), float(codes.mean())
        others = {rival: answers(codes, cells, runs) for rival, answers in RIVALS.items() if _there(rival)}
        for at, epsilon in enumerate(EPSILONS):
            row: Row = {"column": f"{file.removeprefix('raw/')} {name}", "n": len(codes), "epsilon": epsilon}
            for form, statistic in FORMS.items():
                found = [r.value for r in results(statistic, table, PureDP(epsilon), runs)]
                row[form] = rmse(found, truth) / steps
            for rival in RIVALS:
                row[rival] = rmse(others[rival][at], truth) / steps if rival in others else "skipped"
            row["least"] = least_error([(cells - 1) / steps], len(codes), PureDP(epsilon), Neighbours.ADD_REMOVE)
            numbers = {form: row[form] for form in FORMS if math.isfinite(row[form])}
            row["best"] = min(numbers, key=lambda form: numbers[form])
            yield row


def _there(rival: str) -> bool:
    return dpl.missing() is None if rival == "diffprivlib" else find_spec(rival) is not None
