"""`Auto`: the mechanism that is predicted to be the most accurate, from public facts alone.

**What is predicted** is the error of the answers that users see, after the fit: the mean L1 distance of the normalised
marginals, where nothing but marginals is asked for, else the root mean squared error of an answer, in records; from the
number of records, the universe, the workload and the cost. Of marginals it is a closed form (`expected`): of `maxent`
from its plan, of `records` from the noise of what it measures, the fit, and the scatter of its records, of the others
from their noise. `mwem` has none, and is passed over where there is one: on the tables of `benchmarks.auto` `maxent` is
as good or better, with a δ and without. Queries other than marginals over a universe of up to `MAX_SIMULATED` cells are
tried on records that are made up (`simulation`).

So `maxent` is taken where the universe fits a histogram, and `records` beyond. From `QUICK_CELLS` cells on, whose fit
takes half a minute, what is predicted to be nearer is taken of these two: on few records, or for a small ε, `records`
are about as near, several times as quick, and need less memory (`benchmarks.auto`). Answers without a fit, whose L1 may
be more than 2, the farthest that two distributions are apart, are taken only where no fit would be better. What gives
a table is preferred unless it is `_TABLE` times as far off.

**Which noise.** Of an (ε, δ) most mechanisms spend ρ, and draw Gaussian noise. A few answers are closer by Laplace
noise for ε alone, so that is predicted too, and δ is left where it is better: nothing has a larger predicted error
because there was a δ. Except of `records` where pairs are selected: what a few pairs tell of the rest is a guess, good
enough to choose among mechanisms of pure ε, and no match for a prediction of what is measured of every pair.

**What it costs.** Nothing, where the number of records is public or given. Else `COUNTING` of the budget buys a noisy
one: the release says so, and the mechanism that is chosen does not buy another. Everything after that looks at public
numbers alone, so the choice is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, final

import numpy as np

from qrelease._util import memory
from qrelease._util.texts import rounded
from qrelease._util.typing import Axes
from qrelease._util.validate import natural
from qrelease.errors import InvalidInput, OutOfMemory, QReleaseError, TooLarge
from qrelease.inference.measurement import Measurement, count_noise, noise_for
from qrelease.mechanisms import matrix, pure_records
from qrelease.mechanisms.base import Mechanism, MechanismResult, check_parts, check_table, sets_counted, why_no_table
from qrelease.mechanisms.expected_errors import (
    PAIRS_AT_ONCE,
    Expected,
    marginals_alone,
    of_fit,
    of_noise,
    selected_variances,
)
from qrelease.mechanisms.forecasts import MAGNITUDES, Foretold
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums, squared_noise
from qrelease.mechanisms.predictions import Prediction, explained
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.record_plan import candidates, sets_at_once
from qrelease.mechanisms.simulation import Simulation
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.calibration import counting_first
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost, is_pure
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.workload import Workload

MAX_SIMULATED: Final = 1 << 14
"""Cells of the largest universe over which queries other than marginals are simulated: most take a second or two."""

COUNTING: Final = 0.01
"""The share of the budget that buys the number of records, where it is neither public nor given."""

QUICK_CELLS: Final = 1 << 24
"""Cells of the largest histogram that `maxent` is taken for even where `records` are predicted to be nearer."""

SMALL_DATABASE_CELLS: Final = 1 << 10
"""Cells beyond which a small database is not worth its search."""

_COMPARED, _TRIALS = 1000, 3
_ALIKE: Final = 1.02  # errors within two percent are one: the first of the candidates then has the richer release
_TABLE: Final = 1.05  # how much worse than without one a mechanism may be that gives a table

_WITHOUT_DELTA: Final = 0.95
"""The error for ε alone, over that with the δ, up to which the δ is left: predictions are not nearer than that."""

_NUMBERS_ALONE: Final = 0.9
"""The share of the plan for questions about numbers, where only the counts of their groups are answered beside them."""

_NO_DELTA: Final = "with noise for epsilon alone, which is smaller here than noise that uses the delta"

_FOR_THE_DELTA: Final = "it would use the delta, and noise for epsilon alone is smaller"

_USELESS: Final = (
    "the delta gains nothing here, since noise for epsilon alone is smaller: leave --delta out, and the ledger keeps it"
)

_SIMULATED_TOO: Final = 2.0
"""How many times the variance of noise for ε alone may be that for ρ, and its mechanisms be simulated too."""

_TO_AND_FRO: Final = (
    " (which marginals are best to measure depends on the number of records, and so does which noise is smaller)"
)

SIZES: Final = (100, 1_000, *MAGNITUDES)
"""Numbers of records for which it is told whether a δ would be spent, where theirs is private: small tables too."""

_HOW_MANY: Final = (
    ". How many records there are is private here: if it is public, give --records N to have this said of N"
)

SMALL_DELTA: Final = 1e-9
"""The δ whose gain is told where there is none."""


@final
@dataclass(frozen=True)
class ChosenMechanism:
    """The mechanism to take, and what was predicted of each, the chosen one's first. Its text is a line each.

    cost  what the mechanism is to spend: all, or of an (ε, δ) the ε alone
    """

    mechanism: Mechanism
    predictions: tuple[Prediction, ...]
    cost: Cost

    def __str__(self) -> str:
        return explained(self.told)

    @property
    def told(self) -> dict[str, Any]:
        """What a release says of it, in plain types."""
        return {"chosen": self.mechanism.name, "predictions": [asdict(p) for p in self.predictions]}


@final
@dataclass(frozen=True)
class Auto:
    """Chooses the mechanism that is predicted to answer a workload best, and runs it; the module says how.

    The `parameters` of the release have the name of the chosen mechanism, and all predictions.

    Parameters
    ----------
    records
        About how many records there are, if that is public.
    table
        Whether a synthetic table is wanted: if so, a mechanism that cannot give one on this machine is not chosen.

    Notes
    -----
    Under add-remove, where `records` is not given, a hundredth of the budget (`COUNTING`) buys a noisy number of
    records, which the chosen mechanism uses too; else the choice costs nothing. What is predicted is the mean L1
    distance of the normalised marginals after the fit, or, where other queries are asked for too, the root mean squared
    error of an answer in records. It follows from that number, the workload and the cost, in closed form (of queries
    that are no marginals by trials on tables that are made up). The least prediction is chosen; one with a synthetic
    table unless its prediction is more than 5 % larger; of an (ε, δ) Laplace noise for ε alone where that is predicted
    to be closer.

    References
    ----------
    Choosing by public facts and noisy numbers alone is post-processing: Dwork & Roth 2014, *The algorithmic foundations
    of differential privacy*, Proposition 2.1. The closed forms are in `qrelease.mechanisms.expected_errors`.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2, "age": 10})
    >>> table = qr.Table(domain, (np.arange(500) % 2, np.arange(500) % 10))
    >>> cost = qr.PureDP(1)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, cost), qr.Entropy.insecure(1))  # no seed for real records
    >>> release = curator.release(qr.Auto(records=500), qr.Workload.marginals(domain, 2), cost)
    >>> release.parameters["chosen"]
    'maxent'
    """

    records: int | None = None
    table: bool = False

    counts_parts: ClassVar[bool] = True
    either_noise: ClassVar[bool] = True
    """Whether it takes Laplace noise, also of an (ε, δ), where that is closer."""

    @property
    def name(self) -> str:
        """`auto`."""
        return "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.table, bool):
            raise InvalidInput(f"table must be True or False, got {self.table!r}")
        if self.records is not None:
            object.__setattr__(self, "records", natural("records", self.records))

    def measuring(self, asked: NumberWorkload) -> tuple[NumberSums, Workload]:
        """See `MeasuresNumbers`: counts that are asked for have half of the cost; else all are measured together."""
        numbers = NumberSums(share=_NUMBERS_ALONE) if asked.counts is None else NumberSums(mechanism=self)
        return numbers.measuring(asked)

    def foretold(
        self,
        workload: Workload,
        cost: Cost,
        neighbours: Neighbours,
        records: int | None = None,
        part: Callable[[Cost], Cost] | None = None,
    ) -> Foretold:
        """What would be taken, before a charge; see `Choosing`."""
        known = records if self.records is None else self.records
        return foretold(workload, known, cost, neighbours, table=self.table, part=part)

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` where none can run, which says why; `OutOfMemory` where one that may be chosen has none now.

        The choice itself does not go by what memory is left, since the private table takes some of it.
        """
        check_cost(cost)
        counting, rest = counting_first(cost, COUNTING, neighbours, self.records)
        if counting is not None:
            count_noise(workload.domain, counting)
        for way in _ways(workload, rest, neighbours, self.records or 1, table=self.table):
            for name, mechanism in way.able.items():
                if name == "records" and _fits_soon(way.able, workload):
                    continue  # and so it is not chosen
                try:
                    mechanism.check(workload, way.cost, neighbours)
                except (TooLarge, OutOfMemory) as why:
                    raise type(why)(f"auto may choose {name}: {why}") from None

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Count the records if their number is unknown, choose, and let the chosen one release."""
        counting, rest = counting_first(cost, COUNTING, private.neighbours, self.records)
        counted: tuple[Measurement, ...] = ()
        records: float | None = self.records
        if records is None:
            records, first = private.count(counting)
            counted = () if first is None else (first,)
        likely = likely_records(records, counted[0] if counted else None)
        found = choose(workload, likely, rest, private.neighbours, table=self.table)
        result = found.mechanism.release(private, workload, found.cost)
        spent = "the cost of counting the records" if counted else "nothing was spent"
        choices = {**result.choices, **found.told, "predicted_for": likely, "to_choose": spent}
        return MechanismResult(result.synopsis, (*counted, *result.measurements), choices, result.constrained)


def likely_records(count: float, measured: Measurement | None) -> int:
    """About how many records to plan for: of a noisy count at least one standard deviation of its noise.

    Where the noise is larger than the table, a count may be below zero, and what is predicted for hardly any records is
    far too good.

    count     of records, noisy or public
    measured  what the noisy one is; None of a public one
    """
    hidden = 0.0 if measured is None else math.sqrt(measured.variance)
    return max(round(count), round(hidden), 1)


def choose(
    workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, table: bool = False
) -> ChosenMechanism:
    """The mechanism with the least predicted error for about so many records. Looks at no data, and spends nothing.

    table  whether synthetic records are wanted: what gives none is not chosen

    `InvalidInput` where none can run.
    """
    ways = _ways(workload, cost, neighbours, records, table=table)
    way, chosen, found = _best(ways, workload, records, neighbours)
    refusals = way.refusals
    if way.cost != cost:
        found = [replace(p, why=f"{p.why}; {_NO_DELTA}") if p == chosen else p for p in found]
        refusals = {name: ways[0].refusals.get(name, InvalidInput(_FOR_THE_DELTA)) for name in way.refusals}
    found = [replace(p, why=f"{p.why}{_passed_over(p, chosen, way, workload)}") for p in found]
    found += [Prediction(name, None, f"cannot run: {why}") for name, why in refusals.items()]
    found.sort(key=lambda p: (p.mechanism != chosen.mechanism, math.inf if p.measure is None else p.measure))
    return ChosenMechanism(way.able[chosen.mechanism], tuple(found), way.cost)


def _passed_over(prediction: Prediction, chosen: Prediction, way: _Way, workload: Workload) -> str:
    """Why a mechanism is not chosen that seems to be nearer than the one that is; empty where it does not seem so."""
    if prediction.measure is None or chosen.measure is None or not prediction.measure < chosen.measure:
        return ""
    if prediction.mechanism == "records" and _fits_soon(way.able, workload):
        return (
            "; not taken: its records are a sample of the histogram that maxent fits, so they are no nearer, though"
            " their rough prediction is lower"
        )
    if why_no_table(way.able[prediction.mechanism], workload) is not None:
        return f"; not taken: it gives no table, and its error is not {_TABLE - 1:.0%} less"
    return f"; not taken: its error is not {_ALIKE - 1:.0%} less, and it gives less beside the answers"


@dataclass(frozen=True)
class _Way:
    """What can be chosen to spend a cost, and why the others cannot."""

    cost: Cost
    able: dict[str, Mechanism]
    refusals: dict[str, QReleaseError]


def _ways(workload: Workload, cost: Cost, neighbours: Neighbours, records: int, *, table: bool) -> list[_Way]:
    """The cost as it is; and of an (ε, δ) the ε alone, which is never more."""
    found = [_Way(cost, *_able(workload, cost, neighbours, records, table=table))]
    if isinstance(cost, ApproxDP) and not is_pure(cost):
        pure = PureDP(cost.epsilon)
        with suppress(InvalidInput):  # none can run
            able, refusals = _able(workload, pure, neighbours, records, table=table)
            if "records" in able and not _foreseen(workload, pure, records):
                refusals["records"] = InvalidInput("which pairs it would measure for epsilon alone is not known yet")
                del able["records"]
            if able:
                found.append(_Way(pure, able, refusals))
    return found


def _foreseen(workload: Workload, cost: PureDP, records: int) -> bool:
    """Whether it is known beforehand which pairs `records` would measure under pure ε: all of them."""
    pairs = _pairs(workload, FittedRecords())
    _, left = pure_records.first_costs(cost)
    return not pairs or pure_records.rounds_of(workload.domain, pairs, records, left) >= len(pairs)


def _pairs(workload: Workload, mechanism: FittedRecords) -> list[Axes]:
    """The pairs of columns among which weighted records select."""
    return [s for s in candidates(workload, mechanism.order) if len(s) == 2]


def _best(
    ways: Sequence[_Way], workload: Workload, records: int, neighbours: Neighbours
) -> tuple[_Way, Prediction, list[Prediction]]:
    """The way of the least predicted error: ε alone where that is clearly better than with a δ, or the same.

    And what to take there, and its predictions.
    """
    best: tuple[float, _Way, Prediction, list[Prediction]] | None = None
    for way in ways:
        if best is not None and _needs_simulation(way.able, workload) and not _pure_may_win(ways, workload, neighbours):
            continue
        found = _predicted(way.able, workload, records, way.cost, neighbours)
        chosen = _least(found, way.able, workload)
        error = _weighed(chosen, way.able[chosen.mechanism], workload)
        if best is None or (
            error < math.inf and (error < _WITHOUT_DELTA * best[0] or _has_the_noise_of(best[2], found))
        ):
            best = error, way, chosen, found
    assert best is not None
    return best[1:]


def _has_the_noise_of(chosen: Prediction, alone: Sequence[Prediction]) -> bool:
    """Whether the mechanism that would be given a δ leaves it, and draws noise for ε alone: of that it is as far off.

    An L1 that is the largest possible says nothing of the noise: both measures are compared.
    """
    same = next((p for p in alone if p.mechanism == chosen.mechanism), None)
    if same is None or same.error is None or chosen.error is None:
        return False
    pairs = [(same.error, chosen.error), (same.l1 or 0.0, chosen.l1 or 0.0)]
    return all(math.isclose(a, b, rel_tol=1e-9) for a, b in pairs)


def _pure_may_win(ways: Sequence[_Way], workload: Workload, neighbours: Neighbours) -> bool:
    """Whether it is worth while to simulate both: noise on all answers at once is not much less for the first way."""
    first, second = (squared_noise(workload, way.cost, neighbours) for way in ways)
    return second < _SIMULATED_TOO * first


def foretold(
    workload: Workload,
    records: int | None,
    cost: Cost,
    neighbours: Neighbours,
    *,
    table: bool = False,
    part: Callable[[Cost], Cost] | None = None,
) -> Foretold:
    """Before a charge: what would be chosen.

    records  how many there are, where that is public; None: for some powers of ten
    part     what of a cost there is for the workload, where numbers are measured beside it; by default all
    """
    terms = _Terms(workload, neighbours, records, table, part)
    ways = terms.ways(cost, records or 1)
    if any(_needs_simulation(way.able, workload) for way in ways):
        return Foretold()
    able: dict[str, Mechanism] = {}
    found: dict[str, list[tuple[int, Prediction]]] = {}
    for n in MAGNITUDES if records is None else (max(records, 1),):
        way, best = terms.best(cost, n)
        able[best.mechanism] = way.able[best.mechanism]
        found.setdefault(best.mechanism, []).append((n, best))
    lines = []
    for name, each in found.items():
        figures = "; ".join(f"with {n:,} records {p.figures or 'errors that are not predicted'}" for n, p in each)
        why = why_no_table(able[name], workload)
        lines.append(f"auto would take {name}, {'with' if why is None else 'WITHOUT'} a synthetic table: {figures}")
        lines += [] if why is None else [f"no table: {why}"]
    names = " or ".join(
        f"{name}{' WITHOUT a table' * (why_no_table(able[name], workload) is not None)}" for name in found
    )
    gain = terms.gained(cost) if is_pure(cost) else terms.left(cost)
    lines += [gain] * (gain != "")
    brief = [f"auto would take {names}", *[gain] * (gain != "")]
    return Foretold(tuple(lines), tuple(brief), tuple(able[name] for name in found))


@dataclass(frozen=True)
class _Terms:
    """What is released, whatever it costs: see `foretold`."""

    workload: Workload
    neighbours: Neighbours
    records: int | None
    table: bool
    part: Callable[[Cost], Cost] | None

    def counts(self, cost: Cost) -> Cost:
        """What of a cost is there to choose by: without the part of the numbers, and what buys a number of records."""
        own = cost if self.part is None else self.part(cost)
        return counting_first(own, COUNTING, self.neighbours, self.records)[1]

    def ways(self, cost: Cost, records: int) -> list[_Way]:
        """How it could be spent."""
        return _ways(self.workload, self.counts(cost), self.neighbours, records, table=self.table)

    def best(self, cost: Cost, records: int) -> tuple[_Way, Prediction]:
        """How it would be, and for which mechanism."""
        way, found, _ = _best(self.ways(cost, records), self.workload, records, self.neighbours)
        return way, found

    def left(self, cost: Cost) -> str:
        """For how many records the δ would not be spent: nothing where it is for any."""
        if not isinstance(self.counts(cost), ApproxDP):
            return ""  # in ρ, of which all is spent
        numbers = self.numbers
        kept = {n: is_pure(self.best(cost, n)[0].cost) for n in numbers}
        if all(kept.values()):
            return _USELESS
        if not any(kept.values()):
            return ""
        with_delta, alone = (", ".join(f"{n:,}" for n in numbers if kept[n] is left) for left in (False, True))
        to_and_fro = sum(a is not b for a, b in pairwise(kept.values())) > 1
        return (
            f"the delta gains nothing with about {alone} records, since noise for epsilon alone is smaller: for so"
            f" many, leave --delta out, and the ledger keeps it; with {with_delta} it is used"
            f"{_TO_AND_FRO * to_and_fro}"
            f"{_HOW_MANY if self.records is None else ''}"
        )

    def gained(self, cost: PureDP | ApproxDP) -> str:
        """What a δ of `SMALL_DELTA` would do, in place of a pure ε; nothing where that is not clearly better."""
        spent, numbers = ApproxDP(cost.epsilon, SMALL_DELTA), self.numbers
        both = {n: (self.best(cost, n)[1], *self.best(spent, n)) for n in numbers}
        gains = [n for n, (pure, way, found) in both.items() if not is_pure(way.cost) and _clearly(found, pure)]
        alone, last = self.counts(cost), numbers[-1]
        assert not isinstance(alone, ZCDP)
        pure_cost = PureDP(alone.epsilon)
        if gains:
            least = gains[0]  # where nobody knows how many there are, a million may be far from it
            pure, _, found = both[least]
            known = [n for n in numbers if both[n][0].mechanism != "records" or _foreseen(self.workload, pure_cost, n)]
            little = ", ".join(f"{n:,}" for n in known if n not in gains)  # where it is a guess, nothing is said
            by, instead = "", ""
            if found.mechanism != pure.mechanism:
                by, instead = f", by {found.mechanism}", f", by {pure.mechanism}"
            assert pure.error is not None
            return (
                f"a delta would help: with --delta {SMALL_DELTA:g} and {least:,} records, {found.figures}{by}, instead"
                f" of {rounded(pure.error)}{instead}"
                f"{f'; with {little} records there would be little difference' if little else ''}"
                f"{_HOW_MANY if self.records is None else ''}"
            )
        if both[last][0].mechanism != "records":
            return ""
        return _less_noise(self.workload, last, pure_cost, self.counts(spent), self.neighbours)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of records, where it is public; else those that are told of."""
        return SIZES if self.records is None else (max(self.records, 1),)


