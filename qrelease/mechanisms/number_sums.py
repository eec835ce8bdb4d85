"""Sums, means, variances and shares by group from one planned measurement, together with counts.

Whoever asks fifty questions about numbers one at a time divides the privacy by fifty, and again by two for each sum and
its count. But the count that one mean needs is the count of the next, the sum by carrier is a margin of the sum by
carrier and origin, and conditions that no record meets together cost nothing of each other. So all tables of counts,
centred sums, squares and signs that the questions need are measured once, by residuals, at the scales that are best for
all (`inference.sums_plan`, which has the proofs: (1) is what one record can use of the privacy, under each relation).

*Where the noise is.* Every table is of whole numbers: values lie on the grid of their column, clipped to public bounds
and centred between them (`queries.measures`), so sums are exact, and the noise is discrete: Gaussian for ρ and for
(ε, δ), Laplace for ε alone. The bounds are the schema's, or given, or learned (`learn`): never the data's own. Where
the unit is a person at most m records of each are in the tables, and the cost of one record is what `privacy.unit`
makes of that of a person: ε/m, or ρ/m².

*Together with counts.* Marginals of the workload are questions of their own in the same plan. Or another mechanism
makes them, for its share of the cost; its counts and these are then averaged by their precisions. Where its model of
records is off in a mean that was measured, it is brought there (`inference.followed_means`).

*Which noise.* Of an (ε, δ) the parts of a division in ρ grow with the root of their shares, and those of ε with the
shares themselves: few questions are closer by Laplace noise, many by Gaussian. So it is divided in ρ only where by the
plans no question is then expected to be further off than by its share of ε alone, without the δ, and neither are the
counts of a mechanism that would choose Laplace noise by itself (`either_noise`); weights of questions that would be are
raised before. Else ε is divided: the sums spend ε, and the other mechanism the rest with the δ. So no question is
expected to have a larger error because there was a δ. All of that is public.

*Quantiles* are read off planned counts by group and bin, or chosen by the exponential mechanism (`quantile_choices`,
which predicts the errors of both from public facts, the number of records among them: where that is not told, they are
read off counts). They are chosen, each for a share of its own of what the sums may spend, where by these predictions
they are clearly nearer. What errors are worth is the mean logarithm of their ratios to those by counts, and, of each
question that is off by more than it would be if all were asked one at a time (by a choice without an interval, or a
plan of its own, for an even part of the cost; a marginal for its weight's), that ratio's logarithm besides: of all
shares in sixty-fourths the best are taken.
No other question, and no marginal, may be predicted to be off by more than a twentieth more than by counts alone; but a
question may where it stays below what it would have one at a time, and its squared error below twice that by counts. A
share of a question by group that is less than its weight's is taken only where no larger one is good: groups may be
smaller than those predicted for. Everybody together is one group of a known size: such a quantile may have the smallest
share that is good. Of a chosen question the plan has the numbers of its groups' records; what is thereby freed is for
the others.

*Learned bounds.* At the edges of the column's bins, by the exponential mechanism, or permute-and-flip: the lower and
the upper one such that about so many records are beyond as the noise on their sums is worth, for moving a bound by one
step then changes the clipping by as much as the noise. The score of a bin is minus by how many records it misses the
one of that rank, which one record moves by at most 1. The rank is public, and no smaller than keeps the choice away
from the many bins that all records are on one side of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, final, get_args

import numpy as np

from qrelease._util import memory
from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import natural, probability
from qrelease.data import predicates
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.inference.chosen_quantiles import ChosenQuantiles, counted
from qrelease.inference.followed_means import follow
from qrelease.inference.histogram import check_size
from qrelease.inference.measurement import Measurement
from qrelease.inference.number_tables import MeasuredSums
from qrelease.inference.residual_synopses import Linear, Modelled
from qrelease.inference.residuals import Estimates, subsets
from qrelease.inference.sums_plan import SumsPlan, shares_of, unit_error
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.mechanisms.base import Mechanism, MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.quantile_choices import (
    Foretold,
    can_choose,
    check_choices,
    choose_quantiles,
    foreseen_choices,
)
from qrelease.noise.calibration import better_rule, calibrated, currency, selection_epsilon
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, is_pure, split
from qrelease.queries.measures import Measure, Needs, grid_of, needs_by_cells, needs_of, not_missing
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Workload

_LEARNING: Final = 0.1
"""The part of the cost that learns bounds."""

_RAISES: Final = 8
"""How often the weights of questions are raised that Laplace noise would answer more closely."""

_BEYOND: Final = 1.05
"""As if they were off by so much more: the weights come near what is enough, and would not reach it."""

_PARTS: Final = 64
"""What the sums may spend is divided in so many parts, at least, between what is measured and each chosen question."""

_TRIED: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 60)
"""Parts that are tried for one chosen question."""

_CLEARLY: Final = 0.8
"""A quantile is chosen where the squared error is then predicted to be at most this part of that by counts."""

_NO_WORSE: Final = 1.05**2
"""What the squared error of a question may be predicted to be multiplied by, for choices beside it, in any case."""

_MUCH_WORSE: Final = 2.0
"""The same where it stays below what the question would have if it were asked by itself, for its part of the cost."""

_ALL_SIZES: Final = 8
"""Questions, up to which every number of those that gain most is tried; of more all, a half, a quarter and one."""

_OF_GROUPS: Final = 1 / 16
"""Weight of the numbers of groups' records, of which no one asked, beside that of a question."""

