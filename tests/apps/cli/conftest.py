"""A folder with a table and its schema, in which commands run."""

from pathlib import Path

import pytest
from commands import ROWS, SCHEMA


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "people.csv").write_text("sex,age,city\n" + ROWS)
    (tmp_path / "people.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path
