"""Promises before spending: what error a mechanism's theorem promises, and what a target error takes.

A mechanism that has a theorem is `Promising`. Its promise improves as ε or n grows, so either can be found for a target
error. What an error is *typically* like is simulated (`simulation`). A mechanism that may work for minutes is
`Forecasting`: it tells how many, and how much memory it takes. Nothing here looks at private data.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any, Final, final

import numpy as np

from qrelease._util import memory
from qrelease._util.elapsed import elapsed
from qrelease._util.multisets import range_size
from qrelease._util.progress import progress
from qrelease._util.texts import for_python, readable, rounded
from qrelease._util.validate import positive_probability, whole
from qrelease.errors import InvalidInput, OutOfMemory, QReleaseError, TooLarge
from qrelease.inference.measurement import noise_for
from qrelease.inference.nets import quantiles, small_databases
from qrelease.mechanisms import matrix
from qrelease.mechanisms.accuracy import Promising
from qrelease.mechanisms.auto import (
    MAX_SIMULATED,
    QUICK_CELLS,
    SMALL_DATABASE_CELLS,
    Auto,
    choose,
    foretold,
    in_closed_form,
)
from qrelease.mechanisms.base import OnlineMechanism, check_parts
from qrelease.mechanisms.expected_errors import marginals_alone
from qrelease.mechanisms.forecasts import Forecasting, pace, rough
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.simulation import MAX_RECORDS, STAND_IN, Simulation, Trial
from qrelease.mechanisms.small_db.net import Net
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_spendable, cost_of
from qrelease.privacy.unit import Unit
from qrelease.queries.dense import MAX_ENTRIES
from qrelease.queries.families import Intervals
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.vc import small_database_error
from qrelease.queries.workload import Workload
from qrelease.release.forecasts import Files


@final
@dataclass(frozen=True)
class PlanningLimits:
    """How far a plan looks for a target, and how long its simulations may take."""

    doublings: int = 40
    """Doublings of ε, of its inverse, and of the number of records, up to which a target is looked for."""
    precision: float = 1.00005
    """The ratio of upper to lower bound at which that search ends."""
    net_synopses: int = 1 << 20
    """Synopses in a quantile net, at most: with more, a simulation takes too long."""
    net_answers: int = 1 << 24
    """Answers of all synopses in a net of small databases, at most, for the same reason."""
    histogram_cells: int = 1 << 20
    """Cells of the largest universe over which a mechanism is simulated that updates a histogram in many rounds."""
    foretold_seconds: float = 4.0
    """Seconds that a release may be foretold to take, and be simulated: a plan is not to be longer than a release."""
    simulation_seconds: float = 1.0
    """Seconds of a core after which no other simulation of the same mechanism is begun."""


LIMITS: Final = PlanningLimits()


@final
@dataclass(frozen=True)
class MechanismForecast:
    """What one mechanism promises and takes. What it cannot say is None, and `note` says why.

    Attributes
    ----------
    mechanism
        Its name.
    promised
        The largest error over all queries, a fraction of n, at the plan's cost; above 1 it says nothing.
    typical
        The same in a simulation, the median of some.
    average
        How far an answer is off in the root mean square, records: by the formula that `Auto` predicts it by, where the
        mechanism has one, else in the simulations.
    epsilon
        What the theorem takes for the target error, at the plan's δ and n.
    records
        How many records it takes for the target error, at the plan's cost.
    seconds
        How long a release takes at the plan's cost, about, with its synthetic records and files, on this machine with
        what else it does now.
    memory
        Bytes that a release takes at most, about.
    note
        A sentence on what is missing.

    Examples
    --------
    >>> MechanismForecast("laplace", promised=1.5).vacuous
    True
    """

    mechanism: str
    promised: float | None = None
    typical: float | None = None
    average: float | None = None
    epsilon: float | None = None
    records: int | None = None
    seconds: float | None = None
    memory: int | None = None
    note: str = ""

    @property
    def vacuous(self) -> bool:
        """Whether the promise says nothing, for no answer is off by more than all records."""
        return self.promised is not None and self.promised > 1

    @property
    def says_something(self) -> bool:
        """Whether any error is known of it: else there is only a reason."""
        return not (self.promised is None or self.vacuous) or (self.typical, self.average) != (None, None)


@final
@dataclass(frozen=True)
class RecordBound:
    """What it costs to keep at most so many records of a person, by public facts alone.

    Attributes
    ----------
    at_most
        m.
    deviation
        The standard deviation of each answer's noise, records, where the whole workload is answered at once. Where each
        person counts once: persons.
    kept
        The largest share of the records that may be kept, where the number of persons is given. How large it is depends
        on how many records each of them has, which is private.
    weights
        What counts one: `records`, or `persons`.
    """

    at_most: int
    deviation: float
    kept: float | None
    weights: str = "records"

    def __str__(self) -> str:
        share = "" if self.kept is None else f", at most {self.kept:.0%} of the records"
        once = ", weights = 'persons'" if self.weights == "persons" else ""
        return f"  at_most = {self.at_most}{once}: noise of {self.deviation:.3g} {self.weights} an answer{share}"


@final
@dataclass(frozen=True)
class NumbersForecast:
    """How accurate the answer to a question about numbers will be, by its plan.

    Attributes
    ----------
    question
        As it was asked.
    groups
        How many numbers answer it.
    records
        In each group, where all have as many.
    half_width
        Of the 95 % interval of each, in units of the column, where values lie in the middle of their bounds: the least.
    half_width_at_end
        The same where all values lie at one of their bounds, or all or none meet the condition of a ratio: the most.
    way
        How quantiles are answered that are not read off noisy counts; else empty. For so many records, if that is what
        the release is told too (`records`).
    bins
        Of quantiles that are read off counts of wide bins, that no interval is narrower than a bin; else empty.

    Examples
    --------
    >>> print(NumbersForecast("mean:age by sex", 2, 500.0, 0.25, 0.4))
      mean:age by sex: ± 0.25 to 0.4, each of 2 groups of 500 records
    """

    question: str
    groups: int
    records: float
    half_width: float
    half_width_at_end: float
    way: str = ""
    bins: str = ""

    def __str__(self) -> str:
        of = f", each of {self.groups:,} groups" if self.groups > 1 else ", of one group"
        way = f"; {self.way}, if the release too is told --records" if self.way else ""
        least, most = rounded(self.half_width), rounded(self.half_width_at_end)
        to = f" to {most}" if most != least else ""
        return f"  {self.question}: ± {least}{to}{of} of {self.records:,.0f} records{way}"


@final
@dataclass(frozen=True, repr=False)
class ReleasePlan:
    """Forecasts for one workload at one cost. Its text is a table.

    Attributes
    ----------
    subject
        What is asked of how many records, in a line.
    cost
        What each mechanism may spend.
    target
        An error, a fraction of n; None where none was asked for.
    beta
        The probability with which each promise fails.
    trials
        Simulations of each mechanism, at most; `note` says why there are none though they were asked for.
    forecasts
        One a mechanism.
    auto
        What `Auto` would take for so many records, and why; empty where that takes simulations that are too long, or
        none were asked for.
    bounds
        Where a person is the unit: what it would cost to keep more or fewer records of each.
    numbers
        How accurate the questions about numbers will be answered, with `share` of the cost for them.
    share
        The part of the cost that is for the numbers, where there are any; the forecasts are for all of it.
    """

    subject: str
    cost: Cost
    target: float | None
    beta: float
    trials: int
    forecasts: tuple[MechanismForecast, ...]
    note: str = ""
    auto: str = ""
    bounds: tuple[RecordBound, ...] = ()
    numbers: tuple[NumbersForecast, ...] = ()
    share: float = 0.0

    def __str__(self) -> str:
        return for_python(self.text)

    @property
    def text(self) -> str:
        """The table as the command line prints it, with the names of its options."""
        told = [q for q in self.forecasts if q.says_something]
        rows = [self._header, *map(self._cells, told)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join([r[0].ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])]) for r in rows]
        notes = [f"{q.mechanism}: {q.note}" for q in told if q.note]
        others = [
            f"  {q.mechanism}{_ELSEWHERE.get(q.mechanism, '')}: {q.note}" for q in self.forecasts if q not in told
        ]
        notes += ["not possible here, or with an error that is not known:", *others] if others else []
        notes += [f"auto: {self.auto}"] if self.auto else []
        notes += ["what at_most costs, and how many records it may keep:", *map(str, self.bounds)] * bool(self.bounds)
        if self.numbers:
            notes += [
                f"numbers, for {self.share:g} of the cost (the table above is for all of it): the half-width of each"
                " 95 % interval, from the least, where values lie in the middle of their bounds, to the most, where all"
                " lie at one end; with narrower public bounds both are smaller. Groups are taken to be equally large,"
                " with no value missing: of half as many records, means, shares and variances have intervals twice as"
                " wide. For quantiles, values are taken to be spread evenly over the bins",
                *map(str, self.numbers),
                *dict.fromkeys(number.bins for number in self.numbers if number.bins),
            ]
        return "\n".join([self.subject, "", *table, "", *self._legend, *notes])

    __repr__ = __str__

    @property
    def _header(self) -> tuple[str, ...]:
        goal = () if self.target is None else (f"epsilon for {self.target:g}", f"records for {self.target:g}")
        return (
            "mechanism",
            f"promised at {self.cost:.6g}",
            *(("typical",) if self.trials else ()),
            "average",
            *goal,
            "seconds",
            "memory",
        )

    @property
    def _legend(self) -> list[str]:
        lines = [
            f"promised: by a theorem, with probability {1 - self.beta:g} no published answer is off by more than this"
            " fraction of the records, whatever the records are; above 1 it says nothing"
        ]
        if self.trials:
            times = "in one simulation"
            if self.trials > 1:
                seconds = f"{LIMITS.simulation_seconds:g}"
                times = f"the median of {self.trials} simulations, or of fewer that took {seconds} s together,"
            lines.append(
                f"typical: how far the worst answer was off, as such a fraction: {times} on {STAND_IN};"
                " yours may differ"
            )
        lines.append(
            "average: how far answers are off, in the root mean square over all of them, in records: as predicted by"
            + (" auto, or else as simulated" if self.trials else " auto")
        )
        lines.append(
            "seconds, memory: about what one release takes on two cores, with its synthetic records and its files,"
            " once the data are read; a first run also"
            " compiles code (`qrelease warmup` does that beforehand); - where it is not predicted"
        )
        if isinstance(self.cost, PureDP):
            lines.append("without a delta (--delta) there is no Gaussian noise, nor what needs it")
        return [*lines, self.note] if self.note else lines

    def _cells(self, quote: MechanismForecast) -> tuple[str, ...]:
        promised = "vacuous" if quote.vacuous else _number(quote.promised, ".2g")
        typical = (_number(quote.typical, ".2g"),) if self.trials else ()
        goal = () if self.target is None else (_number(quote.epsilon, ".4g"), _number(quote.records, ","))
        taken = (
            "-" if quote.seconds is None else rough(quote.seconds),
            "-" if quote.memory is None else memory.size(quote.memory),
        )
        return (
            quote.mechanism,
            promised,
            *typical,
            "-" if quote.average is None else rounded(quote.average),
            *goal,
            *taken,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {
            "subject": self.subject,
            "cost": self.cost.to_json(),
            "target": self.target,
            "beta": self.beta,
            "trials": self.trials,
            "stand_in": STAND_IN if self.trials else None,
            "note": self.note,
            "auto": self.auto,
            "quotes": [{**asdict(q), "vacuous": q.vacuous} for q in self.forecasts],
            **({"bounds": [asdict(bound) for bound in self.bounds]} if self.bounds else {}),
            **({"numbers": [asdict(n) for n in self.numbers], "share": self.share} if self.numbers else {}),
        }


def plan(
    workload: Workload | NumberWorkload,
    n: int,
    target_error: float | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    neighbours: Neighbours | str = "add-remove",
    beta: float = 0.05,
    trials: int = 3,
    persons: int | None = None,
    mechanisms: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    clip: Mapping[str, tuple[float, float]] | None = None,
    numbers_share: float = 0.5,
    rho: float | None = None,
) -> ReleasePlan:
    """For each mechanism: the promised and the typical error on n records, and the ε and n that a target error takes.

    Nothing here looks at private data.

    Parameters
    ----------
    workload
        The queries. Questions about numbers among them are told of as `numbers` are; without counts, those of their
        groups are planned.
    n
        About how many records there are.
    target_error
        How far off the worst answer may be, a fraction of n.
    epsilon
        What may be spent; by default the least that some theorem takes for the target.
    delta
        None or 0 for pure ε.
    neighbours
        The relation under which the cost holds.
    beta
        The probability with which a promise may fail.
    trials
        Simulations of each mechanism; 0 for none, and then it is told what `Auto` would take of marginals alone.
    persons
        About how many persons there are, if that is public and a person is the unit: it says how many records may be
        kept. Where each of them counts once, answers are of so many; else `n` is taken for their number.
    mechanisms
        The names of those to tell of; by default all. What is promised by any of the others counts for the ε that is
        found, as ever.
    numbers
        Questions about numbers that are asked too, as `NumberSums` takes them.
    clip
        Bounds of their columns, by default those of the schema.
    numbers_share
        The part of the cost that they have.
    rho
        What may be spent, as a ρ of zCDP, instead of ε and δ; those that a target takes are told of still.

    Returns
    -------
    ReleasePlan
        A forecast for each mechanism; its text is a table.

    Raises
    ------
    InvalidInput
        For arguments out of range, without a target and an ε or ρ, or with both of these, and where no ε is promised to
        be enough for the target, nor any number of records at the ε that is given.

    Examples
    --------
    >>> import qrelease as qr
    >>> pairs = qr.Workload.marginals(qr.Domain.coded({"sex": 2, "age": 10}), 2)
    >>> print(qr.plan(pairs, 1_000, epsilon=1, trials=0))  # doctest: +ELLIPSIS
    queries 20, marginals 1, columns 2, universe 20 cells, records 1,000, add-remove
    <BLANKLINE>
    mechanism  promised at epsilon=1  average  seconds   memory
    laplace                    0.036     1.41        -        -
    ...
    """
    if isinstance(workload, NumberWorkload):
        sums, workload = NumberSums(numbers).measuring(workload)
        numbers = sums.questions
    trials = whole("trials", trials, least=0)
    told = [*CONTENDERS] if mechanisms is None else [*mechanisms]
    for name in told:
        if name not in CONTENDERS:
            raise InvalidInput(f"mechanisms must be among {', '.join(CONTENDERS)}, got {name!r}")
    target = None if target_error is None else positive_probability("target_error", target_error)
    unit = Unit.of(Neighbours.parse(neighbours), workload.domain)
    n, counted = whole("n", n, least=1), None if persons is None else whole("persons", persons, least=1)
    answered = n if counted is None or not unit.counts_once else counted
    found = Setting(workload, answered, unit, positive_probability("beta", beta), delta)
    cost: Cost
    if rho is not None:
        if epsilon is not None:
            raise InvalidInput("a plan is for an epsilon or a rho, not for both")
        cost = ZCDP(rho)
    else:
        if epsilon is None:
            if target is None:
                raise InvalidInput("a plan needs a target error, an epsilon, or both")
            epsilon = found.cheapest(target)
        cost = found.cost(epsilon)
    check_spendable(cost)
    if target is not None and not found.reachable(target, cost):
        raise InvalidInput(
            f"no theorem promises an error of {target:g} at any epsilon, nor to any number of records at {cost}"
        )
    planned = NumberSums(numbers, clip or (), (), Auto(n), numbers_share, records=n) if numbers else None
    with elapsed("predicting what auto would take"):
        auto = found.taken(cost, planned, simulated=trials > 0)
    simulation, note = None, ""
    try:
        simulation = Simulation.of(workload, min(answered, MAX_RECORDS)) if trials else None
        if simulation is not None and answered > MAX_RECORDS:
            note = (
                f"typical errors are simulated with {MAX_RECORDS:,} records, for more are not made up: of"
                f" {', '.join(_OF_ANY_NUMBER)}, whose noise does not depend on how many there are, as fractions of"
                f" {answered:,}; of others as fractions of {MAX_RECORDS:,}, which are larger than yours"
            )
    except (TooLarge, OutOfMemory) as error:  # a plan reads no data
        trials, note = 0, f"typical errors are not simulated: {error}"
    names = progress(told, desc="mechanisms")
    forecasts = tuple(found.quote(name, cost, target, simulation, trials) for name in names)
    subject = (
        f"queries {len(workload):,}, marginals {len(workload.sets):,}, columns {len(workload.domain)},"
        f" universe {readable(workload.domain.size)} cells, records {n:,}, {unit}"
    )
    bounds = _bounds(workload, cost, unit, n, counted)
    return ReleasePlan(
        subject,
        cost,
        target,
        found.beta,
        trials,
        forecasts,
        note,
        auto,
        bounds,
        () if planned is None else _numbers(planned, workload, unit, cost, n),
        0.0 if planned is None else planned.share,
    )


def _numbers(sums: NumberSums, workload: Workload, unit: Unit, cost: Cost, n: int) -> tuple[NumbersForecast, ...]:
    """What the plan of some questions says of each."""
    check_parts(sums, workload.domain)
    with unit.explained():
        sums.check(workload, unit.of_a_record(cost), unit.relation)
    middle, end = (sums.foreseen(workload, unit.of_a_record(cost), unit.relation, n, place) for place in (0.0, 1.0))
    found = []
    for question in sums.questions:
        asked = NumericQuestion.parse(workload.domain, question)
        table, most = middle.answer(question), end.answer(question)
        half = float(np.median(table.high - table.low)) / 2
        at_end = half
        if asked.kind != "quantile":  # at the end an interval is cut off at the bound
            at_end = max(half, float(np.median(np.maximum(most.high - most.value, most.value - most.low))))
        groups = len(table) // max(len(asked.probabilities), 1)
        size, bins = float(np.median(table.count)), "" if table.way else asked.bins_told
        found.append(NumbersForecast(question, groups, size, half, at_end, table.way, bins))
    return tuple(found)


def _bounds(workload: Workload, cost: Cost, unit: Unit, n: int, persons: int | None) -> tuple[RecordBound, ...]:
    """For the bound that the schema has and some others; and for each person counting once, or the other way round."""
    if unit.at_most is None:
        if persons is not None:
            raise InvalidInput("the number of persons is for a schema with a [person]")
        return ()
    found = []
    units = [replace(unit, at_most=at_most) for at_most in sorted({*_BOUNDS, unit.at_most})]
    for other in [*units, replace(unit, counts_once=not unit.counts_once)]:
        try:
            noise, _ = noise_for(_bounded(workload, other), other.of_a_record(cost), other.relation)
        except InvalidInput:  # noise beyond all that can be drawn
            continue
        at_most = other.at_most or 1
        kept = None if persons is None else min(at_most * persons / n, 1.0)
        weights = "persons" if other.counts_once else "records"
        found.append(RecordBound(at_most, math.sqrt(noise.variance), kept, weights))
    return tuple(found)


def _bounded(workload: Workload, unit: Unit) -> Workload:
    """The same queries where another number of records of a person is kept."""
    domain = workload.domain
    if domain.person is None or unit.at_most is None:
        return workload
    weights, distinct = ("persons", ()) if unit.counts_once else ("records", domain.person.distinct)
    person = replace(domain.person, at_most=unit.at_most, weights=weights, distinct=distinct)
    return Workload(replace(domain, person=person), workload.groups)


@final
@dataclass(frozen=True)
class Setting:
    """Who is promised what: n `records`, but for a probability of β, at a δ. Costs are those of the unit."""

    workload: Workload
    records: int
    unit: Unit
    beta: float
    delta: float | None

    def cost(self, epsilon: float) -> PureDP | ApproxDP:
        """An ε with the δ of the plan."""
        return cost_of(epsilon, self.delta)

    def promised(self, name: str, cost: Cost) -> float | None:
        """What the mechanism of a name promises; None if it has no theorem, or none for such a cost."""
        try:
            found = CONTENDERS[name](self, cost)
            if not isinstance(found, Promising) or self.searches_long(found):
                return None
            check_parts(found, self.workload.domain)
            return self.error(found, cost)
        except QReleaseError:
            return None

    def error(self, found: Promising, cost: Cost) -> float:
        """What a mechanism promises here, a fraction of the records."""
        return found.error(self.workload, self.records, self.unit.of_a_record(cost), self.unit.relation, beta=self.beta)

    def check(self, found: Trial, cost: Cost) -> None:
        """Raise what it would before a charge."""
        check_parts(found, self.workload.domain)
        with self.unit.explained():
            if isinstance(found, OnlineMechanism):
                public = self.records if self.unit.public_records else None
                found.check(self.workload.domain, self.unit.of_a_record(cost), self.unit.relation, public)
            else:
                found.check(self.workload, self.unit.of_a_record(cost), self.unit.relation)

    def least_epsilon(self, name: str, target: float) -> float | None:
        """The least ε at which a target is promised; None if there is none."""
        return least_enough(
            lambda epsilon: self.reaches(name, target, self.cost(epsilon)), math.ldexp(1, -LIMITS.doublings)
        )

    def least_records(self, name: str, target: float, cost: Cost) -> int | None:
        """The least n at which a target is promised; None if there is none."""
        found = least_enough(lambda n: replace(self, records=math.ceil(n)).reaches(name, target, cost), 1.0)
        return None if found is None else math.ceil(found)

    def reaches(self, name: str, target: float, cost: Cost) -> bool:
        """Whether a mechanism promises no more than the target."""
        promised = self.promised(name, cost)
        return promised is not None and promised <= target

    def reachable(self, target: float, cost: Cost) -> bool:
        """Whether any mechanism promises a target, at some ε or to some number of records."""
        return any(
            self.least_epsilon(name, target) is not None or self.least_records(name, target, cost) is not None
            for name in CONTENDERS
        )

    def cheapest(self, target: float) -> float:
        """The least ε at which any mechanism promises a target."""
        found = [e for name in CONTENDERS if (e := self.least_epsilon(name, target)) is not None]
        if not found:
            raise InvalidInput(f"no theorem promises an error of {target:g} at any epsilon; give an epsilon")
        return min(found)

    def taken(self, cost: Cost, numbers: NumberSums | None, *, simulated: bool) -> str:
        """What `Auto` would take, and why; empty where it would try mechanisms that may take minutes.

        numbers  what is measured beside the workload, if anything is: then it is what it would take for the rest
        """
        if not marginals_alone(self.workload):
            if self.workload.domain.size > MAX_SIMULATED:
                return ""
            if not simulated:
                return "this workload is more than marginals, so it would choose by simulations: see what by --trials 1"
        whole, relation = self.unit.of_a_record(cost), self.unit.relation
        part = None if numbers is None else partial(numbers.of_counts, self.workload, neighbours=relation)
        try:
            first, *_ = choose(
                self.workload, self.records, whole if part is None else part(whole), relation
            ).predictions
            lines = foretold(self.workload, self.records, whole, relation, part=part).lines
        except QReleaseError as error:
            return str(error)
        rest = "" if part is None else "counts, for the rest of the cost: "
        return "\n".join([f"{rest}would take {first}", *lines[1:]])

    def average(self, name: str, cost: Cost) -> float | None:
        """The root mean squared error of an answer, records, by a formula; None where there is none."""
        found = in_closed_form(name, self.workload, self.records, self.unit.of_a_record(cost), self.unit.relation)
        return found.error

    def searches_long(self, found: Trial) -> bool:
        """Whether a mechanism searches a while before anything can be said of it: `Auto` does not take it either."""
        return isinstance(found, SmallDB) and self.workload.domain.size > SMALL_DATABASE_CELLS

    def untried(self, found: Trial) -> str:
        """Why a mechanism is not simulated, though it can run; empty if it is."""
        cells = self.workload.domain.size
        if isinstance(found, FittedRecords) and MaxEnt().no_table(self.workload) is None:
            if cells > QUICK_CELLS:
                return f"not simulated over {readable(cells)} cells: auto goes by its prediction"
            return "not simulated: its records are a sample of the histogram that maxent fits, and so further off"
        if self.searches_long(found):
            return (
                f"it searches among all small tables, which over {readable(cells)} cells, more than"
                f" {SMALL_DATABASE_CELLS:,}, may take minutes: so neither its promise nor its error is worked out"
            )
        if isinstance(found, MWEM | IterativeConstruction | OnlineMechanism) and cells > LIMITS.histogram_cells:
            return f"not simulated: its rounds over {readable(cells)} cells may take minutes"
        return ""

    def simulated(self, found: Trial, cost: Cost, simulation: Simulation, trials: int) -> tuple[float, float]:
        """The largest error, a fraction of the records, and the root mean square, records: medians of the trials.

        Of at least one, and of others while they take no longer than `LIMITS.simulation_seconds`.
        """
        largest: list[float] = []
        squares: list[float] = []
        begin = time.process_time()
        for seed in range(trials):
            if largest and time.process_time() - begin > LIMITS.simulation_seconds:
                break
            errors = simulation.trial(found, self.unit.of_a_record(cost), self.unit.relation, seed)
            largest.append(float(np.abs(errors).max()))
            squares.append(float(np.mean(errors**2)))
        records = self.records if found.name in _OF_ANY_NUMBER else len(simulation.table)
        return statistics.median(largest) / records, math.sqrt(statistics.median(squares))

    def quote(
        self, name: str, cost: Cost, target: float | None, simulation: Simulation | None, trials: int
    ) -> MechanismForecast:
        """All that is known of one mechanism."""
        typical, average, needed, note = None, None, None, _NOTES.get(name, "")
        seconds, released = None, None  # of measuring and fitting, which a simulation does; with the files
        promised = self.promised(name, cost)
        try:
            found = CONTENDERS[name](self, cost)
            needed = found.memory(self.workload) if isinstance(found, Forecasting) else None
            self.check(found, cost)
            of_a_record = self.unit.of_a_record(cost)
            if isinstance(found, Forecasting):
                seconds = found.seconds(self.workload, of_a_record, self.records)
                released = pace() * (seconds + Files().seconds(found, self.workload, self.records))
            if promised is not None and isinstance(found, Laplace | Gaussian):
                noisy = found.noisy_error(self.workload, of_a_record, self.unit.relation, beta=self.beta)
                if noisy < promised * self.records:
                    note = (
                        f"its noisy answers are all within {rounded(noisy)} records; the promised error is larger,"
                        " since they are then made to agree on the number of records, which may move one answer by"
                        " all the noise of that number"
                    )
            average = self.average(name, cost)
            if promised == math.inf:
                note = (
                    f"what its theorem promises of the worst case is nothing for {self.records:,} records at this cost:"
                    " it takes more of either"
                )
            elif simulation is not None and (untried := self.untried(found)):
                note = _joined(note, untried)
            elif simulation is not None and seconds is not None and seconds > LIMITS.foretold_seconds:
                note = _joined(note, f"not simulated: one simulation would take about {rough(pace() * seconds)} s")
            elif simulation is not None:
                typical, squares = self.simulated(found, cost, simulation, trials)
                average = squares if average is None else average
        except (TooLarge, OutOfMemory) as error:  # a plan reads no data
            return MechanismForecast(name, memory=needed, note=str(error))
        except QReleaseError as error:
            note = str(error)
        epsilon, records = None, None
        if not note and typical is None and average is None and promised is not None and promised > 1:
            note = "what its theorem promises of the worst case is more than all records at this cost"
        if target is not None:
            epsilon, records = self.least_epsilon(name, target), self.least_records(name, target, cost)
            if promised is not None and epsilon is None:
                note = note or "no epsilon brings its promise down to the target"
        return MechanismForecast(name, promised, typical, average, epsilon, records, released, needed, note)


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def least_enough(enough: Callable[[float], bool], low: float) -> float | None:
    """The least number from `low` that is enough, where larger ones are too, rounded up to four digits."""
    high = max(low, 1.0)
    while not enough(high):
        low, high = high, 2 * high
        if high > math.ldexp(1, LIMITS.doublings):
            return None
    while high > low * LIMITS.precision:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    step = 10.0 ** (math.floor(math.log10(high)) - 3)
    return float(f"{math.ceil(high / step) * step:.4g}")


def _net(setting: Setting, cost: Cost) -> Net:
    """The net that promises most, of those with a theorem, by their numbers of records."""
    nets = _nets(setting.workload, LIMITS)
    if not nets:
        raise TooLarge(
            "it draws one table from a list in which every possible table has a near one, and here such a list would"
            " be too long: it is for few cells, for ranges of one column, or for a list of your own"
        )
    return min(nets, key=lambda net: setting.error(net, cost))


@lru_cache(maxsize=4)
def _nets(workload: Workload, limits: PlanningLimits) -> tuple[Net, ...]:
    """Quantile nets for the ranges of one column; else small databases."""
    domain, k = workload.domain, len(workload)
    if k * domain.size > MAX_ENTRIES:
        return ()
    if len(domain) == 1 and all(isinstance(g.queries, Intervals) for g in workload.groups):
        sizes = takewhile(lambda size: range_size(domain.size, size) <= limits.net_synopses, _growing(2))
        return tuple(Net(quantiles(domain, 1 / size), 1 / size) for size in sizes)
    sizes = takewhile(lambda size: range_size(domain.size, size) * k <= limits.net_answers, _growing(1))
    covers = ((size, small_database_error(size, k)) for size in sizes)
    return tuple(Net(small_databases(domain, size), alpha) for size, alpha in covers if alpha < 1)


def _growing(size: int) -> Iterator[int]:
    """Sizes from the first one, each at least a twentieth above the last: over two cells there are very many."""
    while True:
        yield size
        size = max(size + 1, size * 21 // 20)


CONTENDERS: Final[dict[str, Callable[[Setting, Cost], Trial]]] = {
    "laplace": lambda setting, cost: Laplace(),
    "gaussian": lambda setting, cost: Gaussian(),
    "mwem": lambda setting, cost: MWEM(),
    "maxent": lambda setting, cost: MaxEnt(),
    "matrix": lambda setting, cost: matrix.Matrix(),
    "records": lambda setting, cost: FittedRecords(),
    "iterative": lambda setting, cost: IterativeConstruction(beta=setting.beta),
    "smalldb": lambda setting, cost: SmallDB(),
    "net": _net,
    "pmw": lambda setting, cost: PrivateMultiplicativeWeights(beta=setting.beta, queries=len(setting.workload)),
}

_BOUNDS: Final = (1, 2, 5, 10, 20)
"""Records of a person that a plan compares, beside those that the schema says."""

_NOTES: Final = {
    "mwem": "no theorem covers its practical updates; its error is known from experiments alone",
    "maxent": "no theorem here is about its worst answer",
    "matrix": "no theorem here is about its worst answer",
    "records": "no theorem covers its fit; its error is known from experiments alone",
}

_OF_ANY_NUMBER: Final = ("laplace", "gaussian", "matrix")
"""Mechanisms whose errors, in records, do not depend on how many records there are."""

_ELSEWHERE: Final = {
    "net": " (Python only, qr.Net)",
    "pmw": " (Python only, qr.PrivateMultiplicativeWeights, for questions one by one)",
}
"""Where those are found that are no option of the command."""


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
