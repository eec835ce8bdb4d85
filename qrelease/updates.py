"""Database update rules: how a hypothesis learns from noisy answers (Dwork & Roth 2014, §4.2 and §5.2).

A rule sees public things only. `update` gets every measurement so far, the newest last, so that a rule may replay old
ones; a rule that does not need them looks at the last.

`Hedge`, `Projection`, `Perceptron` and `Median` have a bound T(α) on the number of their updates. Let x be a table of n
records and y a hypothesis, both read as fractions. If each update comes with a query q and a noisy answer v for which
|q(x) - q(y)| >= α, and v lies on the same side of q(y) as q(x) does, then there are at most T(α) updates, however the
queries are chosen. Of a measurement of several queries, they learn from the one that is furthest off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final, Protocol, TypeVar, final, runtime_checkable

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from qrelease.contracts import Synopsis
from qrelease.cover import Axes
from qrelease.covering import radius
from qrelease.domain import Domain
from qrelease.errors import InvalidInput, QReleaseError
from qrelease.exact import whole
from qrelease.histogram import Histogram
from qrelease.hypotheses import Dual, Medians, single
from qrelease.maxent import improve
from qrelease.measure import Measurement
from qrelease.nets import Candidates, check_candidates
from qrelease.privacy.costs import accuracy, positive_probability, real
from qrelease.residuals import Estimates
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]
State = TypeVar("State")

_EDGE = 2.0**-30

_FINEST: Final = 2.0**-28
"""The least α of `Projection`: a move of less is lost in the edges."""

_FEW = 16  # sweeps of an update that shows no progress

_PROGRAMS: Final = 64  # for the radius of candidates: a second or so


class UpdateRule(Protocol[State]):
    """U of the iterative construction; its state is a `Synopsis`."""

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> State:
        """D¹ = U(∅), for queries on the marginals `sets` and a number of records."""

    def update(self, state: State, measurements: Sequence[Measurement]) -> State:
        """D^{t+1}; may change the old state in place."""


@runtime_checkable
class BoundedRule(UpdateRule[State], Protocol[State]):
    """A T(α)-database update algorithm (Dwork & Roth 2014, §5.2)."""

    @property
    def alpha(self) -> float:
        """α, the least gap, a fraction, that an update is promised to be about."""

    def update_bound(self, domain: Domain, workload: Workload | None = None) -> int:
        """T(α), for updates by queries of a workload, or by any linear queries."""


@runtime_checkable
class ConditionalRule(Protocol):
    """A rule whose T(α) rests on something that is to be proved."""

    def proved(self, workload: Workload | None) -> bool:
        """Whether T(α) holds for every table, for updates by queries of a workload, or by any linear queries."""


@final
@dataclass(frozen=True)
class MultiplicativeWeights:
    """Multiplicative weights on a histogram, with replay of all measurements in each update.

    A sweep scales every cell of the universe by e^(Σ_q q(cell) · s_q), over all measured queries q, where
    s_q = step · (v_q - q(y)) / (q(y) + caution · σ_q), at most 1 in size: v_q the noisy answer and σ_q its standard
    deviation. It is the rule of Hardt, Ligett & McSherry 2012, whose exponent is (v_q - q(y)) / 2n, with a step that
    suits each query instead of the worst one: far above the noise it is the step of iterative proportional fitting,
    which sets q(y) to v_q at once; below the noise it is small, so that noise is not fitted. The step begins at 4/M for
    M > 4 measurements, which pull at the same cells together. It halves when the squared error (in units of σ) did not
    fall, and that sweep is undone; it recovers by a third a sweep.

    sweeps   passes over the universe at each update
    caution  see above; 16 measured best over the tables of the benchmark, and between 4 and 64 it hardly matters
    """

    sweeps: int = 4
    caution: float = 16.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sweeps", whole("sweeps", self.sweeps, least=1))
        object.__setattr__(self, "caution", real("caution", self.caution))
        if self.caution < 0:
            raise InvalidInput(f"caution must be at least 0, got {self.caution}")

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Histogram:
        """The uniform histogram."""
        return Histogram(domain, sets, total)

    def update(self, state: Histogram, measurements: Sequence[Measurement]) -> Histogram:
        """Fit all measurements, in `sweeps` passes."""
        sweeps = self.fitting(state, measurements)
        # A few sweeps are a step of a loop that shows its own progress.
        quiet = None if self.sweeps > _FEW else True
        for _ in tqdm(sweeps, desc="fitting", total=self.sweeps, disable=quiet, leave=False):
            pass
        return state

    def fitting(self, state: Histogram, measurements: Sequence[Measurement]) -> Iterator[None]:
        """`update` in parts: a sweep whenever it is asked for the next."""
        step = min(1.0, 4 / len(measurements))
        error, logs = self._compare(state, measurements)
        for _ in range(self.sweeps):
            state.multiply(step * logs)
            after, turned = self._compare(state, measurements)
            if after > error:
                state.multiply(-step * logs)
                step /= 2
            else:
                error, logs, step = after, turned, min(1.0, step * 4 / 3)
            yield

    def _compare(self, state: Histogram, measurements: Sequence[Measurement]) -> tuple[float, Floats]:
        """The squared error in units of σ, and the exponents of the next sweep, flat over the state's marginals."""
        marginals = state.marginals
        logs = np.zeros_like(marginals)
        error = 0.0
        for m in measurements:
            where = state.slice(m.group.axes)
            queries = m.group.queries
            answers = queries.apply(marginals[where]) * queries.unit
            gaps = m.values - answers
            error += float(gaps @ gaps) / m.variance
            relative = gaps / np.maximum(answers + self.caution * np.sqrt(m.variance), 1e-9)
            # Queries of one group may overlap (ranges do): their steps are shared out among the most on one cell.
            overlap = max(queries.sensitivity(1, replace=False), 1)
            logs[where] += queries.adjoint(np.clip(relative, -1, 1)) / overlap
        return error, logs


