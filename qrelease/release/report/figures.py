"""The pictures of a report: single columns as bars, pairs of columns as heat maps, from one pass over the release."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Axes, Floats
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.workload import Workload
from qrelease.release.report.svg import Series, bars, count, heat, histogram, text

if TYPE_CHECKING:
    from qrelease.release.release import Release

_COLUMNS = 60  # single columns that are drawn
_BARS = 16  # cells of a column that get a bar each
_POINTS = 400  # cells of a histogram; beyond them neighbours are summed
_PAIRS = 6  # heat maps
_PAIR_CELLS = 1 << 20  # of all pairs that heat maps are chosen from
_WIDE = 12  # cells across a heat map
_WIDEST = 0.6  # of the axis, that a bin may take where bins are drawn to scale
_VISIBLE = 0.02  # the total variation distance from independence that can be seen in a picture
_BEYOND = 2  # times the noise's share, a pair's dependence is no noise: in 2 by 2 cells, with probability 0.995


def figures(release: Release) -> str:
    """Two sections of HTML; without what the release cannot answer."""
    singles = [(a,) for a in range(len(release.domain))][:_COLUMNS]
    tables = _tables(release, [*singles, *_pairs(release)])
    return _columns(release, tables) + _relations(release, tables)


def _tables(release: Release, sets: Sequence[Axes]) -> dict[Axes, Floats]:
    """The release's marginals on sets of columns, without those that it cannot give."""
    with suppress(InvalidInput):
        return _ask(release, sets)
    found: dict[Axes, Floats] = {}
    for axes in sets:
        with suppress(InvalidInput):
            found |= _ask(release, [axes])
    return found


def _ask(release: Release, sets: Sequence[Axes]) -> dict[Axes, Floats]:
    """All at once, in one pass over a model."""
    workload = _marginals(release.domain, sets)
    return dict(zip(sets, np.split(release.synopsis.answer(workload), workload.bounds[1:-1]), strict=True))


def _marginals(domain: Domain, sets: Sequence[Axes]) -> Workload:
    return Workload.marginals(domain, [[domain.names[a] for a in axes] for axes in sets])


def _pairs(release: Release) -> list[Axes]:
    """Pairs of columns that were measured together, as many as `_PAIR_CELLS` allows."""
    measured = [m.group.axes for m in release.measurements if isinstance(m.group.queries, Cells | Residuals)]
    pairs = dict.fromkeys(pair for axes in measured for pair in combinations(axes, 2))
    sizes = np.cumsum([release.domain.cells(pair) for pair in pairs])
    return [pair for pair, size in zip(pairs, sizes, strict=True) if size <= _PAIR_CELLS]


def _columns(release: Release, tables: dict[Axes, Floats]) -> str:
    """Every column by itself."""
    singles = [axes for axes in tables if len(axes) == 1]
    if not singles:
        return ""
    workload = _marginals(release.domain, singles)
    parts = zip(*(np.split(v, workload.bounds[1:-1]) for v in release.error_bars(workload)), strict=True)
    asked = {axis for group in release.workload.groups for axis in group.axes}
    cards = [
        _column(
            release.domain.attributes[axes[0]],
            tables[axes],
            noisy,
            widths,
            alone=axes[0] not in asked and bool(np.isnan(noisy).all()),
        )
        for axes, (noisy, widths) in zip(singles, parts, strict=True)
    ]
    more = len(release.domain) - len(singles)
    rest = f"<p class=note>{more:,} further columns are not drawn.</p>" if more else ""
    return (
        "<h2>The columns</h2><p>Bars: how many records the release says there are. Dots, or the band over a histogram:"
        " the noisy answers that were measured, and their error bars.</p>"
        f'<div class="cards">{"".join(cards)}</div>{rest}'
    )


def _column(attribute: Attribute, values: Floats, noisy: Floats, widths: Floats, *, alone: bool) -> str:
    """One column as bars, or as a histogram where it has an order and many cells.

    alone  whether no count of it was asked or measured, so that it follows the schema alone
    """
    whole = Series(tuple(label or "(missing)" for label in attribute.labels), values, noisy, widths)
    cells = f"{attribute.size:,} cell{'s' if attribute.size > 1 else ''}"
    cells += ", NOT of the records: no count of it was asked, so this follows the schema alone" if alone else ""
    unequal = _unequal(attribute)
    if attribute.ordered and (attribute.size > _BARS or unequal):
        missing = f", missing: {count(values[-1])}" if attribute.missing else ""
        note = f"{cells}{', drawn by density' if unequal else ''}{missing}"
        series = replace(whole, edges=np.array(attribute.edges)) if unequal else whole
        return _figure(attribute.name, note, histogram(attribute.name, _merged(series, attribute.values)))
    order = np.arange(attribute.size) if attribute.ordered else np.argsort(-values, kind="stable")
    return _figure(attribute.name, cells, bars(attribute.name, _first(whole, order)))


def _unequal(attribute: Attribute) -> bool:
    """Whether bins have different widths, and none is so wide that it leaves too little room for the others."""
    sizes = np.diff(attribute.edges)
    return bool(len(sizes) > 2 and sizes.max() > 1.01 * sizes.min() and sizes.max() < _WIDEST * sizes.sum())