def _clearly(better: Prediction, than: Prediction) -> bool:
    """Whether an error is predicted to be less by more than predictions can be relied on."""
    return better.measure is not None and than.measure is not None and better.measure < _WITHOUT_DELTA * than.measure


def _less_noise(workload: Workload, records: int, pure: PureDP, with_delta: Cost, neighbours: Neighbours) -> str:
    """What a δ of `SMALL_DELTA` would do to the noise, where it is a guess how far off `records` would be without."""
    if _foreseen(workload, pure, records):
        return ""
    pairs = pure_records.whole_marginals(workload.domain, _pairs(workload, FittedRecords()))
    alone, other = (math.sqrt(squared_noise(pairs, each, neighbours)) for each in (pure, with_delta))
    if other >= alone:
        return ""
    return (
        f"a delta would most likely help: with --delta {SMALL_DELTA:g} the counts of all {len(pairs.groups):,} pairs of"
        f" columns could be measured with noise of standard deviation {rounded(other)} records, instead of"
        f" {rounded(alone)}"
    )


def _least(found: Sequence[Prediction], able: Mapping[str, Mechanism], workload: Workload) -> Prediction:
    """The first that is as good as the best, of all that may be chosen."""
    if _fits_soon(able, workload):  # of whose histogram weighted records are a sample
        found = [p for p in found if p.mechanism != "records"]
    errors = [_weighed(p, able[p.mechanism], workload) for p in found]
    return next(p for p, error in zip(found, errors, strict=True) if error <= _ALIKE * min(errors))


