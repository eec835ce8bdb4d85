"""Which ledger a dataset has, however its file is named, packed or mounted."""

import gzip
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from commands import ROWS, SCHEMA, release

from qrelease.apps.cli import main
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger

READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
"""Runs a command where a folder cannot be written, whoever runs it: permissions do not hold the superuser back."""


def by_a_user(home: Path, data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A release by somebody with a home of their own, who may read the data and not write beside them."""
    command = ["release", str(data), "--schema", str(data.with_suffix(".toml")), "--epsilon", "1", "--out", "out"]
    read_only = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", str(data.parent)] if os.geteuid() == 0 else []
    return subprocess.run(
        [*read_only, sys.executable, "-m", "qrelease", *command, *options],
        cwd=home,
        env={**{k: v for k, v in os.environ.items() if k != "XDG_STATE_HOME"}, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX users")
def test_read_only_data_need_a_named_ledger(tmp_path: Path) -> None:
    """Two users with two homes would have the whole budget each."""
    folder, homes = tmp_path / "data", [tmp_path / "ada", tmp_path / "bob"]
    for each in (folder, *homes):
        each.mkdir()
    (folder / "people.csv").write_text("sex,age,city\n" + ROWS)
    (folder / "people.toml").write_text(SCHEMA)
    folder.chmod(0o555)
    for home in homes:
        done = by_a_user(home, folder / "people.csv")
        if "mount" in done.stderr:
            pytest.skip("the superuser may write everywhere, and may not mount here")
        assert done.returncode == 2
        assert "say where it is with --ledger" in done.stderr
        assert done.stderr.count("\n") == 1
        assert not list(home.iterdir())
    shared = str(homes[0] / "shared.ledger")
    done = by_a_user(homes[0], folder / "people.csv", "--ledger", shared)
    assert done.returncode == 0, done.stderr
    assert "budget exceeded" in by_a_user(homes[1], folder / "people.csv", "--ledger", shared).stderr
    folder.chmod(0o755)


def test_a_ledger_that_an_earlier_version_kept_at_home_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = folder / "state" / "qrelease"
    state.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    digest = sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    earlier = state / f"people-{digest}.ledger"
    Ledger.open(earlier, PureDP(1.0), dataset="people").close()
    assert release() == 2
    assert f"charged these data to {earlier}" in capsys.readouterr().err
    assert not (folder / "people.ledger").exists()
    assert release("--ledger", str(earlier)) == 0
    Ledger.open(folder / "people.ledger", PureDP(1.0)).close()
    assert release(out="second") == 2
    assert "say which counts with --ledger" in capsys.readouterr().err


def test_one_dataset_has_one_ledger_however_its_file_is_packed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The budget belongs to the people, not to a file."""
    import polars as pl

    rows = (folder / "people.csv").read_bytes()
    (folder / "people.CSV.gz").write_bytes(gzip.compress(rows))
    pl.read_csv(rows, infer_schema=False).write_parquet(folder / "people.pq")
    assert release("--total-epsilon", "2") == 0
    for twin in ("people.CSV.gz", "people.pq"):
        assert main(["release", twin, "--schema", "people.toml", "--epsilon", "0.5", "--out", twin[-2:]]) == 0
    capsys.readouterr()
    assert release(out="second") == 2
    assert "spent epsilon=2" in capsys.readouterr().err
    assert [file.name for file in folder.glob("*.ledger")] == ["people.ledger"]


def test_a_dataset_can_be_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--schema", "people.toml", "--epsilon", "1", "--dataset", "census"]
    assert main(["release", "people.csv", *command]) == 0
    assert (folder / "census-release").is_dir()
    with Ledger.open(folder / "census.ledger") as ledger:
        assert ledger.dataset == "census"
    (folder / "copy.csv").write_bytes((folder / "people.csv").read_bytes())
    capsys.readouterr()
    assert main(["release", "copy.csv", *command, "--out", "second"]) == 2
    assert "budget exceeded" in capsys.readouterr().err
