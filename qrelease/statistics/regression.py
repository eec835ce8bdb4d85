"""Linear and logistic regression from noisy sums: an objective of degree 2 at once, or gradients step by step.

All sums are exact whole numbers. A row x has whole entries and a bounded length (`design`); what multiplies it, a
residual or a slope, is a whole number that depends on the record and on public weights alone, by whole arithmetic and
one public table of the logistic function. No record's part depends on how many others there are, as a sum of floats
would.

**The functional mechanism** (Zhang, Zhang, Xiao, Yang & Winslett 2012) is pure ε: Laplace noise on the coefficients of
the objective, of degree 2. For squares these are XᵀX and Xᵀy, as in `adassp`; the logistic loss is replaced by its
Taylor polynomial ln 2 − yz/2 + z²/8, so that XᵀX/4 and Xᵀy/2 are. The noise makes it unbounded, which the ridge of
`adassp` mends.

**Noisy descent** sums clipped gradients: Σ clip(loss'(z) x) + noise at each of T steps. At σ and clip b it costs
ρ = T b²/(2σ²) when a record comes or goes, 4 times that when one is replaced, and the number of records what it costs;
both are in the spends. To call that "ε a step" and leave the sum out is the published mistake. With B batches each
record draws its own batch, an epoch of B steps costs as one step does, since each record is in one of them. With
`clip_inputs` rows are shortened instead: the gradient is at most |loss'| ‖x‖, for logistic and Huber losses. A tenth of
ρ buys XᵀX with noise, whose multiple bounds the curvature everywhere (Böhning & Lindsay 1988): steps are taken in its
metric, so that twenty are enough. The text's descent is `curvature=0`. Steps are Nesterov's, with an average of the
second half: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Literal, final, get_args

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import natural, positive, probability
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated, concentrated
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, split
from qrelease.queries.workload import Workload
from qrelease.statistics.base import EstimateResult, Measured, spelled
from qrelease.statistics.design import UNIT, Design, root_up
from qrelease.statistics.private_columns import PrivateColumns, moves

Loss = Literal["linear", "logistic", "huber"]

SLOPE: Final = 1 << 12
"""What a slope of 1 is in whole numbers."""
WEIGHT: Final = 1 << 12
"""What a weight of 1 is in whole numbers."""
LARGEST_WEIGHT: Final = 64.0
_ENTRIES: Final = 1 << 14  # entries of the logistic function on -16..16
_HUBER_END: Final = 0.25  # where the Huber loss becomes linear, a target's half range being 1
_EXACT_SUM: Final = 1 << 52  # sums of whole numbers in floats are exact up to there
_COUNT_SHARE: Final = 0.02
_GRADIENT_RIDGE: Final = 20.0  # least ridge of the metric, in deviations of the noise of a gradient: by trials on Adult


def targets_of(design: Design, loss: Loss, positive_label: str | None) -> tuple[Ints, Ints]:
    """The value y of each cell of the target, from -UNIT to UNIT, and whether it is there."""
    if loss == "logistic":
        signs, _ = design.labels(positive_label)
        return UNIT * signs, np.abs(signs)
    return design.numbers()


def moments_of(rows: Ints, target: Ints) -> tuple[Ints, Ints]:
    """XᵀX and Xᵀy, exact: each product is below 2^20, so so many rows at a time fit a float."""
    p = rows.shape[1]
    gram, cross = np.zeros((p, p), np.int64), np.zeros(p, np.int64)
    for at in range(0, len(rows), _EXACT_SUM // UNIT**2):
        part, y = (
            rows[at : at + _EXACT_SUM // UNIT**2].astype(np.float64),
            target[at : at + _EXACT_SUM // UNIT**2],
        )
        gram += np.rint(part.T @ part).astype(np.int64)
        cross += np.rint(part.T @ y.astype(np.float64)).astype(np.int64)
    return gram, cross


def solved(gram: Floats, cross: Floats, deviation: float) -> Floats:
    """The ridge solution of noisy moments whose entries have that standard deviation, by the rule of AdaSSP."""
    return np.clip(inverse(gram, deviation) @ cross, -LARGEST_WEIGHT, LARGEST_WEIGHT)


def inverse(gram: Floats, deviation: float, floor: float = 0.0) -> Floats:
    """(A + λI)⁻¹ of noisy second moments, without their negative eigenvalues; λ = s√p less the least one of A.

    floor  what λ is at least
    """
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    ridge = max(deviation * math.sqrt(len(gram)) - float(values[0]), floor)
    found: Floats = (vectors / np.maximum(values + ridge, 1.0)) @ vectors.T
    return found


def symmetric(upper: Ints, width: int) -> Floats:
    """The matrix of an upper triangle."""
    found = np.zeros((width, width))
    found[np.triu_indices(width)] = upper
    return found + np.triu(found, 1).T


@final
@dataclass(frozen=True)
class FunctionalMechanism:
    """Linear or logistic regression from an objective of degree 2 with noisy coefficients, under pure ε.

    With `positive` the loss is the polynomial that approximates the logistic one. The value and the promise are those
    of `AdaSSP`.

    Parameters
    ----------
    target : str
        The column that is predicted.
    features : tuple of str, optional
        The columns that it is predicted from; by default all others.
    positive : str, optional
        The category of the target that counts as 1, for a logistic regression; without it the regression is linear.

    References
    ----------
    Zhang, Zhang, Xiao, Yang & Winslett 2012, *Functional mechanism: regression analysis under differential
    privacy*. Where the noise leaves the objective unbounded they regularise it and drop eigenvalues; here the ridge
    of Wang 2018 does it.

    Examples
    --------
    >>> import qrelease as qr
    >>> x = np.arange(6000) % 2
    >>> table = qr.Table(qr.Domain.coded({"x": 2, "y": 2}), (x, 1 - x))
    >>> with qr.Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
    ...     curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
    ...     found = curator.estimate(FunctionalMechanism("y", positive="1"), qr.PureDP(1.0))
    >>> found.value["x"][0] > found.value["x"][1]
    True
    """

    target: str
    features: tuple[str, ...] | None = None
    positive: str | None = None

    name: ClassVar[str] = "functional-mechanism"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        design = Design.of(domain, self.target, self.features)
        targets_of(design, "linear" if self.positive is None else "logistic", self.positive)
        if not isinstance(cost, PureDP):
            raise InvalidInput(
                f"the functional mechanism costs a pure epsilon, got {cost}; adassp is better with a delta"
            )
        calibrated(self._moved(design, neighbours), cost)

    def _moved(self, design: Design, neighbours: Neighbours) -> int:
        """Δ₁ of the upper triangle of XᵀX and of Xᵀy."""
        return moves(neighbours) * (design.moment_sum + (len(design.features) + 1) * UNIT**2)

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        design = Design.of(private.domain, self.target, self.features)
        loss: Loss = "linear" if self.positive is None else "logistic"
        gram, cross = private_moments(private, design, loss, self.positive)
        upper = np.triu_indices(design.width)
        exact = np.concatenate([gram[upper], cross])
        noisy, law = private.measure(
            "coefficients of the objective", exact, self._moved(design, private.neighbours), cost
        )
        cut = len(upper[0])
        scale = 1.0 if loss == "linear" else 2.0  # XᵀX/4 w = Xᵀy/2
        return ridge_estimate(design, noisy[:cut], law, noisy[cut:], law, scale)

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of an entry of XᵀX/n or Xᵀy/n."""
        design = Design.of(domain, self.target, self.features)
        p = design.width
        most = calibrated(self._moved(design, neighbours), cost)[0].largest_of(p * (p + 3) // 2, beta)
        return most / UNIT**2 / records if most < 2 * UNIT**2 * records else math.inf


def private_moments(private: PrivateColumns, design: Design, loss: Loss, label: str | None) -> tuple[Ints, Ints]:
    """XᵀX and Xᵀy of the records that have a target, exact."""
    target, known = targets_of(design, loss, label)
    cells = private.cells(design.target)
    return moments_of(design.rows(private) * known[cells][:, None], target[cells])


def ridge_estimate(
    design: Design, noisy: Ints, law: Noise, mixed: Ints, mixed_law: Noise, scale: float = 1.0
) -> EstimateResult:
    """The ridge solution of noisy moments XᵀX and scale · Xᵀy, with what was measured."""
    gram = symmetric(noisy, design.width)
    solution = solved(gram, scale * mixed.astype(np.float64), math.sqrt(law.variance))
    records = float(gram[0, 0]) / UNIT**2
    return EstimateResult(
        design.weights(solution),
        None,
        "ridge regression from noisy moments; the weights have no interval",
        "the least squares of the records that have a target",
        (
            Measured("upper triangle of the second moments", tuple(noisy.tolist()), spelled(law)),
            Measured("features times the target", tuple(mixed.tolist()), spelled(mixed_law)),
        ),
        typical=math.sqrt(law.variance) / UNIT**2 / max(records, 1.0),
        records=max(records, 0.0) - law.largest_of(1, 0.025) / UNIT**2,
        unit="of an entry of the mean second moments",
    )


@final
@dataclass(frozen=True)
class NoisyDescent:
    """Linear, Huber or logistic regression by noisy gradient descent.

    Value and attributes are those of `AdaSSP`, with the weights of the loss that is named. What it promises
    (`error_bound`) is the largest noise in a coordinate of any mean gradient.

    Attributes
    ----------
    target, features, positive
        As in `AdaSSP`; `positive` is for logistic regression.
    loss
        `linear`: squares; `huber`: squares up to a residual of 0.25, then linear; `logistic`.
    epochs
        T, how often each record is used.
    batches
        B, how many steps an epoch has.
    clip
        b, the largest length of a gradient, as a share of the longest row times a slope of 1.
    clip_inputs
        Shorten rows to b instead, and slopes to 1.
    curvature
        The share of the budget for noisy second moments, in whose metric steps are taken; 0 for plain steps, of which
        about 150 are needed.

    References
    ----------
    Bassily, Smith & Thakurta 2014, Abadi et al. 2016; Böhning & Lindsay 1988 for the metric. To call the cost of
    one step that of all is the published mistake: here the sum is charged.

    Examples
    --------
    >>> import qrelease as qr
    >>> x = np.arange(6000) % 2
    >>> table = qr.Table(qr.Domain.coded({"x": 2, "y": 2}), (x, 1 - x))
    >>> with qr.Ledger.open(None, qr.ZCDP(0.1), dataset="people") as ledger:
    ...     found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(NoisyDescent("y"), qr.ZCDP(0.1))
    >>> found.value["x"][0] > found.value["x"][1]
    True
    """

    target: str
    features: tuple[str, ...] | None = None
    positive: str | None = None
    loss: Loss = "logistic"
    epochs: int = 20
    batches: int = 1
    clip: float = 0.5
    clip_inputs: bool = False
    curvature: float = 0.1

    name: ClassVar[str] = "noisy-descent"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        design = Design.of(domain, self.target, self.features)
        if self.loss not in get_args(Loss):
            raise InvalidInput(f"loss must be one of {', '.join(get_args(Loss))}, got {self.loss!r}")
        if self.positive is not None and self.loss != "logistic":
            raise InvalidInput("positive is for logistic regression")
        targets_of(design, self.loss, self.positive)
        natural("epochs", self.epochs)
        natural("batches", self.batches)
        positive("clip", self.clip)
        probability("curvature", self.curvature)
        _, _, steps = self.costs(cost)
        self.law(design, steps[0], neighbours)

    def costs(self, cost: Cost) -> tuple[ZCDP, ZCDP | None, tuple[ZCDP, ...]]:
        """How the cost is divided: their sum is the whole.

        Parameters
        ----------
        cost : Cost
            What the estimate may cost.

        Returns
        -------
        tuple of ZCDP, ZCDP or None, and tuple of ZCDP
            For the number of records, for the second moments, and for each epoch.

        Raises
        ------
        InvalidInput
            For a pure ε.
        """
        counting, rest = split(concentrated(cost, "noisy-descent"), [_COUNT_SHARE, 1 - _COUNT_SHARE])
        metric = None
        if self.curvature:
            metric, rest = split(rest, [self.curvature, 1 - self.curvature])
        return counting, metric, split(rest, [1] * self.epochs)

    def gradient_bound(self, design: Design) -> int:
        """The largest length of one record's gradient, which is a slope times a row.

        Parameters
        ----------
        design : Design
            The rows as whole numbers.

        Returns
        -------
        int
            In units of the whole-number gradients that are summed.
        """
        share = min(self.clip, 1.0) if self.loss != "linear" else self.clip
        return max(1, math.floor(share * math.isqrt(design.square))) * SLOPE

    def law(self, design: Design, cost: ZCDP, neighbours: Neighbours) -> Noise:
        """The distribution of the noise on a sum of gradients.

        Parameters
        ----------
        design : Design
            The rows as whole numbers.
        cost : ZCDP
            What one sum costs.
        neighbours : Neighbours
            Which tables the promise compares.

        Returns
        -------
        Noise
            In the units of `gradient_bound`.
        """
        return calibrated(moves(neighbours) ** 2 * self.gradient_bound(design) ** 2, cost)[0]

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        design = Design.of(private.domain, self.target, self.features)
        counting, metric, epochs = self.costs(cost)
        target, known = targets_of(design, self.loss, self.positive)
        cells = private.cells(self.target)
        there = known[cells] > 0
        rows, y = design.rows(private)[there], target[cells][there]
        moved = moves(private.neighbours)
        noisy, law = private.measure("number of records with a target", np.array([len(rows)]), moved**2, counting)
        records, bound = max(float(noisy[0]), 1.0), self.gradient_bound(design)
        problem = RegressionRecords.of(rows, y, self.loss, bound, self.clip_inputs)
        batch = np.zeros(len(rows), np.int64)
        if self.batches > 1:  # each record by its own draw; any law does that the records do not share
            batch = private.noise.noise(*calibrated(100 * self.batches, PureDP(1.0)), len(rows)) % self.batches
        largest = (0.25 if self.loss == "logistic" else 1.0) * (len(design.features) + 1)  # curvature of a record
        step = np.eye(design.width) / largest
        if metric is not None:
            upper = np.triu_indices(design.width)
            shape = moments_of(problem.rows.astype(np.int64), y)[0][upper]
            what = "second moments of the features"
            shape, law = private.measure(what, shape, moved**2 * design.moment_square, metric)
            gradient_noise = UNIT / SLOPE * self.law(design, epochs[0], private.neighbours).scale
            floor = _GRADIENT_RIDGE * gradient_noise / (0.25 if self.loss == "logistic" else 1.0)
            step = inverse(symmetric(shape, design.width), math.sqrt(law.variance), floor) * UNIT**2 * records
            step *= 4.0 if self.loss == "logistic" else 1.0
        descent = _Descent(step, self.epochs * self.batches)
        for epoch, price in enumerate(epochs):
            weights: list[Ints] = []
            for b in range(self.batches):
                weights.append(descent.point)
                chosen = problem if self.batches == 1 else problem.only(batch == b)
                # All batches of an epoch are one vector, of which a record moves one part: one spend.
                what = f"gradient of epoch {epoch + 1}" + (f", batch {b + 1}" if self.batches > 1 else "")
                gradient, law = self._drawn(private, what, chosen.gradient(weights[-1]), moved**2 * bound**2, price, b)
                descent.step(gradient * self.batches / (records * UNIT * SLOPE))
        return EstimateResult(
            design.weights(descent.solution),
            None,
            "noisy gradient descent; the weights have no interval",
            f"the {self.loss} loss of the records that have a target",
            (Measured("number of records with a target", int(noisy[0]), spelled(law)),),
            {"steps": self.epochs * self.batches, "noise of a gradient": law.scale / (UNIT * SLOPE)},
            typical=self.batches * law.scale / (UNIT * SLOPE) / records,
            records=records - calibrated(moved**2, counting)[0].reach(0.025),
            unit="of a coordinate of a mean gradient",
        )

    def _drawn(
        self, private: PrivateColumns, what: str, exact: Ints, sensitivity: int, cost: ZCDP, batch: int
    ) -> tuple[Ints, Noise]:
        """A noisy gradient; the first batch of an epoch pays for all."""
        if batch == 0:
            return private.measure(what, exact, sensitivity, cost)
        law, parameter = calibrated(sensitivity, cost)
        return exact + private.noise.noise(law, parameter, len(exact)), law

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of a coordinate of any mean gradient, by the noisy number of records."""
        design = Design.of(domain, self.target, self.features)
        counting, _, epochs = self.costs(cost)
        draws = design.width * self.epochs * self.batches
        most = self.law(design, epochs[0], neighbours).largest_of(draws, beta / 2) / (UNIT * SLOPE)
        left = records - calibrated(moves(neighbours) ** 2, counting)[0].reach(beta / 2)
        return self.batches * most / left if left > 0 and most < 1e3 * left else math.inf


@dataclass(frozen=True)
class RegressionRecords:
    """The private side: rows, targets, and how large each slope may be, all whole numbers."""

    rows: Floats
    targets: Ints
    slopes: Ints
    loss: Loss
    bound: int

    @classmethod
    def of(cls, rows: Ints, targets: Ints, loss: Loss, bound: int, clip_inputs: bool) -> RegressionRecords:
        """slopes  |slope| ‖x‖ ≤ bound: whole division by a root that is rounded up"""
        squares = (rows * rows).sum(axis=1)
        lengths = {square: root_up(square) for square in np.unique(squares).tolist()}
        known = np.array(list(lengths)), np.array(list(lengths.values()))
        long = known[1][np.searchsorted(known[0], squares)] if len(rows) else np.ones(0, np.int64)
        if clip_inputs:
            shortest = bound // SLOPE
            rows = np.where((long > shortest)[:, None], rows * shortest // np.maximum(long, 1)[:, None], rows)
            rows = np.where((rows * rows).sum(axis=1, keepdims=True) > shortest**2, 0, rows)
            return cls(rows.astype(np.float64), targets, np.full(len(rows), SLOPE), loss, bound)
        return cls(rows.astype(np.float64), targets, bound // np.maximum(long, 1), loss, bound)

    def only(self, chosen: Ints) -> RegressionRecords:
        """The same problem for some of the records."""
        return RegressionRecords(self.rows[chosen], self.targets[chosen], self.slopes[chosen], self.loss, self.bound)

    def gradient(self, weights: Ints) -> Ints:
        """The sum of clipped gradients at whole weights, exact, (p,)."""
        total, step = np.zeros(len(weights), np.int64), max(1, _EXACT_SUM // self.bound)
        for at in range(0, len(self.rows), step):
            part = slice(at, at + step)
            slopes = np.clip(self.slopes_at(weights, part), -self.slopes[part], self.slopes[part])
            total += np.rint(slopes.astype(np.float64) @ self.rows[part]).astype(np.int64)
        return total

    def slopes_at(self, weights: Ints, part: slice) -> Ints:
        """loss' of some records at whole weights, not clipped; a residual where the loss is squares."""
        z = np.rint(self.rows[part] @ weights.astype(np.float64)).astype(np.int64)  # exact: below 2^52
        return slopes_of(z, self.targets[part], self.loss)


def slopes_of(z: Ints, targets: Ints, loss: Loss) -> Ints:
    """loss'(z) in parts of `SLOPE`, from whole numbers alone; z in parts of UNIT · WEIGHT, y in parts of UNIT."""
    if loss == "logistic":
        # loss' = −y σ(−yz): of a table at the floor of yz.
        signed = z * np.sign(targets)
        place = np.clip(signed * (_ENTRIES // 32) // (UNIT * WEIGHT) + _ENTRIES // 2, 0, _ENTRIES - 1)
        return -np.sign(targets) * _logistic()[place]
    residual = (z - targets * WEIGHT) // (UNIT * WEIGHT // SLOPE)
    return np.clip(residual, -int(_HUBER_END * SLOPE), int(_HUBER_END * SLOPE)) if loss == "huber" else residual


@cache
def _logistic() -> Ints:
    """σ(−t) in parts of `SLOPE`, at the middles of steps of 32/_ENTRIES from -16 to 16."""
    t = (np.arange(_ENTRIES) + 0.5) * (32 / _ENTRIES) - 16
    found: Ints = np.rint(SLOPE / (1 + np.exp(t))).astype(np.int64)
    return found


class _Descent:
    """Nesterov's steps, and the average of the second half; all of it is public."""

    def __init__(self, step: Floats, steps: int) -> None:
        self._at = self._before = self._sum = np.zeros(len(step))
        self._step, self._steps, self._done = step, steps, 0  # the step is an inverse of the largest curvature

    @property
    def point(self) -> Ints:
        """Where the next gradient is taken, in parts of `WEIGHT`."""
        ahead = self._at + self._momentum * (self._at - self._before)
        found: Ints = np.rint(np.clip(ahead, -LARGEST_WEIGHT, LARGEST_WEIGHT) * WEIGHT).astype(np.int64)
        return found

    @property
    def _momentum(self) -> float:
        return self._done / (self._done + 3)

    def step(self, gradient: Floats) -> None:
        """A noisy mean gradient at `point`."""
        new = np.clip(self.point / WEIGHT - self._step @ gradient, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        self._before, self._at = self._at, new
        self._done += 1
        if 2 * self._done > self._steps:
            self._sum = self._sum + new

    @property
    def solution(self) -> Floats:
        """The average of the points of the second half of the steps."""
        return self._sum / max(self._done - self._steps // 2, 1)


def regression_from_marginals(
    domain: Domain,
    target: str,
    answer: Callable[[Workload], Any],
    features: tuple[str, ...] | None = None,
    *,
    positive: str | None = None,
    deviation: float = 0.0,
) -> dict[str, float | tuple[float, ...]]:
    """Linear regression from the two-column marginals of a release, at no further cost.

    Parameters
    ----------
    domain
        Of the release.
    target, features, positive
        As in `AdaSSP`.
    answer
        Counts for a workload: `release.answer`.
    deviation
        The standard deviation of the noise in a count, for the ridge: with marginals of a fitted model 0 does.

    Returns
    -------
    dict
        Weights as `AdaSSP` has them.

    Raises
    ------
    InvalidInput
        For columns that do not fit, and for a target that a record may miss.

    Examples
    --------
    >>> import qrelease as qr
    >>> x = np.arange(6000) % 7
    >>> table = qr.Table(qr.Domain.coded({"x": 7, "y": 13}), (x, 2 * x))
    >>> exact = regression_from_marginals(table.domain, "y", lambda w: table.counts(w.sets)[0].astype(float))
    >>> [round(6 + 6 * (exact[""] + w), 1) for w in exact["x"]]
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    """
    design = Design.of(domain, target, features)
    values, known = targets_of(design, "linear" if positive is None else "logistic", positive)
    if known.min() == 0:
        raise InvalidInput(f"a record may miss its {target!r}, and marginals on two columns do not say which")

    def counts(names: tuple[str, ...]) -> Floats:
        """In C order of these names; a workload has its columns in the order of the domain."""
        ordered = sorted(names, key=domain.axis)
        found = np.asarray(answer(Workload.marginals(domain, [tuple(ordered)])), np.float64)
        table = found.reshape([domain[name].size for name in ordered])
        return table.transpose([ordered.index(name) for name in names])

    gram, cross = design.moments(counts, values)
    return design.weights(solved(gram, cross, max(deviation * UNIT**2, 1e-9 * float(gram.max(initial=0.0)))))
