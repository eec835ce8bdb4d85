"""Marginals selected and measured one after another, with weighted records fitted to all measurements so far.

`weighted_records` says by what a marginal is selected, and why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Final, final

import numpy as np

from qrelease._util.progress import progress
from qrelease._util.typing import Axes, Floats, Mask
from qrelease.data.domain import Domain
from qrelease.data.marginals.record_tables import Tables
from qrelease.inference.dense_fit import fit_densely
from qrelease.inference.log_linear import LogLinear, finish, fit_records
from qrelease.inference.measurement import Measurement
from qrelease.inference.residuals import Estimates
from qrelease.inference.sampling import generator
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.record_plan import (
    ROUNDS,
    candidates,
    costs_of_round,
    refinement,
    rounds_of,
    times_asked,
    worst_cell_stands_out,
)
from qrelease.noise.calibration import better_rule
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.products import Product
from qrelease.queries.workload import Group, Workload


@dataclass(frozen=True)
class SizeSettings:
    """How many weighted records are fitted, and for how many rounds.

    Of n private records at a ρ the default number is n times `records_ratio` times (n√ρ / `typical_signal`) to the
    power `signal_power`: the more exact the measurements, the more records follow them.
    """

    max_moving_records: int = 1 << 14
    """The most weighted records that move while marginals are selected: more of them hardly changed the errors."""
    min_records: int = 1 << 14
    """The fewest weighted records by default."""
    max_records: int = 1 << 20
    """The most of them by default."""
    records_ratio: float = 9.0
    """The weighted records for each private one, at the typical signal."""
    typical_signal: float = 3_000.0
    """The n√ρ at which that ratio holds."""
    signal_power: float = 0.35
    """The power of the signal by which the ratio grows."""
    first_rounds: int = 14
    """The rounds of the fit to what is measured at first."""
    refit_rounds: int = 3
    """The rounds after marginals that were selected."""
    last_rounds: int = 12
    """The rounds after the last of them."""


SIZES: Final = SizeSettings()


@final
class RecordFit:
    """What was measured, and what was fitted to it last: public."""

    fitted: LogLinear

    def __init__(
        self, private: Private, domain: Domain, impossible: Mapping[Axes, Mask], known: Sequence[Measurement] = ()
    ) -> None:
        self.domain, self._private, self._impossible = domain, private, impossible
        self._records = None if private.public_records is None else float(private.public_records)
        self._start: LogLinear | None = None
        self.measured: list[Measurement] = [*known]
        self._fitted_to: list[Measurement] = []

    @property
    def estimates(self) -> Estimates:
        """The estimates that all measurements of residuals give."""
        residuals = [m for m in self.measured if isinstance(m.group.queries, Residuals | Cells)]
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
        """Measure queries, at a cost."""
        self.measured += self._private.measure(workload, cost)

    def fit(self, weighted_records: int, rounds: int) -> None:
        """Fit so many moving records, in so many rounds, from those that were fitted before.

        The generator's seed comes from what was measured: the same measurements give the same records.
        """
        rng = generator(_seed(self.measured, weighted_records))
        self.fitted = fit_records(
            self.estimates,
            weighted_records,
            rounds=rounds,
            rng=rng,
            signs=self._signs,
            impossible=self._impossible,
            start=self._start,
        )
        self._fitted_to = [*self.measured]
        self._start = self.fitted

    def finish(self, weighted_records: int) -> None:
        """Fit the last records, so many, which stay."""
        rng = generator(_seed(self.measured, weighted_records))
        self.fitted = finish(
            self.estimates,
            weighted_records,
            rng=rng,
            start=self.fitted,
            signs=self._signs,
            impossible=self._impossible,
        )

    @property
    def _signs(self) -> list[Measurement]:
        return [m for m in self.measured if isinstance(m.group.queries, Product)]

    def settle(self, weighted_records: int) -> None:
        """Fit so many records by the whole of J (`dense_fit`)."""
        rng = generator(_seed(self.measured, weighted_records))
        self.fitted = fit_densely(self.estimates, weighted_records, rng=rng, impossible=self._impossible)


def adapt(
    private: Private, learned: RecordFit, among: CandidateMarginals, cost: ZCDP, weighted_records: int, *, paired: bool
) -> list[Axes]:
    """Select, measure and fit until a cost is spent; the sets that were selected."""
    domain = learned.domain
    parts = left = ROUNDS.round_parts * rounds_of(learned.fitted.total, cost, paired=paired)
    units = ROUNDS.round_parts
    chosen: list[Axes] = []
    fresh: list[Axes] = []  # since the last fit
    bar = progress(total=parts, desc="budget")
    while left:
        units = left if left < 2 * units else units
        measuring, selecting = costs_of_round(cost, units, parts)
        alone = paired and len(chosen) % 2 == 1
        axes, said = among.select(private, learned, selecting, measuring, fresh, alone=alone)
        chosen.append(axes)
        fresh.append(axes)
        known = learned.estimates.variances
        learned.measure(refinement(domain, axes, known, measuring, private.neighbours), measuring)
        left -= units
        table, variance = learned.estimates.marginal(axes)
        off, noise = np.abs(table.reshape(-1) - said).mean(), sqrt(2 / pi * variance)
        names = "*".join(domain.names[a] for a in axes)
        bar.set_postfix_str(f"{names} was {off:.3g} a cell off, noise {noise:.3g}", refresh=False)
        bar.update(units)
        if off < ROUNDS.unexpected_deviation * noise:
            units += units // 2
        if left and (
            len(fresh) == ROUNDS.marginals_per_fit or not worst_cell_stands_out(learned.fitted.total, selecting.rho)
        ):
            learned.fit(weighted_records, SIZES.refit_rounds)
            fresh = []
    bar.close()
    return chosen


@final
class CandidateMarginals:
    """The marginals among which is selected: their exact counts, which are private, and what records say of them."""

    def __init__(self, private: Private, workload: Workload, order: int) -> None:
        domain = workload.domain
        self.sets = candidates(workload, order)
        self.pairs = [s for s in self.sets if len(s) == 2]
        self._tables = Tables(domain.shape, self.sets)
        self._weights = times_asked(workload, self.sets)
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
        learned: RecordFit,
        cost: PureDP | ZCDP,
        measuring: PureDP | ZCDP,
        fresh: Sequence[Axes],
        *,
        alone: bool,
    ) -> tuple[Axes, Floats]:
        """A set of which a measurement would bring much nearer, and what records say of it, counts (cells,).

        fresh  sets measured since the records were fitted: none of them, and the next one by its worst cell
        alone  whether a set counts once, and not as often as marginals that are asked about contain it

        A cell counts as far as it is off what is said, in whole units of the exact counts, by more than the distance
        expected of the noise with which it would be measured at the next cost and of the scatter of so many records,
        both of which are public: what a measurement gains there. A set's score is the sum over its cells. One record
        moves one cell of a marginal by 1, or two if it is replaced. Or its score is the largest distance of a cell,
        which moves by 1. Where a person counts once she moves exact counts by 2^bits units in all, and each by no more,
        so the scores move by 2^bits times as much: they change by no more than the sum, or the largest, of the changes.
        """
        fitted = learned.fitted
        chains, said = fitted.chains, self._said(fitted, learned.known)
        offsets = self._tables.offsets
        starts = offsets[:-1]
        units = 1 << private.weight_bits
        gaps = np.abs(self._exact - np.rint(units * said).astype(np.int64))
        scatter = fitted.total / (chains.even * len(chains.weights)) * np.maximum(said, 0)
        noise = (
            1 / (2 * measuring.rho) if isinstance(measuring, ZCDP) else 2 * (self._sensitivity / measuring.epsilon) ** 2
        )
        deviations = np.sqrt(noise + scatter)
        if fresh:
            far, sensitivity = np.maximum.reduceat(gaps, starts), units
            reached = np.maximum.reduceat(deviations, starts) * np.sqrt(2 * np.log(np.diff(offsets)))
            scores = far - np.rint(units * reached).astype(np.int64)
        else:
            least = np.rint(units * ROUNDS.tolerated_deviation * sqrt(2 / pi) * deviations).astype(np.int64)
            gains = np.add.reduceat(np.maximum(gaps - least, 0), starts)
            weights = np.ones_like(self._weights) if alone else self._weights
            scores, sensitivity = weights * gains, units * self._sensitivity * int(weights.max())
        among = [i for i, s in enumerate(self.sets) if s not in fresh] or [0]
        number = among[private.select(scores[among], sensitivity, cost, better_rule(cost))]
        return self.sets[number], said[offsets[number] : offsets[number + 1]]


def moving_records(final: int) -> int:
    """How many weighted records move while marginals are selected, for so many in the end."""
    return min(SIZES.max_moving_records, max(final // 2, 1))


def _seed(measurements: Sequence[Measurement], weighted_records: int) -> int:
    """The seed of the generator that fits so many records: public, and the same for the same measurements."""
    digest = hashlib.sha256(str(weighted_records).encode())
    for m in measurements:
        digest.update(m.values.tobytes())
    return int.from_bytes(digest.digest(), "big")
