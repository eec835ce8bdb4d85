"""Categories from code lists, and hierarchies of them that are declared once."""

from pathlib import Path

import numpy as np
import pytest

from qrelease.data.schema import load
from qrelease.data.schema_check import check
from qrelease.data.schema_draft import draft
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

SCHEMA = """
[[attribute]]
name = "province"
kind = "category"
categories = ["N", "S"]

[[attribute]]
name = "the town"
kind = "category"
categories = { file = "towns.csv", column = "code" }
parent = "province"
"""


TOWNS = "name,code,province\nBonn,b,N\nUlm,u,S\nO'Kay,o'k,S\n"


def test_a_hierarchy_is_declared_once(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text(TOWNS)
    (tmp_path / "s.toml").write_text(SCHEMA)
    domain = load(tmp_path / "s.toml")
    assert domain["the town"].categories == ("b", "u", "o'k")
    from qrelease.data.structural_zeros import masks

    (mask,) = masks(domain, domain.impossible).values()
    np.testing.assert_array_equal(mask.reshape(2, 3), [[False, True, True], [True, False, False]])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('column = "code"', 'column = "cod"', "towns.csv has no column 'cod'; it has name, code, province"),
        ('file = "towns.csv"', 'file = "town.csv"', "town.csv cannot be read"),
        ('file = "towns.csv"', 'fil = "towns.csv"', "categories must be a list of texts, or file"),
        ('categories = ["N", "S"]', 'categories = ["N", "W"]', "parent 'province' has no category 'S'"),
        ('parent = "province"', 'parent = "name"', "parent 'name' is not an attribute"),
        ('parent = "province"', "parent = 3", "parent must be the name of an attribute"),
        ('{ file = "towns.csv", column = "code" }', '["b"]', "parent needs categories from a file"),
    ],
)
def test_a_wrong_code_list_is_named(old: str, new: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text(TOWNS)
    (tmp_path / "s.toml").write_text(SCHEMA.replace(old, new))
    with pytest.raises(InvalidInput) as error:
        load(tmp_path / "s.toml")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_code_with_two_parents_is_named(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text(TOWNS + "Bonn,b,S\n")
    (tmp_path / "s.toml").write_text(SCHEMA)
    with pytest.raises(InvalidInput, match=r"'b' has two parents in towns\.csv"):
        load(tmp_path / "s.toml")


def test_a_list_with_semicolons_is_read_where_the_schema_says_so(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text(TOWNS)
    (tmp_path / "s.toml").write_text(SCHEMA)
    domain = load(tmp_path / "s.toml")
    (tmp_path / "towns.csv").write_text(TOWNS.replace(",", ";"))
    with pytest.raises(InvalidInput, match='or add separator = ";" beside file'):
        load(tmp_path / "s.toml")
    (tmp_path / "s.toml").write_text(SCHEMA.replace('file = "towns.csv"', 'file = "towns.csv", separator = ";"'))
    assert load(tmp_path / "s.toml") == domain


def test_what_a_draft_says_of_a_column_with_a_list_can_be_loaded(tmp_path: Path) -> None:
    codes = [f"{'AB'[i % 2]}{i}" for i in range(150)]
    (tmp_path / "data.csv").write_text("province,municipality\n" + "".join(f"{c[0]},{c}\n" for c in codes))
    (tmp_path / "municipalities.csv").write_text("code,province_code\n" + "".join(f"{c},{c[0]}\n" for c in codes))
    text = draft(tmp_path / "data.csv")
    _, _, told = text.partition("# A column of texts with a public list of codes")
    entry = [line.removeprefix("#     ") for line in told.splitlines() if line.startswith("#     ")]
    (tmp_path / "s.toml").write_text("\n".join([text.replace("reviewed = false", "reviewed = true"), *entry]))
    domain = load(tmp_path / "s.toml")
    assert domain.names == ("province", "municipality")
    assert domain["municipality"].categories == tuple(codes)
    assert domain.impossible  # a municipality in another province than its own


def test_a_record_with_another_parent_than_the_list_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text(TOWNS)
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "people.csv").write_text("the town,province\nb,N\nu,S\n")
    assert len(Table.read(tmp_path / "people.csv", tmp_path / "s.toml")) == 2
    (tmp_path / "people.csv").write_text("the town,province\nb,N\nb,S\n")
    with pytest.raises(InvalidInput, match=r"people.csv line 3: columns 'the town' 'b', 'province' 'S': impossible"):
        Table.read(tmp_path / "people.csv", tmp_path / "s.toml")


def test_with_a_parent_without_children_each_listed_child_is_impossible(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text("code,province\nb,N\nu,N\n")  # as of a list in which Ulm has the wrong province
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "people.csv").write_text("province,the town\nN,b\nS,u\n")
    found = check(tmp_path / "people.csv", tmp_path / "s.toml")
    assert not found.holds
    (rule,) = found.rules
    assert dict(rule.refused) == {("S", "u"): 1}
    assert found.doubts == (
        "province 'S' has no category of 'the town' in towns.csv: records with it and any 'the town' that is listed"
        " there are refused",
    )
    assert found.doubts[0] in str(found)
    other = SCHEMA.replace('"S"]', '"S"]\noutside = "S"')  # S is where other provinces are put
    (tmp_path / "s.toml").write_text(other)
    assert other != SCHEMA
    assert check(tmp_path / "people.csv", tmp_path / "s.toml").holds
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "towns.csv").write_text(TOWNS)
    assert check(tmp_path / "people.csv", tmp_path / "s.toml").doubts == ()
