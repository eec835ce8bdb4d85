"""The scripts that a studio exports make the same release again, for another charge."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from studios import PAY, PUBLIC, studio_in

import qrelease as qr
from qrelease.privacy.ledger import Ledger

ROOT = Path(qr.__file__).parent.parent


@pytest.fixture
def page(tmp_path):
    """In a folder, and with a column, whose names a shell would read otherwise."""
    folder = tmp_path / 'it\'s a $HOME; "folder"'
    folder.mkdir()
    found = studio_in(folder)
    found.reviewed([*PUBLIC[:2]])
    found.release(total_epsilon=3, total_delta=1e-7, workload=["marginals:1", "marginals:sex*age"])
    return found


def run(command, folder):
    home = folder / "bin"
    home.mkdir()
    tool = home / "qrelease"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m qrelease "$@"\n')
    tool.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{home}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("name", "by"), [("release.sh", "sh"), ("release.py", sys.executable)])
def test_it_makes_the_same_kind_of_release(page, tmp_path, name, by):
    folder = page.studio.folder.path
    (tmp_path / name).write_bytes(page.ask(f"script/{name}").content)
    said = run([by, name, "again"], tmp_path)
    assert "spent in all: epsilon=2, delta=2e-09 of epsilon=3, delta=1e-07" in said
    first, second = qr.load(folder / "people-release"), qr.load(tmp_path / "again")
    assert first.workload == second.workload
    assert (first.cost, first.mechanism, first.neighbours) == (second.cost, second.mechanism, second.neighbours)
    assert first.parameters["chosen"] == second.parameters["chosen"]
    assert first.id != second.id
    with Ledger.open(folder / "people.ledger") as ledger:
        assert [entry.kind for entry in ledger.history()].count("charge") == 2


@pytest.mark.parametrize(("name", "by"), [("release.sh", "sh"), ("release.py", sys.executable)])
def test_numbers_are_asked_again(tmp_path, name, by):
    page = studio_in(tmp_path)
    page.reviewed([PUBLIC[0], PAY])
    question = "mean:pay by sex"
    made = page.release(total_epsilon=3, total_delta=1e-7, numbers=[question])
    assert "numbers.csv" in made["files"]
    (tmp_path / name).write_bytes(page.ask(f"script/{name}").content)
    run([by, name, "again"], tmp_path)
    first, second = qr.load(tmp_path / "people-release"), qr.load(tmp_path / "again")
    assert (first.cost, first.mechanism) == (second.cost, second.mechanism)
    for release in (first, second):
        assert set(release.table(question)["source"]) == {"measured"}


def test_there_are_two_of_them(page):
    assert page.bad("script/release.bat") == "the scripts are release.sh and release.py"
    for name in ("release.sh", "release.py"):
        found = page.ask(f"script/{name}")
        assert found.headers["content-disposition"] == f'attachment; filename="{name}"'
