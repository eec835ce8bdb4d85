"""SmallDB: a small database that answers like the table, drawn by the exponential mechanism.

Blum, Ligett & Roth 2008; Dwork & Roth 2014, Algorithm 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Final, final

import numpy as np

from qrelease._util import memory
from qrelease._util.multisets import range_size
from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import accuracy, natural, positive_probability, whole
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.mechanisms.accuracy import BETA, promise
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.small_db import exponential_choice
from qrelease.mechanisms.small_db.branch_and_bound import MAX_WORK, draw_database, ends_soon
from qrelease.mechanisms.small_db.databases import Bounds, Databases, check_range, largest_size
from qrelease.noise.calibration import selection_epsilon
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP
from qrelease.queries.dense import check_dense, dense
from qrelease.queries.vc import small_database_error, small_database_size
from qrelease.queries.workload import Workload

ENUMERATED: Final = 1 << 22
"""Databases up to which all are listed with their scores: the time of the draw then does not depend on the data."""

SEARCH_BYTES: Final = 1 << 30
"""Bytes that a search takes for its largest frontier, the one before it, and the most tries at a time."""

SIMULATED_RECORDS: Final = (30_000, 3_000, 300, 30)
"""Numbers of records of the tables that a search is tried on, at ε = 1: from a peaked law to a flat one."""


@final
@dataclass(frozen=True)
class SmallDB:
    """A database y of m records, drawn with probability ∝ e^(ε u(y) / 2) from all of them, exactly: pure ε-DP.

    u(y) = -max_q |q(x) - n q(y)/m|, in counts. As long as n does not change with it, one record, added or removed or
    replaced, moves u by at most 1. Under replace-one n is public. Under add-remove a noisy n is bought first, for an
    eighth of the budget. Scores are integers, in units of 1/m of the queries' grid, so nothing is rounded.

    Up to `ENUMERATED` databases are listed; more are searched (`branch_and_bound`), up to 2^62. A search is tried on
    made-up tables, and refused before the charge if it takes too long on them: the refusal looks at public facts alone.
    How long it takes on the table depends on the data, and is not hidden.

    Of an (ε, δ) it spends ε and leaves δ; zCDP is spent as the ε with ε²/8 = ρ (bounded range, Cesar & Rogers 2021).

    Parameters
    ----------
    size
        m, the number of records of the small database; by default the one with the least error bound, among those for
        which the databases can be listed, or searched in reasonable time.
    alpha
        Instead of a size: m = `vc.small_database_size` for this α, a fraction of the records.
    dimension
        With an alpha: the VC dimension of the queries, where it is known, e.g. from `vc.vc_dimension`.

    References
    ----------
    Blum, Ligett & Roth 2008, *A learning theory approach to noninteractive database privacy*; Dwork & Roth 2014,
    Algorithm 4.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2, "age": 10})
    >>> table = qr.Table(domain, (np.arange(500) % 2, np.arange(500) % 10))
    >>> cost = qr.PureDP(1)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, cost), qr.Entropy.insecure(1))  # no seed for real records
    >>> release = curator.release(qr.SmallDB(size=4), qr.Workload.marginals(domain, 1), cost)
    >>> release.answer("sex = 1").value / release.answer("sex in {0, 1}").value in (0, 0.25, 0.5, 0.75, 1)
    True
    """

    size: int | None = None
    alpha: float | None = None
    dimension: int | None = None

    @property
    def name(self) -> str:
        """`smalldb`."""
        return "smalldb"

    def __post_init__(self) -> None:
        if self.size is not None:
            if self.alpha is not None:
                raise InvalidInput(f"give a size or an alpha, not both, got {self.size} and {self.alpha}")
            object.__setattr__(self, "size", natural("size", self.size))
        if self.alpha is not None:
            object.__setattr__(self, "alpha", accuracy("alpha", self.alpha))
        if self.dimension is not None:
            if self.alpha is None:
                raise InvalidInput(f"a dimension needs an alpha, got dimension {self.dimension} alone")
            object.__setattr__(self, "dimension", whole("dimension", self.dimension, least=0))

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `TooLarge` for a range that cannot be searched, `InvalidInput` for a cost too small for the draws."""
        exponential_choice.choice_costs(cost, neighbours)
        check_dense(workload)
        size, cells = self.fixed_size(workload) or 1, workload.domain.size
        check_range(len(workload), cells, 1)
        try:
            check_range(len(workload), cells, size)
        except TooLarge as error:
            raise TooLarge(f"{error}; {self._would_do(workload, largest_size(cells))}") from None
        largest = range_size(cells, size) if self.fixed_size(workload) else ENUMERATED
        needed = exponential_choice.CANDIDATE_BYTES * largest if largest <= ENUMERATED else SEARCH_BYTES
        memory.check(needed, "a list or a search of small databases", "ask for a small size, or use mwem")
        if not _searchable(workload, size, MAX_WORK):
            raise TooLarge(
                f"a search among the {range_size(cells, size):.2g} databases of {size} records over {cells:,} cells"
                f" might never end: it did not soon on made-up tables; {self._would_do(workload, size - 1)}"
            )

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Count the records if their number is private, then draw one database."""
        counting, choice = exponential_choice.choice_costs(cost, private.neighbours)
        counted, measured = exponential_choice.count_records(private, counting)
        n = max(counted, 1)
        size = self.fixed_size(workload) or _promising_size(workload, n, selection_epsilon(choice, "exponential"))
        found = searched_range(workload, size)
        answers, _ = exponential_choice.exact_answers(private, workload)
        number = _select(private, found, found.bounds(answers, n), choice)
        synopsis = WeightedRecords.equal(workload.domain, found.databases.cells(number), float(n))

        def error(records: float) -> float:
            return self._promise(size, workload, records, cost, private.neighbours, BETA)

        miss = exponential_choice.count_error(cost, private.neighbours, BETA)
        return MechanismResult(synopsis, measured, {"size": size, "records": n, **promise(error, counted, miss, BETA)})

    def error(self, workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """With probability 1 - β no answer is off by more than this fraction of a table of n `records`.

        `vc.small_database_error` + 2 (ln N + ln(1/β)) / (εn): Dwork & Roth 2014, Proposition 4.4, or Theorem 4.9 with a
        dimension, where N = C(|X| + m - 1, m) was bounded by |X|^m; and what
        `exponential_choice.promised_choice_error` adds under add-remove. Where m follows from the noisy n, the worst of
        all m that may come of it. Above 1 it says nothing.
        """
        beta, n = positive_probability("beta", beta), whole("records", records, least=1)
        sizes = self.possible_sizes(workload, n, cost, neighbours, beta)
        return max(self._promise(size, workload, n, cost, neighbours, beta) for size in sizes)

    def _promise(
        self, size: int, workload: Workload, n: float, cost: Cost, neighbours: Neighbours, beta: float
    ) -> float:
        """The error that m promises, a fraction of n."""
        radius = small_database_error(size, len(workload), self.dimension)
        return exponential_choice.promised_choice_error(
            radius, range_size(workload.domain.size, size), n, cost, neighbours, beta
        )

    def _would_do(self, workload: Workload, most: int) -> str:
        """Which size up to the `most` can be searched, and which α, in hundredths, takes no more: for a refusal."""
        size = largest_searchable(workload, most, MAX_WORK // 2)  # a refusal should not take long
        hundredths = range(1, 100) if self.alpha is not None else ()
        found = (a / 100 for a in hundredths if small_database_size(a / 100, len(workload), self.dimension) <= size)
        alpha = "".join(f" (alpha={alpha:g} takes no more)" for alpha in islice(found, 1))
        return f"{'1 record' if size == 1 else f'{size:,} records'} would do, or use mwem{alpha}"

    def fixed_size(self, workload: Workload) -> int | None:
        """The number of records m of the small database, where it follows from the parameters.

        Parameters
        ----------
        workload : Workload
            The queries to answer.

        Returns
        -------
        int or None
            None where m follows from the number of private records.

        Raises
        ------
        InvalidInput
            For a VC dimension with queries whose entries are not 0 and 1.
        """
        if self.alpha is None:
            return self.size
        if self.dimension is not None and any(g.queries.unit < 1 for g in workload.groups):
            raise InvalidInput("a VC dimension is that of counting queries, with entries 0 and 1: give an alpha alone")
        return small_database_size(self.alpha, len(workload), self.dimension)

    def possible_sizes(self, workload: Workload, n: int, cost: Cost, neighbours: Neighbours, beta: float) -> range:
        """Every number of records m that may be used, except with probability β/2.

        Parameters
        ----------
        workload : Workload
            The queries to answer.
        n : int
            The number of private records. A larger one has no smaller m.
        cost : Cost
            What the release may cost.
        neighbours : Neighbours
            Which tables the promise compares.
        beta : float
            The probability with which the promise may fail.

        Returns
        -------
        range
            From the least m to the largest.
        """
        size = self.fixed_size(workload)
        if size is not None:
            return range(size, size + 1)
        off = math.ceil(exponential_choice.count_error(cost, neighbours, beta))
        epsilon = selection_epsilon(exponential_choice.choice_costs(cost, neighbours)[1], "exponential")
        least, most = (_promising_size(workload, max(n + d, 1), epsilon) for d in (-off, off))
        return range(least, most + 1)


@dataclass(frozen=True, eq=False)
class SearchedRange:
    """The databases, and the scale of their errors.

    The rows of the queries, (k, |X|) in `unit`, are `gains` (k,) times those in `databases`, which have no common
    divisor: then the answers of small databases are consecutive integers, and bounds are tight.
    """

    databases: Databases
    gains: Ints
    unit: float

    @property
    def sensitivity(self) -> int:
        """The sensitivity of the errors: m counts, in units."""
        return self.databases.records * int(1 / self.unit)

    def bounds(self, answers: Ints, n: int) -> Bounds:
        """What makes an error m · max_q |q(x) - n q(y)/m|, in units; `answers` (k,) are q(x) in units."""
        return Bounds(self.databases.records * answers, n * self.gains)


@lru_cache(maxsize=1)
def searched_range(workload: Workload, size: int) -> SearchedRange:
    """The databases of so many records."""
    least = smallest_range(workload)
    return replace(least, databases=least.databases.of(size))


@lru_cache(maxsize=1)
def smallest_range(workload: Workload) -> SearchedRange:
    """Databases of one record: their tree, which can take a second to build, is that of all sizes."""
    rows, unit = dense(workload)
    gains = np.maximum(np.gcd.reduce(rows, axis=1), 1)
    return SearchedRange(Databases.over(rows // gains[:, None], 1), gains, unit)


def _select(private: Private, found: SearchedRange, bounds: Bounds, cost: PureDP | ZCDP) -> int:
    """The number of a database by the exponential mechanism: listed where that fits, else searched."""
    if len(found.databases) <= ENUMERATED:
        return private.select(-found.databases.all_errors(bounds), found.sensitivity, cost, "exponential")
    private.spend("select by exponential", cost)
    gamma = selection_epsilon(cost, "exponential") / (2 * found.sensitivity)
    asked = ("database", str(len(found.databases)), str(gamma))
    return private.chosen(asked, lambda: draw_database(found.databases, bounds, gamma, private.entropy).number)


def _promising_size(workload: Workload, records: int, epsilon: Fraction) -> int:
    """The size that promises the least error, of those whose databases are listed, or searched in good time.

    The larger of two sizes gains by a larger number of records: what is promised is the sum of a term without n, which
    falls with the size, and one over n, which grows with it.
    """
    cells = workload.domain.size
    radii, logs = _terms(len(workload), cells, largest_searchable(workload, largest_size(cells), MAX_WORK))
    return 1 + int(np.argmin(radii + 2 * logs / (float(epsilon) * records)))


@lru_cache(maxsize=16)
def _terms(queries: int, cells: int, largest: int) -> tuple[Floats, Floats]:
    """For each size up to the largest: the radius, and ln N of its range."""
    sizes = range(1, largest + 1)
    radii = np.array([small_database_error(size, queries) for size in sizes])
    return radii, np.array([math.log(range_size(cells, size)) for size in sizes])


@lru_cache(maxsize=16)
def largest_searchable(workload: Workload, most: int, work: int) -> int:
    """About the most records, up to so many, of databases that are listed, or searched with so much work."""
    cells = workload.domain.size
    listed, size = 1, most
    while range_size(cells, listed + 1) <= ENUMERATED and listed < size:
        listed += 1
    while size > listed and not _searchable(workload, size, work):
        size = (size + listed) // 2
    return size


@lru_cache(maxsize=64)
def _searchable(workload: Workload, size: int, work: int) -> bool:
    """Whether the databases of a size are listed, or a search ends soon on made-up tables, even and skewed ones.

    What a search meets depends on the product of ε and the number of records: ε is 1 here. Each may take `work`.
    """
    if range_size(workload.domain.size, size) <= ENUMERATED:
        return True
    found, rng = searched_range(workload, size), np.random.default_rng(0)
    rows = found.databases.queries * found.gains[:, None]
    for records in SIMULATED_RECORDS:
        for evenness in (1.0, 0.1):
            table = rng.multinomial(records, rng.dirichlet(np.full(rows.shape[1], evenness)))
            gamma = Fraction(1, 2 * found.sensitivity)
            if not ends_soon(found.databases, found.bounds(rows @ table, records), gamma, work):
                return False
    return True
