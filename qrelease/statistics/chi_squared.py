"""χ² tests of independence and of fit on noisy counts, with the noise accounted for.

The table of counts is measured once; all that follows is a function of noisy numbers. Pearson's statistic takes each
count to have a variance of about its expectation E. With noise of variance σ² it has E + σ², so here it is
Σ(n̂ − E)²/(E + σ²). To compare that with the quantiles of χ², or to leave σ² out, is what is published as wrong: the
level of the uncorrected test is far above the one asked for (Gaboardi, Lim, Rogers & Vadhan 2016, §1), and
Σ(n̂ − E)²/(E + σ²) is a sum of unequal parts, no χ². So the null distribution is simulated, with the same law of noise,
from public numbers: the expected shares of the null, or the noisy margins.

*Level.* For a fit, with n public, a table under the null and a simulated one have the same law. So the rank of the
observed statistic among the simulated ones is uniform, up to ties that only lower the level, and
p = (1 + #{simulated ≥ observed})/(1 + simulated) is at most α with probability at most α, exactly. Where n is noisy,
and for independence, whose margins are noisy estimates, the simulated law is near the true one, and nearer the more
records there are; `benchmarks.statistics.vectors` prints the level along n.

*Sensitivity.* A record that comes or goes moves one count by 1: Δ₁ = Δ₂² = 1; one that is replaced two, Δ₁ = Δ₂² = 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import real
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.statistics.base import BETA, EstimateResult, Measured, spelled
from qrelease.statistics.noise_source import ExactNoise
from qrelease.statistics.private_columns import PrivateColumns, moves

SIMULATED: Final = 999
"""Tables that the null distribution is made of: the least p-value is one over a thousand."""

_MAX_CELLS: Final = 1 << 16
_BLOCK_CELLS: Final = 1 << 20
"""Of the simulated tables that are held at once."""
_MIN_RECORDS: Final = 1.0


@final
@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy counts of the cells of a table, and how their noise was drawn; public.

    counts   as they were drawn
    records  n, or its estimate
    """

    counts: Ints
    law: Noise
    parameter: Fraction
    records: float

    @classmethod
    def measured(cls, private: PrivateColumns, names: tuple[str, ...], cost: Cost) -> NoisyCounts:
        """The cells of a marginal, in the shape of its columns."""
        exact = private.counts(names)
        what = f"counts of {' * '.join(names)}"
        noisy, law = private.measure(what, exact, moves(private.neighbours), cost)
        shape = [private.domain[name].size for name in names]
        n = private.public_records
        records = max(float(noisy.sum()), _MIN_RECORDS) if n is None else float(n)
        return cls(noisy.reshape(shape), law, calibrated(moves(private.neighbours), cost)[1], records)

    def simulated(self, shares: Floats, times: int, seed: int = 0) -> Iterator[Ints]:
        """Noisy counts of tables of as many records that are drawn with these shares, in blocks of tables, (k, …).

        From public numbers alone, so an ordinary generator does.
        """
        rng, noise = np.random.default_rng(seed), ExactNoise(Entropy.insecure(seed))
        most = max(_BLOCK_CELLS // shares.size, 1)
        for start in range(0, times, most):
            drawn = rng.multinomial(round(self.records), shares.reshape(-1), min(most, times - start))
            drawn += noise.noise(self.law, self.parameter, drawn.size).reshape(drawn.shape)
            yield drawn.reshape(-1, *self.counts.shape)

    def p_value(self, statistic: Callable[[Ints], Floats], shares: Floats) -> tuple[float, float]:
        """A statistic of the counts, and its p-value where records are drawn with these shares.

        statistic  of many tables at once, (k, …) to (k,): large where the null is wrong
        """
        observed = float(statistic(self.counts[None])[0])
        above = sum(int((statistic(tables) >= observed).sum()) for tables in self.simulated(shares, SIMULATED))
        return observed, (1 + above) / (1 + SIMULATED)


def fit(counts: NoisyCounts, shares: Floats) -> tuple[float, float]:
    """Statistic and p-value of the null that records have these shares of the cells, all of which sum to 1.

    Also for counts that a release has measured.
    """
    expected = counts.records * shares
    weights = expected + counts.law.variance
    return counts.p_value(lambda tables: ((tables - expected) ** 2 / weights).sum(axis=1), shares)


def independence(counts: NoisyCounts) -> tuple[float, float]:
    """Statistic and p-value of the null that the two columns of a table are independent.

    Also for counts that a release has measured.
    """
    variance, records = counts.law.variance, counts.records

    def statistic(tables: Ints) -> Floats:
        expected = _margin(tables, 2)[:, :, None] * _margin(tables, 1)[:, None, :] * records
        found: Floats = ((tables - expected) ** 2 / (expected + variance)).sum(axis=(1, 2))
        return found

    one = counts.counts[None]
    return counts.p_value(statistic, _margin(one, 2)[0][:, None] * _margin(one, 1)[0])


def _margin(tables: Ints, axis: int) -> Floats:
    """The shares of one column, (k, cells), from noisy counts: none is below 0, and they sum to 1."""
    sums = np.maximum(tables.sum(axis=axis), 0).astype(np.float64)
    sums += 1e-9 * (1 + sums.sum(axis=1, keepdims=True))  # equal shares where nothing is seen
    found: Floats = sums / sums.sum(axis=1, keepdims=True)
    return found


@final
@dataclass(frozen=True)
class IndependenceTest:
    """Tests whether two columns are independent, by χ² on their noisy table. Missing is a category like others.

    Its value is the statistic and the p-value. What it promises (`error_bound`) is how far the noise moves the share
    that a cell has of all records.

    Attributes
    ----------
    first, second
        The columns, of any kind.

    References
    ----------
    Gaboardi, Lim, Rogers & Vadhan 2016, *Differentially private chi-squared hypothesis testing*. Pearson's
    statistic of noisy counts against the quantiles of χ², as it was used before, rejects far more than its level:
    see the module's docstring.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.Table(qr.Domain.coded({"a": 3, "b": 2}), (np.arange(3000) % 3, np.arange(3000) % 6 // 3))
    >>> with qr.Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
    ...     curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
    ...     found = curator.estimate(IndependenceTest("a", "b"), qr.PureDP(1.0))
    >>> found.value["p_value"] > 0.05
    True
    """

    first: str
    second: str

    name: ClassVar[str] = "independence-test"

    @property
    def tested(self) -> tuple[str, ...]:
        """The columns whose table is simulated."""
        return self.first, self.second

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        if self.first == self.second:
            raise InvalidInput(f"independence is of two columns, got {self.first!r} twice")
        _check_cells(domain, self.tested)
        calibrated(moves(neighbours), cost)

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        counts = NoisyCounts.measured(private, self.tested, cost)
        statistic, p = independence(counts)
        return _result(private, counts, statistic, p, f"that {self.first} and {self.second} are independent")

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the share of each cell, with probability 1 - β in all cells."""
        cells = domain[self.first].size * domain[self.second].size
        return _share_bound(cells, records, cost, neighbours, beta)


@final
@dataclass(frozen=True)
class FitTest:
    """Tests whether a column has given shares, by χ² on its noisy counts. Missing is a category like others.

    Its value is the statistic and the p-value, which is exact where n is public. What it promises (`error_bound`) is
    how far the noise moves the share that a cell has of all records.

    Attributes
    ----------
    column
        Of any kind.
    shares
        One non-negative number a cell, in the order of the codes; they are divided by their sum.

    References
    ----------
    Gaboardi, Lim, Rogers & Vadhan 2016; the level is exact by the rank test in the module's docstring.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.Table(qr.Domain.coded({"die": 6}), (np.arange(3000) % 5,))
    >>> with qr.Ledger.open(None, qr.PureDP(1.0), dataset="throws") as ledger:
    ...     curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
    ...     found = curator.estimate(FitTest("die", (1, 1, 1, 1, 1, 1)), qr.PureDP(1.0))
    >>> found.value["p_value"]
    0.001
    """

    column: str
    shares: tuple[float, ...]

    name: ClassVar[str] = "fit-test"

    @property
    def tested(self) -> tuple[str, ...]:
        """The columns whose table is simulated."""
        return (self.column,)

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        _check_cells(domain, self.tested)
        self._shares(domain)
        calibrated(moves(neighbours), cost)

    def _shares(self, domain: Domain) -> Floats:
        cells = domain[self.column].size
        if not isinstance(self.shares, tuple) or len(self.shares) != cells:
            raise InvalidInput(f"column {self.column!r} has {cells} cells, give as many shares")
        found = np.array([real("a share", share) for share in self.shares])
        if found.min() < 0 or found.sum() <= 0:
            raise InvalidInput("shares must not be negative, nor all 0")
        shares: Floats = found / found.sum()
        return shares

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        counts = NoisyCounts.measured(private, self.tested, cost)
        statistic, p = fit(counts, self._shares(private.domain))
        return _result(private, counts, statistic, p, f"that {self.column} has the given shares")

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the share of each cell, with probability 1 - β in all cells."""
        return _share_bound(domain[self.column].size, records, cost, neighbours, beta)


def _check_cells(domain: Domain, names: tuple[str, ...]) -> None:
    for name in names:
        if domain[name].size < 2:
            raise InvalidInput(f"column {name!r} has one cell only: there is nothing to test")
    if domain.cells(domain.axes(names)) > _MAX_CELLS:
        raise InvalidInput(f"a test is of at most {_MAX_CELLS:,} cells, got {domain.cells(domain.axes(names)):,}")


def _share_bound(cells: int, records: float, cost: Cost, neighbours: Neighbours, beta: float) -> float:
    """How far off the share of a cell may be, at most.

    |(n_c + a)/(n + b) − n_c/n| ≤ (|a| + |b|)/(n + b), where b is the sum of all the noise, or 0 where n is public.
    """
    law, _ = calibrated(moves(neighbours), cost)
    public = neighbours is Neighbours.REPLACE_ONE
    each = law.largest_of(cells, beta if public else beta / 2)
    whole = 0.0 if public else law.weighted_sum_bound(cells, 1.0, beta / 2)
    error = (each + whole) / (records - whole) if records > whole else math.inf
    return error if error < 1 else math.inf


def _result(private: PrivateColumns, counts: NoisyCounts, statistic: float, p: float, null: str) -> EstimateResult:
    cells, law = counts.counts.size, counts.law
    reach = 0.0 if private.public_records is not None else law.weighted_sum_bound(cells, 1.0, BETA / 2)
    return EstimateResult(
        {"statistic": statistic, "p_value": p},
        None,
        f"the rank among {SIMULATED} simulated tables with the same noise; a p-value has no interval",
        f"the null {null}",
        (Measured("counts of the cells", tuple(counts.counts.reshape(-1).tolist()), spelled(law)),),
        typical=min(math.sqrt(law.variance) / counts.records, 1.0),
        records=counts.records - reach,
        unit="as a share of the records, in each cell",
    )
