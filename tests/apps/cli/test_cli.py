"""The command line end to end: what it writes, and that every mistake is one line, exit code 2 and no charge."""

import csv
import errno
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import pytest

from qrelease.apps.cli import COMMANDS, main
from qrelease.apps.cli.shared import elapsed
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.forecasts import forecast
from qrelease.mechanisms.weighted_records import Records
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release import writer

SCHEMA = """
[[attribute]]
name = "sex"
kind = "category"
categories = ["F", "M"]

[[attribute]]
name = "age"
kind = "number"
integer = true
bins = [18, 30, 40, 70]

[[attribute]]
name = "city"
kind = "category"
categories = ["Ulm", "Bonn", "Rom"]
missing = [""]
"""

ROWS = "".join(f"{'FM'[i % 2]},{18 + i % 50},{['Ulm', 'Bonn', 'Rom', ''][i % 4]}\n" for i in range(400))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "people.csv").write_text("sex,age,city\n" + ROWS)
    (tmp_path / "people.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def release(*options: str, out: str = "out") -> int:
    command = ["release", "people.csv", "--schema", "people.toml", "--workload", "marginals:2", "--epsilon", "1"]
    return main([*command, "--out", out, *options])


def test_release_answer_and_ledger(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--delta", "1e-6") == 0
    assert sorted(f.name for f in (folder / "out").iterdir()) == [
        "answers.csv",
        "release.json",
        "report.html",
        "synthetic.csv",
    ]
    assert (folder / "out" / "synthetic.csv").read_text().startswith("sex,age,city\n")
    with Ledger.open(folder / "people.ledger") as ledger:
        assert str(ledger.spent) == "epsilon=1, delta=1e-06"
    capsys.readouterr()
    assert main(["answer", "out", "age in 30..39 and sex = 'F'", "city is missing"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert 0 < float(first.split()[0]) < 100
    assert second.endswith("city is missing")
    assert main(["ledger", "show", "people.ledger"]) == 0
    assert "left    nothing" in capsys.readouterr().out


def test_a_spent_ledger_refuses_until_its_total_is_raised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release() == 0
    capsys.readouterr()
    assert release(out="second") == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    for part in ("total epsilon=1", "spent epsilon=1", "requested epsilon=1"):
        assert part in message
    assert not (folder / "second").exists()
    assert main(["ledger", "raise", "people.ledger", "--epsilon", "2"]) == 0
    assert release(out="second") == 0


def test_the_same_insecure_seed_gives_the_same_files(folder: Path) -> None:
    assert release("--insecure-seed", "5") == 0
    assert release("--insecure-seed", "5", out="again") == 0
    assert release("--insecure-seed", "6", out="other") == 0
    for name in ("synthetic.csv", "answers.csv", "release.json", "report.html"):
        assert (folder / "out" / name).read_bytes() == (folder / "again" / name).read_bytes(), name
    assert (folder / "out" / "answers.csv").read_bytes() != (folder / "other" / "answers.csv").read_bytes()
    assert not list(folder.glob("*.ledger")), "a test's noise is no reason to charge the dataset's budget"


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "mwem"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_every_mechanism_under_both_relations(folder: Path, mechanism: str, neighbours: str) -> None:
    assert release("--mechanism", mechanism, "--neighbours", neighbours, "--delta", "1e-6") == 0


def test_a_private_pgm_domain_is_a_schema(folder: Path) -> None:
    (folder / "coded.csv").write_text("a,b\n" + "0,1\n1,2\n" * 50)
    (folder / "coded.json").write_text('{"b": 3, "a": 2}')
    assert (
        main(
            [
                "release",
                "coded.csv",
                "--schema",
                "coded.json",
                "--workload",
                "marginals:1",
                "--epsilon",
                "1",
                "--out",
                "out",
            ]
        )
        == 0
    )
    assert (folder / "out" / "synthetic.csv").read_text().startswith("a,b\n")


def test_a_draft_is_refused_until_reviewed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "draft", "people.csv", "--out", "draft.toml"]) == 0
    assert main(["release", "people.csv", "--schema", "draft.toml", "--epsilon", "1", "--out", "out"]) == 2
    assert "not reviewed" in capsys.readouterr().err
    text = (folder / "draft.toml").read_text()
    (folder / "draft.toml").write_text(text.replace("reviewed = false", "reviewed = true"))
    assert main(["release", "people.csv", "--schema", "draft.toml", "--epsilon", "1", "--out", "out"]) == 0


BAD_FILES = {
    "empty": b"",
    "ragged": b"sex,age,city\nF,20,Ulm\nF,20\n",
    "wrong encoding": b"sex,age,city\nF,20,K\xf6ln\n",
    "outside the schema": b"sex,age,city\nF,20,Ulm\nX,20,Ulm\n",
    "duplicate column": b"sex,age,city,sex\nF,20,Ulm,F\n",
    "missing column": b"sex,age\nF,20\n",
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_line_and_costs_nothing(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "people.csv").write_bytes(BAD_FILES[name])
    before = sorted(folder.iterdir())
    assert release() == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert message.startswith("qrelease: ")
    assert "people.csv" in message
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "0"], "epsilon must be positive"),
        (["--epsilon", "-1"], "epsilon must be positive"),
        (["--epsilon", "nan"], "epsilon must be finite"),
        (["--epsilon", "inf"], "epsilon must be finite"),
        (["--delta", "nan"], "delta"),
        (["--delta", "1"], "delta"),
        (["--mechanism", "gaussian"], "delta"),
        (["--rounds", "0"], "--rounds belongs to mwem, auto has none"),
        (["--mechanism", "mwem", "--rounds", "0"], "rounds must"),
        (["--mechanism", "auto", "--records", "0"], "records"),
        (["--mechanism", "laplace", "--records", "5"], "belongs to auto and maxent and mwem"),
        (["--mechanism", "auto", "--workload", "marginals:sex*sex"], "twice"),
        (["--mechanism", "auto", "--workload", "marginals:sex*nobody"], "nobody"),
        (["--mechanism", "laplace", "--rounds", "3"], "rounds"),
        (["--mechanism", "mwem", "--weighted-records", "9"], "--weighted-records belongs to records, mwem has none"),
        (["--mechanism", "maxent", "--order", "2"], "--order belongs to records, maxent has none"),
        (["--mechanism", "records", "--records", "400"], "belongs to auto and maxent and mwem, records has none"),
        (["--mechanism", "records", "--delta", "1e-6", "--order", "1"], "order must be"),
        (["--mechanism", "records", "--delta", "1e-6", "--weighted-records", "0"], "records must be"),
        (["--columns", "sex,nobody"], "nobody"),
        (["--workload", "marginals:9"], "marginals"),
        (["--workload", "ranges:sex"], "order"),
        (["--workload", "where:age = 35"], "age"),
        (["--workload", "nonsense"], "nonsense"),
        (["--workload", "marginals:2"], "twice"),
        (["--schema", "nowhere.toml"], "nowhere.toml"),
        (["--rows", "0"], "rows"),
        (["--rows", "100000000000000"], "rows"),
        (["--total-epsilon", "2", "--total-delta", "0", "--delta", "1e-9"], "cannot hold"),
        (["--out", "no/such/folder"], "no/such/folder"),
        (["--ledger", "no/such/ledger"], "no/such"),
        (["--total-delta", "0.1"], "total-epsilon"),
        (["--total-epsilon", "0.5"], "budget exceeded"),
        (["--epsilon", "15", "--delta", "0.1", "--total-epsilon", "10"], "budget exceeded"),  # no warning on top
        (["--dataset", "a/b"], "--ledger"),
        (["--dataset", ""], "--ledger"),
    ],
)
def test_a_bad_option_is_one_line_and_costs_nothing(
    options: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    assert release(*options) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert message.startswith("qrelease: ")
    assert words in message
    assert sorted(folder.iterdir()) == before, "a refusal leaves nothing behind, not even a ledger"


@pytest.mark.parametrize(
    ("name", "words"), [("net", "is used from Python: qrelease.Net"), ("pmw", "PrivateMultiplicativeWeights")]
)
def test_a_mechanism_that_the_command_line_does_not_have_is_shown_the_way(
    name: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        release("--mechanism", name)
    assert words in capsys.readouterr().err


def test_a_universe_too_large_is_refused_with_its_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"c{i}" for i in range(11)]
    (folder / "wide.csv").write_text(",".join(names) + "\n" + ",".join("0" * 11) + "\n")
    (folder / "wide.json").write_text("{" + ", ".join(f'"{n}": 32' for n in names) + "}")
    command = [
        "release",
        "wide.csv",
        "--schema",
        "wide.json",
        "--workload",
        "marginals:2",
        "--epsilon",
        "1",
        "--out",
        "out",
    ]
    assert main([*command, "--mechanism", "mwem"]) == 2
    message = capsys.readouterr().err
    assert "2^55 cells" in message
    assert "--mechanism records" in message
    assert not list(folder.glob("*.ledger"))
    assert main([*command, "--mechanism", "gaussian", "--delta", "1e-6"]) == 0


def test_another_relation_than_the_ledgers_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--total-epsilon", "5") == 0
    assert release("--neighbours", "replace-one", out="second") == 2
    assert "counts under add-remove, not under replace-one" in capsys.readouterr().err


def test_help_needs_no_numpy() -> None:
    code = (
        "import sys; from qrelease.apps.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'numba', 'scipy'} & set(sys.modules), 'slow --help'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_is_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for arguments in (["--help"], [command, "--help"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        texts.append(" ".join(capsys.readouterr().out.split()))
    both, own = texts
    assert f" {command} {COMMANDS[command]}" in both
    assert own.startswith(f"usage: qrelease {command} [-h]")
    assert COMMANDS[command] in own


def test_a_closed_pipe_is_no_traceback(folder: Path) -> None:
    assert release() == 0
    command = f"{sys.executable} -m qrelease ledger show people.ledger | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


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


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "mwem"])
def test_an_insecure_release_is_marked_in_every_file(folder: Path, mechanism: str) -> None:
    assert release("--mechanism", mechanism, "--delta", "1e-6", "--insecure-seed", "1") == 0
    assert release("--mechanism", mechanism, "--delta", "1e-6", out="secure") == 0
    files = sorted(file.name for file in (folder / "out").iterdir())
    assert files == ["answers.csv", "release.json", "report.html", "synthetic.csv"]
    for name in files:
        assert "INSECURE" in (folder / "out" / name).read_text(), name
        assert "INSECURE" not in (folder / "secure" / name).read_text(), name
    for name in ("answers.csv", "synthetic.csv"):  # in a column of its own, so that rows keep it
        with (folder / "out" / name).open(newline="") as rows:
            assert {row["INSECURE"] for row in csv.DictReader(rows)} == {"1"}
    assert len(Table.read_csv(folder / "out" / "synthetic.csv", folder / "people.toml")) > 0


