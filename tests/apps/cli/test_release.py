"""The command that releases: what it writes, and that every mistake is one line, exit code 2 and no charge."""

import argparse
import csv
import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from commands import ROWS, SCHEMA, release

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.apps.cli import release as release_command
from qrelease.apps.cli.release import private_data_of
from qrelease.data.schema import load
from qrelease.data.source import Source
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.numeric import Kind
from qrelease.queries.workload import Workload
from qrelease.release.forecasts import forecast


def test_release_answer_and_ledger(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--delta", "1e-6") == 0
    assert sorted(f.name for f in (folder / "out").iterdir()) == [
        "SHA256SUMS",
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


def test_a_file_in_another_dialect_is_released_where_it_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{'KöM'[k % 3]}\t{k % 60},5\n" for k in range(300))
    (folder / "other.csv").write_bytes(f"sex\tage\n{rows}".encode("latin-1"))
    said = ["--separator", "tab", "--decimal", ",", "--encoding", "latin-1"]
    assert main(["schema", "draft", "other.csv", "--out", "draft.toml"]) == 2
    assert "say its --encoding" in capsys.readouterr().err
    assert main(["schema", "draft", "other.csv", *said, "--out", "draft.toml"]) == 0
    text = (folder / "draft.toml").read_text("utf-8").replace("reviewed = false", "reviewed = true")
    (folder / "draft.toml").write_text(text, "utf-8")
    released = [
        "release",
        "other.csv",
        "--schema",
        "draft.toml",
        "--workload",
        "marginals:1",
        "--epsilon",
        "1",
        "--out",
    ]
    assert main([*released, "one"]) == 2
    assert main([*released, "out", *said]) == 0
    assert '"ö"' in text
    assert (folder / "out" / "synthetic.csv").read_text("utf-8").startswith("sex,age\n")


def test_a_file_without_a_header_is_released_where_its_columns_are_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a command, by a job file, and in shards; the same release as of the file with a header."""
    rows = [f"{'FM'[k % 2]},{k % 60},x" for k in range(300)]
    (folder / "bare.csv").write_text("".join(f"{row}\n" for row in rows), "utf-8")
    (folder / "named.csv").write_text("".join(f"{row}\n" for row in ["sex,age,note", *rows]), "utf-8")
    said = ["--header", "sex,age,note"]
    assert main(["schema", "draft", "bare.csv", *said, "--out", "draft.toml"]) == 0
    text = (folder / "draft.toml").read_text("utf-8").replace("reviewed = false", "reviewed = true")
    (folder / "draft.toml").write_text(text, "utf-8")
    same = ["--schema", "draft.toml", "--workload", "marginals:1"]
    cost = ["--epsilon", "1", "--insecure-seed", "1"]
    capsys.readouterr()
    assert main(["release", "bare.csv", *same, *cost, "--ledger", "a.ledger", "--out", "unsaid"]) == 2
    assert "if it is a record already, name all columns by --header" in capsys.readouterr().err
    assert not (folder / "a.ledger").exists()
    assert main(["release", "bare.csv", *same, *cost, "--ledger", "a.ledger", "--out", "bare", *said]) == 0
    assert main(["release", "named.csv", *same, *cost, "--ledger", "b.ledger", "--out", "named"]) == 0
    assert (folder / "bare" / "answers.csv").read_bytes() == (folder / "named" / "answers.csv").read_bytes()
    assert main(["count", "bare.csv", *same, *said, "--out", "counts"]) == 0
    assert main(["release", "--counts", "counts", *same, *cost, "--ledger", "c.ledger", "--out", "counted"]) == 0
    assert (folder / "counted" / "answers.csv").read_bytes() == (folder / "named" / "answers.csv").read_bytes()
    (folder / "jobs.toml").write_text(
        'data = "bare.csv"\nschema = "draft.toml"\nheader = ["sex", "age", "note"]\nledger = "d.ledger"\n'
        'total = { epsilon = 1 }\n[[release]]\nout = "job"\nepsilon = 1\nworkload = "marginals:1"\n',
        "utf-8",
    )
    assert main(["run", "jobs.toml"]) == 0


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
        (["--rounds", "0"], "--rounds is an option of mwem, not of auto"),
        (["--mechanism", "mwem", "--rounds", "0"], "rounds must"),
        (["--mechanism", "auto", "--records", "0"], "records"),
        (["--mechanism", "laplace", "--records", "5"], "is an option of auto and maxent and mwem"),
        (["--mechanism", "auto", "--workload", "marginals:sex*sex"], "twice"),
        (["--mechanism", "auto", "--workload", "marginals:sex*nobody"], "nobody"),
        (["--mechanism", "laplace", "--rounds", "3"], "rounds"),
        (["--mechanism", "mwem", "--weighted-records", "9"], "--weighted-records is an option of records, not of mwem"),
        (["--mechanism", "maxent", "--order", "2"], "--order is an option of records, not of maxent"),
        (["--mechanism", "records", "--records", "400"], "is an option of auto and maxent and mwem, not of records"),
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


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "mwem"])
def test_an_insecure_release_is_marked_in_every_file(folder: Path, mechanism: str) -> None:
    assert release("--mechanism", mechanism, "--delta", "1e-6", "--insecure-seed", "1") == 0
    assert release("--mechanism", mechanism, "--delta", "1e-6", out="secure") == 0
    files = sorted(file.name for file in (folder / "out").iterdir())
    assert files == ["SHA256SUMS", "answers.csv", "release.json", "report.html", "synthetic.csv"]
    for name in files[1:]:
        assert "INSECURE" in (folder / "out" / name).read_text(), name
        assert "INSECURE" not in (folder / "secure" / name).read_text(), name
    for name in ("answers.csv", "synthetic.csv"):  # in a column of its own, so that rows keep it
        with (folder / "out" / name).open(newline="") as rows:
            assert {row["INSECURE"] for row in csv.DictReader(rows)} == {"1"}
    assert len(Table.read_csv(folder / "out" / "synthetic.csv", folder / "people.toml")) > 0


def test_auto_says_what_it_took_and_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--records", "400") == 0  # it is the default
    shown = capsys.readouterr()
    assert shown.err == "qrelease: auto would take maxent (-v: why)\n"
    printed = shown.out.splitlines()
    assert printed[1].startswith("chosen maxent: ")
    assert not any(line.startswith(("not ", "to choose")) for line in printed)
    assert main(["answer", "out", "sex = F"]) == 0
    capsys.readouterr()
    assert release("--records", "400", "-v", "--total-epsilon", "1", "--ledger", "other", out="again") == 0
    shown = capsys.readouterr()
    assert (
        "qrelease: auto would take maxent, with a synthetic table: with 400 records answers off by about" in shown.err
    )
    printed = shown.out.splitlines()
    assert printed[1].startswith("chosen maxent: ")
    assert any(line.startswith("not gaussian: cannot run: Gaussian noise needs a delta") for line in printed)
    assert "to choose: nothing was spent" in printed


@pytest.mark.parametrize("link", [None, os.link, os.symlink])
def test_the_data_are_no_code_list(
    link: Callable[..., None] | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By none of their names: what they hold would be the public universe."""
    Path("in.csv").write_text("sex,secret\nF,ada\nM,bob\n")
    if link:
        link("in.csv", "list.csv")
    listed = "list.csv" if link else "in.csv"
    text = (
        f'[[attribute]]\nname = "secret"\nkind = "category"\ncategories = {{ file = "{listed}", column = "secret" }}\n'
    )
    Path("s.toml").write_text(text)
    Path("jobs.toml").write_text(
        'data = "in.csv"\nschema = "s.toml"\nledger = "in.ledger"\n[total]\nepsilon = 1\n'
        '[[release]]\nout = "o"\nepsilon = 1\n'
    )
    before = sorted(folder.iterdir())
    for words in (
        "release in.csv --schema s.toml --epsilon 1 --ledger in.ledger",  # data of two names need it
        "run jobs.toml",
        "evaluate in.csv --schema s.toml --epsilon 1 --mechanism laplace",
        "serve --data in.csv --schema s.toml --ledger in.ledger --epsilon 1 --port 0",
    ):
        assert main(words.split()) == 2
        said = capsys.readouterr()
        assert "which is the file of the private records" in said.err
        assert "ada" not in said.out + said.err
        assert sorted(folder.iterdir()) == before
    for domain in (load(folder / "s.toml"), load(folder / "s.toml").project([0])):
        with pytest.raises(InvalidInput, match="the file of the private records"):
            Table.read(folder / "in.csv", domain)
    shutil.copy("in.csv", "copy.csv")
    Path("s.toml").write_text(text.replace(listed, "copy.csv"))  # whose content nobody can judge
    assert len(Table.read(folder / "in.csv", folder / "s.toml")) == 2


def test_the_first_release_of_nobody_leaves_a_ledger_only_with_its_charge(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under replace-one the number of records is public, and may be 0."""
    (folder / "people.csv").write_text("sex,age,city\n")
    assert release("--neighbours", "replace-one", "--mechanism", "auto") == 0
    with Ledger.open(folder / "people.ledger") as ledger:
        assert ledger.spent == PureDP(1.0)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_refused_first_release_leaves_no_file(
    neighbours: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For want of memory, of a disk, of a delta."""
    too_many = ("--mechanism", "records", "--delta", "1e-6", "--weighted-records", str(1 << 45))
    for given in (too_many, ("--mechanism", "laplace", "--rows", str(1 << 44)), ("--mechanism", "gaussian")):
        assert release("--neighbours", neighbours, *given) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert sorted(f.name for f in folder.iterdir()) == ["people.csv", "people.toml"]


def test_what_records_in_temporary_files_take_of_a_disk_refuses_nothing(
    folder: Path, free_disk: Callable[[int], None]
) -> None:
    """The disk is full but for a few bytes once the records have been read, which tells how many there are."""
    parser = argparse.ArgumentParser()
    release_command.options(parser)
    arguments = parser.parse_args(
        ["people.csv", "--schema", "people.toml", "--epsilon", "1", "--mechanism", "laplace", "--out", "out"]
    )

    def read(given: argparse.Namespace) -> Source:
        table = private_data_of(given)
        free_disk(1 << 20)
        return table

    free_disk(1 << 40)
    release_command.make(arguments, read)
    assert (folder / "out" / "release.json").exists()


def test_nothing_is_refused_before_a_charge_by_a_number_of_records_that_is_private(
    folder: Path, free_disk: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk, and a memory, that are large enough but for the synthetic records of so many people."""
    from qrelease.release import synthetic

    queries = 2 * 3 + 2 * 4 + 3 * 4
    free_disk((1 << 22) + (24 + 64) * queries + 8 * 3 * 400 - 1)
    assert release("--mechanism", "laplace", out="one") == 0
    assert release("--mechanism", "laplace", "--neighbours", "replace-one", "--ledger", "two.ledger", out="two") == 2
    assert "this release may take" in capsys.readouterr().err
    assert release("--mechanism", "maxent", "--records", "400", "--ledger", "three.ledger", out="three") == 2
    free_disk(1 << 40)

    def tight(domain: object, rows: int, *, ahead: bool = True) -> None:
        if ahead and rows >= 400:
            raise TooLarge(f"{rows} synthetic records are too many")

    monkeypatch.setattr(synthetic, "check_fit", tight)
    capsys.readouterr()
    assert release("--mechanism", "laplace", "--ledger", "four.ledger", out="four") == 0
    assert release("--mechanism", "laplace", "--neighbours", "replace-one", "--ledger", "five.ledger", out="five") == 2
    assert "400 synthetic records are too many" in capsys.readouterr().err


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
    assert "rename that column of the schema" in capsys.readouterr().err
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
    # Or less: of so few records the noise may reach beyond all of them, and no bar does.
    assert all(row["noisy"] and float(row["model_95"]) <= float(row["error_95"]) for row in rows)


@pytest.mark.parametrize("asked", [["--weighted"], ["--rows", "9"]], ids=lambda options: options[0])
@pytest.mark.parametrize("mechanism", ["maxent", "laplace", "auto"])
def test_a_table_that_cannot_be_is_refused_before_the_charge(
    folder: Path, capsys: pytest.CaptureFixture[str], mechanism: str, asked: list[str]
) -> None:
    names = [f"c{i}" for i in range(11)]
    cells = 70_000 if mechanism == "auto" else 32  # of more cells than `records` takes, which it would choose
    (folder / "wide.csv").write_text(",".join(names) + "\n" + (",".join("0" * 11) + "\n") * 9)
    (folder / "wide.json").write_text("{" + ", ".join(f'"{n}": {cells}' for n in names) + "}")
    command = ["release", "wide.csv", "--schema", "wide.json", "--workload", "marginals:1", "--epsilon", "1"]
    command += ["--delta", "1e-6", "--mechanism", mechanism, "--out", "out"]
    assert main([*command, *asked]) == 2
    assert "a synthetic table is wanted, and" in capsys.readouterr().err
    assert not list(folder.glob("*.ledger"))
    assert not (folder / "out").exists()
    assert main(command) == 0
    assert release("--mechanism", "matrix", "--delta", "1e-6", *asked, out="none") == 2
    assert "matrix would give none: least squares give answers alone" in capsys.readouterr().err
    assert not (folder / "people.ledger").exists()


def test_a_wide_release_goes_the_whole_road(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"c{i}" for i in range(24)]
    rows = "".join(",".join(str((i * j) % 4) for j in range(24)) + "\n" for i in range(200))
    (folder / "wide.csv").write_text(",".join(names) + "\n" + rows)
    (folder / "wide.json").write_text("{" + ", ".join(f'"{n}": 4' for n in names) + "}")
    command = ["release", "wide.csv", "--schema", "wide.json", "--workload", "marginals:3", "--epsilon", "5"]
    command += ["--delta", "1e-6", "--mechanism", "maxent", "--total-epsilon", "10", "--total-delta", "1e-5"]
    assert main([*command, "--no-answers", "--out", "few"]) == 0
    said = capsys.readouterr().out
    assert "wrote SHA256SUMS, measurements.npy, release.json, report.html in few" in said
    assert "no synthetic.csv: the universe has 2^48 cells" in said
    assert "no answers.csv: not wanted; the release gives each answer that is asked for" in said
    assert main(["answer", "few", "c1 = 3 and c7 = 2 and c9 in 1..3"]) == 0
    assert "±" in capsys.readouterr().out
    command[command.index("--total-epsilon") :] = ["--out", "many", "--answers"]
    assert main(command) == 0
    with (folder / "many" / "answers.csv").open() as file:
        assert sum(1 for _ in file) == 129_537


@pytest.fixture
def at_the_charge(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    """What a release does where it would charge: it hands over what is released, and ends with an error."""

    def handed_to(seen: Callable[..., None]) -> None:
        monkeypatch.setattr("qrelease.release.curator.Curator.pay", lambda _, *given, **__: seen(*given) or 1 / 0)

    return handed_to


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_what_a_long_release_takes_is_said_before_it_starts(
    neighbours: str, folder: Path, capsys: pytest.CaptureFixture[str], at_the_charge: Callable[..., None]
) -> None:
    """Where the number of records is private, the line is the same for any number of them."""
    said: list[str] = []
    at_the_charge(lambda *_: said.append(capsys.readouterr().err))
    for rows in (1, 2):
        (folder / "people.csv").write_text("sex,age,city\n" + rows * ROWS)
        with pytest.raises(ZeroDivisionError):
            release("--mechanism", "records", "--delta", "1e-6", "--neighbours", neighbours, out=f"out{rows}")
    for line in said:
        assert re.fullmatch(r"qrelease: from here on records, with .* files, takes about \d.* of memory\n", line)
        assert line.count("\n") == 1
    table = Table.read_csv(folder / "people.csv", folder / "people.toml")
    told = len(table) if neighbours == "replace-one" else None
    line = forecast(FittedRecords(), Workload.marginals(table.domain, 2), ApproxDP(1.0, 1e-6), told)
    assert said[1] == f"qrelease: {line}\n"
    assert neighbours == "replace-one" or said[0] == said[1]
    assert release("--mechanism", "gaussian", "--neighbours", neighbours, out="none") == 2  # without a delta
    refusal = capsys.readouterr().err
    assert "needs a delta" in refusal
    assert "takes about" not in refusal


def test_weighted_records_and_order_are_those_of_the_mechanism(
    folder: Path, at_the_charge: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    taken: list[Any] = []
    at_the_charge(lambda *given: taken.append(given))
    rules = '\n[[impossible]]\nwhere = "sex = F and city = Bonn"\n'
    (folder / "people.toml").write_text(SCHEMA + rules)
    options = ["--mechanism", "records", "--delta", "1e-6"]
    for more in ([], ["--weighted-records", "2000", "--order", "2"]):
        with pytest.raises(ZeroDivisionError):
            release(*options, *more)
    assert [mechanism for mechanism, *_ in taken] == [FittedRecords(), FittedRecords(weighted_records=2000, order=2)]
    assert {workload.domain.impossible for _, workload, _ in taken} == {("sex = F and city = Bonn",)}
    assert "impossible" not in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        release("--mechanism", "auto", "--rows", "9")
    assert taken[2][0] == Auto(table=True)
    err = capsys.readouterr().err
    assert "auto would take maxent" in err
    assert "impossible" not in err
    with pytest.raises(ZeroDivisionError):
        release("--mechanism", "mwem")
    assert re.search("^warning: the impossible .* --mechanism records and maxent alone$", capsys.readouterr().err, re.M)
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    default = FittedRecords()
    assert default.weighted_records is None
    assert "more are slower and more accurate (default: by the noisy number of records and the cost)" in said
    assert f"measure marginals of at most K columns (default: {default.order})" in said


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


def test_why_there_is_no_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "wide.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "wide.json").write_text('{"a": 20000, "b": 20000}')
    command = ["release", "wide.csv", "--schema", "wide.json", "--mechanism", "laplace", "--workload", "marginals:1"]
    assert main([*command, "--epsilon", "1", "--out", "out"]) == 0
    assert "no synthetic.csv: the universe has 400,000,000 cells" in capsys.readouterr().out
    files = {f.name for f in (folder / "out").iterdir()}
    assert files == {"SHA256SUMS", "answers.csv", "measurements.npy", "release.json", "report.html", "synopsis.npz"}


def test_the_folder_has_a_default_name(folder: Path) -> None:
    assert main(["release", "people.csv", "--schema", "people.toml", "--epsilon", "1"]) == 0
    assert (folder / "people-release" / "synthetic.csv").exists()


# --- numbers -----------------------------------------------------------------------------------------------------


@pytest.fixture
def with_hours(folder):
    rows = "".join(f"{'FM'[i % 2]},{'' if i % 20 == 7 else 20 + i % 37}\n" for i in range(600))
    (folder / "hours.csv").write_text("sex,hours\n" + rows)
    (folder / "hours.toml").write_text(
        '[[attribute]]\nname = "sex"\nkind = "category"\ncategories = ["F", "M"]\n\n'
        '[[attribute]]\nname = "hours"\nkind = "number"\nwithin = [0, 99]\nstep = 1\nbins = [0, 20, 40, 60, 100]\n'
        'missing = [""]\n'
    )
    return folder


def numbers(*options):
    command = ["release", "hours.csv", "--schema", "hours.toml", "--epsilon", "2", "--ledger", "hours.ledger"]
    return main([*command, "--out", "out", *options])


@pytest.mark.parametrize("mechanism", ["auto", "sums", "maxent"])
def test_numbers_come_in_one_charge_with_the_workload(with_hours, mechanism, capsys):
    asked = ["--numbers", "mean:hours by sex", "--numbers", "ratio:hours >= 40 by sex", "--clip", "hours=10..60"]
    assert numbers("--mechanism", mechanism, "--numbers-share", "0.6", *asked) == 0
    lines = (with_hours / "out" / "numbers.csv").read_text().splitlines()
    assert lines[0].startswith("question,group,value,low,high,unbiased")
    assert len(lines) == 5
    assert "clipped to 10..60" in lines[1]
    assert main(["verify", "out"]) == 0
    assert "epsilon=2 of epsilon=2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mechanism", "named"),
    [("maxent", "sums, counts by maxent"), ("auto", "sums, counts by auto: "), ("sums", "sums")],
)
def test_what_measures_numbers_and_what_counts_are_named_alike_everywhere(with_hours, mechanism, named, capsys):
    assert numbers("--mechanism", mechanism, "--numbers", "mean:hours by sex", "-v") == 0
    told = capsys.readouterr()
    made = re.search(rf"^Release\(({named}[a-z]*) on 'hours'", told.out, re.MULTILINE)[1]
    if mechanism == "auto":
        assert f"\ncounts: chosen {made.rpartition(' ')[2]}: " in told.out
        assert "qrelease: counts: " in told.err
    assert (
        "qrelease: counts: from here on maxent, with drawing synthetic records and writing files, takes about"
        in told.err
    ) or mechanism != "maxent"
    assert f"<strong>{made}</strong>" in (with_hours / "out" / "report.html").read_text()
    assert main(["card", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"]["name"] == made


def test_quantiles_that_are_chosen_beside_a_mechanism_that_is_are_told_apart(with_hours, capsys):
    options = ["--mechanism", "auto", "--records", "600", "--numbers", "quantile(.5):hours by sex"]
    assert numbers(*options, "--epsilon", "20") == 0
    told = capsys.readouterr().out
    assert "counts: chosen " in told
    found = qr.load("out")
    assert found.measured_sums.chosen
    assert isinstance(found.parameters["chosen"], str)
    assert found.parameters["chosen_quantiles"]["questions"] == ["quantile(.5):hours by sex"]
    assert main(["verify", "out"]) == 0


def test_numbers_named_in_the_workload_are_those_of_numbers(with_hours):
    same, alone = ["--insecure-seed", "4", "--mechanism", "sums"], ["--workload", "marginals:1"]
    asked = "mean:hours by sex where sex = 'F'"
    assert numbers(*same, *alone, "--workload", asked) == 0
    found = (with_hours / "out" / "numbers.csv").read_text()
    (with_hours / "out").rename(with_hours / "first")
    (with_hours / "hours.ledger").unlink(missing_ok=True)
    assert numbers(*same, *alone, "--numbers", asked) == 0
    assert (with_hours / "out" / "numbers.csv").read_text() == found
    assert found.count("\n") == 3


def test_a_column_that_numbers_alone_ask_of_is_said_to_follow_the_schema(
    with_hours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the terminal, and at its picture in the report: its synthetic values know nothing of the numbers."""
    told, drawn = "only --numbers ask of hours: synthetic values there may follow the schema alone", "NOT of the"
    asked = ["--mechanism", "maxent", "--numbers", "mean:hours by sex", "--total-epsilon", "9"]
    assert numbers("--workload", "marginals:sex", *asked) == 0
    captured = capsys.readouterr()
    assert told in captured.err
    said = captured.out.splitlines()
    wrote = next(i for i, line in enumerate(said) if "synthetic.csv" in line)
    assert said[wrote + 1].startswith("nothing was measured of hours: synthetic values there follow the schema alone")
    assert said[wrote + 2].startswith("synthetic numbers lie inside their bins so that the measured means hold")
    page = (with_hours / "out" / "report.html").read_text()
    assert page.count(drawn) == 1
    assert re.search(r"<h3>hours [^/]*NOT of the records: no count of it was asked", page)
    assert numbers("--workload", "marginals:sex*hours", *asked, "--out", "both") == 0
    assert "--numbers ask of" not in capsys.readouterr().err
    assert drawn not in (with_hours / "both" / "report.html").read_text()


def test_numbers_in_parquet_are_a_tidy_table_that_is_verified(with_hours, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    asked = ["--numbers", "mean:hours by sex", "--numbers", "quantile(.5,.9):hours", "--numbers", "count by hours"]
    assert numbers("--mechanism", "sums", "--out-format", "parquet", *asked) == 0
    file = with_hours / "out" / "numbers.parquet"
    assert not file.with_suffix(".csv").exists()
    table = parquet.read_table(file)
    assert table.column_names[:4] == ["question", "sex", "hours", "probability"]
    assert table["sex"].to_pylist()[:2] == ["F", "M"]
    assert table["probability"].to_pylist()[2:5] == [0.5, 0.9, None]
    assert all(value is None for value in table["hours"].to_pylist()[:4])
    assert table["value"].type == "double"
    capsys.readouterr()
    assert main(["verify", "out"]) == 0
    assert f"its {len(table)} lines are those" in capsys.readouterr().out
    changed = table.set_column(table.column_names.index("n"), "n", [[n + 1 for n in table["n"].to_pylist()]])
    parquet.write_table(changed, file)
    (with_hours / "out" / "SHA256SUMS").unlink()
    assert main(["verify", "out"]) == 1
    assert "numbers.parquet, column n: it is not what the manifest gives" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--numbers", "mean:hors by sex"], "no column 'hors'"),
        (["--numbers", "mean:sex"], "holds texts"),
        (["--workload", "mean:sex"], "holds texts"),
        (["--workload", "count by sex", "--workload", "avg:hours"], "a workload is"),
        (["--numbers", "quantile(1.2):hours"], "from 0 to 1"),
        (
            ["--numbers", "quantile:hours,q=0.5"],
            "no question about numbers (did you mean quantile(.5):hours?): no column",
        ),
        (["--numbers", "sum:hours*sex"], "did you mean sum:hours by sex?"),
        (["--workload", "quantile(50):hours"], "did you mean quantile(.5):hours?"),
        (["--numbers", "mean:hours", "--clip", "hours=60..10"], "a lower and a higher"),
        (["--numbers", "mean:hours", "--clip", "hours"], "--clip takes"),
        (["--numbers", "mean:hours", "--clip", "hours=a..b"], "--clip takes"),
        (["--numbers", "mean:hours", "--numbers-share", "1.2"], "share must be"),
        (["--clip", "hours=learn"], "need --numbers"),
        (["--mechanism", "sums"], "--mechanism sums needs questions"),
        (["--mechanism", "sums", "--numbers", "mean:hours", "--rounds", "3"], "not of sums"),
    ],
)
def test_numbers_that_are_refused_cost_nothing(with_hours, options, said, capsys):
    assert numbers(*options) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not (with_hours / "hours.ledger").exists()


def test_what_the_schema_shows_to_be_wrong_is_refused_before_the_data_are_read(with_hours, capsys):
    """Reading a large table takes long: here it would end at its last line."""
    with (with_hours / "hours.csv").open("a") as file:
        file.write("F,none\n")
    for options, said in [
        (["--numbers", "mean:hors by sex"], "no column 'hors'"),
        (["--workload", "where:sex = X"], "X"),
        (["--mechanism", "gaussian"], "delta"),
        ([], "hours.csv line 602"),
    ]:
        assert numbers(*options) == 2
        assert said in capsys.readouterr().err
        assert not (with_hours / "out").exists()


def test_columns_that_no_question_is_about_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--mechanism", "laplace", "--workload", "marginals:sex*age"]
    command = ["release", "people.csv", "--schema", "people.toml", "--epsilon", "1", *asked]
    assert main([*command, "--out", "out"]) == 0
    told = "qrelease: nothing is asked of city: synthetic values there would follow the schema alone;"
    said = capsys.readouterr().err
    assert told in said
    assert "as are fewer synthetic records, by --rows N" in said
    command += ["--ledger", "other", "--total-epsilon", "1"]
    assert main([*command, "--columns", "sex,age", "--out", "two"]) == 0
    assert "nothing is asked" not in capsys.readouterr().err
    assert main([*command, "--workload", "where:city = Ulm", "--out", "three"]) == 2
    assert "nothing is asked" not in capsys.readouterr().err  # a refusal stays one line


def test_a_parent_without_children_in_its_list_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cities.csv").write_text("city,sex\nUlm,F\nBonn,F\n")
    entry = 'name = "city"\nkind = "category"\ncategories = { file = "cities.csv" }\nparent = "sex"\n'
    (folder / "of_cities.toml").write_text(SCHEMA[: SCHEMA.index('name = "city"')] + entry)
    (folder / "women.csv").write_text("sex,age,city\nF,20,Ulm\nF,30,Bonn\n")
    command = ["release", "women.csv", "--schema", "of_cities.toml", "--epsilon", "1", "--mechanism", "laplace"]
    assert main([*command, "--workload", "marginals:1"]) == 0
    assert (
        "qrelease: warning: sex 'M' has no category of 'city' in cities.csv: records with it" in capsys.readouterr().err
    )


def test_the_help_names_every_kind_of_question_that_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    said = "".join(capsys.readouterr().out.split())
    told = said[said.rindex("--numbersQ") : said.rindex("--clipCOLUMN")]
    assert all(kind in told for kind in get_args(Kind))


GERMAN = """\
[[attribute]]
name = "pay"
kind = "number"
bins = [0, 1000, 2000]
decimal = ","
thousands = "."
reviewed = true

[[attribute]]
name = "day"
kind = "date"
bins = {start = 2023-01-01, stop = 2024-01-01, months = 1}
format = "%d.%m.%Y"
reviewed = true

[[attribute]]
name = "sex"
categories = ["F", "M"]
kind = "category"
reviewed = true
"""


def test_it_is_said_that_tables_are_not_written_as_the_data_are(in_folder, capsys):
    Path("de.toml").write_text(GERMAN)
    Path("de.csv").write_text("pay;day;sex\n" + "1.234,50;31.12.2023;F\n17,25;01.02.2023;M\n" * 50)
    command = ["release", "de.csv", "--separator", ";", "--schema", "de.toml", "--workload", "marginals:2"]
    command += ["--mechanism", "maxent", "--epsilon", "1", "--total-epsilon", "9"]
    assert main([*command, "--out", "out"]) == 0
    told = "pay, day: written here as 1234.5 and 2024-12-31, not as the schema says of the data"
    assert told in capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"[0-9]+\.[0-9]+,2023-[0-9-]+,[FM]", Path("out/synthetic.csv").read_text().splitlines()[1])
    assert main([*command, "--out", "typed", "--out-format", "parquet"]) == 0
    assert "written here" not in capsys.readouterr().out


def test_a_mechanism_of_ones_own_is_released_by_its_name(
    own: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release("--mechanism", f"{own}:Own", "--total-epsilon", "2") == 0
    assert qr.load(folder / "out").mechanism == "own"
    capsys.readouterr()
    refused = {
        "Nameless": "Nameless has no name",
        "Sized": "name an object of your module instead",
        "few": "must be a mechanism",
        "no": f"{own} has no no",
    }
    for name, said in refused.items():
        assert release("--mechanism", f"{own}:{name}", out="none") == 2
        assert said in (line := capsys.readouterr().err)
        assert line.count("\n") == 1
    assert release("--mechanism", f"{own}:Own", "--rounds", "3", out="none") == 2
    assert f"--rounds is an option of mwem, not of {own}:Own" in capsys.readouterr().err
    with Ledger.open(folder / "people.ledger") as ledger:
        assert str(ledger.spent) == "epsilon=1"
    assert release("--mechanism", f"{own}:Broken", out="none") == 2
    line = capsys.readouterr().err
    assert "Broken failed: ValueError: no noise (mechanisms_of_her_own.py, line 17); epsilon=1 was charged" in line
    assert not (folder / "none").exists()


def test_conditions_alone_over_many_columns_are_told_what_to_ask_instead(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"c{i}" for i in range(20)]
    (in_folder / "wide.csv").write_text(",".join(names) + "\n" + (",".join("0123" * 5) + "\n") * 40)
    (in_folder / "wide.json").write_text(json.dumps(dict.fromkeys(names, 4)))
    command = ["release", "wide.csv", "--schema", "wide.json", "--epsilon", "1", "--mechanism", "laplace", "--out"]
    conditions = ["where:c1 = 2 and c0 < 2", "where:c3 = 1"]
    asked = [word for condition in conditions for word in ("--workload", condition)]
    assert main([*command, "a", *asked, "--total-epsilon", "3"]) == 0
    said = capsys.readouterr().err
    (told,) = re.findall(r"hardly any others: --workload '(marginals:\S+)' asks for", said)
    assert told == "marginals:c0*c1,c3"
    assert main([*command, "b", "--workload", told]) == 0
    assert "hardly any others" not in capsys.readouterr().err
    assert main([*command, "c", *asked, "--columns", "c0,c1,c3"]) == 0  # which gives a table
    assert "hardly any others" not in capsys.readouterr().err
