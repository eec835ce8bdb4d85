"""`qrelease demo`: what it shows and writes, and that it writes over nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from qrelease.apps.cli import main


@pytest.mark.slow
def test_the_demo(tmp_path: Path) -> None:
    (tmp_path / "demo-release").mkdir()  # of a run before
    command = [sys.executable, "-W", "error", "-m", "qrelease", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert "76,204,800 cells" in shown
    (ratios,) = re.findall(r"^auto +[\d.]+ +([\d.]+) +([\d.]+)", shown, re.MULTILINE)
    assert max(map(float, ratios)) < 0.6  # of the error of Laplace, and of Gaussian noise
    (query,) = re.findall(r'qrelease answer demo-release-2 (".+?")', shown)
    assert main(["answer", str(tmp_path / "demo-release-2"), query.strip('"')]) == 0
    files = sorted(file.name for file in (tmp_path / "demo-release-2").iterdir())
    assert {*files} - {"measurements.npy", "synopsis.npz"} == {
        *("SHA256SUMS", "answers.csv", "release.json", "report.html", "synthetic.csv"),
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--epsilon", "0"], "epsilon must be positive"),
        (["--epsilon", "nan"], "epsilon must be finite"),
        (["--delta", "1"], "delta"),
        (["--out", "there"], "there"),
        (["--out", "no/such/folder"], "no/such"),
    ],
)
def test_what_it_cannot_do_is_one_line_before_anything_is_released(options, said, in_folder, capsys):
    (in_folder / "there").mkdir()
    (in_folder / "there" / "mine.txt").write_text("mine")
    assert main(["demo", *options]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert [str(file.relative_to(in_folder)) for file in sorted(in_folder.rglob("*"))] == ["there", "there/mine.txt"]
