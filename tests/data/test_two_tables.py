"""A parent table and its children: what a parent says in both, and which tables are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from planes import FLIGHTS, KIND, PERSON, PLANES, M, made

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain, Review
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


SCHEMA = """
[person]
column = "plane"
at_most = 2

[[attribute]]
name = "late"
kind = "category"
categories = ["yes", "no"]

[[attribute]]
name = "seats"
kind = "coded"
codes = 4
"""


KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("of_parents", KINDS)
@pytest.mark.parametrize("of_children", KINDS)
def test_two_frames_are_read_as_two_files_are(of_children, of_parents, tmp_path):
    flights = {
        "plane": ["N2", "N1", "N1", "N9", "N1"],
        "late": ["no", "yes", "yes", "no", "no"],
        "gate": [1, 2, 3, 4, 5],
    }
    planes = {"plane": ["N1", "N2", "N3"], "seats": [3, 1, 0]}
    for name, content in (("flights", flights), ("planes", planes)):
        pd.DataFrame(content).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "planes.toml").write_text(SCHEMA)
    files = TwoTables.read(tmp_path / "flights.csv", tmp_path / "planes.csv", tmp_path / "planes.toml")
    frames = KINDS[of_children](flights), KINDS[of_parents](planes)
    found = TwoTables.from_frames(*frames, tmp_path / "planes.toml")
    assert found.own == files.own == ("late",)
    for table, same in ((found.parents, files.parents), (found.children, files.children)):
        assert table.domain == same.domain
        assert [c.tolist() for c in table.columns] == [c.tolist() for c in same.columns]
    assert found.parents.columns[1].tolist() == [2, 1, 0]


def test_both_tables_say_who_reviewed_their_schema():
    frames = pd.DataFrame({"plane": ["N1"], "late": ["no"]}), pd.DataFrame({"plane": ["N1"], "seats": [1]})
    both = TwoTables.from_frames(*frames, f'reviewed_by = "Kim"\nreviewed_on = 2026-01-31\n{SCHEMA}')
    assert both.parents.domain.review == both.children.domain.review == Review("Kim", "2026-01-31")
    late, seats = (
        Domain((a,), person=PERSON, review=Review(by)) for a, by in zip(FLIGHTS, ("Kim", "Lee"), strict=False)
    )
    rows = [Table.of_persons(domain, [np.zeros(1, int)], ["N1"]) for domain in (late, seats)]
    assert rows[0].joined(rows[1]).domain.review is None  # which nobody reviewed as a whole


def test_frames_that_are_no_pair_are_refused():
    frames = pd.DataFrame({"plane": ["N1"], "late": ["no"]}), pd.DataFrame({"plane": ["N1"], "seats": [1]})
    with pytest.raises(InvalidInput, match="the frame has none of the columns"):
        TwoTables.from_frames(frames[0][["plane"]], frames[1], SCHEMA)
    with pytest.raises(InvalidInput, match="the frame has all of the columns"):
        TwoTables.from_frames(frames[0].assign(seats=1), frames[1], SCHEMA)
    with pytest.raises(InvalidInput, match="two tables need named columns, and a key of both"):
        TwoTables.from_frames(*frames, SCHEMA[SCHEMA.index("[[") :])
