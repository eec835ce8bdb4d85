"""Columns of a source as codes: which columns those are, and the same codes in memory and in files."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sources import CODES, DERIVED, PEOPLE, RECORDS, TEXT, VISITS_SCHEMA

from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.persons import Persons
from qrelease.data.schema import load
from qrelease.data.sources.csv import CsvReader
from qrelease.data.sources.encoding import domain_of_records, encoded, found_columns, person_column, selected_columns
from qrelease.data.sources.json_lines import JsonLinesReader
from qrelease.errors import InvalidInput


def reader_of(folder, text, name="people.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return JsonLinesReader(folder / name) if name.endswith("jsonl") else CsvReader(folder / name)


def test_the_codes_of_a_source_are_those_of_its_texts(tmp_path):
    found = encoded(reader_of(tmp_path, TEXT), PEOPLE)
    assert [column.tolist() for column in found.columns] == CODES
    assert (found.persons, found.points, found.texts) == (None, (), {})


@pytest.mark.parametrize("free", [1 << 40, 40, 0])
def test_codes_are_the_same_in_memory_and_in_files(tmp_path, free_memory, free):
    """Points, persons and texts to be learned beside them; those that are nobody's are left out of all.

    In files they stand in an order of their persons, each person's in their own.
    """
    price = Attribute("price", "number", edges=(0, 50, 101), within=(0, 100), step=1, missing=("",))
    town = Attribute("town", "category", learn=3, missing=("",))
    domain = Domain((price, town), person=Person("who", 2, missing=("nobody",)))
    rows = [(f"p{i % 7}" if i % 5 else "nobody", i % 101 if i % 11 else "", "abc"[i % 3]) for i in range(300)]
    free_memory(free)
    text = "who,price,town\n" + "".join(f"{who},{price},{town}\n" for who, price, town in rows)
    found = encoded(reader_of(tmp_path, text), domain)
    kept = [row for row in rows if row[0] != "nobody"]
    assert isinstance(found.columns[0], np.memmap) == (free < 100)
    assert found.points[1] is None
    people = list(dict.fromkeys(who for who, _, _ in kept))
    names = dict(zip(map(bytes, Persons.of(domain.person, people)[0].digests), people, strict=True))
    read = zip(
        [names[bytes(digest)] for digest in found.persons.unit],
        found.columns[0].tolist(),
        found.points[0].tolist(),
        [found.texts["town"][code] for code in found.columns[1]],
        strict=True,
    )
    expected = [
        (who, 2 if price == "" else int(price >= 50), 101 if price == "" else price, town) for who, price, town in kept
    ]
    in_order = read if free < 100 else list(read)
    assert sorted(in_order, key=lambda row: row[0]) == sorted(expected, key=lambda row: row[0])
    if free > 100:
        assert in_order == expected


def test_no_records_are_a_column_of_none(tmp_path):
    found = encoded(reader_of(tmp_path, "age,sex,day\n"), PEOPLE)
    assert [(column.shape, column.dtype) for column in found.columns] == [((0,), np.uint8)] * 3


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("age,sex,day, age ", "the name of column 1 appears twice, as column 4 too"),
        ("age,sex", "has no column 'day'; it has age, sex"),
        ("age,sex,Day", r"has no column 'day' \(did you mean 'Day'\?\); it has age, sex, Day"),
    ],
)
def test_a_column_is_there_once(header, said, tmp_path):
    with pytest.raises(InvalidInput, match=said):
        found_columns(reader_of(tmp_path, f"{header}\n"), PEOPLE)


def test_spaces_around_a_name_are_not_the_name():
    """As Parquet and data frames may have them."""
    reader = SimpleNamespace(header=(" day", "age ", " sex", "who"), keyed=False, path=Path("t.parquet"))
    assert found_columns(reader, PEOPLE) == ["age ", " sex", " day"]
    assert person_column(reader, "who") == "who"
    assert person_column(reader, "day") == " day"
    with pytest.raises(InvalidInput, match="no person column 'whom'; it has day, age, sex, who"):
        person_column(reader, "whom")


def test_a_schema_file_has_the_order_of_the_data_and_records_that_name_their_columns_have_none(tmp_path):
    (tmp_path / "visits.toml").write_text(VISITS_SCHEMA)
    table = reader_of(tmp_path, "age,ward\n")
    keyed = reader_of(tmp_path, '{"age": 20, "ward": "north"}\n', "visits.jsonl")
    schema = tmp_path / "visits.toml"
    assert selected_columns(schema, None, table).names == ("age", "ward")
    assert selected_columns(schema, None, keyed).names == ("ward", "age")
    assert selected_columns(Domain(RECORDS), None, table).names == ("ward", "age")
    assert selected_columns(schema, ["ward"], table).names == ("ward",)
    with pytest.raises(InvalidInput, match=r"schema .*visits\.toml: no attribute 'x'"):
        selected_columns(schema, ["x"], table)


def test_records_that_columns_are_derived_of_have_a_domain_of_their_own(tmp_path):
    (tmp_path / "derived.toml").write_text(DERIVED)
    domain = load(tmp_path / "derived.toml")
    records = domain_of_records(domain)
    assert domain.names == ("visits", "oldest")
    assert set(records.names) == {"ward", "age"}
    assert records.person.derive == ()
