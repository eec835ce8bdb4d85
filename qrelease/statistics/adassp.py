"""Linear regression from sufficient statistics, XᵀX and Xᵀy, with noise.

**AdaSSP** (Wang 2018, *Revisiting differentially private linear regression*) releases XᵀX and Xᵀy with Gaussian noise
and solves for the ridge regression, with λ as large as the noise asks: the eigenvalues of the noise alone reach 2s√p,
where s² is the variance of an entry. Half of that is λ here, less the least eigenvalue, and negative ones are set to 0.
The paper spends a third of the budget on the least eigenvalue; here it is read off the noisy matrix, which is free. XᵀX
moves by ‖x‖² in Frobenius norm; only the upper triangle is drawn, which moves by √((‖x‖⁴ + Σx_i⁴)/2), about √2 less.
This is `refinements=0`.

**Refined** it is better, and the default. The noise of XᵀX is multiplied by the weights and by the inverse, and there
are p²/2 entries of it: on columns of many cells it is most of the error, whatever the ridge. So XᵀX gets a fifth of the
budget, of which `SecondMoments` makes the most, and the rest goes to moments of the target. With weights w by then
public, Xᵀ(y − Xw) is a moment of what is left to explain; it has p entries, and its solution is added to w. An error of
XᵀX then matters only in what a step leaves over, so that after a few the noise of p numbers is all there is. What is
left is also smaller than y: it is clipped to r, and the noise falls with r. A histogram of the residuals after the
first step, over bins with ends at 1/8 to 4 by factors of √2, has 3/100 of the budget, in which counts below two
deviations of their noise are taken for 0, and r is the end at which an estimate of squared error is least:

    (Σe/n)² + (Σ|e|/2n)² + r²(f + 1)/(2ρ') · Σ v/(v + λ)²/n,

where e is what is cut off, ρ' what the steps to come cost and v the eigenvalues of XᵀX. The average of the second half
of the steps is the result.

A record moves a step by at most r√(f + 1), as a row of f columns is no longer than √(f + 1); it is in one bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import natural
from qrelease.data.domain import Domain
from qrelease.noise.calibration import calibrated, concentrated
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, split
from qrelease.statistics.base import EstimateResult, Measured, spelled
from qrelease.statistics.design import UNIT, Design
from qrelease.statistics.private_columns import PrivateColumns, moves
from qrelease.statistics.regression import (
    LARGEST_WEIGHT,
    SLOPE,
    WEIGHT,
    Loss,
    RegressionRecords,
    moments_of,
    private_moments,
    ridge_estimate,
    targets_of,
)
from qrelease.statistics.second_moments import SecondMoments

_MOMENTS_SHARE: Final = 0.2
_HISTOGRAM_SHARE: Final = 0.03
_CLIPS: Final = tuple(2 ** (k / 2 - 3) for k in range(11))
"""What residuals may be clipped to, and the ends of the bins of their histogram."""


@final
@dataclass(frozen=True)
class AdaSSP:
    """Linear regression from noisy second moments, with an adaptive ridge; it has nothing to tune.

    Its value has the weights by column: one for each cell, or one for an ordered column with more than 32 cells, which
    counts as a number from -1 to 1; under an empty name, the constant. They predict the target from -1 to 1; see
    `Design.predict`. For a target of two classes say which is `positive`: a linear discriminant.
    What it promises (`error_bound`) is the largest noise in an entry of XᵀX/n that is measured, and in any mean moment
    Xᵀ(y − Xw)/n of clipped residuals; in Xᵀy/n alone where there are no refinements.

    Attributes
    ----------
    target
        An ordered column, or, with `positive`, any.
    features
        Names of columns; by default all others.
    positive
        The value that is 1, all others being -1.
    refinements
        How often the moments of what is left to explain are measured; 0 for Wang's form.

    References
    ----------
    Wang 2018, *Revisiting differentially private linear regression*, for one step; Gavish & Donoho 2017 for the
    shrinkage. The refinements and their proof are in the module's docstring. That it is better than descent is not
    so in one step, nor where the columns explain little of the target: see *Errata of the literature*.

    Examples
    --------
    >>> import qrelease as qr
    >>> x = np.arange(6000) % 7
    >>> table = qr.Table(qr.Domain.coded({"x": 7, "y": 13}), (x, 2 * x))
    >>> with qr.Ledger.open(None, qr.ZCDP(0.1), dataset="people") as ledger:
    ...     found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(AdaSSP("y"), qr.ZCDP(0.1))
    >>> [round(6 + 6 * (found.value[""] + w)) for w in found.value["x"]]
    [0, 2, 4, 6, 8, 10, 12]
    """

    target: str
    features: tuple[str, ...] | None = None
    positive: str | None = None
    refinements: int = 9

    name: ClassVar[str] = "adassp"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        design = Design.of(domain, self.target, self.features)
        targets_of(design, self._loss, self.positive)
        if self.refinements:
            natural("refinements", self.refinements)
            self._laws(design, cost, neighbours)
        else:
            self._two_laws(design, cost, neighbours)

    @property
    def _loss(self) -> Loss:
        return "linear" if self.positive is None else "logistic"

    def _two_laws(self, design: Design, cost: Cost, neighbours: Neighbours) -> tuple[tuple[int, ZCDP, Noise], ...]:
        """Sensitivity Δ₂², cost and noise of XᵀX and of Xᵀy, without refinements."""
        squares = (design.moment_square, design.square * UNIT**2)
        change = moves(neighbours)
        halves = split(concentrated(cost, "adassp", "; or functional-mechanism"), [1, 1])
        return tuple((change**2 * s, c, calibrated(change**2 * s, c)[0]) for s, c in zip(squares, halves, strict=True))

    def costs(self, cost: Cost) -> tuple[ZCDP, ZCDP, tuple[ZCDP, ...]]:
        """How the cost is divided: their sum is the whole.

        Parameters
        ----------
        cost : Cost
            What the estimate may cost.

        Returns
        -------
        tuple of ZCDP, ZCDP and tuple of ZCDP
            For XᵀX, for the histogram of residuals, and for each moment.
        """
        spent, rest = concentrated(cost, "adassp", "; or functional-mechanism"), 1 - _MOMENTS_SHARE - _HISTOGRAM_SHARE
        gram, histogram, moments = split(spent, [_MOMENTS_SHARE, _HISTOGRAM_SHARE, rest])
        return gram, histogram, split(moments, [1] * (1 + self.refinements))

    def _laws(self, design: Design, cost: Cost, neighbours: Neighbours) -> tuple[Noise, Noise]:
        """The noise of XᵀX, and the most that a moment can have."""
        gram, _, steps = self.costs(cost)
        change = moves(neighbours)
        most = change**2 * bound_of(design, _CLIPS[-1]) ** 2
        return calibrated(change**2 * SecondMoments(design).square, gram)[0], calibrated(most, steps[0])[0]

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        design = Design.of(private.domain, self.target, self.features)
        if self.refinements:
            return self._refined(private, design, cost)
        first, second = self._two_laws(design, cost, private.neighbours)
        gram, cross = private_moments(private, design, self._loss, self.positive)
        upper = np.triu_indices(design.width)
        noisy, law = private.measure("second moments of the features", gram[upper], first[0], first[1])
        mixed, mixed_law = private.measure("features times the target", cross, second[0], second[1])
        return ridge_estimate(design, noisy, law, mixed, mixed_law)

    def _refined(self, private: PrivateColumns, design: Design, cost: Cost) -> EstimateResult:
        first, counting, steps = self.costs(cost)
        change, moments = moves(private.neighbours), SecondMoments(design)
        targets, known = targets_of(design, self._loss, self.positive)
        cells = private.cells(self.target)
        there = known[cells] > 0
        rows, y = design.rows(private)[there], targets[cells][there]
        exact = moments_of(rows, y)[0][moments.places]
        what = "second moments of the features"
        noisy, law = private.measure(what, exact, change**2 * moments.square, first)
        step = _Step.of(moments, noisy, math.sqrt(law.variance))
        clip, weights, found = 1.0, np.zeros(design.width), []
        bound = bound_of(design, clip)
        problem = RegressionRecords.of(rows, y, "linear", bound, clip_inputs=False)
        measured = [Measured(f"{what}, measured entries", tuple(noisy.tolist()), spelled(law))]
        for at, price in enumerate(steps):
            point = np.rint(np.clip(weights, -LARGEST_WEIGHT, LARGEST_WEIGHT) * WEIGHT).astype(np.int64)
            if at == 1:
                what = "histogram of the residuals"
                bins, bin_law = private.measure(what, _histogram(problem, point), change, counting)
                measured.append(Measured(what, tuple(bins.tolist()), spelled(bin_law)))
                kept = np.where(bins < 2 * math.sqrt(bin_law.variance), 0, bins)  # mostly noise
                clip = step.clip(kept, change**2 * (len(design.features) + 1), (len(steps) - 1) * price.rho)
                bound = bound_of(design, clip)
                problem = RegressionRecords.of(rows, y, "linear", bound, clip_inputs=False)
            what = "features times the target" if at == 0 else f"features times the residuals, {at}"
            gradient, law = private.measure(what, problem.gradient(point), change**2 * bound**2, price)
            measured.append(Measured(what, tuple((-gradient).tolist()), spelled(law)))
            weights = point / WEIGHT - step.matrix @ gradient * (UNIT / SLOPE)
            found.append(weights)
        solution = np.clip(np.mean(found[len(found) // 2 :], axis=0), -LARGEST_WEIGHT, LARGEST_WEIGHT)
        return EstimateResult(
            design.weights(solution),
            None,
            "from noisy moments, refined by those of residuals; the weights have no interval",
            "the least squares of the records that have a target, where residuals are not clipped",
            tuple(measured),
            {"residuals clipped to": clip},
            typical=math.sqrt(law.variance) / (UNIT * SLOPE) / step.records,
            records=step.records - self._laws(design, cost, private.neighbours)[0].largest_of(1, 0.025) / UNIT**2,
            unit="of an entry of the mean moments",
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of a measured entry of XᵀX/n, or of a mean moment."""
        design = Design.of(domain, self.target, self.features)
        p = design.width
        if self.refinements:
            law, moment_law = self._laws(design, cost, neighbours)
            first = law.largest_of(len(SecondMoments(design).places[0]), beta / 2) / UNIT**2
            second = moment_law.largest_of(p * (1 + self.refinements), beta / 2) / (UNIT * SLOPE)
        else:
            gram, cross = (law for _, _, law in self._two_laws(design, cost, neighbours))
            first = gram.largest_of(p * (p + 1) // 2, beta / 2) / UNIT**2
            second = cross.largest_of(p, beta / 2) / UNIT**2
        return max(first, second) / records if max(first, second) < 2 * records else math.inf


@dataclass(frozen=True)
class _Step:
    """What a moment of residuals is multiplied by, in parts of UNIT²; from noisy second moments alone."""

    matrix: Floats
    spread: float
    records: float

    @classmethod
    def of(cls, moments: SecondMoments, noisy: Ints, deviation: float) -> _Step:
        gram, basis = moments.completed(noisy, deviation), moments.directions
        values, vectors = np.linalg.eigh(basis.T @ gram @ basis)
        values = np.maximum(values, 0.0)
        ridge = max(deviation * math.sqrt(len(values)) - float(values[0]), 1.0)
        vectors = basis @ vectors
        spread = float((values / (values + ridge) ** 2).sum()) * UNIT**2
        return cls((vectors / (values + ridge)) @ vectors.T, spread, max(float(gram[0, 0]) / UNIT**2, 1.0))

    def clip(self, bins: Ints, moved: int, rho: float) -> float:
        """r, from a noisy histogram; moved  squared length by which a record moves a moment of residuals up to 1"""
        ends = np.array(_CLIPS)
        sizes = np.append(np.append(ends[0] / 2, np.sqrt(ends[1:] * ends[:-1])), ends[-1])
        above, below = bins[: len(sizes)], bins[len(sizes) :]
        squares = []
        for end in ends:
            cut = np.maximum(sizes - end, 0.0)
            bias, size = cut @ (above - below) / self.records, max(float(cut @ (above + below)), 0.0) / self.records
            squares.append(bias**2 + (size / 2) ** 2 + end**2 * moved / (2 * rho) * self.spread / self.records)
        return float(ends[int(np.argmin(squares))])


def bound_of(design: Design, clip: float) -> int:
    """The largest length of a row times a residual that is clipped, in whole numbers."""
    return math.floor(clip * math.isqrt(design.square)) * SLOPE


def _histogram(problem: RegressionRecords, weights: Ints) -> Ints:
    """How many residuals y − xw are in each bin: first those from 0 up by size, then those below."""
    residuals = -problem.slopes_at(weights, slice(None))
    ends = np.rint(np.array(_CLIPS) * SLOPE).astype(np.int64)
    places = np.searchsorted(ends, np.abs(residuals), side="right") + (residuals < 0) * (len(ends) + 1)
    return np.bincount(places, minlength=2 * len(ends) + 2).astype(np.int64)
