"""Tests of a mean in high dimension: rows of signs ±1, which the null has uniform, and Gaussian vectors by their signs.

X is a table of n rows of d signs, X̄ the vector of its column sums. Under the null E‖X̄‖² = nd, and where the signs have
means μ and rows are independent, E‖X̄‖² − nd = n(n − 1)‖μ‖².

**`UniformityTest`** has one family of estimates of ‖X̄‖² from two rounds:

1. X̃ = X̄ + N, with noise of variance σ² in each column;
2. C + Z, where C is the sum over rows of ⟨row, X̃⟩ clipped to ±τ, with noise of variance v. Given X̃, which is public by
   then, each row counts by itself: one that is replaced moves C by at most 2τ, one that comes or goes by τ.

As C = ⟨X̄, X̃⟩ where nothing is clipped, V = a(C + Z) + (1 − a)(‖X̃‖² − dσ²) − nd has under the null mean 0 and variance
2dn(n − 1) + (2 − a)²σ²nd + 2(1 − a)²dσ⁴ + a²v. The a that makes it least is a function of public numbers, and so are
the shares of the rounds: in low dimension all goes to the first (a = 0), in high dimension the second helps, since its
noise is √d times smaller. Nothing is clipped under the null but with probability 1/1000: ⟨row, X̃⟩ is its own d, a sum
of (n − 1)d independent signs, and d draws of noise. The null distribution of X̄, N and Z is known, so it is simulated,
and the p-value is the rank of V in it; exact where n is public, but for that 1/1000.

At d = 10, ε = 1 and δ = 1e-6 it tells ‖μ‖ = 0.5 from uniform rows by its promise at n = 281; the efficient tester of
the text by its own at 12 288, and at 1 968 with the constants proved here (`benchmarks.statistics.vectors`).

**`EfficientTester`** is that of the text, (4ε, 14δ), with its constants; or with fewer and smaller ones, proved in its
docstring. **`GaussianMeanTest`** whitens by Σ^{−1/2}(x − μ) and takes signs: a gap of α ≤ √2 in Mahalanobis distance
gives signs of mean norm at least .594 α, for erf(t/√2) ≥ .594·t up to √2. (The printed sign of the inequality and its
constant, α/12, are wrong.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, Literal, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import positive, real
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated, currency
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import ApproxDP, Cost, Neighbours, PureDP, split
from qrelease.statistics.base import EstimateResult, Measured, spelled
from qrelease.statistics.private_columns import PrivateColumns, moves
from qrelease.statistics.vectors import VectorColumns

SIMULATED: Final = 999
"""Runs under the null that a p-value is a rank among."""

_CLIPPING_PROBABILITY: Final = 1e-3  # the probability that a row is clipped under the null
_SHARES: Final = (1.0, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)  # of the first round
_MAX_CELLS: Final = 1 << 20
_FRACTION: Final = 1 << 10  # parts of a half step that a mean is rounded to
_WEIGHT: Final = 1 << 20  # the largest entry of a whitening matrix in whole numbers


@dataclass(frozen=True)
class Rounds:
    """The two rounds of one test; public. The second is None where the first has everything."""

    dimension: int
    first: Cost
    second: Cost | None
    moves: Literal[1, 2]
    counts: bool

    @classmethod
    def of(cls, dimension: int, cost: Cost, neighbours: Neighbours, missing: bool) -> Rounds:
        """The shares for which the noise alone matters least, at as many records as σ²."""
        spent = currency(cost)
        counts = neighbours is Neighbours.ADD_REMOVE or missing
        plans = []
        for share in _SHARES:
            first, second = (spent, None) if share == 1 else split(spent, [share, 1 - share])
            plans.append(cls(dimension, first, second, moves(neighbours), counts))
        if isinstance(cost, ApproxDP):
            plans[0] = cls(dimension, cost, None, moves(neighbours), counts)  # one draw, calibrated as one
        where = plans[0].law.variance
        return min(plans, key=lambda plan: plan.variance(where, plan.best(where)))

    @property
    def weight(self) -> int:
        """The weight of the number of records among the column sums; 0 where it is public."""
        return max(1, round(math.pow(self.dimension, 0.25))) if self.counts else 0

    @property
    def moved(self) -> int:
        """Δ₁ or Δ₂² of the column sums and the weighted number."""
        if isinstance(self.first, PureDP):
            return self.moves * (self.dimension + self.weight)
        return self.moves**2 * (self.dimension + self.weight**2)

    @property
    def law(self) -> Noise:
        """The distribution of the noise of the first round."""
        return calibrated(self.moved, self.first)[0]

    def clip(self, records: float) -> int:
        """τ: where it lies, a row under the null is not clipped, in all rows with probability 999/1000."""
        n = max(records, 2.0)
        logs = math.log(4 * n / _CLIPPING_PROBABILITY)
        noise = self.law.weighted_sum_bound(self.dimension, 1.0, _CLIPPING_PROBABILITY / (2 * n))
        return math.ceil(self.dimension + math.sqrt(2 * self.dimension * n * logs) + noise)

    def second_law(self, records: float) -> tuple[Noise, Fraction] | None:
        """The distribution of the noise of the second round, and its parameter."""
        return None if self.second is None else calibrated(self.second_moved(records), self.second)

    def second_moved(self, records: float) -> int:
        """Δ₁ or Δ₂² of the clipped sum."""
        moved = self.moves * self.clip(records)
        return moved if isinstance(self.second, PureDP) else moved**2

    def best(self, records: float) -> float:
        """a, the weight of C that makes the variance of V least; see the module."""
        law = self.second_law(records)
        if law is None:
            return 0.0
        cross = self.law.variance * records * self.dimension
        own = 2 * self.dimension * self.law.variance**2
        return (2 * cross + own) / (law[0].variance + cross + own)

    def variance(self, records: float, a: float) -> float:
        """The variance of V under the null; for Laplace noise, of fourth moment 6σ⁴, with 5 in place of 2 at σ⁴."""
        law, d, n = self.second_law(records), self.dimension, records
        fourth = 5 if isinstance(self.first, PureDP) else 2
        found = 2 * d * n * max(n - 1, 0) + (2 - a) ** 2 * self.law.variance * n * d
        found += (1 - a) ** 2 * fourth * d * self.law.variance**2
        if self.weight:
            found += d**2 * self.law.variance / self.weight**2
        return found + (a * a * law[0].variance if law else 0.0)

    def combined(self, noisy: Floats, second: Floats, records: Floats, a: float) -> Floats:
        """V, of runs with noisy column sums (k, d), noisy clipped sums (k,), and numbers of records (k,)."""
        squares = (noisy**2).sum(axis=-1) - self.dimension * self.law.variance
        return np.asarray(a * second + (1 - a) * squares - records * self.dimension, np.float64)

    def null(self, records: int, a: float) -> Floats:
        """V of simulated tables of as many rows under the null, (999,)."""
        rng, sums = np.random.default_rng(0), _uniform_sums(records, self.dimension)
        noisy = sums + _alike(self.law, sums.shape, rng)
        second, drawn = np.zeros(SIMULATED), self.second_law(records)
        if drawn is not None:
            second = (sums * noisy).sum(axis=1) + _alike(drawn[0], second.shape, rng)
        counted = np.full(SIMULATED, float(records))
        if self.weight:
            counted += _alike(self.law, counted.shape, rng) / self.weight
        return self.combined(noisy, second, counted, a)


@lru_cache(maxsize=4)
def _uniform_sums(records: int, dimension: int) -> Floats:
    """Column sums of simulated tables under the null, (999, d)."""
    rng = np.random.default_rng(1)
    return np.asarray(2.0 * rng.binomial(records, 0.5, (SIMULATED, dimension)) - records, np.float64)


def _alike(law: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Numbers as the noise is, for the simulation of what is public: nothing private is in reach of them.

    A discrete Gaussian is a rounded real one, to far less than 999 runs can show, from σ = 1 on.
    """
    if law.order == 2:
        return np.rint(rng.normal(0.0, law.scale, shape))
    p = -math.expm1(-1 / law.scale)
    return np.asarray(rng.geometric(p, shape) - rng.geometric(p, shape), np.float64)


