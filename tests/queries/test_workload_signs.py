"""How far one record moves pairs of signs."""

import numpy as np
from worlds import coded

from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group, Workload, signs_replaced


def test_what_is_no_pair_of_signs_is_taken_each_at_its_worst():
    plus, minus, twice = (IntegerRows(np.array([row]), 1.0) for row in ([1, -1], [-1, 1], [2, -2]))
    same, three = (plus, plus), [(0, 1), (1, 2), (0, 2)]

    def moved(sets, *factors):
        groups = tuple(Group(s, Product(f)) for s, f in zip(sets, factors, strict=True))
        return Workload(coded(2, 2, 2), groups).moved(2, replace=True)

    assert moved(three, same, same, same) == 8
    assert moved(three, same, same, (plus, minus)) == 4 + 4 + 4
    assert moved(three, same, same, (plus, twice)) == 4 + 4 + 16
    assert signs_replaced([((0, 1), Product(same))] * 2) is None  # which no workload has
