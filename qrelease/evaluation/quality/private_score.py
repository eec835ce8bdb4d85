"""The k-marginal score of a public table against the private one, for a charge: for those who may not see the truth.

Let x be the private counts of a marginal, n their number, y the m public records' counts, and c a public number of
records. Then

    U = Σ over the sets S of Σ over the cells of S |m x - c y|

is a whole number. A record that is there or not changes one cell of each marginal by 1, so U by at most m for each set;
one that is replaced changes two, so U by at most 2m for each. So with discrete noise for that sensitivity U costs what
the noise is calibrated to (Dwork & Roth 2014, Thm 3.6; Canonne, Kamath & Steinke 2020, Thm 14; Balle & Wang 2018).

Where neighbours have as many records, c = n is public, and U / (m n |S|) is the mean L1 distance d of the densities.
Else c is a noisy count, which is paid for first. As |x/c - y/m| and |x/n - y/m| differ by |x/c - x/n|, which sums to
|n/c - 1| over a marginal, d is then off by at most that besides: both errors are in the figure that is told.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, final

import numpy as np

from qrelease._util.typing import Axes
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, LedgerError, RowsChangedWarning
from qrelease.evaluation.quality.marginals import BEST, counts_of, sets_of
from qrelease.mechanisms.private_data import Private
from qrelease.noise.calibration import calibrated, currency
from qrelease.noise.distributions import CONFIDENCE, Noise
from qrelease.noise.entropy import Entropy, WordSource, is_insecure
from qrelease.noise.samplers import discrete_gaussian, discrete_laplace
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, check_cost, split
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.release.release import MAX_ROWS

SETS: Final = 200
"""Sets of columns of one size whose distances are averaged."""

ORDERS: Final = (1, 2, 3)
"""Columns in a set, of the three scores."""

COUNTING: Final = 0.1
"""The share of the cost that buys the number of records, where it is private."""


_MOST_RECORDS: Final = 1 << 36  # a noisy number of records is cut there, lest its products leave 64 bits


@final
@dataclass(frozen=True)
class PrivateScore:
    """A noisy k-marginal score: public.

    score   of 1000; noise may take it beyond
    error   half the width of an interval that has the exact score with probability 95 % at least
    """

    columns: int
    sets: int
    score: float
    error: float

    def __str__(self) -> str:
        return f"{self.columns}-marginal score: {self.score:.1f} ± {self.error:.1f} of 1000, over {self.sets:,} sets"

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {"columns": self.columns, "sets": self.sets, "score": self.score, "error_95": self.error}


@final
@dataclass(frozen=True)
class PrivateScores:
    """The scores that one charge bought; `insecure`: whether the noise protects nobody."""

    scores: tuple[PrivateScore, ...]
    cost: Cost
    insecure: bool

    def __str__(self) -> str:
        mark = ["INSECURE: the noise did not come from the system's entropy and protects nobody"] * self.insecure
        return "\n".join([*mark, *map(str, self.scores), f"charged: {self.cost:.6g}"])

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        scores = [score.to_json() for score in self.scores]
        return {"scores": scores, "cost": self.cost.to_json(), "insecure": self.insecure}


def statistic(private: Table, public: Table, records: int, sets: tuple[Axes, ...]) -> int:
    """U, see the module. Private."""
    found = 0
    for axes in sets:
        x, y = counts_of([private, public], axes)
        found += int(np.abs(len(public) * x - records * y).sum())
    return found


def sensitivity(public: Table, sets: tuple[Axes, ...], neighbours: Neighbours) -> int:
    """How far one record moves U, at most."""
    return len(public) * len(sets) * (2 if neighbours is Neighbours.REPLACE_ONE else 1)


def _noise(
    public: Table, sets: tuple[Axes, ...], neighbours: Neighbours, cost: PureDP | ZCDP
) -> tuple[Noise, Fraction]:
    moved = sensitivity(public, sets, neighbours)
    return calibrated(moved if isinstance(cost, PureDP) else moved**2, cost)


def private_scores(
    table: Table,
    public: Table,
    ledger: Ledger,
    cost: Cost,
    *,
    entropy: WordSource | None = None,
    changed_rows: bool = False,
) -> PrivateScores:
    """The noisy 1-, 2- and 3-marginal scores of a public table, for one charge.

    Parameters
    ----------
    table : Table
        The private records.
    public : Table
        Synthetic records over the same universe, public: such as a release charged to the same ledger.
    ledger : Ledger
        The budget of the private records.
    cost : PureDP, ApproxDP or ZCDP
        Of all scores together.
    entropy : Entropy, optional
        Where the noise comes from: the operating system, by default.
    changed_rows : bool
        That the records may be others than those of earlier charges; else it is a `RowsChangedWarning`, before the
        charge.

    Returns
    -------
    PrivateScores
        Public; each with its error.

    Raises
    ------
    BudgetExceeded
        If the ledger does not cover the cost. Nothing is charged then.
    InvalidInput
        For tables over two universes, a public table without records, and a cost too small for the samplers.

    Examples
    --------
    >>> import qrelease as qr
    >>> adult = qr.data.adult(["sex", "income"])
    >>> with qr.Ledger.open(None, qr.PureDP(2.0)) as ledger:
    ...     curator = qr.Curator(adult, ledger)
    ...     release = curator.release(qr.Laplace(), qr.Workload.marginals(adult.domain, k=2), qr.PureDP(1.0))
    ...     synthetic = qr.Table.from_frame(release.synthetic(10_000, frame="pandas"), adult.domain)
    ...     found = private_scores(adult, synthetic, ledger, qr.PureDP(1.0))
    >>> [bool(score.score > 900) for score in found.scores]
    [True, True]
    """
    check_cost(cost)
    table.domain.check_decided()
    if table.domain.at_most is not None:
        raise InvalidInput(
            "a private score is of a table with one record a person, and here each has at most"
            f" {table.domain.at_most:,}: make it one by [person.derive] in the schema"
        )
    ledger.check_unit(table.person_column)
    if public.domain != table.domain.of_rows:
        raise InvalidInput("the synthetic table is over another universe than the private one")
    if not len(public):
        raise InvalidInput("the synthetic table has no records")
    neighbours, source = ledger.neighbours, Entropy() if entropy is None else entropy
    columns = len(table.domain)
    if len(public) > MAX_ROWS:
        raise InvalidInput(f"there may be {MAX_ROWS:,} synthetic records, got {len(public):,}: take a sample of them")
    asked = [sets_of(columns, k, SETS) for k in ORDERS if k <= columns]
    spent = currency(cost)
    counting = None
    if neighbours is not Neighbours.REPLACE_ONE:
        counting, spent = split(spent, [COUNTING, 1 - COUNTING])
    parts = split(spent, [1.0] * len(asked))
    noises = [_noise(public, sets, neighbours, part) for sets, part in zip(asked, parts, strict=True)]
    if counting is not None:
        calibrated(1, counting)
    if ledger.store.in_writing:
        raise LedgerError("scores are not drawn inside a transaction, which could undo their charge")
    rows = ledger.rows_of(table.fingerprint)
    notice = None if changed_rows else ledger.notice(rows)
    if notice:
        warnings.warn(notice, RowsChangedWarning, stacklevel=2)
    ledger.charge(cost, f"quality: {len(asked)} k-marginal scores", rows=rows)
    private = Private(table, neighbours, Filter(currency(cost)), source)
    records, counted = private.count(counting)
    near = min(max(round(records), 1), _MOST_RECORDS)
    beta = (1 - CONFIDENCE) / (1 if counted is None else 2)  # the two errors share what may fail
    missed = 0.0 if counted is None else counted.noise.reach(beta) / near
    found = []
    for sets, part, (law, parameter) in zip(asked, parts, noises, strict=True):
        private.spend(f"score {len(sets)} marginals", part)
        draw = discrete_laplace if law.law == "discrete Laplace" else discrete_gaussian
        noisy = statistic(table, public, near, sets) + int(draw(parameter, 1, source)[0])
        unit = len(public) * near * len(sets)
        score = (2.0 - noisy / unit) * BEST / 2
        found.append(PrivateScore(len(sets[0]), len(sets), score, (law.reach(beta) / unit + missed) * BEST / 2))
    return PrivateScores(tuple(found), cost, is_insecure(source))
