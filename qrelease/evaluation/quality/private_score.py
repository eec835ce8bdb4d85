"""The figures of a quality report with noise, for one charge: for those who may not see the truth.

A tenth of the cost buys the number of records, where neighbours differ in it; the rest is divided equally between the
figures, each of which is a whole number, or a few, under discrete noise (Dwork & Roth 2014, Theorem 3.6; Canonne,
Kamath & Steinke 2020, Theorem 14), or a choice. How far a record moves each stands in `private_figures`. Which figures
there are is public: it depends on the schema, on the public records, and on whether scikit-learn is installed.

Where a person has several records, all of this is of those that are kept of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final, final

import numpy as np

from qrelease.data.domain import Domain
from qrelease.data.sources.batches import frame_reader
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.quality.associations import covariance, dependence, spread_pairs
from qrelease.evaluation.quality.copies import part
from qrelease.evaluation.quality.models import MAX_CLASSES, ROWS, why_untrained
from qrelease.evaluation.quality.private_figures import (
    Accuracy,
    Area,
    Figure,
    Foretelling,
    Gap,
    Records,
    Score,
    Worst,
    equivalent_subsample,
)
from qrelease.evaluation.quality.quality import LEAST, SETS, associated_pairs, sets_looked_at, targets_of
from qrelease.noise.calibration import calibrated, currency
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, split
from qrelease.release.synthetic import MAX_ROWS
from qrelease.statistics.base import BETA, EstimateResult, Measured, Value, spelled
from qrelease.statistics.private_columns import PrivateColumns

COUNTING: Final = 0.1
"""The share of the cost that buys the number of records, where it is private."""

SUBSAMPLE: Final = "equivalent subsample"
"""The name of the figure that is made of the score of three columns, for nothing."""

LEFT_OUT: Final = {
    "Cramér's V": "a record in a rare cell may move it by 1, for any number of records; the gap of dependence, which is"
    " of the same pairs, moves by 2/n",
    "correlations": "they divide by the spread of the private records, which one record may make; the gap of"
    " covariances divides by that of the synthetic ones",
    "regression coefficients": "where columns nearly go together a record moves them without bound; qrelease estimate"
    " has a private regression",
    "means and standard deviations": "qrelease estimate has them, each for a charge",
    "AUC and pMSE of real against synthetic records": "a model that tells them apart is trained on real ones",
    "what models learn from real records": "they are trained on real records",
    "matches and nearest records": "each is about single records, which is what noise hides",
    "sampling floor and independent columns": "they are drawn from the real records",
}
"""What a quality report has beside these figures, and why it is not among them."""

_MAX_RECORDS: Final = 1 << 36
"""A noisy number of records is cut there, lest its products leave 64 bits."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class QualityScores:
    """How near synthetic records are to the private ones, with noise: the figures of a quality report, for one charge.

    The value has, by name,

    - the k-marginal scores of up to five columns, from 0 to 1000, over the sets of the report;
    - `worst column`, `worst pair`: the largest L1 distance of the densities of one and of two columns, from 0 to 2;
      `choices` says of which;
    - `gap of dependence`, `gap of covariances`: the mean over pairs of columns of how far they differ; covariances are
      in standard deviations of the synthetic records;
    - `accuracy for …`, and for a column of two cells `AUC for …`: of boosted trees that are trained on the synthetic
      records alone, on the private ones (scikit-learn, the extra `evaluate`);
    - `equivalent subsample`: the share of the private records of which a sample is as far off by three columns, if
      their cells are spread as those of the synthetic records.

    All intervals hold at once. `choices` says under `left out` what else a report has, and why it is not among them.
    What is promised (`error_bound`) is the error of the scores, in points.

    Parameters
    ----------
    public
        Synthetic records over the same columns, public: such as those of a release charged to the same ledger. A table;
        or a data frame, which is read by the schema of the private one.
    target
        The column that is foretold; by default the last of those with fewest cells, and at least two.

    Raises
    ------
    InvalidInput
        For records that are no `Table` and no data frame.

    References
    ----------
    The score is that of NIST's Collaborative Research Cycle, (2 - mean L1 distance) * 500; noise is by Dwork & Roth
    2014, Theorem 3.6, and Canonne, Kamath & Steinke 2020, Theorem 14, choices by McKenna & Sheldon 2020.

    Examples
    --------
    >>> import qrelease as qr
    >>> adult = qr.data.adult(["sex", "income"])
    >>> with qr.Ledger.open(None, qr.PureDP(2.0)) as ledger:
    ...     curator = qr.Curator(adult, ledger)
    ...     release = curator.release(qr.Laplace(), qr.Workload.marginals(adult.domain, k=2), qr.PureDP(1.0))
    ...     synthetic = release.synthetic(10_000, frame="pandas")
    ...     found = curator.estimate(qr.QualityScores(synthetic), qr.PureDP(1.0))
    >>> found.value["2-marginal"] > 900, found.choices["worst pair"]
    (True, ('sex', 'income'))
    """

    public: Any
    target: str | None = None
    name: ClassVar[str] = "quality-scores"

    def __post_init__(self) -> None:
        if not isinstance(self.public, Table):
            frame_reader(self.public)  # which refuses what is no frame

    def __repr__(self) -> str:
        return f"QualityScores({len(self._table):,} public records)" if self._read else "QualityScores(a data frame)"

    def to_json(self) -> dict[str, Any]:
        """Its number of records and the column alone, for the public table may be large."""
        return {"public": {"records": len(self._table)}, "target": self.target}

    @cached_property
    def _read(self) -> list[Table]:
        """The public records as a table, once it is known by which schema a frame is read."""
        return [self.public] if isinstance(self.public, Table) else []

    @property
    def _table(self) -> Table:
        (read,) = self._read
        return read

    def _read_by(self, domain: Domain) -> None:
        """Read a frame by the schema of the private table; for another one it is read anew."""
        if not isinstance(self.public, Table) and [read.domain for read in self._read] != [domain.of_rows]:
            self._read[:] = [Table.from_frame(self.public, domain.of_rows)]
            self.__dict__.pop("_planned", None)

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`; the model is trained here, so that nothing is charged where it cannot be."""
        domain.check_decided()
        self._read_by(domain)
        if _of_bins(self._table.domain) != _of_bins(domain):
            raise InvalidInput("the synthetic table is over another universe than the private one")
        if not len(self._table):
            raise InvalidInput("the synthetic table has no records")
        if len(self._table) > MAX_ROWS:
            raise InvalidInput(
                f"there may be {MAX_ROWS:,} synthetic records, got {len(self._table):,}: take a sample of them"
            )
        if self.target is not None:
            domain.axis(self.target)
        figures = self.figures
        counting, parts = _shares(cost, neighbours, len(figures))
        if counting is not None:
            calibrated(1, counting)
        for figure, share in zip(figures, parts, strict=True):
            figure.check(neighbours, share)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """What is drawn, in its order; which figures these are is public."""
        return self._planned[0]

    @cached_property
    def _planned(self) -> tuple[tuple[Figure, ...], dict[str, str]]:
        """The figures in the order in which they are drawn, and what is left out beside `LEFT_OUT`."""
        public, columns = self._table, len(self._table.domain)
        figures: list[Figure] = [Score(public, sets_looked_at(columns, k)) for k in SETS if k <= columns]
        figures.append(Worst("worst column", public, sets_looked_at(columns, 1)))
        pairs = associated_pairs(public.domain)
        if columns > 1:
            figures.append(Worst("worst pair", public, sets_looked_at(columns, 2)))
        if pairs:
            halves = tuple((pair, Fraction(1)) for pair in pairs)
            figures.append(Gap("gap of dependence", public, halves, dependence, lambda _: 2))
        spread = tuple(spread_pairs(public, pairs))
        if spread:
            ranges = [size - 1 for size in public.domain.shape]
            figures.append(Gap("gap of covariances", public, spread, covariance, lambda p: ranges[p[0]] * ranges[p[1]]))
        foretold, left_out = _foretold(public, self.target)
        return (*figures, *foretold), left_out

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        self._read_by(private.domain)
        figures, left_out = self._planned
        counting, parts = _shares(cost, private.neighbours, len(figures))
        number, reach, measured, beta = private.count(), 0.0, [], BETA / len(figures)
        if counting is not None:
            noisy, law = private.measure("count the records", np.array([number]), 1, counting)
            measured.append(Measured("records", int(noisy[0]), spelled(law)))
            number, reach, beta = int(noisy[0]), law.reach(BETA / 2), beta / 2
        near = min(max(number, 1), _MAX_RECORDS)
        records = Records(near, reach + abs(number - near))
        found = {f.name: f.draw(private, share, records, beta) for f, share in zip(figures, parts, strict=True)}
        value: dict[str, Value] = {name: drawn.value for name, drawn in found.items()}
        interval = [drawn.interval for drawn in found.values()]
        if len(self._table) >= LEAST:
            k = min(3, len(self._table.domain))
            sets = sets_looked_at(len(self._table.domain), k)
            value[SUBSAMPLE], more = equivalent_subsample(self._table, sets, found[f"{k}-marginal"], records)
            interval.append(more)
        return EstimateResult(
            value,
            tuple(interval),
            f"all figures at once, from the reach of the noise, beta {BETA:g}",
            "the figures of the private records, of the sets and pairs of columns that a quality report looks at",
            (*measured, *(m for drawn in found.values() for m in drawn.measured)),
            {**{n: d.chosen for n, d in found.items() if d.chosen is not None}, "left out": {**LEFT_OUT, **left_out}},
            typical=max(drawn.typical for drawn in found.values()),
            records=max(records.near - records.reach, 0.0),
            unit="points of 1000, for the k-marginal scores",
        )

    def half_widths(
        self, domain: Domain, records: int | None, cost: Cost, neighbours: Neighbours
    ) -> dict[str, tuple[float, float]]:
        """About how wide the intervals will be, before anything is charged: by public facts alone.

        Parameters
        ----------
        domain, cost, neighbours
            As `check` had them.
        records
            How many private records there are, where that is public; None: about as many as public ones.

        Returns
        -------
        dict
            For each figure that is drawn half of the width of its interval, and its largest value: where the first is
            half of the second, the interval may be all that is possible, and says nothing.
        """
        self._read_by(domain)
        figures = self.figures
        counting, parts = _shares(cost, neighbours, len(figures))
        reach = 0.0 if counting is None else calibrated(1, counting)[0].reach(BETA / 2)
        near = Records(min(max(len(self._table) if records is None else records, 1), _MAX_RECORDS), reach)
        beta = BETA / len(figures) / (1 if counting is None else 2)
        return {
            f.name: (f.half_width(neighbours, share, near, beta), f.most)
            for f, share in zip(figures, parts, strict=True)
        }

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in points of a k-marginal score, of all of them at once. Infinite for tables too small to be
        counted.
        """
        self._read_by(domain)
        figures = self.figures
        counting, parts = _shares(cost, neighbours, len(figures))
        off = 0.0 if counting is None else calibrated(1, counting)[0].reach(beta / 2)
        least = min(records, _MAX_RECORDS) - off
        if least < 1:
            return math.inf
        scores = [(f, share) for f, share in zip(figures, parts, strict=True) if isinstance(f, Score)]
        part = (beta if counting is None else beta / 2) / len(scores)
        return max(f.error(f.law(neighbours, share), least, off / least, part) for f, share in scores)


def _shares(cost: Cost, neighbours: Neighbours, figures: int) -> tuple[PureDP | ZCDP | None, Sequence[PureDP | ZCDP]]:
    """What the number of records may cost, if it costs anything, and what each figure may."""
    spent, counting = currency(cost), None
    if neighbours is not Neighbours.REPLACE_ONE:
        counting, spent = split(spent, [COUNTING, 1 - COUNTING])
    return counting, split(spent, [1.0] * figures)


def _foretold(public: Table, target: str | None) -> tuple[list[Figure], dict[str, str]]:
    """How well the public records teach a model to foretell the private ones; or why that is left out."""
    what = "what models learn from synthetic records"
    goals = targets_of(public.domain, None if target is None else [target])
    if why_untrained() is not None:
        return [], {what: str(why_untrained())}
    if len(public.domain) < 2 or not goals:
        return [], {what: "there are no two columns"}
    if len(public) < LEAST:
        return [], {what: f"they take {LEAST} records"}
    name, size = public.domain.names[goals[0]], public.domain.shape[goals[0]]
    if not 2 <= size <= MAX_CLASSES:
        return [], {what: f"{name} has {size:,} cells, and models are for 2 to {MAX_CLASSES}"}
    learned = part(public, np.random.default_rng(0).permutation(len(public))[:ROWS])
    if len(np.unique(learned.columns[goals[0]])) < 2:
        return [], {what: f"all synthetic records that a model is trained on have one value of {name}"}
    model = Foretelling(learned, goals[0])
    model.train()
    if model.of_two:
        return [Accuracy(model), Area(model)], {}
    return [Accuracy(model)], {f"AUC for {name}": f"it has {size:,} cells, and the area is of two"}


def _of_bins(domain: Domain) -> Domain:
    """The cells of a domain alone: whose records they are, and where in its bin a number lies, does not matter."""
    plain = (replace(a, within=(), step=Fraction(0), shape=()) if a.within else a for a in domain)
    return replace(domain.of_rows, attributes=tuple(plain))