@final
@dataclass(frozen=True)
class MaximumEntropy:
    """The maximum-entropy fit of `maxent` to the residuals of whole marginals, a few steps closer at each update.

    A noisy marginal measures the residuals of all subsets of its columns, independently, and what several marginals say
    about the same residuals is averaged by precision (`residuals.Estimates.of` proves it). A step is one of L-BFGS from
    the interactions of the last state.

    Mean L1 on all three-way marginals in the rounds of `MWEM`; of `MultiplicativeWeights` in the same rounds; and of
    `MaxEnt`, which measures everything once. At (ε, 1e-9) single runs, at pure ε = 0.1 means of five, ± 6 %:

                                  this     weights  MaxEnt
        nltcs,  ε = 0.1           0.0552   0.0537   0.0430
        nltcs,  ε = 1             0.0108   0.0101   0.0078
        br2000, ε = 0.1           0.2218   0.2220   0.1675
        br2000, ε = 1             0.0643   0.0558   0.0375
        Adult,  ε = 0.1           0.2618   0.2723   0.2070
        nltcs,  pure ε = 0.1      0.114    0.127
        br2000, pure ε = 0.1      0.240    0.239

    So rounds do not help where `MaxEnt` runs. Where it does not, under pure ε, this is the better rule at most where
    the noise is loud, and the worse one where it is not: strong interactions are shrunk as if columns were independent.

    sweeps  steps of an update, each a pass over the universe, or two
    """

    sweeps: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "sweeps", whole("sweeps", self.sweeps, least=1))

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Histogram:
        """The uniform histogram, on all subsets of the marginals."""
        return Histogram(domain, subsets(sets), total)

    def update(self, state: Histogram, measurements: Sequence[Measurement]) -> Histogram:
        """Closer to the fit of all measurements. `InvalidInput` for one of other queries than cells of a marginal."""
        improve(state, Estimates.of(state.domain, measurements, state.total), self.sweeps)
        return state


def subsets(sets: Sequence[Axes]) -> tuple[Axes, ...]:
    """Marginals, and then those on all subsets of their columns of one column or more."""
    below = (t for s in sets for k in range(1, len(s)) for t in combinations(s, k))
    return tuple(dict.fromkeys([*sets, *below]))


