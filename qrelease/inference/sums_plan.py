"""Sums by group measured optimally: residuals of several measures in one draw, at scales in closed form.

**What is measured.** A measure f_j (`queries.measures`) adds f_j(x) to one cell of a table for each record x, with
|f_j| <= t_j. Divided by t_j it is a marginal of another measure than the count: linear in the records, with residuals
as counts have (`residuals`). One record that comes or goes moves the residual of f_j on S by f_j(x)/t_j times a column
of the projection, so by at most √pₛ, pₛ = Π (1 - 1/nᵢ). With noise of variance sⱼₛ (at σ = 1) on the residual of each
measure and set, all of them together move by at most one unit of σ where for every record

    Σ_{j active at x} Σ_S pₛ/sⱼₛ <= 1,     rⱼₛ = pₛ/sⱼₛ the share of the privacy,                           (1)

a measure being active where the record meets its condition and has its value: else it adds 0. Conditions no record can
meet together do not add up. Under replace-one two records move, each by at most that: twice the scale of the noise.

**The best scales.** An answer's error is Σ aⱼ var_j (`Needs.weights`), and the variance of a cell of f_j's table on A
is Σ_{S⊆A} sⱼₛ v(A, S). So what is asked is a load cⱼₛ on each sⱼₛ, and by Cauchy's and Schwarz's inequality

    Σ cⱼₛ sⱼₛ · Σ pₛ/sⱼₛ >= (Σ √(cⱼₛ pₛ))²,     with equality at rⱼₛ = √(cⱼₛ pₛ) / Σ √(cⱼₛ pₛ),

as for counts alone. No Gaussian mechanism does better where all measures are active at once and each may be at either
of its bounds whatever the others are, as sums of different columns may. *Proof.* Let the records be (cell, v) with v_j
in {-1, 1}, and the answers the tables of counts and of the sums of each v_j. To flip the sign of v_j in all records is
a symmetry: it changes the signs of answers, and no error. So is a permutation of a column's values. The error
tr(V X⁻¹) is convex in X = AᵀA (`strategies`) and its constraint is linear; so the mean of an optimum over the
symmetries is one. That mean has no products of two measures, nor of two sets: it is of our kind. ∎ (Values strictly
inside the bounds move less, which only helps.) Several measures of one column, such as its sum, its squares and a
share, are functions of each other, and are here measured as if they were not, which may lose some.

That the sums are centred costs nothing: of Σx alone, l <= x <= u, the best is C·(l + u)/2 + S·(u - l)/2, whose least
total is ((u - l)/2 + |l + u|/2)² = max(|l|, |u|)², that of Σx measured by itself; with the counts known besides.

**Several questions.** Each is measured against itself: its error over the least that the whole privacy would give it
alone. Equal weights on these give the least mean, where all measures are active at once. K questions one at a time
have a ratio of K each, and that is a point of (1): so there are shares for which the largest ratio is at most K, and no
question is worse off than if it had been asked alone for a K-th of the privacy. Weights of questions above it are
raised until none is, or for `_STEPS` steps, and the best shares that were met are taken. That these steps get there is
not proved; `ratios` says how far they got. Where conditions exclude each other the shares of the closed form are scaled
until the record that uses most uses everything: that keeps (1), and need not be the best.

**Conditions.** "By A where B is in P" has sums of its own, of the records that meet the condition; or it is answered
from the table on A and B, by adding up the cells of P, whose variance is Σ_S sⱼₛ w(S) for the weights w of that sum.
Where other questions need that table too, this often costs less. Questions are changed over one after another while
the closed form's total falls; the plan is the better one of that and of all questions with sums of their own.

**Pure ε.** Tight frames are no good in L1 (`contrasts`): each question's own tables are measured, cell by cell, which
one record moves by 1 together. With shares rⱼ of ε the variances are 2/rⱼ², and by Hölder's inequality the least Σ cⱼ
2/rⱼ² for Σ rⱼ <= 1 is 2(Σ cⱼ^⅓)³, at rⱼ ∝ cⱼ^⅓. A table that is a margin of another one is not measured where its
share is better spent on that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod, sqrt
from typing import Final, final

import numpy as np

from qrelease._util.typing import Axes, Floats
from qrelease.data import predicates
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.residuals import vector_variances
from qrelease.noise.calibration import calibrated
from qrelease.noise.distributions import MAX_SCALE, MAX_VARIANCE, Noise
from qrelease.privacy.costs import Cost, Neighbours, is_pure
from qrelease.queries.families import Cells, Queries, Residuals
from qrelease.queries.measures import Measure, Needs
from qrelease.queries.workload import Group

_WHOLE: Final = 1 << 40
"""Shares are multiples of one part in so many: their sums are exact."""

_MIN_PARTS: Final = 1 << 12
"""Parts that everything measured has at least."""

_MAX_CELLS: Final = 1 << 20
"""Of the columns that conditions are about; beyond it all of them are taken to hold at once."""

_MAX_ENTRIES: Final = 1 << 16

_MAX_MERGED: Final = 200
"""Tables among which margins of each other are looked for."""

_MIN_WEIGHT: Final = 2.0**-20

_STEPS: Final = 400


@final
@dataclass(frozen=True)
class PlannedTable:
    """One table of residuals, or of cells, that is measured.

    measure  whose sums
    group    the columns, and what is measured of the table on them
    share    of the privacy, in parts of 2^40
    """

    measure: Measure
    group: Group
    share: int

    def sensitivity(self, order: int) -> int:
        """How far one record that comes or goes moves it, in L1, or squared in L2: that of counts times `top`."""
        moved: int = self.group.queries.sensitivity(order, replace=False) * self.measure.top**order
        return moved

    def noise(self, cost: Cost, neighbours: Neighbours) -> tuple[Noise, Fraction]:
        """The law of the noise, of whole numbers, and its exact scale b or variance σ²."""
        unit, parameter = calibrated(1, cost)
        order = unit.order
        twice = 2 if neighbours is Neighbours.REPLACE_ONE else 1
        needed = parameter * self.sensitivity(order) * twice**order * Fraction(_WHOLE, self.share)
        if needed > (MAX_SCALE if order == 1 else MAX_VARIANCE):
            raise InvalidInput(f"{cost} buys {self.measure} only under noise beyond the samplers' range: ask less")
        return Noise(unit.law, float(needed) if order == 1 else sqrt(needed)), needed

    def to_json(self) -> dict[str, object]:
        """A plain description."""
        return {"measure": self.measure.to_json(), "axes": list(self.group.axes), "share": self.share}


@final
@dataclass(frozen=True)
class SumsPlan:
    """What is measured for some questions, and how good that is.

    parts   each table once
    ratios  by question, its expected squared error over the least that the whole privacy would give it alone
    alone   that least error, where one record that moves one number by 1 has noise of σ or b = 1
    """

    parts: tuple[PlannedTable, ...]
    ratios: tuple[float, ...]
    alone: tuple[float, ...]

    def errors(self, cost: Cost) -> Floats:
        """The expected squared error of each question under a cost of the plan's kind, with V in -1..1: public.

        Of two plans under one relation it says which has the smaller error bars.
        """
        found: Floats = np.array(self.ratios) * np.array(self.alone) * unit_error(cost)
        return found

    @classmethod
    def choose(
        cls,
        domain: Domain,
        asked: Sequence[Needs],
        cost: Cost,
        neighbours: Neighbours,
        weights: Sequence[float] | None = None,
        by_cells: Sequence[Needs | None] = (),
    ) -> SumsPlan:
        """The best plan for some questions.

        weights   of the questions' ratios, 1 by default
        by_cells  other tables that would answer each question (`needs_by_cells`), None where there are none: they are
                  measured in place of its own where all questions are better off by that

        Raises `TooLarge` for too many tables.
        """
        pure, public = is_pure(cost), neighbours is Neighbours.REPLACE_ONE
        chance = np.ones(len(asked)) if weights is None else np.array(weights, np.float64)
        loads = _Loads.of(domain, asked, {}, cells=pure, public=public)
        if not loads.entries:
            return cls((), (0.0,) * len(asked), (0.0,) * len(asked))
        alone = np.where(loads.alone > 0, loads.alone, 1.0)
        best: tuple[tuple[float, float], _Loads, list[int], Floats] | None = None
        for needs in dict.fromkeys(
            [tuple(asked), _by_cells(domain, asked, by_cells, alone, chance, public, cells=pure)]
        ):
            loads = _Loads.of(domain, needs, {}, cells=pure, public=public)
            if pure:
                loads = _merged(domain, needs, loads, alone, chance, public=public)
            active = _active(domain, [m for m, _ in loads.entries])
            shares, ratios = _balanced(loads.matrix / alone[:, None], loads.sizes, loads.power, active, chance)
            value = _value(ratios, chance, loads.power)
            if best is None or value < best[0]:
                best = value, loads, shares, ratios
        assert best is not None
        _, loads, shares, ratios = best
        parts = tuple(
            PlannedTable(measure, Group(s, _family(domain, s, cells=pure)), int(share))
            for (measure, s), share in zip(loads.entries, shares, strict=True)
        )
        first = list(dict.fromkeys(p.measure for p in parts))  # whose values are made of the records once
        ordered = tuple(sorted(parts, key=lambda p: first.index(p.measure)))
        return cls(ordered, tuple(ratios.tolist()), tuple(alone.tolist()))


def unit_error(cost: Cost) -> float:
    """By what `SumsPlan.alone` is multiplied under a cost: σ² or b² of what moves one number by 1."""
    unit, parameter = calibrated(1, cost)
    return float(float(parameter) ** (2 / unit.order))


@dataclass(frozen=True, eq=False)
class _Loads:
    """What each question asks of each table.

    entries  the tables
    matrix   the loads, (questions, entries)
    sizes    the variance of what one share of all the privacy buys of each, (entries,)
    power    of the shares, to which variances are in inverse proportion
    """

    entries: tuple[tuple[Measure, Axes], ...]
    matrix: Floats
    sizes: Floats
    power: int

    @classmethod
    def of(
        cls,
        domain: Domain,
        asked: Sequence[Needs],
        finer: Mapping[tuple[Measure, Axes], Axes],
        *,
        cells: bool,
        public: bool,
    ) -> _Loads:
        """The loads of tables of residuals; or with `cells` of whole tables, some of them margins of `finer` ones."""
        entries: dict[tuple[Measure, Axes], int] = {}
        loads: list[dict[int, float]] = []
        for needs in asked:
            load: dict[int, float] = {}
            weighed = spread(domain, needs, cells=cells)
            for measure, weight in needs.weights:
                weight = max(weight, _MIN_WEIGHT)  # what is hardly needed is measured all the same
                for s, v in weighed:
                    table = finer.get((measure, s), s)
                    if public and measure.is_plain and not table:
                        continue  # the number of records
                    at = entries.setdefault((measure, table), len(entries))
                    load[at] = load.get(at, 0.0) + weight * v * (domain.cells(table) / domain.cells(s))
            loads.append(load)
            if len(entries) > _MAX_ENTRIES:
                raise TooLarge(f"the questions need more than {_MAX_ENTRIES:,} tables; ask for fewer")
        matrix = np.zeros((len(asked), len(entries)))
        for row, load in zip(matrix, loads, strict=True):
            row[list(load)] = list(load.values())
        sizes = [2.0 if cells else prod(1 - 1 / domain.shape[a] for a in s) for _, s in entries]
        return cls(tuple(entries), matrix, np.array(sizes), 2 if cells else 1)

    @property
    def alone(self) -> Floats:
        """The least error of each question that has all the privacy."""
        found: Floats = ((self.matrix * self.sizes) ** (1 / (self.power + 1))).sum(axis=1) ** (self.power + 1)
        return found


def _merged(
    domain: Domain, asked: Sequence[Needs], loads: _Loads, alone: Floats, chance: Floats, *, public: bool
) -> _Loads:
    """The loads without those tables that are margins of finer ones and cost more than they give, found greedily."""
    finer: dict[tuple[Measure, Axes], Axes] = {}

    def total(of: _Loads) -> float:
        part = (((chance / np.where(alone > 0, alone, 1.0)) @ of.matrix) * of.sizes) ** (1 / 3)
        return float(part.sum() ** 3)

    best = total(loads)
    by_size = sorted(loads.entries, key=lambda entry: domain.cells(entry[1]))
    for measure, s in by_size if len(by_size) <= _MAX_MERGED else []:
        for other, table in by_size:
            if other != measure or not set(s) < set(table) or (measure, table) in finer:
                continue
            trial = {**finer, (measure, s): table}
            found = _Loads.of(domain, asked, trial, cells=True, public=public)
            if total(found) < best:
                finer, loads, best = trial, found, total(found)
    return loads


def _family(domain: Domain, axes: Axes, *, cells: bool) -> Queries:
    return Cells(domain.cells(axes)) if cells else Residuals(tuple(domain.shape[a] for a in axes))


def _value(ratios: Floats, weights: Floats, power: int) -> tuple[float, float]:
    """What a plan is judged by: the largest ratio, where it is above what a question's weight gives; and the mean."""
    excess = float((ratios * weights**power).max() / weights.sum() ** power)
    return max(excess, 1.0), float(weights @ ratios)