def _tested(private: PrivateColumns, rows: Ints, missing: bool, cost: Cost, null: str) -> EstimateResult:
    """The test of rows of signs, (m, d); each is a function of one record alone."""
    plan = Rounds.of(rows.shape[1], cost, private.neighbours, missing)
    exact = rows.sum(axis=0)
    if plan.weight:
        exact = np.append(exact, plan.weight * len(rows))
    noisy, law = private.measure("column sums of the signs", exact, plan.moved, plan.first)
    records = max(float(noisy[-1]) / plan.weight, 2.0) if plan.weight else float(len(rows))
    sums = noisy[: rows.shape[1]]
    a, second = plan.best(records), np.zeros(1)
    measured = [Measured("column sums of the signs", tuple(noisy.tolist()), spelled(law))]
    if plan.second is not None:
        scores = np.clip(rows @ sums, -plan.clip(records), plan.clip(records))
        exact_score = np.array([scores.sum()])
        what = "sum of the rows' products with the column sums, clipped"
        drawn, score_law = private.measure(what, exact_score, plan.second_moved(records), plan.second)
        second = drawn.astype(np.float64)
        measured.append(Measured(what, int(drawn[0]), spelled(score_law)))
    found = float(plan.combined(sums[None].astype(np.float64), second, np.array([records]), a)[0])
    p = (1 + int((plan.null(round(records), a) >= found).sum())) / (1 + SIMULATED)
    pairs = records * max(records - 1, 1.0)
    return EstimateResult(
        {"squared_norm": found / pairs, "p_value": p},
        None,
        f"the rank among {SIMULATED} simulated tables with the same noise; a p-value has no interval",
        f"the null {null}",
        tuple(measured),
        {"share of the second round": a},
        typical=math.sqrt(plan.variance(records, a)) / pairs,
        records=records - (law.reach(0.025) / plan.weight if plan.weight else 0.0),
        unit="of the norm of the means of the signs, that a table under the null shows",
    )


