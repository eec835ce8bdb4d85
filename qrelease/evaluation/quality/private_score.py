"""The k-marginal scores of a public table against the private one, for a charge: for those who may not see the truth.

Let x be the private counts of a marginal, n their number, y the m public records' counts, and c a public number of
records. Then

    U = Σ over the sets S of Σ over the cells of S |m x - c y|

is a whole number. A record that is there or not changes one cell of each marginal by 1, so U by at most m for each set;
one that is replaced changes two, so U by at most 2m for each. So with discrete noise for that sensitivity U costs what
the noise is calibrated to (Dwork & Roth 2014, Thm 3.6; Canonne, Kamath & Steinke 2020, Thm 14; Balle & Wang 2018).

Where neighbours have as many records, c = n is public, and U / (m n |S|) is the mean L1 distance d of the densities.
Else c is a noisy count, which is paid for first. As |x/c - y/m| and |x/n - y/m| differ by |x/c - x/n|, which sums to
|n/c - 1| over a marginal, d is then off by at most that besides: both errors are in the interval that is told.

Where a person has several records, all of this is of those that are kept of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Axes
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.quality.marginals import BEST, sets_of
from qrelease.noise.calibration import calibrated, currency, sensitivity_of_one
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours, split
from qrelease.release.synthetic import MAX_ROWS
from qrelease.statistics.base import BETA, EstimateResult, Measured, Value, spelled
from qrelease.statistics.private_columns import PrivateColumns, moves

SETS: Final = 200
"""Sets of columns of one size whose distances are averaged."""

ORDERS: Final = (1, 2, 3)
"""Columns in a set, of the three scores."""

COUNTING: Final = 0.1
"""The share of the cost that buys the number of records, where it is private."""

_MAX_RECORDS: Final = 1 << 36
"""A noisy number of records is cut there, lest its products leave 64 bits."""

_MAX_DISTANCE: Final = 1 << 62
"""U is cut there, for the same reason: that moves no two tables apart. Only where billions of records lie elsewhere
than the public ones is it reached."""


@final
@dataclass(frozen=True)
class _Shares:
    """What the number of records may cost, if it costs anything, and what each score may."""

    counting: Cost | None
    scores: list[Cost]

    @classmethod
    def of(cls, cost: Cost, neighbours: Neighbours, scores: int) -> _Shares:
        spent, counting = currency(cost), None
        if neighbours is not Neighbours.REPLACE_ONE:
            counting, spent = split(spent, [COUNTING, 1 - COUNTING])
        return cls(counting, list(split(spent, [1.0] * scores)))


@final
@dataclass(frozen=True, eq=False, repr=False)
class MarginalScores:
    """How near synthetic records are to the private ones, with noise: scores from 0 to 1000 on 1, 2 and 3 columns.

    Their error is in points of the score. Noise may take a score beyond 1000.

    Parameters
    ----------
    public
        Synthetic records over the same columns, public: such as those of a release charged to the same ledger.

    Raises
    ------
    InvalidInput
        For records that are no `Table`.

    References
    ----------
    The score is that of NIST's Collaborative Research Cycle, (2 - mean L1 distance) * 500; its noise is by Dwork & Roth
    2014, Theorem 3.6, and Canonne, Kamath & Steinke 2020, Theorem 14.

    Examples
    --------
    >>> import qrelease as qr
    >>> adult = qr.data.adult(["sex", "income"])
    >>> with qr.Ledger.open(None, qr.PureDP(2.0)) as ledger:
    ...     curator = qr.Curator(adult, ledger)
    ...     release = curator.release(qr.Laplace(), qr.Workload.marginals(adult.domain, k=2), qr.PureDP(1.0))
    ...     synthetic = qr.Table.from_frame(release.synthetic(10_000, frame="pandas"), adult.domain)
    ...     found = curator.estimate(qr.MarginalScores(synthetic), qr.PureDP(1.0))
    >>> [bool(score > 900) for score in found.value.values()]
    [True, True]
    """

    public: Table
    name: ClassVar[str] = "marginal-scores"

    def __post_init__(self) -> None:
        given: object = self.public
        if not isinstance(given, Table):
            kind = type(given).__name__
            raise InvalidInput(f"synthetic records must be a table, as of Table.from_frame(frame, schema), got {kind}")

    def __repr__(self) -> str:
        return f"MarginalScores({len(self.public):,} public records)"

    def to_json(self) -> dict[str, Any]:
        """Its number of records alone, for the public table may be large."""
        return {"public": {"records": len(self.public)}}

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        domain.check_decided()
        if _of_bins(self.public.domain) != _of_bins(domain):
            raise InvalidInput("the synthetic table is over another universe than the private one")
        if not len(self.public):
            raise InvalidInput("the synthetic table has no records")
        if len(self.public) > MAX_ROWS:
            raise InvalidInput(
                f"there may be {MAX_ROWS:,} synthetic records, got {len(self.public):,}: take a sample of them"
            )
        for axes in [axes for sets in _sets(domain) for axes in sets]:
            self.public.check_counts([axes])  # the private records are counted in the same cells, after the charge
        self._laws(domain, cost, neighbours)

    def _laws(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> tuple[Noise | None, list[Noise]]:
        """The noise of the number of records, if it is private, and of each U."""
        sets = _sets(domain)
        shares = _Shares.of(cost, neighbours, len(sets))
        counting = None if shares.counting is None else calibrated(1, shares.counting)[0]
        moved = [sensitivity(self.public, s, neighbours) for s in sets]
        return counting, [
            calibrated(sensitivity_of_one(m, part), part)[0] for m, part in zip(moved, shares.scores, strict=True)
        ]

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        sets = _sets(private.domain)
        shares = _Shares.of(cost, private.neighbours, len(sets))
        measured, reach, beta = [], 0.0, BETA / len(sets)
        records = private.count()
        if shares.counting is not None:
            noisy, counting = private.measure("count the records", np.array([records]), 1, shares.counting)
            measured.append(Measured("records", int(noisy[0]), spelled(counting)))
            records, reach, beta = int(noisy[0]), counting.reach(BETA / 2), beta / 2
        near = min(max(records, 1), _MAX_RECORDS)
        value, interval, spread = dict[str, Value](), list[tuple[float, float]](), 0.0
        for each, part in zip(sets, shares.scores, strict=True):
            exact = marginal_distance(private, self.public, near, each)
            moved = sensitivity(self.public, each, private.neighbours)
            what = f"distance of {len(each)} marginals on {len(each[0])}"
            noisy, law = private.measure(what, np.array([exact]), sensitivity_of_one(moved, part), part)
            unit = len(self.public) * near * len(each)
            score = (2.0 - int(noisy[0]) / unit) * BEST / 2
            error = (law.reach(beta) / unit + reach / near) * BEST / 2
            value[f"{len(each[0])}-marginal"] = score
            interval.append((score - error, score + error))
            spread = max(spread, math.sqrt(law.variance) / unit * BEST / 2)
            measured.append(Measured(what, int(noisy[0]), spelled(law)))
        return EstimateResult(
            value,
            tuple(interval),
            f"all scores are within the reach of the noise, beta {BETA:g}",
            f"the scores of 1000, each over at most {SETS} sets of columns",
            tuple(measured),
            typical=spread,
            records=max(records - reach, 0.0),
            unit="points of 1000",
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in points of a score, of all scores at once. Infinite for tables too small to be counted."""
        counting, laws = self._laws(domain, cost, neighbours)
        off = 0.0 if counting is None else counting.reach(beta / 2)
        least = min(records, _MAX_RECORDS) - off
        if least < 1:
            return math.inf
        share = (beta if counting is None else beta / 2) / len(laws)
        units = [len(self.public) * least * len(sets) for sets in _sets(domain)]
        worst = max(law.reach(share) / unit for law, unit in zip(laws, units, strict=True))
        return (worst + off / least) * BEST / 2


def sensitivity(public: Table, sets: tuple[Axes, ...], neighbours: Neighbours) -> int:
    """How far one record moves U, at most."""
    return len(public) * len(sets) * moves(neighbours)


def marginal_distance(private: PrivateColumns, public: Table, records: int, sets: tuple[Axes, ...]) -> int:
    """U, see the module. Private."""
    names, found = private.domain.names, 0
    for axes in sets:
        x = private.counts(tuple(names[a] for a in axes))
        (y,) = public.counts([axes])
        found += int(np.abs(len(public) * x - records * y).sum())
    return min(found, _MAX_DISTANCE)


def _sets(domain: Domain) -> list[tuple[Axes, ...]]:
    """The sets of columns of each score."""
    return [sets_of(len(domain), k, SETS) for k in ORDERS if k <= len(domain)]


def _of_bins(domain: Domain) -> Domain:
    """The cells of a domain alone: whose records they are, and where in its bin a number lies, does not matter."""
    plain = (replace(a, within=(), step=Fraction(0), shape=()) if a.within else a for a in domain)
    return replace(domain.of_rows, attributes=tuple(plain))