def test_auto_says_what_it_took_and_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--records", "400") == 0  # it is the default
    shown = capsys.readouterr()
    assert "qrelease: auto would take maxent, with a synthetic table: for 400 records a mean L1 of" in shown.err
    printed = shown.out.splitlines()
    assert printed[1].startswith("chosen maxent: ")
    assert any(line.startswith("not gaussian: cannot run: Gaussian noise needs a delta") for line in printed)
    assert main(["answer", "out", "sex = F"]) == 0


@pytest.mark.parametrize("mechanism", ["maxent", "mwem", "gaussian", "smalldb"])
def test_a_weighted_table_sums_to_the_number_of_records(folder: Path, mechanism: str) -> None:
    small = [] if mechanism != "smalldb" else ["--size", "3"]
    options = ["--mechanism", mechanism, "--delta", "1e-6", "--insecure-seed", "3", *small]
    assert release("--weighted", *options) == 0
    with (folder / "out" / "synthetic.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["sex", "age", "city", "weight", "INSECURE"]
    assert 300 < sum(float(row["weight"]) for row in rows) < 500
    assert len(rows) <= 2 * 3 * 4


def test_a_weighted_table_needs_a_name_for_its_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bodies.csv").write_text("sex,weight\n" + "0,1\n1,2\n" * 50)
    (folder / "bodies.json").write_text('{"sex": 2, "weight": 3}')
    command = ["release", "bodies.csv", "--schema", "bodies.json", "--epsilon", "1", "--out", "out"]
    assert main([*command, "--weighted"]) == 2
    assert "rename that of the schema" in capsys.readouterr().err
    assert not list(folder.glob("*.ledger"))
    assert main(command) == 0


def test_maxent_over_too_large_a_universe_says_why_there_is_no_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"c{i}" for i in range(11)]
    (folder / "wide.csv").write_text(",".join(names) + "\n" + (",".join("0" * 11) + "\n") * 9)
    (folder / "wide.json").write_text("{" + ", ".join(f'"{n}": 32' for n in names) + "}")
    command = ["release", "wide.csv", "--schema", "wide.json", "--workload", "marginals:1", "--epsilon", "1"]
    assert main([*command, "--delta", "1e-6", "--mechanism", "maxent", "--out", "out"]) == 0
    assert "no synthetic.csv: the universe has 2^55 cells and a histogram holds" in capsys.readouterr().out
    with (folder / "out" / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["noisy"] and row["error_95"] == row["model_95"] for row in rows)