def _norm_bound(
    dimension: int, records: float, cost: Cost, neighbours: Neighbours, missing: bool, beta: float
) -> float:
    """√e where V/(n(n − 1)) is at most e with probability 1 − β under the null, by Cantelli's inequality."""
    plan = Rounds.of(dimension, cost, neighbours, missing)
    if records < 2 or beta <= 2 * _CLIPPING_PROBABILITY:
        return math.inf
    variance = plan.variance(records, plan.best(records))
    left = beta - _CLIPPING_PROBABILITY
    found = math.sqrt(math.sqrt(variance * (1 - left) / left) / (records * (records - 1)))
    return found if found < math.sqrt(dimension) else math.inf


def signs_of(private: PrivateColumns, columns: tuple[str, ...]) -> Ints:
    """Rows of ±1 from columns of two values, (m, d); records that miss one are left out."""
    return np.asarray(VectorColumns.of(private.domain, columns).rows(private), np.int64)


def check_signs(domain: Domain, columns: tuple[str, ...]) -> VectorColumns:
    """The columns, or `InvalidInput` where one has not two values."""
    frame = VectorColumns.of(domain, columns)
    wide = [grid.name for grid in frame.grids if grid.cells != 2]
    if wide:
        raise InvalidInput(f"a uniformity test takes columns of two values, got {wide[0]!r}")
    return frame


