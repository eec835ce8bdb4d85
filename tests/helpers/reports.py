"""A release of random records, for reports."""

from dataclasses import replace

from worlds import PEOPLE, random_table

from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator


def released(mechanism, workload, cost, neighbours="add-remove", dataset="people", entropy=None, rows=400):
    """A release of random records; without an entropy of its own the same every time, though not marked as insecure."""
    table = random_table(workload.domain, rows, seed=1)
    with Ledger.open(None, cost, dataset=dataset, neighbours=neighbours) as ledger:
        made = Curator(table, ledger, entropy or Entropy.insecure(0)).release(mechanism, workload, cost)
    return made if entropy else replace(made, insecure=False, insecure_seed=None)


def mwem(**options):
    return released(MWEM(rounds=2), Workload.marginals(PEOPLE, 2), ApproxDP(1.0, 1e-6), **options)
