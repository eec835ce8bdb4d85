"""A parent table and its children: what a parent says in both, and which tables are refused."""

import numpy as np
import pytest
from planes import FLIGHTS, KIND, PERSON, PLANES, M, made

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import CHILDREN, Person
from qrelease.data.table import Table
from qrelease.data.two_tables import TwoTables
from qrelease.errors import InvalidInput
from qrelease.privacy import Neighbours


def test_what_a_parent_says_follows_from_its_own_rows():
    both, kind, _, flights, of, _, _ = made(300, orphans=9)
    assert both.parents.domain.names == ("kind", "age", CHILDREN)
    assert both.parents.columns[2].tolist() == np.minimum(flights, M).tolist()
    assert len(both.children) == len(of)  # the children of nobody are left out
    assert both.children.columns[2].tolist() == kind[of].tolist()
    without = made(300)[0]
    for table, same in zip((both.parents, both.children), (without.parents, without.children), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(table.columns, same.columns, strict=True))


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_neighbours_differ_by_one_record_there_and_at_most_m_here(neighbours):
    both = made(200)[0]
    names = np.array([f"N{i}" for i in range(200)])
    keep = names != "N7"
    parents = Table.of_persons(PLANES, [c[keep] for c in both.parents.columns[:2]], names[keep])
    whose = names[both.children.persons.rows_of(both.parents.persons)]
    mine = whose != "N7"
    children = Table.of_persons(FLIGHTS, [c[mine] for c in both.children.columns[:2]], whose[mine])
    less = TwoTables.of(parents, children)
    for table, other, most in ((both.parents, less.parents, 1), (both.children, less.children, M)):
        apart = table.bounded(b"key").histogram() - other.bounded(b"key").histogram()
        assert 0 < np.abs(apart).sum() <= most


def test_wrong_tables_are_refused():
    parents = Table.of_persons(PLANES, [np.zeros(2, int), np.zeros(2, int)], ["a", "a"])
    children = Table.of_persons(FLIGHTS, [np.zeros(1, int), np.zeros(1, int)], ["a"])
    with pytest.raises(InvalidInput, match="a parent table has one row for each 'plane'"):
        TwoTables.of(parents, children)
    other = Table.of_persons(Domain((KIND,), person=Person("ship", 2)), [np.zeros(1, int)], ["a"])
    with pytest.raises(InvalidInput, match="the same person column"):
        TwoTables.of(other, children)
    taken = Domain((Attribute(CHILDREN, "coded", codes=2),), person=PERSON)
    with pytest.raises(InvalidInput, match="rename that column of the schema"):
        TwoTables.of(Table.of_persons(taken, [np.zeros(1, int)], ["a"]), children)
