"""A test whether rows are uniform, by a Lipschitz extension that is computed by listing; hence for small sizes only.

X is a table of n rows x of d signs ±1, X̄ the vector of its column sums and T(X) = ‖X̄‖² − nd. On C(Δ), the tables in
which every row has |⟨x, X̄⟩| ≤ Δ, one replaced row moves T by 2(⟨X̄, x⟩ − ⟨X̄', x'⟩), so by at most 4Δ. The text (Canonne,
Kamath, McMillan, Ullman & Zakynthinou 2020) takes T̂(X) = min over Y in C(Δ) of T(Y) + 4Δ·d(X, Y), d being the number of
rows to replace, and lets Δ fall over M rounds.

**Where the text is wrong.** (1) It spends ε/M in each of M − 1 rounds and ε in the end, (2 − 1/M)ε in all; here the
rounds have ε/2 together and the end ε/2. (2) T is not 4Δ-Lipschitz on C(Δ), since the tables between two of them need
not be in it: with d = 16, n = 18, Δ = 4 two at distance 2 differ by 64 > 32. T̂ is private by its form, but less than T
on C(Δ), so that what is promised for T does not follow.

**What holds.** Let X and Y in C(Δ) differ in k rows, of sums P and Q. Then

    T(X) − T(Y) = 2⟨P, X̄⟩ − 2⟨Q, Ȳ⟩ − ‖P‖² + ‖Q‖² ≤ 4kΔ + k²d,

and, as ‖X̄‖² = Σ⟨x, X̄⟩ ≤ nΔ and ‖Ȳ‖² ≥ 0, also at most nΔ. The larger of min(4Δ + kd, nΔ/k) over k is where both are
equal: T is L-Lipschitz on C(Δ) for L = 2Δ + √(4Δ² + ndΔ), or for 4(n − 1)d, which is true everywhere, where that is
less. With this L instead of 4Δ, T̂ is T on C(Δ), and L-Lipschitz on all tables, as a minimum of functions that are.

**The rounds.** Δ₁ = nd holds every table. Round m releases T̂ + Lap(L/ε_m), and rejects above t + r_m, where t is what
T exceeds under the null with probability 1/100 at most, by Cantelli's inequality and the variance 2dn(n − 1), and r_m
what the noise exceeds on either side with probability 1/(100 M). If it does not reject, T ≤ t + 2r_m but for that, so
that ‖X̄‖² ≤ nd + t + 2r_m, and as |⟨x, X̄⟩| ≤ √d‖X̄‖ the table is in C(Δ) of the next round for Δ² = d(nd + t + 2r_m):
then T̂ is T. The end rejects above n(n − 1)α²/4.

The minimum is over all tables, as counts of the 2^d rows; where these are more than 2^22 numbers Δ stays nd, and T̂ is
T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import natural, positive
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours, PureDP, split
from qrelease.statistics.base import EstimateResult, Measured, spelled
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.uniformity import check_signs, signs_of

_FAILURE: Final = 0.01
_MAX_COUNTS: Final = 1 << 22
_MAX_KINDS: Final = 1 << 6


@dataclass(frozen=True)
class LipschitzRound:
    """One release of T̂; public."""

    reach: int
    lipschitz: int
    cost: PureDP

    @property
    def scale(self) -> Fraction:
        """The scale of its Laplace noise."""
        return Fraction(self.lipschitz) / Fraction(self.cost.epsilon)


@dataclass(frozen=True)
class Plan:
    """The rounds and the end of a test of n rows of d signs; public."""

    records: int
    dimension: int
    costs: tuple[PureDP, ...]

    @classmethod
    def of(cls, records: float, dimension: int, cost: PureDP, rounds: int) -> Plan:
        """Half of the cost for all rounds but the last, and half for that."""
        if rounds == 1:
            return cls(int(records), dimension, (cost,))
        early, last = split(cost, [1, 1])
        return cls(int(records), dimension, (*split(early, [1] * (rounds - 1)), last))

    @cached_property
    def null(self) -> float:
        """t, which rows under the null exceed with probability `_FAILURE` at most, by Cantelli's inequality."""
        n = self.records
        return math.sqrt(2 * self.dimension * n * max(n - 1, 0) * (1 - _FAILURE) / _FAILURE)

    @property
    def listed(self) -> bool:
        """Whether all tables can be listed."""
        kinds = 1 << self.dimension
        return kinds <= _MAX_KINDS and kinds * math.comb(self.records + kinds - 1, kinds - 1) <= _MAX_COUNTS

    def noise_reach(self, held: LipschitzRound) -> float:
        """r: how far the noise of a round goes, but for its part of the probability of failure."""
        return Noise("discrete Laplace", float(held.scale)).reach(_FAILURE / len(self.costs))

    @cached_property
    def rounds(self) -> tuple[LipschitzRound, ...]:
        """By what Δ may be when the rounds before have not rejected."""
        n, d = self.records, self.dimension
        found: list[LipschitzRound] = []
        reach = n * d
        for cost in self.costs:
            if found and self.listed:
                most = n * d + self.null + 2 * self.noise_reach(found[-1])
                reach = min(reach, math.ceil(math.sqrt(d * most)))
            found.append(LipschitzRound(reach, lipschitz_constant(n, d, reach), cost))
        return tuple(found)


