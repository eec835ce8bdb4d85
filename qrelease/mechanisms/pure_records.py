"""The public plan of `weighted_records` under pure ε: each column by itself, and then whole marginals, one by one.

Under pure ε costs add up, so that the noise of m marginals measured at once grows with m and not with its root: few
marginals are measured, those that depend most. A share `SINGLES_SHARE` of ε measures each column by itself, with
discrete Laplace noise, which also tells the number of records. The rest goes to rounds: a marginal is selected by
permute-and-flip, by the same score as under zCDP, all its cells are measured, and the records are fitted anew.

**How many rounds.** Take the dependences of pairs to fall off as the L1 distances d/j of the j-th strongest. With r
rounds at ε/r each a measured marginal of c cells is off by c·r/ε records in the mean, so the r of them by c·r²/ε, and
the others by Σ_{j>r} n·d/j. The sum is least where 2c·r/ε = n·d/r: at r = √(nεd/2c). Of the cells those count that hold
most records (`expected_errors.UNEVEN`): a fit takes the others from their columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Final

from qrelease._util.typing import Axes
from qrelease.data.domain import Domain
from qrelease.inference.interaction_prior import typical_variance
from qrelease.inference.measurement import noise_for
from qrelease.mechanisms.expected_errors import UNEVEN
from qrelease.mechanisms.record_plan import ROUNDS, SELECTION_SHARE
from qrelease.privacy.costs import ApproxDP, Neighbours, PureDP, split
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload

SINGLES_SHARE: Final = 0.2
"""The share of ε that measures each column by itself."""

STRONGEST_DEPENDENCE: Final = 1.0
"""d, the L1 distance of the strongest pair from independent columns."""


def whole_marginals(domain: Domain, sets: Sequence[Axes]) -> Workload:
    """All cells of the marginals on some sets of columns."""
    return Workload(domain, tuple(Group(s, Cells(domain.cells(s))) for s in sets))


def columns(domain: Domain) -> Workload:
    """Each column by itself, of those that have more than one cell."""
    return whole_marginals(domain, [(a,) for a, n in enumerate(domain.shape) if n > 1])


def first_costs(cost: PureDP | ApproxDP) -> tuple[PureDP, PureDP]:
    """What the columns by themselves cost, and what is left for the rounds, of a cost without a δ."""
    singly, left = split(PureDP(cost.epsilon), [SINGLES_SHARE, 1 - SINGLES_SHARE])
    return singly, left


def rounds_of(domain: Domain, pairs: Sequence[Axes], records: float, left: PureDP) -> int:
    """How many marginals are measured at what is left, for about so many records; the module says why."""
    sizes = sorted(prod(1 + (domain.shape[a] - 1) ** UNEVEN for a in s) for s in pairs)
    wanted = sqrt(max(records, 0.0) * left.epsilon * STRONGEST_DEPENDENCE / (2 * sizes[len(sizes) // 2]))
    return min(max(round(wanted), 1), ROUNDS.max_rounds)


def costs_of_rounds(left: PureDP, rounds: int) -> list[tuple[PureDP, PureDP]]:
    """The costs of measuring and of selecting in each round, all of which are what is left; of no round, none."""
    if rounds == 0:
        return []
    shares = split(left, [1 - SELECTION_SHARE, SELECTION_SHARE] * rounds)
    return [*zip(shares[::2], shares[1::2], strict=True)]


def expected_variances(
    domain: Domain, pairs: Sequence[Axes], cost: PureDP, neighbours: Neighbours, records: int
) -> dict[Axes, float]:
    """The variances of the residuals of columns and of pairs, counts squared, by which errors are predicted.

    Which pairs are selected is not known beforehand. So each pair is taken to be known as far as all are in the mean:
    if the dependence of the j-th strongest is 1/j of the strongest, the measured ones have the share of it that the
    first of the harmonic series have of all.
    """
    singly, left = first_costs(cost)
    asked = columns(domain)
    alone = noise_for(asked, singly, neighbours)[0].variance
    found: dict[Axes, float] = dict.fromkeys(asked.sets, alone)
    found[()] = 0.0 if neighbours is Neighbours.REPLACE_ONE else alone / sum(1 / n for n in domain.shape if n > 1)
    if not pairs:
        return found
    rounds = rounds_of(domain, pairs, records, left)
    measuring, _ = costs_of_rounds(left, rounds)[0]
    noise = noise_for(whole_marginals(domain, pairs[:1]), measuring, neighbours)[0].variance
    told = sum(1 / j for j in range(1, min(rounds, len(pairs)) + 1)) / sum(1 / j for j in range(1, len(pairs) + 1))
    for s in pairs:
        typical = typical_variance(domain.cells(s), 2, records)
        precision = told / noise  # of a measurement of which nothing is told with the probability 1 - told
        remaining = told * noise * typical / (noise + typical) + (1 - told) * typical
        found[s] = 1 / precision if remaining >= typical else remaining * typical / (typical - remaining)
    return found
