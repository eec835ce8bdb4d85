"""`qrelease score`: scores that are charged to the ledger of the data."""

import json
import os
import subprocess
import sys

import pytest

import qrelease as qr
from qrelease.apps.cli import main


def test_the_command_charges_the_ledger_of_the_data(tmp_path, capsys):
    (tmp_path / "people.csv").write_text("a,b,c\n" + "".join(f"{i % 2},{i % 2},{i % 3}\n" for i in range(300)))
    (tmp_path / "fake.csv").write_text("a,b,c\n" + "".join(f"{i % 2},1,{i % 3}\n" for i in range(90)))
    (tmp_path / "schema.json").write_text('{"a": 2, "b": 2, "c": 3}')
    words = [
        "score",
        str(tmp_path / "people.csv"),
        str(tmp_path / "fake.csv"),
        "--schema",
        str(tmp_path / "schema.json"),
    ]
    assert main([*words, "--epsilon", "1"]) == 2
    assert "there is no ledger" in capsys.readouterr().err
    qr.Ledger.open(tmp_path / "people.ledger", qr.PureDP(1.0)).close()
    assert main([*words, "--epsilon", "0.5"]) == 0
    shown, told = capsys.readouterr()
    assert "would say nothing, if there are about as many private records as synthetic ones: the interval is" in told
    assert "1-marginal" in told  # 90 records are too few for half of an epsilon
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["noisy", "from", "to"]
    assert [line[0] for line in lines[1:4]] == ["1-marginal", "2-marginal", "3-marginal"]
    assert all(float(low) <= float(value) <= float(high) for _, value, low, high in lines[1:4])
    assert shown.count("left out: Cramér's V, correlations, ") == 1
    assert shown.endswith("cost      epsilon=0.5, add-remove\n")
    with qr.Ledger.open(tmp_path / "people.ledger") as ledger:
        assert ledger.spent == qr.PureDP(0.5)


def test_a_ledger_of_other_people_is_not_charged(in_folder, capsys):
    """Not even where it is named: the budget of the people in the data would not know of it."""
    (in_folder / "people.csv").write_text("a,b\n" + "0,1\n1,0\n" * 50)
    (in_folder / "schema.json").write_text('{"a": 2, "b": 2}')
    qr.Ledger.open("planes.ledger", qr.PureDP(1.0)).close()
    words = ["score", "people.csv", "people.csv", "--schema", "schema.json", "--epsilon", "0.5"]
    for further in ([], ["--dataset", "people"]):
        assert main([*words, "--ledger", "planes.ledger", *further]) == 2
        assert "belongs to dataset 'planes', not to 'people'" in capsys.readouterr().err
    with qr.Ledger.open("planes.ledger") as ledger:
        assert ledger.spent is None


def test_a_release_is_scored_by_its_folder_with_what_was_learned_for_it(in_folder, capsys):
    (in_folder / "people.csv").write_text("age,sex\n" + "".join(f"{20 + i % 50},{'fm'[i % 2]}\n" for i in range(400)))
    (in_folder / "people.toml").write_text(
        '[[attribute]]\nname = "age"\nkind = "number"\nwithin = [0, 99]\nstep = 1\nbins = { learn = 4 }\n'
        '[[attribute]]\nname = "sex"\nkind = "category"\ncategories = ["f", "m"]\n'
    )
    words, cost = ["people.csv", "--schema", "people.toml"], ["--epsilon", "5"]
    asked = ["--workload", "marginals:2", "--total-epsilon", "20", "--out", "out"]
    assert main(["release", *words, *cost, *asked]) == 0
    assert main(["score", words[0], "out", *words[1:], *cost, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["value"]["2-marginal"] > 800
    assert main(["score", words[0], "out/synthetic.csv", *words[1:], *cost]) == 2
    assert "must be learned first" in capsys.readouterr().err
    assert main(["score", words[0], "out", *words[1:], "--columns", "sex", *cost]) == 2
    assert "out was made with another schema or other columns" in capsys.readouterr().err
    assert main(["score", "people.csv", "out/synthetic.csv", *cost]) == 2
    assert "say with --schema what the columns are" in capsys.readouterr().err
    assert main(["score", "people.csv", "out", *cost]) == 0  # a release says its schema
    with qr.Ledger.open("people.ledger") as ledger:
        assert ledger.spent == qr.PureDP(15.0)


def scored(folder):
    (folder / "people.csv").write_text("a,b\n" + "0,1\n1,0\n" * 50)
    (folder / "schema.json").write_text('{"a": 2, "b": 2}')
    qr.Ledger.open("people.ledger", qr.PureDP(1.0)).close()
    return ["score", "people.csv", "people.csv", "--schema", "schema.json", "--epsilon", "0.5"]


def test_scores_that_nobody_reads_are_lost_aloud(in_folder):
    words, (reading, writing) = scored(in_folder), os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "qrelease", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 2
    assert "nobody reads the output; epsilon=0.5 was charged, and the scores are lost" in done.stderr


def test_the_column_that_is_foretold_can_be_named(in_folder, capsys):
    pytest.importorskip("sklearn")
    words = [*scored(in_folder), "--insecure-seed", "1"]
    assert main([*words, "--target", "a", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"accuracy for a", "AUC for a"} < {*found["value"]}
    assert found["parameters"]["target"] == "a"
    assert set(found["choices"]) == {"worst column", "worst pair", "left out"}
    assert main([*words, "--target", "nobody"]) == 2
    assert "no attribute 'nobody'" in capsys.readouterr().err
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("INSECURE")
    assert "accuracy for b" in shown
    assert "  a × b\n" in shown