def lipschitz_constant(records: int, dimension: int, reach: int) -> int:
    """L for C(Δ), rounded up."""
    n, d = records, dimension
    root = math.isqrt(4 * reach**2 + n * d * reach) + 1
    return max(1, min(4 * max(n - 1, 0) * d, 2 * reach + root))


@lru_cache(maxsize=4)
def _tables(records: int, kinds: int) -> Ints:
    """All ways in which so many rows can be of so many kinds, (tables, kinds)."""
    found = np.zeros((1, kinds), np.min_scalar_type(max(records, 1)))
    left = np.full(1, records, np.int64)
    for kind in range(kinds - 1):
        chosen = np.concatenate([np.arange(most + 1) for most in left.tolist()])
        found, left = np.repeat(found, left + 1, axis=0), np.repeat(left, left + 1)
        found[:, kind] = chosen
        left = left - chosen
    found[:, -1] = left
    return found


@lru_cache(maxsize=4)
def _described(records: int, dimension: int) -> tuple[Ints, Ints]:
    """T of each table of `_tables`, and its largest |⟨x, X̄⟩| over the rows x that it has."""
    tables = _tables(records, 1 << dimension)
    sums = tables.astype(np.int64) @ _kinds(dimension)
    products = np.abs(sums @ _kinds(dimension).T)
    return (sums**2).sum(axis=1) - records * dimension, np.where(tables > 0, products, 0).max(axis=1)


def _kinds(dimension: int) -> Ints:
    """All rows of signs, (2^d, d)."""
    codes = np.arange(1 << dimension)[:, None]
    return np.asarray(2 * (codes >> np.arange(dimension) & 1) - 1, np.int64)


def extended(counts: Ints, dimension: int, held: LipschitzRound) -> int:
    """T̂ of a table that has so many rows of each kind, (2^d,): the least over all tables in C(Δ)."""
    records = int(counts.sum())
    lengths, reaches = _described(records, dimension)
    inside = reaches <= held.reach
    shared = np.minimum(_tables(records, len(counts))[inside], counts).sum(axis=1, dtype=np.int64)
    return int((lengths[inside] + held.lipschitz * (records - shared)).min())


