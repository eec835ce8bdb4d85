"""Weighted records fitted to noisy marginals: for universes of any size.

A small part of the budget counts the records. Where the residuals of all marginals asked about have few coordinates,
they are all measured at once, at the scales that are best for a fit: nothing is spent on selecting, as in `maxent`.

Else some marginals are measured at once, and some are selected. First each column by itself, and then how often the
signs of each two columns agree: the sign of a column tells its heaviest cell from the others if that has more than 30 %
of the noisy records, else its first cells from its last ones. That is one number a pair, which no record moves by more
than one, and bounds how far off heavy cells can be. Where the number of records says that pairs will stand out of their
noise, these two get a small part of the budget, and signs none where pairs will be known well. Most of it goes to all
pairs at once, and the columns once more: a pair is measured the better, the more of its cells are expected, from its
columns, to hold more records than noise. What is left goes to rounds: the marginal is selected of which a measurement
would gain most, it is measured through its residuals, those most that are known least, and the records are fitted to
all measurements so far (`log_linear`).

A cell gains as far as it is off by more than the noise would leave it: so that many small cells, which a fit takes from
what is known of their columns, count for nothing; the score of AIM (McKenna, Mullins, Sheldon & Miklau 2022), the L1
distance less the noise of all cells, counts them against their marginal. It counts once for each of the asked marginals
that contain the selected one, which all come nearer; where all pairs are known, only in every other round: the others
find a marginal that is far off by itself, and with it the worst cells. When a measurement shows hardly more than noise,
the later ones get half as much again. With a large budget three marginals are measured before the records are fitted
anew, the last two selected by their worst cells.

Under pure ε costs add up, and all pairs at once would be drowned: `pure_records` says what is measured there.

Where the records miss a marginal that was measured, what is known of it is the measurement and not the records
(`corrections`): so that it is not bought again for a bad fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util import memory
from qrelease._util.texts import readable
from qrelease._util.typing import Axes
from qrelease._util.validate import natural, whole
from qrelease.data import structural_zeros
from qrelease.data.domain import Domain
from qrelease.data.marginals.record_tables import LARGEST_COLUMN
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.dense_fit import SAMPLE
from qrelease.inference.gibbs import possible
from qrelease.inference.interaction_basis import needed
from qrelease.inference.log_linear import SETTINGS
from qrelease.inference.maxent import DENSE
from qrelease.inference.measurement import count_noise, noise_for
from qrelease.inference.single_columns import singles
from qrelease.mechanisms import pure_records
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.record_plan import (
    COLUMNS_SHARE,
    COUNT_SHARE,
    MAX_CANDIDATE_CELLS,
    PAIRED_SIGNS_SHARE,
    ROUNDS,
    SELECTION_SHARE,
    SIGNS_SHARE,
    SINGLES_SHARE,
    agreements,
    candidates,
    columns,
    coordinates,
    known_counts,
    number_of_records,
    pairs_and_columns,
    refinement,
    residuals_at_once,
    rounds_of,
    sets_at_once,
    share_of_pairs,
    signs_beside_pairs,
    subsets_asked,
    worst_cell_stands_out,
)
from qrelease.mechanisms.record_selection import SIZES, CandidateMarginals, RecordFit, adapt, moving_records
from qrelease.noise.calibration import concentrated, counting_first
from qrelease.privacy.conversions import pure_to_zcdp
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, check_cost, is_pure, split
from qrelease.queries.workload import Workload


@dataclass(frozen=True)
class ForecastSettings:
    """What a release takes of time and memory, measured on the tables of `benchmarks.large`."""

    entries_per_lookup: float = 10.0
    """The entries of a table that are drawn from in the time in which one record finds its place in it."""
    passes: int = 20
    """The passes through all records, where everything is measured at once."""
    learnt_times: int = 12
    """How often J is learnt there, and the passes through the records that it is learnt from."""
    basis_seconds: float = 1e-9
    """Seconds that a column's basis takes in each fit, over its number of cells to the third power."""
    products_per_second: float = 5e10
    """Products of numbers a second, in products of matrices."""
    feature_bytes: int = 1 << 15
    """Bytes for a coordinate of those records whose features are listed."""
    matrix_entry_bytes: int = 64
    """Bytes for an entry of J: it is copied, inverted and factored."""
    lookups_per_second: float = 8.5e8
    """Records that find their place in a table a second, where everything is measured at once."""
    sweep_entries_per_second: float = 2.1e9
    """Entries of tables read a second where marginals are selected."""
    cell_bytes: int = 200
    """Bytes for a cell of a marginal that may be selected: its count, and, once measured, what the fit holds of it."""
    record_bytes: int = 170
    """Bytes for a record besides its codes: its weight, sums, positions, the ends of some passes, and copies."""