def _fits_soon(able: Mapping[str, Mechanism], workload: Workload) -> bool:
    """Whether `maxent` would fit a histogram of so few cells that it takes seconds."""
    is_small = workload.domain.size <= QUICK_CELLS
    return "maxent" in able and is_small and why_no_table(able["maxent"], workload) is None


def _weighed(prediction: Prediction, mechanism: Mechanism, workload: Workload) -> float:
    """What is compared: the error, and `_TABLE` times it where there would be no table."""
    if prediction.measure is None:
        return math.inf
    return prediction.measure * (1.0 if why_no_table(mechanism, workload) is None else _TABLE)


def candidate_mechanisms(records: int) -> dict[str, Mechanism]:
    """The mechanisms, in the order of what they give: error bars and a table, a table, a few records, answers alone."""
    return {
        "maxent": MaxEnt(records),
        "records": FittedRecords(),
        "mwem": MWEM(records=records),
        "smalldb": SmallDB(),
        "matrix": matrix.Matrix(),
        "gaussian": Gaussian(),
        "laplace": Laplace(),
    }


def _able(
    workload: Workload, cost: Cost, neighbours: Neighbours, records: int, *, table: bool
) -> tuple[dict[str, Mechanism], dict[str, QReleaseError]]:
    """The candidates that can be chosen, and why the others cannot; `InvalidInput` where none can."""
    able: dict[str, Mechanism] = {}
    refusals: dict[str, QReleaseError] = {}
    for name, mechanism in candidate_mechanisms(records).items():
        refusal = _refusal(mechanism, workload, cost, neighbours, table=table)
        if refusal is None:
            able[name] = mechanism
        else:
            refusals[name] = refusal
    if not able:
        raise InvalidInput(f"no mechanism can release this: {'; '.join(map(str, refusals.values()))}")
    return able, refusals


