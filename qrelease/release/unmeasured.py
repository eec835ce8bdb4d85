"""What synthetic records do not tell of the table, since they are not made from it: for who takes them in hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from qrelease._util.texts import rounded
from qrelease._util.typing import Axes
from qrelease.queries.families import Cells
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.products import Product

if TYPE_CHECKING:
    from qrelease.inference.measurement import Measurement
    from qrelease.release.release import Release


def what_records_lack(release: Release) -> tuple[str, ...]:
    """What synthetic records do not tell of the table, a sentence each: what they are not made from.

    Columns are dependent in them as far as they were measured together, or each with others that were. Sums move
    numbers inside their bins only; counts that were measured beside the sums are followed where the mechanism fits to
    these too.
    """
    told, names = [], release.domain.names
    measured = _measured(release)
    unmeasured = sorted(set(range(len(names))) - {axis for axes in measured for axis in axes})
    if unmeasured:
        told.append(
            f"nothing was measured of {_listed(names, unmeasured)}: synthetic values there follow the schema alone"
        )
    apart = _apart(measured)
    if len(apart) > 1:
        groups = _in_words(names, apart)
        told.append(f"not counted together, and so independent of each other in synthetic records: {groups}")
    sums = release.measured_sums
    if sums is not None and any(part.measure.is_plain for part in sums.parts):
        told.append(
            "synthetic records follow the counts of the workload, and not those that were measured for the questions"
            " about numbers: how many they are in all and in groups, and their quantiles, may be further off than the"
            " answers"
        )
    return (*told, *release.about_bins, *_about_limits(release))


def unlinked_columns(release: Release, axes: Axes) -> str:
    """What the model does not know of how some columns depend on each other, in words; empty where they were linked.

    Columns that were each measured together with a third one are: the model has what these say of each other.
    """
    measured, contrasts, names = _measured(release), _contrasts(release), release.domain.names
    apart = _among(axes, measured)
    if len(apart) > 1:
        return f"{_in_words(names, apart)}: not counted together, and so independent of each other in the model"
    apart = _among(axes, [counted for counted in measured if counted not in contrasts])
    if len(apart) > 1:
        return f"{_in_words(names, apart)}: of how they depend on each other a single number was measured"
    return ""


def _among(axes: Axes, measured: Iterable[Axes]) -> list[list[int]]:
    """Some columns in groups, between which no set of measured columns reaches."""
    groups = _apart([*measured, *((axis,) for axis in axes)])
    return [some for some in ([axis for axis in group if axis in axes] for group in groups) if some]


def _contrasts(release: Release) -> dict[Axes, Measurement]:
    """The single contrasts by which it was decided whether to measure a marginal, and that are not all of one."""
    if hasattr(release.synopsis, "model_bars"):  # of what was measured each is a part of its model
        return {}
    products = [m for m in release.measurements if m.group.axes and isinstance(m.group.queries, Product)]
    return {m.group.axes: m for m in products if m.group.queries.count == 1}


def _measured(release: Release) -> Sequence[Axes]:
    """The columns of each measurement; where none is stored, those of each query of the workload."""
    return [m.group.axes for m in release.measurements if m.group.axes] or release.workload.sets


def _about_limits(release: Release) -> list[str]:
    """That numbers are of values within the limits of the schema, where it brings others into them."""
    sums = release.measured_sums
    asked = [] if sums is None else [NumericQuestion.parse(release.domain, text) for text in sums.questions]
    columns = dict.fromkeys(question.column for question in asked if question.kind in ("sum", "mean", "variance"))
    clipped = [a for a in map(release.domain.__getitem__, filter(None, columns)) if a.outside == "clip"]
    ends = [(a.name, float(a.grid.value(0)), float(a.grid.value(a.grid.size - 1))) for a in clipped if a.grid]
    return [
        f"values of {name} outside of {low:,.12g} to {high:,.12g} count as the nearest of these, by the schema: its"
        " means and sums, and their intervals, are of such values"
        for name, low, high in ends
    ]


def unmeasured_sets(release: Release) -> str:
    """That nothing tells some marginals from below, where some were not measured; else nothing.

    Their bars cover all that the measured ones leave open, down to 0. A model that knows its own error has others. A
    single contrast of some columns, by which it was decided what to measure of them, is no measurement of a marginal.
    """
    if hasattr(release.synopsis, "model_bars"):
        return ""
    counted = [m for m in release.measurements if m.group.axes]
    contrasts = _contrasts(release)
    measured = [set(m.group.axes) for m in counted if contrasts.get(m.group.axes) is not m]
    asked = {group.axes for group in release.workload.groups if isinstance(group.queries, Cells)}
    lacking = [axes for axes in asked if not any(measure.issuperset(axes) for measure in measured)]
    if not counted or not lacking:
        return ""
    screened = [contrasts[axes] for axes in lacking if axes in contrasts]
    half = max((m.noise.half_width(m.repeats) / m.repeats for m in screened), default=0.0)
    of_these = (
        f"; of {len(screened):,} of them a single number was measured, to ± {rounded(half)} records: how their columns"
        " depend on each other may be lacking in synthetic records"
    ) * bool(screened)
    return (
        f"{len(lacking):,} of the {len(asked):,} marginals were not measured, nor any on more columns: the bars of"
        " their answers (model_95) cover all that the measured ones leave open, mostly down to 0, and they have no"
        f" noisy answer{of_these}"
    )


def _in_words(names: tuple[str, ...], groups: Iterable[Iterable[int]]) -> str:
    return "; ".join(_listed(names, group) for group in groups)


def _listed(names: tuple[str, ...], axes: Iterable[int]) -> str:
    return ", ".join(names[axis] for axis in axes)


def _apart(measured: Iterable[Axes]) -> list[list[int]]:
    """The columns in groups, between which no set of columns reaches."""
    groups: list[set[int]] = []
    for axes in measured:
        joined = set(axes).union(*(group for group in groups if group & set(axes)))
        groups = [group for group in groups if not group & joined] + ([joined] if joined else [])
    return sorted(sorted(group) for group in groups)
