"""Answers that follow linearly from measured queries of any kind, and how far off they are.

Let y = A x + noise be what was measured of the cells x of some columns, with independent noise of variances V. A query
q that is a combination wᵀA of the measured ones has the unbiased answer wᵀy. Of all such w the one with the least
variance is V⁻¹A (AᵀV⁻¹A)⁺ q (Aitken 1935), whose variance is qᵀ (AᵀV⁻¹A)⁺ q. A query that was itself measured has the
answer that was measured, and the bar of that: so it is the same as in the list of all that were measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.domain import Domain
from qrelease.inference.measurement import Measurement
from qrelease.inference.strategies import gram
from qrelease.noise.distributions import half_widths
from qrelease.queries.families import Cells, Queries
from qrelease.queries.products import query_rows
from qrelease.queries.workload import Group

MAX_CELLS: Final = 1 << 11
"""Cells of the columns that measurements are combined on: the inverse of a matrix over them takes some seconds."""

MAX_COMPARED: Final = 1 << 27
"""Asked queries times measured ones that are compared: some seconds."""

TOLERANCE: Final = 1e-8
"""By how much a combination of measured queries may differ from the asked one, in parts of its norm: by rounding."""


def measured_place(queries: Queries, asked: Floats) -> int | None:
    """Which query of a family is this one (cells,), in counts; None where none is.

    By equality in Cauchy & Schwarz: ⟨r, q⟩ = ‖r‖² = ‖q‖² for r = q alone.
    """
    norm = float(asked @ asked)
    alike = np.isclose(queries.apply(asked) * queries.unit, norm, rtol=1e-12, atol=0)
    places = np.flatnonzero(alike & np.isclose(queries.squares(), norm, rtol=1e-12, atol=0))
    return int(places[0]) if norm and len(places) else None


def measured_places(asked: Group, measured: Sequence[Group], domain: Domain) -> Ints:
    """Which measured query each query of a group is, (k, 2): its group and its place there; -1 where none is."""
    found = np.full((asked.queries.count, 2), -1)
    for i, group in enumerate(measured):
        if not set(asked.axes) <= set(group.axes) or asked.queries.count * group.queries.count > MAX_COMPARED:
            continue
        cells = _cells_of(asked.axes, group.axes, domain)
        first = 0
        for rows in query_rows(asked.queries):
            for k, row in enumerate(rows[:, cells] * asked.queries.unit, first):
                if found[k, 0] < 0:
                    place = measured_place(group.queries, row)
                    found[k] = (-1, -1) if place is None else (i, place)
            first += len(rows)
    return found


def linear_answers(asked: Group, measurements: Sequence[Measurement], domain: Domain) -> tuple[Floats, Floats]:
    """Unbiased answers (k,) to the queries of a group, and half-widths (k,) of their 95 % bars; NaN where none follows.

    Only from measurements on all columns that are asked about, with those on some of the columns of these.
    """
    values, widths = (np.full(asked.queries.count, np.nan) for _ in range(2))
    wider = [m for m in measurements if set(asked.axes) <= set(m.group.axes)]
    if all(isinstance(m.group.queries, Cells) for m in wider):  # sums of cells need no matrix
        return values, widths
    for k, (which, place) in enumerate(measured_places(asked, [m.group for m in wider], domain).tolist()):
        if which >= 0:
            m = wider[which]
            values[k], widths[k] = m.values[place], m.noise.half_width(m.repeats) / m.repeats
    for axes in sorted({m.group.axes for m in wider}, key=domain.cells):
        missing = np.isnan(values)
        if not missing.any() or domain.cells(axes) > MAX_CELLS:
            break
        among = [m for m in measurements if set(m.group.axes) <= set(axes)]
        found = _combined(asked, among, axes, domain)
        for own, theirs in zip((values, widths), found, strict=True):
            own[missing] = theirs[missing]
    return values, widths


def _cells_of(axes: Axes, wider: Axes, domain: Domain) -> Ints:
    """Of each cell of the marginal on wider columns, the cell of the narrower marginal that it lies in."""
    shape = [domain.shape[a] for a in wider]
    codes = np.unravel_index(np.arange(domain.cells(wider)), shape) if wider else ()
    if not axes:
        return np.zeros(domain.cells(wider), np.int64)
    return np.ravel_multi_index([codes[wider.index(a)] for a in axes], [domain.shape[a] for a in axes])


def _combined(asked: Group, measurements: Sequence[Measurement], axes: Axes, domain: Domain) -> tuple[Floats, Floats]:
    """The best linear combinations of measurements on the cells of these columns, and their half-widths."""
    cells = domain.cells(axes)
    precision, weighted = np.zeros((cells, cells)), np.zeros(cells)
    for m in measurements:
        inside = _cells_of(m.group.axes, axes, domain)
        precision += gram(m.group.queries)[np.ix_(inside, inside)] / m.variance
        weighted += (m.group.queries.adjoint(m.values) * m.group.queries.unit)[inside] / m.variance
    scale = np.abs(precision).max()
    inverse = np.linalg.pinv(precision / scale, rcond=TOLERANCE, hermitian=True) / scale
    estimates = inverse @ weighted
    order = min(m.noise.order for m in measurements)  # 1, where some noise is of a Laplace law
    grid = max(m.noise.unit for m in measurements) / 2  # as `Noise.half_width` has it
    values, widths = [], []
    where = _cells_of(asked.axes, axes, domain)
    for block in query_rows(asked.queries):
        rows = block[:, where] * asked.queries.unit
        solved = rows @ inverse
        off = np.linalg.norm(solved @ precision - rows, axis=1)
        follows = off <= TOLERANCE * np.maximum(np.linalg.norm(rows, axis=1), 1)
        values.append(np.where(follows, rows @ estimates, np.nan))
        spread = np.maximum((solved * rows).sum(axis=1), 0)
        widths.append(np.where(follows, half_widths(spread, order) + grid, np.nan))
    return np.concatenate(values), np.concatenate(widths)
