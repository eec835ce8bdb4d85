"""A folder with a table and its schema, in which commands run."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import OWN, ROWS, SCHEMA

from qrelease.apps.cli import main


@pytest.fixture
def folder(in_folder: Path) -> Path:
    (in_folder / "people.csv").write_text("sex,age,city\n" + ROWS)
    (in_folder / "people.toml").write_text(SCHEMA)
    return in_folder


@pytest.fixture
def own(folder: Path) -> Iterator[str]:
    (folder / "mechanisms_of_her_own.py").write_text(OWN)
    sys.path.insert(0, str(folder))
    yield "mechanisms_of_her_own"
    sys.path.remove(str(folder))


@pytest.fixture
def served(tmp_path, capsys):
    """Serve a file beside two tables; what is said, in one line."""

    def serve(text, *options):
        (tmp_path / "serve.toml").write_text(text)
        for name in ("people", "staff"):
            (tmp_path / f"{name}.csv").write_text("sex\n1\n")
        (tmp_path / "people.json").write_text('{"sex": 2}')
        assert main(["serve", str(tmp_path / "serve.toml"), *options]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert not [*tmp_path.glob("*.ledger")]
        return line.replace(f"{tmp_path}/", "")

    return serve
