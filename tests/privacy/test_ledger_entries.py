"""Which charges were for which table: letters, and since when the records of a schema are others."""

from itertools import count, islice

import pytest

from qrelease.privacy import PureDP
from qrelease.privacy.ledger_entries import UNKNOWN, Entry, Record, with_rows


def entries(*kinds):
    """Entries at the times t1, t2, … of these kinds."""
    return [Entry(i, f"t{i}", kind, PureDP(0.1), "a", "k", False) for i, kind in enumerate(kinds, 1)]


def records(*tables):
    """From each of some entries on, charges are for a table: (entry, schema, records)."""
    return [Record(number, entry, 0, "", *table) for number, (entry, *table) in enumerate(tables, 1)]


def told(made, tables):
    return [(entry.rows, entry.changed) for entry in with_rows(made, tables)]


def test_a_table_has_a_letter_and_keeps_it():
    made = entries("total", "charge", "charge", "charge", "session", "charge")
    tables = records((2, "s", "one"), (4, "s", "two"), (6, "s", "one"))
    assert [rows for rows, _ in told(made, tables)] == [None, "A", "A", "B", "B", "A"]


def test_since_when_records_are_others_is_the_time_of_the_last_charge_for_those_before():
    made = entries("charge", "charge", "charge", "charge", "charge", "charge")
    tables = records((1, "s", "one"), (3, "s", "two"), (5, "s", "three"))
    assert [changed for _, changed in told(made, tables)] == [None, None, "t2", "t2", "t4", "t4"]


def test_other_schemas_are_other_tables_that_change_nothing():
    """The same people in other columns: only records under one schema are compared."""
    made = entries("charge", "charge", "charge", "charge")
    tables = records((1, "s", "one"), (2, "t", "one"), (3, "s", "one"), (4, "t", "two"))
    assert told(made, tables) == [("A", None), ("B", None), ("A", None), ("C", "t2")]


def test_where_no_table_was_named_nothing_is_told():
    made = entries("charge", "charge", "charge", "total")
    tables = records((2, "s", "one"), (3, *UNKNOWN))
    assert told(made, tables) == [(None, None), ("A", None), (None, None), (None, None)]
    assert told(made, []) == [(None, None)] * 4
    assert [*with_rows(made, [])] == made


def test_a_table_that_is_still_to_come_is_of_no_entry_yet():
    assert told(entries("charge"), records((2, "s", "one"))) == [(None, None)]


@pytest.mark.parametrize(("number", "letter"), [(0, "A"), (25, "Z"), (26, "AA"), (51, "AZ"), (701, "ZZ"), (702, "AAA")])
def test_more_tables_than_letters_have_two(number, letter):
    made = entries(*["charge"] * (number + 1))
    tables = records(*((i, "s", str(i)) for i in islice(count(1), number + 1)))
    assert told(made, tables)[number][0] == letter
