"""Iterative construction with an update rule of one's own: what it promises, and what it does.

    python examples/iterative.py

A rule is any object with `start`, `update` and, for a promise, `alpha` and a proved `update_bound`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import qrelease as qr
from qrelease.inference.update_rules import Hedge, Projection
from qrelease.mechanisms.additive_noise import project
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader
from qrelease.queries.dense import dense
from qrelease.queries.oracles import ConjunctionOracle

COST = qr.ApproxDP(1.0, 1e-9)


@dataclass(frozen=True)
class ProjectedPerceptron:
    """The perceptron, taken to the nearest distribution after each step: x is one, so it only gets closer to x."""

    alpha: float

    def start(self, domain: qr.Domain, sets: object, total: float) -> qr.WeightedRecords:
        """The uniform distribution."""
        return qr.WeightedRecords.equal(domain, np.arange(domain.size), total)

    def update(self, state: qr.WeightedRecords, measurements: Sequence[qr.Measurement]) -> qr.WeightedRecords:
        """One step by the newest measurement."""
        query, gap = qr.furthest_off(state, measurements[-1])
        rows, unit = dense(qr.Workload(state.domain, (query,)))
        q = (rows[0] - rows[0].mean()) * unit
        return replace(state, weights=project(state.weights + np.sign(gap) * self.alpha / max(q @ q, 1e-9) * q, 1.0))

    def update_bound(self, domain: qr.Domain, workload: qr.Workload | None = None) -> int:
        """T(α): the perceptron's, as a projection only lowers the distance that its proof counts."""
        return qr.Perceptron(self.alpha).update_bound(domain, workload)


def main() -> None:
    """Print a table. The errors are NOT PRIVATE: they look at the true answers, of a table that is public."""
    table = qr.data.adult(["age", "sex", "income"])
    workload = qr.Workload.marginals(table.domain, 2)
    truth = np.concatenate(table.counts(workload.sets))
    print(f"{len(workload)} queries on {len(table):,} records of {table.domain}, at {COST}\n")
    print("promised inf: the theorem takes more records, or a larger epsilon, for the rounds of this rule\n")
    print(f"{'rule':22}{'distinguisher':18}{'promised':>9}{'error':>8}{'rounds':>8}{'at most':>9}")
    pairs: list[tuple[qr.BoundedRule[Any], qr.Distinguisher]] = [
        (Hedge(0.1), qr.Select("query")),
        (Projection(0.1), qr.Select("query")),
        (Projection(0.1), PerturbedLeader(ConjunctionOracle())),
        (qr.Perceptron(0.2), qr.Select("query")),
        (ProjectedPerceptron(0.2), qr.Select("query")),
    ]
    for rule, distinguisher in pairs:
        mechanism = qr.IterativeConstruction(rule, distinguisher)
        promised = mechanism.error(workload, len(table), COST, qr.Neighbours.ADD_REMOVE, beta=0.05)
        with qr.Ledger.open(None, COST, dataset="adult") as ledger:
            release = qr.Curator(table, ledger).release(mechanism, workload, COST)
        error = np.abs(release.answers() - truth).max() / len(table)
        made = sum(m.repeats for m in release.measurements) - 1  # less the count of the records
        names = (type(rule).__name__, type(distinguisher).__name__)
        print(f"{names[0]:22}{names[1]:18}{promised:9.3f}{error:8.3f}{made:8}{release.parameters['rounds']:9,}")


if __name__ == "__main__":
    main()