def _first(series: Series, order: npt.NDArray[np.intp]) -> Series:
    """The cells in an order; where they are too many, the last as one."""
    if len(order) <= _BARS:
        return _picked(series, order)
    shown, rest = order[: _BARS - 1], order[_BARS - 1 :]
    head = _picked(series, shown)
    nothing = np.array([np.nan])
    return Series(
        (*head.labels, f"{len(rest):,} others"),
        np.append(head.values, series.values[rest].sum()),
        np.append(head.measured, nothing),
        np.append(head.widths, nothing),
    )


def _picked(series: Series, cells: npt.NDArray[np.intp]) -> Series:
    labels = tuple(series.labels[i] for i in cells)
    return Series(labels, series.values[cells], series.measured[cells], series.widths[cells])


def _merged(series: Series, cells: int) -> Series:
    """The first cells; where they are too many, runs of neighbours as one, and those without error bars."""
    if cells <= _POINTS:
        return replace(_picked(series, np.arange(cells)), edges=series.edges)
    starts = np.arange(0, cells, -(-cells // _POINTS))
    nothing = np.full(len(starts), np.nan)
    return Series(
        tuple(series.labels[i] for i in starts),
        np.add.reduceat(series.values[:cells], starts),
        nothing,
        nothing,
        None if series.edges is None else series.edges[[*starts.tolist(), cells]],
    )


def _relations(release: Release, tables: dict[Axes, Floats]) -> str:
    """The pairs that depend on each other most, and by more than noise does."""
    domain = release.domain
    pairs = [axes for axes in tables if len(axes) == 2]
    if not pairs:
        return ""
    workload = _marginals(domain, pairs)
    bars = np.split(release.error_bars(workload)[1], workload.bounds[1:-1])
    shaped, widths = (
        {axes: t.reshape([domain.shape[i] for i in axes]) for axes, t in zip(pairs, parts, strict=True)}
        for parts in ([tables[axes] for axes in pairs], bars)
    )
    strength = {axes: _dependence(shaped[axes]) for axes in pairs}
    beyond = [
        axes
        for axes in pairs
        if strength[axes] > _BEYOND * _noise(shaped[axes], widths[axes]) and _distance(shaped[axes]) >= _VISIBLE
    ]
    ranked = sorted(beyond, key=lambda axes: -strength[axes])
    pictures = (_relation(domain, axes, shaped[axes], widths[axes]) for axes in ranked)
    cards = list(islice(filter(None, pictures), _PAIRS))
    found = (
        "Of all pairs of columns that were measured together, those that depend on each other most, and more than their"
        " noise would make them. Each row shows how its records are spread over the columns of the picture; a row with"
        " fewer records than its noise is left out."
        if cards
        else "No pair of columns that were measured together depends on each other more than its noise would make it."
    )
    return f'<h2>What goes together</h2><p>{found}</p><div class="cards">{"".join(cards)}</div>'


def _dependence(table: Floats) -> float:
    """The squared distance between a table (r, c) of counts, as fractions, and the product of its margins.

    Squared, since sums of absolute values would rank pairs with many cells of pure noise first.
    """
    joint = table / max(table.sum(), 1e-9)
    return float(((joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))) ** 2).sum())


def _distance(table: Floats) -> float:
    """The total variation distance between a table (r, c) of counts, as fractions, and the product of its margins."""
    counts = np.maximum(table, 0)
    joint = counts / max(counts.sum(), 1e-9)
    return float(np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum()) / 2


def _noise(table: Floats, widths: Floats) -> float:
    """What noise with these error bars (r, c) adds to `_dependence`, at most: that of a normal law."""
    return float(np.nansum((widths / 1.96) ** 2)) / max(float(table.sum()), 1e-9) ** 2


def _relation(domain: Domain, axes: Axes, table: Floats, widths: Floats) -> str:
    """One pair, the column with more cells downwards; nothing, where fewer than two rows have more than noise."""
    if table.shape[0] < table.shape[1]:
        axes, table, widths = axes[::-1], table.T, widths.T
    down, across = (domain.attributes[a] for a in axes)
    totals = table.sum(axis=1)
    told = totals > np.sqrt(np.nansum(widths**2, axis=1))
    rows, columns = _largest(totals, _BARS), _largest(table.sum(axis=0), _WIDE)
    rows = rows[told[rows]]
    if len(rows) < 2:
        return ""
    shares = (table / np.where(told, totals, np.nan)[:, None])[np.ix_(rows, columns)]
    hidden = table.size > shares.size
    title = f"{across.name} by {down.name}"
    picture = heat(title, [down.labels[i] for i in rows], [across.labels[i] for i in columns], shares)
    return _figure(title, "the cells with most records" if hidden else "", picture)


def _largest(counts: Floats, most: int) -> npt.NDArray[np.intp]:
    """The cells with most records, in their own order."""
    return np.sort(np.argsort(-counts, kind="stable")[:most])


def _figure(title: str, note: str, picture: str) -> str:
    aside = f' <span class="note">{text(note)}</span>' if note else ""
    return f"<figure><h3>{text(title)}{aside}</h3>{picture}</figure>"
