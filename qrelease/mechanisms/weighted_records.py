"""Weighted records fitted to noisy marginals: for universes of any size.

A small part of the budget counts the records. Where the residuals of all marginals asked about have few coordinates,
they are all measured at once, at the scales that are best for a fit: nothing is spent on selecting, as in `maxent`.

Else some marginals are measured at once, and some are selected. Where the number of records says that pairs will stand
out of their noise, all columns and all pairs of them are measured at once. Else each column by itself, and then how
often the signs of each two columns agree: the sign of a column tells its heaviest cell from the others if that has more
than 30 % of the noisy records, else its first cells from its last ones. That is one number a pair, which no record
moves by more than one, and bounds how far off heavy cells can be. What is left goes to rounds: the marginal is selected
of which a measurement would gain most, it is measured through its residuals, those most that are known least, and the
records are fitted to all measurements so far (`log_linear`). A cell gains as far as it is off by more than the noise
would leave it: so that many small cells, which a fit takes from what is known of their columns, count for nothing; the
score of AIM (McKenna, Mullins, Sheldon & Miklau 2022), the L1 distance less the noise of all cells, counts them against
their marginal. It counts once for each of the asked marginals that contain the selected one, which all come nearer;
where all pairs are known, only in every other round: the others find a marginal that is far off by itself, and with it
the worst cells. When a measurement shows hardly more than noise, the later ones get half as much again. With a large
budget three marginals are measured before the records are fitted anew, the last two selected by their worst cells.

Where the records miss a marginal that was measured, what is known of it is the measurement and not the records
(`corrections`): so that it is not bought again for a bad fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, pi, prod, sqrt
from typing import Final, final

import numpy as np
from tqdm import tqdm

from qrelease._util import memory
from qrelease._util.typing import Axes, Floats, Ints, Mask
from qrelease._util.validate import count, whole
from qrelease.data import structural_zeros
from qrelease.data.domain import Domain, readable
from qrelease.data.marginals.record_tables import LARGEST_COLUMN, Tables
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.dense_fit import SAMPLE, settle
from qrelease.inference.gibbs import possible
from qrelease.inference.interaction_basis import needed, singles
from qrelease.inference.log_linear import SETTINGS, LogLinear, finish, fit
from qrelease.inference.maxent import DENSE, expected_variance
from qrelease.inference.measurement import Measurement, noise_for
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.inference.sampling import generator
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.noise.calibration import calibrated, counting_first, currency
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, check_cost, check_gaussian, split
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group, Workload

MOST_CELLS = 1 << 23
"""Cells of all marginals together among which is selected: the smallest ones."""

COUNT = 0.01
"""The share of the budget that counts the records, where their number is private."""

SINGLES = 0.35
"""The share that measures each column by itself, where not all pairs are measured."""

SIGNS = 0.2
"""The share of what is left that then measures how often the signs of two columns agree, for all pairs."""

SELECTION = 0.1
"""The share of each round that selects."""


@dataclass(frozen=True)
class RoundSettings:
    """How the budget is divided into rounds; most were found in trials on the tables of `benchmarks.large`."""

    most_rounds: int = 400
    """Rounds at most."""
    parts: int = 4
    """Of a round, the least that is measured at once: into so many parts a round's budget is cut."""
    heavy: float = 0.3
    """The share of the records from which on a cell has a sign of its own."""
    pairs_from: float = 3_000.0
    """n√ρ from which all pairs are measured: below, only selected ones stand out of their noise."""
    fewest_pairs: float = 0.65
    """The least share that measures pairs, where they are measured."""
    most_pairs: float = 0.85
    """The most of it."""
    pairs_share: float = 10_000.0
    """Over n√ρ, the share between the two."""
    worst_from: float = 1_000.0
    """n√ρ of a selection from which the worst cell stands out of its noise."""
    together: int = 3
    """Marginals that are then selected from one fit, all but the first by their worst cell."""
    dull: float = 0.8
    """How far off a cell must be to count, in units of the distance that noise is expected to make: a fit keeps off
    some of it."""
    news: float = 1.2
    """What a measurement must show, in the same units: else the later ones get half as much again."""


