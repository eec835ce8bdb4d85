"""MWEM: iterative construction with multiplicative weights and the exponential distinguisher.

Hardt, Ligett & McSherry 2012, *A simple and practical algorithm for differentially private data release*, with whole
marginals measured at once (a measurement of all cells of a marginal costs no more than one of a single cell).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final, get_args

import numpy as np

from qrelease._util.progress import progress
from qrelease._util.validate import natural, real, whole
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import check_size
from qrelease.inference.maximum_entropy_rule import MaximumEntropy, with_subsets
from qrelease.inference.measurement import Measurement, noise_for
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.iterative.construction import MAX_ROUNDS, Round, cheaper_currency, iterate
from qrelease.mechanisms.iterative.distinguishers import Select, Selectable
from qrelease.mechanisms.private_data import Private
from qrelease.noise.calibration import Rule, better_rule, calibrated, counting_first
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, split
from qrelease.queries.families import Cells
from qrelease.queries.workload import Workload

Update = Literal["multiplicative-weights", "maximum-entropy"]

MAX_FITTED_CELLS: Final = 1 << 30
"""Cells that the updates may pass over when everything is measured at once: some seconds."""

COUNT_SHARE: Final = 0.01
"""The share of the budget that buys the number of records under add-remove."""


UPDATE_RULES: Final[dict[Update, type[MultiplicativeWeights] | type[MaximumEntropy]]] = {
    "multiplicative-weights": MultiplicativeWeights,
    "maximum-entropy": MaximumEntropy,
}
"""The class of each `update`."""


@final
@dataclass(frozen=True)
class MWEM:
    """A synthetic histogram; each round measures queries that it answers badly, with noise, and fits it to them.

    Parameters
    ----------
    rounds
        The number of rounds; by default `rounds_for` of public facts and the noisy number of records. Where the rounds
        would reach every group, there are none, and everything is measured at once: see `release`.
    choice
        What each round selects and measures: a `group`, which is a whole marginal, or a single `query`.
    rule
        How the selection is drawn: by the `exponential` mechanism or by `permute-and-flip`. The default is
        permute-and-flip under pure ε and exponential under zCDP, each the better one there.
    selection
        The share of a round's budget that its selection takes.
    singles
        The share of the budget that measures every column by itself before the first round; 0 for the original's
        uniform start.
    sweeps
        Passes over the universe at each update, see `MultiplicativeWeights`.
    records
        About how many records there are, if that is public; by default a hundredth of the budget (`COUNT_SHARE`) buys
        a noisy count of them.
    update
        The rule that updates the histogram; `maximum-entropy` uses whole marginals only, see `MaximumEntropy`.

    Raises
    ------
    TooLarge
        For a universe that has no histogram here.
    InvalidInput
        For parameters out of range.

    Notes
    -----
    *The budget* B is ε, or the ρ of an (ε, δ) where that is better. Under add-remove 0.01 B counts the records, unless
    `records` is given; `singles` B measures the columns; the rest R is cut into T equal rounds, of which a selection
    costs `selection` R/T and a measurement (1 - `selection`) R/T.

    *The score* of a group of queries q with the exact answers q(x), the histogram's q(y) and the L1 sensitivity Δ₁ is
    (Σ_q |q(x) - q(y)| - Σ_q E|noise of q|) / Δ₁; of a single query |q(x) - q(y)|: one record moves it by 1 (by the
    step of a fine grid more, for groups). The exponential mechanism takes i with probability ∝ e^(ε' score/2), where ε'
    is the cost of the selection, or √(8ρ').

    *The noise* of a measurement at ε' is discrete Laplace of scale Δ₁/ε', at ρ' discrete Gaussian of variance
    Δ₂²/(2ρ'), where Δ₂ is the L2 sensitivity of the group.

    *The rounds* are by default T = ⌈3 r^a⌉, where r = n √ln|X| / (k s): n is the noisy number of records, |X| the cells
    of the universe, k the mean number of queries in a group (1 for single queries), s the standard deviation of a
    measurement for all of R, and a = 1/3 under ε, 1/2 under ρ.

    *The update* multiplies each cell by e^(Σ_q q(cell) s_q), over all measurements so far and `sweeps` times, where
    s_q = (v - q(y)) / (q(y) + caution σ) times a step, at most 1 in size: v is the noisy answer and σ its standard
    deviation (see `MultiplicativeWeights`). In 2012 it is (v - q(y)) / 2n, for the last measurement.

    References
    ----------
    Hardt, Ligett & McSherry 2012, *A simple and practical algorithm for differentially private data release*, for the
    mechanism; McKenna, Mullins, Sheldon & Miklau 2022, *AIM*, for the score of a group; McKenna & Sheldon 2020,
    *Permute-and-flip*; Cesar & Rogers 2021, *Bounding, concentrating, and truncating*, for √(8ρ).

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2, "age": 10})
    >>> table = qr.Table(domain, (np.arange(500) % 2, np.arange(500) % 10))
    >>> cost = qr.PureDP(1)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, cost), qr.Entropy.insecure(1))  # no seed for real records
    >>> release = curator.release(qr.MWEM(rounds=2), qr.Workload.marginals(domain, 2), cost)
    >>> release.synthetic(3)["sex"].shape
    (3,)
    """

    rounds: int | None = None
    choice: Selectable = "group"
    rule: Rule | None = None
    selection: float = 0.15
    singles: float = 0.1
    sweeps: int = 4
    update: Update = "multiplicative-weights"
    records: int | None = None

    @property
    def name(self) -> str:
        """`mwem`."""
        return "mwem"

    def __post_init__(self) -> None:
        if self.rounds is not None:
            object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=1))
            if self.rounds > MAX_ROUNDS:
                raise InvalidInput(f"rounds must be at most {MAX_ROUNDS:,}, got {self.rounds:,}")
        object.__setattr__(self, "sweeps", MultiplicativeWeights(self.sweeps).sweeps)
        object.__setattr__(self, "selection", real("selection", self.selection))
        object.__setattr__(self, "singles", real("singles", self.singles))
        if not 0 < self.selection < 1:
            raise InvalidInput(f"selection must be a share between 0 and 1, got {self.selection}")
        if not 0 <= self.singles < 1 - COUNT_SHARE:
            raise InvalidInput(f"singles must be a share from 0 to below {1 - COUNT_SHARE}, got {self.singles}")
        if self.records is not None:
            object.__setattr__(self, "records", natural("records", self.records))
        Select(self.choice, self.rule or "exponential")
        if self.update not in get_args(Update):
            raise InvalidInput(f"update must be one of {', '.join(get_args(Update))}, got {self.update!r}")
        if self.update == "maximum-entropy" and self.choice != "group":
            raise InvalidInput(
                f"update 'maximum-entropy' learns from whole marginals: choice must be 'group', got {self.choice!r}"
            )

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `TooLarge` before anything is allocated, `InvalidInput` for a cost too small for even one round.

        And for queries that the rule does not learn from.
        """
        if self.update == "maximum-entropy" and not all(isinstance(g.queries, Cells) for g in workload.groups):
            raise InvalidInput("update 'maximum-entropy' learns from whole marginals: ask for marginals only")
        check_size(workload.domain, self._sets(workload), len(workload))
        counting, singles, rest = self._shares(_spent_currency(cost, workload), self.singles, neighbours)
        if counting is not None:
            calibrated(1, counting)
        if singles is not None:
            noise_for(_columns(workload), singles, neighbours)
        _check_round(workload, rest, neighbours, self.rounds or 1, self.selection)

    def _shares(
        self, cost: PureDP | ZCDP, singles: float, neighbours: Neighbours
    ) -> tuple[PureDP | ZCDP | None, PureDP | ZCDP | None, PureDP | ZCDP]:
        """What counts the records (where nobody knows them), what measures the columns, and what the rounds get."""
        counting, left = counting_first(cost, COUNT_SHARE, neighbours, self.records)
        assert not isinstance(left, ApproxDP)
        if not singles:
            return counting, None, left
        others = 1 - singles if counting is None else 1 - COUNT_SHARE - singles
        columns, rest = split(left, [singles, others])
        return counting, columns, rest

    def _rounds(self, workload: Workload, cost: PureDP | ZCDP, neighbours: Neighbours, n: float) -> int:
        """The default number of rounds, or as many as a tiny budget can be cut into: `check` knows that one can be."""
        rounds = rounds_for(workload, cost, neighbours, n, self.choice)
        while rounds > 1:
            try:
                _check_round(workload, cost, neighbours, rounds, self.selection)
            except InvalidInput:
                rounds //= 2
            else:
                break
        return rounds

    def _sets(self, workload: Workload) -> tuple[tuple[int, ...], ...]:
        """The marginals that are asked for, then the columns by themselves if they are measured."""
        singles = [(a,) for a in range(len(workload.domain))] if self.singles else []
        sets = tuple(dict.fromkeys([*workload.sets, *singles]))
        return with_subsets(sets) if self.update == "maximum-entropy" else sets

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Count the records, measure the single columns, then run the rounds; or measure everything at once.

        There is nothing to select where the default number of rounds would reach every group: then all of them are
        measured together, for what the singles and the selections would have cost too.
        """
        whole = _spent_currency(cost, workload)
        counting, singles, rest = self._shares(whole, self.singles, private.neighbours)
        known = None if private.neighbours is Neighbours.REPLACE_ONE else self.records
        total, counted = private.count(counting) if known is None else (float(known), None)
        rounds = self.rounds or self._rounds(workload, rest, private.neighbours, max(total, 1.0))
        measurements: list[Measurement] = []
        everything = self.rounds is None and self.choice == "group" and rounds >= len(workload.groups)
        if everything:
            measurements += private.measure(workload, self._shares(whole, 0.0, private.neighbours)[2])
        elif singles is not None:
            measurements += private.measure(_columns(workload), singles)
        bought = () if counted is None else (counted,)
        counts = [*bought, *(m for m in measurements if isinstance(m.group.queries, Cells))]
        public = private.neighbours is Neighbours.REPLACE_ONE
        total = max(total if public or not counts else _refined(counts), 1.0)
        rule = UPDATE_RULES[self.update](self.sweeps)
        state = rule.start(workload.domain, self._sets(workload), total)
        if everything:
            for _ in progress(range(_updates(workload)), desc="fitting"):
                state = rule.update(state, measurements)
            return MechanismResult(state, (*bought, *measurements), {"rounds": 0, "records": total})
        if measurements:
            state = rule.update(state, measurements)
        select = Select(self.choice, self.rule or better_rule(whole))
        plan = Round.equal(rest, rounds, self.selection)
        state = iterate(private, workload, state, rule, select, plan, measurements)
        return MechanismResult(
            state, (*bought, *measurements), {"rounds": rounds, "rule": select.rule, "records": total}
        )


def rounds_for(workload: Workload, cost: PureDP | ZCDP, neighbours: Neighbours, n: float, choice: Selectable) -> int:
    """The default number of rounds, from public facts and the (noisy) number of records n.

    More rounds fit more queries, an error that falls as √(ln|X| / T) of n [Hardt, Ligett & McSherry 2012, Thm 2.2]; but
    each adds noise to its k̄ answers, by which it grows as T^p · k̄ s / n, where s is the standard deviation of one
    measurement for the whole budget (of the noisiest group), p = 1 for pure ε and 1/2 for zCDP. The two balance at
    T^(p + 1/2) = r = n √ln|X| / (k̄ s). Both are worst cases; in the table of `benchmarks.error` errors are smallest
    near T = 3 r^(1/2(p + 1/2)), that is 3 r^(1/3) and 3 r^(1/2).
    """
    groups = np.array([g.queries.count for g in workload.groups]) if choice == "group" else np.ones(1)
    alone = (Workload(workload.domain, (group,)) for group in workload.groups)
    s = math.sqrt(max(noise_for(one, cost, neighbours)[0].variance for one in alone))
    r = n * math.sqrt(math.log(workload.domain.size)) / (float(groups.mean()) * s)
    power = 1 / 3 if isinstance(cost, PureDP) else 1 / 2
    return min(MAX_ROUNDS, max(1, math.ceil(3 * float(r**power))))


def _columns(workload: Workload) -> Workload:
    """Every column by itself."""
    return Workload.marginals(workload.domain, [[name] for name in workload.domain.names])


def _check_round(
    workload: Workload, cost: PureDP | ZCDP, neighbours: Neighbours, rounds: int, selection: float
) -> None:
    """`InvalidInput` if the noise of a measurement in one of so many rounds would be beyond the samplers' range."""
    share = split(cost, [1 - selection, rounds + selection])[0]  # as one of rounds + 1, to be on the safe side
    for group in workload.groups:
        noise_for(Workload(workload.domain, (group,)), share, neighbours)


def _updates(workload: Workload) -> int:
    """How often to fit what was measured once: often enough to converge, seldom enough to take seconds only."""
    return min(max(MAX_FITTED_CELLS // (4 * workload.domain.size), 16), 512)


def _spent_currency(cost: Cost, workload: Workload) -> PureDP | ZCDP:
    """What the mechanism spends a cost in: T, the number of draws, is taken as that of the groups, at most 32."""
    return cheaper_currency(cost, min(len(workload.groups), 32))


def _refined(counts: Sequence[Measurement]) -> float:
    """The number of records, from its own noisy count and the sums of disjoint measured marginals: all unbiased."""
    weights = [1 / (m.variance * len(m.values)) for m in counts]
    return sum(w * float(m.values.sum()) for w, m in zip(weights, counts, strict=True)) / sum(weights)
