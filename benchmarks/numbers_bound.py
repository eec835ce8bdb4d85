"""What no unbiased answers to questions about numbers can be below, whatever is measured: the singular value bound.

Let λ be weights of kinds of records, which add up to 1, and the questions be the rows of W, weighted by their worth.
Whoever measures A x with Gaussian noise of σ = 1 and is moved by at most 1 by each record has ‖A‖² <= 1 in each
column, so tr(Aᵀ A D) <= 1 for D = diag(λ), and an error tr(W (AᵀA)⁻¹ Wᵀ) of at least the square of the sum of the
singular values of W D^½ (Li & Miklau 2013, *Optimal error of query answering under the matrix mechanism*, for λ all
alike). Every λ gives a bound; the largest of them is what the best mechanism of this kind has.

Here a question's rows are functions of a record's values, a vector a over some f (of counts, of sums, …), times its
group. With λ alike in all groups, and some other λ of the values, whose second moments are Λ = Σ λ f fᵀ, the singular
values are those of Λ^½ C Λ^½ for each set S of columns (`residuals`), with C what all questions ask of S:

    error >= (Σ_S √pₛ tr (Λ^½ Cₛ Λ^½)^½)².

λ goes up where a record would move the mechanism of this bound by more than others, and down elsewhere, step by step.
Questions that have a condition on a column by which others group are left out, as if answers to them cost nothing.

**Half of the questions.** A median ratio of r needs half of the questions, some half, with ratios of at most r,
whatever the others have. `best_half` serves each half alone, as if the others were not asked, by the best plan of
residuals of each measure (`sums_plan`, whose closed form is the least where all measures can be active at one record),
and gives the least root mean square of any half: no such plan has a smaller median.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from math import prod

import numpy as np

from qrelease._util.typing import Axes, Codes, Floats
from qrelease.data import predicates
from qrelease.data.domain import Domain
from qrelease.data.points import any_of, binned, has_points
from qrelease.data.table import Table
from qrelease.inference.sums_plan import SumsPlan, spread
from qrelease.mechanisms.measured_values import record_values
from qrelease.queries.measures import Measure, Needs, grid_of
from qrelease.queries.numeric import NumericQuestion

_RECORDS = 3000
_SEED = 1
_HALVES = 1 << 17
_Row = tuple[float, Floats]


def alone(needs: Needs) -> float:
    """The squared error of one question by itself at σ = 1, evenly divided among its tables: see `numbers.by_hand`."""
    if needs.sums is None:
        return 1.0
    if needs.kind == "sum":
        return (abs(needs.scale.middle / needs.scale.half) + 1) ** 2
    parts = needs.weights if needs.present is None else [(m, w) for m, w in needs.weights if m != needs.present]
    doubled = needs.counts if needs.present is not None else None  # its weight is divided in four, of each of two
    return (2 + (needs.squares is not None)) * sum(w * (4 if m == doubled else 1) for m, w in parts)


def planned(domain: Domain, plan: SumsPlan, asked: Sequence[Needs]) -> float:
    """The root mean square, over the questions, of a plan's error over that of one at a time."""
    ratios = []
    for needs, ratio in zip(asked, plan.ratios, strict=True):
        best = sum(
            np.sqrt(weight * v * prod(1 - 1 / domain.shape[a] for a in s))
            for _, weight in needs.weights
            for s, v in spread(domain, needs, cells=False)
        )
        ratios.append(ratio * best**2 / (len(asked) * alone(needs)))
    return float(np.sqrt(np.mean(ratios)))