@dataclass(frozen=True)
class SizeSettings:
    """How many records are fitted, and for how many rounds."""

    moving: int = 1 << 14
    """Weighted records at most that move while marginals are selected: more of them hardly changed the errors."""
    fewest: int = 1 << 14
    """Weighted records at least, by default."""
    most: int = 1 << 19
    """And at most."""
    each: float = 4.5
    """For each private record so many weighted ones, where n√ρ is `typical`."""
    typical: float = 3_000.0
    """See `each`; the more exact the measurements, the more of them, by the power `power`."""
    power: float = 0.35
    """See `typical`."""
    first_rounds: int = 14
    """Of the fit to what is measured at first."""
    refit_rounds: int = 3
    """After marginals that were selected."""
    last_rounds: int = 12
    """After the last ones."""


ROUNDS: Final = RoundSettings()
SIZES: Final = SizeSettings()

_READ = 10.0  # entries of a table that are drawn from in the time in which one record finds its place in it
_PASSES, _LEARNT = 20, 12  # through all records and those that J is learnt from; and how often it is
_BASIS = 1e-9  # seconds, times the cells of a column to the third, that its basis takes in each fit
_FLOPS = 5e10  # of products of matrices in a second
_POWERS = 13  # of ten: numbers of records for which noise is checked beforehand
_FEATURED = 1 << 15  # bytes for a coordinate of those records whose features are listed
_ENTRY = 64  # bytes for an entry of J: it is copied, inverted and factored
_SPEED = 1e9  # entries a second
_SWEPT = 2.9e9  # the same where marginals are selected, found on the tables of `benchmarks.large`
_CELL = 200  # bytes for a cell of those: its count, and, once measured, what the fit holds of it
_RECORD = 100  # bytes for a record besides its codes: its weight, sums, positions, and copies of them