@final
@dataclass(frozen=True)
class UniformityTest:
    """Tests whether rows of two-valued columns are uniform: each column a fair coin, all independent.

    Its value is an estimate of the squared norm of the columns' means as signs, which can be below 0, and a p-value.
    What it promises (`error_bound`) is the norm that a table under the null shows at most, by Cantelli's inequality.

    Attributes
    ----------
    columns
        Of codes 0 and 1, or of two whole numbers; at least one.

    References
    ----------
    Canonne, Kamath, McMillan, Ullman & Zakynthinou 2020 for ‖X̄‖² as a statistic; the two rounds, their proof and
    the level are those of the module's docstring.

    Examples
    --------
    >>> import qrelease as qr
    >>> bits = np.random.default_rng(0).random((2000, 20)) < 0.6
    >>> names = tuple(f"b{i}" for i in range(20))
    >>> table = qr.Table(qr.Domain.coded(dict.fromkeys(names, 2)), tuple(bits.T.astype(int)))
    >>> with qr.Ledger.open(None, qr.ZCDP(0.1), dataset="bits") as ledger:
    ...     found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(UniformityTest(names), qr.ZCDP(0.1))
    >>> found.value["p_value"], round(found.value["squared_norm"], 1)
    (0.001, 0.8)
    """

    columns: tuple[str, ...]

    name: ClassVar[str] = "uniformity-test"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        frame = check_signs(domain, self.columns)
        Rounds.of(len(frame), cost, neighbours, frame.missing)

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        frame = check_signs(private.domain, self.columns)
        return _tested(
            private, signs_of(private, self.columns), frame.missing, cost, "that all rows are equally likely"
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the norm that a table under the null shows."""
        frame = VectorColumns.of(domain, self.columns)
        return _norm_bound(len(frame), records, cost, neighbours, frame.missing, beta)


@final
@dataclass(frozen=True)
class GaussianMeanTest:
    """Tests whether Gaussian columns with a known covariance have a given mean, by the signs of whitened rows.

    Whitening is done in whole numbers, so that a record's signs depend on nothing but that record. On a coarse grid a
    value may be at the mean itself, and counts as above it: take means between the values.

    Attributes
    ----------
    columns
        Names of columns of numbers.
    means
        The mean of each under the null.
    covariance
        Rows of a symmetric positive definite matrix; or one variance a column.

    References
    ----------
    Canonne, Kamath, McMillan, Ullman & Zakynthinou 2020 for the signs; its inequality is printed the wrong way
    round, and with α/12 for .594 α.

    Examples
    --------
    >>> import qrelease as qr
    >>> rng = np.random.default_rng(0)
    >>> table = qr.Table(qr.Domain.coded({"a": 100, "b": 100}), tuple(rng.normal(50.5, 5, (2, 3000)).astype(int)))
    >>> test = GaussianMeanTest(("a", "b"), (49.5, 47.5), (25.0, 25.0))
    >>> with qr.Ledger.open(None, qr.ZCDP(0.1), dataset="people") as ledger:
    ...     found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(test, qr.ZCDP(0.1))
    >>> found.value["p_value"]
    0.001
    """

    columns: tuple[str, ...]
    means: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...] | tuple[float, ...]

    name: ClassVar[str] = "gaussian-mean-test"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        frame = VectorColumns.of(domain, self.columns)
        self._whitening(frame)
        Rounds.of(len(frame), cost, neighbours, frame.missing)

    def _whitening(self, frame: VectorColumns) -> tuple[Ints, Ints]:
        """The mean, (d,), in parts of half steps, and whole numbers in proportion to Σ^{−1/2}, (d, d)."""
        if not isinstance(self.means, tuple) or len(self.means) != len(frame):
            raise InvalidInput(f"give as many means as columns, {len(frame)}")
        if max(grid.cells for grid in frame.grids) > _MAX_CELLS:
            raise InvalidInput(f"a column of a Gaussian test has at most {_MAX_CELLS:,} values")
        middles = np.array([grid.value((grid.cells - 1) / 2) for grid in frame.grids])
        means = (np.array([real("a mean", m) for m in self.means]) - middles) / frame.half_steps
        given = np.array(self.covariance, dtype=np.float64)
        matrix = np.diag(given) if given.ndim == 1 else given
        square = matrix.shape == (len(frame), len(frame))
        if not square or not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
            raise InvalidInput("covariance must be one variance a column, or a symmetric matrix of all columns")
        values, vectors = np.linalg.eigh(matrix / np.outer(frame.half_steps, frame.half_steps))
        if values.min() <= 1e-9 * values.max():
            raise InvalidInput("covariance must be positive definite, and not nearly singular")
        root = (vectors / np.sqrt(values)) @ vectors.T
        whole = np.rint(root / np.abs(root).max() * _WEIGHT).astype(np.int64)
        return np.rint(np.clip(means, -_MAX_CELLS, _MAX_CELLS) * _FRACTION).astype(np.int64), whole

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        frame = VectorColumns.of(private.domain, self.columns)
        means, root = self._whitening(frame)
        rows = (frame.rows(private) * _FRACTION - means) @ root
        signs = np.where(rows >= 0, 1, -1).astype(np.int64)
        return _tested(private, signs, frame.missing, cost, f"that the mean is {self.means}")

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the norm of the signs' means that a table under the null shows."""
        frame = VectorColumns.of(domain, self.columns)
        return _norm_bound(len(frame), records, cost, neighbours, frame.missing, beta)


@final
@dataclass(frozen=True)
class EfficientTester:
    """The textbook's efficient test whether rows are uniform; the number of rows is public, so replace-one only.

    X̃ is a noisy X̄; a row is *bad* where |⟨row, X̃⟩| > τ; few rows may be bad; and T = ‖X̂‖² − nd, with X̂ the sum of
    the other rows, moves little between neighbours, for a row x that comes moves ‖X̂‖² by 2⟨X̂, x⟩ + d.

    *As printed* (`constants="printed"`) each of four steps costs ε/4 of the whole, and δ/14 counts for each of the
    failures: the constants are those of the text, and bad rows are replaced by uniform ones.

    *As proved here* (the default) the first step, on max|X̄ᵢ|, is left out: it served to bound what a replaced row does,
    and bad rows are dropped instead. Let ε = ε₁ + ε₂ + ε₃ and δ = δ₁ + δ₂ + δ₃.

    1. X̃ = X̄ + N is (ε₁, δ₁), by the analytic Gaussian for Δ₂ = 2√d, rounded.
    2. Given X̃, the number of bad rows moves by 1. Reject if it is above m = ⌈ln(1/δ₂)/ε₂⌉ after Lap(1/ε₂). Where the
       rows that both neighbours have hold 2m bad ones, either rejects with probability at least 1 − δ₂: outputs differ
       by (0, δ₂). Otherwise fewer than 2m are bad among them.
    3. Reject if T + Lap(S/ε₃) > n(n − 1)α²/4, with S = 4(τ + t + 2d + 2md). Let x be replaced by x', and A be the sum
       of the good rows among the common ones. Then X̃ = A + B + x + N with B the sum of fewer than 2m bad rows, hence
       |⟨A, x⟩| ≤ |⟨X̃, x⟩| + |⟨N, x⟩| + d + 2md ≤ τ + t + d + 2md if x is good, where |⟨N, x⟩| ≤ t = σ√(2d ln(4/δ₃))
       + d/2 but with probability δ₃/2. With N' = N + x − x', the noise that explains X̃ for the neighbour,
       |⟨N', x'⟩| ≤ t + 2d but with probability δ₃/2, and |⟨A, x'⟩| ≤ τ + t + 3d + 2md. A good row changes ‖A‖² by twice
       its product and d, a dropped one by nothing. So T moves by at most 2(2τ + 2t + 4d + 4md) = S, all of it given X̃.

    Step 1 gives X̃; what steps 2 and 3 do is (ε₂ + ε₃, δ₂) given an X̃ outside an event of probability δ₃. In all
    (ε, δ). Any τ is private; this one keeps all rows under the null with probability 999/1000.

    Attributes
    ----------
    columns
        Of two values each.
    distance
        α: rows whose signs have means of that norm or more are to be rejected.
    constants
        `proved` or `printed`.

    References
    ----------
    Canonne, Kamath, McMillan, Ullman & Zakynthinou 2020, *Private identity testing for high-dimensional
    distributions*.

    Examples
    --------
    >>> import qrelease as qr
    >>> bits, names = np.random.default_rng(0).random((4000, 8)) < 0.7, tuple(f"b{i}" for i in range(8))
    >>> table = qr.Table(qr.Domain.coded(dict.fromkeys(names, 2)), tuple(bits.T.astype(int)))
    >>> cost = qr.ApproxDP(1.0, 1e-6)
    >>> with qr.Ledger.open(None, cost, dataset="bits", neighbours="replace-one") as ledger:
    ...     curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
    ...     found = curator.estimate(EfficientTester(names, 0.5), cost)
    >>> found.value
    {'rejects': True}
    """

    columns: tuple[str, ...]
    distance: float
    constants: Literal["proved", "printed"] = "proved"

    name: ClassVar[str] = "efficient-tester"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        frame = check_signs(domain, self.columns)
        positive("distance", self.distance)
        if self.constants not in ("proved", "printed"):
            raise InvalidInput(f"constants must be proved or printed, got {self.constants!r}")
        if not isinstance(cost, ApproxDP) or cost.delta == 0:
            raise InvalidInput(f"the efficient tester needs a delta beside its epsilon, got {cost}")
        if self.constants == "printed" and cost.epsilon >= 4:
            raise InvalidInput("the printed noise is proved for a fourth of epsilon below 1")
        if neighbours is not Neighbours.REPLACE_ONE or frame.missing:
            raise InvalidInput("the efficient tester knows n: it takes a ledger of replace-one, and no missing values")

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        if not isinstance(cost, ApproxDP):
            raise InvalidInput(f"the efficient tester needs a delta beside its epsilon, got {cost}")
        rows = signs_of(private, self.columns)
        decide = self._printed if self.constants == "printed" else self._proved
        reason, sums = decide(private, rows, cost)
        return EstimateResult(
            {"rejects": reason is not None},
            None,
            "a tester says yes or no; its text promises neither a level nor an interval",
            "the null that all rows are equally likely",
            (sums, Measured("why it rejected", reason or "it did not", "noisy comparison")),
            records=float(len(rows)),
            unit="of the norm of the means of the signs",
        )

    def _proved(self, private: PrivateColumns, rows: Ints, cost: ApproxDP) -> tuple[str | None, Measured]:
        n, d = rows.shape
        first, second, third = split(cost, [5, 2, 3])
        noisy, law = private.measure("column sums of the signs", rows.sum(axis=0), 4 * d, first)
        clip = ProvedConstants.clip(n, d, law.scale)
        good = np.abs(rows @ noisy) <= clip
        most = ProvedConstants.bad(second)
        bad = private.perturb("how many rows are bad", int((~good).sum()), 1 / Fraction(second.epsilon), second)
        moved = ProvedConstants.moved(d, clip, law.scale, second, third)
        left = rows[good].sum(axis=0)
        scale = Fraction(moved) / Fraction(third.epsilon)
        total = private.perturb("squared length of the sum of the good rows", int(left @ left) - n * d, scale, third)
        seen = Measured("column sums of the signs", tuple(noisy.tolist()), spelled(law))
        if bad > most:
            return "many rows are bad", seen
        return "the sum is long" if total > n * (n - 1) * self.distance**2 / 4 else None, seen

    def _printed(self, private: PrivateColumns, rows: Ints, cost: ApproxDP) -> tuple[str | None, Measured]:
        n, d = rows.shape
        each = ApproxDP(cost.epsilon / 4 * (1 - 2**-50), cost.delta / 14)
        epsilon, delta = Fraction(each.epsilon), each.delta
        failures = split(ApproxDP(each.epsilon, cost.delta * (13 / 14) * (1 - 2**-50)), [1, 1, 1])
        pure = [ApproxDP(each.epsilon, part.delta) for part in failures]
        logs, gauss = math.log(1 / delta), math.log(5 / (4 * delta))
        sums = rows.sum(axis=0)
        largest = private.perturb("largest column sum", int(np.abs(sums).max(initial=0)), 2 / epsilon, pure[0])
        variance = Fraction(8 * d * gauss) / epsilon**2
        private.spend("column sums of the signs", each)
        law = Noise("rounded Gaussian", math.sqrt(variance))
        noisy = sums + private.noise.noise(law, variance, d)
        seen = Measured("column sums of the signs", tuple(noisy.tolist()), spelled(law))
        delta_ = _printed_delta(n, d, float(epsilon), delta)
        root = math.sqrt(gauss * math.log(n / delta)) * d / float(epsilon)
        good = np.abs(rows @ noisy) <= delta_ + 4 * root
        bad = private.perturb("how many rows are bad", int((~good).sum()), 1 / epsilon, pure[1])
        uniform = 2 * private.noise.labels(rows.size, 2).reshape(rows.shape) - 1
        filled = np.where(good[:, None], rows, uniform).sum(axis=0)
        scale = Fraction(4 * delta_ + 48 * root) / epsilon
        total = private.perturb("squared length of the sum", int(filled @ filled) - n * d, scale, pure[2])
        if largest > math.sqrt(2 * n * math.log(d / delta)) + 2 * logs / epsilon:
            return "a column sum is large", seen
        if bad > logs / epsilon:
            return "many rows are bad", seen
        return "the sum is long" if total > n * (n - 1) * self.distance**2 / 4 else None, seen

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; the least α at which rows under the null are accepted with probability 1 - β.

        T has variance 2dn(n − 1) under the null: half of β is for it, by Cantelli's inequality, the rest for the noise.
        """
        d, n = len(VectorColumns.of(domain, self.columns)), records
        if not isinstance(cost, ApproxDP) or n < 2 or beta <= 4 * _CLIPPING_PROBABILITY:
            return math.inf
        if self.constants == "printed":
            epsilon, delta = cost.epsilon / 4, cost.delta / 14
            root = math.sqrt(math.log(5 / (4 * delta)) * math.log(n / delta)) * d / epsilon
            scale = (4 * _printed_delta(n, d, epsilon, delta) + 48 * root) / epsilon
        else:
            first, second, third = split(cost, [5, 2, 3])
            sigma = calibrated(4 * d, first)[0].scale
            scale = ProvedConstants.moved(d, ProvedConstants.clip(n, d, sigma), sigma, second, third) / third.epsilon
        left = beta / 2 - _CLIPPING_PROBABILITY
        total = math.sqrt(2 * d * n * (n - 1) * (1 - left) / left) + scale * math.log(2 / beta)
        found = math.sqrt(4 * total / (n * (n - 1)))
        return found if found < math.sqrt(d) else math.inf


class ProvedConstants:
    """The constants that are proved in `EfficientTester`."""

    @staticmethod
    def clip(n: float, d: int, sigma: float) -> int:
        """τ: a row is bad where its product with the noisy sum is beyond this."""
        return math.ceil(1.5 * d + math.sqrt(2 * d * (n + sigma**2) * math.log(2 * n / _CLIPPING_PROBABILITY)))

    @staticmethod
    def bad(cost: ApproxDP) -> int:
        """m, the number of bad rows above which the test rejects."""
        return math.ceil(math.log(1 / cost.delta) / cost.epsilon * (1 + 2**-40))

    @classmethod
    def moved(cls, d: int, clip: int, sigma: float, second: ApproxDP, third: ApproxDP) -> int:
        """S: how far one record moves T, given the noisy sum, at most."""
        t = sigma * math.sqrt(2 * d * math.log(4 / third.delta)) * (1 + 2**-40) + d / 2
        return 4 * (clip + math.ceil(t) + 2 * d + 2 * cls.bad(second) * d)


def _printed_delta(n: float, d: int, epsilon: float, delta: float) -> float:
    """Δ, the sensitivity that is printed in the text."""
    logs = math.log(1 / delta)
    terms = d * math.log(d / delta) + d * logs**2 / (n * epsilon**2)
    terms += math.sqrt(n * d * math.log(d / delta) * math.log(n / delta))
    return 16 * (terms + math.sqrt(d) / epsilon * logs * math.sqrt(math.log(n / delta)))
