"""Mechanisms tried on records that are made up: what their errors are typically like, without private data."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from qrelease.contracts import Mechanism, OnlineMechanism, Session
from qrelease.curator import Curator
from qrelease.domain import Domain
from qrelease.entropy import Entropy
from qrelease.errors import TooLarge
from qrelease.exact import whole
from qrelease.hypotheses import single
from qrelease.ledger import Ledger
from qrelease.privacy import Cost, Neighbours
from qrelease.table import Table
from qrelease.workload import Workload

Floats = npt.NDArray[np.float64]
Trial = Mechanism | OnlineMechanism[Session]

MAX_RECORDS: Final = 1 << 23
"""Records that are made up at most."""

MAX_ASKED: Final = 1000
"""Queries, drawn from the workload, that a session is asked at most."""

_KINDS: Final = 8
_SEED: Final = 0

STAND_IN: Final = f"records that are made up, always the same: a mixture of {_KINDS} products of skewed columns"


def stand_in(domain: Domain, records: int) -> Table:
    """A table that stands in for one nobody may look at: `STAND_IN`.

    Each kind of record has a distribution of its own for each column, Dirichlet(1/2). `TooLarge` for more than 2^23.
    """
    if whole("records", records, least=1) > MAX_RECORDS:
        raise TooLarge(f"{records:,} records are too many to be made up; at most {MAX_RECORDS:,} are")
    rng = np.random.default_rng(_SEED)
    kinds = rng.multinomial(records, rng.dirichlet(np.ones(_KINDS)))
    columns = []
    for size in domain.shape:
        laws = rng.dirichlet(np.full(size, 0.5), size=_KINDS)
        columns.append(np.concatenate([rng.choice(size, k, p=law) for k, law in zip(kinds, laws, strict=True)]))
    return Table(domain, tuple(columns))


@final
@dataclass(frozen=True, eq=False)
class Rehearsal:
    """A workload over a stand-in, with its exact answers (k,), counts."""

    workload: Workload
    table: Table
    answers: Floats

    @classmethod
    def of(cls, workload: Workload, records: int) -> Rehearsal:
        """Make the records up and count them."""
        table = stand_in(workload.domain, records)
        marginals = dict(zip(workload.sets, table.counts(workload.sets), strict=True))
        exact = [g.queries.apply(marginals[g.axes]) * g.queries.unit for g in workload.groups]
        return cls(workload, table, np.concatenate(exact))

    def error(self, mechanism: Trial, cost: Cost, neighbours: Neighbours, trials: int) -> float:
        """The largest error over all queries, a fraction of the records: the median of trials from fixed seeds.

        A session is asked the queries one by one, 1 000 of them at most. Raises what the mechanism raises.
        """
        errors = []
        for seed in range(whole("trials", trials, least=1)):
            with Ledger.open(None, cost, neighbours=neighbours) as ledger:
                errors.append(self._error(mechanism, Curator(self.table, ledger, Entropy.insecure(seed)), cost))
        return statistics.median(errors) / len(self.table)

    def _error(self, mechanism: Trial, curator: Curator, cost: Cost) -> float:
        if not isinstance(mechanism, OnlineMechanism):
            return float(np.abs(curator.release(mechanism, self.workload, cost).answers() - self.answers).max())
        order = np.random.default_rng(_SEED).permutation(len(self.workload))[:MAX_ASKED]
        with curator.open(mechanism, cost) as session:
            return float(np.abs(ask(session, self.workload, order) - self.answers[order]).max())


def ask(session: Session, workload: Workload, order: npt.NDArray[np.int64]) -> Floats:
    """A session's answers to some of the queries of a workload, by their numbers, asked one by one in this order."""
    groups = np.searchsorted(workload.bounds, order, side="right") - 1
    found = []
    for index, g in zip(order.tolist(), groups.tolist(), strict=True):
        query = single(workload.groups[g], index - workload.bounds.item(g))
        found.append(session.answer(Workload(workload.domain, (query,))).value)
    return np.array(found)
