"""A mechanism that measures other queries than marginals, with answers and error bars for everything that follows.

    python examples/own_bars.py

Its synopsis is a class of its own. What gives the bars are two methods, found by their names: `error_bars`, the
unbiased answers and how far off these are, and `model_bars`, how far off the answers of `answer` are. Such a release is
used in this process, by `evaluate` and in an audit; it is not saved, since `qr.load` reads the package's synopses only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import qrelease as qr

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Doubling:
    """Ranges of 1, 2, 4, … consecutive cells of the only column, measured with Gaussian noise, and least squares."""

    name = "doubling"

    def check(self, workload: qr.Workload, cost: qr.Cost, neighbours: qr.Neighbours) -> None:
        """One column, and a cost in rho: its noise is Gaussian."""
        if len(workload.domain) != 1 or not isinstance(cost, qr.ZCDP):
            raise qr.InvalidInput(f"doubling is for one column and a rho, got {workload.domain} and {cost}")

    def release(self, private: qr.Private, workload: qr.Workload, cost: qr.Cost) -> qr.MechanismResult:
        """Measure the ranges once, and estimate all cells from them."""
        cells = workload.domain.size
        widths = [1 << k for k in range(cells.bit_length())]
        rows = np.array([[a <= c < a + w for c in range(cells)] for w in widths for a in range(0, cells, w)], float)
        rows = np.unique(rows, axis=0)
        measured = private.measure(qr.Workload.vectors(workload.domain, rows), cost)
        (found,) = measured
        covariance = np.linalg.inv(rows.T @ rows)
        synopsis = Estimated(workload.domain, covariance @ rows.T @ found.values, covariance * found.variance)
        return qr.MechanismResult(synopsis, measured)


@dataclass(frozen=True, eq=False)
class Estimated:
    """Unbiased estimates of all cells, (cells,) counts, with their covariance (cells, cells)."""

    domain: qr.Domain
    cells: Floats
    covariance: Floats
    has_table = False

    @property
    def total(self) -> float:
        """The estimated number of records."""
        return float(self.cells.sum())

    def answer(self, workload: qr.Workload) -> Floats:
        """(k,) counts: linear in the cells, so unbiased as they are."""
        return np.concatenate([g.queries.apply(self.cells) * g.queries.unit for g in workload.groups])

    def error_bars(self, workload: qr.Workload) -> tuple[Floats, Floats]:
        """The unbiased answers and their 95 % half-widths: 1.96 standard deviations of w · noise, sqrt(w C w)."""
        rows = np.concatenate([_rows(g.queries) for g in workload.groups])
        return rows @ self.cells, 1.96 * np.sqrt(((rows @ self.covariance) * rows).sum(axis=1))

    def model_bars(self, workload: qr.Workload) -> Floats:
        """The same half-widths: what is published are the unbiased answers. A model that smooths has others."""
        return self.error_bars(workload)[1]

    def sample(self, rows: int, rng: np.random.Generator) -> Any:
        """There are none: estimates may be negative."""
        raise qr.InvalidInput("this release has answers but no table")

    def to_json(self) -> dict[str, Any]:
        """For whoever looks at it; the package cannot read it."""
        return {"type": "estimated cells", "total": self.total}


def _rows(queries: Any) -> Floats:
    """The queries of a group as a matrix (k, cells), in counts."""
    return np.stack([queries.adjoint(one) * float(queries.unit) for one in np.eye(queries.count)])


def main() -> None:
    """Compare bars with errors. NOT PRIVATE: it looks at the true answers, of a table that is public."""
    table = qr.data.adult(["age"])
    ranges, cost = qr.Workload.ranges(table.domain, "age"), qr.ZCDP(0.001)
    inside = []
    for _ in range(20):
        release = qr.Curator(table, qr.Ledger.open(None, cost)).release(Doubling(), ranges, cost)
        truth = np.concatenate([g.queries.apply(table.counts([g.axes])[0]) for g in ranges.groups])
        noisy, widths = release.error_bars()
        inside.append(np.mean(np.abs(noisy - truth) <= widths))
    print(f"the truth lies inside {100 * np.mean(inside):.0f} % of the bars of {len(ranges)} ranges")
    print(f"age in 30..39: {release.answer('age in 30..39')}")  # a condition that no query measured by itself
    try:
        release.save("own-bars")
    except qr.InvalidInput as refused:
        print(f"not saved: {refused}")


if __name__ == "__main__":
    main()
