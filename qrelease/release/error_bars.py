"""Error bars of a release's answers: from their own measurements, or where there are none, from measured margins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.domain import Domain
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.noise.distributions import CONFIDENCE
from qrelease.queries.families import Cells, Vectors
from qrelease.queries.workload import Group, Workload

Bars = Callable[[Workload], tuple[Floats, Floats]]
"""Unbiased answers (k,) to a workload and half-widths (k,) of their error bars, counts; NaN where there are none."""

_MAX_ENTRIES = 1 << 22  # of explicit queries whose margins are looked at


def published(
    workload: Workload, answers: Floats, model: Floats, noisy: Floats, widths: Floats, bars: Bars, total: float
) -> Floats:
    """Half-widths (k,) of 95 % error bars around the answers (k,) that are published: one for each.

    Where the model knows its own error, that. Else, where there is an unbiased noisy answer, as far as its error bar
    reaches (`_to_measured`). Else the truth lies between 0 and what the margins allow, the measured ones with fewer
    columns; a query that nothing bounds has NaN. No bar of a count reaches further than to 0 and to all records.

    model          (k,) of the model, NaN where it cannot tell
    noisy, widths  (k,) as `bars` gives them for this workload
    bars           for other workloads, and so for margins
    total          the records of the model
    """
    found = np.where(np.isnan(model), _to_measured(workload, answers, noisy, widths), model)
    unknown = np.isnan(found)
    if unknown.any():
        most = _limits(workload, unknown, bars)
        found[unknown] = np.where(np.isinf(most), np.nan, np.maximum(answers, most - answers))[unknown]
    counts = np.repeat([g.queries.bounded for g in workload.groups], np.diff(workload.bounds))
    if (counts & (found > np.maximum(answers, total - answers))).any():
        most = _upper(*bars(Workload(workload.domain, (RECORDS,))), 1)[0]
        found = np.where(counts, np.minimum(found, np.maximum(answers, most - answers)), found)
    return found


def _to_measured(workload: Workload, answers: Floats, noisy: Floats, widths: Floats) -> Floats:
    """How far the truth may be from each answer (k,), by the error bar of a noisy one.

    No count is below 0, so a noisy one that is, is moved there: that brings it nearer to the truth, wherever this is.
    So its bar holds as it stands, and is cut off at 0. Of queries that may be negative it is not.
    """
    may_be = [not g.queries.bounded for g in workload.groups]
    least = np.where(np.repeat(may_be, np.diff(workload.bounds)), -np.inf, 0.0)
    above = np.maximum(noisy, least) - answers
    cut = np.maximum(widths + above, np.minimum(widths - above, answers - least))
    found: Floats = np.minimum(cut, np.abs(answers - noisy) + widths)  # for answers below 0
    return found


def _limits(workload: Workload, unknown: np.ndarray, bars: Bars) -> Floats:
    """What each query is at most (k,), by the measured margins of its columns; ∞, where not even n is known."""
    bounds = workload.bounds
    wanted = [bool(unknown[a:b].any()) for a, b in pairwise(bounds)]
    margins = _margins(workload, [g for g, some in zip(workload.groups, wanted, strict=True) if some], bars)
    records = margins[()]
    parts = []
    for group, some in zip(workload.groups, wanted, strict=True):
        most = np.full(group.queries.count, np.nan)
        if some:
            most = np.full(group.queries.count, _upper(*records, 1)[0])
            if isinstance(group.queries, Cells):
                most = _of_cells(group, workload.domain, margins)
            elif isinstance(group.queries, Vectors) and group.queries.rows.size <= _MAX_ENTRIES:
                most = np.minimum(most, _of_vectors(group, workload.domain, bars))
        parts.append(most)
    return np.concatenate(parts)


def _smaller(axes: Axes) -> Iterator[Axes]:
    """Sets of some of these columns, but not of all."""
    return (part for size in range(1, len(axes)) for part in combinations(axes, size))


def _margins(workload: Workload, groups: Sequence[Group], bars: Bars) -> dict[Axes, tuple[Floats, Floats]]:
    """The unbiased counts and error bars of all margins of some groups of cells, and of the number of records."""
    domain = workload.domain
    sets = dict.fromkeys(part for g in groups if isinstance(g.queries, Cells) for part in _smaller(g.axes))
    asked = Workload(domain, (RECORDS, *(Group(s, Cells(domain.cells(s))) for s in sets)))
    parts = [np.split(part, asked.bounds[1:-1]) for part in bars(asked)]
    return dict(zip([(), *sets], zip(*parts, strict=True), strict=True))


def _upper(noisy: Floats, widths: Floats, among: int) -> Floats:
    """Upper ends of error bars such that all of so many hold together with 95 %; ∞ where there is none.

    A tail of noise falls at least as fast as that of a Laplace law, so a bound that fails with probability p/m is at
    most log(m/p) / log(1/p) times as far out as one that fails with probability p.
    """
    chance = 1 - CONFIDENCE
    upper = noisy + widths * (math.log(among / chance) / math.log(1 / chance))
    return np.where(np.isnan(upper), np.inf, np.maximum(upper, 0))


def _of_cells(group: Group, domain: Domain, margins: dict[Axes, tuple[Floats, Floats]]) -> Floats:
    """Each cell of a marginal is at most the cell of any of its margins that it lies in."""
    parts = [(), *_smaller(group.axes)]
    known = [part for part in parts if not np.isnan(margins[part][1]).all()]
    shape = [domain.shape[a] for a in group.axes]
    most = np.full(shape, np.inf)
    for part in known:
        sizes = [n if a in part else 1 for a, n in zip(group.axes, shape, strict=True)]
        np.minimum(most, _upper(*margins[part], len(known)).reshape(sizes), out=most)
    return most.reshape(-1)


def _of_vectors(group: Group, domain: Domain, bars: Bars) -> Floats:
    """A query with entries W is at most the query on fewer columns whose entries are the largest of W there."""
    rows: Ints = group.queries.rows  # type: ignore[attr-defined]
    unit, shape = group.queries.unit, [domain.shape[a] for a in group.axes]
    found = []
    for part in _smaller(group.axes):
        away = tuple(1 + i for i, a in enumerate(group.axes) if a not in part)
        largest = rows.reshape(-1, *shape).max(axis=away).reshape(len(rows), -1)
        found.append(bars(Workload(domain, (Group(part, Vectors(np.ascontiguousarray(largest), unit)),))))
    known = [one for one in found if not np.isnan(one[1]).all()]
    most = np.full(len(rows), np.inf)
    for one in known:
        np.minimum(most, _upper(*one, len(known)), out=most)
    return most


def measured_answers(workload: Workload, measurements: Sequence[Measurement]) -> tuple[Floats, Floats]:
    """Unbiased answers (k,) and half-widths (k,) of their error bars, each query from one measurement; NaN for none."""
    # A marginal on more columns or on just these may contain a group: looked up, because the baselines measure
    # thousands on three columns each.
    sizes = {len(g.axes) for g in workload.groups}
    wider = {k: [m for m in measurements if len(m.group.axes) > k] for k in sizes}
    alike: dict[Axes, list[Measurement]] = {}
    for m in measurements:
        alike.setdefault(m.group.axes, []).append(m)
    counted = alike.get(RECORDS.axes) or _totals(measurements)
    parts = [
        _group_measured(g, [*alike.get(g.axes, []), *wider[len(g.axes)], *counted], workload.domain)
        for g in workload.groups
    ]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _totals(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The number of records, from queries that weigh each record fully, as the root of a tree of ranges does."""
    found: list[Measurement] = []
    for m in measurements:
        queries = m.group.queries
        if not isinstance(queries, Cells):
            ones = queries.apply(np.ones(queries.cells)) * queries.unit
            whole = np.flatnonzero((ones == queries.cells) & (queries.squares() == queries.cells))
            found.extend(Measurement(RECORDS, m.values[[i]], m.noise, m.repeats) for i in whole)
    return found


