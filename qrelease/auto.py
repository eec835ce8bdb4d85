"""`Auto`: the mechanism that is predicted to be the most accurate, from public facts alone.

**What is predicted** is the root mean squared error of an answer, in records, from the number of records, the universe,
the workload and the cost. Where that is quick, each mechanism that can run is tried on records that are made up
(`rehearsal`). Where only marginals are asked for, over a universe of more than `REHEARSED` cells, a trial would take as
long as the release, and where there are too many records they cannot be made up: then errors are predicted in closed
form: those of the noise, and of `maxent` those that its own plan expects after the fit. `mwem` has no such form, and is
passed over: on the tables of `benchmarks.frontier` `maxent` is the more accurate at every ε. `records` is taken where
none of the others can run, as for a table of a universe that no memory holds.

**What it costs.** Nothing, where the number of records is public or given. Else `COUNTING` of the budget buys a noisy
one: the release says so, and the mechanism that is chosen does not buy another. Everything after that looks at public
numbers alone, so the choice is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, final

import numpy as np

from qrelease import memory
from qrelease.contracts import Draft, Mechanism, check_table
from qrelease.curator import Curator
from qrelease.entropy import Entropy
from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.ledger import Ledger
from qrelease.measure import Measurement, Private, calibrated, counting_first, noise_for
from qrelease.mechanisms import matrix
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.mwem import MWEM
from qrelease.mechanisms.records import Records
from qrelease.mechanisms.smalldb import SmallDB
from qrelease.privacy import ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.costs import check_cost, count
from qrelease.queries import Cells
from qrelease.rehearsal import Rehearsal
from qrelease.workload import Workload

REHEARSED: Final = 1 << 14
"""Cells of the largest universe over which marginals are rehearsed: most mechanisms take a second or two.

`maxent` may take half a minute."""

COUNTING: Final = 0.01
"""The share of the budget that buys the number of records, where it is neither public nor given."""

_TINY: Final = 1 << 10  # cells beyond which a small database is not worth its search
_COMPARED, _TRIALS = 1000, 3
_ALIKE: Final = 1.02  # errors within two percent are one: the first of the candidates then has the richer release


@final
@dataclass(frozen=True)
class Prediction:
    """What one mechanism is expected to do.

    error  the root mean squared error of an answer, records; None where it was not predicted
    why    where that comes from, or why there is none
    """

    mechanism: str
    error: float | None
    why: str

    def __str__(self) -> str:
        return f"{self.mechanism}: {'' if self.error is None else f'{self.error:.3g} records an answer, '}{self.why}"


@final
@dataclass(frozen=True)
class Choice:
    """The mechanism to take, and what was predicted of each, the chosen one's first. Its text is a line each."""

    mechanism: Mechanism
    predictions: tuple[Prediction, ...]

    def __str__(self) -> str:
        return explained(self.told)

    @property
    def told(self) -> dict[str, Any]:
        """What a release says of it, in plain types."""
        return {"chosen": self.mechanism.name, "predictions": [asdict(p) for p in self.predictions]}


def explained(parameters: Mapping[str, Any]) -> str:
    """A line for each mechanism, from the parameters of a release that was made by `Auto`; and what the choice cost."""
    found = [Prediction(**p) for p in parameters["predictions"]]
    lines = [f"{'chosen' if p.mechanism == parameters['chosen'] else 'not'} {p}" for p in found]
    return "\n".join([*lines, *([f"to choose: {parameters['to_choose']}"] if "to_choose" in parameters else [])])


