"""Files of JSON lines: errors, and keys that one record has and others lack."""

import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.errors import InvalidInput


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"ward": "north"}\n{"ward"\n', "line 2: not JSON"),
        ('{"ward": "north"}\n[1]\n', "line 2: not a JSON object"),
        ('{"ward": "north"}\n\n{"ward": "east"}\n', "line 3: column 'ward': value 'east'"),
        ('{"ward": ["north"]}\n', "line 1: column 'ward': values of type list cannot be categories"),
        ('{"ward": "\\udcff"}\n', "line 1: not UTF-8"),
        ('{"ward": "\udcff"}\n', "line 1: not UTF-8"),
        ('{"other": 1}\n', "line 1: column 'ward': value ''"),
    ],
)
def test_errors_of_json_lines_name_the_line(content, said, tmp_path):
    (tmp_path / "t.jsonl").write_text(content, errors="surrogateescape")
    with pytest.raises(InvalidInput, match=said):
        Table.read(tmp_path / "t.jsonl", Domain((Attribute("ward", "category", categories=("north", "south")),)))


def test_the_keys_of_json_lines_decide_no_order(tmp_path):
    """One record with further keys would: columns have the order of the schema, and a key nobody has is null."""
    schema = tmp_path / "s.toml"
    column = '[[attribute]]\nname = "{}"\nkind = "coded"\ncodes = 3\nmissing = [""]\n'
    schema.write_text(column.format("b") + column.format("a"))
    for content in ('{"a": 1, "b": 2}\n', '{"b": 2}\n', '{"z": 1}\n'):
        (tmp_path / "t.jsonl").write_text(content)
        assert Table.read(tmp_path / "t.jsonl", schema).domain.names == ("b", "a")
    (tmp_path / "u.jsonl").write_text('{"a": 1}\n')
    table = Table.read(tmp_path / "?.jsonl", schema)
    assert [c.tolist() for c in table.columns] == [[3, 3], [3, 1]]


def test_no_key_of_a_record_moves_those_of_others(tmp_path):
    """A key with a space is another key, in one file and in many; records of JSON lines choose no parent's columns."""
    domain = Domain((Attribute("x", "coded", codes=3, missing=("",)),))
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n' * 5 + '{"x ": 0}\n')
    (tmp_path / "b.jsonl").write_text('{"x": 2}\n')
    assert Table.read(tmp_path / "a.jsonl", domain).columns[0].tolist() == [1] * 5 + [3]
    assert Table.read(tmp_path / "*.jsonl", domain).columns[0].tolist() == [1] * 5 + [3, 2]
    persons = Domain(domain.attributes, person=Person("id", 1))
    (tmp_path / "p.csv").write_text("id,x\n1,1\n")
    with pytest.raises(InvalidInput, match="records that join a parent"):
        Table.read(tmp_path / "a.jsonl", persons, parent=tmp_path / "p.csv")
