"""Error against the truth: the one module that is not private, for the data holder's eyes.

It reads the true table and adds no noise to what it finds, so nothing it returns may be published or kept with a
release: every text, line and picture says so, and no picture goes into a release's folder. Nothing here changes a
`Release`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from qrelease._util.elapsed import elapsed
from qrelease._util.progress import progress
from qrelease._util.typing import Floats
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.evaluation.exact_answers import exact_answers, record_parts
from qrelease.evaluation.results import Errors, Evaluation, ReleaseScore, Run
from qrelease.inference.residuals import ResidualPlan, query_variances
from qrelease.mechanisms.base import Mechanism, check_parts
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.calibration import calibrated
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.privacy.costs import ApproxDP, Cost, Neighbours, PureDP, check_spendable, cost_of
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.families import Cells
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.release import Release

_BASELINES: Mapping[str, Mechanism] = {"laplace": Laplace(), "gaussian": Gaussian()}  # named in `results.BASELINES`

_COMPILED_IN: Final = 30.0
"""Seconds within which a first release is made once more for its time alone: to compile takes a part of them."""

_FLOOR_SEED = 0  # the floor is a fact about the table, no mechanism: any fixed draw will do


@final
@dataclass(frozen=True, eq=False, repr=False)
class Truth:
    """The exact answers of a table to a workload, to compare releases with. Private.

    parts  answers by group, each (k,): marginals as fractions of their sum, the rest as fractions of the records
    """

    table: Table
    workload: Workload
    parts: tuple[Floats, ...]

    @classmethod
    def of(cls, table: Table, workload: Workload) -> Truth:
        """Count, exactly. Raises `InvalidInput` for an empty table or a workload over another domain."""
        if not isinstance(workload, Workload):
            raise InvalidInput(f"the truth is of a Workload of counts, got {workload!r}")
        if workload.domain != table.domain:
            raise InvalidInput("the workload is over another domain than the table")
        if not len(table):
            raise InvalidInput("the table has no records to compare with")
        return cls(table, workload, tuple(_fractions(workload, exact_answers(table, workload), _size(table))))

    def errors(self, answers: Floats) -> Errors:
        """The errors of released answers (k,), counts."""
        released = _fractions(self.workload, answers, _size(self.table))
        gaps = [np.abs(p - q) for p, q in zip(self.parts, released, strict=True)]
        squares = sum(float(g @ g) for g in gaps)
        return Errors(
            avg_l1=float(np.mean([g.sum() for g in gaps])),
            max_abs=max(float(g.max()) for g in gaps),
            rmse=math.sqrt(squares / len(self.workload)),
        )

    def floor(self) -> Errors:
        """The errors of as many rows, drawn from the true ones with replacement: what sampling alone does."""
        rng, parts, n = np.random.default_rng(_FLOOR_SEED), record_parts(self.table), _size(self.table)
        rows = rng.integers(n, size=n) if parts is None else rng.choice(len(parts), n, p=parts / n)
        again = Table(self.table.domain, tuple(column[rows] for column in self.table.columns))
        return self.errors(exact_answers(again, self.workload))

    def run(
        self,
        name: str,
        mechanism: Mechanism,
        cost: PureDP | ApproxDP,
        neighbours: Neighbours,
        entropy: WordSource,
        trial: int = 0,
    ) -> Run:
        """Release once, out of a budget that is forgotten, and compare. What is refused says of no charge."""
        with Ledger.open(None, cost, neighbours=neighbours, person=self.table.person_column) as ledger:
            started = time.perf_counter()
            paid = Curator(self.table, ledger, entropy).pay(mechanism, self.workload, cost)
            answers = paid.rehearse().answers()
            seconds = time.perf_counter() - started
        delta = 0.0 if isinstance(cost, PureDP) else cost.delta
        return Run(name, cost.epsilon, delta, trial, self.errors(answers), seconds, peak_mb())

    def __repr__(self) -> str:
        return f"Truth({self.workload!r}; the records are private)"


def _size(table: Table) -> int:
    """The number of records; that of persons where these count once."""
    return len(table) if record_parts(table) is None or table.persons is None else len(table.persons.digests)


def _fractions(workload: Workload, answers: Floats, records: int) -> Iterator[Floats]:
    """Each group's answers as fractions; a marginal that sums to nothing stays as it is."""
    for group, part in zip(workload.groups, np.split(answers, workload.bounds[1:-1]), strict=True):
        total = float(part.sum()) if isinstance(group.queries, Cells) else records
        yield part / (total if total > 0 else 1.0)