CHECKED_POWERS: Final = 13
"""Noise is checked beforehand for so many numbers of records: the powers of ten from 1 on."""

FORECAST: Final = ForecastSettings()


@final
@dataclass(frozen=True)
class FittedRecords:
    """Measures marginals, all at once or selected one after another, and fits weighted synthetic records to them.

    No synthetic record breaks a rule of the domain (`Domain.impossible`), and answers about such records are exactly 0.

    Costs are (ε, δ), ρ or pure ε. Where marginals are selected one after another, an (ε, δ) is charged in ρ; under pure
    ε they always are.

    Parameters
    ----------
    order : int
        The most columns of a marginal that may be measured.
    weighted_records : int, optional
        The number of weighted records that are drawn; equal ones may be released as one. More records scatter less
        around the fitted model. By default enough, for the noisy number of private records and the cost, that the
        scatter is small beside the noise.
    at_once : bool, optional
        Whether all marginals of the workload are measured at once. The default is to do so where it is possible: none
        has more columns than `order`, and all residuals together have at most `maxent.DENSE` coordinates.

    Notes
    -----
    *At once* the residuals of all subsets of the marginals are measured, as by `MaxEnt`. Under add-remove a hundredth
    of the budget (`COUNT_SHARE`) counts the records first.

    *One after another, under ρ*: where not all pairs of columns are measured beforehand, `SINGLES_SHARE` = 0.35 of what
    is left measures each column, and `SIGNS_SHARE` = 0.2 of the rest how often the signs of two columns agree: each
    cell of a column has the sign + or -. Where all pairs are, 0.05 of their share measures the columns first
    (`COLUMNS_SHARE`), and 0.05 of what then remains the signs (`PAIRED_SIGNS_SHARE`). What is left is spent in T
    rounds, T = 1.5 g^0.4, or 3.5 g^0.2 where all pairs are known, with g = n√ρ of the noisy number n of records.
    `SELECTION_SHARE` = 0.1 of a round selects, 0.9 measures.

    *One after another, under ε*: 0.2 ε measures the columns, and T = √(0.8 nε/(2c)) rounds are made, where c is the
    median over the pairs of the number of cells that hold most records (`expected_errors.UNEVEN`). Each round measures
    all cells of one marginal with discrete Laplace noise.

    *The score* of a marginal is Σ max(|x - y| - 0.8 √(2/π) d, 0) over its cells, x the records, y what is known of
    them and d the deviation that a measurement would leave, times how many of the asked marginals contain it. The
    exponential mechanism selects by it, under ε permute-and-flip.

    References
    ----------
    McKenna, Mullins, Sheldon & Miklau 2022, *AIM: an adaptive and iterative mechanism for differentially private
    synthetic data*, for rounds that select by what a measurement gains; McKenna & Sheldon 2020, *Permute-and-flip*;
    Xiao, He, Zhang & Kifer 2023, *ResidualPlanner*, for what is measured at once.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2, "age": 10})
    >>> table = qr.Table(domain, (np.arange(500) % 2, np.arange(500) % 10))
    >>> cost = qr.ApproxDP(1, 1e-6)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, cost), qr.Entropy.insecure(1))  # no seed for real records
    >>> release = curator.release(qr.FittedRecords(weighted_records=1_000), qr.Workload.marginals(domain, 2), cost)
    >>> release.synthetic(3)["age"].shape
    (3,)
    """

    order: int = 3
    weighted_records: int | None = field(default=None, metadata={"stored": "records"})
    at_once: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", whole("order", self.order, least=2))
        if self.weighted_records is not None:
            object.__setattr__(self, "weighted_records", natural("weighted_records", self.weighted_records))
        if self.at_once is not None and not isinstance(self.at_once, bool):
            raise InvalidInput(f"at_once must be True, False or None, got {self.at_once!r}")

    counts_parts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """`records`."""
        return "records"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` for noise beyond the sampler's range, and where not all can be measured at once.

        `TooLarge` for what no memory holds.
        """
        check_cost(cost)
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
            if domain.cells(widest) > MAX_CANDIDATE_CELLS:
                names = " and ".join(domain.names[a] for a in widest)
                raise TooLarge(
                    f"{names} have {readable(domain.cells(widest))} cells together, and marginals of at most"
                    f" {MAX_CANDIDATE_CELLS:,} are measured: use coarser bins, or ask about them apart"
                )
        advice = "lower the number of records, or the order, or use coarser bins"
        memory.check(self.memory(workload), f"{self.weighted_records or SIZES.max_records:,} weighted records", advice)
        if is_pure(cost):
            self._check_pure_noise(workload, PureDP(cost.epsilon), neighbours)
        else:
            self._check_noise(workload, cost, neighbours)

    def _check_pure_noise(self, workload: Workload, cost: PureDP, neighbours: Neighbours) -> None:
        """The same under pure ε; `InvalidInput` too if all is to be measured at once."""
        if self.at_once:
            raise InvalidInput("under pure epsilon marginals are measured one after another: leave at_once out")
        singly, left = pure_records.first_costs(cost)
        noise_for(pure_records.columns(workload.domain), singly, neighbours)
        for s in candidates(workload, self.order)[-1:]:
            measuring, _ = pure_records.costs_of_rounds(left, ROUNDS.max_rounds)[0]
            noise_for(pure_records.whole_marginals(workload.domain, [s]), measuring, neighbours)

    def _check_noise(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `InvalidInput` where some measurement would take noise beyond the sampler's range."""
        domain = workload.domain
        at_once = self._measured_at_once(workload)
        if at_once:
            counting, left = counting_first(cost, COUNT_SHARE, neighbours)
            if counting is not None:
                count_noise(workload.domain, counting)
            for power in range(CHECKED_POWERS):  # the privacy is divided by the number of records, perhaps private
                noise_for(residuals_at_once(domain, at_once, left, neighbours, 10.0**power), left, neighbours)
            return
        sets, left = candidates(workload, self.order), concentrated(cost, self.name)
        two, even = [s for s in sets if len(s) == 2], [np.full(n, 1 / n) for n in domain.shape]
        for s in sets[-1:]:
            if neighbours is not Neighbours.REPLACE_ONE:
                counting, left = split(left, [COUNT_SHARE, 1 - COUNT_SHARE])
                noise_for(number_of_records(domain), counting, neighbours)
            pairs, _ = split(left, [ROUNDS.min_pairs_share, 1 - ROUNDS.min_pairs_share])
            before, pairs = split(pairs, [COLUMNS_SHARE, 1 - COLUMNS_SHARE])
            signed, pairs = split(pairs, [PAIRED_SIGNS_SHARE, 1 - PAIRED_SIGNS_SHARE])
            noise_for(columns(domain, before, neighbours), before, neighbours)
            if two:  # what signs they have changes nothing
                noise_for(agreements(domain, two, even), signed, neighbours)
            for power in range(CHECKED_POWERS) if two else ():
                planned = pairs_and_columns(domain, two, even, {}, pairs, neighbours, 10.0**power)
                noise_for(planned, pairs, neighbours)
            _, rest = split(left, [ROUNDS.max_pairs_share, 1 - ROUNDS.max_pairs_share])
            least, _ = split(rest, [1 - SELECTION_SHARE, ROUNDS.max_rounds])
            noise_for(refinement(domain, s, {}, least, neighbours), least, neighbours)
        singly, left = split(left, [SINGLES_SHARE, 1 - SINGLES_SHARE])
        noise_for(columns(domain, singly, neighbours), singly, neighbours)
        if two:
            noise_for(agreements(domain, two, even), split(left, [SIGNS_SHARE, 1 - SIGNS_SHARE])[0], neighbours)

    def _measured_at_once(self, workload: Workload) -> list[Axes]:
        """The sets of columns that are, if all is; `InvalidInput` if it is to be and cannot."""
        found = [] if self.at_once is False else sets_at_once(workload, self.order)
        if self.at_once and not found:
            raise InvalidInput(
                f"what is measured at once is marginals of at most {self.order} columns, whose residuals have at most"
                f" {DENSE:,} coordinates together: leave at_once out"
            )
        return found

    def memory(self, workload: Workload) -> int:
        """See `Forecasting`."""
        records = self.weighted_records or SIZES.max_records
        held = (FORECAST.record_bytes + 4 * len(workload.domain)) * records + needed(workload.domain.shape)
        at_once = self._measured_at_once(workload)
        if at_once:
            number = coordinates(workload.domain.shape, at_once)
            return held + number * (FORECAST.feature_bytes + FORECAST.matrix_entry_bytes * number)
        cells = sum(workload.domain.cells(s) for s in candidates(workload, self.order))
        return held + FORECAST.cell_bytes * cells

    def seconds(self, workload: Workload, cost: Cost, records: int) -> float:
        """See `Forecasting`: on two cores, within a factor of 1.5.

        A round of the fit draws every column of every record anew, from all measured marginals that it is in.
        """
        at_once = [] if is_pure(cost) else self._measured_at_once(workload)
        if at_once:
            return self._settling(workload.domain, at_once)
        domain, sets = workload.domain, candidates(workload, self.order)
        bases = FORECAST.basis_seconds * sum(n**3 for n in domain.shape)
        if not sets:
            return 1.0 + 2 * bases
        two = [s for s in sets if len(s) == 2]
        if is_pure(cost):  # pairs are not all measured
            pairs, chosen = 0, pure_records.rounds_of(domain, two, records, pure_records.first_costs(cost)[1])
            fits = 1 + chosen
        else:
            left, pairs = concentrated(cost, self.name), len(two)  # the tables of all pairs, or their signs, are fitted
            paired = pairs > 0 and share_of_pairs(records, left, coordinates(domain.shape, two), pairs) > 0
            chosen = rounds_of(records, left, paired=paired)
            clear = worst_cell_stands_out(records, left.rho * SELECTION_SHARE / chosen)
            fits = 1 + (chosen // ROUNDS.marginals_per_fit if clear else chosen)
        final = self.fitted_records(records, cost)
        moving = moving_records(final)
        swept = moving * (SIZES.first_rounds + SIZES.refit_rounds * fits + SIZES.last_rounds) + final
        wide = sum(domain.shape) / len(domain)
        entries = len(domain) * wide + (2 * pairs + 3 * chosen) * (wide + FORECAST.entries_per_lookup)
        lookups = (2 * swept + SETTINGS.last_passes * final) * (len(domain) + pairs + chosen)
        lookups += fits * len(sets) * moving
        read = swept * entries + FORECAST.entries_per_lookup * lookups
        return read / FORECAST.sweep_entries_per_second + (fits + 3) * bases

    def fitted_records(self, records: float, cost: Cost) -> int:
        """How many weighted records are fitted where marginals are selected one after another, by public facts.

        Parameters
        ----------
        records : float
            The number of private records n, about.
        cost : Cost
            What the release may cost.

        Returns
        -------
        int
            `weighted_records`, where that is given.
        """
        if self.weighted_records is not None:
            return self.weighted_records
        spent = pure_to_zcdp(PureDP(cost.epsilon)) if is_pure(cost) else concentrated(cost, self.name)
        exactness = (max(records, 1.0) * sqrt(spent.rho) / SIZES.typical_signal) ** SIZES.signal_power
        return int(min(max(SIZES.records_ratio * records * exactness, SIZES.min_records), SIZES.max_records))

    def _settling(self, domain: Domain, sets: Sequence[Axes]) -> float:
        """The seconds where all of these sets of columns are measured at once: a pass goes through all their tables."""
        number = coordinates(domain.shape, sets)
        final = self.weighted_records or SIZES.max_records
        passed = len(sets) * (FORECAST.passes * final + FORECAST.learnt_times * min(final, SAMPLE))
        bases = FORECAST.basis_seconds * sum(n**3 for n in domain.shape)
        read = passed / FORECAST.lookups_per_second
        multiplied = FORECAST.learnt_times * number**2 * (SAMPLE + number) / FORECAST.products_per_second
        return read + multiplied + bases

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Measure all marginals; or single columns, perhaps pairs, then select, measure and fit while cost is left."""
        domain = workload.domain
        at_once = [] if is_pure(cost) else self._measured_at_once(workload)
        known = known_counts(domain, private.known, self.order, at_once)
        learned = RecordFit(private, domain, structural_zeros.masks(domain, domain.impossible), known)
        if is_pure(cost):
            return self._under_pure_epsilon(private, learned, workload, PureDP(cost.epsilon))
        if not at_once:
            return self._selected(private, learned, workload, cost)
        counting, left = counting_first(cost, COUNT_SHARE, private.neighbours)
        records, first = private.count(counting)
        planned = residuals_at_once(workload.domain, at_once, left, private.neighbours, max(records, 1.0))
        learned.measure(planned, left)
        learned.settle(self.weighted_records or SIZES.max_records)
        counted = () if first is None else (first,)
        choices = {"at_once": True, "selected": [], "fitted rounds": learned.fitted.rounds}
        return MechanismResult(learned.synopsis, (*counted, *learned.measured), choices, constrained=True)

    def _under_pure_epsilon(
        self, private: Private, learned: RecordFit, workload: Workload, cost: PureDP
    ) -> MechanismResult:
        """Columns by themselves, and then whole marginals one by one: see `pure_records`."""
        domain, among, chosen = workload.domain, CandidateMarginals(private, workload, self.order), []
        singly, left = pure_records.first_costs(cost) if among.sets else (cost, cost)
        learned.measure(pure_records.columns(domain), singly)
        final = self.fitted_records(learned.total, cost)
        moving = moving_records(final)
        learned.fit(moving, SIZES.first_rounds if among.sets else 1)
        rounds = pure_records.rounds_of(domain, among.pairs, learned.total, left) if among.sets else 0
        for measuring, selecting in pure_records.costs_of_rounds(left, rounds):
            axes, _ = among.select(private, learned, selecting, measuring, (), alone=False)
            learned.measure(pure_records.whole_marginals(domain, [axes]), measuring)
            learned.fit(moving, SIZES.refit_rounds)
            chosen.append([domain.names[a] for a in axes])
        learned.fit(moving, SIZES.last_rounds)
        swept = learned.fitted.rounds
        learned.finish(final)
        choices = {"at_once": False, "pairs": 0.0, "selected": chosen, "fitted rounds": swept}
        choices["too large to select"] = len(subsets_asked(workload, self.order)) - len(among.sets)
        return MechanismResult(learned.synopsis, tuple(learned.measured), choices, constrained=True)

    def _selected(self, private: Private, learned: RecordFit, workload: Workload, cost: Cost) -> MechanismResult:
        """Columns, perhaps pairs, at once, and then marginals one by one."""
        domain, neighbours = workload.domain, private.neighbours
        among = CandidateMarginals(private, workload, self.order)
        share, chosen, left = 0.0, [], concentrated(cost, self.name)
        all_left = left
        if not among.sets:
            learned.measure(columns(domain, left, neighbours), left)
            final = self.fitted_records(learned.total, all_left)
            learned.fit(moving_records(final), 1)
        else:
            if neighbours is not Neighbours.REPLACE_ONE:
                counting, left = split(left, [COUNT_SHARE, 1 - COUNT_SHARE])
                learned.measure(number_of_records(domain), counting)
            final = self.fitted_records(learned.total, all_left)
            number = coordinates(domain.shape, among.pairs)
            share = share_of_pairs(learned.total, left, number, len(among.pairs)) if among.pairs else 0.0
            together, left = split(left, [share or SINGLES_SHARE, 1 - (share or SINGLES_SHARE)])
            if share:
                _measure_pairs(learned, among.pairs, together, neighbours)
            else:
                learned.measure(columns(domain, together, neighbours), together)
            if among.pairs and not share:
                together, left = split(left, [SIGNS_SHARE, 1 - SIGNS_SHARE])
                learned.measure(agreements(domain, among.pairs, singles(learned.estimates)), together)
            learned.fit(moving_records(final), SIZES.first_rounds)
            chosen = adapt(private, learned, among, left, moving_records(final), paired=share > 0)
            learned.fit(moving_records(final), SIZES.last_rounds)
        rounds = learned.fitted.rounds
        learned.finish(final)
        selected = [[domain.names[a] for a in axes] for axes in chosen]
        choices = {"at_once": False, "pairs": share, "selected": selected, "fitted rounds": rounds}
        choices["too large to select"] = len(subsets_asked(workload, self.order)) - len(among.sets)
        return MechanismResult(learned.synopsis, tuple(learned.measured), choices, constrained=True)


def _measure_pairs(learned: RecordFit, pairs: Sequence[Axes], cost: ZCDP, neighbours: Neighbours) -> None:
    """Measure each column, perhaps how often signs agree, and all pairs at the scales that follow from the columns."""
    first, rest = split(cost, [COLUMNS_SHARE, 1 - COLUMNS_SHARE])
    learned.measure(columns(learned.domain, first, neighbours), first)
    known = learned.estimates
    if signs_beside_pairs(learned.total, cost):
        second, rest = split(rest, [PAIRED_SIGNS_SHARE, 1 - PAIRED_SIGNS_SHARE])
        learned.measure(agreements(learned.domain, pairs, singles(known)), second)
    records = max(learned.total, 1.0)
    planned = pairs_and_columns(learned.domain, pairs, singles(known), known.variances, rest, neighbours, records)
    learned.measure(planned, rest)
