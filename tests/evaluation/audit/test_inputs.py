"""Pairs of inputs that audits try: neighbours all, and of a table every one."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit import query_pairs, table_pairs
from qrelease.privacy import Neighbours

CELLS = [*product(range(2), range(3))]
DOMAIN = Domain.coded({"a": 2, "b": 3})


def table(records):
    codes = np.array(records, np.int64).reshape(-1, 2)
    return Table(DOMAIN, tuple(codes.T))


def records(of):
    """The records of a table, in order."""
    return tuple(sorted(zip(*(column.tolist() for column in of.columns), strict=True)))


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("monotone", [False, True])
def test_one_record_may_move_each_answer_by_that_much(k, monotone):
    pairs = [(first, second) for first, second in query_pairs(k, monotone=monotone)]
    moves = [second - first for first, second in pairs]
    assert all(first.shape == second.shape == (k,) for first, second in pairs)
    assert all(np.abs(move).max() == 1 for move in moves)
    assert any((np.abs(move) == 1).all() for move in moves)
    assert any(np.count_nonzero(move) == 1 for move in moves)
    opposed = [move for move in moves if move.min() < 0 < move.max()]
    assert bool(opposed) != monotone
    assert {np.sign(move).sum() > 0 for move in moves if not any(move is one for one in opposed)} == {False, True}


@pytest.mark.parametrize("k", [1, 0, -1, 2.5, "3", True])
def test_fewer_than_two_answers_are_refused(k):
    with pytest.raises(InvalidInput, match="k must be an integer of at least 2"):
        next(query_pairs(k))


@pytest.mark.parametrize("held", [[], [(0, 0)], [(0, 0), (0, 0), (1, 2)], [(0, 1), (1, 0), (1, 1)]])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_the_neighbours_of_a_table_are_all_tables_one_record_away(held, neighbours):
    """All multisets of records of a neighbour's size, of which those are kept that differ in one record."""
    n, own = len(held), tuple(sorted(held))
    sizes = (n,) if neighbours is Neighbours.REPLACE_ONE else (n - 1, n + 1)
    expected = set()
    for size in sizes:
        for other in combinations_with_replacement(CELLS, size) if size >= 0 else ():
            common = sum(min(own.count(cell), other.count(cell)) for cell in CELLS)
            if other != own and common == max(n, size) - 1:
                expected.add(tuple(sorted(other)))
    pairs = [*table_pairs(table(held), neighbours)]
    assert all(records(first) == own for first, _ in pairs)
    found = [records(second) for _, second in pairs]
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_too_many_cells_are_refused():
    wide = Domain.coded(dict.fromkeys([f"x{i}" for i in range(29)], 2))
    records = Table(wide, tuple(np.zeros(1, np.uint8) for _ in range(29)))
    with pytest.raises(TooLarge):
        next(table_pairs(records, Neighbours.ADD_REMOVE))
