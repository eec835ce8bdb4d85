"""What a stream of queries costs with simpler means, each told the number of records; built from the published rules.

All keep every answer within αn with probability 1 - β. A synopsis keeps all queries of the stream's class within αn at
once, so that an adversary may choose; with `oblivious` each of those asked only, for queries fixed beforehand.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize
from scipy.special import ndtri

from qrelease.inference.residuals import query_variances
from qrelease.mechanisms.online.prices import residual_reach
from qrelease.noise import tail_bounds
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.privacy import Neighbours
from qrelease.privacy.conversions import zcdp_epsilon
from qrelease.queries.classes import Conjunctions, Parities
from qrelease.queries.workload import Workload


@dataclass(frozen=True)
class Stream:
    """Queries of a pool, asked in an order, of a table with these counts.

    cells    for each query of the pool, the cells of the universe that it counts
    queries  the class that the pool is of
    """

    name: str
    workloads: Sequence[Workload]
    cells: Sequence[np.ndarray]
    counts: np.ndarray
    asked: np.ndarray
    alpha: float
    queries: Conjunctions | Parities
    beta: float = 0.001
    delta: float = 1e-9

    @property
    def records(self) -> int:
        return int(self.counts.sum())

    @property
    def error(self) -> float:
        return self.alpha * self.records

    @cached_property
    def truths(self) -> np.ndarray:
        return np.array([self.counts[c].sum() for c in self.cells])

    @cached_property
    def distinct(self) -> int:
        return len(np.unique(self.asked))


def laplace(stream: Stream) -> float:
    """Laplace noise of scale αn / ln(1/β), and an exact cache."""
    return stream.distinct * math.log(1 / stream.beta) / stream.error


def gaussian(stream: Stream) -> float:
    """Gaussian noise under zCDP, and an exact cache: ε at δ."""
    sigma = stream.error / -float(ndtri(stream.beta / 2))
    return zcdp_epsilon(stream.distinct / (2 * sigma**2), stream.delta)


def histogram(stream: Stream, *, oblivious: bool = False) -> float:
    """One table of all cells with Laplace noise."""
    domain = stream.workloads[0].domain
    largest = Counter({max(len(stream.cells[i]) for i in np.unique(stream.asked)): 1})
    sizes = largest if oblivious else stream.queries.cells(domain, tuple(range(len(domain))))
    return tail_bounds.laplace_sums(sizes, stream.beta) / stream.error


def synopsis(stream: Stream, *, oblivious: bool = False) -> float:
    """The residuals that suit the conjunctions, with Gaussian noise: ε at δ, by the exact trade-off."""
    if isinstance(stream.queries, Parities):
        return math.inf
    domain = stream.workloads[0].domain
    axes = tuple(range(len(domain)))
    _, variances, far = residual_reach(domain, axes, stream.queries, Neighbours.ADD_REMOVE, stream.beta)
    if oblivious:
        groups = [stream.workloads[i].groups[0] for i in np.unique(stream.asked)]
        worst = max(query_variances(domain.shape, g, variances)[0] for g in groups)
        far = math.sqrt(worst) * -float(ndtri(stream.beta / 2))
    sigma = stream.error / far
    return float(optimize.brentq(lambda e: analytic_gaussian_sigma(1, e, stream.delta) / sigma - 1, 1e-5, 500))


def pmw(stream: Stream, seed: int, *, bypass: bool) -> tuple[float, int]:
    """Private multiplicative weights as in Turbo (Kostopoulou et al., SOSP 2023, Algorithm 1): ε and failures.

    ε₀ = 4 ln(1/β)/(αn) for a Laplace answer and 3ε₀ for each instance of sparse vector, whose threshold is α/2 and
    whose noise is of scale 1/ε₀n. With `bypass`, which comes with an exact cache, a query whose cells were not counted
    100 times yet is answered by Laplace noise of ln(1/β)/(αn) ε, and updates where it is off by more than α/20; a miss
    raises the number by 5 for its cells. The learning rate is 0.05, which suits the easy stream best.
    """
    rng = np.random.default_rng(seed)
    n, alpha, y = stream.records, stream.alpha, np.full(len(stream.counts), 1 / len(stream.counts))
    unit = 4 * math.log(1 / stream.beta) / stream.error
    visits = np.zeros(len(y))
    needed = np.full(len(y), 100.0)
    total, failures, threshold = 0.0, 0, None
    cache: dict[int, float] = {}
    for i in stream.asked.tolist():
        cells = stream.cells[i]
        truth, guess = stream.truths[i] / n, float(y[cells].sum())
        if i in cache:
            answer = cache[i]
        elif bypass and (visits[cells] < needed[cells]).any():
            total += math.log(1 / stream.beta) / stream.error
            answer = cache[i] = truth + rng.laplace(scale=alpha / math.log(1 / stream.beta))
            visits[cells] += 1
            if abs(answer - guess) > alpha / 20:
                _update(y, cells, math.copysign(0.05, answer - guess))
        else:
            if threshold is None:
                total += 3 * unit
                threshold = alpha / 2 + rng.laplace(scale=1 / (unit * n))
            answer = guess
            if abs(truth - guess) + rng.laplace(scale=1 / (unit * n)) >= threshold:
                total, threshold = total + unit, None
                answer = truth + rng.laplace(scale=1 / (unit * n))
                _update(y, cells, math.copysign(0.05, answer - guess))
                needed[cells] = visits[cells] + 5
        failures += abs(answer - truth) > alpha
    return total, int(failures)


def _update(y: np.ndarray, cells: np.ndarray, step: float) -> None:
    y[cells] *= math.exp(step)
    y /= y.sum()
