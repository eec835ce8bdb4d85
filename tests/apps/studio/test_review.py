"""A draft, what a person makes of it, and the schema file that comes of it."""

import json
import tomllib
from datetime import date

import pytest
from studios import PUBLIC, SECRETS

from qrelease.data.domain import Attribute, Domain
from qrelease.data.schema import load, to_toml


def content(*columns, **more):
    return {"attribute": [{**c, "reviewed": True} for c in columns], **more}


def test_a_draft_is_marked_until_it_is_reviewed(page):
    found = page.good("draft", {"file": "people.csv"})
    assert found["header"] == ["name", "sex", "age", "city", "pay", "born"]
    assert found["left_out"] == [{"name": "name", "why": "more than 100 different texts"}]
    assert [c["name"] for c in found["columns"]] == ["sex", "age", "city", "pay", "born"]
    assert not any(c["reviewed"] for c in found["columns"])
    assert found["columns"][4]["bins"]["start"] == "1931-01-01"  # a date, as text
    said = page.bad("schema", {"content": {"attribute": found["columns"]}, "save": True})
    assert said.startswith("not reviewed: sex, age")
    assert not list(page.studio.folder.path.glob("*.toml"))


def test_a_first_line_that_looks_like_a_record_is_not_drafted(page):
    (page.studio.folder.path / "headless.csv").write_text("Zyxwv,F,31,Atlantis\nA,M,22,Ulm\nB,F,44,Rom\n")
    said = page.bad("draft", {"file": "headless.csv"})
    assert said.startswith(
        "headless.csv has a first line that looks like a record: write the names of the columns above"
    )
    assert not [value for value in ("Zyxwv", "31", "Atlantis", "Ulm") if value in said]


def test_one_name_that_looks_like_a_value_is_told(page):
    assert page.good("draft", {"file": "people.csv"})["doubted"] == ""
    (page.studio.folder.path / "city.csv").write_text("n,m,city\n1,5,city\n2,6,land\n")
    found = page.good("draft", {"file": "city.csv"})
    assert found["doubted"] == "the name of column 3 is also one of its values"


def test_what_is_reviewed_is_written_once(page):
    folder = page.studio.folder.path
    found = page.reviewed()
    assert found == {
        "schema": "people.toml",
        "columns": [
            {"name": "sex", "kind": "category", "cells": 2},
            {"name": "age", "kind": "number", "cells": 3},
            {"name": "city", "kind": "category", "cells": 3},
        ],
        "cells": "18",
        "person": None,
    }
    assert load(folder / "people.toml")["city"].outside == "else"
    assert page.reviewed()["schema"] == "people.toml"
    assert page.reviewed(PUBLIC[:2])["schema"] == "people-2.toml"
    assert page.reviewed(PUBLIC[1:], person={"column": "name", "at_most": 3})["schema"] == "people-3.toml"
    assert load(folder / "people-3.toml").at_most == 3
    assert sorted(f.name for f in folder.glob("*.toml")) == ["people-2.toml", "people-3.toml", "people.toml"]


def test_who_reviewed_it_is_written_where_a_name_is_given(page):
    folder, before = page.studio.folder.path, date.today().isoformat()
    page.good("draft", {"file": "people.csv"})
    asked = {"content": content(*PUBLIC), "save": True}
    reviews = {}
    for by in ("", " Kim ", "Lee", "Kim"):
        name = page.good("schema", {**asked, "by": by})["schema"]
        reviews[name] = load(folder / name).review
    assert page.good("schema", asked)["schema"] == "people.toml"  # of nobody in particular
    assert [review.by for review in reviews.values()] == [None, "Kim", "Lee"]
    assert all(before <= review.on <= date.today().isoformat() for review in reviews.values())
    assert tomllib.loads((folder / "people-2.toml").read_text())["reviewed_on"] == date.fromisoformat(before)
    for wrong, said in ((["Kim"], "must be a text"), ("Kim\nLee", "must be a text of one line")):
        assert said in page.bad("schema", {**asked, "by": wrong})
    assert len(list(folder.glob("people*"))) == 4  # the data, and three schemas
    page.reviewed(PUBLIC)
    made = page.release()
    manifest = json.loads((folder / made["folder"] / "release.json").read_text())
    assert manifest["domain"]["reviewed_on"] >= before