_TINY: Final = 1e-12
"""A squared error, by which others are divided."""

_CELL: Final = 64
"""Bytes of a cell of a table while it is measured."""

COUNTED_WITH_SUMS: Final = "counted_with_sums"
"""The name of a choice: which of the measurements were drawn with the sums, where another mechanism counts."""

Quantiles = Literal["best", "counts", "exponential"]


@final
@dataclass(frozen=True)
class Division:
    """How a cost is divided.

    learning  what learns bounds, if any are to be learned
    counts    what the other mechanism may spend, where there is one
    sums      what the sums spend
    instead   the ε alone that they would spend else: then no question is planned to be further off than that buys,
              where there is such a plan
    choosing  what the choices of quantiles spend, where there are any
    chosen    the questions whose quantiles are chosen
    weights   of the shares that each of these has in what is for choosing, in whole numbers
    """

    learning: PureDP | ZCDP | None
    counts: Cost | None
    sums: Cost
    instead: PureDP | None = None
    choosing: PureDP | ZCDP | None = None
    chosen: tuple[str, ...] = ()
    weights: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class NumberSums:
    """Measures questions about numbers (sums, means, variances, shares), together with a workload of counts.

    Parameters
    ----------
    questions : sequence of str
        As `NumericQuestion.parse` takes them; quantiles are read off counts by group and bin. Those that the workload
        asks, as `Workload.means` makes them, are added to them.
    clip : mapping of str to (low, high)
        Bounds of columns, values of their grids that are public knowledge; by default those of the schema.
    learn : sequence of str
        Columns whose bounds are learned, for a tenth of the cost.
    mechanism : Mechanism, optional
        What answers the workload, for the rest of the cost; by default it is measured with the sums.
    share : float
        The share of the cost (of the plan, where there is no other mechanism) that is for the numbers.
    quantiles : {"best", "counts", "exponential"}
        How quantiles are answered: from noisy counts by group and bin, by the exponential mechanism where it can, or by
        what is predicted to be better.
    records : int, optional
        About how many records there are, if that is public: what is predicted of quantiles goes by it. Without it they
        are read off counts, unless `quantiles` says otherwise.

    Raises
    ------
    InvalidInput
        For parameters out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"hours": 100, "sex": 2})
    >>> table = qr.Table(domain, (np.arange(1000) % 50 + 20, np.arange(1000) % 2))
    >>> cost = qr.ZCDP(0.5)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, cost), qr.Entropy.insecure(1))  # no seed for real records
    >>> mechanism = qr.NumberSums(["mean:hours by sex"])
    >>> release = curator.release(mechanism, qr.Workload.marginals(domain, [["sex"]]), cost)
    >>> means = release.table("mean:hours by sex")
    >>> bool((means.low_95 < [44, 45]).all() and ([44, 45] < means.high_95).all())
    True
    """

    questions: Sequence[str] = ()
    clip: Any = ()
    learn: Sequence[str] = ()
    mechanism: Mechanism | None = None
    share: float = 0.5
    quantiles: Quantiles = "best"
    records: int | None = None

    @property
    def name(self) -> str:
        """`sums`."""
        return "sums"

    def __post_init__(self) -> None:
        for field in ("questions", "learn"):
            given: Any = getattr(self, field)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise InvalidInput(f"{field} must be a list of texts, got {given!r}")
            object.__setattr__(self, field, tuple(map(str, given)))
        if isinstance(self.clip, Mapping):
            if any(isinstance(bounds, str) or len(bounds) != 2 for bounds in self.clip.values()):
                raise InvalidInput("clip takes a lower and a higher bound for each column")
            object.__setattr__(self, "clip", tuple((name, low, high) for name, (low, high) in self.clip.items()))
        if self.quantiles not in get_args(Quantiles):
            raise InvalidInput(f"quantiles must be among {', '.join(get_args(Quantiles))}, got {self.quantiles!r}")
        if self.records is not None:
            object.__setattr__(self, "records", natural("records", self.records))
        if probability("share", self.share) == 0:
            raise InvalidInput(f"share must be above 0 and below 1, got {self.share!r}")

    @property
    def clips(self) -> dict[str, tuple[float, float]]:
        """The bounds that values are clipped to, by column, as given."""
        return {name: (low, high) for name, low, high in self.clip}

    def measuring(self, asked: NumberWorkload) -> tuple[NumberSums, Workload]:
        """See `MeasuresNumbers`."""
        twice = [text for text in asked.texts if text in self.questions]
        if twice:
            raise InvalidInput(f"the workload and the mechanism ask {twice[0]!r}, both: leave it out of one of them")
        counts = Workload.marginals(asked.domain, asked.groups) if asked.counts is None else asked.counts
        return replace(self, questions=(*self.questions, *asked.texts)), counts

    def no_table(self, workload: Workload) -> str | None:
        """Why there is no histogram to draw records from; the other mechanism's reason, where there is one."""
        if self.mechanism is not None:
            reason = getattr(self.mechanism, "no_table", None)
            return None if reason is None else reason(workload)
        unfitted = _unfitted(workload)
        return None if unfitted is None else str(unfitted)

    def measures(self, workload: Workload) -> tuple[Measure, ...]:
        """What is summed: the table has to have the values of its columns.

        Parameters
        ----------
        workload : Workload
            The queries to answer, whose domain counts alone.

        Returns
        -------
        tuple of Measure
            What a record adds to each table of sums.
        """
        asked = _needs(workload.domain, tuple(self.questions), self.clips)
        return tuple(m for needs in asked for m, _ in needs.weights)

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `InvalidInput` for questions that sums do not answer, and noise beyond the samplers; `TooLarge`."""
        if not self.questions:
            raise InvalidInput("there is no question about numbers, such as 'mean:age by sex'")
        domain = workload.domain
        for question in _parsed(domain, self.questions):
            if question.predicate is not None and not question.predicate.mask().any():
                raise InvalidInput(f"no record can meet the condition of {str(question)!r}: leave the question out")
        measures = self.measures(workload)
        for column in [*self.clips, *self.learn]:
            grid_of(domain[column])
        twice = [c for c in self.learn if c in self.clips]
        if twice:
            raise InvalidInput(f"the bounds of {twice[0]!r} are given and to be learned: choose one")
        unread = [c for c in [*self.clips, *self.learn] if all(m.column != c for m in measures)]
        if unread:
            raise InvalidInput(f"no question is about the values of {unread[0]!r}, whose bounds are asked for")
        division = divided(self, workload, cost, neighbours)
        if self.mechanism is not None:
            assert division.counts is not None
            self.mechanism.check(workload, division.counts, neighbours)
        for column in self.learn:
            if domain[column].values < 2:
                raise InvalidInput(f"bounds of {column!r} are learned at the edges of its bins, of which there is one")
            Workload.prefixes(domain, column)  # which are counted to choose them: it refuses what has no order
        plan = division_plan(self, workload, self.clips, division, neighbours)
        cells = sum(part.group.queries.count for part in plan.parts)
        memory.check(_CELL * cells, f"{cells:,} cells of sums", "ask for fewer questions")
        for part in plan.parts:
            part.noise(division.sums, neighbours)
        if division.choosing is not None:
            check_choices(_parsed(domain, division.chosen), division.choosing, division.weights)

    def foreseen(
        self, workload: Workload, cost: Cost, neighbours: Neighbours, records: int, place: float = 0.0
    ) -> MeasuredSums:
        """What would be measured without noise, with the error bars of the noise, if everybody were alike.

        Records are spread evenly over all cells, no value is missing that is summed up, and values lie at one place
        between their bounds, or on both sides of it. Nothing here looks at private data.

        Parameters
        ----------
        workload : Workload
            The queries to answer.
        cost : Cost
            What the release may cost.
        neighbours : Neighbours
            Which tables the promise compares.
        records : int
            About how many there are.
        place : float
            Where values lie, from -1, the lower bound, over 0, the middle, where half of them meet the condition of a
            ratio, to 1, the upper bound, where all do. The noise makes means, variances and ratios the least uncertain
            in the middle and the most at either end.

        Returns
        -------
        MeasuredSums
            It answers the questions.
        """
        domain, division = workload.domain, divided(self, workload, cost, neighbours)
        parts = division_plan(self, workload, self.clips, division, neighbours).parts
        measured = []
        for part in parts:
            cells = domain.cells(part.group.axes)
            each = records * _kept(domain, part.measure) * _added(domain, part.measure, place) / cells
            exact = part.group.queries.apply(np.full(cells, each))
            measured.append(Measurement(part.group, exact, part.noise(division.sums, neighbours)[0]))
        public = float(records) if neighbours is Neighbours.REPLACE_ONE else None
        asked = _parsed(domain, division.chosen), division.choosing, division.weights
        chosen = tuple(foreseen_choices(*asked, neighbours, records))
        return MeasuredSums(domain, tuple(self.questions), self.clips, parts, tuple(measured), public, chosen)

    def of_counts(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> Cost:
        """The part of a cost that the other mechanism, which counts, may spend.

        Parameters
        ----------
        workload : Workload
            The queries to answer.
        cost : Cost
            What the release may cost.
        neighbours : Neighbours
            Which tables the promise compares.

        Returns
        -------
        Cost
            All of it, where there is no other mechanism.
        """
        counts = divided(self, workload, cost, neighbours).counts
        return cost if counts is None else counts

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Learn bounds, where that is asked for; measure all tables at once; and fit, or let the other mechanism."""
        division = divided(self, workload, cost, private.neighbours)
        clips = dict(self.clips)
        if division.learning is not None:
            clips |= self._learned(private, workload, division.learning, division)
        plan = division_plan(self, workload, clips, division, private.neighbours)
        measured = private.measure_sums(plan.parts, division.sums)
        public = None if private.public_records is None else float(private.public_records)
        choices: dict[str, Any] = {"shares": shares_of(plan.parts)}
        chosen: tuple[ChosenQuantiles, ...] = ()
        if division.choosing is not None:
            questions = _parsed(private.domain, division.chosen)
            chosen = choose_quantiles(private, questions, division.choosing, division.weights)
            choices["chosen_quantiles"] = {
                "questions": list(division.chosen),
                "cost": division.choosing.to_json(),
                "weights": list(division.weights),
            }
        pairs = list(zip(plan.parts, measured, strict=True))
        plain = [m for p, m in pairs if p.measure.is_plain]
        if self.mechanism is not None:
            assert division.counts is not None
            choices["counts_by"] = self.mechanism.name
            inner = self.mechanism.release(replace(private, known=tuple(plain)), workload, division.counts)
            fitted = [i for i, m in enumerate(inner.measurements) if any(m is one for one in plain)]
            if fitted:
                choices[COUNTED_WITH_SUMS] = fitted
            made = replace(inner, choices={**inner.choices, **choices})
        else:
            made = MechanismResult(*_synopsis(workload, tuple(plain), public, choices))
        # What the synopsis was made of is listed with it.
        apart = [(p, m) for p, m in pairs if all(m is not one for one in made.measurements)]
        parts, tables = tuple(p for p, _ in apart), tuple(m for _, m in apart)
        sums = MeasuredSums(private.domain, tuple(self.questions), clips, parts, tables, public, chosen)
        if isinstance(made.synopsis, Modelled | WeightedCodes):
            made = replace(made, synopsis=follow(made.synopsis, sums, made.measurements))
        return replace(made, measured_sums=sums)

    def _learned(
        self, private: Private, workload: Workload, cost: PureDP | ZCDP, division: Division
    ) -> dict[str, tuple[float, float]]:
        """Bounds of each column, at edges of its bins, two selections a column."""
        found = {}
        plan = division_plan(self, workload, self.clips, division, private.neighbours)
        rule = better_rule(cost)
        price = split(cost, [1.0] * (2 * len(self.learn)))[-1]
        for column in self.learn:
            attribute = private.domain[column]
            grid, cells = grid_of(attribute), attribute.values
            below = private.exact(Workload.prefixes(private.domain, column))[0]  # in each cell or before it
            before = np.concatenate([[0], below[:-1]])
            sure = 2 * (math.log(cells) + 2) / float(selection_epsilon(price, rule))
            target = max(_worth(plan, column, division.sums, private.neighbours), math.ceil(sure))
            one = private.select(_scores(before, below, target), 1, price, rule)
            other = private.select(_scores(below[-1] - below, below[-1] - before, target), 1, price, rule)
            cuts = attribute.cuts or tuple(range(cells + 1))
            low, high = cuts[min(one, other)], cuts[max(one, other) + 1] - 1
            if low == high:
                low, high = max(low - 1, 0), min(low + 1, grid.size - 1)
            found[column] = float(grid.value(low)), float(grid.value(high))
        return found


