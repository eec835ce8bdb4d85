"""A release of a small table."""

from worlds import (
    PEOPLE,
    random_table,
)

from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

COST = ApproxDP(1.0, 1e-6)
TABLE = random_table(PEOPLE, 200, 0)
PAIRS = Workload.marginals(PEOPLE, 2)


def released(mechanism=None, table=TABLE, asked=PAIRS, cost=COST, relation=Neighbours.ADD_REMOVE, seed=0):
    mechanism = MWEM(rounds=4) if mechanism is None else mechanism
    with Ledger.open(None, cost, neighbours=relation) as opened:
        return Curator(table, opened, Entropy.insecure(seed)).release(mechanism, asked, cost)
