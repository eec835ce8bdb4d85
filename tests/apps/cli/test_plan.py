"""`qrelease plan`: a plan as text or as JSON."""

import json

import pytest

from qrelease.apps.cli import main
from qrelease.evaluation.planning import CONTENDERS


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "domain.json"
    path.write_text('{"a": 6, "b": 2}')
    return path


@pytest.mark.usefixtures("no_search", "quick_nets")
def test_the_command(schema, capsys):
    arguments = ["plan", "--schema", str(schema), "--workload", "ranges:a", "--n", "50000", "--target-error", "0.02"]
    assert main([*arguments, "--columns", "a", "--trials", "1"]) == 0
    assert "epsilon for 0.02" in capsys.readouterr().out
    assert main([*arguments, "--trials", "0", "--epsilon", "1", "--delta", "1e-9", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["cost"] == {"epsilon": 1.0, "delta": 1e-9}
    assert [q["mechanism"] for q in content["quotes"]] == list(CONTENDERS)
    asked = ["--trials", "0", "--epsilon", "1", "--numbers", "mean:a by b", "--clip", "a=1..3", "--json"]
    assert main([*arguments, *asked]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [(n["question"], n["groups"], round(n["records"])) for n in content["numbers"]] == [
        ("mean:a by b", 2, 25_000)
    ]
    assert content["numbers"][0]["half_width"] > 0
    named = ["--workload" if word == "--numbers" else word for word in asked]
    assert main([*arguments, *named]) == 0
    assert json.loads(capsys.readouterr().out)["numbers"] == content["numbers"]
    assert main([*arguments, "--epsilon", "1", "--clip", "a=1..3"]) == 2
    assert capsys.readouterr().err == "qrelease: --clip needs --numbers\n"
    assert main([*arguments, "--epsilon", "1", "--numbers", "mean:a", "--clip", "a=learn"]) == 2
    assert "are not known to a plan" in capsys.readouterr().err
    assert main(["plan", "--schema", str(schema), "--n", "10"]) == 2
    assert capsys.readouterr().err == "qrelease: a plan needs a target error, an epsilon, or both\n"


DRAFT = """
[[attribute]]
name = "sex"
kind = "category"
categories = ["F", "M"]

[[attribute]]
name = "age"
kind = "number"
bins = {start = 17, stop = 25, width = 1}
integer = true
reviewed = false
"""


def test_a_draft_is_planned_and_said_to_need_the_review(tmp_path, capsys):
    schema = tmp_path / "people.toml"
    schema.write_text(DRAFT)
    asked = ["plan", "--schema", str(schema), "--n", "5000", "--epsilon", "1", "--trials", "0"]
    assert main([*asked, "--workload", "marginals:2"]) == 0
    told = capsys.readouterr()
    assert "universe 16 cells" in told.out
    assert told.err.startswith("qrelease: not reviewed: age. This plan, like the draft, follows values that were read")
    assert "A release needs each entry checked" in told.err
    assert main([*asked, "--workload", "marginals:2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_reviewed"] == ["age"]
    # Only columns that were reviewed: nothing to say.
    assert main([*asked, "--columns", "sex", "--workload", "marginals:1", "--json"]) == 0
    told = capsys.readouterr()
    assert ("not_reviewed" in json.loads(told.out), told.err) == (False, "")
    assert [path.name for path in tmp_path.iterdir()] == ["people.toml"]


def test_the_limits_of_a_draft_are_not_told_by_the_plan_of_numbers(tmp_path, capsys):
    schema = tmp_path / "people.toml"
    schema.write_text(DRAFT)
    asked = ["plan", "--schema", str(schema), "--n", "5000", "--epsilon", "1", "--trials", "0", "--workload"]
    assert main([*asked, "marginals:1", "--numbers", "mean:age by sex"]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert "'mean:age by sex': the limits of 'age' were read off the data" in told.err
    assert main([*asked, "marginals:1", "--numbers", "mean:age by sex", "--clip", "age=0..100"]) == 2
    assert "24" not in capsys.readouterr().err
    schema.write_text(DRAFT.replace("reviewed = false", "reviewed = true"))
    assert main([*asked, "marginals:1", "--numbers", "mean:age by sex"]) == 0
    told = capsys.readouterr()
    assert "mean:age by sex" in told.out
    assert not told.err
    schema.write_text(DRAFT)
    assert main([*asked, "marginals:1", "--numbers", "count by sex", "--json"]) == 0


def test_a_column_that_is_derived_of_one_in_a_draft_was_not_reviewed_either(tmp_path, capsys):
    schema = tmp_path / "people.toml"
    person = '[person]\ncolumn = "id"\n\n[person.derive]\noldest = {take = "max", of = "age"}\n'
    schema.write_text(f'{DRAFT}\n{person}visits = {{take = "count", bins = [0, 1, 2]}}\n')
    asked = ["plan", "--schema", str(schema), "--n", "5000", "--epsilon", "1", "--trials", "0"]
    assert main([*asked, "--workload", "marginals:1"]) == 0
    assert "qrelease: not reviewed: oldest. This plan" in capsys.readouterr().err
    assert main([*asked, "--workload", "marginals:1", "--numbers", "mean:oldest by visits"]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert "the limits of 'oldest' were read off the data" in told.err
    assert main([*asked, "--columns", "visits", "--workload", "marginals:1"]) == 0
    assert not capsys.readouterr().err
