"""Rules of a schema about impossible cells: what they forbid, and which are refused."""

import pytest
from worlds import coded

from qrelease.constraints import impossible, masks
from qrelease.errors import InvalidInput
from qrelease.schema import load

ATTRIBUTES = """
[[attribute]]
name = "age"
kind = "number"
bins = [0, 16, 65, 100]
integer = true

[[attribute]]
name = "income"
kind = "category"
categories = ["<=50K", ">50K"]
"""
RULE = """
[[impossible]]
where = "age in 0..15 and income = '>50K'"
"""


def written(tmp_path, text):
    file = tmp_path / "schema.toml"
    file.write_text(text)
    return file


def test_rules_of_a_file(tmp_path):
    file = written(tmp_path, ATTRIBUTES + RULE)
    rules = impossible(file)
    domain = load(file)
    assert rules == ("age in 0..15 and income = '>50K'",)
    assert masks(domain, rules)[0, 1].tolist() == [False, True, False, False, False, False]
    assert impossible(written(tmp_path, ATTRIBUTES)) == ()


def test_rules_on_the_same_columns_add_up():
    found = masks(coded(2, 3, 2), ["a = 0 and b = 1", "b = 2 and a = 1", "c = 0"])
    assert sorted(found) == [(0, 1), (2,)]
    assert found[0, 1].tolist() == [False, True, False, False, False, True]


def test_a_json_schema_has_none(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text('{"a": 2}')
    assert impossible(file) == ()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('where = "height > 3"', r"impossible 1: .*height"),
        ('where = "age < "', "impossible 1: "),
        ("where = \"income = '<=50K' or income = '>50K'\"", "no record that is possible"),
        ("where = \"income = '<=50K' and income = '>50K'\"", "rules nothing out"),
        ("where = 3", "must be where"),
        ('when = "age < 16"', "must be where"),
        ('where = "age in 0..15"\nreviewed = true', "must be where"),
    ],
)
def test_rules_that_are_none(tmp_path, entry, why):
    with pytest.raises(InvalidInput, match=why):
        impossible(written(tmp_path, f"{ATTRIBUTES}\n[[impossible]]\n{entry}\n"))


def test_rules_must_be_entries(tmp_path):
    file = written(tmp_path, 'impossible = "age < 16"\n' + ATTRIBUTES)
    with pytest.raises(InvalidInput, match=r"\[\[impossible\]\]"):
        load(file)
