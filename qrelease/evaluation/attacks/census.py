"""Reconstruction of a block's records from its published cross-tables, as the census reconstruction was made.

A block is a few dozen people. Its cross-tables on two or three columns say so much together that often one set of
records alone fits them: an integer programme finds it, and a second one finds how many records every set that fits has
in common (Garfinkel, Abowd & Martindale 2019, "Understanding database reconstruction attacks on public data").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease._util.validate import natural, positive, positive_probability
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.attacks.extras import load_cvxpy
from qrelease.evaluation.attacks.results import NotPrivate
from qrelease.mechanisms.base import Mechanism
from qrelease.noise.entropy import WordSource
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

MAX_BLOCK_CELLS = 1 << 14
"""Cells of a block's universe: each is an integer unknown."""

_SLACK = 1e-6
"""What a solver calls zero, a count."""

_EMPTY_CELL_SHARE = 1e-6
"""The fraction of a population that is reckoned with in a cell where nobody is."""


@final
@dataclass(frozen=True, eq=False)
class CrossTables:
    """The published cross-tables of one block.

    Attributes
    ----------
    sets : tuple of tuples of int
        The columns of each, as positions in the domain.
    low, high : (k,) float64
        Between what counts each true one lies, as the published number says: equal where it is exact, and where it is
        noisy. All tables one after the other, each flat in C order.
    sure : bool
        Whether each true count surely lies there: not where there is noise, nor where records were exchanged before
        they were counted. Then nothing that is found is certain.
    """

    domain: Domain
    sets: tuple[Axes, ...]
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    sure: bool = True


Rule = Callable[[Floats], tuple[Floats, Floats]]
"""How exact counts (k,) are published: the least and the largest count that each published number may stand for."""


def exact(counts: Floats) -> tuple[Floats, Floats]:
    """Every count as it is."""
    return counts, counts


def rounded(base: int) -> Rule:
    """Counts rounded to the nearest multiple of a base."""

    def rule(counts: Floats) -> tuple[Floats, Floats]:
        middle = np.rint(counts / base) * base
        return np.maximum(middle - base / 2, 0.0), middle + base / 2

    return rule


def suppressed(least: int) -> Rule:
    """Exact counts, but those from 1 to `least` - 1 are hidden; that they are small is not."""

    def rule(counts: Floats) -> tuple[Floats, Floats]:
        hidden = (counts > 0) & (counts < least)
        return np.where(hidden, 1.0, counts), np.where(hidden, least - 1.0, counts)

    return rule


def publish(block: Table, sets: Sequence[Axes], rule: Rule = exact) -> CrossTables:
    """The cross-tables of a block on some sets of column positions, published by a rule."""
    return CrossTables(block.domain, tuple(sets), *rule(_counts(block, sets)))


def sticky(block: Table, sets: Sequence[Axes], deviation: float, rng: np.random.Generator) -> CrossTables:
    """The cross-tables with rounded normal noise on each count, the same however often a table is asked for.

    As the office of a country adds it to its census tables (cell keys), and systems such as Diffix: see
    `publishers.Sticky`.
    """
    counts = _counts(block, sets)
    noisy = np.maximum(np.rint(counts + rng.normal(0.0, positive("deviation", deviation), len(counts))), 0.0)
    return CrossTables(block.domain, tuple(sets), noisy, noisy, sure=False)


def swapped(
    block: Table, sets: Sequence[Axes], elsewhere: Table, share: float, rng: np.random.Generator
) -> CrossTables:
    """The exact cross-tables of a block of which a share of the people were exchanged for others of a wider table.

    As censuses did it until 2010: whoever is rare in the block was likelier to be exchanged there; here all are alike.
    """
    people = len(block)
    away = rng.choice(people, round(positive_probability("share", share) * people), replace=False)
    came = rng.choice(len(elsewhere), len(away), replace=False)
    columns = []
    for own, others in zip(block.columns, elsewhere.columns, strict=True):
        column = own.copy()
        column[away] = others[came]
        columns.append(column)
    counts = _counts(Table(block.domain, tuple(columns)), sets)
    return CrossTables(block.domain, tuple(sets), counts, counts, sure=False)


def _counts(block: Table, sets: Sequence[Axes]) -> Floats:
    """The exact counts (k,) of some cross-tables."""
    return np.concatenate(block.counts(sets)).astype(np.float64)


def released(
    block: Table, sets: Sequence[Axes], mechanism: Mechanism, cost: Cost, entropy: WordSource | None = None
) -> CrossTables:
    """The cross-tables of a block as a release has them, under the replacement of one record."""
    names = block.domain.names
    workload = Workload.marginals(block.domain, [[names[a] for a in axes] for axes in sets])
    with Ledger.open(None, cost, dataset="block", neighbours=Neighbours.REPLACE_ONE) as ledger:
        answers = Curator(block, ledger, entropy).pay(mechanism, workload, cost).rehearse().answers()
    return CrossTables(block.domain, workload.sets, answers, answers, sure=False)


@final
@dataclass(frozen=True, eq=False)
class CensusFit:
    """Records that fit published cross-tables.

    Attributes
    ----------
    counts : (cells,) int64
        How many of them are in each cell of the universe, in C order.
    certain : int
        How many of them every table that fits contains; 0 where that was not found out in time, and where the true
        tables may not fit.
    misfit : float
        The sum of what the tables are off by, a count: 0 where they are not noisy.
    """

    counts: Ints = field(repr=False)
    certain: int
    misfit: float


