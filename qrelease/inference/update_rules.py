"""Database update rules, which change a hypothesis by noisy answers (Dwork & Roth 2014, §4.2 and §5.2).

A rule sees public things only. `update` gets every measurement so far, the newest last, so that a rule may replay old
ones; a rule that does not need them looks at the last.

`Hedge`, `Projection`, `Perceptron` and `Median` have a bound T(α) on the number of their updates. Let x be a table of n
records and y a hypothesis, both read as fractions. If each update comes with a query q and a noisy answer v for which
|q(x) - q(y)| >= α, and v lies on the same side of q(y) as q(x) does, then there are at most T(α) updates, however the
queries are chosen. Of a measurement of several queries, they learn from the one that is furthest off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, final, runtime_checkable

import numpy as np

from qrelease._util.typing import Axes, Floats
from qrelease._util.validate import accuracy
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.hypotheses import Dual
from qrelease.inference.measurement import Measurement
from qrelease.inference.synopsis import Synopsis
from qrelease.queries.workload import Group, Workload, single

State = TypeVar("State")

BIAS_MARGIN: Final = 2.0**-30
"""`Projection` keeps what a hypothesis answers to a query this far away from none and from all of the records."""

MIN_PROJECTION_ALPHA: Final = 2.0**-28
"""The least α of `Projection`: a smaller move would be lost in `BIAS_MARGIN`."""


class UpdateRule(Protocol[State]):
    """How a hypothesis learns from noisy answers: U of the text. Its state, the hypothesis, is a `Synopsis`.

    Whoever writes a rule of their own writes these two methods. A rule sees what is public alone.

    Examples
    --------
    A rule that learns nothing but keeps what it began with:

    >>> import numpy as np
    >>> import qrelease as qr
    >>> class Unmoved:
    ...     def start(self, domain, sets, total):
    ...         return qr.WeightedRecords.equal(domain, np.arange(domain.size), total)
    ...
    ...     def update(self, state, measurements):
    ...         return state
    >>> domain = qr.Domain.coded({"sex": 2})
    >>> Unmoved().start(domain, [(0,)], 10.0).answer(qr.Workload.marginals(domain, 1)).tolist()
    [5.0, 5.0]
    """

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> State:
        """The hypothesis before any answer: D¹ = U(∅).

        Parameters
        ----------
        domain : Domain
            The universe.
        sets : sequence of tuple of int
            The marginals that the queries are on, each as the numbers of its columns.
        total : float
            The number of records, a count.

        Returns
        -------
        Synopsis
            The first hypothesis.
        """

    def update(self, state: State, measurements: Sequence[Measurement]) -> State:
        """The next hypothesis, D^(t+1).

        Parameters
        ----------
        state : Synopsis
            The present hypothesis, which may be changed in place.
        measurements : sequence of Measurement
            All measurements so far, the newest last.

        Returns
        -------
        Synopsis
            The hypothesis that has learned from the newest.
        """


@runtime_checkable
class BoundedRule(UpdateRule[State], Protocol[State]):
    """A rule that makes at most T(α) updates: a T(α)-database update algorithm (Dwork & Roth 2014, §5.2).

    Examples
    --------
    >>> import qrelease as qr
    >>> isinstance(qr.Perceptron(0.2), qr.BoundedRule), qr.Perceptron(0.2).update_bound(qr.Domain.coded({"sex": 2}))
    (True, 6)
    """

    @property
    def alpha(self) -> float:
        """α, the least gap that an update is made for, a fraction of the records."""

    def update_bound(self, domain: Domain, workload: Workload | None = None) -> int:
        """T(α): the number of updates that the rule makes at most.

        Parameters
        ----------
        domain : Domain
            The universe.
        workload : Workload, optional
            What updates are made by; by default any linear queries.

        Returns
        -------
        int
            The bound.
        """


@runtime_checkable
class ConditionalRule(Protocol):
    """A rule whose T(α) rests on something that is to be proved."""

    def proved(self, workload: Workload | None) -> bool:
        """Whether T(α) holds for every table.

        Parameters
        ----------
        workload : Workload or None
            What updates are made by; None is any linear queries.

        Returns
        -------
        bool
            False where T(α) rests on something that was not proved for these queries.
        """


@final
@dataclass(frozen=True)
class Hedge:
    """Multiplicative weights as in the text: y ∝ y · e^(±η q), η = α/2 (Dwork & Roth 2014, Algorithm 5).

    Up where v is above q(y), down where it is below. (For v >= q(y) the text scales by e^(-η (1 - q)): the same, as the
    total stays.) Queries may be on any columns, whether or not the rule was started with them.

    Parameters
    ----------
    alpha
        α, the least gap between the table's answer and the hypothesis's that an update is made for, a fraction of the
        records.

    Raises
    ------
    InvalidInput
        For an α outside (0, 1).

    References
    ----------
    Dwork & Roth 2014, Algorithm 5 and Theorem 4.10.

    Examples
    --------
    >>> domain = Domain.coded({"sex": 2, "age": 10})
    >>> Hedge(0.1).update_bound(domain)
    1198
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
        return _stepped(state, measurements[-1], lambda query, gap: math.copysign(self.alpha / 2, gap))


