"""The means of very many columns of which only a few are away from a known origin: peeling, and top-k in one shot.

Each column is scaled so that no value is further from the origin than U = 2^20 whole numbers; S_j is the exact sum of
column j. A record that comes or goes moves every |S_j| by at most Δ = U, one that is replaced by 2U: not all the same
way, so the scores are not monotone.

**`PeelingMean`**, the text's (Dwork, Su & Zhang 2018; Cai, Wang & Zhang 2021): s times add the column of the largest
|S_j| + fresh Lap(λ) among those left, then release S_j + Lap(λ) of these. λ = Δ·2√(3s ln(1/δ))/ε. Each round is
2Δ/λ-DP, hence 2Δ²/λ²-zCDP, and the s values are Δ/λ-DP each, hence sΔ²/(2λ²)-zCDP: in all ρ = 5sΔ²/(2λ²) =
5ε²/(24 ln(1/δ)), which is (ε, δ) for any s while ε is at most .418 ln(1/δ), and by the tight conversion somewhat
beyond: .77 ln(1/δ) at δ = 1e-6. Where it is not, this refuses.

**`SparseMean`** chooses by the exponential mechanism, s times without replacement: the same law as the s largest after
one draw of Gumbel noise on all (Durfee & Rogers 2019). At ε₀ each choice is ε₀²/8-zCDP, by its bounded range, where the
noisy maximum of the text is ε₀²/2: at equal ρ its ε₀ is twice as large. The values have Gaussian noise for Δ₂ = √s Δ.
Half of ρ goes to each.

*Error.* With probability 1 − β a chosen column's |S_j| is at most (2Δ/ε₀)(ln d + ln(s/β)) below the best of those left,
in every round. Mean square error up to constants: σ²(s ln d/n + (s ln d)² ln(1/δ)/(n²ε²)); the dense mean pays d² for
the second term, see `lower_bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import natural, real
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated, currency, sensitivity_of_one
from qrelease.noise.distributions import Noise
from qrelease.privacy.conversions import zcdp_epsilon
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, round_down, split
from qrelease.statistics.base import BETA, EstimateResult, Measured, spelled
from qrelease.statistics.grid import Grid
from qrelease.statistics.private_columns import PrivateColumns, moves

_UNIT: Final = 1 << 20  # the largest distance of a value from the origin, in whole numbers
_COUNT_SHARE: Final = 0.05


@dataclass(frozen=True)
class _Scale:
    """The columns of numbers of a domain, with values scaled to -_UNIT.._UNIT around an origin; public."""

    names: tuple[str, ...]
    weights: Mapping[str, Ints]
    steps: tuple[float, ...]
    widths: tuple[float, ...]
    origin: float

    @classmethod
    def of(cls, domain: Domain, origin: float) -> _Scale:
        """The scale of all columns; a missing value counts as the origin."""
        weights, steps, widths, origin = dict[str, Ints](), [], [], real("origin", origin)
        for attribute in domain:
            grid = Grid.of(Domain((attribute,)), attribute.name)
            far = max(abs(grid.low - origin), abs(grid.high - origin))
            if far == 0:
                raise InvalidInput(f"column {attribute.name!r} has one value only")
            values = (grid.low + grid.step * np.arange(grid.cells) - origin) / far
            weights[attribute.name] = np.rint(values * _UNIT).astype(np.int64)
            steps.append(far / _UNIT)
            widths.append(grid.high - grid.low)
        return cls(domain.names, weights, tuple(steps), tuple(widths), origin)


def _check_support(support: object, domain: Domain) -> int:
    s = natural("support", support)
    if s > len(domain):
        raise InvalidInput(f"support must be at most the number of columns, {len(domain)}, got {s}")
    return s


def _counted(private: PrivateColumns, cost: Cost) -> tuple[float, float, tuple[Measured, ...]]:
    """n, a number that it reaches, and what was measured for it."""
    public = private.public_records
    if public is not None:
        return float(public), float(public), ()
    noisy, law = private.measure("number of records", np.array([private.count()]), 1, cost)
    found = (Measured("number of records", int(noisy[0]), spelled(law)),)
    return float(noisy[0]), float(noisy[0]) - law.reach(BETA / 2), found


def _result(
    scale: _Scale, chosen: list[int], noisy: Ints, law: Noise, counted: tuple[float, float, tuple[Measured, ...]]
) -> EstimateResult:
    n, least, measured = counted
    n = max(n, 1.0)
    steps = np.array([scale.steps[j] for j in chosen])
    means = scale.origin + np.clip(noisy / n, -_UNIT, _UNIT) * steps
    names = [scale.names[j] for j in chosen]
    return EstimateResult(
        dict(zip(names, means.tolist(), strict=True)),
        None,
        "none: what was not chosen is not measured",
        f"the means of {len(chosen)} columns far from {scale.origin:g}; all others are taken to be there",
        (*measured, Measured("sums of the chosen columns, scaled", tuple(noisy.tolist()), spelled(law))),
        typical=float(min(math.sqrt(law.variance) / n, _UNIT) * steps.max()),
        records=least,
        unit="of a chosen column whose values are furthest from the origin",
        widths=tuple(sorted(scale.widths)[-len(chosen) :]),  # of tables whose other columns are at the origin
    )


@final
@dataclass(frozen=True)
class SparseMean:
    """Finds the columns whose means are furthest from an origin, among all columns of a table, and their means.

    Its value has the means of `support` columns, by name. What it promises (`error_bound`) is their error.

    Attributes
    ----------
    support
        s, how many columns are chosen.
    origin
        Where the mean of the others is taken to be, in the unit of the values.

    References
    ----------
    Durfee & Rogers 2019 for k at once, Cesar & Rogers 2021 for ε₀²/8.

    Examples
    --------
    >>> import qrelease as qr
    >>> bits = np.random.default_rng(0).random((3000, 50)) < np.where(np.arange(50) < 2, 0.5, 0.01)
    >>> table = qr.Table(qr.Domain.coded({f"b{i}": 2 for i in range(50)}), tuple(bits.T.astype(int)))
    >>> with qr.Ledger.open(None, qr.ZCDP(0.1), dataset="people") as ledger:
    ...     found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(SparseMean(2), qr.ZCDP(0.1))
    >>> sorted(found.value)
    ['b0', 'b1']
    """

    support: int
    origin: float = 0.0

    name: ClassVar[str] = "sparse-mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        _check_support(self.support, domain)
        _Scale.of(domain, self.origin)
        _, choices, last = self._costs(cost)
        _ = choices, self._law(last, neighbours)

    def _costs(self, cost: Cost) -> tuple[PureDP | ZCDP, tuple[PureDP | ZCDP, ...], PureDP | ZCDP]:
        """The costs of the number of records, of each choice, and of the values."""
        spent = currency(cost)
        each = (1 - _COUNT_SHARE) / 2 / self.support
        counting, *choices, last = split(spent, [_COUNT_SHARE, *[each] * self.support, (1 - _COUNT_SHARE) / 2])
        return counting, tuple(choices), last

    def _moved(self, cost: Cost, neighbours: Neighbours) -> int:
        """Δ₁ or Δ₂² of the sums that are chosen."""
        return self.support * sensitivity_of_one(moves(neighbours) * _UNIT, cost)

    def _law(self, cost: Cost, neighbours: Neighbours) -> Noise:
        return calibrated(self._moved(cost, neighbours), cost)[0]

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        scale = _Scale.of(private.domain, self.origin)
        counting, choices, last = self._costs(cost)
        counted = _counted(private, counting)
        sums = private.sums(scale.weights)
        left, chosen = np.arange(len(sums)), []
        for i, price in enumerate(choices):
            scores = np.abs(sums[left])
            place = private.choose(f"column {i + 1} of the support", scores, private.moves * _UNIT, price)
            chosen.append(int(left[place]))
            left = np.delete(left, place)
        sensitivity = self._moved(last, private.neighbours)
        noisy, law = private.measure("sums of the chosen columns", sums[chosen], sensitivity, last)
        return _result(scale, chosen, noisy, law, counted)

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the means of the chosen columns."""
        scale = _Scale.of(domain, self.origin)
        counting, _, last = self._costs(cost)
        return _bound(scale, self._law(last, neighbours), self.support, counting, records, neighbours, beta)


