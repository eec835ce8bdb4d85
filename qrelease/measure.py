"""`Private`: the only door through which a mechanism sees private counts, and `Measurement`: what comes out of it.

A mechanism gets a `Private` that was made for one charge. It spends from that charge's filter before each draw, so the
parts of a cost are added up in one place, and every draw is written down for the manifest of the release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from qrelease import noise, selection
from qrelease.cores import at_once
from qrelease.cover import Axes
from qrelease.entropy import Entropy, WordSource
from qrelease.errors import InvalidInput
from qrelease.noise import MAX_SCALE, MAX_VARIANCE
from qrelease.primitives import analytic_gaussian_sigma
from qrelease.privacy import ZCDP, ApproxDP, Cost, Filter, Neighbours, PureDP, split, zcdp_of
from qrelease.privacy.costs import check_cost
from qrelease.queries import Cells, Residuals
from qrelease.table import Table
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Rule = Literal["exponential", "permute-and-flip"]
Law = Literal["discrete Laplace", "discrete Gaussian", "rounded Gaussian"]

RECORDS = Group((), Cells(1))
"""How many records there are: the only query on the marginal of no columns."""

CONFIDENCE = 0.95
"""The probability with which a true count lies within the error bar of its noisy answer."""

_SAMPLERS: dict[Law, Callable[[Fraction, int, WordSource], Ints]] = {
    "discrete Laplace": noise.discrete_laplace,
    "discrete Gaussian": noise.discrete_gaussian,
    "rounded Gaussian": noise.rounded_gaussian,
}

_DRAWN = 1 << 18  # answers that are drawn at a time: they stay in the cache until the exact ones are added

_EPSILON_BITS = 60  # an epsilon paid in zCDP is irrational: it is rounded down to a multiple of 2^-60


@dataclass(frozen=True)
class Noise:
    """The law of the noise on an answer: discrete on the multiples of `unit`, of this scale, in counts.

    scale   b of the discrete Laplace, P(y) ∝ e^(-|y|/b); σ of the discrete Gaussian, P(y) ∝ e^(-y²/2σ²), and of the
            rounded Gaussian: a real normal, rounded to the nearest integer
    """

    law: Law
    scale: float
    unit: float = 1.0

    @property
    def variance(self) -> float:
        """An upper bound: that of the continuous law of the same scale, and 1/12 of a squared unit more if rounded."""
        if self.law == "rounded Gaussian":
            return self.scale**2 + self.unit**2 / 12
        return self.scale**2 * (2.0 if self.law == "discrete Laplace" else 1.0)

    @property
    def magnitude(self) -> float:
        """The expected absolute value, of the continuous law of the same scale."""
        return self.scale * (1.0 if self.law == "discrete Laplace" else math.sqrt(2 / math.pi))

    def half_width(self, terms: float = 1.0) -> float:
        """h such that a sum of so many independent draws lies within ±h with probability `CONFIDENCE`.

        The quantile of the continuous law (for a sum of Laplace draws, the variance-gamma law), and half a unit more
        for the grid. Of a weighted sum, `terms` is the sum of the squared weights.
        """
        # Sums of fewer Laplace draws have heavier tails: rounding down errs to the safe side.
        if self.law == "discrete Laplace":
            return self.scale * _quantile(min(max(int(terms), 1), 64)) * math.sqrt(terms) + self.unit / 2
        return math.sqrt(self.variance * terms) * _quantile(0) + self.unit / 2

    def reach(self, beta: float) -> float:
        """t, a count, such that one draw is beyond ±t with probability at most β.

        In units, P(|Z| >= t) = 2q^t/(1 + q) for the discrete Laplace law, q = e^(-1/b); a Gaussian is beyond tσ with
        probability at most 2e^(-t²/2), the discrete one too (Canonne, Kamath & Steinke 2020).
        """
        if self.law == "discrete Laplace":
            return self.scale * max(0.0, math.log(2 / (beta * (1 + math.exp(-self.unit / self.scale)))))
        rounding = self.unit / 2 if self.law == "rounded Gaussian" else 0.0
        return self.scale * math.sqrt(2 * math.log(2 / beta)) + rounding


@cache
def _quantile(laplace_terms: int) -> float:
    """The two-sided 95 % quantile of a sum of Laplace(1) draws over √terms; 0 terms stand for the normal law."""
    from scipy import optimize, special, stats

    if laplace_terms == 0:
        return float(special.ndtri(0.5 + CONFIDENCE / 2))
    if laplace_terms == 1:
        return -math.log(1 - CONFIDENCE)
    # Given G ~ Gamma(terms), the sum is normal with variance 2G: average the normal's tail over quantiles of G.
    spread = np.sqrt(2 * stats.gamma.ppf((np.arange(2048) + 0.5) / 2048, laplace_terms))

    def excess(h: float) -> float:
        return float(np.mean(2 * special.ndtr(-h / spread))) - (1 - CONFIDENCE)

    return float(optimize.brentq(excess, 0.1, 10 * math.sqrt(2 * laplace_terms))) / math.sqrt(laplace_terms)


def half_widths(variances: Floats) -> Floats:
    """Of the 95 % error bars of unbiased normal answers with these variances."""
    widths = np.sqrt(variances)
    widths *= _quantile(0)
    return widths


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers to the queries of one group: unbiased, independent, the mean of `repeats` draws of `noise`.

    values  (k,) counts
    """

    group: Group
    values: Floats
    noise: Noise
    repeats: int = 1

    @property
    def variance(self) -> float:
        """Of each value."""
        return self.noise.variance / self.repeats

    def averaged(self, other: Measurement) -> Measurement:
        """Both as one, for the same group under the same noise."""
        if (self.group, self.noise) != (other.group, other.noise):
            raise InvalidInput("only measurements of one group under one law can be averaged")
        both = self.repeats + other.repeats
        values = (self.repeats * self.values + other.repeats * other.values) / both
        return replace(self, values=values, repeats=both)