def _refusal(
    mechanism: Mechanism, workload: Workload, cost: Cost, neighbours: Neighbours, *, table: bool
) -> QReleaseError | None:
    """Why a mechanism cannot be chosen, if it cannot: by public facts, so not by how much memory is left."""
    if isinstance(mechanism, SmallDB) and workload.domain.size > SMALL_DATABASE_CELLS:
        return TooLarge(f"its search among small tables is too long over more than {SMALL_DATABASE_CELLS:,} cells")
    # What is chosen may depend on a noisy count, when all is paid for.
    if not workload.asks_within_one(sets_counted(mechanism, workload)):
        return InvalidInput(
            "it would count columns together that no query asks about together, and auto counts only those that some"
            " query does"
        )
    try:
        with memory.unused():
            check_parts(mechanism, workload.domain)
            mechanism.check(workload, cost, neighbours)
            if table:
                check_table(mechanism, workload)
    except QReleaseError as error:
        return error
    return None


def _predicted(
    able: Mapping[str, Mechanism], workload: Workload, records: int, cost: Cost, neighbours: Neighbours
) -> list[Prediction]:
    """The predictions: of marginals, and over large universes, in closed form; of other queries by simulation."""
    if _needs_simulation(able, workload):
        try:
            return _simulated(able, Simulation.of(workload, records), cost, neighbours)
        except TooLarge:
            pass
    found = [in_closed_form(name, workload, records, cost, neighbours) for name in able]
    if all(p.error is None for p in found):
        return [Prediction(name, None, "the only one that can run") for name in able] if len(able) == 1 else found
    return found