def _by_cells(
    domain: Domain,
    asked: Sequence[Needs],
    others: Sequence[Needs | None],
    alone: Floats,
    chance: Floats,
    public: bool,
    *,
    cells: bool,
) -> tuple[Needs, ...]:
    """What is needed if some questions are answered from other tables, found one after another.

    All measures are taken to be active at once, which `SumsPlan.choose` does not believe: it compares the two plans.
    """

    def total(needs: Sequence[Needs]) -> float:
        loads = _Loads.of(domain, needs, {}, cells=cells, public=public)
        return float((((chance / alone) @ loads.matrix * loads.sizes) ** (1 / (loads.power + 1))).sum())

    found = list(asked)
    least = total(found) if any(others) else 0.0
    for i, other in enumerate(others):
        if other is None or domain.cells(other.axes) > _MAX_CELLS:
            continue
        trial = [*found[:i], other, *found[i + 1 :]]
        if (value := total(trial)) < least:
            found, least = trial, value
    return tuple(found)


def spread(domain: Domain, needs: Needs, *, cells: bool) -> list[tuple[Axes, float]]:
    """The sets that are measured for a table, each with how much its variance weighs in that of an answer.

    Of a cell it is v(A, S); of cells that are added up, that of their sum.
    """
    longer = tuple(a for a in needs.axes if domain.shape[a] > 1)
    row = _kept_cells(domain, longer, needs.kept) if needs.kept else None
    if cells:
        return [(longer, 1.0 if row is None else float(row.sum()))]
    sets = [s for order in range(len(longer) + 1) for s in combinations(longer, order)]
    if row is not None:
        none = dict.fromkeys(sets, 0.0)
        return [(s, float(vector_variances(domain.shape, longer, row[None], {**none, s: 1.0})[0])) for s in sets]
    found = []
    for s in sets:
        v = prod((domain.shape[a] - 1) / domain.shape[a] for a in s)
        found.append((s, v / prod(domain.shape[a] ** 2 for a in longer if a not in s)))
    return found


