"""`quality`: compares a synthetic table with the real one by the usual measures. Not private.

Each figure stands beside two others: the sampling floor, that of as many records drawn anew from the real ones, and the
ceiling, that of as many with independent columns.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, final

import numpy as np

from qrelease._util.texts import aligned
from qrelease._util.typing import Axes, Floats
from qrelease.data.domain import Domain
from qrelease.data.points import has_points
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.quality.associations import (
    correlations,
    covariance_gap,
    cramers_v,
    dependence_gap,
    ordered,
    overlap,
    regression,
)
from qrelease.evaluation.quality.copies import Copies, copies, part
from qrelease.evaluation.quality.marginals import DENSE, distances, marginal_score, sets_of
from qrelease.evaluation.quality.models import MAX_CLASSES, LearnedColumn, Told, learned, told_apart, why_untrained
from qrelease.evaluation.quality.published import Published, as_released, drawn_table, published, published_lines
from qrelease.evaluation.results import NOTICE
from qrelease.queries.numeric import cell_values
from qrelease.release.release import Release

SETS: Final[dict[int, int]] = {1: 5_000, 2: 5_000, 3: 5_000, 4: 100, 5: 100}
"""Sets of columns that are looked at, by how many columns they have; of more they are drawn at random. Of up to three
columns they are all sets in tables of up to 32 columns: the score is that of the definition."""

LEAST: Final = 20
"""Records of each table that models, copies and the equivalent subsample take."""

_SHOWN_TABLES, _SEED = 6, 0
_ASSOCIATED = 500  # pairs of columns whose Cramér's V is looked at
_FRACTIONS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85)
_SUBSAMPLED = 60  # sets of three columns by which the equivalent subsample is found


@final
@dataclass(frozen=True)
class Beside:
    """A figure of the synthetic table, beside that of the floor and that of the ceiling."""

    synthetic: float
    floor: float
    independent: float

    def to_json(self) -> dict[str, float]:
        """Plain types."""
        return {"synthetic": self.synthetic, "floor": self.floor, "independent": self.independent}


@final
@dataclass(frozen=True)
class Worst:
    """A marginal that the synthetic table misses, by its L1 distance."""

    columns: tuple[str, ...]
    distance: Beside

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {"columns": list(self.columns), **self.distance.to_json()}


@final
@dataclass(frozen=True)
class Regressed:
    """Coefficients of one column's regression on the others.

    coefficients  name, value and half-width of the real table, then of the synthetic one
    overlap       the mean overlap of their intervals: of the synthetic table, the floor and the ceiling
    within        the share of the synthetic table's coefficients that are within the real one's intervals
    """

    target: str
    coefficients: tuple[tuple[str, float, float, float, float], ...]
    overlap: Beside
    within: float

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        listed = [
            {"column": name, "real": value, "real_95": width, "synthetic": other, "synthetic_95": wide}
            for name, value, width, other, wide in self.coefficients
        ]
        shown = {"overlap": self.overlap.to_json(), "within": self.within}
        return {"target": self.target, **shown, "coefficients": listed}


@final
@dataclass(frozen=True)
class ColumnNumbers:
    """The mean and the standard deviation of a column of numbers, of the real and of the synthetic table.

    They are of exact values where both tables have them, else of the middles of bins; missing values are left out.
    """

    column: str
    mean: tuple[float, float]
    deviation: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Plain types; null where a table has no value."""
        named = {"mean": self.mean, "standard_deviation": self.deviation}
        found = {k: [None if math.isnan(v) else v for v in pair] for k, pair in named.items()}
        return {"column": self.column, **{k: {"real": a, "synthetic": b} for k, (a, b) in found.items()}}

    def __str__(self) -> str:
        (a, b), (s, t) = self.mean, self.deviation
        return f"{self.column}: mean {b:.6g}, of the real {a:.6g}; standard deviation {t:.6g}, of the real {s:.6g}"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Quality:
    """What was found. Private: it compares with the true table.

    k_marginal    the score of (2 - mean L1) * 500, by number of columns
    subsample     the share of the real records, drawn at random, that is as good; NaN where none is that bad, None
                  where it was not looked for
    copied        of the synthetic table, of a second real sample, and of independent columns; None where not looked for
    told          whether models tell from the real table the synthetic one, a second real sample, and independent
                  columns
    numbers       of each column of numbers
    skipped       what was not looked at, and why
    published     of a release: how far off its answers and numbers are; nothing of a table alone
    """

    real: Table
    synthetic: Table
    name: str
    k_marginal: dict[int, Beside]
    subsample: float | None
    worst: dict[int, tuple[Worst, ...]]
    correlation: Beside
    covariance: Beside
    association: Beside
    dependence: Beside
    associated: tuple[tuple[str, str, float, float], ...]
    regressed: tuple[Regressed, ...]
    copied: tuple[Copies, Copies, Copies] | None
    told: tuple[Told, Told, Told] | None
    learned: tuple[LearnedColumn, ...]
    numbers: tuple[ColumnNumbers, ...]
    skipped: tuple[str, ...]
    seconds: float
    published: tuple[Published, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain types, with the notice; None where there is nothing to tell, as correlations of a single column."""
        columns = ("first", "second", "real", "synthetic")
        made = {
            "notice": NOTICE,
            "synthetic": self.name,
            "records": {"real": len(self.real), "synthetic": len(self.synthetic)},
            "k_marginal": {str(k): b.to_json() for k, b in self.k_marginal.items()},
            "k_marginal_sets": self._sets(),
            "equivalent_subsample": self.subsample,
            "worst": {str(k): [w.to_json() for w in worst] for k, worst in self.worst.items()},
            "mean_correlation_gap": self.correlation.to_json(),
            "mean_covariance_gap": self.covariance.to_json(),
            "mean_cramers_v_gap": self.association.to_json(),
            "mean_dependence_gap": self.dependence.to_json(),
            "cramers_v": [dict(zip(columns, pair, strict=True)) for pair in self.associated],
            "regressions": [r.to_json() for r in self.regressed],
            "copies": _by_name(self.copied),
            "told_apart": _by_name(self.told),
            "train_on_synthetic": [found.to_json() for found in self.learned],
            "numbers": [found.to_json() for found in self.numbers],
            **({"published": [found.to_json() for found in self.published]} if self.published else {}),
            "skipped": list(self.skipped),
            "seconds": round(self.seconds, 2),
        }
        told: dict[str, Any] = _finite(made)
        return told

    def _sets(self) -> dict[str, Any]:
        """Over which sets of columns each score is, so that others can compute it: all, or those that were drawn."""
        names, found = self.real.domain.names, dict[str, Any]()
        for k in self.k_marginal:
            sets = sets_looked_at(len(names), k)
            found[str(k)] = "all" if len(sets) == math.comb(len(names), k) else [[names[a] for a in s] for s in sets]
        return found

    def __repr__(self) -> str:
        return f"Quality({self.name}; the figures are private)"

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [("", "synthetic", "floor", "independent")]

        def row(name: str, digits: int, *values: float) -> None:
            told = ("-" if math.isnan(v) else f"{v:.{digits}f}" for v in values)
            rows.append((name, *told, *[""] * (3 - len(values))))

        def beside(name: str, digits: int, found: Beside) -> None:
            row(name, digits, found.synthetic, found.floor, found.independent)

        for k, found in self.k_marginal.items():
            beside(f"{k}-marginal score of 1000", 1, found)
        beside("mean gap of correlations", 4, self.correlation)
        beside("of covariances, in standard deviations", 4, self.covariance)
        beside("of Cramér's V", 4, self.association)
        beside("of dependence", 4, self.dependence)
        for regressed in self.regressed:
            beside(f"overlap of intervals, {regressed.target}", 3, regressed.overlap)
        if self.told:
            row("AUC, real against synthetic", 3, *(told.auc for told in self.told))
            row("pMSE ratio", 2, *(told.pmse_ratio for told in self.told))
        for f in self.learned:
            row(
                *(f"AUC for {f.target}, from synthetic", 3),
                *(f.from_synthetic[0], f.from_real[0], f.from_independent[0]),
            )
        if self.copied:
            row("unique records matched", 4, *(copies.unique for copies in self.copied))
            row("median nearest distance", 4, *(copies.nearest_median for copies in self.copied))
        lines = [NOTICE, *aligned(rows), _BESIDE]
        lines += [*([] if self.subsample is None else [as_good(self.subsample)]), *map(str, self.numbers)]
        if self.published:
            lines += published_lines(self.published)
        return "\n".join([*lines, *(f"skipped: {text}" for text in self.skipped)])

    def to_json_text(self) -> str:
        """`to_json` as text."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """A value of plain types, with None for each number that is none or infinite: JSON has neither."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _by_name(found: Sequence[Copies | Told] | None) -> dict[str, Any] | None:
    """Figures of the synthetic table and of those that it is set beside, as plain types."""
    names = ("synthetic", "second_sample", "independent")
    return None if found is None else {name: each.to_json() for name, each in zip(names, found, strict=True)}


def sets_looked_at(columns: int, k: int) -> tuple[Axes, ...]:
    """The sets of k columns that the k-marginal score is over."""
    return sets_of(columns, k, SETS[k])


_BESIDE: Final = (
    "floor: of as many records drawn anew from the real ones, as another sample is; independent: of records of which"
    " each value was drawn by itself from its column, so that nothing goes together"
)


def as_good(subsample: float) -> str:
    """The equivalent subsample in words."""
    if math.isnan(subsample):
        return f"worse than a {_FRACTIONS[0]:.1%} sample of the real table, by its three-way marginals"
    if subsample >= _FRACTIONS[-1]:
        return f"as good as a sample of {_FRACTIONS[-1]:.0%} or more of the real table, by its three-way marginals"
    return f"as good as a {100 * subsample:.2g} % sample of the real table, by its three-way marginals"


def quality(
    real: Table, synthetic: Any, *, name: str = "synthetic", targets: Sequence[str] | None = None, seed: int = _SEED
) -> Quality:
    """Compare a synthetic table with the real one. Not private.

    Parameters
    ----------
    real : Table
        The private records. With fewer than 20 of either table there are no models and copies, and no equivalent
        subsample.
    synthetic : Release, Table or data frame
        A release: its synthetic records are judged, and its answers and numbers with their bars as well, as
        `qrelease evaluate --release` does. Or a table of any tool over the same columns; or a pandas, polars or pyarrow
        frame, which is read by the schema of the real one.
    name : str
        What to call the synthetic one.
    targets : sequence of str, optional
        Columns that models are trained to foretell and regressions are of; by default the last of those with fewest
        cells, and at least two.
    seed : int
        Of the samples that are drawn: ordinary randomness, as nothing here is private.

    Returns
    -------
    Quality
        Its text is a table, and `to_json` gives plain types: scores of marginals, gaps of associations, models, means
        and standard deviations of numbers, and copies, each beside what sampling alone and independent columns do.

    Raises
    ------
    InvalidInput
        For tables over two universes or without records, for targets that are no columns, and for a data frame in
        place of the real table.

    Examples
    --------
    >>> import qrelease as qr
    >>> adult = qr.data.adult(["age", "sex", "income"])
    >>> found = qr.quality(part(adult, slice(0, None, 2)), part(adult, slice(1, None, 2)), targets=[])
    >>> found.k_marginal[3].independent < found.k_marginal[3].synthetic < 1000
    True
    """
    started = time.perf_counter()
    if not isinstance(real, Table):
        raise InvalidInput(
            f"quality takes a table, got {type(real).__name__}: make one by qr.Table.from_frame(frame, schema)"
        )
    bars: tuple[Published, ...] = ()
    if isinstance(synthetic, Release):
        real = as_released(real, synthetic)
        synthetic, bars = drawn_table(synthetic), published(real, synthetic)
    elif not isinstance(synthetic, Table):
        synthetic = Table.from_frame(synthetic, real.domain.of_rows)
    if synthetic.domain.of_rows != real.domain.of_rows:
        raise InvalidInput("the synthetic table is over another universe than the real one")
    if not min(len(real), len(synthetic)):
        raise InvalidInput("a table without records has no densities to compare")
    rng = np.random.default_rng(seed)
    goals = targets_of(real.domain, targets)
    n = len(synthetic)
    floor = part(real, rng.integers(len(real), size=n))
    independent = Table(real.domain, tuple(c[rng.integers(len(real), size=n)] for c in real.columns))
    others = (synthetic, floor, independent)
    k_marginal, worst = _marginals(real, others)
    gaps, associated = _associations(real, others)
    enough = min(len(real), len(synthetic)) >= LEAST
    skipped = [] if why_untrained() is None else [f"models: {why_untrained()}"]
    if not enough:
        skipped = [f"models, copies and the equivalent subsample: they take {LEAST} records of each table"]
    regressed = tuple(r for r in (_regressed(real, others, target) for target in goals) if r is not None)
    told, foretold = _models(real, synthetic, independent, goals, skipped, rng) if enough else (None, ())
    return Quality(
        real,
        synthetic,
        name,
        k_marginal,
        _subsample(real, synthetic, rng) if enough else None,
        worst,
        *gaps,
        associated,
        regressed,
        copies(real, synthetic, independent, rng) if enough else None,
        told,
        foretold,
        _numbers(real, synthetic),
        tuple(skipped),
        time.perf_counter() - started,
        bars,
    )


def _numbers(real: Table, synthetic: Table) -> tuple[ColumnNumbers, ...]:
    found = []
    for axis, attribute in enumerate(real.domain):
        if attribute.kind == "number" or (attribute.kind == "coded" and attribute.ordered):
            exact = all(
                not has_points(attribute) or (t.points and t.points[axis] is not None) for t in (real, synthetic)
            )
            (a, s), (b, t) = (_moments(table, axis, exact=exact) for table in (real, synthetic))
            found.append(ColumnNumbers(attribute.name, (a, b), (s, t)))
    return tuple(found)


def _moments(table: Table, axis: int, *, exact: bool) -> tuple[float, float]:
    """The mean and the standard deviation of a column; NaN where it has no value."""
    attribute = table.domain.attributes[axis]
    if exact and attribute.grid is not None:
        places = table.grid(attribute.name)
        values = float(attribute.grid.low) + float(attribute.grid.step) * places[places >= 0]
    else:
        codes = table.columns[axis]
        values = cell_values(attribute).mean[codes[codes < attribute.values]]
    return (float(values.mean()), float(values.std())) if len(values) else (math.nan, math.nan)


def targets_of(domain: Domain, targets: Sequence[str] | None) -> list[int]:
    """The columns that models foretell: those that are named, or the last of those with fewest cells, at least two."""
    if targets is not None:
        return [domain.axis(name) for name in targets]
    sizes = [(size, -a) for a, size in enumerate(domain.shape) if size > 1]
    return [-min(sizes)[1]] if sizes else []


def _marginals(real: Table, others: Sequence[Table]) -> tuple[dict[int, Beside], dict[int, tuple[Worst, ...]]]:
    found: dict[int, Beside] = {}
    worst: dict[int, tuple[Worst, ...]] = {}
    for k in SETS:
        if k > len(real.domain):
            break
        sets = sets_looked_at(len(real.domain), k)
        gaps = distances(real, others, sets)
        found[k] = Beside(*(marginal_score(gap) for gap in gaps))
        if k <= 2:
            furthest = np.argsort(-gaps[0], kind="stable")[:_SHOWN_TABLES]
            worst[k] = tuple(_worst(real, sets[i], gaps[:, i]) for i in furthest)
    return found, worst


def _worst(real: Table, axes: Axes, gaps: Floats) -> Worst:
    return Worst(tuple(real.domain.names[a] for a in axes), Beside(*(float(gap) for gap in gaps)))


def _subsample(real: Table, synthetic: Table, rng: np.random.Generator) -> float:
    """The share of the real records whose three-way marginals are as far off: between the shares that are tried.

    In between it is interpolated in logarithms; the distance of a sample of a share f falls as √((1 - f) / f).
    """
    sets = sets_of(len(real.domain), min(3, len(real.domain)), _SUBSAMPLED)
    order = rng.permutation(len(real))
    tried = [f for f in _FRACTIONS if f * len(real) >= 1]
    samples = [part(real, order[: max(round(f * len(real)), 1)]) for f in tried]
    ours, *theirs = distances(real, [synthetic, *samples], sets).mean(axis=1).tolist()
    if ours >= theirs[0]:
        return math.nan
    if ours <= theirs[-1]:
        return tried[-1]
    at = next(i for i, gap in enumerate(theirs) if gap <= ours)
    low, high = theirs[at - 1], theirs[at]
    share = math.log(low / ours) / math.log(low / high) if low > high else 0.0
    return math.exp(math.log(tried[at - 1]) + share * math.log(tried[at] / tried[at - 1]))


def associated_pairs(domain: Domain) -> Sequence[Axes]:
    """The pairs of columns whose association is looked at."""
    return [s for s in combinations(range(len(domain)), 2) if domain.cells(s) <= DENSE][:_ASSOCIATED]


def _associations(
    real: Table, others: Sequence[Table]
) -> tuple[tuple[Beside, Beside, Beside, Beside], tuple[tuple[str, str, float, float], ...]]:
    """The mean gaps of correlations, covariances, Cramér's V and dependence, and the pairs whose V is furthest off."""
    columns, above = ordered(real.domain), np.nan
    truth = correlations(real, columns)
    pairs = np.triu_indices(len(columns), 1)
    gaps = [np.abs(correlations(t, columns) - truth)[pairs] for t in others]
    correlated = Beside(*(float(g.mean()) if g.size else above for g in gaps))
    every = associated_pairs(real.domain)
    covariance = Beside(*(covariance_gap(real, t, every) for t in others))
    dependence = Beside(*(dependence_gap(real, t, every) for t in others))
    values = np.array([[cramers_v(t, *s) for s in every] for t in (real, *others)]).reshape(4, len(every))
    off = np.abs(values[1:] - values[0])
    names = real.domain.names
    furthest = np.argsort(-off[0], kind="stable")[:_SHOWN_TABLES].tolist()
    listed = tuple((names[every[i][0]], names[every[i][1]], float(values[0, i]), float(values[1, i])) for i in furthest)
    association = Beside(*(float(o.mean()) if o.size else above for o in off))
    return (correlated, covariance, association, dependence), listed


def _regressed(real: Table, others: Sequence[Table], target: int) -> Regressed | None:
    """How well the tables agree on a regression of one column on the others; None where there can be none."""
    columns = ordered(real.domain)
    if target not in columns or len(columns) < 2:
        return None
    truth = {c.name: c for c in regression(real, target, columns)}
    found = [{c.name: c for c in regression(t, target, columns)} for t in others]
    if not truth:
        return None
    overlaps = [float(np.mean([overlap(c, f[n]) if n in f else 0.0 for n, c in truth.items()])) for f in found]
    both = [(c, found[0][n]) for n, c in truth.items() if n in found[0]]
    within = sum(abs(o.value - c.value) <= c.width for c, o in both) / len(truth)
    listed = tuple((c.name, c.value, c.width, o.value, o.width) for c, o in both)
    return Regressed(real.domain.names[target], listed, Beside(*overlaps), within)


def _models(
    real: Table,
    synthetic: Table,
    independent: Table,
    targets: Sequence[int],
    skipped: list[str],
    rng: np.random.Generator,
) -> tuple[tuple[Told, Told, Told] | None, tuple[LearnedColumn, ...]]:
    if why_untrained() is not None or len(real.domain) < 2:
        return None, ()
    order = rng.permutation(len(real))
    half = len(real) // 2
    first, second = part(real, order[:half]), part(real, order[half:])
    told = (
        told_apart(first, part(synthetic, rng.permutation(len(synthetic))[:half]), rng),
        told_apart(first, second, rng),
        told_apart(first, part(independent, rng.permutation(len(independent))[:half]), rng),
    )
    found = []
    for target in targets:
        name, size = real.domain.names[target], real.domain.shape[target]
        if not 2 <= size <= MAX_CLASSES:
            skipped.append(f"foretelling {name}: it has {size:,} cells, and models are for 2 to {MAX_CLASSES}")
            continue
        one = learned(first, second, synthetic, independent, target, rng)
        if one is None:
            skipped.append(f"foretelling {name}: all records that are tested have one value")
        else:
            found.append(one)
    return told, tuple(found)
