"""Rules of a schema about impossible cells: what they forbid, and which are refused."""

import json
import tomllib
from dataclasses import replace

import pytest
from worlds import coded

from qrelease.data.schema import domain_from_json, domain_to_json, load, to_toml
from qrelease.data.structural_zeros import masks, narrowed
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

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
    domain = load(file)
    assert domain.impossible == ("age in 0..15 and income = '>50K'",)
    assert masks(domain, domain.impossible)[0, 1].tolist() == [False, True, False, False, False, False]
    assert load(written(tmp_path, ATTRIBUTES)).impossible == ()


def test_fewer_columns_keep_the_rules_about_them_alone():
    rules = ("a = 0 and b = 1", "c = 0", "b = 2 and c = 1")
    domain = replace(coded(2, 3, 2), impossible=rules)
    assert narrowed(domain, domain.names) == domain
    found = narrowed(domain, ["b", "a"])
    assert (found.names, found.impossible) == (("b", "a"), rules[:1])
    assert narrowed(domain, ["c"]).impossible == rules[1:2]
    assert domain.project([0, 1, 2]).impossible == ()
    with pytest.raises(InvalidInput, match="no attribute 'd'"):
        narrowed(domain, ["d"])


def test_a_table_has_the_rules_of_its_schema(tmp_path):
    (tmp_path / "people.csv").write_text("income,age\n<=50K,7\n>50K,20\n")
    file = written(tmp_path, ATTRIBUTES + RULE)
    table = Table.read_csv(tmp_path / "people.csv", file)
    assert (table.domain.names, table.domain.impossible) == (("income", "age"), load(file).impossible)
    assert Table.read_csv(tmp_path / "people.csv", file, ["age"]).domain.impossible == ()
    assert Table.read_csv(tmp_path / "people.csv", load(file)).domain == load(file)


def test_rules_are_written_with_their_domain():
    domain = replace(coded(2, 3), impossible=("a = 0 and b = 1", "b = 2"))
    assert domain_from_json(json.loads(json.dumps(domain_to_json(domain)))) == domain
    assert domain_from_json(tomllib.loads(to_toml(domain))) == domain


@pytest.mark.parametrize("rules", [5, None, "a < 1", b"a < 1", [5], ["a < 1", None]])
def test_rules_of_a_domain_are_a_list_of_conditions(rules):
    with pytest.raises(InvalidInput, match="impossible must be a list of conditions"):
        replace(coded(2, 3), impossible=rules)


def test_rules_may_come_in_any_list():
    rules = ["a < 1", "b = 2"]
    assert len({replace(coded(2, 3), impossible=kind(rules)) for kind in (list, tuple, iter)}) == 1


def test_rules_on_the_same_columns_add_up():
    found = masks(coded(2, 3, 2), ["a = 0 and b = 1", "b = 2 and a = 1", "c = 0"])
    assert sorted(found) == [(0, 1), (2,)]
    assert found[0, 1].tolist() == [False, True, False, False, False, True]


def test_a_json_schema_has_none(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text('{"a": 2}')
    assert load(file).impossible == ()


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
    (tmp_path / "people.csv").write_text("age,income\n7,<=50K\n")
    with pytest.raises(InvalidInput, match=rf"^schema .*schema\.toml: .*{why}"):
        Table.read_csv(tmp_path / "people.csv", written(tmp_path, f"{ATTRIBUTES}\n[[impossible]]\n{entry}\n"))


def test_rules_must_be_entries(tmp_path):
    file = written(tmp_path, 'impossible = "age < 16"\n' + ATTRIBUTES)
    with pytest.raises(InvalidInput, match=r"\[\[impossible\]\]"):
        load(file)