def _kept_cells(domain: Domain, axes: Axes, kept: str) -> Floats:
    """A table on some columns, (n_1, …): 1 in the cells of the first group that meet a condition, 0 elsewhere."""
    predicate = predicates.parse(kept, domain)
    row = np.zeros([domain.shape[a] for a in axes])
    first = tuple(slice(None) if a in predicate.axes else 0 for a in axes)
    row[first] = predicate.mask().reshape([domain.shape[a] for a in axes if a in predicate.axes])
    return row


def _active(domain: Domain, measures: Sequence[Measure]) -> Floats:
    """Which entries can be active at one record together: (patterns, entries) of 0 and 1."""
    conditions = [_condition(domain, m) for m in measures]
    axes = tuple(sorted({a for _, found in conditions for a in found}))
    if domain.cells(axes) > _MAX_CELLS:
        return np.ones((1, len(measures)))
    shape = [domain.shape[a] for a in axes]
    known: dict[tuple[str, str], Floats] = {}
    columns = []
    for measure, (parsed, _) in zip(measures, conditions, strict=True):
        key = measure.where, measure.column
        if key not in known:
            mask = np.ones(shape, bool)
            if parsed is not None:
                mask = mask & parsed.mask().reshape([domain.shape[a] if a in parsed.axes else 1 for a in axes])
            if measure.column and domain[measure.column].missing:
                axis = axes.index(domain.axis(measure.column))
                mask = mask & (np.arange(shape[axis]) < shape[axis] - 1).reshape(
                    [-1 if i == axis else 1 for i in range(len(axes))]
                )
            known[key] = mask.reshape(-1).astype(np.float64)
        columns.append(list(known).index(key))
    patterns: Floats = np.unique(np.stack(list(known.values()), axis=1), axis=0)
    return np.ascontiguousarray(patterns[:, columns])


