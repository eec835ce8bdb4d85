"""What is published: the wheel by itself imports, releases and verifies, and its bytes depend on the sources alone."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

RELEASE = """
import sys
from pathlib import Path
import qrelease as qr
from qrelease.apps.cli import main

assert Path(qr.__file__).is_relative_to(sys.argv[1])
table = qr.data.adult(["sex", "income"])
workload = qr.Workload.marginals(table.domain, 2)
with qr.Ledger.open("adult.ledger", qr.PureDP(1.0)) as ledger:
    release = qr.Curator(table, ledger).release(qr.MWEM(rounds=1), workload, qr.PureDP(1.0))
release.save("out")
assert main(["verify", "out", "--ledger", "adult.ledger"]) == 0
assert main(["card", "out"]) == 0
"""


def built(kind, out):
    """An archive of the working tree, built without a network."""
    pytest.importorskip("hatchling")
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
    )
    (file,) = out.iterdir()
    return file


@pytest.mark.slow
def test_the_wheel_alone_imports_and_releases(tmp_path):
    wheel = built("wheel", tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    packaged = {str(f.relative_to(ROOT)) for f in (ROOT / "qrelease").rglob("*") if f.is_file()}
    kept = {n for n in packaged if "__pycache__" not in n and not n.endswith((".nbi", ".nbc"))}
    assert kept <= {*names}
    assert not any(n.startswith(("tests/", "benchmarks/")) for n in names)
    (tmp_path / "work").mkdir()
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", RELEASE, str(tmp_path / "site")],
        cwd=tmp_path / "work",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "holds: ledger" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_an_archive_is_the_same_whoever_builds_it(kind, tmp_path):
    first, second = built(kind, tmp_path / "one"), built(kind, tmp_path / "two")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    if kind == "sdist":
        with tarfile.open(first) as archive:
            assert any(name.endswith("qrelease/__init__.pyi") for name in archive.getnames())


def test_workflows_use_actions_by_their_commits():
    """A tag can be moved to other code, which would publish in this package's name."""
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [line.split("uses: ")[1] for file in files for line in file.read_text().splitlines() if "uses: " in line]
    assert len(used) >= 10
    assert [u for u in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", u)] == []


def test_the_citation_has_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
