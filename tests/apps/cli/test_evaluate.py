"""The command that compares with the truth."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qrelease.apps.cli import main


def test_evaluate_names_the_dataset_and_draws_only_what_it_can(
    folder: Path, capsys: pytest.CaptureFixture[str], not_installed: Callable[[str], None]
) -> None:
    command = ["evaluate", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--workload", "marginals:1"]
    assert main([*command, "--json"]) == 0
    assert {json.loads(line)["dataset"] for line in capsys.readouterr().out.splitlines()} == {"people"}
    assert main([*command, "--dataset", "census"]) == 0
    assert "\ncensus: " in capsys.readouterr().out
    not_installed("matplotlib")
    (folder / "people.csv").unlink()  # it looks before it reads
    assert main([*command, "--plot", "error.svg"]) == 2
    assert capsys.readouterr().err == "qrelease: a picture needs matplotlib: pip install matplotlib\n"


def test_a_matplotlib_that_does_not_load_is_one_line(folder: Path) -> None:
    (folder / "matplotlib").mkdir()
    (folder / "matplotlib" / "__init__.py").write_text("raise RuntimeError('built\\nfor another numpy')")
    command = ["evaluate", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--plot", "error.svg"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "qrelease", *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "qrelease: matplotlib is installed and does not load: built for another numpy\n"


def test_what_is_not_private_is_for_its_owner_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    words = ["evaluate", "people.csv", "--schema", "people.toml"]
    (folder / "error.svg").write_text("an old picture that all may read")
    (folder / "error.svg").chmod(0o644)
    before = os.umask(0)
    try:
        assert main([*words, "--synthetic", "people.csv", "--out", "page"]) == 0
        assert "NOT PRIVATE" in capsys.readouterr().err
        assert main([*words, "--epsilon", "1", "--workload", "marginals:1", "--plot", "error.svg"]) == 0
    finally:
        os.umask(before)
    written = [folder / "page" / "quality.html", folder / "page" / "quality.json", folder / "error.svg"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in written] == [0o600] * 3
    assert (folder / "page").stat().st_mode & 0o077 == 0


def test_a_release_is_judged_by_its_answers_and_numbers_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["people.csv", "--schema", "people.toml", "--workload", "marginals:2", "--epsilon", "9"]
    assert main(["release", *command, "--insecure-seed", "1", "--numbers", "count by city", "--out", "out"]) == 0
    capsys.readouterr()
    judged = ["evaluate", "people.csv", "--schema", "people.toml", "--targets", "sex"]
    assert main([*judged, "--release", "out", "--json"]) == 0
    found = {line["what"]: line for line in json.loads(capsys.readouterr().out)["published"]}
    assert list(found) == ["answer ± model_95", "noisy ± error_95", "count by city"]
    assert found["answer ± model_95"]["lines"] == 26
    assert found["count by city"]["bars"] == 4
    assert 0 < found["count by city"]["rmse"] < 20
    # Of a table that any tool made there is nothing published to compare.
    assert main([*judged, "--synthetic", "people.csv", "--json"]) == 0
    assert "published" not in json.loads(capsys.readouterr().out)


def test_a_release_that_learned_its_schema_is_judged_by_what_it_learned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the schema that it was made with, for nothing more."""
    grid = 'kind = "number"\nwithin = [0, 99]\nstep = 1\nbins = { learn = 4 }\noutside = "clip"\n'
    (folder / "open.toml").write_text(f'[[attribute]]\nname = "age"\n{grid}')
    command = ["people.csv", "--schema", "open.toml"]
    asked = ["--workload", "marginals:1", "--epsilon", "9", "--total-epsilon", "20", "--out", "learnt"]
    assert main(["release", *command, *asked]) == 0
    capsys.readouterr()
    assert main(["evaluate", *command, "--release", "learnt"]) == 0
    with_schema = capsys.readouterr().out
    assert main(["evaluate", "people.csv", "--release", "learnt"]) == 0  # a release says its schema
    assert capsys.readouterr().out == with_schema
    assert main(["evaluate", *command, "--epsilon", "1"]) == 2  # nothing was learned for that
    for judged in (["--synthetic", "people.csv"], ["--epsilon", "1"]):
        capsys.readouterr()
        assert main(["evaluate", "people.csv", *judged]) == 2
        assert "say with --schema what the columns are" in capsys.readouterr().err