def best_half(
    domain: Domain, asked: Sequence[Needs], by_cells: Sequence[Needs | None] = ()
) -> tuple[float, tuple[int, ...]]:
    """The least root mean square of the ratios of any half of the questions, and which half that is.

    by_cells  other tables that would answer each question, as `SumsPlan.choose` takes them: all are used, or none
    """
    others = [other or needs for needs, other in zip(asked, by_cells or asked, strict=True)]
    half, found = (len(asked) + 1) // 2, list[tuple[float, tuple[int, ...]]]()
    for variant in (asked, others):
        loads = _loads(domain, variant) / np.array([alone(needs) for needs in asked])[:, None]
        halves = combinations(range(len(asked)), half)
        while chosen := list(islice(halves, _HALVES)):
            picked = np.zeros((len(chosen), len(asked)), np.float32)
            np.put_along_axis(picked, np.array(chosen), 1, axis=1)
            totals = np.sqrt(picked @ loads.astype(np.float32)).sum(axis=1) ** 2 / (half * len(asked))
            found.append((float(np.sqrt(totals.min())), chosen[int(totals.argmin())]))
    return min(found)


def _loads(domain: Domain, asked: Sequence[Needs]) -> Floats:
    """What each question asks of each table of residuals, times how far a record moves that: (questions, tables)."""
    rows: list[dict[tuple[Measure, Axes], float]] = [{} for _ in asked]
    for row, needs in zip(rows, asked, strict=True):
        for measure, weight in needs.weights:
            for s, v in spread(domain, needs, cells=False):
                row[measure, s] = row.get((measure, s), 0.0) + weight * v * prod(1 - 1 / domain.shape[a] for a in s)
    tables = dict.fromkeys(table for row in rows for table in row)
    return np.array([[row.get(table, 0.0) for table in tables] for row in rows])


def bound(domain: Domain, questions: Sequence[NumericQuestion], asked: Sequence[Needs], steps: int = 120) -> float:
    """The same of whatever could be measured, at the least; `steps` of λ, which is even at first."""
    grouped = {a for needs in asked for a in needs.axes if needs.kind != "histogram"}
    kept = [
        (question, needs)
        for question, needs in zip(questions, asked, strict=True)
        if question.predicate is None or not grouped & set(question.predicate.axes)
    ]
    functions = _Functions(domain, [needs for _, needs in kept])
    loads: dict[Axes, Floats] = {}
    for question, needs in kept:
        worth = 1 / (len(asked) ** 2 * alone(needs))
        axes, rows = functions.rows(question, needs)
        c: Floats = np.sum([worth * w * np.outer(a, a) for w, a in rows], axis=0)
        for s, v in spread(domain, Needs(axes, Measure()), cells=False):
            loads[s] = loads.get(s, 0.0) + v * c
    return float(np.sqrt(_largest(domain, loads, functions.values, steps)))


def _largest(domain: Domain, loads: Mapping[Axes, Floats], values: Floats, steps: int) -> float:
    """The largest bound over λ that is found; values of the functions (records, functions)."""
    chance, best = np.full(len(values), 1 / len(values)), 0.0
    norms = {s: prod(1 - 1 / domain.shape[a] for a in s) for s in loads}
    for _ in range(steps):
        moments = (values * chance[:, None]).T @ values
        root = _root(moments)
        inverse = np.linalg.pinv(root, rcond=1e-9, hermitian=True)
        parts = {s: np.sqrt(norms[s]) * _root(root @ c @ root) for s, c in loads.items()}
        total = sum(np.trace(part) for part in parts.values())
        best = max(best, float(total) ** 2)
        strategy = inverse @ sum(parts.values()) @ inverse
        chance = chance * np.einsum("nd,de,ne->n", values, strategy, values) / total
        chance /= chance.sum()
    return best


