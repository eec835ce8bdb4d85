"""A mechanism of one's own, from public names alone: released, saved, read back and compared.

    python examples/own_mechanism.py

It measures every column, selects the pairs on which independent columns are farthest off, measures these, and fits.
"""

import math
from dataclasses import dataclass
from itertools import combinations
from tempfile import TemporaryDirectory

import numpy as np

import qrelease as qr


@dataclass(frozen=True)
class Pairs:
    """Columns, and the pairs that depend on each other most, measured with Laplace noise, and a histogram of them."""

    pairs: int = 4

    @property
    def name(self) -> str:
        """As the release and the ledger have it."""
        return "pairs"

    def check(self, workload: qr.Workload, cost: qr.Cost, neighbours: qr.Neighbours) -> None:
        """Whatever can be known to be wrong before anything is charged: what is raised here costs nothing."""
        if not isinstance(cost, qr.PureDP):
            raise qr.InvalidInput(f"pairs spends epsilon alone, got {cost}")
        if not 1 <= self.pairs <= math.comb(len(workload.domain), 2):
            raise qr.InvalidInput(f"pairs of {len(workload.domain)} columns, got {self.pairs}")
        qr.check_fitted(workload, qr.Workload.marginals(workload.domain, 1))

    def release(self, private: qr.Private, workload: qr.Workload, cost: qr.Cost) -> qr.MechanismResult:
        """Draw, within the cost: `private` spends before each draw, and refuses what is not covered."""
        assert isinstance(cost, qr.PureDP)  # `check` let nothing else pass
        columns, selecting, measuring = qr.split(cost, [0.3, 0.2, 0.5])
        measured = private.measure(qr.Workload.marginals(workload.domain, 1), columns)
        chosen = self.farthest(private, measured, selecting)
        pairs = qr.Workload.marginals(workload.domain, [[workload.domain.names[a] for a in s] for s in chosen])
        measured += private.measure(pairs, measuring)
        synopsis = qr.fitted(workload, measured, private.public_records)
        return qr.MechanismResult(synopsis, tuple(measured), {"selected": pairs.to_json()})

    def farthest(self, private: qr.Private, columns: list[qr.Measurement], cost: qr.PureDP) -> list[tuple[int, ...]]:
        """Pairs of columns that are far from what independent columns would have, selected one by one."""
        domain, sets = private.domain, list(combinations(range(len(private.domain)), 2))
        ones = [np.maximum(m.values, 0.5) for m in columns]
        total = float(np.mean([v.sum() for v in ones]))
        exact = private.exact(qr.Workload.marginals(domain, 2))  # private: for scores alone
        # One record moves a cell by 1, one that is replaced two cells: so a score, of whole counts, by 2 at most.
        expected = [np.rint(np.outer(ones[a], ones[b]) * total / ones[a].sum() / ones[b].sum()) for a, b in sets]
        scores = [int(np.abs(e - m.reshape(-1).astype(int)).sum()) for e, m in zip(exact, expected, strict=True)]
        chosen: list[tuple[int, ...]] = []
        for part in qr.split(cost, [1 / self.pairs] * self.pairs):
            among = [i for i, s in enumerate(sets) if s not in chosen]
            picked = private.select(np.array([scores[i] for i in among]), 2, part, "exponential")
            chosen.append(sets[among[picked]])
        return chosen


def main() -> None:
    """Use it as any other."""
    table = qr.data.adult(["marital-status", "relationship", "race", "sex", "income"])
    workload, cost = qr.Workload.marginals(table.domain, 2), qr.PureDP(0.05)
    curator = qr.Curator(table, qr.Ledger.open(None, cost))  # in memory, as the table is public
    release = curator.release(Pairs(), workload, cost)
    print(f"selected {[entry['columns'] for entry in release.parameters['selected']]}")
    question = "sex = 'Female' and income = '>50K'"
    # A wide bar, and no mistake: sex and income were not measured together, so it is what their own counts allow.
    print(f"{question}: {release.answer(question)}")
    with TemporaryDirectory() as folder:
        release.save(f"{folder}/out")
        again = qr.load(f"{folder}/out")
        assert np.allclose(again.answers(), release.answers())
    # The table is public: for private data such a comparison is for the data holder's eyes alone.
    truth = np.concatenate([counts.reshape(-1) for counts in table.counts(workload.sets)])
    for mechanism in (Pairs(), qr.Laplace(), qr.Auto()):
        other = qr.Curator(table, qr.Ledger.open(None, cost)).release(mechanism, workload, cost)
        print(f"{mechanism.name:8} mean error of an answer {np.abs(other.answers() - truth).mean():8.1f} records")
    print("audit it: qr.audit_mechanism(Pairs(1), cost, qr.Neighbours.ADD_REMOVE, samples=10_000)")


if __name__ == "__main__":
    main()
