"""Rules of a schema about impossible cells: what they forbid, and which are refused."""

import json
import tomllib
from dataclasses import replace

import pandas as pd
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


@pytest.mark.parametrize("person", ["", '\n[person]\ncolumn = "who"\nat_most = 5\nmissing = [""]\n'])
@pytest.mark.parametrize("source", ["csv", "quoted", "parquet", "jsonl", "frame", "many"])
def test_a_record_that_no_record_can_be_is_refused_with_its_place(source, person, tmp_path):
    """Also where the records before it are nobody's, whose rules are not looked at: they are left out."""
    domain = load(written(tmp_path, ATTRIBUTES + RULE + person))
    rows = {"age": ["70", "3", "3", "15"], "income": [">50K", ">50K", "<=50K", ">50K"], "who": ["a", "", "b", "c"]}
    if not person:
        rows["income"][1] = "<=50K"
    frame = pd.DataFrame(rows)
    file = tmp_path / f"people.{source if source in ('parquet', 'jsonl') else 'csv'}"
    if source == "parquet":
        frame.to_parquet(file)
    elif source == "jsonl":
        frame.to_json(file, orient="records", lines=True)
    elif source == "many":
        frame[:2].to_csv(tmp_path / "people-1.csv", index=False)
        frame[2:].to_csv(tmp_path / "people-2.csv", index=False)
        file = tmp_path / "people-*.csv"
    else:
        frame.to_csv(file, index=False)
        if source == "quoted":  # which is read line by line
            file.write_text(file.read_text().replace("70,", '"7\n0",', 1).replace("7\n0", "70\n"))
    place = {"csv": "line 5", "quoted": "line 6", "parquet": "row 3", "jsonl": "line 4", "frame": "row 3"}
    with pytest.raises(InvalidInput, match=r"columns 'age' '0\.\.15', 'income' '>50K': impossible") as refusal:
        Table.from_frame(frame, domain) if source == "frame" else Table.read(file, domain)
    assert place.get(source, "people-2.csv line 3") in str(refusal.value)
    possible = frame[:3]
    assert len(Table.from_frame(possible, domain)) == (2 if person else 3)
    assert len(Table.from_frame(frame, domain.of_rows)) == 4, "what was made up may not keep the rules"


def test_only_rules_about_the_columns_that_are_read_are_looked_at(tmp_path):
    domain = load(written(tmp_path, ATTRIBUTES + RULE))
    frame = pd.DataFrame({"age": ["3"], "income": [">50K"]})
    assert len(Table.from_frame(frame, domain, ["age"])) == 1
