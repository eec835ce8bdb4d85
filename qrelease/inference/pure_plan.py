"""How a pure ε is divided between the contrasts of sets of columns (`contrasts`).

**How the privacy is divided.** With weights cₛ on the sₛ, at v = 2/εₛ² and κₛ = 2⁻ᵏ, Hölder's inequality with exponents
3 and 3/2 gives

    Σ (cₛκₛ)^⅓ = Σ (cₛκₛ/εₛ²)^⅓ (εₛ)^⅔ <= (Σ cₛκₛ/εₛ²)^⅓ (Σ εₛ)^⅔,

with equality at εₛ in proportion to (cₛκₛ)^⅓: so 2 (Σ (cₛκₛ)^⅓)³ / ε² is the least total, and these are its shares.

*Given what is expected.* If a coordinate of the residual of S is known beforehand up to the variance eₛ, what is left
after the best estimate is Σ cₛ / (εₛ²/2κₛ + 1/eₛ). That is not convex: below some εₛ a measurement says hardly
anything. For a price λ of privacy each set takes the εₛ, of a grid, at which what is left and λεₛ are together least;
the price is where the whole is spent, and there, of sets that are alike, some are measured and others are not. Every
set keeps `DRY` of its share as above, so that everything has an unbiased answer.

*Whole marginals.* A few marginals are better measured by all their cells, which also measure all residuals below them.
Their shares are those for cₛ = cells, κₛ = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, prod, sqrt

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.contrasts import contrasts
from qrelease.inference.measurement import noise_for
from qrelease.inference.residuals import subsets
from qrelease.privacy.costs import Neighbours, PureDP, split
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload

DRY = 0.05
"""The part of its share without expectations that each set keeps."""

_STEP = 1.15  # from one ε of the grid to the next
_LEVELS = 120  # of the grid: 1.15^120 is 2·10⁷
_BISECTIONS = 60  # of a price within 2^±200


@dataclass(frozen=True, eq=False)
class PurePlan:
    """How the marginals of some columns are measured under pure ε.

    parts      workloads, and what each is measured at; all together are the cost
    variances  sₛ of each set, counts squared
    error      the root of the weighted mean of all cells' variances, counts
    """

    parts: tuple[tuple[Workload, PureDP], ...]
    variances: Mapping[Axes, float]
    error: float

    @classmethod
    def choose(
        cls,
        domain: Domain,
        marginals: Sequence[Axes],
        cost: PureDP,
        neighbours: Neighbours,
        *,
        weights: Sequence[float] | None = None,
        expected: Callable[[Axes], float] | None = None,
    ) -> list[PurePlan]:
        """The best division of a cost for the marginals on distinct, sorted sets of columns: by contrasts, and whole.

        weights   one a marginal, on the variance of each of its cells; 1 by default
        expected  the variance, counts squared, that a coordinate of the residuals of a set is expected to have

        `InvalidInput` where there is nothing to measure; `TooLarge` for too many subsets.
        """
        replaced = neighbours is Neighbours.REPLACE_ONE
        sets = [s for s in subsets(domain, marginals) if s or not replaced]
        if not sets:
            raise InvalidInput("under replace-one the number of records is public: there is nothing to measure")
        weight = [1.0] * len(marginals) if weights is None else list(weights)
        loads = _loads(domain, marginals, weight)
        load = np.array([loads[s] for s in sets])
        moved = 2 if replaced else 1
        halved = np.array([moved**2 / 2.0 ** sum(domain.shape[a] == 2 for a in s) for s in sets])
        given = None if expected is None else np.array([expected(s) for s in sets])
        levels = dict(zip(sets, _levels(load, halved, cost.epsilon, given).tolist(), strict=True))
        tops = {tuple(a for a in s if domain.shape[a] > 1): w for s, w in zip(marginals, weight, strict=True)}
        whole = {s: w * domain.cells(s) for s, w in tops.items()}
        top = _levels(np.array(list(whole.values())), np.ones(len(whole)), cost.epsilon, None)
        found, mass = [], sum(w * domain.cells(s) for s, w in tops.items())
        for of, group in ((levels, contrasts), (dict(zip(whole, top.tolist(), strict=True)), _cells)):
            parts = _parts(domain, of, group, cost)
            variances = _variances(domain, parts, neighbours)
            error = sqrt(sum(load * np.array([variances[s] for s in sets])) / mass)
            found.append(cls(parts, variances, error))
        return found


def _cells(domain: Domain, axes: Axes) -> Group:
    """The whole marginal of a set of columns."""
    return Group(axes, Cells(domain.cells(axes)))


def _loads(domain: Domain, marginals: Sequence[Axes], weights: Sequence[float]) -> dict[Axes, float]:
    """cₛ of each set: Σ_{A⊇S} w_A·cells_A·v(A, S)."""
    found: dict[Axes, float] = {}
    shape = domain.shape
    for axes, weight in zip(marginals, weights, strict=True):
        longer = [a for a in axes if shape[a] > 1]
        cells = prod(shape[a] for a in longer)
        for order in range(len(longer) + 1):
            for s in combinations(longer, order):
                share = prod((shape[a] - 1) * shape[a] for a in s) / cells
                found[s] = found.get(s, 0.0) + weight * share
    return found


def _levels(load: Floats, kappa: Floats, epsilon: float, expected: Floats | None) -> Ints:
    """The number of each set's share on the grid, of which the whole cost is then a multiple."""
    plain = np.cbrt(load * kappa)
    plain *= epsilon / plain.sum()
    grid = epsilon * _STEP ** (np.arange(_LEVELS) - _LEVELS + 1.0)
    if expected is None:
        nearest: Ints = np.abs(np.log(plain[:, None] / grid)).argmin(axis=1)
        return nearest
    alike, which, times = np.unique(
        np.stack([load, kappa, expected, plain]), axis=1, return_inverse=True, return_counts=True
    )
    which = which.reshape(-1)
    c, k, e, share = alike[:, :, None]
    left = c / (grid**2 / (2 * k) + np.where(np.isinf(e), 0.0, 1 / np.maximum(e, 1e-300)))
    least = np.minimum(np.searchsorted(grid, DRY * share[:, 0]), _LEVELS - 1)
    left = np.where(np.arange(_LEVELS) < least[:, None], inf, left)

    def taken(price: float) -> Ints:
        found: Ints = (left + price * grid).argmin(axis=1)
        return found

    low, high = 2.0**-200, 2.0**200  # too much is spent at the low one
    for _ in range(_BISECTIONS + 20):
        price = sqrt(low) * sqrt(high)
        low, high = (low, price) if grid[taken(price)] @ times <= epsilon else (price, high)
    levels, more = taken(high)[which], taken(low)[which]
    spent = grid[levels].sum()
    for i in np.flatnonzero(more > levels):  # alike: as many as the rest pays for
        if spent + grid[more[i]] - grid[levels[i]] > epsilon:
            continue
        spent += grid[more[i]] - grid[levels[i]]
        levels[i] = more[i]
    return levels