def test_looking_at_columns_writes_nothing(page):
    page.good("draft", {"file": "people.csv"})
    assert page.good("schema", {"content": content(*PUBLIC)})["cells"] == "18"
    assert not list(page.studio.folder.path.glob("*.toml"))


def test_a_schema_that_was_there_is_gone_on_with(page):
    page.reviewed(PUBLIC, person={"column": "name", "at_most": 2})
    file = page.studio.folder.path / "people.toml"
    file.write_text(file.read_text() + "[[impossible]]\nwhere = \"age < 40 and city = 'else'\"\n")
    found = page.good("draft", {"file": "people.csv", "schema": "people.toml"})
    assert found["reviewed"]
    assert found["person"] == {"column": "name", "at_most": 2}
    assert found["rules"] == 1
    assert [c["name"] for c in found["columns"]] == ["sex", "age", "city"]
    assert not any(secret in str(found) for secret in SECRETS)
    kept = page.good("schema", {"content": content(*found["columns"], person=found["person"]), "save": True})
    assert kept["schema"] == "people.toml"  # with its rule


def test_a_schema_that_was_learned_stays_the_file_that_says_so(page):
    """Nothing of the studio's claims that learned entries are public knowledge."""
    file = page.studio.folder.path / "learned.toml"
    schema = to_toml(Domain((Attribute("pay", "number", edges=(0, 2117, 100_000), within=(0, 99_999), step=1),)))
    file.write_text("# Learned from records.\n" + schema.replace("reviewed = false", "reviewed = true"))
    found = page.good("draft", {"file": "people.csv", "schema": "learned.toml"})
    assert page.good("schema", {"content": content(*found["columns"]), "save": True})["schema"] == "learned.toml"
    more = page.good("schema", {"content": content(*found["columns"], PUBLIC[0]), "save": True})
    assert more["schema"] == "people.toml"
    head = (file.parent / "people.toml").read_text().splitlines()[0]
    assert "from learned.toml" in head
    assert "publicly known" not in head


def test_categories_of_a_file_stay_those_of_the_schema(page):
    folder = page.studio.folder.path
    (folder / "cities.csv").write_text("code\nUlm\nRom\nelse\n")
    listed = {"name": "city", "kind": "category", "categories": {"file": "cities.csv"}, "outside": "else"}
    page.good("draft", {"file": "people.csv"})
    for file in ("cities.csv", "people.csv", "/etc/passwd", "../x.csv"):
        said = page.bad("schema", {"content": content({**listed, "categories": {"file": file}}), "save": True})
        assert "from a file" in said
    (folder / "own.toml").write_text(
        '[[attribute]]\nname = "city"\nkind = "category"\ncategories = { file = "cities.csv" }\noutside = "else"\n'
    )
    found = page.good("draft", {"file": "people.csv", "schema": "own.toml"})
    assert page.good("schema", {"content": content(*found["columns"]), "save": True})["cells"] == "3"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "a schema has the entries attribute"),
        ([], "a schema has the entries attribute"),
        ({"attribute": []}, "at least one"),
        ({"attribute": [3]}, "must be a table"),
        ({"attribute": [{"name": "sex"}]}, "kind must be one of"),
        ({"attribute": [{"name": "sex", "kind": "category", "categories": {"learn": True}}]}, "must be learned first"),
        ({"attribute": [{"name": "height", "kind": "coded", "codes": 2}]}, "has no column 'height'"),
        ({**content(PUBLIC[0]), "person": {"column": "who", "at_most": 1}}, "has no column 'who'"),
        ({**content(PUBLIC[0]), "person": {"column": "sex", "at_most": 1}}, "is also an attribute"),
        ({**content(PUBLIC[0]), "person": {"column": "name", "at_most": 0}}, "at_most must be"),
        ({**content(PUBLIC[0]), "impossible": [{"where": 3}]}, "where"),
        ({**content(PUBLIC[0]), "more": 1}, "a schema has the entries attribute"),
    ],
)
def test_what_is_no_schema_is_refused_in_one_line(page, given, said):
    page.good("draft", {"file": "people.csv"})
    assert said in page.bad("schema", {"content": given, "save": True})
    assert not list(page.studio.folder.path.glob("*.toml"))


def test_a_schema_of_other_columns_is_refused(page):
    (page.studio.folder.path / "other.toml").write_text('[[attribute]]\nname = "x"\nkind = "coded"\ncodes = 2\n')
    assert "no column 'x'" in page.bad("draft", {"file": "people.csv", "schema": "other.toml"})