@final
@dataclass(frozen=True)
class Projection:
    """Multiplicative weights, with a step that suits the query: η = logit(p ± α) - logit(p), where p = q(y).

    y ∝ y · e^(ηq) then answers a counting query with p ± α: it is the nearest distribution, in relative entropy, that
    does so (Csiszár 1975, *I-divergence geometry*), as in iterative proportional fitting. Other queries move less.

    Parameters
    ----------
    alpha
        As of `Hedge`; at least 2^-28.

    Raises
    ------
    InvalidInput
        For another α.

    References
    ----------
    Csiszár 1975, *I-divergence geometry of probability distributions and minimization problems*.
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", accuracy("alpha", self.alpha))
        if self.alpha < MIN_PROJECTION_ALPHA:
            raise InvalidInput(f"alpha must be at least 2^-28, got {self.alpha:g}")

    def update_bound(self, domain: Domain, workload: Workload | None = None) -> int:
        """T(α) = ln|X| / 2α², rounded down: an eighth of the text's.

        *Proof.* KL(x ‖ y) is at most ln|X| at the start and never negative. Say q(x) >= p + α. An update lowers the
        divergence by η q(x) - ln(Σ y e^(ηq)). As e^(ηq) <= 1 - q + q e^η on [0, 1], that is at least
        η (p + α) - ln(1 - p + p e^η), the divergence of a coin of bias p + α from one of bias p, for this η. By
        Pinsker's inequality it is at least 2α². With 1 - q for q it is the same where q(x) <= p - α. (Biases are kept
        `BIAS_MARGIN` away from 0 and 1. There, one coin's divergence from the other exceeds 2α² by far more than that
        costs, as α is at least four times that.)
        """
        return math.floor(math.log(domain.size) / (2 * self.alpha**2))

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Dual:
        """The uniform distribution."""
        return Dual(domain, total, "entropic")

    def update(self, state: Dual, measurements: Sequence[Measurement]) -> Dual:
        """One step by the newest measurement."""

        def step(query: Group, gap: float) -> float:
            bias = float(state.answer(Workload(state.domain, (query,)))[0]) / state.total
            return _logit(bias + math.copysign(self.alpha, gap)) - _logit(bias)

        return _stepped(state, measurements[-1], step)


@final
@dataclass(frozen=True)
class Perceptron:
    """The additive rule (after Frieze & Kannan 1999): y ± (α/‖q̄‖²) q̄, a signed hypothesis.

    q̄ is the query less its mean over the universe, so that the sum of y stays.

    Parameters
    ----------
    alpha
        As of `Hedge`.

    References
    ----------
    Frieze & Kannan 1999, *Quick approximation to matrices and applications*.

    Examples
    --------
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"age": 4, "sex": 2})
    >>> qr.Perceptron(0.125).update_bound(domain, qr.Workload.marginals(domain, 1))
    112
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

        def step(query: Group, gap: float) -> float | None:
            squares = float(_centred_squares(state.domain, query)[0])
            return math.copysign(self.alpha / squares, gap) if squares > 0 else None

        return _stepped(state, measurements[-1], step)


def furthest_off(state: Synopsis, measurement: Measurement) -> tuple[Group, float]:
    """The query of a measurement that the hypothesis answers worst, as a group of one, and v - q(y) in counts.

    Parameters
    ----------
    state : Synopsis
        The hypothesis y.
    measurement : Measurement
        Noisy answers v to a group of queries.

    Returns
    -------
    query : Group
        A group of this query alone.
    gap : float
        How far the noisy answer is above that of the hypothesis, a count.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> from qrelease.noise.distributions import Noise
    >>> domain = qr.Domain.coded({"sex": 2})
    >>> (group,) = qr.Workload.marginals(domain, 1).groups
    >>> measured = qr.Measurement(group, np.array([6.0, 1.0]), Noise("discrete Laplace", 1.0))
    >>> query, gap = qr.furthest_off(qr.WeightedRecords.equal(domain, np.arange(2), 8.0), measured)
    >>> query.queries.count, gap
    (1, -3.0)
    """
    gaps = measurement.values - state.answer(Workload(state.domain, (measurement.group,)))
    worst = int(np.argmax(np.abs(gaps)))
    return single(measurement.group, worst), float(gaps[worst])


def _stepped(state: Dual, measurement: Measurement, step: Callable[[Group, float], float | None]) -> Dual:
    """The hypothesis, moved along the query that it answers worst, by the step that a rule makes for it and its gap."""
    query, gap = furthest_off(state, measurement)
    length = step(query, gap)
    if length is not None:
        state.move(query, length)
    return state


def _logit(bias: float) -> float:
    kept = min(max(bias, BIAS_MARGIN), 1 - BIAS_MARGIN)
    return math.log(kept / (1 - kept))


def _centred_squares(domain: Domain, group: Group) -> Floats:
    """‖q̄‖² of each query, (k,), over the universe."""
    queries = group.queries
    sums = queries.apply(np.ones(queries.cells)) * queries.unit
    return (queries.squares() - sums**2 / queries.cells) * (domain.size // queries.cells)