def _parts(
    domain: Domain, levels: Mapping[Axes, int], group: Callable[[Domain, Axes], Group], cost: PureDP
) -> tuple[tuple[Workload, PureDP], ...]:
    """Sets of one level together, each at its share; all shares are the cost."""
    at: dict[int, list[Axes]] = {}
    for s, level in levels.items():
        at.setdefault(level, []).append(s)
    shares = [len(alike) * _STEP ** (level - max(at)) for level, alike in at.items()]
    costs = split(cost, [share / sum(shares) for share in shares])
    return tuple(
        (Workload(domain, tuple(group(domain, s) for s in alike)), part)
        for alike, part in zip(at.values(), costs, strict=True)
    )


def _variances(domain: Domain, parts: Iterable[tuple[Workload, PureDP]], neighbours: Neighbours) -> dict[Axes, float]:
    """sₛ of all sets, from all that is measured: precisions add up. `InvalidInput` for noise beyond the samplers."""
    precisions: dict[Axes, float] = {(): inf} if neighbours is Neighbours.REPLACE_ONE else {}
    for workload, cost in parts:
        variance = noise_for(workload, cost, neighbours)[0].variance
        for group in workload.groups:
            axes, sizes = group.axes, {a: domain.shape[a] for a in group.axes}
            halved = [] if isinstance(group.queries, Cells) else [a for a, n in sizes.items() if n == 2]
            own = variance / 2.0 ** len(halved)
            wide = [a for a in axes if a not in halved]
            for order in range(len(wide) + 1):
                for summed in combinations(wide, order):
                    kept = tuple(a for a in axes if a not in summed)
                    spread = prod(sizes[a] for a in summed)
                    precisions[kept] = precisions.get(kept, 0.0) + 1 / (own * spread)
    return {s: 1 / p for s, p in precisions.items()}