def peak_mb() -> float:
    """The most memory this process has held so far, in MiB; NaN where the system does not tell."""
    try:
        with open("/proc/self/status") as lines:  # getrusage would count the parent's memory at the fork too
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return float("nan")


def evaluate(
    table: Table,
    workload: Workload,
    mechanisms: Mapping[str, Mechanism],
    epsilons: Sequence[float],
    *,
    delta: float | None = None,
    neighbours: Neighbours | str = "add-remove",
    trials: int = 1,
    entropy: WordSource | None = None,
    dataset: str = "table",
) -> Evaluation:
    """Release by each mechanism at each ε, and compare with the truth. Not private.

    The Laplace baseline always runs, the Gaussian one where δ > 0. The budgets are in memory and forgotten: whoever
    publishes one of these releases has spent its cost, and what the choice among them tells on top. A mechanism whose
    own check refuses the workload or a cost is left out, by name and with the reason; so is one that refuses while it
    runs, from then on.

    Parameters
    ----------
    table
        The private records.
    workload
        The queries, over the table's domain.
    mechanisms
        By the names that they have in the result.
    epsilons
        At least one ε.
    delta
        Of every release; None or 0 for pure ε.
    neighbours
        The relation under which the costs hold.
    trials
        Releases by each mechanism at each ε, at least 1. Where the unit is a person, each of them draws anew which
        records of a person are kept; the truth is that of all records, so the error has what is left out in it. Where a
        person counts once, all records of hers count in equal parts in the truth.
    entropy
        The source of all noise, by default a fresh secure one.
    dataset
        What to call the table.

    Returns
    -------
    Evaluation
        Every release's errors, fractions of the table; its text is a table under the notice that it is not private.

    Raises
    ------
    InvalidInput
        For parameters out of range, and what a mechanism's own check finds where it refuses all mechanisms.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> table = qr.Table(qr.Domain.coded({"a": 2, "b": 3}), (np.arange(600) % 2, np.arange(600) % 3))
    >>> workload = qr.Workload.marginals(table.domain, 1)
    >>> found = qr.evaluate(table, workload, {}, [1.0], entropy=qr.Entropy.insecure(0))
    >>> found.mechanisms, found.error("laplace", 1.0) < 0.05
    (('laplace',), True)
    """
    if isinstance(trials, bool) or not isinstance(trials, int | np.integer) or trials < 1:
        raise InvalidInput(f"trials must be a positive whole number, got {trials!r}")
    costs = [cost_of(epsilon, delta) for epsilon in epsilons]
    if not costs:
        raise InvalidInput("evaluate needs at least one epsilon, got none")
    for cost in costs:
        check_spendable(cost)
    relation = Neighbours.parse(neighbours)
    contenders = with_baselines(mechanisms, costs[0])
    skipped = _unsuitable(contenders, workload, costs, relation)
    refused = [error for name, error in skipped.items() if name in mechanisms]
    if refused and len(refused) == len(mechanisms):
        raise refused[0]
    contenders = {name: mechanism for name, mechanism in contenders.items() if name not in skipped}
    if not contenders:
        raise next(iter(skipped.values()))
    with elapsed("counting the exact answers"):
        truth = Truth.of(table, workload)
    source = Entropy() if entropy is None else entropy
    plan = [(cost, name, trial) for cost in costs for name in contenders for trial in range(trials)]
    warm: set[str] = set()
    rows, why = [], {name: str(error) for name, error in skipped.items()}
    bar = progress(plan)
    for cost, name, trial in bar:
        if name in why:
            continue
        bar.set_description_str(f"{name} at epsilon={cost.epsilon:g}")
        try:
            run = truth.run(name, contenders[name], cost, relation, source, trial)
            if name not in warm and run.seconds < _COMPILED_IN:  # the first one compiles, or loads what was compiled
                run = replace(run, seconds=truth.run(name, contenders[name], cost, relation, Entropy()).seconds)
            warm.add(name)
            rows.append(run)
        except QReleaseError as error:
            if len(contenders) == 1:
                raise
            why[name] = f"at epsilon={cost.epsilon:g}: {error}"
    with elapsed("working out what no unbiased mechanism is better than"):
        bounds = {cost.epsilon: unbiased(workload, cost, relation, len(table)) for cost in costs}
    best = {epsilon: min((r.errors.avg_l1 for r in rows if r.epsilon == epsilon), default=0.0) for epsilon in bounds}
    known = {epsilon: bound for epsilon, bound in bounds.items() if bound is not None and bound <= best[epsilon]}
    return Evaluation(dataset, describe(dataset, truth, costs[0], relation), tuple(rows), truth.floor(), known, why)


