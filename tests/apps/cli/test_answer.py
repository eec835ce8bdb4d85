"""The command that answers conditions from a release."""

import csv
import json
from pathlib import Path

import pytest
from commands import release

from qrelease.apps.cli import main


def test_what_is_no_release_is_said_to_be_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("people.csv", "."):
        assert main(["answer", path, "sex = F"]) == 2
        assert capsys.readouterr().err == (
            f"qrelease: {path} is no release: that is a folder that `qrelease release` wrote, with its release.json\n"
        )
    assert main(["answer", "nowhere", "sex = F"]) == 2
    assert "nowhere cannot be read: No such file" in capsys.readouterr().err
    assert release() == 0
    assert main(["answer", "out/release.json", "sex = F"]) == 0


def test_of_several_conditions_none_is_answered_before_all_are_understood(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release() == 0
    capsys.readouterr()
    assert main(["answer", "out", "sex = F", "sex is"]) == 2
    found = capsys.readouterr()
    assert not found.out
    assert "expected 'missing', got the end" in found.err


def test_conditions_come_from_a_file_and_answers_as_csv_or_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release("--delta", "1e-6") == 0
    (folder / "asked").write_text("# of the survey\nsex = F\n\n  age between 30 and 39 and sex = M\n")
    capsys.readouterr()
    assert main(["answer", "out", "city is missing", "--file", "asked", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["query"] for row in rows] == ["city is missing", "sex = F", "age between 30 and 39 and sex = M"]
    assert set(rows[0]) == {"query", "answer", "noisy", "error_95", "model_95"}
    assert all(row["model_95"] > 0 for row in rows)  # every answer has a bar to publish
    assert main(["answer", "out", "--file", "asked", "--format", "csv"]) == 0
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [float(row["answer"]) for row in found] == [row["answer"] for row in rows[1:]]
    assert [float(row["model_95"]) for row in found] == [row["model_95"] for row in rows[1:]]
    for command, words in [
        (["answer", "out"], "no condition"),
        (["answer", "out", "--file", "no"], "no cannot be read"),
    ]:
        assert main(command) == 2
        assert words in capsys.readouterr().err