def _bound(
    scale: _Scale, law: Noise, s: int, counting: Cost, records: float, neighbours: Neighbours, beta: float
) -> float:
    """The bound of S/n with noise in both: (|a| + |b| |mean|)/(n − |b|)."""
    miss = 0.0 if neighbours is Neighbours.REPLACE_ONE else calibrated(1, counting)[0].reach(beta / 2)
    if records <= miss:
        return math.inf
    part = (law.largest_of(s, beta / 2) / _UNIT + miss) / (records - miss)
    return part * max(scale.steps) * _UNIT if part < 2 else math.inf


@final
@dataclass(frozen=True)
class PeelingMean:
    """The same estimate as `SparseMean`, by the textbook's peeling with Laplace noise.

    Attributes
    ----------
    support, origin
        As in `SparseMean`.

    References
    ----------
    Dwork, Su & Zhang 2018; Cai, Wang & Zhang 2021. The module's docstring proves λ by zCDP, and says where that
    ends.

    Examples
    --------
    >>> import qrelease as qr
    >>> bits = np.random.default_rng(0).random((3000, 50)) < np.where(np.arange(50) < 2, 0.5, 0.01)
    >>> table = qr.Table(qr.Domain.coded({f"b{i}": 2 for i in range(50)}), tuple(bits.T.astype(int)))
    >>> cost = qr.ApproxDP(1.0, 1e-6)
    >>> with qr.Ledger.open(None, cost, dataset="people") as ledger:
    ...     found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(PeelingMean(2), cost)
    >>> sorted(found.value)
    ['b0', 'b1']
    """

    support: int
    origin: float = 0.0

    name: ClassVar[str] = "peeling-mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        _check_support(self.support, domain)
        _Scale.of(domain, self.origin)
        self.parts(cost, neighbours)

    def parts(self, cost: Cost, neighbours: Neighbours) -> tuple[ZCDP, tuple[ZCDP, ...], Fraction]:
        """How a cost is divided.

        Parameters
        ----------
        cost : Cost
            What the estimate may cost.
        neighbours : Neighbours
            Which tables the promise compares.

        Returns
        -------
        tuple of ZCDP, tuple of ZCDP, and Fraction
            The costs of the number of records, and of each round and last of the values; and λ, the scale of the noise.

        Raises
        ------
        InvalidInput
            For a cost that the proof does not cover.
        """
        if isinstance(cost, ApproxDP) and cost.delta > 0:
            exact = Fraction(5 * Fraction(cost.epsilon) ** 2 / 24) / Fraction(math.log(1 / cost.delta) * (1 + 2**-40))
            rho = round_down(exact)
            if rho <= 0 or zcdp_epsilon(rho, cost.delta) > cost.epsilon:
                raise InvalidInput(f"peeling is proved up to epsilon = 0.418 ln(1/delta) and a little more, got {cost}")
        elif isinstance(cost, ZCDP):
            rho = cost.rho
        else:
            raise InvalidInput(f"peeling-mean needs a rho, or a delta beside its epsilon, got {cost}")
        counting, rest = split(ZCDP(rho), [_COUNT_SHARE, 1 - _COUNT_SHARE])
        s, moved = self.support, moves(neighbours) * _UNIT
        # λ = Δ√(5s/(2ρ)), by a little more than roundings take.
        scale = Fraction(moved * math.sqrt(5 * s / (2 * rest.rho)) * (1 + 2**-40))
        return counting, split(rest, [*[4 / s] * s, 1.0]), scale

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        scale = _Scale.of(private.domain, self.origin)
        counting, (*rounds, last), parameter = self.parts(cost, private.neighbours)
        counted = _counted(private, counting)
        law = Noise("discrete Laplace", float(parameter))
        sums = private.sums(scale.weights)
        left, chosen = np.arange(len(sums)), []
        for i, price in enumerate(rounds):
            private.spend(f"round {i + 1} of peeling", price)
            scores = np.abs(sums[left]) + private.noise.noise(law, parameter, len(left))
            place = int(np.argmax(scores))
            chosen.append(int(left[place]))
            left = np.delete(left, place)
        private.spend("sums of the chosen columns", last)
        noisy = sums[chosen] + private.noise.noise(law, parameter, len(chosen))
        return _result(scale, chosen, noisy, law, counted)

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the means of the chosen columns."""
        counting, _, parameter = self.parts(cost, neighbours)
        law = Noise("discrete Laplace", float(parameter))
        return _bound(_Scale.of(domain, self.origin), law, self.support, counting, records, neighbours, beta)