@pytest.mark.parametrize("asked", [["--weighted"], ["--rows", "9"]], ids=lambda options: options[0])
@pytest.mark.parametrize("mechanism", ["maxent", "laplace", "auto"])
def test_a_table_that_cannot_be_is_refused_before_the_charge(
    folder: Path, capsys: pytest.CaptureFixture[str], mechanism: str, asked: list[str]
) -> None:
    names = [f"c{i}" for i in range(11)]
    (folder / "wide.csv").write_text(",".join(names) + "\n" + (",".join("0" * 11) + "\n") * 9)
    (folder / "wide.json").write_text("{" + ", ".join(f'"{n}": 32' for n in names) + "}")
    command = ["release", "wide.csv", "--schema", "wide.json", "--workload", "marginals:1", "--epsilon", "1"]
    command += ["--mechanism", mechanism, "--out", "out"]
    if mechanism != "auto":  # which would take records
        command += ["--delta", "1e-6"]
    assert main([*command, *asked]) == 2
    assert "a synthetic table is wanted, and" in capsys.readouterr().err
    assert not list(folder.glob("*.ledger"))
    assert not (folder / "out").exists()
    assert main(command) == 0
    assert release("--mechanism", "matrix", "--delta", "1e-6", *asked, out="none") == 2
    assert "matrix would give none: least squares give answers alone" in capsys.readouterr().err
    assert not (folder / "people.ledger").exists()


