"""Multisets of cells, which are small databases: how many there are, and which one has a number."""

from __future__ import annotations

import math


def range_size(cells: int, records: int) -> int:
    """C(cells + records - 1, records): the databases of so many records over so many cells."""
    return math.comb(cells + records - 1, records)


def multiset(index: int, cells: int, records: int) -> list[int]:
    """The multiset of that index among all of so many records over the cells 0, 1, …, in lexicographic order."""
    found = []
    cell = 0
    while records:
        with_it = range_size(cells - cell, records - 1)  # those whose smallest remaining element is this cell
        if index < with_it:
            found.append(cell)
            records -= 1
        else:
            index -= with_it
            cell += 1
    return found