@final
@dataclass(frozen=True)
class Hedge:
    """Multiplicative weights as in the text: y ∝ y · e^(±η q), η = α/2 (Dwork & Roth 2014, Algorithm 5).

    Up where v is above q(y), down where it is below. (For v >= q(y) the text scales by e^(-η (1 - q)): the same, as the
    total stays.) Queries may be on any columns, whether or not the rule was started with them.

    alpha  the least gap, a fraction, that an update is promised to be about
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", accuracy("alpha", self.alpha))

    def update_bound(self, domain: Domain, workload: Workload | None = None) -> int:
        """T(α) = 4 ln|X| / α², rounded down (Dwork & Roth 2014, Theorem 4.10).

        *Proof.* KL(x ‖ y) is at most ln|X| at the start and never negative. Let r = q or 1 - q, whichever y overrates:
        r(y) - r(x) >= α. An update lowers the divergence by -η r(x) - ln(Σ y e^(-η r)). As e^-z <= 1 - z + z² for z in
        [0, 1], that is at least η (r(y) - r(x)) - η² >= ηα - η² = α²/4.
        """
        return math.floor(4 * math.log(domain.size) / self.alpha**2)

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Dual:
        """The uniform distribution."""
        return Dual(domain, total, "entropic")

    def update(self, state: Dual, measurements: Sequence[Measurement]) -> Dual:
        """One step by the newest measurement."""
        query, gap = furthest_off(state, measurements[-1])
        state.move(query, math.copysign(self.alpha / 2, gap))
        return state


@final
@dataclass(frozen=True)
class Projection:
    """Multiplicative weights, with a step that suits the query: η = logit(p ± α) - logit(p), where p = q(y).

    y ∝ y · e^(ηq) then answers a counting query with p ± α: it is the nearest distribution, in relative entropy, that
    does so (Csiszár 1975, *I-divergence geometry*), as in iterative proportional fitting. Other queries move less.

    alpha  the least gap, a fraction, that an update is promised to be about
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", accuracy("alpha", self.alpha))
        if self.alpha < _FINEST:
            raise InvalidInput(f"alpha must be at least 2^-28, got {self.alpha:g}")

    def update_bound(self, domain: Domain, workload: Workload | None = None) -> int:
        """T(α) = ln|X| / 2α², rounded down: an eighth of the text's.

        *Proof.* KL(x ‖ y) is at most ln|X| at the start and never negative. Say q(x) >= p + α. An update lowers the
        divergence by η q(x) - ln(Σ y e^(ηq)). As e^(ηq) <= 1 - q + q e^η on [0, 1], that is at least
        η (p + α) - ln(1 - p + p e^η), the divergence of a coin of bias p + α from one of bias p, for this η. By
        Pinsker's inequality it is at least 2α². With 1 - q for q it is the same where q(x) <= p - α. (Biases are kept
        `_EDGE` away from 0 and 1. There, one coin's divergence from the other exceeds 2α² by far more than that costs,
        as α is at least four times that.)
        """
        return math.floor(math.log(domain.size) / (2 * self.alpha**2))

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Dual:
        """The uniform distribution."""
        return Dual(domain, total, "entropic")

    def update(self, state: Dual, measurements: Sequence[Measurement]) -> Dual:
        """One step by the newest measurement."""
        query, gap = furthest_off(state, measurements[-1])
        bias = float(state.answer(Workload(state.domain, (query,)))[0]) / state.total
        state.move(query, _logit(bias + math.copysign(self.alpha, gap)) - _logit(bias))
        return state


