"""All small tables of one column, and their neighbours."""

from itertools import combinations_with_replacement

from qrelease.privacy.costs import Neighbours

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE

CELLS = 4


def tables(most):
    """All multisets of codes of at most so many records."""
    return [t for n in range(most + 1) for t in combinations_with_replacement(range(CELLS), n)]


def around(table, neighbours):
    """The neighbours of a table, as sorted tuples."""
    removed = [tuple(table[:i] + table[i + 1 :]) for i in range(len(table))]
    if neighbours is ADD:
        return set(removed) | {tuple(sorted((*table, v))) for v in range(CELLS)}
    return {tuple(sorted((*r, v))) for r in removed for v in range(CELLS)}