@dataclass(frozen=True)
class Spend:
    """One entry of the manifest: what was drawn, and its part of the cost."""

    what: str
    cost: Cost

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {"what": self.what, **self.cost.to_json()}


def noise_for(workload: Workload, cost: Cost, neighbours: Neighbours) -> tuple[Noise, Fraction]:
    """The noise that answers a whole workload once at a cost, and its exact scale b or variance σ², in units.

    Laplace of scale Δ₁/ε for pure ε [Dwork & Roth 2014, Thm 3.6], Gaussian of variance Δ₂²/2ρ for zCDP [Canonne, Kamath
    & Steinke 2020, Thm 14], both discrete; for (ε, δ) the analytic Gaussian [Balle & Wang 2018], rounded. All on the
    finest grid among the groups.
    """
    unit = min(g.queries.unit for g in workload.groups)
    order = 1 if isinstance(cost, PureDP) else 2
    moved = workload.moved(order, replace=neighbours is Neighbours.REPLACE_ONE)
    # Queries that no record moves could be answered exactly; they get noise too.
    return calibrated(max(moved, 1), cost, unit)


def counting_first(
    cost: Cost, share: float, neighbours: Neighbours, records: float | None = None
) -> tuple[PureDP | ZCDP | None, Cost]:
    """A share of a cost, which buys the number of records, and the rest, which keeps all of a δ.

    None and all of it, where nothing has to be bought: the number is public as it is said, or as neighbours have it.
    """
    if records is not None or neighbours is Neighbours.REPLACE_ONE:
        return None, cost
    if isinstance(cost, ApproxDP):
        pure, left = split(PureDP(cost.epsilon), [share, 1 - share])
        return pure, ApproxDP(left.epsilon, cost.delta)
    counting, rest = split(cost, [share, 1 - share])
    return counting, rest


