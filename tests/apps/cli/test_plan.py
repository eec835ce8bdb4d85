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


OPEN = """
[[attribute]]
name = "sex"
kind = "category"
categories = ["F", "M"]
reviewed = true

[[attribute]]
name = "delay"
kind = "number"
within = [-60, 1440]
step = 1
bins = { learn = 32 }
reviewed = true

[[attribute]]
name = "dest"
kind = "category"
categories = { learn = true, at_most = 1000 }
reviewed = true
"""


def test_a_schema_that_is_to_be_learned_is_planned_with_a_stand_in(tmp_path, capsys):
    schema = tmp_path / "people.toml"
    schema.write_text(OPEN)
    asked = ["plan", "--schema", str(schema), "--n", "5000", "--trials", "0", "--workload", "marginals:2"]
    assert main([*asked, "--epsilon", "1", "--delta", "1e-9"]) == 0
    told = capsys.readouterr()
    assert not told.err
    assert told.out.startswith("to be learned, so not known to a plan: delay, dest\n")
    assert "charges epsilon=1, delta=1e-09 once" in told.out
    assert "planned with a stand-in: delay 32 bins, dest 14 categories" in told.out
    assert f"schema learn DATA --schema {schema} --epsilon 0.1 --delta 1e-10 --out people-learned.toml" in told.out
    assert "universe 960 cells" in told.out  # 2 sexes, 32 bins, 14 categories and other
    assert main([*asked, "--epsilon", "1", "--delta", "1e-9", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["learning"]["stand_in"] == {"delay": 32, "dest": 14}
    assert content["cost"] == content["learning"]["release"]
    # Without a delta, and with numbers, learning is charged apart, and every mechanism can have the rest.
    assert main([*asked, "--columns", "sex,delay", "--epsilon", "1", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    (spend,) = content["learning"]["spends"]
    assert (spend["what"], spend["cost"]["epsilon"]) == ("learn bins of delay", pytest.approx(0.1))
    assert content["cost"] == {"epsilon": pytest.approx(0.9)}
    assert [q["mechanism"] for q in content["quotes"]] == list(CONTENDERS)
    numbers = ["--numbers", "mean:delay by sex", "--epsilon", "1", "--delta", "1e-9", "--json"]
    assert main([*asked, *numbers]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["cost"] == {"epsilon": pytest.approx(0.9), "delta": pytest.approx(9e-10)}
    assert content["numbers"][0]["groups"] == 2


def test_what_a_plan_cannot_know_before_learning_is_said_with_what_to_run_instead(tmp_path, capsys):
    schema = tmp_path / "people.toml"
    schema.write_text(OPEN)
    asked = ["plan", "--schema", str(schema), "--n", "5000", "--trials", "0"]
    assert main([*asked, "--target-error", "0.1", "--delta", "1e-9"]) == 2
    assert "a plan needs the --epsilon of learning and release together; or learn" in capsys.readouterr().err
    assert main([*asked, "--epsilon", "1", "--delta", "1e-9", "--workload", "where:dest = JFK"]) == 2
    told = capsys.readouterr().err
    assert "'where:dest = JFK' has a condition on what is to be learned (delay, dest)" in told
    assert told.endswith("--epsilon 0.1 --delta 1e-10 --out people-learned.toml\n")
    assert main([*asked, "--epsilon", "1", "--workload", "marginals:1"]) == 2
    assert "categories that are to be learned (dest) need a delta above 0" in capsys.readouterr().err