def divided(sums: NumberSums, workload: Workload, cost: Cost, neighbours: Neighbours) -> Division:
    """In ρ or in ε, and what chooses quantiles: see the module. It looks at no data, and is the same whenever it is
    asked for."""
    return with_choices(sums, workload, by_counts(sums, workload, cost, neighbours), neighbours)


def by_counts(sums: NumberSums, workload: Workload, cost: Cost, neighbours: Neighbours) -> Division:
    """The division where all quantiles are read off counts."""
    if is_pure(cost):
        return in_one_currency(sums, PureDP(cost.epsilon) if isinstance(cost, ApproxDP) else cost)
    if not isinstance(cost, ApproxDP):
        return in_one_currency(sums, cost)
    epsilon_alone, in_rho = in_epsilon(sums, cost), in_one_currency(sums, cost)
    assert isinstance(epsilon_alone.sums, PureDP)
    in_rho = replace(in_rho, instead=epsilon_alone.sums)
    return in_rho if _as_good(sums, workload, in_rho, epsilon_alone, neighbours) else epsilon_alone


def in_one_currency(sums: NumberSums, cost: Cost) -> Division:
    """In ρ, or in ε where there is no δ: parts of those add up without loss."""
    learning: PureDP | ZCDP | None = None
    counts: Cost | None = None
    if sums.learn:
        learning, cost = split(currency(cost), [_LEARNING, 1 - _LEARNING])
    if sums.mechanism is not None:
        counts, cost = split(currency(cost), [1 - sums.share, sums.share])
    return Division(learning, counts, cost)


