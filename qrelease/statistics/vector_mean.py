"""The mean of several columns at once: clipped to a box, as in the texts, and to a ball that is chosen privately.

`TruncatedMean` clips each coordinate to [-R, R] around the middle of its grid. The sum moves by at most R√d in L2 when
a record comes or goes, by 2R√d when one is replaced. The text adds N(0, 4R²d ln(1/δ)/(nε)²) to the mean, which is too
little: at ε = 1 the real δ is 10.6 times the claim of 1e-6. Here the noise is the analytic Gaussian's (Balle & Wang
2018), or the discrete Gaussian's under zCDP. Mean square error: σ²(d/n + d² ln(1/δ)/(nε)²) up to a constant, and one
more ln n on the second term where R is σ√(ln n) for unbounded data; `lower_bounds.mean_bound` is beside it.

`VectorMean` clips the whole vector to a ball in L2, around a centre and with a radius that are measured first (after
Huang, Liang & Yi 2021, *Instance-optimal mean estimation*). So its noise follows the spread of the data, not the
declared bounds. The three parts, with shares of ρ as in `Shares`:

1. a centre, by the noisy sum over the declared box;
2. the number of records in each of some shells around it, of which each record is in one: one noisy histogram. The
   radius is the least whose ball leaves about √(d/2ρ) records outside: a smaller one loses more by clipping one more
   record by a unit, a larger one more by the noise, which grows with the radius by √(d/2ρ) in L2 (two standard
   deviations of the noisy number are granted on top, lest noise alone stop the search);
3. the noisy sum of the vectors in the ball, which are cut back to it in whole numbers: towards 0 in each coordinate,
   so that the squared length is at most the squared radius, exactly.

*Error.* At most t + h records are outside, if the noisy number is off by h; none of them moves a coordinate of the mean
by more than its whole width over n. The rest is the noise of part 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import positive
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated, concentrated, sensitivity_of_one
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, split
from qrelease.statistics.base import BETA, EstimateResult, Measured, spelled
from qrelease.statistics.private_columns import PrivateColumns, moves
from qrelease.statistics.vectors import SumAndCount, Sums, VectorColumns


@final
@dataclass(frozen=True)
class TruncatedMean:
    """The mean of vectors whose coordinates are clipped one by one: the textbook's form.

    Attributes
    ----------
    columns
        Names of columns of numbers.
    radius
        R, how far from the middle of its grid a coordinate may be, in the unit of the values; by default as far as the
        grid goes.

    References
    ----------
    Balle & Wang 2018 for the noise; Kamath & Ullman 2020, *A primer on private statistics*, for the rate. The
    variance in notes, 4R²d ln(1/δ)/(nε)², is too small: the module's docstring says by how much.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.Table(qr.Domain.coded({"a": 11, "b": 5}), (np.arange(3000) % 11, np.arange(3000) % 4))
    >>> with qr.Ledger.open(None, qr.ZCDP(0.1), dataset="people") as ledger:
    ...     curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
    ...     found = curator.estimate(TruncatedMean(("a", "b")), qr.ZCDP(0.1))
    >>> [round(v, 1) for v in found.value]
    [5.0, 1.5]
    """

    columns: tuple[str, ...]
    radius: float | None = None

    name: ClassVar[str] = "truncated-mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        frame = VectorColumns.of(domain, self.columns)
        _ = self._plan(self._reach(frame), cost, neighbours).law

    def _reach(self, frame: VectorColumns) -> Ints:
        """The radius of each column in half steps, (d,)."""
        if self.radius is None:
            return frame.reach
        found = np.floor(positive("radius", self.radius) / frame.half_steps).astype(np.int64)
        if found.min() < 1:
            raise InvalidInput(f"radius must be at least half a step of each column, got {self.radius:g}")
        return np.minimum(found, frame.reach)

    def _plan(self, reach: Ints, cost: Cost, neighbours: Neighbours) -> SumAndCount:
        length = sum(sensitivity_of_one(int(r), cost) for r in reach)  # exact, however long
        return SumAndCount(length, len(reach), moves(neighbours), cost)

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        frame = VectorColumns.of(private.domain, self.columns)
        reach = self._reach(frame)
        exact, plan = frame.clipped_sums(private, reach), self._plan(reach, cost, private.neighbours)
        sums = plan.measure(private, "sum of clipped vectors, and count", *exact)
        ends = sums.intervals(reach, BETA)
        return EstimateResult(
            frame.values(sums.mean(reach)),
            tuple(zip(frame.values(ends[:, 0]), frame.values(ends[:, 1]), strict=True)),
            f"all sums and the count are within the reach of their noise, beta {BETA:g}",
            "the mean of the vectors, clipped coordinate by coordinate",
            _measured(sums),
            typical=float(np.sqrt(np.mean((sums.typical(reach) * frame.half_steps) ** 2))),
            records=sums.least_records(BETA / 2),
            widths=frame.widths(-reach, reach),
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the largest coordinate, in its own unit, against the mean of the clipped vectors."""
        frame = VectorColumns.of(domain, self.columns)
        reach, plan = self._reach(frame), self._plan(self._reach(frame), cost, neighbours)
        errors = np.array([plan.error_bound(records, float(r), beta) for r in reach])
        return float((errors * frame.half_steps).max()) if (errors < 2 * reach).all() else math.inf


