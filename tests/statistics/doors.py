"""What tests of statistics share: doors to small tables, and a source of noise that lists its draws."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.evaluation.audit import Choices, Distribution, enumerated, gaussian_distribution, laplace_distribution
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.filters import Filter
from qrelease.statistics.base import Statistic
from qrelease.statistics.noise_source import ExactNoise
from qrelease.statistics.private_columns import PrivateColumns


def column(values, cells, name="x"):
    """A table of one column of codes; None is missing."""
    domain = Domain((Attribute(name, "coded", codes=cells, missing=("?",), ordered=True),))
    return Table(domain, (np.array([cells if v is None else v for v in values], np.int64),))


def door(table, cost, neighbours=Neighbours.ADD_REMOVE, noise=0, kind=PrivateColumns):
    """A door with a budget; `noise` is a seed or a source, `kind` a broken one for twins."""
    source = ExactNoise(Entropy.insecure(noise)) if isinstance(noise, int) else noise
    return kind(table, neighbours, Filter(cost), source)


@dataclass(frozen=True)
class DrawsAt:
    """A broken twin: a statistic that draws at one cost, and is paid for at another; no filter sees it."""

    cost: Cost
    statistic: Statistic

    def estimate(self, private, _):
        private.filter = Filter(self.cost)
        return self.statistic.estimate(private, self.cost)


class ListedNoise:
    """Draws from `Choices`: every value of each law in a run of its own."""

    def __init__(self, choices, missing=1e-9):
        self.choices, self.missing = choices, missing

    def noise(self, law, parameter, size):
        laws = {
            "discrete Laplace": laplace_distribution,
            "discrete Gaussian": gaussian_distribution,
            "rounded Gaussian": rounded_gaussian,
        }
        listed = laws[law.law](parameter, missing=self.missing)
        return np.array([self.choices.draw(listed) for _ in range(size)], np.int64)

    def choose(self, scores, epsilon, sensitivity, rule, *, monotone):
        rate = epsilon / sensitivity / (1 if monotone else 2)
        weights = np.exp(float(rate) * (scores - scores.max()).astype(float))
        chances = permuted(weights) if rule == "permute-and-flip" else weights / weights.sum()
        return self.choices.draw(Distribution(dict(enumerate(chances.tolist()))))

    def stream(self, kind, *arguments, **options):
        return ListedStream(kind.calibrate(*arguments, **options), self.choices, self.missing)


class Compares(PrivateColumns):
    """A door whose perturbed numbers nobody sees: what they are compared with is drawn with its exact chance."""

    def perturb(self, what, exact, scale, cost):
        self.spend(what, cost)
        return Unseen(exact, float(scale), self.noise.choices)


@dataclass(frozen=True)
class Unseen:
    """A number with discrete Laplace noise that is compared once, and not shown."""

    exact: int
    scale: float
    choices: Choices

    def __gt__(self, limit):
        above = at_least(math.floor(limit) + 1 - self.exact, self.scale, True)
        return self.choices.draw(Distribution({False: 1 - above, True: above}))


def rounded_gaussian(variance, missing):
    """The law of the nearest whole number to a Gaussian one."""
    reach = math.ceil(stats.norm.isf(missing / 2) * math.sqrt(variance)) + 1
    masses = np.diff(stats.norm.cdf(np.arange(-reach - 0.5, reach + 1) / math.sqrt(variance)))
    return Distribution(dict(zip(range(-reach, reach + 1), masses.tolist(), strict=True)), missing=missing)


class ListedStream:
    """A sparse vector stream by its definition: ρ is listed, and each query is answered with its exact chance."""

    def __init__(self, calibration, choices, missing):
        self.calibration, self.choices, self.missing = calibration, choices, missing
        self.left, self.rho = calibration.positives, None

    @property
    def halted(self):
        return self.left == 0

    def ask_many(self, values, threshold):
        for place, value in enumerate(np.asarray(values).tolist()):
            if self.rho is None:
                self.rho = self.choices.draw(self._listed(self.calibration.threshold))
            needed = threshold + self.rho + self.calibration.offset - value
            above = at_least(needed, self.calibration.query, self.calibration.two_sided)
            if self.choices.draw(Distribution({False: 1 - above, True: above})):
                self.left -= 1
                self.rho = None if self.calibration.redraw else self.rho
                if self.calibration.numeric is None:
                    return place, 0
                numbers = laplace_distribution(self.calibration.numeric, missing=self.missing)
                return place, value + self.choices.draw(numbers)
        return None

    def _listed(self, scale):
        if self.calibration.two_sided:
            return laplace_distribution(scale, missing=self.missing)
        ratio = math.exp(-1 / scale)
        count = math.ceil(math.log(self.missing) / math.log(ratio))
        return Distribution({y: (1 - ratio) * ratio**y for y in range(count)}, missing=ratio**count)


def at_least(y, scale, two_sided):
    """P(noise >= y), of discrete Laplace noise or of geometric noise."""
    ratio = math.exp(-1 / scale)
    if not two_sided:
        return ratio ** max(y, 0)
    return ratio**y / (1 + ratio) if y > 0 else 1 - ratio ** (1 - y) / (1 + ratio)


def permuted(weights):
    """Of permute-and-flip: each is the first head with P = w_r E[1/(1 + heads among the others)]."""
    found = np.empty(len(weights))
    for r in range(len(weights)):
        heads = np.ones(1)
        for w in np.delete(weights, r):
            heads = np.convolve(heads, [1 - w, w])
        found[r] = weights[r] * (heads / np.arange(1, len(heads) + 1)).sum()
    return found / found.sum()


def outcome(
    statistic,
    table,
    cost,
    neighbours=Neighbours.ADD_REMOVE,
    missing=1e-9,
    seen=None,
    least=1e-13,
    kind=PrivateColumns,
):
    """The exact distribution of what a statistic releases: all that was measured, and its value."""

    def run(data, choices):
        private = door(data, cost, neighbours, ListedNoise(choices, missing), kind)
        result = statistic.estimate(private, cost)
        return seen(result) if seen else (result.value, tuple(m.value for m in result.measured))

    return enumerated(run, table, least=least)


__all__ = ["Compares", "DrawsAt", "ListedNoise", "column", "door", "outcome", "permuted"]
