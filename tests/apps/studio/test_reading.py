"""What is wrong with records is said without their values."""

import pytest

from qrelease.apps.studio.reading import without_values
from qrelease.data.schema_draft import drafted
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, OutOfMemory

SCHEMA = """
[[attribute]]
name = "sex"
kind = "category"
categories = ["F", "M"]
[[attribute]]
name = "age"
kind = "number"
bins = [0, 50, 100]
"""


def told(tmp_path, text, name="people.csv", act=None):
    (tmp_path / "s.toml").write_text(SCHEMA)
    data = tmp_path / name
    data.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidInput) as refused, without_values(data, ("sex", "age")):
        (act or (lambda: Table.read(data, tmp_path / "s.toml")))()
    assert "\n" not in str(refused.value)
    assert str(tmp_path) not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("secret", ["Zyxwv", "line 3: column 'age'", "column 'age': value", "is not within categories"])
def test_line_and_column_are_named_and_the_value_is_not(tmp_path, secret):
    found = told(tmp_path, f'sex,age\nF,30\n"{secret}",31\n')
    assert found.startswith("people.csv line 3: column 'sex' holds a value that is none of the schema's categories")
    assert secret not in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sex,age\nF,4711\n", "line 2: column 'age' holds a value beyond the schema's limits"),
        ("sex,age\nF,4711,Zyxwv\n", "line 2 has another number of values than the header"),
        ("sex,sex\nF,F\n", "has a column twice"),
        ("sex\nF\n", "lacks a column that the schema has"),
        ("", "is empty; it needs a header row"),
        ("sex;age\nF;3\n", "separates its columns by another mark than a comma"),
        (b"sex,age\nZyxw\xff,3\n", "is not UTF-8 text; save it as UTF-8"),
    ],
)
def test_reasons_are_fixed_texts(tmp_path, text, said):
    found = told(tmp_path, text)
    assert said in found
    assert "Zyxw" not in found
    assert "4711" not in found


def test_a_table_without_records_is_not_said_to_lack_columns(tmp_path):
    said = told(tmp_path, "sex,age\n", act=lambda: drafted(tmp_path / "people.csv"))
    assert "has no records that a schema can be drafted from" in said


def test_a_file_that_is_none_is_said_so(tmp_path):
    assert "cannot be read" in told(tmp_path, b"Zyxwv", "people.parquet", lambda: drafted(tmp_path / "people.parquet"))
    assert "Zyxwv" not in told(tmp_path, b"Zyxwv", "people.jsonl", lambda: drafted(tmp_path / "people.jsonl"))


def test_memory_that_is_short_is_said_without_a_size(tmp_path):
    def full():
        raise OutOfMemory("4,711 bytes are needed")

    assert told(tmp_path, "x\n", act=full) == "people.csv does not fit in the memory that is free"
