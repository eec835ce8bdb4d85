"""Audits of the package's own mechanisms as a whole: all that a release says, on neighbouring tiny tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np

from qrelease._util.typing import Floats
from qrelease._util.validate import whole
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit.contents import Contents
from qrelease.evaluation.audit.features import Named
from qrelease.evaluation.audit.inputs import table_pairs
from qrelease.evaluation.audit.sampling import CONFIDENCE, counted, foretell, judged, worst_of
from qrelease.evaluation.audit.verdict import Audit
from qrelease.mechanisms.base import Mechanism, check_result
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.filters import Filter
from qrelease.queries.workload import Workload

_MOST_CELLS: Final = 1 << 10  # each is a neighbour of the table
_COVERED_CELLS: Final = 16
"""Cells in which one of the tried pairs differs, each: all of a universe of so many, or random ones."""

_TRIED_PAIRS: Final = 4
"""And of a larger universe so many pairs that differ most in their answers."""

_PILOT_SHARE: Final = 0.1

OWN_TABLES: Final = (
    "an audit makes tables of its own: columns a, b and c of two values each, asked for their pairs; audit an object"
    " whose parameters suit these, or in Python give qr.audit_mechanism a workload of yours, as"
    " workload=qr.Workload.marginals(qr.Domain.coded({'income': 2, 'age': 4}), 2)"
)
"""What somebody is told whose mechanism fails at what it is asked by default."""


def audit_mechanism(
    mechanism: Mechanism,
    cost: Cost,
    neighbours: Neighbours,
    *,
    workload: Workload | None = None,
    table: Table | None = None,
    samples: int = 20_000,
    confidence: float = CONFIDENCE,
    entropy: WordSource | None = None,
) -> Audit:
    """Audit a mechanism at a cost, on a table and its neighbours: by default one of three records, or your own.

    The three records are those of the first, second and last cell of a universe. Besides, there is a table of two, of
    the first and last cell: all marginals tie on it, and a neighbour breaks the tie in favour of the first marginal
    that is asked, or the last. So a choice of the largest count or score shows that it has no noise.

    Short audits of a tenth of the runs each, of some neighbours, pick the one that shows most. Each cell of a
    universe of at most 16 is one in which one of these differs from the table, so that what is told of one cell alone
    does not go unseen; of a larger universe 16 cells that are drawn at random are, and those of the four neighbours
    that differ most in their answers. The audit itself is `audit`, of all that the manifest would say: the
    measurements and their noise, the answers, the mechanism's choices, the parts of its cost, and the description of
    the synopsis; and of what the synopsis is asked besides: all cells, and some synthetic records. Small tables are the
    hard case: the noise does not shrink with the table, and one record moves a large part of it.

    An acquittal is about the tables that were compared, which are few: a mechanism may tell more of others. Where a
    choice depends on what these do not have (a threshold of ten records, say), give a table near to it.

    An audit that takes longer than half a minute says so on stderr when it begins, and how far it is. How many samples
    show an ε that is so many times too large, and how long that takes, is printed by `python -m benchmarks.audits`:
    for Laplace noise and a claim of 1, some 5 000 show a factor of 2, and 1 000 a factor of 4.

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
        columns, or of those of the table (of one column its 1-way marginal).
    table
        A table of your own, made up, over the same universe: it is compared with its neighbours by the same rules.
    samples
        Releases that are made of each of the two tables.
    confidence
        The probability with which a mechanism that keeps its promise is not convicted.
    entropy
        The random source; by default the system's.

    Returns
    -------
    Audit
        The verdict, with a bound on the least cost that explains what was seen, the event that shows it, by the names
        of the values, and in which cells the tables that were compared differ.

    Raises
    ------
    InvalidInput
        For fewer than 1 000 samples, for a workload over more cells or other columns than the table's, or whose unit is
        a person, or with cells that no record can be in, or where the mechanism cannot be run at this cost; of one from
        outside the package without a workload it is said what it was asked.

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

    On a table of your own, here of twelve records, each neighbour is one record away from it:

    >>> ages = qr.Table(qr.Domain.coded({"age": 4}), [[0] * 9 + [1, 2, 3]])
    >>> found = qr.audit_mechanism(
    ...     qr.Laplace(),
    ...     qr.PureDP(1),
    ...     qr.Neighbours.ADD_REMOVE,
    ...     table=ages,
    ...     samples=1_000,
    ...     entropy=qr.Entropy.insecure(1),
    ... )
    >>> found.convicted, "of 12 records" in found.inputs
    (False, True)
    """
    whole("samples", samples, least=1_000)
    source = Entropy() if entropy is None else entropy
    asked = _asked(table) if workload is None else workload
    if table is not None and table.domain != asked.domain:
        raise InvalidInput(f"the table has other columns than the workload: {table.domain}, and {asked.domain}")
    by_default = workload is None and table is None and not type(mechanism).__module__.startswith("qrelease.")
    _check_universe(asked.domain)
    with _saying_what_is_asked(by_default):
        mechanism.check(asked, cost, neighbours)
    last = asked.domain.size - 1
    first_table = _with_cells(asked.domain, [0, min(1, last), last]) if table is None else table
    pairs, covered = _chosen_pairs(first_table, asked, neighbours, source)
    if table is None:
        pairs += _tied_pairs(asked, neighbours)
    run = released(mechanism, asked, cost, neighbours)
    pilot = math.ceil(_PILOT_SHARE * samples)
    runs = 2 * (samples + len(pairs) * pilot)
    with _saying_what_is_asked(by_default):
        foretell(run, first_table, runs, samples, confidence)
    with counted(runs) as bar:
        first, second = worst_of(run, pairs, cost, samples=pilot, entropy=source, bar=bar)
        found = judged(run, first, second, cost, samples=samples, confidence=confidence, entropy=source, bar=bar)
    told = f"{_difference(first, second)}; the worst of {len(pairs)} pairs, which differ in {covered}"
    return replace(found, inputs=told)


def _asked(table: Table | None) -> Workload:
    """What is asked by default, of a table's columns."""
    domain = Domain.coded({"a": 2, "b": 2, "c": 2}) if table is None else table.domain
    return Workload.marginals(domain, min(2, len(domain)))


