"""Which cells of some columns have at least T records: a session of sparse vector over all of them.

The cells are asked one after another, in their order, whether their count is above T; a ⊥ is free, and after c times ⊤
the session ends. The forms are those of `noise.sparse_vector`, with their proofs: `best` is the engine's stream, with
monotone queries where records come and go; `sparse` and `numeric` are Dwork & Roth's algorithms 2 and 3, with the
threshold drawn anew after each ⊤ and, in the second, a fresh noisy count for each.

Asking each of K cells by itself with Laplace noise costs K times as much, or has noise for ε/K; but where the cells are
disjoint, one record is in one of them, and all counts together cost what one does: `qrelease release` is better then.
What a session is for is queries that overlap or come one at a time, of which few are above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, final

from qrelease._util.validate import whole
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import currency
from qrelease.noise.sparse_vector import Calibration, NumericSparse, Sparse, SparseVector
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.statistics.base import EstimateResult, Measured
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.selection import cell_label, check_columns

_FORMS: Final[dict[str, Any]] = {"best": SparseVector, "sparse": Sparse, "numeric": NumericSparse}


@final
@dataclass(frozen=True)
class AboveThresholds:
    """Finds the first c cells, in their order, whose counts are above T; the module's docstring has its variants.

    Parameters
    ----------
    columns
        Names. A query is the count of a combination of their cells; at most 2^20 of them.
    threshold
        T, a count.
    positives
        c, after how many the session ends.
    form
        `best`, `sparse` or `numeric`.

    Notes
    -----
    Errors are counted in records: with probability 1 - β all that were said to be above have at least T - α, and all
    that were asked and not said to be have at most T + α. A numeric answer is a pair of a label and a noisy count.

    References
    ----------
    Dwork & Roth 2014, Algorithms 2 and 3, Theorems 3.25 and 3.28; for the best form Lyu, Su & Li 2017 and Liu,
    Wang, Liu, Li & Chen 2024, with the proof and the constants in `noise.sparse_vector`.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"job": 16})
    >>> best, sparse = (AboveThresholds(("job",), 500, 3, form) for form in ("best", "sparse"))
    >>> asked = domain, 10_000, PureDP(1.0), Neighbours.ADD_REMOVE
    >>> best.error_bound(*asked, beta=0.05) < sparse.error_bound(*asked, beta=0.05) / 3
    True
    """

    columns: tuple[str, ...]
    threshold: int
    positives: int = 1
    form: Literal["best", "sparse", "numeric"] = "best"
    name: ClassVar[str] = "above-thresholds"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        check_columns(domain, self.columns)
        if self.form not in _FORMS:
            raise InvalidInput(f"form must be one of {', '.join(_FORMS)}, got {self.form!r}")
        whole("threshold", self.threshold, least=0)
        self._calibration(cost, neighbours)

    def _stream(self, cost: Cost, neighbours: Neighbours) -> tuple[Cost, dict[str, bool]]:
        """The cost as the stream takes it, and its options."""
        if self.form == "best":
            return currency(cost), {"monotone": neighbours is Neighbours.ADD_REMOVE}
        return cost, {}

    def _calibration(self, cost: Cost, neighbours: Neighbours) -> Calibration:
        paid, options = self._stream(cost, neighbours)
        made: Calibration = _FORMS[self.form].calibrate(paid, self.positives, 1, **options)
        return made

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        paid, options = self._stream(cost, private.neighbours)
        counts = private.counts(self.columns)
        stream = private.stream("which are above", paid, _FORMS[self.form], self.positives, 1, **options)
        found: list[Any] = []
        asked = 0
        while asked < counts.size and not stream.halted:
            hit = stream.ask_many(counts[asked:], self.threshold)
            if hit is None:
                asked = counts.size
                continue
            asked += hit[0] + 1
            label = cell_label(private.domain, self.columns, asked - 1)
            found.append((label, hit[1]) if self.form == "numeric" else label)
        law = f"{type(stream).__name__}, {self.positives} positives"
        return EstimateResult(
            tuple(found),
            None,
            "none: the theorem bounds counts",
            f"the cells of {' * '.join(self.columns)} with at least {self.threshold:,} records",
            (Measured("cells asked", asked, law),),
            {"asked": asked, "halted": stream.halted},
            records=math.inf,
            unit="records",
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; α, in records: of the decisions, and of the numbers where there are any."""
        calibration = self._calibration(cost, neighbours)
        numeric = calibration.numeric is not None
        decided = max(calibration.alpha(check_columns(domain, self.columns), beta / 2 if numeric else beta))
        error = max(decided, calibration.numeric_alpha(beta / 2)) if numeric else decided
        return error if error < records else math.inf