def in_epsilon(sums: NumberSums, cost: ApproxDP) -> Division:
    """In ε, with all of δ for the other mechanism: what it then has in ρ is backed by what of ε is left."""
    found = in_one_currency(sums, PureDP(cost.epsilon))
    if found.counts is None:
        return found
    assert isinstance(found.counts, PureDP)
    return replace(found, counts=ApproxDP(found.counts.epsilon, cost.delta))


def _as_good(sums: NumberSums, workload: Workload, found: Division, other: Division, neighbours: Neighbours) -> bool:
    """Whether by one division nothing is expected to be worse than by the other one without its δ."""
    plans = [division_plan(sums, workload, sums.clips, each, neighbours).errors(each.sums) for each in (found, other)]
    if (plans[0] > plans[1]).any():
        return False
    if sums.mechanism is None:
        return True
    assert found.counts is not None
    if getattr(sums.mechanism, "either_noise", False):
        assert isinstance(other.counts, ApproxDP)
        alone = PureDP(other.counts.epsilon)
        return squared_noise(workload, found.counts, neighbours) <= squared_noise(workload, alone, neighbours)
    try:
        with memory.unused():
            sums.mechanism.check(workload, found.counts, neighbours)
    except QReleaseError:  # it spends no ρ
        return False
    return True