@lru_cache(256)  # who buys many answers buys them at few prices
def calibrated(sensitivity: int, cost: Cost, unit: float = 1.0) -> tuple[Noise, Fraction]:
    """The noise for a sensitivity, in units: Δ₁ for pure ε, else Δ₂²; and its exact scale b or variance σ².

    Raises `InvalidInput` where the noise would be beyond the samplers' range.
    """
    check_cost(cost)
    if isinstance(cost, PureDP):
        scale = Fraction(sensitivity) / Fraction(cost.epsilon)
        if scale <= MAX_SCALE:
            return Noise("discrete Laplace", float(scale) * unit, unit), scale
    elif isinstance(cost, ZCDP):
        variance = Fraction(sensitivity) / (2 * Fraction(cost.rho))
        if variance <= MAX_VARIANCE:
            return Noise("discrete Gaussian", math.sqrt(variance) * unit, unit), variance
    elif cost.delta == 0:
        raise InvalidInput(f"one draw of Gaussian noise needs a delta above 0, got {cost}")
    else:
        variance = sensitivity * Fraction(analytic_gaussian_sigma(1, cost.epsilon, cost.delta)) ** 2
        if variance <= MAX_VARIANCE:
            return Noise("rounded Gaussian", math.sqrt(variance) * unit, unit), variance
    raise InvalidInput(f"{cost} buys so many answers only under noise beyond 2^40: ask less, or give more budget")


def currency(cost: Cost) -> PureDP | ZCDP:
    """What a mechanism spends a cost in: pure ε as it is, (ε, δ) as the largest ρ that converts to it."""
    check_cost(cost)
    return zcdp_of(cost) if isinstance(cost, ApproxDP) else cost


@final
@dataclass
class Private:
    """Private counts under a budget. Made by the `Curator` for one charge and one mechanism.

    Methods named after draws spend before they draw. `exact` returns private numbers: only a `Distinguisher` needs
    it, for scores that it hands to `select`.
    """

    table: Table = field(repr=False)
    neighbours: Neighbours
    filter: Filter
    entropy: WordSource = field(repr=False)
    spends: list[Spend] = field(default_factory=list)

    def _spend(self, what: str, cost: Cost) -> None:
        self.filter.spend(cost)
        self.spends.append(Spend(what, cost))

    def exact(self, workload: Workload) -> list[Ints]:
        """The exact answers of each group in its units, which one record moves by at most 1 each. Private: for scores.

        `InvalidInput` for queries over another domain, or with entries outside [0, 1].
        """
        workload.check_bounded()
        marginals = self._marginals(workload)
        return [g.queries.apply(marginals[g.axes]) for g in workload.groups]

    def _marginals(self, workload: Workload) -> dict[Axes, Ints]:
        if workload.domain != self.table.domain:
            raise InvalidInput("the workload is over another domain than the table")
        return dict(zip(workload.sets, self.table.counts(workload.sets), strict=True))

    def measure(self, workload: Workload, cost: Cost) -> list[Measurement]:
        """Noisy answers to a whole workload under one cost: one measurement a group. The noise is `noise_for`'s.

        Many answers are drawn in pieces, on all cores. The pieces are the same on however many, and each has a stream
        of its own, made in their order: so a seed gives the same noise everywhere. The streams of two pieces are keyed
        independently (`Entropy.apart`), as those of two releases are, so all draws are independent, as in one stream.
        """
        marginals = self._marginals(workload)
        law, parameter = noise_for(workload, cost, self.neighbours)
        self._spend(f"measure {_described(workload)}", cost)
        values, bounds = np.empty(len(workload)), workload.bounds
        cuts = workload.cuts(_DRAWN)
        streams = self._streams(len(cuts))

        def work(piece: int) -> None:
            first, last = cuts[piece]
            place = slice(int(bounds[first]), int(bounds[last]))
            drawn = _draw(law, parameter, place.stop - place.start, streams[piece])
            at = 0
            for exact in _applied(workload.groups[first:last], marginals, law.unit):
                drawn[at : at + len(exact)] += exact
                at += len(exact)
            np.multiply(drawn, law.unit, out=values[place])

        if streams[0] is self.entropy:
            for piece in range(len(cuts)):
                work(piece)
        else:
            at_once(work, range(len(cuts)))
        places = pairwise(bounds.tolist())
        return [Measurement(g, values[a:b], law) for g, (a, b) in zip(workload.groups, places, strict=True)]

    def _streams(self, pieces: int) -> list[WordSource]:
        """One for each piece; the same for all, which take turns, where it is one piece or no `Entropy`."""
        if pieces == 1 or not isinstance(self.entropy, Entropy):
            return [self.entropy] * pieces
        return [self.entropy.apart() for _ in range(pieces)]

    def count(self, cost: PureDP | ZCDP | None) -> tuple[float, Measurement | None]:
        """The number of records, and its measurement, of `RECORDS`. Public, hence exact and free (None), if replaced.

        Raises `InvalidInput` without a cost under add-remove.
        """
        n = len(self.table)
        if self.neighbours is Neighbours.REPLACE_ONE:
            return float(n), None
        if cost is None:
            raise InvalidInput("the number of records is private under add-remove: it has a cost")
        law, parameter = calibrated(1, cost)
        self._spend("count the records", cost)
        noisy = (n + _draw(law, parameter, 1, self.entropy)).astype(np.float64)  # added as integers: floats are rounded
        return float(noisy[0]), Measurement(RECORDS, noisy, law)

    def select(self, scores: Ints, sensitivity: int, cost: PureDP | ZCDP, rule: Rule) -> int:
        """The index of a large score; one record moves each score by at most `sensitivity`, in either direction.

        ε is `selection_epsilon`.
        """
        epsilon = selection_epsilon(cost, rule)
        self._spend(f"select by {rule}", cost)
        select = selection.exponential_mechanism if rule == "exponential" else selection.permute_and_flip
        return select(scores, epsilon, sensitivity, self.entropy)


