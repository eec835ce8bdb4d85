"""What `records` selects by: how far one record moves the scores, and what they prefer."""

import numpy as np
import pytest
from worlds import coded, private, random_table

from qrelease.data.table import Table
from qrelease.evaluation.audit import table_pairs
from qrelease.mechanisms.record_plan import columns
from qrelease.mechanisms.record_selection import CandidateMarginals, RecordFit
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, Neighbours, PureDP
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload

DOMAIN = coded(3, 2, 4, 2)
TRIPLES = Workload.marginals(DOMAIN, 3)
COST = ZCDP(50.0)


class Scores:
    """A `Private` whose selection shows the scores and the declared sensitivity."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def select(self, scores, sensitivity, cost, rule):
        self.seen = scores, sensitivity
        return int(np.argmax(scores))


def learned_of(table, neighbours=Neighbours.ADD_REMOVE):
    found = RecordFit(private(table, COST, neighbours, entropy=Entropy.insecure(1)), table.domain, {})
    found.measure(columns(table.domain, COST, neighbours), COST)
    found.fit(200, 3)
    return found


def scores_of(table, learned, workload, neighbours=Neighbours.ADD_REMOVE, *, alone, fresh=(), cost=COST):
    door = Scores(private(table, COST, neighbours, entropy=Entropy.insecure(2)))
    candidates = CandidateMarginals(door, workload, 3)
    chosen, _ = candidates.select(door, learned, cost, cost, fresh, alone=alone)
    return candidates.sets, *door.seen, chosen


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize(
    ("alone", "fresh", "cost"),
    [(False, (), COST), (False, (), PureDP(10.0)), (True, (), COST), (False, ((0, 1),), COST)],
)
def test_one_record_moves_a_score_at_most_as_far_as_declared(neighbours, alone, fresh, cost):
    learned, most = learned_of(random_table(DOMAIN, 60, 0), neighbours), 0.0
    for seed in range(3):
        for pair in table_pairs(random_table(DOMAIN, 60, seed), neighbours):
            (_, one, declared, _), (_, two, again, _) = (
                scores_of(side, learned, TRIPLES, neighbours, alone=alone, fresh=fresh, cost=cost) for side in pair
            )
            assert declared == again
            most = max(most, int(np.abs(one - two).max()) / declared)
    assert 0.6 < most <= 1  # so that half as much declared is convicted


def table_of(*columns):
    return Table(coded(*(int(c.max()) + 1 for c in columns)), columns)


def test_a_pair_counts_as_often_as_it_is_asked_about():
    rng = np.random.default_rng(0)
    a, c, d = (rng.integers(2, size=2_000) for _ in range(3))
    table = table_of(a, (a + (rng.random(2_000) < 0.1)) % 2, c, d)  # of whose columns the first two are dependent
    learned = learned_of(table)
    _, _, sensitivity, chosen = scores_of(table, learned, Workload.marginals(table.domain, 3), alone=False)
    assert (sensitivity, chosen) == (2, (0, 1))  # and in no triple that contains it
    once = Workload(table.domain, tuple(Group(s, Cells(8)) for s in [(0, 1, 2), (1, 2, 3)]))
    sets, scores, sensitivity, _ = scores_of(table, learned, once, alone=False)
    assert sensitivity == 2  # of (1, 2), which both contain
    alone = scores_of(table, learned, once, alone=True)
    assert alone[2] == 1
    np.testing.assert_array_equal(scores, alone[1] * [2 if s == (1, 2) else 1 for s in sets])


def test_cells_that_noise_would_leave_as_far_off_count_for_nothing():
    """Columns of many cells, independent: what the sample is off in each of them is not worth measuring."""
    rng = np.random.default_rng(0)
    table = table_of(rng.integers(20, size=500), rng.integers(20, size=500), np.repeat([0, 1], 250))
    learned = learned_of(table)
    door = Scores(private(table, COST, entropy=Entropy.insecure(2)))
    candidates = CandidateMarginals(door, Workload.marginals(table.domain, 2), 2)
    candidates.select(door, learned, COST, ZCDP(1e-3), (), alone=False)
    assert door.seen[0].max() == 0
    candidates.select(door, learned, COST, COST, (), alone=False)
    assert door.seen[0].max() > 0
