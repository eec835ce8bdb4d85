"""Iterative proportional fitting to noisy marginals, for tables with far more records than noise.

Each marginal in turn is scaled, cell by cell, to what was measured of it (Deming & Stephan 1940, *On a least squares
adjustment of a sampled frequency table*). That converges to the log-linear model of the most likely histogram whatever
depends on what, also where columns determine each other and most cells are empty: there the curvature of the
likelihood is all but singular, and steps by it are no use (`maxent`). Scaling knows no ridge, so it is for marginals
whose cells have many more records than noise; where a cell has hardly any, the noise is not followed:

    m ← m (v + y) / (v + m)

takes a cell of the model's count m to the measured count y, of noise of variance v, at once where m is much more than
v, and by small steps where it is not. What is measured of a marginal goes to the nearest possible counts first, none
below 0: else what noise adds to empty cells is missing elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Final, final

import numpy as np

from qrelease._util.progress import progress
from qrelease._util.simplex import nearest_distribution
from qrelease._util.typing import Axes, Floats
from qrelease.inference.histogram import Histogram
from qrelease.inference.residuals import Estimates, cell_variance

SWEEPS: Final = 200
"""Times that all marginals are scaled, at most."""

_CLOSE: Final = 0.1
"""The mean squared distance of a marginal from what was measured, over its noise, at which it ends for all: the errors
of answers then are larger by a twentieth."""

_PLENTY: Final = 30.0
"""The mean number of records in a marginal's cells, over the noise's deviation, from which on records are plenty."""

NEAR: Final = 0.2
"""The same, up to which a histogram is as near to what was measured as its error bars say."""

CONTRADICTED: Final = 20.0
"""The same, from which on it is not noise that keeps a histogram with rules away, but records that break them."""

_LEAST_VARIANCE: Final = 0.25
"""Of noise: half a record. Of less there is nothing to follow."""

_FACTORS: Final = (0.05, 1e3)
"""By what one step may scale a cell, at the least and at the most."""

_STALLED: Final = (10, 0.97)
"""It ends where so many sweeps leave more than this part of the distance."""


@final
@dataclass(frozen=True, eq=False)
class _Marginal:
    """One that no other contains: where it is in the histogram's, what was measured of it, and the noise's variance."""

    where: slice
    measured: Floats
    variance: float

    def distance(self, found: Floats) -> float:
        """The mean squared distance of a model's cells, over the noise."""
        return float(((found - self.measured) ** 2).mean()) / self.variance

    def factors(self, found: Floats) -> Floats:
        """By what cells are to be scaled of which a model says so many records."""
        scaled: Floats = np.clip((self.variance + self.measured) / (self.variance + found), *_FACTORS)
        return scaled


def has_plenty(shape: Sequence[int], variances: Mapping[Axes, float], records: float) -> bool:
    """Whether in all largest marginals there are many more records to a cell than noise, on average.

    shape      how many cells each column has
    variances  of each set of columns whose residual is measured, in counts squared
    records    how many there are
    """
    sets = largest(shape, variances)
    deviations = [sqrt(cell_variance(shape, s, variances)) * prod(shape[a] for a in s) for s in sets]
    return bool(sets) and records >= _PLENTY * max(deviations)


def largest(shape: Sequence[int], sets: Iterable[Axes]) -> Sequence[Axes]:
    """The sets of columns that no other one contains, from those of most cells to those of fewest."""
    some = [s for s in sets if s]
    found = [s for s in some if not any(set(s) < set(t) for t in some)]
    return sorted(found, key=lambda s: (-prod(shape[a] for a in s), s))


def fit_in_proportion(histogram: Histogram, estimates: Estimates) -> float:
    """Scale a histogram, in place, until its marginals are as measured; how far the farthest of them stays from that.

    That is a mean squared distance over the noise: up to `NEAR` it is as near as error bars say. The histogram needs
    factors for all measured sets of columns. Its total stays, and cells that are empty do. Where rules make one column
    a part of another, such as the province of a municipality, noise makes two marginals contradict each other. Small
    ones are scaled last, and so are met: what they differ by is little beside the noise in the many cells of a large
    one that add up to one of theirs.
    """
    parts = list[_Marginal]()
    for s in largest(estimates.domain.shape, estimates.residuals):
        table, variance = estimates.marginal(s)
        possible = histogram.total * nearest_distribution(table.reshape(-1) / histogram.total)
        parts.append(_Marginal(histogram.slice(s), possible, max(variance, _LEAST_VARIANCE)))
    farthest = list[float]()
    for _ in progress(range(SWEEPS), desc="scaling marginals"):
        distances = list[float]()
        for part in parts:
            found = np.maximum(histogram.marginals[part.where], 0.0)
            distances.append(part.distance(found))
            logs = np.zeros(len(histogram.logs))
            logs[part.where] = np.log(part.factors(found))
            histogram.multiply(logs)
        farthest.append(max(distances))
        sweeps, left = _STALLED
        if farthest[-1] <= _CLOSE or farthest[-1] > left * min(farthest[-sweeps - 1 : -sweeps], default=np.inf):
            break
    return max(part.distance(histogram.marginals[part.where]) for part in parts)