def run_rounds(private: PrivateColumns, rows: Ints, plan: Plan, distance: float) -> EstimateResult:
    """Run the rounds on rows of signs, (n, d)."""
    n, d = rows.shape
    counts = np.zeros(0, np.int64)
    if plan.listed:
        counts = np.bincount((rows > 0) @ (1 << np.arange(d)), minlength=1 << d).astype(np.int64)
    sums, rejects, measured = rows.sum(axis=0), False, []
    for at, held in enumerate(plan.rounds):
        last = at == len(plan.rounds) - 1
        exact = extended(counts, d, held) if plan.listed else int(sums @ sums) - n * d
        what = "squared length of the column sums less nd" + ("" if last else f", round {at + 1}")
        noisy = private.perturb(what, exact, held.scale, held.cost)
        measured.append(Measured(what, noisy, spelled(Noise("discrete Laplace", float(held.scale)))))
        most = n * (n - 1) * distance**2 / 4 if last else plan.null + plan.noise_reach(held)
        rejects = rejects or noisy > most
    return EstimateResult(
        {"rejects": rejects},
        None,
        "a tester says yes or no; its promise is about the null",
        "the null that all rows are equally likely",
        tuple(measured),
        {"reaches": tuple(held.reach for held in plan.rounds)},
        typical=math.sqrt(2) * float(plan.rounds[-1].scale) / max(n * (n - 1), 1),
        records=float(n),
        unit="of the norm of the means of the signs",
    )


@final
@dataclass(frozen=True)
class LipschitzTester:
    """Tests whether rows of two-valued columns are uniform, under pure ε; the number of rows is public.

    For few columns and records: where the tables are too many to be listed it is Laplace noise on T.
    This is the text's, mended; `UniformityTest` keeps a level at any size, and takes (ε, δ) too. What it promises
    (`error_bound`) is the least α at which rows under the null are accepted with probability 1 - β, β above 2/100.

    Attributes
    ----------
    columns
        Of two values each.
    distance
        α: rows whose signs have means of that norm or more are to be rejected.
    rounds
        M.

    References
    ----------
    Canonne, Kamath, McMillan, Ullman & Zakynthinou 2020, *Private identity testing for high-dimensional
    distributions*, whose budget and Lipschitz constant are wrong: the module's docstring has what holds.

    Examples
    --------
    >>> import qrelease as qr
    >>> bits, cost = np.random.default_rng(0).random((2000, 1)) < 0.9, qr.PureDP(1.0)
    >>> table = qr.Table(qr.Domain.coded({"b": 2}), tuple(bits.T.astype(int)))
    >>> with qr.Ledger.open(None, cost, dataset="bits", neighbours="replace-one") as ledger:
    ...     found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(LipschitzTester(("b",), 0.5), cost)
    >>> found.value, found.choices
    ({'rejects': True}, {'reaches': (2000, 447)})
    """

    columns: tuple[str, ...]
    distance: float
    rounds: int = 2

    name: ClassVar[str] = "lipschitz-tester"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        frame = check_signs(domain, self.columns)
        positive("distance", self.distance)
        natural("rounds", self.rounds)
        if not isinstance(cost, PureDP):
            raise InvalidInput(f"the Lipschitz tester costs a pure epsilon, got {cost}; uniformity-test takes a delta")
        if neighbours is not Neighbours.REPLACE_ONE or frame.missing:
            raise InvalidInput("the Lipschitz tester knows n: it takes a ledger of replace-one, and no missing values")

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        rows = signs_of(private, self.columns)
        return run_rounds(private, rows, self._plan(len(rows), rows.shape[1], cost), self.distance)

    def _plan(self, records: float, dimension: int, cost: Cost) -> Plan:
        if not isinstance(cost, PureDP):
            raise InvalidInput(f"the Lipschitz tester costs a pure epsilon, got {cost}")
        return Plan.of(records, dimension, cost, self.rounds)

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; of the norm that rows under the null do not seem to have."""
        d = len(self.columns)
        if records < 2 or beta <= 2 * _FAILURE:
            return math.inf
        plan = self._plan(records, d, cost)
        scale = float(plan.rounds[-1].scale)
        total = plan.null + Noise("discrete Laplace", scale).reach(2 * (beta - 2 * _FAILURE))
        found = math.sqrt(4 * total / (plan.records * (plan.records - 1)))
        return found if found < math.sqrt(d) else math.inf