def _root(matrix: Floats) -> Floats:
    """The square root of a matrix that is positive, but for rounding."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


class _Functions:
    """What questions sum up, at records of many kinds: `values` (records, functions), at most 1 in size."""

    def __init__(self, domain: Domain, asked: Sequence[Needs]) -> None:
        self._domain = domain
        measures = dict.fromkeys(m for needs in asked for m, _ in needs.weights)
        bins = sorted(
            {a for needs in asked if needs.kind == "histogram" for a in needs.axes if self._is_value(a, asked)}
        )
        table = _records(domain, list(measures), bins)
        found = [record_values(table, m) / m.top for m in measures]
        self._place = {m: i for i, m in enumerate(measures)}
        self._bins: dict[int, list[int]] = {}
        for axis in bins:
            self._bins[axis] = list(range(len(found), len(found) + domain.attributes[axis].values))
            found += [(table.codes(axis) == k).astype(np.float64) for k in range(domain.attributes[axis].values)]
        self.values = np.stack(found, axis=1)

    def _is_value(self, axis: int, asked: Sequence[Needs]) -> bool:
        """Whether a column is asked for its bins, and by no question else as a group."""
        return all(axis not in needs.axes for needs in asked if needs.kind != "histogram")

    def _sum(self, weights: Mapping[Measure, float]) -> Floats:
        row = np.zeros(self.values.shape[1])
        for measure, weight in weights.items():
            row[self._place[measure]] += weight
        return row

    def rows(self, question: NumericQuestion, needs: Needs) -> tuple[Axes, list[_Row]]:
        """The columns of the groups, and what is summed in them, with its weight in the error."""
        if needs.kind == "histogram":
            axis = self._domain.axis(question.column)
            if axis in self._bins:
                bins = self._bins[axis]
                rest = tuple(a for a in needs.axes if a != axis)
                return rest, [(1 / len(bins), np.eye(self.values.shape[1])[i]) for i in bins]
        counts = {needs.counts: 1.0} if needs.present is None else {needs.counts: 0.5, needs.present: 0.5}
        if needs.sums is None:
            return needs.axes, [(1.0, self._sum(counts))]
        if needs.kind == "sum":
            ratio = needs.scale.middle / needs.scale.half
            return needs.axes, [(1.0, self._sum({**{m: w * ratio for m, w in counts.items()}, needs.sums: 1.0}))]
        weights = dict(needs.weights)
        rows = [(weights[needs.counts] * (1 if needs.present is None else 4), self._sum(counts))]
        others = [m for m in (needs.sums, needs.squares) if m is not None]
        return needs.axes, [*rows, *((weights[m], self._sum({m: 1.0})) for m in others)]


def _records(domain: Domain, measures: Sequence[Measure], bins: Sequence[int]) -> Table:
    """Records with the values at which measures are extreme, in the columns that matter to them; some at random."""
    places: dict[int, set[int]] = {a: set() for a in bins}
    for measure in measures:
        for text in (measure.where, measure.met):
            for axis in predicates.parse(text, domain).axes if text else ():
                places.setdefault(axis, set())
        if measure.power:
            found = places.setdefault(domain.axis(measure.column), set())
            found |= {measure.low + (measure.high - measure.low) * k // 4 for k in range(5)}
    for axis, found in places.items():
        attribute = domain.attributes[axis]
        if not has_points(attribute):
            found |= set(range(attribute.size))
            continue
        size = grid_of(attribute).size
        found |= {place for c in attribute.cuts for place in (c - 1, c) if 0 <= place < size}
        found |= {size} if attribute.missing else set()
    sizes = [len(found) for found in places.values()]
    rng, many = np.random.default_rng(_SEED), prod(sizes)
    chosen = np.arange(many) if many <= _RECORDS else rng.choice(many, _RECORDS, replace=False)
    columns: list[Codes] = [np.zeros(len(chosen), np.uint32) for _ in domain.attributes]
    for (axis, found), which in zip(places.items(), np.unravel_index(chosen, sizes) if sizes else (), strict=True):
        columns[axis] = np.array(sorted(found), np.uint32)[which]
    points = [c if has_points(a) else None for a, c in zip(domain.attributes, columns, strict=True)]
    codes = [c if p is None else binned(a, p) for a, c, p in zip(domain.attributes, columns, points, strict=True)]
    return Table(domain, tuple(codes), None, any_of(points))