def _draw(law: Noise, parameter: Fraction, size: int, source: WordSource) -> Ints:
    return _SAMPLERS[law.law](parameter, size, source)


def selection_epsilon(cost: PureDP | ZCDP, rule: Rule) -> Fraction:
    """ε of a selection at a cost: under zCDP √(8ρ) or √(2ρ), rounded down.

    There the exponential mechanism at ε costs ε²/8 (bounded range, Cesar & Rogers 2021), permute-and-flip ε²/2.
    `InvalidInput` for another kind of cost, and where ε would be 0.
    """
    check_cost(cost, PureDP, ZCDP)
    if isinstance(cost, PureDP):
        return Fraction(cost.epsilon)
    square = (8 if rule == "exponential" else 2) * Fraction(cost.rho)
    root = Fraction(math.isqrt((square.numerator << 2 * _EPSILON_BITS) // square.denominator), 1 << _EPSILON_BITS)
    if not root:
        raise InvalidInput(f"rho is too small for a selection, got {cost.rho}")
    return root


def _applied(groups: Sequence[Group], marginals: Mapping[Axes, Ints], unit: float) -> Iterator[Ints]:
    """The exact answers of groups one after another, in these units; those of like residuals together."""
    for queries, alike in groupby(groups, key=attrgetter("queries")):
        tables = [marginals[g.axes] for g in alike]
        factor = int(queries.unit / unit)
        for table in [np.stack(tables)] if isinstance(queries, Residuals) else tables:
            exact = queries.apply(table).reshape(-1)
            yield exact * factor if factor > 1 else exact


def _described(workload: Workload) -> str:
    names = workload.domain.names
    if len(workload.groups) > 1:
        return f"{len(workload.groups)} groups of queries"
    (group,) = workload.groups
    return f"{group.queries.to_json()['type']} of {' * '.join(names[a] for a in group.axes)}"
