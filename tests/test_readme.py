"""The README's code runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def blocks(file: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a people.csv that the commands of the README fit."""
    rows = (f"{18 + i % 70},{('<=50K', '>50K')[i % 3 == 0]},{'FM'[i % 2]}" for i in range(900))
    (tmp_path / "people.csv").write_text("age,income,sex\n" + "\n".join(rows) + "\n")
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_block_runs(folder: Path) -> None:
    (code,) = blocks(README, "python")
    assert "±" in run([sys.executable, "-W", "error", "-c", code], folder)
    assert (folder / "people-release-from-python" / "synthetic.csv").exists()


def test_the_command_lines_run(folder: Path) -> None:
    commands = next(b for b in blocks(README, "sh") if "schema draft" in b).replace("\\\n", "").splitlines()
    inline = re.search(r"`(qrelease evaluate[^`]*)`", README.read_text(encoding="utf-8"))
    assert inline is not None
    for line in [*commands, " ".join(inline[1].split())]:
        if line.startswith("#"):  # the person reviews: bins that the conditions below can be asked of
            text = (folder / "people.toml").read_text()
            text = re.sub(r"bins = .*", "bins = [18, 30, 40, 60, 88]", text)
            (folder / "people.toml").write_text(text.replace("reviewed = false", "reviewed = true"))
            continue
        command = line.replace("qrelease ", f"{sys.executable} -m qrelease.cli ", 1).replace(
            "marginals:3", "marginals:2"
        )
        run(["bash", "-c", command], folder)
    assert (folder / "error.svg").exists()


def test_the_documents_name_files_that_exist() -> None:
    for document in (README, ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), target