@final
@dataclass(frozen=True)
class Perceptron:
    """The additive rule (after Frieze & Kannan 1999): y ± (α/‖q̄‖²) q̄, a signed hypothesis.

    q̄ is the query less its mean over the universe, so that the sum of y stays.

    alpha  the least gap, a fraction, that an update is promised to be about
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", accuracy("alpha", self.alpha))

    def update_bound(self, domain: Domain, workload: Workload | None = None) -> int:
        """T(α) = (1 - 1/|X|) max ‖q̄‖² / α², rounded down; the maximum is over the workload, or |X|/4 for any queries.

        *Proof.* ‖x - y‖² is ‖x‖² - 1/|X| <= 1 - 1/|X| at the uniform start, and never negative. x and y have the same
        sum, so q̄(x - y) = q(x) - q(y), of size at least α and with the sign s of v - q(y). An update changes ‖x - y‖²
        by -2 (α/‖q̄‖²) s q̄(x - y) + α²/‖q̄‖² <= -α²/‖q̄‖². And ‖q̄‖² <= |X|/4, for entries in [0, 1].
        """
        squares = domain.size / 4
        if workload is not None:
            squares = max(float(_centred_squares(domain, g).max()) for g in workload.groups)
        return math.floor((1 - 1 / domain.size) * squares / self.alpha**2)

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Dual:
        """The uniform distribution."""
        return Dual(domain, total, "euclidean")

    def update(self, state: Dual, measurements: Sequence[Measurement]) -> Dual:
        """One step by the newest measurement; none by a query that counts all records alike."""
        query, gap = furthest_off(state, measurements[-1])
        squares = float(_centred_squares(state.domain, query)[0])
        if squares > 0:
            state.move(query, math.copysign(self.alpha / squares, gap))
        return state


@final
@dataclass(frozen=True)
class Median:
    """Halving: of finitely many candidates, keep those that answer on v's side of their median.

    The hypothesis answers every query with the median of the candidates that are left (Roth & Roughgarden 2010,
    *Interactive privacy via the median mechanism*). It promises to learn only where one candidate answers every query
    within less than α of the table, as fractions, whatever the table: see `proved`. If no candidate is on v's side,
    which then cannot happen, all stay.

    candidates  a net; `nets.Listed` makes one of synopses of any kind
    alpha       the least gap, a fraction, that an update is promised to be about
    radius      where a theorem gives it, as for `nets.quantiles` or by `vc.cover_radius`: how far the nearest candidate
                is from any table at most, a fraction, on the queries that are asked; by default what `covering.radius`
                proves for the workload
    """

    candidates: Candidates
    alpha: float
    radius: float | None = None

    def __post_init__(self) -> None:
        check_candidates("the candidates", self.candidates)
        object.__setattr__(self, "alpha", accuracy("alpha", self.alpha))
        if self.radius is not None:
            object.__setattr__(self, "radius", positive_probability("radius", self.radius))

    def update_bound(self, domain: Domain, workload: Workload | None = None) -> int:
        """T(α) = log2 of the number of candidates, rounded down.

        *Proof.* At most half of the candidates answer with strictly more than their median, or with strictly less; so
        each update at least halves their number. The close candidate answers within less than α of q(x), which is at
        least α away from the median: so it is on the same side as q(x), and as v, and stays. Once it is the only one,
        there is no query with such a gap.
        """
        return len(self.candidates).bit_length() - 1

    def proved(self, workload: Workload | None) -> bool:
        """Whether some candidate is proved to be closer than α to any table; takes seconds where no radius is given."""
        if self.radius is not None:
            return self.radius < self.alpha
        return workload is not None and _proved(self.candidates, workload, self.alpha)

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Medians:
        """All candidates. `InvalidInput` if they are over another domain."""
        if self.candidates.domain != domain:
            raise InvalidInput("the candidates are over another domain than the workload")
        return Medians(self.candidates, total)

    def update(self, state: Medians, measurements: Sequence[Measurement]) -> Medians:
        """One halving by the newest measurement."""
        query, gap = furthest_off(state, measurements[-1])
        return state.halved(query, above=gap > 0)


def furthest_off(state: Synopsis, measurement: Measurement) -> tuple[Group, float]:
    """The query of a measurement that the hypothesis answers worst, as a group of one, and v - q(y) in counts."""
    gaps = measurement.values - state.answer(Workload(state.domain, (measurement.group,)))
    worst = int(np.argmax(np.abs(gaps)))
    return single(measurement.group, worst), float(gaps[worst])


@lru_cache(maxsize=16)
def _proved(candidates: Candidates, workload: Workload, alpha: float) -> bool:
    """Whether the radius of candidates is proved to be below α; a radius that cannot be found is not."""
    try:
        return radius(candidates, workload, alpha=alpha, programs=_PROGRAMS).upper < alpha
    except QReleaseError:
        return False


def _logit(bias: float) -> float:
    kept = min(max(bias, _EDGE), 1 - _EDGE)
    return math.log(kept / (1 - kept))


def _centred_squares(domain: Domain, group: Group) -> Floats:
    """‖q̄‖² of each query, (k,), over the universe."""
    queries = group.queries
    sums = queries.apply(np.ones(queries.cells)) * queries.unit
    return (queries.squares() - sums**2 / queries.cells) * (domain.size // queries.cells)
