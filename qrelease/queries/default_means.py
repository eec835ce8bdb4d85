"""Means that are measured beside a workload of counts, so that synthetic numbers lie rightly inside wide bins.

Counts of bins say nothing of where in a bin its records are. Where some bins are much wider than others, such as the
last of a long tail, that decides the mean and most of the distance to the true distribution. One noisy sum of each such
column says it (`inference.tilted_bins`), and costs little: it is of all records together, and so needs far less of the
privacy than their counts by several columns do.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from qrelease.data.attribute import Attribute
from qrelease.data.conditions import name_text
from qrelease.queries.workload import Workload

MEANS_SHARE: Final = 0.02
"""The part of the cost that the means have, of all columns together: the counts' noise grows by a hundredth of ρ's."""

_WIDE: Final = 2.0
"""A column has wide bins where the widest is so many times as wide as if all were of one width."""


def default_means(workload: Workload) -> tuple[str, ...]:
    """The means of columns with wide bins, of those that a workload asks about: none where there are none.

    Parameters
    ----------
    workload : Workload
        Its domain and its sets of columns decide, and no record. The table has to have values beside its bins.

    Returns
    -------
    tuple of str
        Questions as `NumericQuestion.parse` takes them, for `NumberSums(..., share=MEANS_SHARE)`.

    Examples
    --------
    >>> import qrelease as qr
    >>> wage = qr.Attribute("wage", "number", edges=(0, 20, 50, 2000), integer=True, within=(0, 1999), step=1)
    >>> default_means(qr.Workload.marginals(qr.Domain([wage]), 1))
    ('mean:wage',)
    """
    domain = workload.domain
    if domain.counts_once:  # whose sums are not of records
        return ()
    asked = (domain.attributes[axis] for axis in sorted({axis for axes in workload.sets for axis in axes}))
    return tuple(f"mean:{name_text(attribute.name)}" for attribute in asked if _has_wide_bins(attribute))


def _has_wide_bins(attribute: Attribute) -> bool:
    """Whether a column is of numbers whose bins differ much in width, and nothing is known of the inside of these."""
    if attribute.kind != "number" or attribute.grid is None or attribute.undecided or attribute.shape:
        return False
    widths = np.diff(attribute.cuts)
    return bool(widths.max() * len(widths) >= _WIDE * widths.sum())