@dataclass(frozen=True)
class Shares:
    """How `VectorMean` spends its ρ.

    centre   share of the coarse centre
    radius   share of the shells
    final    share of the mean itself
    """

    centre: float = 1.0
    radius: float = 1.0
    final: float = 6.0


SHARES: Final = Shares()

_UNIT: Final = 1 << 20  # the half width of each column on the common scale of a ball
_SHELLS: Final = 64  # radii of a ball, each 2^(1/4) of the next: down to 1/55 000 of the largest
_ROUNDING_MARGIN: Final = 1 - 2.0**-40  # so that roundings leave a vector inside its ball


@final
@dataclass(frozen=True)
class VectorMean:
    """The mean of vectors clipped to a ball whose centre and radius are chosen privately.

    The columns count alike, each as wide as its grid: a ball is one on that scale. Use columns with bounds that are
    comparable, in that the spread of each is about the same part of them. It needs a ρ, or an (ε, δ).

    Attributes
    ----------
    columns
        Names of columns of numbers.

    References
    ----------
    Huang, Liang & Yi 2021, *Instance-optimal mean estimation under differential privacy*.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.Table(qr.Domain.coded({"a": 1000, "b": 1000}), (np.arange(3000) % 11, 500 + np.arange(3000) % 4))
    >>> with qr.Ledger.open(None, qr.ZCDP(0.1), dataset="people") as ledger:
    ...     curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
    ...     found = curator.estimate(VectorMean(("a", "b")), qr.ZCDP(0.1))
    >>> [round(v) for v in found.value]
    [5, 501]
    """

    columns: tuple[str, ...]

    name: ClassVar[str] = "vector-mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        frame = VectorColumns.of(domain, self.columns)
        plan = _Plan.of(len(frame), cost, neighbours)
        _ = plan.first.law, plan.last(plan.radii[0]).law

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        frame = VectorColumns.of(private.domain, self.columns)
        plan = _Plan.of(len(frame), cost, private.neighbours)
        rows = frame.rows(private) * _UNIT // frame.reach
        box = np.full(len(frame), _UNIT)
        coarse = plan.first.measure(private, "sum of vectors, and count, for a centre", rows.sum(axis=0), len(rows))
        centre = np.rint(coarse.mean(box)).astype(np.int64)
        away = rows - centre
        shells, law = private.measure(
            "how many vectors in each shell", plan.shells(away), moves(private.neighbours), plan.rho[1]
        )
        radius = plan.radius(shells)
        short = shortened(away, radius)
        what = "sum of clipped vectors, and count"
        sums = plan.last(radius).measure(private, what, short.sum(axis=0), len(short))
        ball = np.full(len(frame), radius)

        def back(z: Floats) -> tuple[float, ...]:
            return frame.values(np.clip(centre + z, -_UNIT, _UNIT) * frame.reach / _UNIT)

        ends = sums.intervals(ball, BETA) + np.array([-1, 1])  # clipping rounds each coordinate by less than 1
        units = frame.half_steps * frame.reach / _UNIT
        cube = radius / math.sqrt(len(frame))  # half of the width of the cube in the ball
        return EstimateResult(
            back(sums.mean(ball)),
            tuple(zip(back(ends[:, 0]), back(ends[:, 1]), strict=True)),
            f"all sums and the count are within the reach of their noise, beta {BETA:g}",
            "the mean of the vectors, clipped to the ball that was chosen",
            (
                Measured("sums for a centre, in parts of the half widths", coarse.sums.tolist(), spelled(coarse.law)),
                Measured("vectors in each shell", tuple(shells.tolist()), spelled(law)),
                *_measured(sums),
            ),
            {"centre": back(np.zeros(len(frame))), "radius as a share of the half width": radius / _UNIT},
            typical=float(np.sqrt(np.mean((sums.typical(ball) * units) ** 2))),
            records=sums.least_records(BETA / 2),
            widths=frame.widths(*(np.clip(centre + e, -_UNIT, _UNIT) * frame.reach / _UNIT for e in (-cube, cube))),
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the largest coordinate, in its own unit, against the mean of all vectors."""
        frame = VectorColumns.of(domain, self.columns)
        plan = _Plan.of(len(frame), cost, neighbours)
        outside = plan.outside + 2 * math.sqrt(plan.shell_law.variance * _SHELLS)
        outside += plan.shell_law.weighted_sum_bound(_SHELLS, 1.0, beta / (2 * _SHELLS))
        noise = plan.last(plan.radii[0]).error_bound(records, float(plan.radii[0]), beta / 2)
        part = (noise + 2) / _UNIT + 2 * outside / records if records > 0 else math.inf
        units = frame.half_steps * frame.reach
        return float((part * units).max()) if part < 2 else math.inf


@dataclass(frozen=True)
class _Plan:
    """What is public of a `VectorMean` before anything is drawn."""

    dimension: int
    rho: tuple[ZCDP, ...]
    neighbours: Neighbours

    @classmethod
    def of(cls, dimension: int, cost: Cost, neighbours: Neighbours) -> _Plan:
        spent = concentrated(cost, "a vector-mean")
        return cls(dimension, split(spent, [SHARES.centre, SHARES.radius, SHARES.final]), neighbours)

    @property
    def first(self) -> SumAndCount:
        """The sum for the centre."""
        return SumAndCount(self.dimension * _UNIT**2, self.dimension, moves(self.neighbours), self.rho[0])

    def last(self, radius: int) -> SumAndCount:
        """The last release: the sum of the vectors clipped to the ball."""
        return SumAndCount(radius**2, self.dimension, moves(self.neighbours), self.rho[2])

    @property
    def radii(self) -> list[int]:
        """Falling; every vector is in the first ball, wherever its centre."""
        largest = math.isqrt(4 * _UNIT**2 * self.dimension) + 1
        return [math.ceil(largest * 2 ** (-i / 4)) for i in range(_SHELLS)]

    @property
    def shell_law(self) -> Noise:
        return calibrated(moves(self.neighbours), self.rho[1])[0]

    @property
    def outside(self) -> float:
        """How many records a good ball leaves outside: what the noise gains in L2 for each unit of the radius."""
        return moves(self.neighbours) * math.sqrt(self.dimension / (2 * self.rho[2].rho))

    def shells(self, away: Ints) -> Ints:
        """How many vectors are in the ball of each radius and not in the next smaller one, (64,)."""
        squares = (away * away).sum(axis=1)
        rising = np.array([r * r for r in self.radii[::-1]], np.int64)
        place = np.searchsorted(rising, squares, side="left")
        return np.bincount(_SHELLS - 1 - place, minlength=_SHELLS).astype(np.int64)

    def radius(self, shells: Ints) -> int:
        """The least radius, going down from the largest, whose ball leaves few outside, as the noise lets see."""
        beyond = np.concatenate([[0], np.cumsum(shells)[:-1]])
        noise = 2 * np.sqrt(self.shell_law.variance * np.arange(_SHELLS))
        many = np.flatnonzero(beyond > self.outside + noise)
        return self.radii[(int(many[0]) if len(many) else _SHELLS) - 1]


def shortened(vectors: Ints, radius: int) -> Ints:
    """Vectors cut back to a length of at most `radius`, (m, d): in whole numbers, and each for itself."""
    squares = (vectors * vectors).sum(axis=1)
    factors = np.minimum(1.0, radius * _ROUNDING_MARGIN / np.sqrt(np.maximum(squares, 1)))
    short = np.where((squares <= radius * radius)[:, None], vectors, np.trunc(vectors * factors[:, None])).astype(
        np.int64
    )
    short[(short * short).sum(axis=1) > radius * radius] = 0  # never: what is proved here needs no rounding to be right
    return short


def _measured(sums: Sums) -> tuple[Measured, ...]:
    law = spelled(sums.law)
    return (
        Measured("sums, in half steps or parts of the half widths", tuple(sums.sums.tolist()), law),
        Measured(f"count times {sums.weight}", sums.weighted_count, law),
    )