def _needs_simulation(able: Mapping[str, Mechanism], workload: Workload) -> bool:
    return len(able) > 1 and not marginals_alone(workload) and workload.domain.size <= MAX_SIMULATED


def in_closed_form(name: str, workload: Workload, records: int, cost: Cost, neighbours: Neighbours) -> Prediction:
    """What a mechanism whose error has a formula is predicted to do."""
    match name:
        case "maxent":
            mechanism = MaxEnt(records)
            fitted = mechanism.no_table(workload) is None
            found = mechanism.expected(workload, cost, neighbours, records)
            return _of(
                name, found, "predicted by its plan and the fit" if fitted else "predicted by its plan, without a fit"
            )
        case "records":
            able = FittedRecords()
            if is_pure(cost):
                pairs, pure = _pairs(workload, able), PureDP(cost.epsilon)
                known = pure_records.expected_variances(workload.domain, pairs, pure, neighbours, records)
                fitted_records = able.fitted_records(records, cost)
                found = of_fit(workload, known, records, fitted_records)
                return _of(
                    name, found, f"predicted by what it measures, the fit, and {fitted_records:,} weighted records"
                )
            try:
                at_once = bool(sets_at_once(workload, able.order))
                variances = selected_variances(workload, able.order, cost, neighbours, records, at_once=at_once)
            except TooLarge as why:
                return Prediction(name, None, f"not predicted: {why}")
            if at_once:
                found = of_fit(workload, variances, records, pairs=PAIRS_AT_ONCE)
                return _of(name, found, "predicted by what it measures and the fit")
            fitted_records = able.fitted_records(records, cost)
            found = of_fit(workload, variances, records, fitted_records)
            return _of(name, found, f"predicted by what it measures, the fit, and {fitted_records:,} weighted records")
        case "matrix":
            plan = matrix.best_strategy(workload)
            noise = noise_for(plan.measured, cost, neighbours)[0].variance
            norm = plan.measured.sensitivity(2, replace=False)
            return Prediction(name, plan.error * math.sqrt(noise / norm), "predicted by its plan")
        case "laplace" | "gaussian":
            spent = PureDP(cost.epsilon) if name == "laplace" and isinstance(cost, ApproxDP) else cost
            return _of(name, of_noise(workload, spent, neighbours, records), "predicted by its noise")
    return Prediction(name, None, "not predicted: it has no closed form")


