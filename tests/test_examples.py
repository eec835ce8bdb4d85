"""Every example runs as it stands, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import qrelease as qr

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("file", [*EXAMPLES, *PAGES], ids=lambda path: path.stem)
def test_what_is_public_is_shown_by_its_public_name(file: Path) -> None:
    """A module that it comes from may be another one in the next version."""
    imported = re.findall(r"^from qrelease\.[\w.]+ import ([\w, ]+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    names = {name.strip() for line in imported for name in line.split(",")}
    assert not names & {*qr.__all__}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.glob("*.ledger"))  # one left behind would be in the way of a release of one's own