def _condition(domain: Domain, measure: Measure) -> tuple[predicates.Predicate | None, set[int]]:
    """The condition of a measure, and the columns that say whether it is active."""
    parsed = predicates.parse(measure.where, domain) if measure.where else None
    axes = set() if parsed is None else set(parsed.axes)
    if measure.column and domain[measure.column].missing:
        axes.add(domain.axis(measure.column))
    return parsed, axes


def _balanced(
    matrix: Floats, sizes: Floats, power: int, active: Floats, weights: Sequence[float] | Floats
) -> tuple[list[int], Floats]:
    """Shares in parts of 2^40, (entries,), and each question's ratio: the best that were met on the way.

    matrix  loads of each question over its least error alone, (questions, entries)
    active  see `_active`
    """
    chance = np.array(weights, np.float64)
    even = chance.sum() ** power
    best: tuple[float, Floats] | None = None
    for _ in range(_STEPS):
        part = ((chance @ matrix) * sizes) ** (1 / (power + 1))
        part = part / (active @ part).max()
        ratios = matrix @ (sizes / part**power)
        # A question of weight w may come to what w of all weights of the privacy would give it alone.
        excess = float((ratios * np.array(weights) ** power).max() / even)
        if best is None or excess < best[0]:
            best = excess, part
        if excess <= 1:
            break
        chance = chance * np.maximum(ratios * np.array(weights) ** power / even, 1.0) ** 0.5
    assert best is not None
    shares = np.maximum(np.floor(best[1] * (_WHOLE - 2 * _MIN_PARTS * len(sizes))), _MIN_PARTS).astype(np.int64)
    most = int((active.astype(np.int64) @ shares).max())
    if most > _WHOLE:  # by rounding: every share a little less
        shares = np.maximum(shares * (_WHOLE / most) - 1, 1).astype(np.int64)
    assert int((active.astype(np.int64) @ shares).max()) <= _WHOLE
    return shares.tolist(), matrix @ (sizes / (shares / _WHOLE) ** power)


