"""Online sessions on a small table, and the queries that are asked of them."""

import itertools

import numpy as np
from worlds import coded, random_table

from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

SWAP, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
CAPS = [PureDP(50.0), ZCDP(50.0), ApproxDP(50.0, 1e-6)]
DOMAIN = coded(2, 3, 4)
TABLE = random_table(DOMAIN, 4_000, seed=1)
ONLINE = Online(alpha=0.1, beta=0.01)


def curator(cap=CAPS[0], neighbours=SWAP, table=TABLE, path=None, seed=1):
    return Curator(table, Ledger.open(path, cap, neighbours=neighbours), Entropy.insecure(seed))


def opened(mechanism=ONLINE, cap=CAPS[0], neighbours=SWAP, table=TABLE, path=None, seed=1, key=None):
    return curator(cap, neighbours, table, path, seed).open(mechanism, cap, key=key)


def box(sets, domain=DOMAIN):
    """A conjunction as a workload of one query on the whole universe, and its row."""
    parts = [np.isin(np.arange(n), list(s)) for n, s in zip(domain.shape, sets, strict=True)]
    row = np.einsum("i,j,k->ijk", *parts).reshape(-1).astype(float)
    return Workload.vectors(domain, row[None, :]), row


def subsets(n):
    return [s for r in range(1, n + 1) for s in itertools.combinations(range(n), r)]


def mask(row, domain=DOMAIN):
    return Workload.vectors(domain, np.asarray(row, float)[None, :])


def spent(session):
    cost = session.spent
    return 0.0 if cost is None else (cost.rho if isinstance(cost, ZCDP) else cost.epsilon)


def state_of(session):
    """What a session has replayed from its journal."""
    return session._state


def ledger_of(session):
    """The ledger that a session is charged to."""
    return session._journal._ledger


EXACT = TABLE.histogram().reshape(DOMAIN.shape)
BOXES = [box(sets) for sets in itertools.product(*(subsets(n) for n in DOMAIN.shape))]
"""All conjunctions of sets of codes, each as a workload and its row."""
