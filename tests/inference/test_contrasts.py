"""Contrasts: how far one record moves them."""

from itertools import combinations, product

import numpy as np
import pytest
from worlds import coded

from qrelease.data.table import Table
from qrelease.inference.contrasts import contrasts

DOMAIN = coded(2, 3, 2)
EVERY = [s for k in range(4) for s in combinations(range(3), k)]


def answers(axes, codes):
    """What a table says, exactly."""
    table = Table(DOMAIN, tuple(np.array(c, np.uint8) for c in np.array(codes).reshape(-1, 3).T))
    (counts,) = table.counts([axes])
    return contrasts(DOMAIN, axes).queries.apply(counts.reshape(-1))


@pytest.mark.parametrize("axes", EVERY, ids=str)
def test_one_record_moves_contrasts_by_one_and_a_replaced_one_by_two_at_most(axes):
    queries, records = contrasts(DOMAIN, axes).queries, list(product(range(2), range(3), range(2)))
    nothing = answers(axes, [])
    added = [np.abs(answers(axes, [r]) - nothing).sum() for r in records]
    replaced = [np.abs(answers(axes, [r]) - answers(axes, [s])).sum() for r, s in product(records, records)]
    assert max(added) == queries.sensitivity(1, replace=False) == 1
    assert max(replaced) == queries.sensitivity(1, replace=True) == (2 if axes else 0)