def _of(name: str, expected: Expected, why: str) -> Prediction:
    return Prediction(name, expected.error, why, expected.l1)


def _simulated(
    able: Mapping[str, Mechanism], stage: Simulation, cost: Cost, neighbours: Neighbours
) -> list[Prediction]:
    """The errors of simulated releases of the same records, so many that about `_COMPARED` answers are compared."""
    trials = min(-(-_COMPARED // len(stage.workload)), _TRIALS)
    found = []
    for name, mechanism in able.items():
        if name == "records" and _fits_soon(able, stage.workload):
            found.append(Prediction(name, None, "not simulated: maxent fits a histogram, which has no scatter"))
            continue
        try:
            squares = [_squares(mechanism, stage, cost, neighbours, seed) for seed in range(trials)]
        except OutOfMemory:  # a private table takes memory, and which mechanism is chosen shall not tell how much
            raise
        except QReleaseError as error:
            found.append(Prediction(name, None, f"failed in the simulation: {error}"))
        else:
            found.append(Prediction(name, math.sqrt(sum(squares) / trials), "simulated on records that are made up"))
    return found


def _squares(mechanism: Mechanism, stage: Simulation, cost: Cost, neighbours: Neighbours, seed: int) -> float:
    return float(np.mean(stage.errors(mechanism, cost, neighbours, seed) ** 2))