def fit_block(published: CrossTables, records: int, *, prior: Floats | None = None, seconds: float = 20.0) -> CensusFit:
    """Whole records that fit a block's cross-tables best, by integer programmes.

    Of tables that fit equally well it takes those records that are the likeliest, where that is known.

    Parameters
    ----------
    published : CrossTables
        What is known of the block; noisy tables are fitted as well as they can be, in the sum of absolute misfits.
    records : int
        How many people live there.
    prior : (cells,) float64, optional
        The fraction of a wider population in each cell of the universe.
    seconds : float
        For each programme at most.

    Raises
    ------
    InvalidInput
        Without cvxpy (extra: attack), or where the time did not suffice for any solution.
    TooLarge
        For a universe of more than 16 384 cells.

    Examples
    --------
    >>> domain = Domain.coded({"sex": 2, "age": 3})
    >>> block = Table(domain, (np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint8)))
    >>> found = fit_block(publish(block, [(0,), (1,), (0, 1)]), 3)
    >>> found.certain, found.counts.tolist() == block.histogram().tolist()
    (3, True)
    """
    cvxpy = load_cvxpy()
    cells = published.domain.size
    if cells > MAX_BLOCK_CELLS:
        raise TooLarge(f"a block's universe of {cells:,} cells is too large; at most {MAX_BLOCK_CELLS:,} do")
    limit = {"solver": cvxpy.HIGHS, "time_limit": positive("seconds", seconds)}
    sums = _matrix(published)
    found = cvxpy.Variable(cells, integer=True)
    off = cvxpy.Variable(sums.shape[0], nonneg=True)
    fits = [
        found >= 0,
        cvxpy.sum(found) == natural("records", records),
        sums @ found >= published.low - off,
        sums @ found <= published.high + off,
    ]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(off)), fits)
    _solve(problem, limit)
    if found.value is None:
        raise InvalidInput(f"no records were found that fit the tables within {seconds:g} seconds; give more")
    misfit = max(float(problem.value), 0.0)
    fits.append(cvxpy.sum(off) <= misfit + _SLACK)
    best = np.rint(found.value).astype(np.int64)
    if prior is not None:
        _solve(cvxpy.Problem(cvxpy.Maximize(np.log(prior + _EMPTY_CELL_SHARE) @ found), fits), limit)
        best = best if found.value is None else np.rint(found.value).astype(np.int64)
    misfit = misfit if misfit > _SLACK else 0.0
    if not published.sure:
        return CensusFit(best, 0, misfit)
    others = cvxpy.Problem(*_farthest(cvxpy, found, best, fits))
    _solve(others, limit)
    certain = records - round(float(others.value)) if others.status == cvxpy.OPTIMAL else 0
    return CensusFit(best, certain, misfit)


def _solve(problem: Any, limit: dict[str, Any]) -> None:
    """A programme that runs out of time says so in its status, which the caller reads."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        problem.solve(**limit)


def _farthest(cvxpy: Any, found: Any, best: Ints, fits: list[Any]) -> tuple[Any, list[Any]]:
    """The programme whose value is how many records of `best` a table that fits can do without, at most."""
    support = np.flatnonzero(best)
    missing = cvxpy.Variable(len(support), nonneg=True)
    fewer = cvxpy.Variable(len(support), boolean=True)
    held = best[support]
    return cvxpy.Maximize(cvxpy.sum(missing)), [
        *fits,
        missing <= cvxpy.multiply(held, fewer),
        missing <= held - found[support] + cvxpy.multiply(int(best.sum()), 1 - fewer),
    ]


def _matrix(published: CrossTables) -> Any:
    """The 0-1 matrix (k, cells) by which records give the tables."""
    from scipy.sparse import csr_array, vstack

    shape, parts = published.domain.shape, []
    codes = np.unravel_index(np.arange(published.domain.size), shape)
    for axes in published.sets:
        sizes = tuple(shape[a] for a in axes)
        rows = np.ravel_multi_index(tuple(codes[a] for a in axes), sizes)
        ones = np.ones(len(rows))
        parts.append(csr_array((ones, (rows, np.arange(len(rows)))), shape=(int(np.prod(sizes)), len(rows))))
    return vstack(parts).tocsr()


@final
@dataclass(frozen=True)
class BlockReconstruction(NotPrivate):
    """How much of a block was reconstructed. Not private.

    Attributes
    ----------
    rule : str
        How its tables were published.
    people : int
        Who live there.
    recovered : int
        Records found that are in the block, in all columns and as often.
    certain : int
        Records of which the attacker knows without looking that they are right; 0 where the tables are noisy or records
        were exchanged.
    guessed : int
        Records that are right for who asks nothing about the block, and knows the whole population's table.
    """

    rule: str
    people: int
    recovered: int
    certain: int
    guessed: int


def beside_truth(name: str, block: Table, fitted: CensusFit, population: Table) -> BlockReconstruction:
    """What was found beside the truth, and beside a guess from the population that the block belongs to."""
    truth = block.histogram()
    share = population.histogram() / len(population)
    return BlockReconstruction(
        name,
        len(block),
        _common(fitted.counts, truth),
        fitted.certain,
        _common(_apportioned(share, len(block)), truth),
    )


def _common(one: Ints, other: Ints) -> int:
    """Records that two tables have in common."""
    return int(np.minimum(one, other).sum())


def _apportioned(shares: Floats, records: int) -> Ints:
    """Whole records in such shares, by the largest remainders."""
    expected = shares * records
    whole = np.floor(expected).astype(np.int64)
    rest = np.argsort(whole - expected, kind="stable")[: records - int(whole.sum())]
    whole[rest] += 1
    return whole
