"""A folder with a table and its schema, in which commands run."""

from pathlib import Path

import pytest
from commands import ROWS, SCHEMA


@pytest.fixture
def folder(in_folder: Path) -> Path:
    (in_folder / "people.csv").write_text("sex,age,city\n" + ROWS)
    (in_folder / "people.toml").write_text(SCHEMA)
    return in_folder
