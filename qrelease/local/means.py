"""Servers for numbers: from reports to the mean, and from square waves to the whole distribution.

A report is *worth* a number whose expectation is the reporting person's place on the grid; the estimate is the mean of
all worths, in the units of the range. The worths follow from the rational probabilities that the clients really use.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import whole
from qrelease.errors import InvalidInput
from qrelease.local.draws import checked_epsilon
from qrelease.local.numeric import Coin, Hybrid, LocalLaplace, NumberClient, Piecewise, SquareWave, WindowClient
from qrelease.local.server import Batch, LocalEstimate, Server, normal_estimate, proportion_interval

N = TypeVar("N", bound=NumberClient)
W = TypeVar("W", bound=WindowClient)

_ROUNDS = 10_000
_ENTRY_BYTES = 32  # for each bin and each cell of reports


@dataclass(frozen=True, eq=False)
class MeanServer(Server[N]):
    """Estimates the mean of the values, in their units; it may lie outside of the range."""

    @abstractmethod
    def worths(self, codes: npt.NDArray[np.int64]) -> Floats:
        """What each of these reports is worth, in steps from the range's lower end."""

    @abstractmethod
    def step_variance(self, place: int) -> Fraction:
        """The exact variance of what a report from this place is worth, in squared steps."""

    @property
    def step(self) -> Fraction:
        """One step of the grid, in the values' units."""
        return (Fraction(self.client.high) - Fraction(self.client.low)) / self.client.steps

    def variance(self, value: float) -> float:
        """n times the variance of the mean of n reports, where all people have this value; squared units."""
        return float(self.step_variance(self.client.place(value)) * self.step**2)

    @cached_property
    def largest_variance(self) -> float:
        """n times the variance of the mean where it is largest: at an end or in the middle of the range."""
        steps = self.client.steps
        return float(max(self.step_variance(i) for i in (0, steps // 2, steps)) * self.step**2)

    def _estimate(self, batch: Batch) -> LocalEstimate:
        mean, variance = self._moments(batch)
        step, low = float(self.step), float(self.client.low)
        return normal_estimate(low + step * mean, variance * step**2, len(batch))

    def _moments(self, batch: Batch) -> tuple[float, float]:
        """Mean and variance of the worths; the variance is at least what the noise alone has where it is least."""
        n, counts = len(batch), self._counted(batch)
        if counts is None:
            found = self.worths(batch.codes.astype(np.int64))
            mean, variance = float(found.mean()), float(found.var())
        else:
            worths = self.worths(np.arange(self.client.size))
            mean = float(counts @ worths) / n
            variance = float(counts @ (worths - mean) ** 2) / n
        steps = self.client.steps
        least = min(self.step_variance(i) for i in (0, steps // 2, steps))
        return mean, max(variance * n / max(n - 1, 1), float(least))

    @property
    def reach(self) -> float:
        """The distance from the smallest to the largest worth, in units."""
        return abs(float((self._extremes[1] - self._extremes[0]) * self.step))

    @property
    @abstractmethod
    def _extremes(self) -> tuple[Fraction, Fraction]:
        """The least and the largest worth, in steps."""


@final
class CoinServer(MeanServer[Coin]):
    """A 1 is worth GE/(E - 1) steps and a 0 -G/(E - 1)."""

    @property
    def _extremes(self) -> tuple[Fraction, Fraction]:
        steps, e = self.client.steps, self.client.odds
        return -steps / (e - 1), steps * e / (e - 1)

    def worths(self, codes: npt.NDArray[np.int64]) -> Floats:
        """The worths of the reports 0 and 1."""
        return np.array([float(w) for w in self._extremes])[codes]

    def step_variance(self, place: int) -> Fraction:
        """P(0) P(1) times the squared distance of the two worths."""
        zero, one = self.client.weights(place)
        low, high = self._extremes
        return Fraction(zero * one, (zero + one) ** 2) * (high - low) ** 2

    def _estimate(self, batch: Batch) -> LocalEstimate:
        """The interval is Clopper's and Pearson's for the share of ones, so that it also holds for few reports."""
        n, ones = len(batch), float(batch.codes.sum())
        low, high = (float(self.client.low) + float(w * self.step) for w in self._extremes)
        ends = [low + (high - low) * float(s) for s in proportion_interval(np.array(ones), n)]
        rough = super()._estimate(batch)
        return LocalEstimate(low + (high - low) * ones / n, (ends[0], ends[1]), rough.deviation, n)


@dataclass(frozen=True, eq=False)
class _WindowServer(MeanServer[W]):
    """The mean of values that were reported through a window of w likelier numbers.

    With T = wE + G the total weight and M = G + w numbers, E[y] = (M(M - 1)/2 + (E - 1)(wi + w(w - 1)/2))/T.

    So y is worth i = (yT - M(M - 1)/2)/((E - 1)w) - (w - 1)/2 steps.
    """

    @cached_property
    def _line(self) -> tuple[Fraction, Fraction]:
        """Slope and worth of the number 0."""
        g, w, e = self.client.steps, self.client.window, self.client.odds
        m, total = g + w, w * e + g
        return total / ((e - 1) * w), -Fraction(m * (m - 1), 2) / ((e - 1) * w) - Fraction(w - 1, 2)

    def worths(self, codes: npt.NDArray[np.int64]) -> Floats:
        """The worths, which lie on a line in the reported number."""
        slope, zero = self._line
        found: Floats = float(zero) + float(slope) * codes.astype(np.float64)
        return found

    @property
    def _extremes(self) -> tuple[Fraction, Fraction]:
        slope, zero = self._line
        return zero, zero + slope * (self.client.size - 1)

    def step_variance(self, place: int) -> Fraction:
        """The variance in squared steps, by sums of squares of the numbers inside and outside of the window."""
        g, w, e = self.client.steps, self.client.window, self.client.odds
        second = (_squares(g + w) + (e - 1) * (_squares(place + w) - _squares(place))) / (w * e + g)
        mean = (place - self._line[1]) / self._line[0]
        return (second - mean**2) * self._line[0] ** 2


def _squares(count: int) -> int:
    """0² + 1² + … + (count - 1)²."""
    return (count - 1) * count * (2 * count - 1) // 6


@final
class PiecewiseServer(_WindowServer[Piecewise]):
    """The collector's half of `Piecewise`."""


@final
class SquareWaveServer(_WindowServer[SquareWave]):
    """The collector's half of `SquareWave`: `estimate` is the unbiased mean, `distribution` the whole histogram.

    How far liars move the mean is `moved_by`, and how far the histogram `distribution_moved_by`.
    """

    def distribution(self, batch: Batch, bins: int, *, smooth: bool = False, tolerance: float = 1e-7) -> Floats:
        """The shares of equally wide bins of the range, (bins,), most likely given the reports.

        Parameters
        ----------
        batch
            Reports that were read.
        bins
            At least 2.
        smooth
            Average neighbouring bins after each round, with weights 1, 2, 1, as in EMS of Li et al. 2020: better where
            the distribution is smooth.
        tolerance
            Rounds end where the mean log-likelihood of a report grows by less than this.

        References
        ----------
        Li, Wang, Lopuhaä-Zwakenberg, Li & Skoric 2020, Estimating numerical distributions under local differential
        privacy, Algorithm 1.
        """
        seen, matrix = self._cells(batch, bins)
        shares, before = np.full(bins, 1 / bins), -np.inf
        for _ in range(_ROUNDS):
            expected = matrix @ shares
            shares = shares * (matrix.T @ (seen / np.maximum(expected, 1e-300)))
            if smooth:
                shares = np.convolve(np.pad(shares, 1, mode="edge"), [0.25, 0.5, 0.25], "valid")
            shares /= shares.sum()
            now = float(seen @ np.log(np.maximum(matrix @ shares, 1e-300))) / len(batch)
            if now - before < tolerance:
                break
            before = now
        return shares

    def distribution_moved_by(self, liars: int, batch: Batch, bins: int) -> Floats:
        """How far so many liars can move each share of `distribution`, (bins,), where it is not smoothed.

        The most likely shares of the true reports are no farther than this from what `distribution` finds, to a
        tolerance of 1e-12, for the batch with the lies. It is several times what the worst liars reach, and says little
        where more than about one in a thousand lies.

        *Why.* Let p be the shares found, L their log-likelihood, y = Mp; q the most likely ones of the true reports,
        and 1 + t = Mq/y, a number a cell. Exchanging k reports changes L(p) - L(q), at most 0 for the true reports, by
        at most k (a + b), where -b <= log(1 + t) <= a; at first a = b = ε, as each cell of Mq is within a factor of e^ε
        for all q. L grows from p by at most `gap` to first order, and log(1 + t) <= t - t²/2c, c = 1 + 2(e^a - 1)/3. So
        Σ seen t² <= R² = 2c (k (a + b) + gap): with d = q - p and H = M' diag(seen/y²) M, d'Hd <= R², and |d|² <= 2 in
        the simplex. The ellipsoid d'(.9 H/R² + .05)d <= 1 holds both. It bounds each t, thus a and b, and so on; at
        last each share.

        Parameters
        ----------
        liars
            How many of the reports may be anything.
        batch
            The batch that was read, lies among it.
        bins
            As of `distribution`.

        Raises
        ------
        InvalidInput
            For more liars than reports.
        """
        k = whole("liars", liars, least=0)
        if k > len(batch):
            raise InvalidInput(f"there cannot be more liars than reports, got {k} and {len(batch)}")
        shares = self.distribution(batch, bins, tolerance=1e-12)
        seen, matrix = self._cells(batch, bins)
        relative = matrix / np.maximum(matrix @ shares, 1e-300)[:, None]
        gap = max(float((seen @ relative).max()) - len(batch), 0.0)
        curvature = relative.T @ (seen[:, None] * relative)
        up = down = float(checked_epsilon(self.client.epsilon))
        while True:
            squared = 2 * (1 + 2 * math.expm1(up) / 3) * (k * (up + down) + gap) + 1e-9
            within = np.linalg.inv(0.9 * curvature / squared + 0.05 * np.eye(bins))
            moved = float(np.sqrt(np.einsum("cb,bd,cd->c", relative, within, relative).max()))
            before = up + down
            up, down = min(up, math.log1p(moved)), min(down, -math.log1p(-moved)) if moved < 1 else down
            if up + down > 0.99 * before:
                break
        return np.minimum(np.sqrt(np.diag(within)), np.maximum(shares, 1 - shares))

    def _cells(self, batch: Batch, bins: int) -> tuple[Ints, Floats]:
        """How many reports are in each cell of the line, (cells,), and P(cell | bin), (cells, bins)."""
        if whole("bins", bins, least=2) > self.client.steps:
            raise InvalidInput(f"bins must be at most the grid's {self.client.steps} steps, got {bins}")
        cells = math.ceil(bins * self.client.size / self.client.steps)
        memory.check(_ENTRY_BYTES * cells * bins, f"a histogram of {bins:,} bins", "take fewer", ahead=False)
        # A cell of the line is as wide as a bin, so that the matrix of both tells nearly all that reports do.
        edges = np.ceil(np.arange(cells + 1) * self.client.steps / bins).astype(np.int64)
        edges[-1] = self.client.size
        seen = np.bincount(np.searchsorted(edges, batch.codes.astype(np.int64), "right") - 1, minlength=cells)
        return seen, self._matrix(edges, bins)

    def _matrix(self, edges: npt.NDArray[np.int64], bins: int) -> Floats:
        """P(cell | bin), (cells, bins), of the place in the middle of each bin."""
        g, w, e = self.client.steps, self.client.window, float(self.client.odds)
        middle = (2 * np.arange(bins) + 1) * g // (2 * bins)
        inside = np.minimum(edges[1:, None], middle + w) - np.maximum(edges[:-1, None], middle)
        found: Floats = (np.diff(edges)[:, None] + (e - 1) * np.maximum(inside, 0)) / (w * e + g)
        return found


@final
class HybridServer(MeanServer[Hybrid]):
    """Each report is worth what it is worth to the part that made it."""

    @cached_property
    def _servers(self) -> tuple[CoinServer, PiecewiseServer]:
        coin, window = self.client.parts
        return CoinServer(coin), PiecewiseServer(window)

    @property
    def _extremes(self) -> tuple[Fraction, Fraction]:
        coin, window = (server._extremes for server in self._servers)
        used = [e for e, weight in zip((coin, window), self.client.weights, strict=True) if weight]
        return min(low for low, _ in used), max(high for _, high in used)

    def worths(self, codes: npt.NDArray[np.int64]) -> Floats:
        """The worths of the reports: of 0 and 1 those of the coin, of the others those of the window."""
        coin, window = self._servers
        return np.where(codes < 2, coin.worths(np.minimum(codes, 1)), window.worths(np.maximum(codes - 2, 0)))

    def step_variance(self, place: int) -> Fraction:
        """Both parts are unbiased, so that variances mix as the parts do."""
        weights = self.client.weights
        coin, window = (server.step_variance(place) for server in self._servers)
        return (weights[0] * coin + weights[1] * window) / sum(weights)


@final
class LaplaceServer(MeanServer[LocalLaplace]):
    """A report is worth its own place."""

    @property
    def _extremes(self) -> tuple[Fraction, Fraction]:
        return Fraction(-self.client.margin), Fraction(self.client.steps + self.client.margin)

    def worths(self, codes: npt.NDArray[np.int64]) -> Floats:
        """The reported number, less the margin."""
        return codes.astype(np.float64) - self.client.margin

    def step_variance(self, place: int) -> Fraction:
        """2q/(1 - q)², q = e^(-ε/G), up to a float's rounding; that it is cut off far outside makes it less."""
        gamma = float(checked_epsilon(self.client.epsilon) / self.client.steps)
        return Fraction(2 * math.exp(-gamma) / math.expm1(-gamma) ** 2)
