"""One sentence for who sees error bars that are larger than the table: why, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qrelease._util.texts import rounded
from qrelease.queries.workload import Workload
from qrelease.release.promise import unit_names

if TYPE_CHECKING:
    from qrelease.release.release import Release

_GROUPS = 200  # groups of queries that are looked at


def few_records(release: Release) -> str:
    """Why half of the error bars are wider than all records together, and what to do; empty where they are not.

    By what was measured of each answer, where it was; else by what may be published of it.
    """
    groups = release.workload.groups
    some = Workload(release.domain, groups[:: -(-len(groups) // _GROUPS)])
    counts = release.published(some)
    bars = np.where(np.isnan(counts.widths), counts.bars, counts.widths)
    known, total = bars[~np.isnan(bars)], release.synopsis.total
    if not len(known) or np.median(known) <= total:
        return ""
    one, _ = unit_names(release)
    half = np.median(counts.bars[~np.isnan(counts.bars)]) if release.synopsis.has_table else np.inf
    leaning = (  # where hardly anything was spent on them, since a model of fewer columns was foreseen to be nearer
        " What is published of them is from the model, which was told more of fewer columns: half of its bars are"
        f" within ± {rounded(half)}."
    ) * bool(half <= total / 2)
    return (
        f"Half of the answers were measured no better than to ± {rounded(np.median(known))} records, which is"
        f" more than all records together, of which there seem to be about {total:,.0f}: noise that hides any one"
        f" {one} is as large"
        f" for few records as for many, and {len(release.workload):,} answers share {release.cost:.6g}. A larger"
        " epsilon, fewer questions or coarser columns make it smaller; with more records it would count for less."
        f"{leaning}"
    )