def _unsuitable(
    contenders: Mapping[str, Mechanism], workload: Workload, costs: Sequence[Cost], neighbours: Neighbours
) -> dict[str, QReleaseError]:
    """Which mechanisms do not do this workload at all of these costs, and why."""
    unit = Unit.of(neighbours, workload.domain)
    found = {}
    for name, mechanism in contenders.items():
        try:
            for cost in costs:
                check_parts(mechanism, workload.domain)
                mechanism.check(workload, unit.of_a_record(cost), unit.relation)
        except QReleaseError as error:
            found[name] = error
    return found


def unbiased(workload: Workload, cost: PureDP | ApproxDP, neighbours: Neighbours, records: int) -> float | None:
    """The average L1 error of unbiased answers to marginals of so many records, with the least Gaussian noise there is.

    That of `ResidualPlan`: its sum of squared errors is at the lower bound of Li & Miklau 2013. None where other
    queries are asked for too, under pure ε, where nothing has to be measured, and for marginals with too many subsets.
    """
    shape, unit = workload.domain.shape, Unit.of(neighbours, workload.domain)
    if isinstance(cost, PureDP) or not all(isinstance(g.queries, Cells) for g in workload.groups):
        return None
    if not any(shape[a] > 1 for s in workload.sets for a in s):
        return None
    try:
        plan = ResidualPlan.choose(workload.domain, workload.sets, neighbours=unit.relation)
    except TooLarge:  # the releases have been made by now: they are not thrown away for a line in a picture
        return None
    noise = calibrated(1, unit.of_a_record(cost))[0].variance
    left = {s: noise * v for s, v in plan.variances.items()}
    sums = [np.sqrt(2 / np.pi * query_variances(shape, g, left)).sum() for g in workload.groups]
    return float(np.mean(sums)) / records


def with_baselines(mechanisms: Mapping[str, Mechanism], cost: Cost) -> dict[str, Mechanism]:
    """The mechanisms, and after them the baselines that can spend such a cost, and those that are among them by name.

    Raises `InvalidInput` where another mechanism has a baseline's name.
    """
    for name, baseline in _BASELINES.items():
        if mechanisms.get(name, baseline) != baseline:
            raise InvalidInput(f"{name!r} is the name of a baseline; give {mechanisms[name]!r} another")
    pure = isinstance(cost, PureDP)
    fitting = {n: m for n, m in _BASELINES.items() if n in mechanisms or n == "laplace" or not pure}
    return {**{n: m for n, m in mechanisms.items() if n not in _BASELINES}, **fitting}


def describe(dataset: str, truth: Truth, cost: PureDP | ApproxDP, neighbours: Neighbours) -> str:
    """What an evaluation compares, in a line."""
    unit = Unit.of(neighbours, truth.workload.domain)
    spent = "pure epsilon" if isinstance(cost, PureDP) else f"delta={cost.delta:g}"
    columns = truth.workload.columns
    about = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
    return f"{dataset}: {len(truth.table):,} records, {truth.workload.said} of {about}; {unit}, {spent}"


def score(table: Table, release: Release, synthetic: Table | None = None) -> ReleaseScore:
    """The errors of a release on its own workload, and those of synthetic records made from it. Not private.

    Parameters
    ----------
    table
        The private records.
    release
        A release over the same domain.
    synthetic
        Records made from it, encoded over the same domain; any number of them.

    Returns
    -------
    Score
        Errors as fractions of the table.

    Raises
    ------
    InvalidInput
        For a table or synthetic records over another domain, and for a table without records.
    """
    truth = Truth.of(table, release.workload)
    if synthetic is None:
        return ReleaseScore(truth.errors(release.answers()))
    if synthetic.domain != table.domain:
        raise InvalidInput("the synthetic records are over another domain than the table")
    counts = exact_answers(synthetic, release.workload) * (len(table) / max(len(synthetic), 1))
    return ReleaseScore(truth.errors(release.answers()), truth.errors(counts))
