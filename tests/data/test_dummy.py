"""Dummy tables: of the schema alone, and such that the package reads them."""

import csv

import numpy as np
import pytest
from sources import DERIVED, PEOPLE
from worlds import coded

from qrelease.apps.cli import main
from qrelease.data.domain import Attribute, Domain
from qrelease.data.dummy import MAX_ROWS, dummy_codes, dummy_table
from qrelease.data.person import Person
from qrelease.data.schema import load, to_toml
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

RULED = Domain(coded(4, 5, 3).attributes, impossible=("a = 0 and b > 1", "b = 0 and c = 2"))


def test_a_table_is_read_back_and_every_cell_of_each_column_is_as_likely(tmp_path):
    (tmp_path / "people.toml").write_text(to_toml(PEOPLE))
    assert main(["dummy", str(tmp_path / "people.toml"), "--rows", "6000", "--out", str(tmp_path / "t.csv")]) == 0
    table = Table.read(tmp_path / "t.csv", PEOPLE)
    assert len(table) == 6000
    for attribute, column in zip(PEOPLE, table.columns, strict=True):
        expected = 6000 / attribute.size
        assert np.abs(np.bincount(column, minlength=attribute.size) - expected).max() < 6 * expected**0.5


def test_no_record_is_impossible_and_all_others_occur():
    codes = np.array(dummy_codes(RULED, 5000, np.random.default_rng(0)))
    seen = {tuple(record) for record in codes.T.tolist()}
    whole = {(a, b, c) for a in range(4) for b in range(5) for c in range(3)}
    assert seen == {(a, b, c) for a, b, c in whole if not (a == 0 and b > 1) and not (b == 0 and c == 2)}


def test_rules_that_leave_hardly_anything_are_an_error():
    narrow = Domain(coded(4000, 4000).attributes, impossible=("a > 0", "b > 0"))
    with pytest.raises(InvalidInput, match="leave too few possible records"):
        dummy_codes(narrow, 10, np.random.default_rng(0))


def test_persons_have_a_few_records_and_derived_columns_come_of_records(tmp_path):
    domain = Domain(PEOPLE.attributes, person=Person("id", 2))
    numbers = np.unique(dummy_table(domain, 1000)["id"], return_counts=True)[1]
    assert set(numbers.tolist()) == {1, 2}
    (tmp_path / "derived.toml").write_text(DERIVED)
    derived = load(tmp_path / "derived.toml")
    (tmp_path / "t.csv").write_text("")
    table = dummy_table(derived, 300)
    assert set(table) == {"id", "ward", "age"}
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*table], *zip(*(column.tolist() for column in table.values()), strict=True)])
    assert 100 <= len(Table.read(tmp_path / "t.csv", derived)) < 300


@pytest.mark.parametrize("rows", [0, -1, MAX_ROWS + 1, 1.5])
def test_a_number_of_rows_that_makes_no_sense_is_an_error(rows):
    with pytest.raises(InvalidInput, match="rows"):
        dummy_table(PEOPLE, rows)


def test_what_is_to_be_learned_has_no_dummy_table():
    with pytest.raises(InvalidInput, match="ward"):
        dummy_table(Domain((Attribute("ward", "category", learn=2, missing=("",)),)))
