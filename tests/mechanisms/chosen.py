"""Workloads among whose mechanisms one is chosen, releases by these, and their errors."""

import numpy as np
from worlds import BOTH, coded, true_answers

from qrelease.noise.entropy import Entropy
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

ADD, SWAP = BOTH


DELTA = 1e-9


DOMAIN = coded(2, 3, 2)


PAIRS = Workload.marginals(DOMAIN, 2)


RANGES = Workload.ranges(coded(64), "a")


def released(mechanism, table, asked, cost, neighbours=ADD, seed=0):
    with Ledger.open(None, cost, neighbours=neighbours) as ledger:
        return Curator(table, ledger, Entropy.insecure(seed)).release(mechanism, asked, cost)


def errors(mechanism, table, workload, cost, neighbours, runs):
    """The largest error of each run, as a fraction of the table."""
    truth, found = true_answers(workload, table), []
    for seed in range(runs):
        with Ledger.open(None, cost, neighbours=neighbours) as ledger:
            release = Curator(table, ledger, Entropy.insecure(seed)).release(mechanism, workload, cost)
        found.append(np.abs(release.answers() - truth).max() / len(table))
    return np.array(found)