@final
@dataclass(frozen=True)
class Records:
    """Marginals that are measured at once or selected adaptively, and weighted records fitted to their residuals.

    No record breaks a rule of the domain (`Domain.impossible`), and answers are exactly zero there.

    Costs are (ε, δ) or ρ; what is selected adaptively is paid for in ρ.

    Parameters
    ----------
    order : int
        Of the largest marginals that may be measured.
    records : int, optional
        Weighted records that are drawn, of which equal ones may be released as one: the more, the less their scatter
        shows. By default so many, by the noisy number of private ones and the cost, that it hardly does.
    at_once : bool, optional
        Whether all marginals asked about are measured at once. By default, where that can be: none is of more columns
        than `order`, and all their residuals together have up to `maxent.DENSE` coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2, "age": 10})
    >>> table = qr.Table(domain, (np.arange(500) % 2, np.arange(500) % 10))
    >>> cost = qr.ApproxDP(1, 1e-6)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, cost), qr.Entropy.insecure(1))  # no seed for real records
    >>> release = curator.release(qr.Records(records=1_000), qr.Workload.marginals(domain, 2), cost)
    >>> release.synthetic(3)["age"].shape
    (3,)
    """

    order: int = 3
    records: int | None = None
    at_once: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", whole("order", self.order, least=2))
        if self.records is not None:
            object.__setattr__(self, "records", count("records", self.records))
        if self.at_once is not None and not isinstance(self.at_once, bool):
            raise InvalidInput(f"at_once must be True, False or None, got {self.at_once!r}")

    @property
    def name(self) -> str:
        """`records`."""
        return "records"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` without a δ, for noise beyond the sampler's range, and where not all can be measured at once.

        `TooLarge` for what no memory holds.
        """
        check_cost(cost)
        check_gaussian(cost, instead="mwem")
        domain = workload.domain
        if max(domain.shape) > LARGEST_COLUMN:
            raise TooLarge(f"columns may have {LARGEST_COLUMN:,} cells, got one of {max(domain.shape):,}")
        if max(domain.shape) == 1:
            raise InvalidInput("the universe has one cell: there is nothing to fit")
        impossible = structural_zeros.masks(domain, domain.impossible)
        if impossible:
            possible(domain.shape, impossible)  # what a release begins with that finds none itself: it cannot fail
        memory.check(memory.ANSWER_BYTES * len(workload), f"{len(workload):,} answers", "ask fewer")
        for s in workload.sets:
            widest = tuple(sorted(sorted(s, key=lambda a: domain.shape[a])[-2:]))
            if domain.cells(widest) > MOST_CELLS:
                names = " and ".join(domain.names[a] for a in widest)
                raise TooLarge(
                    f"{names} have {readable(domain.cells(widest))} cells together, and marginals of at most"
                    f" {MOST_CELLS:,} are measured: use coarser bins, or ask about them apart"
                )
        advice = "lower the number of records, or the order, or use coarser bins"
        memory.check(self.memory(workload), f"{self.records or SIZES.most:,} weighted records", advice)
        at_once = self._measured_at_once(workload)
        if at_once:
            counting, left = counting_first(cost, COUNT, neighbours)
            if counting is not None:
                calibrated(1, counting)
            for power in range(_POWERS):  # by the number of records, which may be private, the privacy is divided
                noise_for(_planned(domain, at_once, left, neighbours, 10.0**power), left, neighbours)
            return
        candidates, left = _candidates(workload, self.order), _zcdp(cost)
        for s in candidates[-1:]:
            if neighbours is not Neighbours.REPLACE_ONE:
                counting, left = split(left, [COUNT, 1 - COUNT])
                noise_for(_number(domain), counting, neighbours)
            pairs, _ = split(left, [ROUNDS.fewest_pairs, 1 - ROUNDS.fewest_pairs])
            noise_for(_residuals(domain, [c for c in candidates if len(c) == 2], neighbours), pairs, neighbours)
            _, rest = split(left, [ROUNDS.most_pairs, 1 - ROUNDS.most_pairs])
            least, _ = split(rest, [1 - SELECTION, ROUNDS.most_rounds])
            noise_for(_refining(domain, s, {}, least, neighbours), least, neighbours)
        singly, left = split(left, [SINGLES, 1 - SINGLES])
        noise_for(_residuals(domain, (), neighbours), singly, neighbours)
        two = [c for c in candidates if len(c) == 2]
        if two:  # what signs they have changes nothing
            signs = agreements(domain, two, [np.full(n, 1 / n) for n in domain.shape])
            noise_for(signs, split(left, [SIGNS, 1 - SIGNS])[0], neighbours)

    def _measured_at_once(self, workload: Workload) -> list[Axes]:
        """The sets of columns that are, if all is; `InvalidInput` if it is to be and cannot."""
        found = [] if self.at_once is False else _at_once(workload, self.order)
        if self.at_once and not found:
            raise InvalidInput(
                f"what is measured at once is marginals of at most {self.order} columns, whose residuals have at most"
                f" {DENSE:,} coordinates together: leave at_once out"
            )
        return found

    def memory(self, workload: Workload) -> int:
        """Bytes that a release takes at most, about."""
        held = (_RECORD + 4 * len(workload.domain)) * (self.records or SIZES.most) + needed(workload.domain.shape)
        at_once = self._measured_at_once(workload)
        if at_once:
            number = _coordinates(workload.domain.shape, at_once)
            return held + number * (_FEATURED + _ENTRY * number)
        cells = sum(workload.domain.cells(s) for s in _candidates(workload, self.order))
        return held + _CELL * cells

    def seconds(self, workload: Workload, cost: Cost, records: int) -> float:
        """How long a release from so many private records takes, about: on one core or two, within a factor of 1.5.

        A round of the fit draws every column of every record anew, from all measured marginals that it is in.
        """
        at_once = self._measured_at_once(workload)
        if at_once:
            return self._settling(workload.domain, at_once)
        domain, candidates = workload.domain, _candidates(workload, self.order)
        bases = _BASIS * sum(n**3 for n in domain.shape)
        if not candidates:
            return 1.0 + 2 * bases
        left, pairs = _zcdp(cost), sum(len(s) == 2 for s in candidates)  # whose tables, or signs, are all fitted
        paired = pairs > 0 and _pairs(records, left) > 0
        chosen = _rounds(records, left, paired=paired)
        clear = _clear(records, left.rho * SELECTION / chosen)
        fits = 1 + (chosen // ROUNDS.together if clear else chosen)
        final = self.fitted_records(records, left)
        moving = _moving(final)
        swept = moving * (SIZES.first_rounds + SIZES.refit_rounds * fits + SIZES.last_rounds) + final
        wide = sum(domain.shape) / len(domain)
        entries = len(domain) * wide + (2 * pairs + 3 * chosen) * (wide + _READ)
        raked = (2 * swept + SETTINGS.last_passes * final) * (len(domain) + pairs + chosen) * _READ
        counted = fits * len(candidates) * moving
        return (swept * entries + raked + _READ * counted) / _SWEPT + (fits + 3) * bases

    def fitted_records(self, records: float, cost: Cost) -> int:
        """How many weighted records are fitted for so many private ones, by public facts, if marginals are selected."""
        if self.records is not None:
            return self.records
        exactness = (max(records, 1.0) * sqrt(_zcdp(cost).rho) / SIZES.typical) ** SIZES.power
        return int(min(max(SIZES.each * records * exactness, SIZES.fewest), SIZES.most))

    def _settling(self, domain: Domain, sets: Sequence[Axes]) -> float:
        """The same, where all of these sets of columns are measured at once: a pass goes through all their tables."""
        number = _coordinates(domain.shape, sets)
        final = self.records or SIZES.most
        passed = len(sets) * (_PASSES * final + _LEARNT * min(final, SAMPLE))
        bases = _BASIS * sum(n**3 for n in domain.shape)
        return _READ * passed / _SPEED + _LEARNT * number**2 * (SAMPLE + number) / _FLOPS + bases

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Measure all there is; or columns, perhaps pairs, and then select, measure and fit until the cost is spent."""
        learned = _Learned(
            private, workload.domain, structural_zeros.masks(workload.domain, workload.domain.impossible)
        )
        at_once = self._measured_at_once(workload)
        if not at_once:
            return self._selected(private, learned, workload, cost)
        counting, left = counting_first(cost, COUNT, private.neighbours)
        records, first = private.count(counting)
        planned = _planned(workload.domain, at_once, left, private.neighbours, max(records, 1.0))
        learned.measure(planned, left)
        learned.settle(self.records or SIZES.most)
        counted = () if first is None else (first,)
        choices = {"at_once": True, "selected": [], "fitted rounds": learned.fitted.rounds}
        return MechanismResult(learned.synopsis, (*counted, *learned.measured), choices, constrained=True)

    def _selected(self, private: Private, learned: _Learned, workload: Workload, cost: Cost) -> MechanismResult:
        """Columns, perhaps pairs, at once, and then marginals one by one."""
        domain, neighbours = workload.domain, private.neighbours
        candidates = _Candidates(private, workload, self.order)
        share, chosen, left = 0.0, [], _zcdp(cost)
        whole = left
        if not candidates.sets:
            learned.measure(_residuals(domain, (), neighbours), left)
            final = self.fitted_records(learned.total, whole)
            learned.fit(_moving(final), 1)
        else:
            if neighbours is not Neighbours.REPLACE_ONE:
                counting, left = split(left, [COUNT, 1 - COUNT])
                learned.measure(_number(domain), counting)
            final = self.fitted_records(learned.total, whole)
            share = _pairs(learned.total, left) if candidates.pairs else 0.0
            together, left = split(left, [share or SINGLES, 1 - (share or SINGLES)])
            learned.measure(_residuals(domain, candidates.pairs if share else (), neighbours), together)
            if candidates.pairs and not share:
                together, left = split(left, [SIGNS, 1 - SIGNS])
                learned.measure(agreements(domain, candidates.pairs, singles(learned.estimates)), together)
            learned.fit(_moving(final), SIZES.first_rounds)
            chosen = _adapt(private, learned, candidates, left, _moving(final), paired=share > 0)
            learned.fit(_moving(final), SIZES.last_rounds)
        rounds = learned.fitted.rounds
        learned.finish(final)
        selected = [[domain.names[a] for a in axes] for axes in chosen]
        choices = {"at_once": False, "pairs": share, "selected": selected, "fitted rounds": rounds}
        choices["too large to select"] = len(_parts(workload, self.order)) - len(candidates.sets)
        return MechanismResult(learned.synopsis, tuple(learned.measured), choices, constrained=True)


@final
class _Learned:
    """What was measured, and what was fitted to it last: public."""

    fitted: LogLinear

    def __init__(self, private: Private, domain: Domain, impossible: Mapping[Axes, Mask]) -> None:
        self.domain, self._private, self._impossible = domain, private, impossible
        self._records = None if private.public_records is None else float(private.public_records)
        self._start: LogLinear | None = None
        self.measured: list[Measurement] = []
        self._fitted_to: list[Measurement] = []

    @property
    def estimates(self) -> Estimates:
        """From all measurements of residuals."""
        residuals = [m for m in self.measured if isinstance(m.group.queries, Residuals)]
        return Estimates.of(self.domain, residuals, self._records)

    @property
    def total(self) -> float:
        """The number of records, as far as it is known."""
        return float(self.estimates.residuals[()].values)

    @property
    def known(self) -> WeightedCodes:
        """What was fitted last, with what it was fitted to and not what was measured since."""
        chains = self.fitted.chains
        return WeightedCodes(self.domain, chains.codes, chains.weights, self.fitted.total, tuple(self._fitted_to))

    @property
    def synopsis(self) -> WeightedCodes:
        """What was fitted last, with what it was fitted to."""
        fitted = self.fitted
        known = tuple(self.measured)
        return WeightedCodes(self.domain, fitted.chains.codes, fitted.chains.weights, fitted.total, known)

    def measure(self, workload: Workload, cost: Cost) -> None:
        """Residuals, at a cost."""
        self.measured += self._private.measure(workload, cost)

    def fit(self, records: int, rounds: int) -> None:
        """So many moving records, in so many rounds, from those that were fitted before.

        The generator's seed comes from what was measured: the same measurements give the same records.
        """
        rng = generator(_seed(self.measured, records))
        self.fitted = fit(
            self.estimates,
            records,
            rounds=rounds,
            rng=rng,
            signs=self._signs,
            impossible=self._impossible,
            start=self._start,
        )
        self._fitted_to = [*self.measured]
        self._start = self.fitted

    def finish(self, records: int) -> None:
        """So many records in the end, which stay."""
        rng = generator(_seed(self.measured, records))
        self.fitted = finish(
            self.estimates,
            records,
            rng=rng,
            start=self.fitted,
            signs=self._signs,
            impossible=self._impossible,
        )

    @property
    def _signs(self) -> list[Measurement]:
        return [m for m in self.measured if isinstance(m.group.queries, Product)]

    def settle(self, records: int) -> None:
        """So many records, by the whole of J."""
        rng = generator(_seed(self.measured, records))
        self.fitted = settle(self.estimates, records, rng=rng, impossible=self._impossible)


def _adapt(
    private: Private, learned: _Learned, candidates: _Candidates, cost: ZCDP, records: int, *, paired: bool
) -> list[Axes]:
    """Select, measure and fit until a cost is spent; the sets that were selected."""
    domain = learned.domain
    parts = left = ROUNDS.parts * _rounds(learned.fitted.total, cost, paired=paired)
    units = ROUNDS.parts
    chosen: list[Axes] = []
    fresh: list[Axes] = []  # since the last fit
    bar = tqdm(total=parts, desc="budget", leave=False, disable=None)
    while left:
        units = left if left < 2 * units else units
        measuring, selecting = _round(cost, units, parts)
        alone = paired and len(chosen) % 2 == 1
        axes, said = candidates.select(private, learned, selecting, measuring, fresh, alone=alone)
        chosen.append(axes)
        fresh.append(axes)
        known = learned.estimates.variances
        learned.measure(_refining(domain, axes, known, measuring, private.neighbours), measuring)
        left -= units
        table, variance = learned.estimates.marginal(axes)
        off, noise = np.abs(table.reshape(-1) - said).mean(), sqrt(2 / pi * variance)
        names = "*".join(domain.names[a] for a in axes)
        bar.set_postfix_str(f"{names} was {off:.3g} a cell off, noise {noise:.3g}", refresh=False)
        bar.update(units)
        if off < ROUNDS.news * noise:
            units += units // 2
        if left and (len(fresh) == ROUNDS.together or not _clear(learned.fitted.total, selecting.rho)):
            learned.fit(records, SIZES.refit_rounds)
            fresh = []
    bar.close()
    return chosen


@final
class _Candidates:
    """The marginals among which is selected: their exact counts, which are private, and what records say of them."""

    def __init__(self, private: Private, workload: Workload, order: int) -> None:
        domain = workload.domain
        self.sets = _candidates(workload, order)
        self.pairs = [s for s in self.sets if len(s) == 2]
        self._tables = Tables(domain.shape, self.sets)
        self._weights = _asked(workload, self.sets)
        self._sensitivity = 2 if private.neighbours is Neighbours.REPLACE_ONE else 1
        if self.sets:
            asked = Workload(domain, tuple(Group(s, Cells(domain.cells(s))) for s in self.sets))
            self._exact = np.concatenate(private.exact(asked))
        self._last: tuple[LogLinear, Floats] | None = None

    def _said(self, fitted: LogLinear, synopsis: WeightedCodes) -> Floats:
        """The best estimates of all of them, counts; several are selected from one fit.

        What the records say, or, where they miss what was measured, that: measuring it again would say little new.
        """
        if self._last is None or self._last[0] is not fitted:
            said = fitted.total * self._tables.marginals(fitted.chains.codes, fitted.chains.weights)
            corrections = synopsis.corrections
            if corrections.tables:
                parts = np.split(said, self._tables.offsets[1:-1])
                said = np.concatenate([corrections.apply(s, part) for s, part in zip(self.sets, parts, strict=True)])
            self._last = fitted, said
        return self._last[1]

    def select(
        self,
        private: Private,
        learned: _Learned,
        cost: ZCDP,
        measuring: ZCDP,
        fresh: Sequence[Axes],
        *,
        alone: bool,
    ) -> tuple[Axes, Floats]:
        """A set of which a measurement would bring much nearer, and what records say of it, counts (cells,).

        fresh  sets measured since the records were fitted: none of them, and the next one by its worst cell
        alone  whether a set counts once, and not as often as marginals that are asked about contain it

        A cell counts as far as it is off what is said, in whole counts, by more than the distance expected of the
        noise with which it would be measured at the next cost and of the scatter of so many records, both of which are
        public: what a measurement gains there. A set's score is the sum over its cells. One record moves one cell of a
        marginal by 1, or two if it is replaced. Or its score is the largest distance of a cell, which moves by 1.
        """
        fitted = learned.fitted
        chains, said = fitted.chains, self._said(fitted, learned.known)
        offsets = self._tables.offsets
        starts = offsets[:-1]
        gaps = np.abs(self._exact - np.rint(said).astype(np.int64))
        scatter = fitted.total / (chains.even * len(chains.weights)) * np.maximum(said, 0)
        deviations = np.sqrt(1 / (2 * measuring.rho) + scatter)
        if fresh:
            far, sensitivity = np.maximum.reduceat(gaps, starts), 1
            noise = np.maximum.reduceat(deviations, starts) * np.sqrt(2 * np.log(np.diff(offsets)))
            scores = far - np.rint(noise).astype(np.int64)
        else:
            least = np.rint(ROUNDS.dull * sqrt(2 / pi) * deviations).astype(np.int64)
            gains = np.add.reduceat(np.maximum(gaps - least, 0), starts)
            weights = np.ones_like(self._weights) if alone else self._weights
            scores, sensitivity = weights * gains, self._sensitivity * int(weights.max())
        among = [i for i, s in enumerate(self.sets) if s not in fresh] or [0]
        number = among[private.select(scores[among], sensitivity, cost, "exponential")]
        return self.sets[number], said[offsets[number] : offsets[number + 1]]


def _at_once(workload: Workload, order: int) -> list[Axes]:
    """All sets of columns whose residuals give what is asked about, and each column; none, if that is too much.

    Too much are a marginal of more columns than the order, and more than `DENSE` coordinates of residuals together.
    """
    shape = workload.domain.shape
    long = {tuple(a for a in s if shape[a] > 1) for s in workload.sets} | {(a,) for a, n in enumerate(shape) if n > 1}
    # Each has a coordinate of its own, and all of one together are its cells but one: else no subsets are listed.
    if len(long) > DENSE + 1 or any(len(s) > order or workload.domain.cells(s) > DENSE + 1 for s in long):
        return []
    parts = sorted({part for s in long for k in range(1, len(s) + 1) for part in combinations(s, k)})
    return parts if _coordinates(shape, parts) <= DENSE else []


def _asked(workload: Workload, sets: Sequence[Axes]) -> Ints:
    """How many of the marginals asked about contain each set of columns."""
    asked = [set(axes) for axes in workload.sets]
    return np.array([sum(axes >= set(s) for axes in asked) for s in sets], np.int64)


def _coordinates(shape: Sequence[int], sets: Sequence[Axes]) -> int:
    """Of the residuals of some sets of columns."""
    return sum(prod(shape[a] - 1 for a in s) for s in sets)


def _planned(domain: Domain, sets: Sequence[Axes], cost: Cost, neighbours: Neighbours, records: float) -> Workload:
    """The residuals of some sets and of all their subsets, at the scales best for a fit to so many records."""
    unit = calibrated(1, cost)[0].scale ** 2
    contained = {part for s in sets for part in combinations(s, len(s) - 1)}
    return ResidualPlan.choose(
        domain,
        [s for s in sets if s not in contained],
        expected=lambda axes: expected_variance(domain, axes, records) / unit,
        neighbours=neighbours,
    ).workload


def _parts(workload: Workload, order: int) -> set[Axes]:
    """All subsets of two columns or more of the marginals asked about, up to the order."""
    shape = workload.domain.shape
    long = [tuple(a for a in s if shape[a] > 1) for s in workload.sets]
    return {part for s in long for k in range(2, order + 1) for part in combinations(s, k)}


def _candidates(workload: Workload, order: int) -> list[Axes]:
    """Those that are selected among: the smallest, as far as `MOST_CELLS` go."""
    domain = workload.domain
    kept, cells = [], 0
    for s in sorted(_parts(workload, order), key=lambda s: (domain.cells(s), s)):
        cells += domain.cells(s)
        if cells > MOST_CELLS:
            break
        kept.append(s)
    return kept


def _residuals(domain: Domain, pairs: Sequence[Axes], neighbours: Neighbours) -> Workload:
    """Of every column and of some pairs, at the scales best for the squared error of each marginal alike."""
    sets = [*((a,) for a in range(len(domain))), *pairs]
    weights = [1 / domain.cells(s) for s in sets]
    return ResidualPlan.choose(domain, sets, weights=weights, neighbours=neighbours).workload


def agreements(domain: Domain, pairs: Sequence[Axes], distributions: Sequence[Floats]) -> Workload:
    """How many records more there are of which two columns have the same sign than of which not, for each pair."""
    signs = [_signs(p) for p in distributions]
    return Workload(domain, tuple(Group((a, b), Product((signs[a], signs[b]))) for a, b in pairs))


def _signs(distribution: Floats) -> IntegerRows:
    """+1 and -1 for the cells of a column; both are there, unless it has one cell."""
    if distribution.max() > ROUNDS.heavy:
        positive = np.arange(len(distribution)) == distribution.argmax()
    else:
        positive = np.arange(len(distribution)) <= np.abs(np.cumsum(distribution) - 0.5).argmin()
    return IntegerRows(np.where(positive, 1, -1)[None, :], 1.0)


def _number(domain: Domain) -> Workload:
    """The number of records alone."""
    return ResidualPlan.choose(domain, [()]).workload


def _refining(domain: Domain, axes: Axes, known: Mapping[Axes, float], cost: ZCDP, neighbours: Neighbours) -> Workload:
    """Of all subsets of a set of columns, at the scales best for its cells, given with what variances they are known.

    `ResidualPlan` takes these in units of the noise of one unit's sensitivity, 1/2ρ.
    """
    expected = {s: 2 * cost.rho * variance for s, variance in known.items()}
    return ResidualPlan.choose(domain, [axes], expected=lambda s: expected.get(s, inf), neighbours=neighbours).workload


def _zcdp(cost: Cost) -> ZCDP:
    found = currency(cost)
    if not isinstance(found, ZCDP):
        raise InvalidInput(f"a cost of (ε, δ) or ρ is needed, got {cost}")
    return found


def _pairs(total: float, cost: ZCDP) -> float:
    """The share that measures all pairs at once, by the signal n√ρ that the cost buys; found in trials."""
    signal = total * sqrt(cost.rho)
    return (
        0.0
        if signal < ROUNDS.pairs_from
        else max(ROUNDS.fewest_pairs, min(ROUNDS.most_pairs, ROUNDS.pairs_share / signal))
    )


def _rounds(total: float, cost: ZCDP, *, paired: bool) -> int:
    """How many measurements a cost is cut into, once all pairs are known or not; found in trials."""
    signal = max(total * sqrt(cost.rho), 0.0)
    rounds = 3.5 * signal**0.2 if paired else 1.5 * signal**0.4
    return int(min(max(round(rounds), 1), ROUNDS.most_rounds))


def _moving(final: int) -> int:
    """How many records move, for so many in the end."""
    return min(SIZES.moving, max(final // 2, 1))


def _clear(total: float, rho: float) -> bool:
    """Whether a worst cell stands out of the noise of a selection."""
    return total * sqrt(rho) > ROUNDS.worst_from


def _round(cost: ZCDP, units: int, parts: int) -> tuple[ZCDP, ZCDP]:
    """What measures and what selects in a round that takes so many of the parts that a cost is cut into."""
    taken = [units * (1 - SELECTION), units * SELECTION]
    if units < parts:
        measuring, selecting, _ = split(cost, [*taken, parts - units])
    else:
        measuring, selecting = split(cost, taken)
    return measuring, selecting


def _seed(measurements: Sequence[Measurement], records: int) -> int:
    """Of the generator that fits so many records: public, and the same for the same measurements."""
    digest = hashlib.sha256(str(records).encode())
    for m in measurements:
        digest.update(m.values.tobytes())
    return int.from_bytes(digest.digest(), "big")
