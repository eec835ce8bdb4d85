"""How small a database can answer a class of queries: by its number, or by its VC dimension.

A set of cells is *shattered* by a class of counting queries if each of its subsets is what some query counts of it; the
VC dimension is the size of the largest such set (Vapnik & Chervonenkis 1971). It is at most log2 of the number of
queries, and often far less: it may replace ln|Q| in the size of a small database (Dwork & Roth 2014, Theorem 4.9).

Sizes and radii here are promises about answers. No privacy rests on them, so they are floats.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from qrelease._util.validate import positive_probability, whole
from qrelease.errors import InvalidInput, TooLarge
from qrelease.queries.dense import dense
from qrelease.queries.workload import Workload

MAX_TESTS: Final = 1 << 17
"""Sets of cells that `vc_dimension` tries: some seconds."""


def vc_dimension(workload: Workload) -> int:
    """The VC dimension of a workload of counting queries over its universe, exactly.

    Every subset of a shattered set is shattered, so sets are grown cell by cell, in order.

    Parameters
    ----------
    workload
        Counting queries: entries 0 or 1.

    Returns
    -------
    int

    Raises
    ------
    InvalidInput
        For queries with entries between 0 and 1.
    TooLarge
        For a class that would take too long.

    References
    ----------
    Vapnik & Chervonenkis 1971.

    Examples
    --------
    >>> from qrelease.data.domain import Domain
    >>> vc_dimension(Workload.ranges(Domain.coded({"a": 5}), "a"))
    2
    """
    rows, unit = dense(workload)
    if unit != 1:
        raise InvalidInput("only counting queries have a VC dimension, got queries with entries between 0 and 1")
    # Cells that no query tells apart, or that two queries do not, add nothing.
    rows = np.unique(np.unique(rows, axis=0), axis=1)
    most = len(rows).bit_length() - 1
    found = tested = 0
    waiting = [(0, 0, np.zeros(len(rows), np.int64))]  # size, next cell, and which subset each query counts
    while waiting:
        size, cell, subsets = waiting.pop()
        found = max(found, size)
        if found == most:
            break
        if size + rows.shape[1] - cell <= found:
            continue
        tested += 1
        if tested > MAX_TESTS:
            raise TooLarge(
                f"the VC dimension is between {found} and {most}, but to know it takes more than {MAX_TESTS:,} sets of"
                f" the {rows.shape[1]:,} cells; use one of the known values, or ln|Q|"
            )
        waiting.append((size, cell + 1, subsets))
        grown = 2 * subsets + rows[:, cell]
        if len(np.unique(grown)) == 2 << size:
            waiting.append((size + 1, cell + 1, grown))
    return found


def prefixes(values: int) -> int:
    """Prefixes of an ordered column: 1 from two values on. Of two cells, no prefix has the second without the first."""
    return int(whole("values", values, least=1) >= 2)


def ranges(values: int) -> int:
    """Ranges of an ordered column: 2 from three values on. No range has the outer two of three cells alone.

    Of two values, no range leaves out both: 1.
    """
    return min(whole("values", values, least=1) - 1, 2)


def boxes(columns: int) -> int:
    """Products of ranges of ordered columns: 2 each, if each has at least three values; else at most so much.

    Of more cells than 2d, at most 2d are extreme in some column, and a box that holds those holds all (Blumer,
    Ehrenfeucht, Haussler & Warmuth 1989).
    """
    return 2 * whole("columns", columns, least=1)


def conjunctions(columns: int, *, negations: bool = True) -> int:
    """Conjunctions of literals on d binary columns, contradictions included: d, and 2 for one column.

    Natschläger & Schmitt 1996. Without negations: d.
    """
    return max(whole("columns", columns, least=1), 2 if negations else 1)


def small_database_size(alpha: float, queries: int, dimension: int | None = None) -> int:
    """Records of a small database such that one answers within α, as fractions, like any table of any size.

    Without a dimension ⌈ln k/α²⌉ for k linear queries (Dwork & Roth 2014, Theorem 4.2; as for two queries if there is
    one). With the VC dimension d of counting queries the least m with m α² >= 2 ln(2 S(2m)), where S is `sauer`'s
    number, or the former if that is less.

    *Proof.* Draw m records of x with replacement, and m more. The largest deviation of the first from x is in
    expectation at most that of the first from the second (Jensen), which is E max_q |Σ_i σ_i (q(z_i) - q(z'_i))| / m
    for independent signs σ. Given the records, this is a maximum over at most 2 S(2m) vectors of norm at most √m, so
    at most √(2 ln(2 S(2m)) / m) (Massart's lemma). Some draw does no worse than the expectation.

    Parameters
    ----------
    alpha
        The largest error allowed, a fraction of the records, in (0, 1).
    queries
        k, how many there are.
    dimension
        Their VC dimension, where it is known.

    Returns
    -------
    int
        Records.

    Examples
    --------
    >>> small_database_size(0.1, 1000)
    691
    """
    alpha = positive_probability("alpha", alpha)
    by_number = math.ceil(math.log(max(whole("queries", queries, least=1), 2)) / alpha**2)
    if dimension is None:
        return by_number
    dimension = whole("dimension", dimension, least=0)
    low, high = 1, by_number
    while low < high:  # whatever is found was tested or is `by_number`, so it holds
        middle = (low + high) // 2
        low, high = (low, middle) if error_by_dimension(middle, dimension) <= alpha else (middle + 1, high)
    return low


def small_database_error(records: int, queries: int, dimension: int | None = None) -> float:
    """α such that some database of so many records answers within α, as fractions, like any table; at most 1.

    √(ln(2k)/(2m)) by Hoeffding's inequality, which is strict, and a union bound over both sides of k queries; or, if it
    is less, what the VC dimension gives (see `small_database_size`). Never more than the textbook's √(ln k/m) where k
    is at least 2.

    Parameters
    ----------
    records
        m, of the small database.
    queries
        k, how many there are.
    dimension
        Their VC dimension, where it is known.

    Returns
    -------
    float
        α, a fraction of the records.

    Examples
    --------
    >>> round(small_database_error(691, 1000), 3)
    0.074
    """
    by_number = math.sqrt(math.log(2 * whole("queries", queries, least=1)) / (2 * whole("records", records, least=1)))
    if dimension is None:
        return min(1.0, by_number)
    return min(1.0, by_number, error_by_dimension(records, whole("dimension", dimension, least=0)))


def sauer(dimension: int, points: int) -> int:
    """Σ_{i <= d} C(n, i): the most subsets that a class of VC dimension d counts of n points (Sauer 1972)."""
    return sum(math.comb(points, i) for i in range(min(dimension, points) + 1))


def error_by_dimension(records: int, dimension: int) -> float:
    """The bound on the error of a database of so many records that follows from the VC dimension, a fraction."""
    return math.sqrt(2 * math.log(2 * sauer(dimension, 2 * records)) / records)