def privacy_used(domain: Domain, parts: Sequence[PlannedTable]) -> Fraction:
    """The most of the privacy that one record can use of some parts, of 1: what (1) says."""
    if not parts:
        return Fraction(0)
    shares = np.array([p.share for p in parts], np.int64)
    return Fraction(int((_active(domain, [p.measure for p in parts]).astype(np.int64) @ shares).max()), _WHOLE)


def bought(part: PlannedTable, noise: Noise, cost: Cost, neighbours: Neighbours) -> PlannedTable:
    """The same part with the share of a cost that its noise has, rounded: of a table that somebody else measured.

    `InvalidInput` for a law that the cost does not buy.
    """
    law, parameter = calibrated(1, cost)
    if law.law != noise.law:
        raise InvalidInput(f"{cost} buys {law.law} noise, and not {noise.law}")
    order = noise.order
    twice = 2 if neighbours is Neighbours.REPLACE_ONE else 1
    share = parameter * part.sensitivity(order) * twice**order / Fraction(noise.scale) ** order
    return PlannedTable(part.measure, part.group, round(share * _WHOLE))


def shares_of(parts: Sequence[PlannedTable]) -> Mapping[str, float]:
    """By measure, the part of the privacy it has."""
    found: dict[str, float] = {}
    for part in parts:
        found[str(part.measure)] = found.get(str(part.measure), 0.0) + part.share / _WHOLE
    return found
