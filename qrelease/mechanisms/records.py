"""Weighted records fitted to marginals that are partly measured at once and partly selected: for universes of any size.

First every column by itself is measured. Where the noisy number of records says that pairs will stand out of their
noise, all pairs of columns are measured next, at once. What is left goes to rounds: the marginal is selected on which
the records differ most from the table in L1 norm, beyond what the noise of a measurement would be (the score of AIM:
McKenna, Mullins, Sheldon & Miklau 2022), it is measured through its residuals, and the records are fitted to all
measurements so far (`chains`). When a measurement shows nothing but noise, the later ones get twice its share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import pi, sqrt
from typing import final

import numpy as np
import numpy.typing as npt

from qrelease import memory, predicate
from qrelease.chains import Fitted, fit
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.exact import whole
from qrelease.measure import Measurement, Private, currency, noise_for
from qrelease.privacy import ZCDP, ApproxDP, Cost, Neighbours, PureDP, split
from qrelease.privacy.costs import check_cost
from qrelease.queries import Cells
from qrelease.records import LARGEST_COLUMN, Tables, WeightedCodes
from qrelease.release import Draft, generator
from qrelease.residuals import Estimates, Plan, Residual
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MOST_CELLS = 1 << 23
"""Cells of all marginals together among which is selected: the smallest ones."""

SINGLES = 0.15
"""The share of the budget that measures each column by itself."""

SELECTION = 0.1
"""The share of each round that selects."""

_MOST_ROUNDS = 400
_SEARCHED = 1_000  # records that look for a possible one
_CLEAR = 3_000.0  # n√ρ from which all pairs are measured: below, only selected ones stand out
_PAIRS, _ENOUGH = 0.7, 10_000.0  # their share of what is left, at most, and n√ρ of what they get, at most
_FIT = 30  # rounds of the fit to all pairs
_REFIT = 4  # after each selected marginal
_LAST = 40  # in the end
_CELL = 400  # bytes for a cell of those: its count, and, once measured, the steps that L-BFGS remembers
_RECORD = 100  # bytes for a record besides its codes: its weight, sums, positions, and copies of them


@final
@dataclass(frozen=True)
class Records:
    """Adaptive selection of marginals, and weighted records fitted to their measured residuals.

    order       of the largest marginals that may be selected
    records     weighted records that are fitted: the more, the less their sampling shows
    impossible  conditions that no record satisfies, as the public knows: `age < 16 and income = '>50K'`

    Costs are (ε, δ) or ρ, spent as ρ-zCDP.
    """

    order: int = 3
    records: int = 1 << 17
    impossible: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "impossible", tuple(self.impossible))
        object.__setattr__(self, "order", whole("order", self.order, least=2))
        object.__setattr__(self, "records", whole("records", self.records, least=1))

    @property
    def name(self) -> str:
        """`records`."""
        return "records"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` without a δ, or for noise beyond the sampler's range; `TooLarge` for what no memory holds."""
        check_cost(cost)
        if isinstance(cost, PureDP) or (isinstance(cost, ApproxDP) and cost.delta == 0):
            raise InvalidInput(f"Gaussian noise needs a delta above 0, got {cost}; give --delta, or use mwem")
        domain = workload.domain
        if max(domain.shape) > LARGEST_COLUMN:
            raise TooLarge(f"columns may have {LARGEST_COLUMN:,} cells, got one of {max(domain.shape):,}")
        if max(domain.shape) == 1:
            raise InvalidInput("the universe has one cell: there is nothing to fit")
        _check_possible(domain, _masks(domain, self.impossible))
        memory.check(memory.ANSWER * len(workload), f"{len(workload):,} answers", "ask fewer")
        cells = sum(domain.cells(s) for s in _candidates(workload, self.order))
        needed = _CELL * cells + (_RECORD + 4 * len(domain)) * self.records
        memory.check(needed, f"{self.records:,} weighted records", "lower the number of records, or the order")
        singles, rest = _shares(cost)
        noise_for(_residuals(domain, (), neighbours), singles, neighbours)
        least, _ = split(rest, [1 - SELECTION, _MOST_ROUNDS])
        for s in _candidates(workload, self.order)[-1:]:
            noise_for(_residuals_below(domain, s, neighbours), least, neighbours)

    def release(self, private: Private, workload: Workload, cost: Cost) -> Draft:
        """Measure the columns, perhaps the pairs, then select, measure and fit until the budget is spent."""
        domain, neighbours = workload.domain, private.neighbours
        candidates = _Candidates(private, workload, self.order)
        singles, rest = _shares(cost) if candidates.sets else (_zcdp(cost), None)
        measured = private.measure(_residuals(domain, (), neighbours), singles)
        learned = _Learned(private, domain, measured, _masks(domain, self.impossible))
        fewer = max(self.records // 2, 1)
        learned.fit(fewer, 1)
        share, chosen = 0.0, []
        if rest is not None:
            share = _pairs(learned.fitted.total, rest) if candidates.pairs else 0.0
            if share:
                together, rest = split(rest, [share, 1 - share])
                learned.measured += private.measure(_residuals(domain, candidates.pairs, neighbours), together)
                learned.fit(fewer, _FIT)
            chosen = _adapt(private, learned, candidates, rest, fewer, halved=share > 0)
        learned.fit(self.records, _LAST)
        chains, known = learned.fitted.chains, tuple(learned.measured)
        synopsis = WeightedCodes(domain, chains.codes, chains.weights, learned.fitted.total, known)
        selected = [[domain.names[a] for a in axes] for axes in chosen]
        choices = {"pairs": share, "selected": selected, "fitted rounds": learned.fitted.rounds}
        return Draft(synopsis, known, choices)


@final
class _Learned:
    """What was measured, and what was fitted to it last: public."""

    fitted: Fitted

    def __init__(
        self, private: Private, domain: Domain, measured: list[Measurement], impossible: Mapping[Axes, Mask]
    ) -> None:
        self.domain, self.measured, self._impossible = domain, measured, impossible
        self._records = float(len(private.table)) if private.neighbours is Neighbours.REPLACE_ONE else None
        self._rng = generator(_seed(measured))
        self._start: Fitted | None = None

    @property
    def estimates(self) -> Estimates:
        """From all measurements."""
        return Estimates.of(self.domain, self.measured, self._records)

    def fit(self, records: int, rounds: int) -> None:
        """So many records, in so many rounds at most, from those that were fitted before."""
        self.fitted = fit(
            self.estimates, records, rounds=rounds, rng=self._rng, impossible=self._impossible, start=self._start
        )
        self._start = self.fitted


def _adapt(
    private: Private, learned: _Learned, candidates: _Candidates, cost: ZCDP, records: int, *, halved: bool
) -> list[Axes]:
    """Select, measure and fit until a cost is spent; the sets that were selected."""
    domain = learned.domain
    rounds = _rounds(learned.fitted.total, cost, halved=halved)
    left, units = rounds, 1
    chosen: list[Axes] = []
    while left:
        units = left if left < 2 * units else units
        measuring, selecting = _round(cost, units, rounds)
        axes, said = candidates.select(private, learned.fitted, selecting, measuring)
        chosen.append(axes)
        learned.measured += private.measure(_residuals_below(domain, axes, private.neighbours), measuring)
        left -= units
        table, variance = learned.estimates.marginal(axes)
        if np.abs(table.reshape(-1) - said).mean() < sqrt(2 / pi * variance):
            units *= 2
        if left:
            learned.fit(records, _REFIT)
    return chosen


@final
class _Candidates:
    """The marginals among which is selected: their exact counts, which are private, and what records say of them."""

    def __init__(self, private: Private, workload: Workload, order: int) -> None:
        domain = workload.domain
        self.sets = _candidates(workload, order)
        self.pairs = [s for s in self.sets if len(s) == 2]
        self._tables = Tables(domain.shape, self.sets)
        self._sensitivity = 2 if private.neighbours is Neighbours.REPLACE_ONE else 1
        if self.sets:
            asked = Workload(domain, tuple(Group(s, Cells(domain.cells(s))) for s in self.sets))
            self._exact = np.concatenate(private.exact(asked))

    def select(self, private: Private, fitted: Fitted, cost: ZCDP, measuring: ZCDP) -> tuple[Axes, Floats]:
        """A set on which the records are far off, and what they say of it, counts (cells,).

        Its score is the L1 distance from the exact counts to what is said, rounded to whole counts: one record moves
        one cell of a marginal by 1, or two if it is replaced. Less the expected L1 norm of the noise with which cells
        are measured at the next cost, which is public.
        """
        said = fitted.total * self._tables.marginals(fitted.chains.codes, fitted.chains.weights)
        offsets = self._tables.offsets
        gaps = np.add.reduceat(np.abs(self._exact - np.rint(said).astype(np.int64)), offsets[:-1])
        noise = np.rint(np.diff(offsets) / sqrt(pi * measuring.rho)).astype(np.int64)  # √(2/π) σ, σ² = 1/2ρ
        number = private.select(gaps - noise, self._sensitivity, cost, "exponential")
        return self.sets[number], said[offsets[number] : offsets[number + 1]]


def _candidates(workload: Workload, order: int) -> list[Axes]:
    """All subsets of two columns or more of the marginals asked about, up to the order: the smallest that fit."""
    domain = workload.domain
    long = [tuple(a for a in s if domain.shape[a] > 1) for s in workload.sets]
    found = {part for s in long for k in range(2, order + 1) for part in combinations(s, k)}
    kept, cells = [], 0
    for s in sorted(found, key=lambda s: (domain.cells(s), s)):
        cells += domain.cells(s)
        if cells > MOST_CELLS:
            break
        kept.append(s)
    return kept


def _residuals(domain: Domain, pairs: Sequence[Axes], neighbours: Neighbours) -> Workload:
    """Of every column and of some pairs, at the scales best for the squared error of each marginal alike."""
    sets = [*((a,) for a in range(len(domain))), *pairs]
    weights = [1 / domain.cells(s) for s in sets]
    return Plan.choose(domain, sets, weights=weights, neighbours=neighbours).workload


def _residuals_below(domain: Domain, axes: Axes, neighbours: Neighbours) -> Workload:
    """Of all subsets of a set of columns: they say what noisy counts of the marginal's cells would."""
    return Plan.choose(domain, [axes], neighbours=neighbours).workload


def _zcdp(cost: Cost) -> ZCDP:
    found = currency(cost)
    if not isinstance(found, ZCDP):
        raise InvalidInput(f"a cost of (ε, δ) or ρ is needed, got {cost}")
    return found


def _shares(cost: Cost) -> tuple[ZCDP, ZCDP]:
    """What measures the columns, and what is left for the rounds."""
    singles, rest = split(_zcdp(cost), [SINGLES, 1 - SINGLES])
    return singles, rest


def _masks(domain: Domain, impossible: Sequence[str]) -> dict[Axes, Mask]:
    """The cells that conditions rule out, by the columns they are about. `InvalidInput` for one that is none."""
    found: dict[Axes, Mask] = {}
    for text in impossible:
        condition = predicate.parse(text, domain)
        found[condition.axes] = found.get(condition.axes, False) | condition.mask()
    return found


def _check_possible(domain: Domain, impossible: Mapping[Axes, Mask]) -> None:
    """`InvalidInput` unless some record is possible, as far as a search from `_SEARCHED` uniform ones finds."""
    if impossible:
        even: dict[Axes, Residual] = {
            (a,): Residual((a,), np.zeros(n), 1.0) for a, n in enumerate(domain.shape) if n > 1
        }
        even[()] = Residual((), np.array(float(_SEARCHED)), 1.0)
        fit(Estimates(domain, even), _SEARCHED, rounds=1, rng=generator(0), impossible=impossible)


def _pairs(total: float, cost: ZCDP) -> float:
    """The share that measures all pairs at once, by the signal n√ρ that the cost buys; found in trials."""
    signal = total * sqrt(cost.rho)
    return 0.0 if signal < _CLEAR else min(_PAIRS, _ENOUGH / signal)


def _rounds(total: float, cost: ZCDP, *, halved: bool) -> int:
    """How many measurements a cost is cut into, half as many once all pairs are known; found in trials."""
    rounds = (0.75 if halved else 1.5) * (total * sqrt(cost.rho)) ** 0.4
    return int(min(max(round(rounds), 1), _MOST_ROUNDS))


def _round(cost: ZCDP, units: int, rounds: int) -> tuple[ZCDP, ZCDP]:
    """What measures and what selects in a round that takes so many of the parts that a cost is cut into."""
    parts = [units * (1 - SELECTION), units * SELECTION]
    if units < rounds:
        measuring, selecting, _ = split(cost, [*parts, rounds - units])
    else:
        measuring, selecting = split(cost, parts)
    return measuring, selecting


def _seed(measurements: Sequence[Measurement]) -> int:
    """Of the generator that fits: public, and the same for the same measurements."""
    digest = hashlib.sha256()
    for m in measurements:
        digest.update(m.values.tobytes())
    return int.from_bytes(digest.digest(), "big")