def test_a_wide_release_goes_the_whole_road(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr("qrelease.release.writer.LISTED_ANSWERS", 1000)
    names = [f"c{i}" for i in range(24)]
    rows = "".join(",".join(str((i * j) % 4) for j in range(24)) + "\n" for i in range(200))
    (folder / "wide.csv").write_text(",".join(names) + "\n" + rows)
    (folder / "wide.json").write_text("{" + ", ".join(f'"{n}": 4' for n in names) + "}")
    command = ["release", "wide.csv", "--schema", "wide.json", "--workload", "marginals:3", "--epsilon", "5"]
    command += ["--delta", "1e-6", "--mechanism", "maxent", "--total-epsilon", "10", "--total-delta", "1e-5"]
    assert main([*command, "--no-answers", "--out", "few"]) == 0
    said = capsys.readouterr().out
    assert "wrote measurements.npy, release.json, report.html in few" in said
    assert "no synthetic.csv: the universe has 2^48 cells" in said
    assert "no answers.csv: not wanted; the release gives each answer that is asked for" in said
    assert main(["answer", "few", "c1 = 3 and c7 = 2 and c9 in 1..3"]) == 0
    assert "±" in capsys.readouterr().out
    monkeypatch.setattr("qrelease.release.writer.MOST_ANSWERS", 1000)
    command[command.index("--total-epsilon") :] = ["--out", "many", "--answers"]
    assert main(command) == 0
    with (folder / "many" / "answers.csv").open() as file:
        assert sum(1 for _ in file) == 129_537


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_what_a_long_release_takes_is_said_before_it_starts(
    neighbours: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the number of records is private, the line is the same for any number of them."""
    said = []
    monkeypatch.setattr(
        "qrelease.release.curator.Curator.pay", lambda *_, **__: said.append(capsys.readouterr().err) or 1 / 0
    )
    for rows in (1, 2):
        (folder / "people.csv").write_text("sex,age,city\n" + rows * ROWS)
        with pytest.raises(ZeroDivisionError):
            release("--mechanism", "records", "--delta", "1e-6", "--neighbours", neighbours, out=f"out{rows}")
    for line in said:
        assert re.fullmatch(r"qrelease: records takes about \d.* of memory\n", line)
        assert line.count("\n") == 1
    table = Table.read_csv(folder / "people.csv", folder / "people.toml")
    told = len(table) if neighbours == "replace-one" else None
    line = forecast(Records(), Workload.marginals(table.domain, 2), ApproxDP(1.0, 1e-6), told)
    assert said[1] == f"qrelease: {line}\n"
    assert neighbours == "replace-one" or said[0] == said[1]
    assert release("--mechanism", "records", out="none") == 2  # without a delta
    assert "takes" not in capsys.readouterr().err


def test_weighted_records_and_order_are_those_of_the_mechanism(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken: list[Any] = []
    monkeypatch.setattr("qrelease.release.curator.Curator.pay", lambda _, *given, **__: taken.append(given) or 1 / 0)
    rules = '\n[[impossible]]\nwhere = "sex = F and city = Rom"\n'
    (folder / "people.toml").write_text(SCHEMA + rules)
    options = ["--mechanism", "records", "--delta", "1e-6"]
    for more in ([], ["--weighted-records", "2000", "--order", "2"]):
        with pytest.raises(ZeroDivisionError):
            release(*options, *more)
    assert [mechanism for mechanism, *_ in taken] == [Records(), Records(records=2000, order=2)]
    assert {workload.domain.impossible for _, workload, _ in taken} == {("sex = F and city = Rom",)}
    assert "impossible" not in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        release("--mechanism", "auto", "--rows", "9")
    assert taken[2][0] == Auto(table=True)
    assert "kept by --mechanism records alone, if it is chosen" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    default = Records()
    assert default.records is None
    assert "the less their scatter; default: by the noisy number of records and the cost" in said
    assert f"that may be measured; default: {default.order}" in said


def test_the_help_names_all_kinds_of_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput) as error:
        Workload.parse(Domain.coded({"a": 2}), "nonsense")
    kinds = re.findall(r"(\w+):", str(error.value).partition(", got ")[0])
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    text = capsys.readouterr().out
    assert len(set(kinds)) == 5
    assert all(f"{kind}:" in text for kind in kinds)


def test_costs_are_printed_short_and_refused_exactly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--epsilon", "0.1", "--delta", "1e-9", "--total-epsilon", "0.3", "--total-delta", "1e-8") == 0
    for out in ("two", "three"):
        last = release("--epsilon", "0.1", "--delta", "1e-9", out=out)
    refusal = capsys.readouterr().err
    assert last == 2, "three times 0.1 is more than 0.3"
    assert "at most the epsilon=0.09999999999999998, delta=" in refusal, "rounded, it would be refused too"
    assert main(["ledger", "show", "people.ledger"]) == 0
    assert main(["ledger", "raise", "people.ledger", "--epsilon", "0.4"]) == 0
    assert release("--epsilon", "0.1", "--delta", "1e-9", out="three") == 0
    printed = capsys.readouterr().out
    assert "spent   epsilon=0.2, delta=2e-09\nleft    epsilon=0.0999999, delta=7.99999e-09\n" in printed, "it fits"
    assert "total now epsilon=0.4, delta=1e-08, spent epsilon=0.2, delta=2e-09\n" in printed
    assert "spent in all: epsilon=0.3, delta=3e-09 of epsilon=0.4, delta=1e-08 (ledger" in printed
    with Ledger.open(folder / "people.ledger") as ledger:
        assert str(ledger.spent) != f"{ledger.spent:.6g}" == "epsilon=0.3, delta=3e-09"
        assert f"{ledger.spent}" == str(ledger.spent)
    Ledger.open(folder / "new", ApproxDP(0.3, 1e-9)).close()
    capsys.readouterr()
    assert main(["ledger", "show", "new"]) == 0
    assert "left    epsilon=0.3, delta=1e-09\n" in capsys.readouterr().out


def test_the_charges_of_a_session_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", PureDP(1.0)) as ledger:
        ledger.charge(PureDP(0.125), "mwem: 16 queries")
        ledger.charge(PureDP(0.125), "mwem: 16 queries")
        journal = ledger.session(PureDP(0.5), "online: a session", "server")
        for cost, label in [(0.01, "count"), (0.01, "answers"), (0.02, "answers"), (0.03, "answers"), (0.01, "count")]:
            with journal.writing():
                journal.buy(PureDP(cost), f"online: {label}")
        ledger.charge(PureDP(0.02), "online: count")
    lines = []
    for options in ([], ["--all"]):
        assert main(["ledger", "show", "l", *options]) == 0
        lines.append([line.split(None, 1)[1] for line in capsys.readouterr().out.splitlines()[4:]])
    grouped, whole = lines
    assert grouped == [
        "total   epsilon=1  created",
        "charge  epsilon=0.125  mwem: 16 queries",
        "charge  epsilon=0.125  mwem: 16 queries",
        "session epsilon=0.5  online: a session",
        "charge  epsilon=0.01  online: count",
        "charge  epsilon=0.06  online: answers (3 charges)",
        "charge  epsilon=0.03  online: count (2 charges)",
    ]
    assert whole[5:8] == [f"charge  epsilon={cost}  online: answers" for cost in (0.01, 0.02, 0.03)]
    assert len(whole) == 10


def test_where_rho_was_spent_it_is_said_why_spent_and_left_are_less_than_the_total(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(folder / "l", ApproxDP(1.0, 1e-9)) as ledger:
        for cost, told in ((ApproxDP(0.1, 1e-10), False), (ZCDP(0.001), True)):
            ledger.charge(cost, "something")
            assert main(["ledger", "show", "l"]) == 0
            assert ("spent and left come to less than the total" in capsys.readouterr().out) == told
        assert ledger.spent
        assert ledger.remaining
        assert ledger.spent.to_json()["epsilon"] + ledger.remaining.to_json()["epsilon"] < 1


def test_what_is_no_release_is_said_to_be_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("people.csv", "."):
        assert main(["answer", path, "sex = F"]) == 2
        assert capsys.readouterr().err == (
            f"qrelease: {path} is no release: that is a folder that `qrelease release` wrote, with its release.json\n"
        )
    assert main(["answer", "nowhere", "sex = F"]) == 2
    assert "nowhere cannot be read: No such file" in capsys.readouterr().err
    assert release() == 0
    assert main(["answer", "out/release.json", "sex = F"]) == 0


def test_of_several_conditions_none_is_answered_before_all_are_understood(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release() == 0
    capsys.readouterr()
    assert main(["answer", "out", "sex = F", "sex is"]) == 2
    found = capsys.readouterr()
    assert not found.out
    assert "expected 'missing', got the end" in found.err


def test_a_request_is_counted_in_the_singular(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", PureDP(1.0)) as ledger:
        analysts = Analysts(ledger)
        for requests, name in enumerate(("ada", "ben", "cyd")):
            analysts.add(name, PureDP(0.1 + 0.2))
            with analysts.account(name) as account:
                for number in range(requests):
                    account.record(f"{number}", "{}", b"{}")
    assert main(["analyst", "list", "--ledger", "l"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines() == [
        "ada  budget epsilon=0.3, spent nothing, 0 requests",
        "ben  budget epsilon=0.3, spent nothing, 1 request",
        "cyd  budget epsilon=0.3, spent nothing, 2 requests",
    ]


def test_a_warning_comes_with_the_release_it_is_about(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--epsilon", "10", "--delta", "0.1") == 0
    assert capsys.readouterr().err.count("warning: ") == 1


def test_an_epsilon_that_protects_nobody_is_asked_for_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--epsilon", "50") == 2
    assert "nothing was charged; say --weak if it is meant" in capsys.readouterr().err
    command = ["release", "people.csv", "--schema", "people.toml", "--out", "out"]
    assert main([*command, "--rho", "10"]) == 2, "the same in rho"
    assert not (folder / "people.ledger").exists()
    assert main([*command, "--rho", "0.1", "--ledger", "in-rho"]) == 0
    with Ledger.open(folder / "in-rho") as ledger:
        assert ledger.spent == ZCDP(0.1)
    assert release("--epsilon", "50", "--weak", out="weak") == 0


def test_a_full_disk_is_one_line_and_says_that_the_charge_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("qrelease.release.writer.write_csv", full)
    assert release() == 2
    foretold, message = capsys.readouterr().err.splitlines(keepends=True)
    assert foretold.startswith("qrelease: auto would take")
    assert message.startswith(
        "qrelease: out cannot be written: No space left on device; epsilon=1 was charged, and the"
    )
    assert sorted(f.name for f in folder.iterdir()) == ["people.csv", "people.ledger", "people.toml"]


def test_out_of_memory_is_one_line_that_names_a_size(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate an array with shape (54321,)")  # which tells the number of records

    monkeypatch.setattr("qrelease.release.writer.save", full)
    assert release() == 2
    foretold, message = capsys.readouterr().err.splitlines(keepends=True)
    assert foretold.startswith("qrelease: auto would take")
    assert re.fullmatch(r"qrelease: out of memory, [\d.]+ [MG]iB are left: .* the same command goes on .*\n", message)
    assert sorted(f.name for f in folder.iterdir()) == ["people.csv", "people.ledger", "people.toml"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="signals and pipes as on Unix")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing_behind(folder: Path, name: str) -> None:
    """The data come from a pipe that nobody writes to, so that the run waits to be ended."""
    (folder / "people.csv").unlink()
    os.mkfifo(folder / "people.csv")
    command = [sys.executable, "-m", "qrelease", "release", "people.csv", "--schema", "people.toml"]
    number = getattr(signal, name)
    run = subprocess.Popen(
        [*command, "--epsilon", "1", "--out", "out"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # whoever runs the tests may ignore it, as nohup does
    )
    while not (folder / ".out.part").exists():
        assert run.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    run.send_signal(number)
    _, message = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    assert message == "qrelease: interrupted; nothing was charged\n"
    assert sorted(f.name for f in folder.iterdir()) == ["people.csv", "people.toml"]


def test_who_interrupts_what_charges_nothing_hears_of_no_charge(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("qrelease.evaluation.planning.plan", interrupt)
    assert main(["plan", "--schema", "people.toml", "--n", "100"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "qrelease: interrupted\n"


def test_what_a_kill_left_behind_is_no_obstacle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = folder / ".out.part"
    (left / "inside").mkdir(parents=True)
    (left / "synthetic.csv").write_text("half")
    with writer.new_folder("out"):
        assert release() == 2, "a run is at work"
        assert "qrelease: out is being written by another run" in capsys.readouterr().err
    (folder / "out").rmdir()
    assert not (folder / "people.ledger").exists()
    assert release() == 0
    assert sorted(f.name for f in (folder / "out").iterdir()) == [
        *("answers.csv", "release.json", "report.html", "synthetic.csv"),
    ]


def test_why_there_is_no_table(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qrelease.inference.histogram.MAX_CELLS", 20)
    assert release("--mechanism", "laplace") == 0
    assert "no synthetic.csv: the universe has 24 cells" in capsys.readouterr().out
    assert sorted(f.name for f in (folder / "out").iterdir()) == ["answers.csv", "release.json", "report.html"]


def test_evaluate_names_the_dataset_and_draws_only_what_it_can(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["evaluate", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--workload", "marginals:1"]
    assert main([*command, "--json"]) == 0
    assert {json.loads(line)["dataset"] for line in capsys.readouterr().out.splitlines()} == {"people"}
    assert main([*command, "--dataset", "census"]) == 0
    assert "\ncensus: " in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("qrelease.data.table.Table.read_csv", lambda *_: pytest.fail("it reads before it looks"))
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


def test_the_folder_has_a_default_name(folder: Path) -> None:
    assert main(["release", "people.csv", "--schema", "people.toml", "--epsilon", "1"]) == 0
    assert (folder / "people-release" / "synthetic.csv").exists()


def test_audit_acquits_a_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "laplace", "--epsilon", "1", "--samples", "2000", "--insecure-seed", "1"]) == 0
    assert capsys.readouterr().out.startswith("acquitted of claiming epsilon=1")
    assert main(["audit", "laplace", "--epsilon", "1", "--samples", "10"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_audit_convicts_a_function_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "def leak(data, entropy):\n    return data\n"
    (folder / "leaky.py").write_text(code)
    arguments = ["leaky:leak", "--first", "1", "--second", "2", "--epsilon", "1", "--samples", "2000"]
    sys.path.insert(0, str(folder))
    try:
        assert main(["audit", *arguments]) == 1
        assert capsys.readouterr().out.startswith("CONVICTED")
        assert main(["audit", "leaky:leak", "--epsilon", "1"]) == 2
        assert main(["audit", "nothing", "--epsilon", "1"]) == 2
    finally:
        sys.path.remove(str(folder))


def test_conditions_come_from_a_file_and_answers_as_csv_or_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release("--delta", "1e-6") == 0
    (folder / "asked").write_text("# of the survey\nsex = F\n\n  age between 30 and 39 and sex = M\n")
    capsys.readouterr()
    assert main(["answer", "out", "city is missing", "--file", "asked", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["query"] for row in rows] == ["city is missing", "sex = F", "age between 30 and 39 and sex = M"]
    assert set(rows[0]) == {"query", "answer", "noisy", "error_95", "model_95"}
    assert all(row["model_95"] > 0 for row in rows)  # every answer has a bar to publish
    assert main(["answer", "out", "--file", "asked", "--format", "csv"]) == 0
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [float(row["answer"]) for row in found] == [row["answer"] for row in rows[1:]]
    assert [float(row["model_95"]) for row in found] == [row["model_95"] for row in rows[1:]]
    for command, words in [
        (["answer", "out"], "no condition"),
        (["answer", "out", "--file", "no"], "no cannot be read"),
    ]:
        assert main(command) == 2
        assert words in capsys.readouterr().err


def test_a_token_is_issued_again_and_a_budget_raised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", ApproxDP(1.0, 1e-9)) as ledger:
        token = Analysts(ledger).add("ada", ApproxDP(0.25, 1e-10))
        with Analysts(ledger).account("ada") as account:
            account.spend(ZCDP(0.0001))
    assert main(["analyst", "reissue", "ada", "--ledger", "l"]) == 0
    new = capsys.readouterr().out.strip()
    assert main(["analyst", "raise", "ada", "--epsilon", "0.5", "--ledger", "l"]) == 0
    assert "ada  budget epsilon=0.5, delta=1e-10, spent epsilon=" in capsys.readouterr().out
    for epsilon in ("0.5", "0.25"):
        assert main(["analyst", "raise", "ada", "--epsilon", epsilon, "--ledger", "l"]) == 2
    assert "must be larger than epsilon=0.5" in capsys.readouterr().err
    with Ledger.open(folder / "l") as ledger:
        analysts = Analysts(ledger)
        assert analysts.holder(token) is None
        assert analysts.holder(new) == analysts.named("ada")
        analysts.revoke("ada")
        assert analysts.holder(new) is None
        assert analysts.holder(analysts.reissue("ada")) is not None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("on", [io.StringIO, Terminal])
def test_what_takes_long_is_seen_on_a_terminal_alone(on: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = on()
    monkeypatch.setattr("sys.stderr", seen)
    with elapsed("short"):
        pass
    assert "short" not in seen.getvalue()
    monkeypatch.setattr("qrelease.apps.cli.shared.SILENT", 0.01)
    with elapsed("releasing"):
        deadline = time.monotonic() + (10 if seen.isatty() else 0.1)
        while "releasing: 00:00" not in seen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ("releasing: 00:00" in seen.getvalue()) == seen.isatty()
