"""Which event tells two inputs apart: scores are learned on one set of runs, an event is chosen on another.

A score is a function of outputs that should be large where the first input is the more likely one; the event is that it
reaches a threshold. None of this needs to be right: a poor choice is an event that proves little, and its probabilities
are bounded on runs that had no part in the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease.evaluation.audit.scores import Score
from qrelease.evaluation.audit.verdict import bounds, clopper_pearson
from qrelease.privacy.costs import Cost

Side = Literal["first", "second"]

_THRESHOLDS: Final = 160
_SCREENING_RUNS: Final = 1 << 15
_SCREENED_SCORES: Final = 12
"""So many outputs decide which events, the best so many, are compared on all of them."""

_SIMPLICITY_MARGIN: Final = 0.01
"""Scores come simplest first; one that promises this much less than the best, relatively, is taken before it."""


@dataclass(frozen=True, eq=False)
class Event:
    """The outputs whose score is at least `threshold`; or at most its negative, if it favours the second input."""

    score: Score
    favours: Side
    threshold: float

    @np.errstate(over="ignore", invalid="ignore")
    def holds(self, columns: Floats) -> npt.NDArray[np.bool_]:
        """Which outputs belong to the event, (n, m) columns to (n,)."""
        scores = self.score.of(columns)
        held: npt.NDArray[np.bool_] = (scores if self.favours == "first" else -scores) >= self.threshold
        return held

    def __str__(self) -> str:
        if self.favours == "first":
            return self.score.describe(self.threshold, np.inf)
        return self.score.describe(-np.inf, -self.threshold)


@np.errstate(over="ignore", invalid="ignore")
def strongest_event(
    scores: Sequence[Score], first: Floats, second: Floats, claim: Cost, runs: int, miss: float
) -> Event:
    """The event that promises the strongest bound from `runs` new runs, judged by outputs that no score has seen.

    first, second   outputs on both inputs, (n, m) columns
    miss            the chance that each of the two bounds may be wrong
    """
    heat = _promises(scores, first[:_SCREENING_RUNS], second[:_SCREENING_RUNS], claim, runs, miss)
    places = np.argsort([-bound for bound, _ in heat], kind="stable")[:_SCREENED_SCORES]
    final = [scores[i] for i in sorted({int(place) // 2 for place in places})]
    promises = _promises(final, first, second, claim, runs, miss)
    enough = (1 - _SIMPLICITY_MARGIN) * max(bound for bound, _ in promises)
    return next(event for bound, event in promises if bound >= enough)


def _promises(
    scores: Sequence[Score], first: Floats, second: Floats, claim: Cost, runs: int, miss: float
) -> list[tuple[float, Event]]:
    """The best event of each score in either direction, and the bound it promises."""
    found: list[tuple[float, Event]] = []
    for score in scores:
        p, q = score.of(first), score.of(second)
        ways: list[tuple[Side, Floats, Floats]] = [("first", p, q), ("second", -q, -p)]
        for side, likely, unlikely in ways:
            bound, threshold = _best_threshold(likely, unlikely, claim, runs, miss)
            found.append((bound, Event(score, side, threshold)))
    return found


def _best_threshold(likely: Floats, unlikely: Floats, claim: Cost, runs: int, miss: float) -> tuple[float, float]:
    """The best bound that a threshold promises, and the threshold; NaN reaches none."""
    p, q = (np.sort(np.where(np.isnan(s), -np.inf, s)) for s in (likely, unlikely))
    pool = np.sort(np.concatenate([p, q]))[::-1]
    at = np.unique(pool[np.unique(np.geomspace(1, pool.size, _THRESHOLDS).astype(np.int64)) - 1])
    hits, false = p.size - np.searchsorted(p, at), q.size - np.searchsorted(q, at)
    # The best of many looks better than it is: expect less of it, and one false alarm more than was seen.
    low, _ = clopper_pearson(np.maximum(hits - np.sqrt(hits), 0) * (runs / p.size), runs, miss)
    _, high = clopper_pearson(np.minimum((false + 1) * (runs / q.size), runs), runs, miss)
    promised = bounds(claim, low, high)
    best = int(np.argmax(promised))
    return float(promised[best]), float(at[best])