def with_choices(sums: NumberSums, workload: Workload, division: Division, neighbours: Neighbours) -> Division:
    """A division with a part for choosing quantiles, where that is predicted to be better."""
    if sums.quantiles == "counts" or (sums.quantiles == "best" and sums.records is None):
        return division
    domain, clips = workload.domain, tuple(sorted(sums.clips.items()))
    able = [q for q in _parsed(domain, sums.questions) if can_choose(q)]
    if not able:
        return division
    asked = tuple(sums.questions), clips, sums.share, sums.mechanism is None, workload
    anyway, whole = sums.quantiles == "exponential", currency(division.sums)
    found = _best_choice(asked, division.sums, whole, division.instead, neighbours, sums.records, anyway)
    if found is None and anyway:
        raise InvalidInput(f"{whole} is too small for choices of quantiles: ask less, or give more budget")
    if found is None:
        return division
    chosen, weights, rest = found
    choosing, rest_of_it = split(whole, [sum(weights), rest])
    return replace(division, sums=rest_of_it, instead=None, choosing=choosing, chosen=chosen, weights=weights)


@lru_cache(maxsize=16)
def _best_choice(
    asked: tuple[tuple[str, ...], tuple[tuple[str, tuple[float, float]], ...], float, bool, Workload],
    cost: Cost,
    whole: PureDP | ZCDP,
    instead: PureDP | None,
    neighbours: Neighbours,
    records: int | None,
    anyway: bool,
) -> tuple[tuple[str, ...], tuple[int, ...], int] | None:
    """Which questions' quantiles are best chosen, for how many parts of the cost each, and how many are left.

    None where it is best to choose none.

    anyway  choose all that can be, for the best of the shares
    """
    texts, clips, share, together, workload = asked
    domain = workload.domain
    questions = _parsed(domain, texts)
    plan = _planned(*asked, cost, instead, neighbours)
    zeros = tuple(
        Measurement(p.group, np.zeros(p.group.queries.count), p.noise(cost, neighbours)[0]) for p in plan.parts
    )
    measured = MeasuredSums(domain, texts, dict(clips), plan.parts, zeros, float(records or 0))
    foretold = {
        i: Foretold.of(q, measured.rank_spread(q), neighbours, records)
        for i, q in enumerate(questions)
        if can_choose(q)
    }
    one = split(whole, len(texts))[0]  # what each question has where they are asked one at a time
    by_counts, noise = plan.errors(cost), plan.errors(cost)
    weights = np.full(len(plan.alone), share / len(texts))
    weights[len(texts) :] = (1 - share) / max(len(plan.alone) - len(texts), 1)
    alone = np.array(plan.alone) * unit_error(one)
    if together:
        alone[len(texts) :] = np.array(plan.alone[len(texts) :]) * unit_error(
            split(whole, [weights[-1], 1 - weights[-1]])[0]
        )
    for i, each in foretold.items():
        by_counts[i], alone[i] = each.by_counts(), each.by_choice(one, value_alone=True)
    by_counts = np.maximum(by_counts, _TINY)

    def value(found: Floats, at: Ints) -> Floats:
        """What errors of some questions are worth: less is better."""
        worse = np.maximum(found / np.maximum(alone[at], _TINY), 1.0)
        worth: Floats = weights[at] * np.log(found / by_counts[at]) + np.log(worse)
        return worth

    most = np.maximum(alone, _NO_WORSE * by_counts)
    most[: len(texts)] = np.minimum(most, _MUCH_WORSE * by_counts)[: len(texts)]
    if together:  # marginals are asked for themselves
        most[len(texts) :] = _NO_WORSE * by_counts[len(texts) :]
    as_counted = float(value(by_counts, np.arange(len(by_counts))).sum())
    fair = (share if together else 0.99) / len(texts)
    gains = {i: each.by_choice(split(whole, [fair, 1 - fair])[0]) / by_counts[i] for i, each in foretold.items()}
    order = sorted(gains, key=lambda i: gains[i])
    largest = split(whole, [_TRIED[-1], _PARTS - _TRIED[-1]])[0]
    some = order if anyway else [i for i in order if foretold[i].by_choice(largest) <= _CLEARLY * by_counts[i]]
    best: tuple[tuple[bool, float], tuple[str, ...], tuple[int, ...], int] | None = None
    for among in (some[:size] for size in ([len(some)] if anyway else _sizes(len(some)))):
        chosen = sorted(among)
        parts = _PARTS * math.ceil(4 * len(chosen) / _PARTS)
        other = _planned(*asked, whole, None, neighbours, tuple(texts[i] for i in chosen))
        curves = [_curve(foretold[i], whole, parts) for i in chosen]
        worth = [
            {u: float(value(np.array([error]), np.array([i]))[0]) for u, error in curve.items()}
            for i, curve in zip(chosen, curves, strict=True)
        ]
        rest_of = np.setdiff1d(np.arange(len(by_counts)), chosen)
        for enough in (True, False):
            least = [math.ceil(fair * parts) if enough and (anyway or questions[i].by) else 1 for i in chosen]
            able = [
                {u: w for u, w in table.items() if u >= low and (anyway or curve[u] <= _CLEARLY * by_counts[i])}
                for table, curve, low, i in zip(worth, curves, least, chosen, strict=True)
            ]
            for spent, total, units in _divisions(able, parts):
                found = other.errors(split(whole, [spent, parts - spent])[1])
                for i in set(foretold) - set(chosen):
                    found[i] = foretold[i].by_counts(found[i] / max(noise[i], _TINY))
                found = np.maximum(found, _TINY)
                good = found[rest_of] <= most[rest_of]
                judged = not enough, total + float(value(found[rest_of], rest_of).sum())
                if (anyway or (good.all() and judged[1] < as_counted)) and (best is None or judged < best[0]):
                    best = judged, tuple(texts[i] for i in chosen), units, parts - spent
    return None if best is None else best[1:]


