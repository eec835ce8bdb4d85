"""Classes of queries against lists of them."""

import itertools
from collections import Counter

import numpy as np
import pytest
from sessions import DOMAIN, box, mask, subsets
from worlds import coded

from qrelease.queries.canonical import canonical_name
from qrelease.queries.classes import Conjunctions, Parities

BOXES = [box(sets) for sets in itertools.product(*(subsets(n) for n in DOMAIN.shape))]


@pytest.mark.parametrize("ranges", [False, True])
def test_a_class_has_the_conjunctions_that_there_are(ranges):
    domain = coded(2, 3, 4)
    whole = {canonical_name(domain, query.groups[0])[0] for query, _ in BOXES}
    for order in (1, 2, 3):
        chosen = Conjunctions(order, ranges)
        members = [a for a in whole if chosen.contains(domain, a)]
        counts = chosen.cells(domain, (0, 1, 2))
        assert sum(counts.values()) == len(members)
        shapes = Counter(int(a.entries(domain).sum()) * 24 // domain.cells(a.axes) for a in members)
        assert counts == shapes
    assert not Conjunctions(3).contains(
        domain, canonical_name(domain, mask(np.eye(24)[0] + np.eye(24)[23]).groups[0])[0]
    )


def test_parities_are_a_class_too():
    domain = coded(2, 2, 3)
    rows = np.array(list(itertools.product([0, 1], repeat=12)), float)
    members = Counter()
    for row in rows[rows.any(axis=1)]:
        asked = canonical_name(domain, mask(row, domain).groups[0])[0]
        members[int(row.sum())] += Parities().contains(domain, asked)
    ways = {tuple(r) for r in _parity_rows(domain.shape)}
    assert sum(members.values()) == len(ways)
    counts = Parities().cells(domain, (0, 1, 2))
    assert all(counts[m] >= n for m, n in members.items())
    assert sum(counts.values()) < 1.5 * len(ways)


def _parity_rows(shape):
    """Every conjunction and every parity of one condition a column, as rows; not the empty one."""
    conditions = [np.array(list(itertools.product([False, True], repeat=n))) for n in shape]
    for chosen in itertools.product(*conditions):
        parts = np.meshgrid(*chosen, indexing="ij")
        for join in (np.logical_and, np.logical_xor):
            row = join.reduce(parts).reshape(-1)
            if row.any():
                yield row
