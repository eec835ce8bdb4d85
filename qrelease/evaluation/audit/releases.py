"""Audits of the package's own mechanisms as a whole: all that a release says, on neighbouring tiny tables."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Final
from zlib import crc32

import numpy as np

from qrelease._util.typing import Floats
from qrelease._util.validate import whole
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit.features import numbers_in
from qrelease.evaluation.audit.inputs import table_pairs
from qrelease.evaluation.audit.sampling import audit, worst_pair
from qrelease.evaluation.audit.verdict import Audit
from qrelease.inference.measurement import Measurement
from qrelease.mechanisms.base import Mechanism
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.filters import Filter
from qrelease.queries.workload import Workload

_MOST_CELLS: Final = 1 << 10  # each is a neighbour of the table
_TRIED_PAIRS: Final = 4
_PILOT_SHARE: Final = 0.1
_TIMED_RUNS: Final = 100
_LONG_SECONDS: Final = 30.0


def audit_mechanism(
    mechanism: Mechanism,
    cost: Cost,
    neighbours: Neighbours,
    *,
    workload: Workload | None = None,
    samples: int = 20_000,
    confidence: float = 0.99,
    entropy: WordSource | None = None,
) -> Audit:
    """Audit a mechanism at a cost, on a table of three records: those of the first, second and last cell of a universe.

    Of the neighbours that differ most in their answers, short audits of a tenth of the runs each pick the one that
    shows most; the audit itself is `audit`, of all that the manifest would say: the measurements and their noise, the
    answers, and the mechanism's choices. Small tables are the hard case: the noise does not shrink with the table,
    and one record moves a large part of it.

    Parameters
    ----------
    mechanism
        What is audited.
    cost
        What each of its releases is said to cost.
    neighbours
        The relation under which it is said to.
    workload
        What it is asked, over a universe of at most 1 024 cells; by default all 2-way marginals of three binary
        columns.
    samples
        Releases that are made of each of the two tables.
    confidence
        The probability with which a mechanism that keeps its promise is not convicted.
    entropy
        The random source; by default the system's.

    Returns
    -------
    Audit
        The verdict, with a bound on the least cost that explains what was seen.

    Raises
    ------
    InvalidInput
        For fewer than 1 000 samples, for a workload over more cells, or whose unit is a person, or with cells that no
        record can be in, or where the mechanism cannot be run at this cost.

    Examples
    --------
    >>> import qrelease as qr
    >>> verdict = qr.audit_mechanism(
    ...     qr.Laplace(), qr.PureDP(1), qr.Neighbours.ADD_REMOVE, samples=1_000, entropy=qr.Entropy.insecure(1)
    ... )
    >>> verdict.convicted
    False

    What can be asked of one column alone is asked of one:

    >>> ranges = qr.Workload.ranges(qr.Domain.coded({"age": 4}), "age")
    >>> qr.audit_mechanism(
    ...     qr.Laplace(),
    ...     qr.PureDP(1),
    ...     qr.Neighbours.ADD_REMOVE,
    ...     workload=ranges,
    ...     samples=1_000,
    ...     entropy=qr.Entropy.insecure(1),
    ... ).convicted
    False
    """
    whole("samples", samples, least=1_000)
    source = Entropy() if entropy is None else entropy
    asked = Workload.marginals(Domain.coded({"a": 2, "b": 2, "c": 2}), 2) if workload is None else workload
    _check_universe(asked.domain)
    mechanism.check(asked, cost, neighbours)
    cells = np.clip([0, 1, asked.domain.size - 1], 0, asked.domain.size - 1)
    table = Table(asked.domain, tuple(np.asarray(codes) for codes in np.unravel_index(cells, asked.domain.shape)))

    def apart(pair: tuple[Table, Table]) -> float:
        one, two = (_answers(asked, side) for side in pair)
        return float(np.abs(one - two).sum())

    pairs = sorted(table_pairs(table, neighbours), key=apart, reverse=True)[:_TRIED_PAIRS]
    run = released(mechanism, asked, cost, neighbours)
    if sys.stderr.isatty():
        foretell(run, pairs[0][0], samples)
    first, second = worst_pair(run, pairs, cost, samples=math.ceil(_PILOT_SHARE * samples), entropy=source)
    return audit(run, first, second, cost, samples=samples, confidence=confidence, entropy=source)


def _check_universe(domain: Domain) -> None:
    """Raise `InvalidInput` for a universe whose neighbouring tables are not listed."""
    if domain.person is not None or domain.impossible:
        raise InvalidInput("an audit is of single records, any of which there may be: no [person], no [[impossible]]")
    if any(attribute.undecided for attribute in domain) or domain.size > _MOST_CELLS:
        raise InvalidInput(f"an audit takes a universe of at most {_MOST_CELLS:,} cells, got {domain}")


def _answers(workload: Workload, table: Table) -> Floats:
    """The exact answers (k,)."""
    counts = dict(zip(workload.sets, table.counts(workload.sets), strict=True))
    return np.concatenate([g.queries.apply(counts[g.axes]) * g.queries.unit for g in workload.groups])


def foretell(run: Callable[[Table, WordSource], Floats], table: Table, samples: int) -> None:
    """Say how long the audit takes, where that is long: by a hundred runs, whose draws are no part of it."""
    source, started = Entropy(), time.perf_counter()
    for _ in range(_TIMED_RUNS):
        run(table, source)
    each = (time.perf_counter() - started) / _TIMED_RUNS
    runs = 2 * (samples + _TRIED_PAIRS * math.ceil(_PILOT_SHARE * samples))
    if runs * each > _LONG_SECONDS:
        print(f"qrelease: {runs:,} runs, about {runs * each / 60:,.1f} minutes in all", file=sys.stderr)


def released(
    mechanism: Mechanism, workload: Workload, cost: Cost, neighbours: Neighbours
) -> Callable[[Table, WordSource], Floats]:
    """A mechanism of the package as `f(table, entropy)`, whose output is all that its release says, as numbers.

    First the number of records; then, for each group of the workload and each single column, how often it was measured,
    which measurement it was, its noise and the values, NaN where there is none; then other groups, and those that were
    measured again, as they were; then the answers to the workload; and last what the mechanism chose, which the
    manifest lists, where a text is a number that stands for it.
    """
    singles = Workload.marginals(workload.domain, 1)
    groups = list(dict.fromkeys([*workload.groups, *singles.groups]))

    def run(table: Table, entropy: WordSource) -> Floats:
        draft = mechanism.release(Private(table, neighbours, Filter(cost), entropy), workload, cost)
        first = {m.group: i for i, m in reversed(list(enumerate(draft.measurements)))}
        parts = [[draft.synopsis.total]]
        for group in groups:
            missing = [np.nan] * (3 + group.queries.count)
            parts.append(_numbers(first[group], draft.measurements[first[group]]) if group in first else missing)
        placed = {first[group] for group in groups if group in first}
        parts += [[_name(m), *_numbers(i, m)] for i, m in enumerate(draft.measurements) if i not in placed]
        told = list(numbers_in(dict(draft.choices), {}))
        return np.concatenate([*parts, draft.synopsis.answer(workload), told])

    return run


def _name(m: Measurement) -> float:
    """A number that stands for a group of queries."""
    return float(crc32(repr((m.group.axes, m.group.queries.to_json())).encode()))


def _numbers(number: int, m: Measurement) -> list[float]:
    return [float(number), float(m.repeats), float(m.noise.scale), *m.values.tolist()]
