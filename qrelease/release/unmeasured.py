"""What synthetic records do not tell of the table, since they are not made from it: for who takes them in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qrelease.release.release import Release


def what_records_lack(release: Release) -> tuple[str, ...]:
    """What synthetic records do not tell of the table, a sentence each: what they are not made from.

    Columns are dependent in them as far as they were measured together. Sums were measured beside the counts that the
    records follow.
    """
    told = []
    measured = [m.group.axes for m in release.measurements]
    together = {axis for axes in measured or release.workload.sets if len(axes) > 1 for axis in axes}
    names = [name for axis, name in enumerate(release.domain.names) if axis not in together]
    if names and len(release.domain) > 1:
        which = ", ".join(names) if together else "all columns"
        are = "are independent of each other" if not together else "is" if len(names) == 1 else "are"
        are += " independent of all others" * bool(together)
        told.append(f"in synthetic records {which} {are}: measured with no other column")
    if release.measured_sums is not None:
        told.append(
            "synthetic records follow counts, in bins, and not the sums that were measured: their means and quantiles"
            " may be further off than the answers to the questions about numbers"
        )
    return tuple(told)