def _group_measured(group: Group, measurements: Sequence[Measurement], domain: Domain) -> tuple[Floats, Floats]:
    """The best unbiased answers to the queries of a group, and their half-widths."""
    best, widths, least = (np.full(group.queries.count, v) for v in (np.nan, np.nan, np.inf))
    for m in measurements:
        if m.group == group:
            values, terms = m.values, np.ones(len(m.values))
        elif m.group == RECORDS:
            values, terms = _constant(group, m)
        elif isinstance(m.group.queries, Cells) and set(group.axes) <= set(m.group.axes):
            values, terms = _derived(group, m, domain)
        else:
            continue
        better = m.variance * terms < least
        distinct, which = np.unique(terms[better], return_inverse=True)
        halves = np.array([m.noise.half_width(t * m.repeats) / m.repeats for t in distinct.tolist()])
        best[better], widths[better], least[better] = values[better], halves[which], m.variance * terms[better]
    return best, widths


def _constant(group: Group, m: Measurement) -> tuple[Floats, Floats]:
    """The answers to those queries that weigh all records alike, from the number of records; ∞ terms for the others."""
    cells = group.queries.cells
    weight = group.queries.apply(np.ones(cells)) * group.queries.unit / cells
    alike = np.isclose(group.queries.squares(), cells * weight**2, rtol=1e-12, atol=0)  # equality in Cauchy & Schwarz
    return weight * m.values[0], np.where(alike, weight**2, np.inf)


def _derived(group: Group, m: Measurement, domain: Domain) -> tuple[Floats, Floats]:
    """A group's answers from a measured marginal on more columns, and how many noisy cells each sums over."""
    shape = [domain.shape[a] for a in m.group.axes]
    away = tuple(i for i, a in enumerate(m.group.axes) if a not in group.axes)
    marginal = m.values.reshape(shape).sum(axis=away).reshape(-1)
    terms = group.queries.squares() * math.prod(shape[i] for i in away)
    return group.queries.apply(marginal) * group.queries.unit, terms
