"""The most common cells of one or several columns, chosen one after another.

Scores are exact counts. Where records come and go all of them move the same way, by at most 1: then a selection at ε
needs the rate γ = ε, else γ = ε/2.

**Peeling.** The best of K is chosen, then the best of the rest, k times, each for the k-th part of the cost. Under zCDP
each is an exponential mechanism, whose privacy loss has a range of ε: k of them are kε²/8-zCDP (Cesar & Rogers 2021).
One draw of Gumbel noise on all scores, of which the k largest are released in order, is the same distribution (Durfee &
Rogers 2019): so this is that one-shot mechanism too, without its real-valued noise. Under pure ε each is
permute-and-flip, which is never worse.

**Error.** With probability 1 - β every choice has a count within (ln K + ln(k/β))/γ of the largest that was left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.validate import whole
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.noise.calibration import better_rule, currency, selection_epsilon
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, split
from qrelease.statistics.base import EstimateResult, Measured, Value
from qrelease.statistics.private_columns import PrivateColumns

MAX_CANDIDATES: Final = 1 << 20


def check_columns(domain: Domain, columns: object) -> int:
    """K, the number of cells of some columns; `InvalidInput` for names of no column, `TooLarge` beyond 2^20 cells."""
    if not isinstance(columns, tuple) or not columns or not all(isinstance(name, str) for name in columns):
        raise InvalidInput(f"columns must be a tuple of names, got {columns!r}")
    cells = domain.cells(domain.axes(columns))
    if cells > MAX_CANDIDATES:
        raise TooLarge(
            f"columns {', '.join(columns)} have {cells:,} cells, and at most {MAX_CANDIDATES:,} are candidates"
        )
    return cells


def cell_label(domain: Domain, columns: tuple[str, ...], cell: int) -> Value:
    """A cell as people read it: a text, or a tuple of one for each column."""
    shape = [domain[name].size for name in columns]
    codes = np.unravel_index(cell, shape)
    labels = tuple(domain[name].label(int(code)) for name, code in zip(columns, codes, strict=True))
    return labels[0] if len(labels) == 1 else labels


@final
@dataclass(frozen=True)
class MostCommon:
    """The k most common cells of some columns, the most common first; the module's docstring has the proofs.

    Parameters
    ----------
    columns
        Names. A candidate is a combination of their cells; at most 2^20 of them.
    k
        How many, fewer than there are cells.

    Notes
    -----
    Errors are counted in records: how many fewer a choice has than the best of those left.

    References
    ----------
    Durfee & Rogers 2019 for k at once, Cesar & Rogers 2021 for ε²/8, McKenna & Sheldon 2020 for permute-and-flip.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"job": 16})
    >>> error = MostCommon(("job",), 3).error_bound(domain, 1000, PureDP(1.0), Neighbours.ADD_REMOVE, beta=0.05)
    >>> round(error, 1)
    20.6
    """

    columns: tuple[str, ...]
    k: int = 1
    name: ClassVar[str] = "most-common"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        cells = check_columns(domain, self.columns)
        if whole("k", self.k, least=1) >= cells:
            raise InvalidInput(f"k must be below the number of cells, {cells}, got {self.k}")
        share = self._share(cost)
        selection_epsilon(share, better_rule(share))

    def _share(self, cost: Cost) -> PureDP | ZCDP:
        """The cost of one choice."""
        return split(currency(cost), [1] * self.k)[0]

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        share, counts = self._share(cost), private.counts(self.columns)
        monotone = private.neighbours is Neighbours.ADD_REMOVE
        left = np.arange(counts.size)
        chosen = []
        for place in range(self.k):
            at = private.choose(f"the most common cell, place {place + 1}", counts[left], 1, share, monotone=monotone)
            chosen.append(int(left[at]))
            left = np.delete(left, at)
        labels = tuple(cell_label(private.domain, self.columns, cell) for cell in chosen)
        return EstimateResult(
            labels,
            None,
            "none: the theorem bounds counts",
            f"the {self.k} most common of {' * '.join(self.columns)}",
            tuple(Measured(f"place {i + 1}", label, better_rule(share)) for i, label in enumerate(labels)),
            records=math.inf,
            unit="records",
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in records."""
        share = self._share(cost)
        rate = float(selection_epsilon(share, better_rule(share))) / (1 if neighbours is Neighbours.ADD_REMOVE else 2)
        error = (math.log(check_columns(domain, self.columns)) + math.log(self.k / beta)) / rate
        return error if error < records else math.inf
