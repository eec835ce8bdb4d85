"""`qrelease estimate`: printed, charged and saved; what is wrong is one line and leaves no ledger."""

import json
import sys

import pytest

from qrelease.apps.cli import main
from qrelease.statistics.estimate import Estimate


@pytest.fixture
def people(tmp_path):
    """A table of 2000 and its schema, as files."""
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(str(i % 80) for i in range(2000)) + "\n", encoding="utf-8")
    (tmp_path / "schema.json").write_text('{"age": 100}', encoding="utf-8")
    return tmp_path


def run(people, *arguments):
    return main(["estimate", str(people / "people.csv"), *arguments, "--schema", str(people / "schema.json")])


def test_an_estimate_is_printed_charged_and_saved(people, capsys):
    out = str(people / "age")
    assert run(people, "mean:age", "--epsilon", "1", "--total-epsilon", "2", "--out", out) == 0
    said = capsys.readouterr().out
    assert "interval" in said
    assert "spent in all: epsilon=1 of epsilon=2" in said
    found = Estimate.load(people / "age")
    assert found.interval[0] < 39.5 < found.interval[1]
    assert not found.insecure
    assert run(people, "quantile:age,q=0.25", "--epsilon", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == {"column": "age", "q": 0.25, "interval": True, "by": []}
    assert run(people, "mean:age", "--epsilon", "1") == 2
    assert "budget" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("out", "told"), [("nowhere/age", "is not there"), ("people.csv/age", "is not there"), (".", "takes a name")]
)
def test_files_that_cannot_be_made_are_refused_before_the_charge(people, capsys, out, told):
    """Where they are to be is the holder's own choice, known before anything is drawn."""
    place = out if out == "." else str(people / out)
    assert run(people, "mean:age", "--epsilon", "1", "--out", place) == 2
    assert told in capsys.readouterr().err
    assert not (people / "people.ledger").exists()


@pytest.mark.parametrize(
    "wrong",
    ["mean", "mode:age", "mean:age,up=3", "mean:age,low=a-b", "mean:size", "mean:age,low=5,high=2", "quantile:age,q=1"],
)
def test_what_is_wrong_is_one_line_and_leaves_no_ledger(people, capsys, wrong):
    assert run(people, wrong, "--epsilon", "1") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(people.glob("*.ledger"))


def test_what_the_schema_shows_to_be_wrong_is_refused_before_the_data_are_read(people, capsys):
    (people / "people.csv").write_text("age\nold\n")
    assert run(people, "mean:age,low=5,high=2", "--epsilon", "1") == 2
    assert "low" in capsys.readouterr().err
    assert run(people, "mean:age", "--epsilon", "1") == 2
    assert "people.csv line 2" in capsys.readouterr().err


def test_derived_columns_of_wide_bins_are_refused_before_the_data_are_read(people, capsys):
    (people / "derived.toml").write_text(
        '[[attribute]]\nname = "age"\nkind = "number"\nwithin = [0, 99]\nstep = 1\nbins = 4\n[person]\ncolumn = "who"\n'
        '[person.derive]\nmost = { take = "max", of = "age" }\n'
    )
    given = [str(people / "people.csv"), "--schema", str(people / "derived.toml"), "--epsilon", "1"]
    assert main(["estimate", *given, "mean:most"]) == 2  # the table has no column of persons at all
    assert "column 'most' has no exact numbers" in capsys.readouterr().err


@pytest.fixture
def her_own(in_folder):
    """A folder whose modules can be imported."""
    sys.path.insert(0, str(in_folder))
    yield in_folder
    sys.path.remove(str(in_folder))


def test_a_statistic_of_ones_own_is_estimated_by_its_name(people, capsys, her_own):
    (her_own / "statistics_of_her_own.py").write_text(
        "from dataclasses import dataclass\n\nimport qrelease as qr\n\n\n"
        "@dataclass(frozen=True)\nclass Broken:\n    name = 'broken'\n\n"
        "    def check(self, domain, cost, neighbours):\n        pass\n\n"
        "    def estimate(self, private, cost):\n        raise ValueError('no')\n\n"
        "    def error_bound(self, domain, records, cost, neighbours, *, beta):\n        pass\n\n\n"
        "ages = qr.Mean('age')\nnumber = 3\n"
    )
    assert run(people, "statistics_of_her_own:ages", "--epsilon", "1", "--total-epsilon", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["statistic"] == "mean"
    refused = {
        "statistics_of_her_own:number": "must be a function",
        "statistics_of_her_own:qr": "must be a statistic, an object with name, check, estimate and error_bound",
        "meen:age": "and there is no module 'meen' with one of your own",
    }
    for named, said in refused.items():
        assert run(people, named, "--epsilon", "1") == 2
        line = capsys.readouterr().err
        assert said in line
        assert line.count("\n") == 1
    assert run(people, "statistics_of_her_own:Broken", "--epsilon", "1") == 2
    line = capsys.readouterr().err
    assert "Broken failed: ValueError: no (statistics_of_her_own.py, line 14); epsilon=1 was charged to" in line
    assert line.count("\n") == 1
