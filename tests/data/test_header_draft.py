"""Whether the first line of a file is a record already, by its names and the values below these."""

import pytest

from qrelease.data.header_draft import FirstLine


def looked_at(text):
    names, *records = [line.split() for line in text.split("|")]
    found = FirstLine(names)
    for begin in range(0, len(records), 2):
        found.see(list(zip(*records[begin : begin + 2], strict=True)))
    return found


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("Zyxwv F 31 Atlantis | A M 22 Ulm | B F 44 Rom", [2, 3]),
        ("31 2020-01-31 | 22 2020-02-01", [1, 2]),
        ("31.1.2020 1.234,50 | 1.2.2020 3,75", [1, 2]),
        ("name born | A 1960 | B 1970", []),
        ("A 1960 | B 1970 | C 1955", [2]),
        ("F | M | F", [1]),
        ("31 | 22 | ?", [1]),
        ("31 1955 12 8 | 22 1960 13 9 | 44 1970 80 2", [1, 2, 3, 4]),
        ("a 1 5 2 4 3 | b 5 4 3 2 1", [2, 3, 4, 5, 6]),
        ("12.1 13.4 14.0 15.2 17.9 | 10.5 11 12 13 14 | 14 15 16 17 18", [1, 2, 3, 4, 5]),  # one that grows
    ],
)
def test_names_that_look_like_values_are_found(text, columns):
    found = looked_at(text)
    assert [*found.found()] == columns
    assert found.is_record is bool(columns)


@pytest.mark.parametrize(
    "text",
    [
        "country 2001 2002 2003 | A 1 2 3 | B 2 3 4",
        "country 1990 2020 | A 1.5 2 | B 1800 5",
        "country 2001 | A 2.5 | B 1800",
        "row 0 1 2 3 4 | A 4 9 1 0 3 | B 0 2 2 3 4",
        "row 1 2 | A 1 2 | B 2 1",
        "height 142.24 144.78 147.32 149.86 | 9.4 0 0 140 150 | 9.5 1 0 144.78 149",
        "row 16.5 16.75 17.25 17.75 18.5 | A 0 12 17.5 20 1 | B 2 3 4 40 1",
        "age 2020-01-31 2020-02-29 | 30 5 6 | 31 7 8",
        "age F | 30 NA | 31 ?",
        "NA age | NA 3 | NA 4",
        "31 | one | two",
        "a b",
    ],
)
def test_names_of_wide_tables_and_marks_of_missing_are_names(text):
    found = looked_at(text)
    assert (found.found(), found.is_record, found.doubt) == ({}, False, "")


def test_one_name_of_many_is_asked_about():
    found = looked_at("id city n | 1 city 2 | 2 land 3")
    assert not found.is_record
    assert found.doubt == "the name of column 2 is also one of its values"


def test_of_very_many_columns_two_are_asked_about_and_a_tenth_is_a_record():
    for columns, is_record in ((20, True), (21, False)):
        names = [f"name{i}" for i in range(columns)]
        other = [*names[:2], *("x" * (columns - 2))]
        assert looked_at(f"{' '.join(names)} | {' '.join(other)}").is_record is is_record


def test_what_is_told_has_nothing_of_the_names_and_is_short():
    found = looked_at("Zyxwv 4711 2020-01-31 Rom Ulm | Zyxwv 12 2021-01-01 Rom Ulm")
    assert found.doubt == (
        "the name of column 1 is also one of its values, the name of column 2 is a number, as its values are,"
        " the name of column 3 is a date, as its values are, and so for 2 more"
    )


def test_values_are_compared_without_the_space_behind_a_comma():
    found = FirstLine(["F", "Zyxwv"])
    found.see([("M", "D"), (" A", " Zyxwv")])
    assert [*found.found()] == [2]
