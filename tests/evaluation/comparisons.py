"""A comparison that takes a fraction of a second."""

from worlds import coded, random_table

from qrelease.evaluation.evaluate import evaluate
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.noise.entropy import Entropy
from qrelease.queries.workload import Workload

DOMAIN = coded(3, 4, 2, 5)
TABLE = random_table(DOMAIN, 500, seed=3)
PAIRS = Workload.marginals(DOMAIN, 2)


def small(**changes):
    """A comparison that takes a fraction of a second."""
    options = {"delta": 1e-6, "trials": 2, "entropy": Entropy.insecure(1), "dataset": "small", **changes}
    return evaluate(TABLE, PAIRS, {"mwem": MWEM(rounds=2)}, [0.5, 5], **options)
