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
