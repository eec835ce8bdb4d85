"""The part of the page about numbers: sums, means, variances and shares by group."""

from __future__ import annotations

from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from qrelease.release.number_rows import number_rows
from qrelease.release.report.svg import text
from qrelease.release.report.tables import folded, html_table

if TYPE_CHECKING:
    from qrelease.release.release import Release

_SHOWN: Final = 100
"""Questions whose answers are on the page."""

_GROUPS: Final = 1000
"""Groups of a question that are on the page."""

_ALL: Final = (
    "all are in the file <em>numbers</em> beside this page; <code>release.table(question)</code> gives them too"
)


def number_tables(release: Release) -> str:
    """A table for each question; nothing where none was asked."""
    if release.measured_sums is None:
        return ""
    parts, asked = [], len(release.measured_sums.questions)
    for question, lines in islice(groupby(number_rows(release), itemgetter(0)), _SHOWN):
        rows = list(lines)
        shown = [[text(cell) for cell in (row[1], row[2], f"{row[3]} to {row[4]}", row[5], row[8])] for row in rows]
        header = {"group": False, "value": True, "95 %": True, "unbiased": True, "records": True}
        note = f"<p class=note>{text(rows[0][-1])}</p>" if rows[0][-1] else ""
        parts.append(
            f"{folded(text(question), len(rows))}{html_table(header, shown, most=_GROUPS, rest=_ALL)}{note}</details>"
        )
    if asked > _SHOWN:
        parts.append(f"<p class=note>these are the first {_SHOWN} of {asked:,} questions: {_ALL}</p>")
    return (
        "<h2>Numbers</h2><p>Tables of sums and counts were measured together, by group. A value and its interval are"
        " what to publish: means and shares of small groups are drawn towards what groups have in common, and the"
        f" unbiased answer stands beside them. All of them are in the file <em>numbers</em> beside this"
        f" page.</p>{''.join(parts)}"
    )
