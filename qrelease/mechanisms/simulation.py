"""Runs mechanisms on made-up records, to show their typical errors without private data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease._util.validate import whole
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import TooLarge
from qrelease.mechanisms.base import Mechanism, OnlineMechanism, Session
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload, single

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
class Simulation:
    """A workload over a stand-in table, with its exact answers (k,), counts."""

    workload: Workload
    table: Table
    answers: Floats

    @classmethod
    def of(cls, workload: Workload, records: int) -> Simulation:
        """Make the records up and count them."""
        table = stand_in(workload.domain, records)
        marginals = dict(zip(workload.sets, table.counts(workload.sets), strict=True))
        exact = [g.queries.apply(marginals[g.axes]) * g.queries.unit for g in workload.groups]
        return cls(workload, table, np.concatenate(exact))

    def trial(self, mechanism: Trial, cost: Cost, neighbours: Neighbours, seed: int) -> Floats:
        """Errors, counts, of the answers in one trial, with noise from a fixed seed.

        A session is asked the queries one by one, 1 000 of them at most. Raises what the mechanism raises.
        """
        if not isinstance(mechanism, OnlineMechanism):
            return self.errors(mechanism, cost, neighbours, seed)
        private = self._private(cost, neighbours, seed)
        order = np.random.default_rng(_SEED).permutation(len(self.workload))[:MAX_ASKED]
        mechanism.check(self.workload.domain, cost, neighbours, private.public_records)
        with Ledger.open(None, cost, neighbours=neighbours) as ledger:
            journal = ledger.journal(ledger.charge(cost, "a simulated session"))
            with mechanism.open(private, cost, journal) as session:
                return ask(session, self.workload, order) - self.answers[order]

    def errors(self, mechanism: Mechanism, cost: Cost, neighbours: Neighbours, seed: int) -> Floats:
        """Errors (k,), counts, of the answers of one simulated release with noise from a fixed seed."""
        mechanism.check(self.workload, cost, neighbours)
        result = mechanism.release(self._private(cost, neighbours, seed), self.workload, cost)
        return result.synopsis.answer(self.workload) - self.answers

    def _private(self, cost: Cost, neighbours: Neighbours, seed: int) -> Private:
        return Private(self.table, neighbours, Filter(cost), Entropy.insecure(seed))


def ask(session: Session, workload: Workload, order: npt.NDArray[np.int64]) -> Floats:
    """A session's answers to some of the queries of a workload, by their numbers, asked one by one in this order."""
    groups = np.searchsorted(workload.bounds, order, side="right") - 1
    found = []
    for index, g in zip(order.tolist(), groups.tolist(), strict=True):
        query = single(workload.groups[g], index - workload.bounds.item(g))
        found.append(session.answer(Workload(workload.domain, (query,))).value)
    return np.array(found)