def _curve(foretold: Foretold, whole: PureDP | ZCDP, parts: int) -> dict[int, float]:
    """The error of choices by how many of the parts they have, where they can be made."""
    tried = {round(u * parts / _PARTS) for u in _TRIED} | set(_TRIED)
    found = {u: foretold.by_choice(split(whole, [u, parts - u])[0]) for u in sorted(tried) if u < parts}
    return {u: error for u, error in found.items() if math.isfinite(error)}


def _divisions(worth: Sequence[Mapping[int, float]], parts: int) -> Iterator[tuple[int, float, tuple[int, ...]]]:
    """For each number of parts that may be spent, at least one being left, the best division among some questions.

    worth  of each question by its parts: the less, the better
    """
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for table in worth:
        longer: dict[int, tuple[float, tuple[int, ...]]] = {}
        for spent, (total, units) in best.items():
            for u, w in table.items():
                if spent + u < parts and (spent + u not in longer or total + w < longer[spent + u][0]):
                    longer[spent + u] = total + w, (*units, u)
        best = longer
    for spent, (total, units) in best.items():
        yield spent, total, units


def _sizes(able: int) -> Sequence[int]:
    """How many of the questions whose quantiles gain by it are chosen together."""
    return range(1, able + 1) if able <= _ALL_SIZES else sorted({able, able // 2, able // 4, 1})


def division_plan(
    sums: NumberSums,
    workload: Workload,
    clips: Mapping[str, tuple[float, float]],
    division: Division,
    neighbours: Neighbours,
) -> SumsPlan:
    """The plan of the sums under a division, for bounds that are given or were learned."""
    together = sums.mechanism is None
    asked = tuple(sums.questions), tuple(sorted(clips.items())), sums.share, together, workload
    return _planned(*asked, division.sums, division.instead, neighbours, division.chosen)


def _kept(domain: Domain, measure: Measure) -> float:
    """The share of the cells of the universe that meet the condition of a measure."""
    return float(predicates.parse(measure.where, domain).mask().mean()) if measure.where else 1.0


def _added(domain: Domain, measure: Measure, place: float) -> float:
    """What a record adds to a measure on average where none is missing and values lie at a place: 1 for a count.

    Those that meet a condition add 1 and the others -1. Squares are 2V² - w², with V² between place²w² and w².
    """
    if measure.power:
        return float(measure.top * place**measure.power)
    present = {not_missing(domain, a.name) for a in domain.attributes if a.missing}
    return 1.0 if not measure.met or measure.met in present else place


def _scores(first: Ints, last: Ints, target: int) -> Ints:
    """Minus by how much each bin, which has the records from one rank to another, misses a rank."""
    return -np.maximum(np.maximum(first - target, target - last), 0)


def _worth(plan: SumsPlan, column: str, cost: Cost, neighbours: Neighbours) -> int:
    """About how many records the noise on the sums of a column is worth, over all groups of a table: public."""
    worth = 1.0
    for part in plan.parts:
        if part.measure.column == column and part.measure.power == 1:
            law, _ = part.noise(cost, neighbours)
            multiple = getattr(part.group.queries, "multiple", 1)
            worth = max(worth, math.sqrt(law.variance * part.group.queries.cells) / (multiple * part.measure.top))
    return round(worth)


def _parsed(domain: Domain, texts: Iterable[str]) -> tuple[NumericQuestion, ...]:
    return tuple(NumericQuestion.parse(domain, text) for text in texts)


def _needs(domain: Domain, questions: tuple[str, ...], clips: Mapping[str, tuple[float, float]]) -> tuple[Needs, ...]:
    return tuple(needs_of(NumericQuestion.parse(domain, text), clips) for text in questions)


@lru_cache(maxsize=16)
def _planned(
    questions: tuple[str, ...],
    clips: tuple[tuple[str, tuple[float, float]], ...],
    share: float,
    together: bool,
    workload: Workload,
    cost: Cost,
    instead: PureDP | None,
    neighbours: Neighbours,
    chosen: tuple[str, ...] = (),
) -> SumsPlan:
    """The plan for the questions, and for the workload's marginals where these are measured with them.

    instead, chosen  see `Division`; of what is chosen the numbers of the groups' records are measured

    That quantiles are chosen frees what they had of the plan, and makes no other question's error at this cost larger:
    where no weights are found by which that is so, the plan is the one in which they were asked.
    """
    domain = workload.domain
    weights = [share / len(questions) * (_OF_GROUPS if text in chosen else 1.0) for text in questions]
    kept = [counted(q) if t in chosen else q for t, q in zip(questions, _parsed(domain, questions), strict=True)]
    asked = [needs_of(question, dict(clips)) for question in kept]
    if together:
        sets = workload.sets
        asked += [Needs(s, Measure()) for s in sets]
        weights += [(1 - share) / len(sets)] * len(sets)
    others = [needs_by_cells(question, dict(clips)) for question in kept]
    first = SumsPlan.choose(domain, asked, cost, neighbours, weights, others)
    if instead is None and not chosen:
        return first
    bought, otherwise = instead or cost, first
    limits = _planned(questions, clips, share, together, workload, bought, None, neighbours).errors(bought)
    if chosen:
        otherwise = _planned(questions, clips, share, together, workload, cost, None, neighbours)
        limits[[i for i, text in enumerate(questions) if text in chosen]] = np.inf
    plan, raised = first, np.array(weights)
    for _ in range(_RAISES):
        errors = plan.errors(cost)
        if not (errors > limits).any():
            return plan
        over = errors / np.where(limits > 0, limits, np.inf)
        raised = raised * np.where(over > 1, (_BEYOND * over) ** 2, 1.0)
        plan = SumsPlan.choose(domain, asked, cost, neighbours, raised.tolist(), others)
    return otherwise


def squared_noise(workload: Workload, cost: Cost, neighbours: Neighbours) -> float:
    """About the variance of noise for a whole workload at once, in units: Laplace for ε alone, else Gaussian."""
    unit, parameter = calibrated(1, cost)
    moved = workload.sensitivity(unit.order, replace=neighbours is Neighbours.REPLACE_ONE)
    return float(parameter * moved) if unit.order == 2 else 2 * float(parameter * moved) ** 2


def _unfitted(workload: Workload) -> TooLarge | None:
    """Why no histogram is fitted, if none is, from public facts alone."""
    try:
        with memory.unused():
            check_size(workload.domain, (), len(workload), ahead=False)
            sets = subsets(workload.domain, workload.sets)[1:]
            check_size(workload.domain, sorted(sets), len(workload), ahead=False)
    except TooLarge as reason:
        return reason
    return None


def _synopsis(
    workload: Workload, plain: tuple[Measurement, ...], public: float | None, choices: dict[str, Any]
) -> tuple[Linear | Modelled, tuple[Measurement, ...], dict[str, Any]]:
    """What answers counts: the histogram of maximum entropy, or the linear answers where none fits."""
    unfitted = _unfitted(workload)
    estimates = Estimates.of(workload.domain, plain, public)
    choices = {"records": float(estimates.residuals[()].values), **choices}
    if unfitted is not None:
        return Linear(estimates, len(plain)), plain, {**choices, "no_table": str(unfitted)}
    return Modelled.of(estimates, workload, len(plain)), plain, choices