@final
@dataclass(frozen=True)
class Auto:
    """Whichever mechanism is predicted to answer a workload best: see the module.

    records  about how many there are, if that is public
    table    whether synthetic records are wanted: what gives none on this machine is not chosen

    The release names the chosen one, and holds all predictions, as `choices`.
    """

    records: int | None = None
    table: bool = False

    @property
    def name(self) -> str:
        """`auto`."""
        return "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.table, bool):
            raise InvalidInput(f"table must be True or False, got {self.table!r}")
        if self.records is not None:
            object.__setattr__(self, "records", count("records", self.records))

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` where none can run, which says why; `TooLarge` where one that may be chosen has no memory now.

        The choice itself does not go by what memory is left, since the private table takes some of it.
        """
        check_cost(cost)
        counting, rest = counting_first(cost, COUNTING, neighbours, self.records)
        if counting is not None:
            calibrated(1, counting)
        able, _ = _able(workload, self.records or 1, rest, neighbours, table=self.table)
        for name, mechanism in able.items():
            try:
                mechanism.check(workload, rest, neighbours)
            except TooLarge as why:
                raise TooLarge(f"auto may choose {name}: {why}", f"auto may choose {name}: {why.public}") from None

    def release(self, private: Private, workload: Workload, cost: Cost) -> Draft:
        """Count the records if their number is unknown, choose, and let the chosen one release."""
        counting, rest = counting_first(cost, COUNTING, private.neighbours, self.records)
        counted: tuple[Measurement, ...] = ()
        records: float | None = self.records
        if records is None:
            records, first = private.count(counting)
            counted = () if first is None else (first,)
        found = choose(workload, max(round(records), 1), rest, private.neighbours, table=self.table)
        draft = found.mechanism.release(private, workload, rest)
        spent = "nothing was spent" if not counted else f"{counting} was spent on the number of records"
        choices = {**draft.choices, **found.told, "to_choose": spent}
        return Draft(draft.synopsis, (*counted, *draft.measurements), choices, draft.constrained)


def choose(workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, table: bool = False) -> Choice:
    """The mechanism with the least predicted error for about so many records. Looks at no data, and spends nothing.

    table  whether synthetic records are wanted: what gives none is not chosen

    `InvalidInput` where none can run.
    """
    able, refusals = _able(workload, records, cost, neighbours, table=table)
    marginals = all(isinstance(g.queries, Cells) for g in workload.groups)
    if len(able) == 1:
        found = [Prediction(name, None, "the only one that can run") for name in able]
    elif marginals and workload.domain.size > REHEARSED and "maxent" in able:
        found = [_in_closed_form(name, workload, records, cost, neighbours) for name in able]
    else:
        try:
            found = _rehearsed(able, Rehearsal.of(workload, records), cost, neighbours)
        except TooLarge:
            found = [_in_closed_form(name, workload, records, cost, neighbours) for name in able]
    errors = {p.mechanism: math.inf if p.error is None else p.error for p in found}
    chosen = next(name for name, error in errors.items() if error <= _ALIKE * min(errors.values()))
    found += [Prediction(name, None, f"cannot run: {why.public}") for name, why in refusals.items()]
    found.sort(key=lambda p: (p.mechanism != chosen, errors.get(p.mechanism, math.inf)))
    return Choice(able[chosen], tuple(found))


_LAST: Final = "records"
"""Where no other can run: nothing predicts its error."""


def _candidates(records: int) -> dict[str, Mechanism]:
    """By what they give beside answers: error bars and a table, a table, a few records; answers alone; the last."""
    return {
        "maxent": MaxEnt(records),
        "mwem": MWEM(records=records),
        "smalldb": SmallDB(),
        "matrix": matrix.Matrix(),
        "gaussian": Gaussian(),
        "laplace": Laplace(),
        _LAST: Records(),
    }


def _able(
    workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, table: bool
) -> tuple[dict[str, Mechanism], dict[str, QReleaseError]]:
    """The candidates that can be chosen, and why the others cannot; `InvalidInput` where none can."""
    able: dict[str, Mechanism] = {}
    refusals: dict[str, QReleaseError] = {}
    for name, mechanism in _candidates(records).items():
        if name == _LAST and able:
            break
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
    if isinstance(mechanism, SmallDB) and workload.domain.size > _TINY:
        return TooLarge(f"small databases are for at most {_TINY:,} cells here")
    try:
        with memory.unused():
            mechanism.check(workload, cost, neighbours)
            if table:
                check_table(mechanism, workload)
    except QReleaseError as error:
        return error
    return None


def _in_closed_form(name: str, workload: Workload, records: int, cost: Cost, neighbours: Neighbours) -> Prediction:
    if name == "maxent":
        error = MaxEnt(records).expected_error(workload, cost, neighbours, records)
        return Prediction(name, error, "that which its own plan expects after the fit")
    if name == "matrix":
        found = matrix.plan(workload)
        noise = noise_for(found.measured, cost, neighbours)[0].variance
        norm = found.measured.sensitivity(2, replace=False)
        return Prediction(name, found.error * math.sqrt(noise / norm), "that of its unbiased answers")
    if name in ("laplace", "gaussian"):
        spent = PureDP(cost.epsilon) if name == "laplace" and isinstance(cost, ApproxDP) else cost
        return Prediction(name, math.sqrt(noise_for(workload, spent, neighbours)[0].variance), "that of its noise")
    return Prediction(name, None, "not predicted: it has no closed form, and a rehearsal would take too long")


def _rehearsed(able: Mapping[str, Mechanism], stage: Rehearsal, cost: Cost, neighbours: Neighbours) -> list[Prediction]:
    """Of releases on the same records, enough of them that about `_COMPARED` answers are compared."""
    trials = min(-(-_COMPARED // len(stage.workload)), _TRIALS)
    found = []
    for name, mechanism in able.items():
        try:
            squares = [_squares(mechanism, stage, cost, neighbours, seed) for seed in range(trials)]
        except QReleaseError as error:
            found.append(Prediction(name, None, f"failed in rehearsal: {error.public}"))
        else:
            found.append(Prediction(name, math.sqrt(sum(squares) / trials), "rehearsed on records that are made up"))
    return found


def _squares(mechanism: Mechanism, stage: Rehearsal, cost: Cost, neighbours: Neighbours, seed: int) -> float:
    with Ledger.open(None, cost, neighbours=neighbours) as ledger:
        release = Curator(stage.table, ledger, Entropy.insecure(seed)).release(mechanism, stage.workload, cost)
    return float(np.mean((release.answers() - stage.answers) ** 2))