def _with_cells(domain: Domain, cells: Sequence[int]) -> Table:
    """A table of one record in each of these cells."""
    return Table(domain, tuple(np.asarray(codes) for codes in np.unravel_index(list(cells), domain.shape)))


def _tied_pairs(workload: Workload, neighbours: Neighbours) -> list[tuple[Table, Table]]:
    """A table on which all marginals tie, and neighbours that break the tie: for the first marginal, and for the last.

    It has a record in the first cell and one in the last. One more that is as the last one in the columns of one
    marginal, and else as the first, lies in a cell of that marginal that has a record, and of the others in an empty
    one. Where a record is replaced, it is the last one.
    """
    domain, last = workload.domain, workload.domain.size - 1
    tied, pairs = _with_cells(domain, [0, last]), []
    among = list(table_pairs(tied, neighbours))
    for axes in dict.fromkeys([workload.sets[0], workload.sets[-1]]):
        codes = [n - 1 if a in axes else 0 for a, n in enumerate(domain.shape)]
        cell = int(np.ravel_multi_index(codes, domain.shape))
        for changed in ({(cell, True)}, {(cell, True), (last, False)}, {(cell, True), (0, False)}):
            found = [pair for pair in among if _changed(pair) == changed]
            if found:
                pairs.append(found[0])
                break
    return pairs


@contextmanager
def _saying_what_is_asked(by_default: bool) -> Iterator[None]:
    """Add to what a mechanism of one's own refuses what it was asked, where that is not what somebody chose."""
    try:
        yield
    except InvalidInput as error:
        if by_default:
            error.args = (f"{error}; {OWN_TABLES}", *error.args[1:])
        raise


def _chosen_pairs(
    table: Table, workload: Workload, neighbours: Neighbours, entropy: WordSource
) -> tuple[list[tuple[Table, Table]], str]:
    """Neighbours of a table that have one record more, and one less, in each cell; and in how many cells, in words.

    Of large universes in cells drawn at random. Those that differ most in their answers come first, and of several that
    have more in a cell, or less, the first one is taken. A cell that has a record gets a second one too: a mechanism
    may tell whether some cell has more than one.
    """

    def apart(pair: tuple[Table, Table]) -> float:
        one, two = (_answers(workload, side) for side in pair)
        return float(np.abs(one - two).sum())

    listed = sorted(table_pairs(table, neighbours), key=apart, reverse=True)
    size = table.domain.size
    if size <= _COVERED_CELLS:
        wanted = set(range(size))
    else:
        drawn = np.argsort(entropy.words(size), kind="stable")[:_COVERED_CELLS]
        wanted = {cell for pair in listed[:_TRIED_PAIRS] for cell, _ in _changed(pair)} | set(drawn.tolist())
    chosen, covered = [], set[tuple[int, bool]]()
    for pair in listed:
        changed = {(cell, more) for cell, more in _changed(pair) if cell in wanted}
        if not changed <= covered:
            covered |= changed
            chosen.append(pair)
    return chosen, f"each of the {size} cells" if len(wanted) == size else f"{len(wanted)} of the {size:,} cells"


def _changed(pair: tuple[Table, Table]) -> set[tuple[int, bool]]:
    """The cells of which two tables have not as many records, each with whether the second has more."""
    one, two = (side.histogram() for side in pair)
    return {(cell, bool(two[cell] > one[cell])) for cell in np.flatnonzero(one != two).tolist()}


def _difference(first: Table, second: Table) -> str:
    """What sets two neighbouring tables apart, in words."""
    cells = list(Workload.marginals(first.domain, [list(first.domain.names)]).texts())
    moved = second.histogram().astype(np.int64) - first.histogram().astype(np.int64)
    more = [f"a record more with {cells[c]}" for c in np.flatnonzero(moved > 0)]
    less = [f"one less with {cells[c]}" for c in np.flatnonzero(moved < 0)]
    return f"the second table has {' and '.join([*more, *less])} than the first, of {len(first)} records"


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


def released(
    mechanism: Mechanism, workload: Workload, cost: Cost, neighbours: Neighbours
) -> Callable[[Table, WordSource], Named]:
    """A mechanism of the package as `f(table, entropy)`, whose output is all that its release says, by name.

    The number of records; of each measurement which one it was, how often it was drawn, its noise and its values, by
    its group of queries; the answers to the workload; what the mechanism chose; what its draws are called, and cost;
    what it measured of sums; and of the synopsis what describes it, its counts of all cells, where it has them, and how
    many of some synthetic records are in each. Of the package's own synopses none are drawn: they follow from the
    description. Where 1, 1.0 and true, or 0.0 and -0.0, are written for one number, that is told beside it. A list of
    more than 64 numbers in a description is told by their sum and a checksum.
    """
    contents = Contents(workload)

    def run(table: Table, entropy: WordSource) -> Named:
        private = Private(table, neighbours, Filter(cost), entropy)
        draft = mechanism.release(private, workload, cost)
        check_result(draft, mechanism.name)
        return contents.of(draft, private.spends)

    return run
