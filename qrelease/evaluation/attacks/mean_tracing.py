"""Tracing from a published mean of many columns: the attack that proves how inaccurate a private mean has to be.

A row x is scored by ⟨M − p, x − p⟩, where M was published and p are the population's means: who is in pulls M towards
them. Outside it has mean 0 and variance Σ(M_j − p_j)²(1 − p_j²), which is known. `statistics.lower_bounds` shows that
the scores of all who are in sum to at least d(1/3 − β²), where β² is the mean square distance of M from the mean of
the rows, on average over uniform p: so an M that is accurate gives people away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import positive_probability


@final
@dataclass(frozen=True)
class Traced:
    """What an attack made of one published mean.

    level      the share of people outside who may be taken to be in, as asked for
    outside    the share that is
    inside     the share of people inside who are told to be in
    total      the sum of the scores of all who are in
    floor      d(1/3 − β²), below which that is not on average over p
    """

    level: float
    outside: float
    inside: float
    total: float
    floor: float

    @property
    def advantage(self) -> float:
        """How much more often a person inside is told to be in."""
        return self.inside - self.outside


def trace(published: Floats, rows: Ints, others: Ints, means: Floats, *, level: float = 0.05) -> Traced:
    """Score the rows behind a published mean, and others of the population.

    Parameters
    ----------
    published
        M, (d,), of signs.
    rows, others
        Signs ±1, (n, d) and (m, d): those in, and as many or more who are not.
    means
        p, (d,).
    level
        The share of people outside that the threshold lets pass, by the normal law.

    Returns
    -------
    Traced

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.where(rng.random((80, 2000)) < 0.5, 1, -1)
    >>> found = trace(rows[:40].mean(axis=0), rows[:40], rows[40:], np.zeros(2000))
    >>> found.inside, found.outside <= 0.2
    (1.0, True)
    """
    from scipy.special import ndtri

    cut = np.clip(published, -1.0, 1.0)
    away = cut - means
    threshold = -float(ndtri(positive_probability("level", level))) * math.sqrt(float(away**2 @ (1 - means**2)))
    inside, outside = (rows - means) @ away, (others - means) @ away
    distance = float(((cut - rows.mean(axis=0)) ** 2).mean())
    return Traced(
        level,
        float((outside > threshold).mean()),
        float((inside > threshold).mean()),
        float(inside.sum()),
        rows.shape[1] * (1 / 3 - distance),
    )
