"""A prior on how strong interactions between columns are, and the variance of residuals that it implies.

The variances were found on real tables. `maxent` and `log_linear` start from them, and mechanisms plan by them.
"""

from math import inf
from typing import Final

from qrelease._util.typing import Axes
from qrelease.data.domain import Domain

PRIOR: Final = (20.0, 0.2, 0.01)
"""ω of interactions of one, two and three columns, before the evidence; a further column makes it a twentieth."""

STRONG_INTERACTIONS: Final = 7.0
"""By how much stronger interactions of three columns and more, and in `maxent` also of two, are planned for than most
are: a few are much stronger (a kurtosis of 8 on nltcs, 9 on acs), and if columns depend on each other they tell of
those of fewer columns too. The L1 of fits at (0.1, 1e-9) under the same noise, to that for 1, under which triples on
nltcs and acs get 2 % of the privacy: for 5, with 16 and 35 %, 0.983 ± 0.009 and 0.945 ± 0.010; 22 and 25 %, 0.984 and
0.953; 37 and 42 %, 1.004 and 0.93. On Adult, where triples stay drowned, 1.007 for 5; if they are given 40 %, 1.09."""


def prior_variance(order: int) -> float:
    """ω of an interaction of so many columns, before the evidence."""
    return PRIOR[order - 1] if order <= len(PRIOR) else PRIOR[-1] * 0.05 ** (order - len(PRIOR))


def expected_variance(domain: Domain, axes: Axes, records: float) -> float:
    """How much the residuals of some columns are expected to vary among so many records, counts squared."""
    order = len(axes)
    if order < 2:
        return inf  # the number of records, and columns by themselves, may be anything
    # As if the columns were even: rather too much than too little.
    return typical_variance(domain.cells(axes), order, records, STRONG_INTERACTIONS if order > 2 else 1.0)


def planned_variance(domain: Domain, axes: Axes, records: float, *, strong: float = inf) -> float:
    """How much residuals are expected to vary where all privacy is divided at once, counts squared.

    strong  the most columns whose interactions are hoped to be `STRONG_INTERACTIONS`, a few of them

    If pairs were only hoped to be as strong as most, a small budget would measure columns alone, and strong pairs would
    be lost: of six columns of 1 000 records of nltcs at (0.3, 1e-9) the mean L1 was .227 so, and is .140; where there
    is no δ, .324 and .166 (`benchmarks.auto --only nltcs --seeds 8`). Laplace noise has the hope for pairs alone: a
    little of it less tells hardly more, so that what is hoped for is not bought by halves. With the hope for triples
    the L1 on nltcs at ε = 1 is .0238 and without .0179.
    """
    if len(axes) < 2:
        return inf
    return typical_variance(domain.cells(axes), len(axes), records, STRONG_INTERACTIONS if len(axes) <= strong else 1.0)


def typical_variance(cells: float, order: int, records: float, strength: float = 1.0) -> float:
    """How much a residual of so many columns varies among so many records, where the columns have so many cells.

    strength  of the interactions, over that of most
    """
    fisher = records / cells
    return fisher + prior_variance(order) * strength * fisher**2
