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
from qrelease.data.schema import load
from qrelease.data.table import Table
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.online.session import Online
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

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


def test_the_data_under_a_second_hard_link_have_no_second_budget(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release() == 0
    (folder / "hard.csv").hardlink_to(folder / "people.csv")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "people.csv").hardlink_to(folder / "people.csv")
    before = sorted(folder.rglob("*"))
    for name in ("hard.csv", "elsewhere/people.csv"):
        command = ["release", name, "--schema", "people.toml", "--epsilon", "1", "--out", "second"]
        capsys.readouterr()
        assert main(command) == 2
        told = capsys.readouterr().err
        assert "has a second name (a hard link)" in told
        assert told.count("\n") == 1
        assert sorted(folder.rglob("*")) == before
    assert main([*command, "--ledger", "people.ledger"]) == 2
    assert "budget exceeded" in capsys.readouterr().err
    assert release(out="second") == 2  # under the name that has the ledger it is as ever
    assert "budget exceeded" in capsys.readouterr().err
    assert main(["release", "hard.csv", *command[2:], "--ledger", "hard.ledger"]) == 0
    assert "people.ledger is a ledger of dataset 'people', as these data are called" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["symlink", "hard link"])
def test_a_pattern_of_links_to_the_data_has_no_second_budget(
    folder: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    home = folder / "home"
    home.mkdir()
    link = home / "people.csv"
    (link.symlink_to if how == "symlink" else link.hardlink_to)(folder / "people.csv")
    command = ["release", "home/peop*.csv", "--dataset", "people", "--schema", "people.toml", "--epsilon", "1"]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert f"is not in the folder {home}" in told if how == "symlink" else "has a second name (a hard link)" in told
    assert "say with --ledger" in told
    assert not list(folder.rglob("*.ledger"))
    assert main([*command, "--ledger", "home/people.ledger"]) == 0  # whoever says so


def test_many_files_have_one_ledger_beside_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in "12":
        (folder / f"part-{part}.csv").write_bytes((folder / "people.csv").read_bytes())
    Ledger.open(folder / "older.ledger", PureDP(1.0), dataset="parts").close()
    command = ["release", "part-*.csv", "--dataset", "parts", "--schema", "people.toml", "--epsilon", "1"]
    assert main([*command, "--out", "first"]) == 0
    assert "older.ledger is a ledger of dataset 'parts', as these data are called" in capsys.readouterr().err
    assert main([*command, "--out", "second"]) == 2
    assert "budget exceeded" in capsys.readouterr().err
    assert sorted(file.name for file in folder.glob("*.ledger")) == ["older.ledger", "parts.ledger"]


def run_by(user: list[str], folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A release by the program as somebody may run it."""
    asked = ["people.csv", "--schema", "people.toml", "--epsilon", "1", "--out", "out", *options]
    command = [*user, sys.executable, "-m", "qrelease", "release", *asked]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


MOUNTED = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's mounts")
def test_data_that_are_mounted_as_a_single_file_need_a_named_ledger(folder: Path) -> None:
    """As in two containers: each has a folder of its own around the file, and would have the whole budget."""
    home = folder / "home"
    home.mkdir()
    (home / "people.csv").touch()
    (home / "people.toml").write_bytes((folder / "people.toml").read_bytes())
    mounted = ["unshare", "-m", "sh", "-c", MOUNTED, "sh", str(folder / "people.csv"), str(home / "people.csv")]
    done = run_by(mounted, home)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("who runs this may not mount")
    assert done.returncode == 2
    assert "people.csv is mounted as a single file" in done.stderr
    assert "say with --ledger which one counts" in done.stderr
    assert not list(folder.rglob("*.ledger"))
    assert run_by(mounted, home, "--ledger", "people.ledger").returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs a superuser who may be held back, or none")
def test_a_ledger_in_a_folder_that_cannot_be_listed_is_told(folder: Path) -> None:
    nobody = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
    Ledger.open(folder / "people.ledger", PureDP(1.0)).close()
    folder.chmod(0o311)
    try:
        done = run_by(nobody, folder, "--ledger", "mine.ledger")
    finally:
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert "people.ledger is a ledger of dataset 'people', as these data are called" in done.stderr


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


# --- a number of records is public under one relation, one unit and for known records alone

_PLAIN = '[[attribute]]\nname = "a"\nkind = "coded"\ncodes = 100\n'
_OPEN = '[[attribute]]\nname = "a"\nkind = "number"\nwithin = [0, 99]\nstep = 1\nbins = { learn = 4 }\n'
_WHOSE = '[person]\ncolumn = "who"\nat_most = 1\n'


@pytest.fixture
def asked(in_folder, capsys):
    """Runs a command on so many records, each a value: its exit code, and its lines on standard error."""
    for name, schema in (("plain", _PLAIN), ("open", _OPEN), ("persons", _PLAIN + _WHOSE)):
        Path(f"{name}.toml").write_text(schema)
    Path("fake.csv").write_text("a\n1\n2\n")

    def run(command, records, *more, schema="plain.toml"):
        rows = "".join(f"{value},p{i}\n" for i, value in enumerate(records))
        Path("people.csv").write_text(f"a,who\n{rows}")
        words = {
            "release": ["people.csv", "--mechanism", "auto", "--workload", "marginals:1", "--out", "out"],
            "estimate": ["people.csv", "mean:a"],
            "score": ["people.csv", "fake.csv"],
            "serve": ["--data", "people.csv", "--ledger", "people.ledger", "--port", "0"],
            "schema learn": ["people.csv", "--out", "learned.toml"],
        }[command]
        code = main([*command.split(), *words, "--schema", schema, *more])
        return code, capsys.readouterr().err.splitlines()

    return run


def _charged(records, neighbours, *, person=None, session=None):
    """A ledger of so many records, which charged a release, or has a session."""
    domain = load("plain.toml" if person is None else "persons.toml")
    Path("people.csv").write_text("a,who\n" + "".join(f"{value},p{i}\n" for i, value in enumerate(records)))
    table = Table.read("people.csv", domain)
    with Ledger.open(
        "people.ledger", PureDP(9), dataset="people", neighbours=neighbours, person=table.person_column
    ) as ledger:
        curator = Curator(table, ledger)
        if session is None:
            curator.release(Laplace(), Workload.marginals(domain, 1), PureDP(1))
        else:
            curator.open(Online(alpha=0.1), PureDP(4), key=session)


@pytest.mark.parametrize("command", ["release", "estimate", "serve", "schema learn"])
@pytest.mark.parametrize("known", ["another relation", "another unit"])
def test_where_a_ledger_says_that_the_number_of_records_is_private_nothing_comes_of_it(asked, command, known):
    """By the ledger it is private: so records that differ in it alone are told alike, until that refuses."""
    other = known == "another relation"
    _charged(range(20), "add-remove" if other else "replace-one", person=None if other else "who")
    schema = "open.toml" if command == "schema learn" else "plain.toml"
    told = [
        asked(command, range(n), "--epsilon", "0.001", "--neighbours", "replace-one", schema=schema) for n in (0, 1, 19)
    ]
    assert told[0] == told[1] == told[2]
    code, (line,) = told[0]
    assert code == 2
    assert ("counts under add-remove, not under replace-one" if other else "a person by 'who'") in line


@pytest.mark.parametrize("command", ["release", "estimate", "serve", "score", "schema learn"])
def test_other_records_are_told_before_anything_is_made_of_their_number(asked, command):
    _charged(range(20), "replace-one")
    schema = "open.toml" if command == "schema learn" else "plain.toml"
    relation = [] if command == "score" else ["--neighbours", "replace-one"]
    weak = "0.01" if command == "estimate" else "1"
    _, lines = asked(command, range(3), "--epsilon", weak, *relation, schema=schema)
    first, *rest = lines
    assert first.startswith("qrelease: ")
    other = command == "schema learn"
    assert (
        "cannot tell whether these are the same records" if other else "the records are not those of the charge of"
    ) in first
    assert not any("RowsChanged" in line or "not those of" in line for line in rest)
    if command == "estimate":
        assert "promises nothing for 3 records" in rest[0]


def test_a_session_of_other_records_refuses_before_their_number_does(asked):
    _charged(range(40), "replace-one", session="server")
    given = ["--epsilon", "4", "--alpha", "0.1", "--neighbours", "replace-one"]
    code, lines = asked("serve", range(3), *given)
    assert code == 2
    assert "was opened on other records than these" in lines[-1]
    code, lines = asked("serve", range(3), *given, "--changed-rows")
    assert code == 2
    assert "alpha * records must be at least 2 counts" in lines[-1]


def test_a_release_that_learns_its_schema_tells_of_other_records(asked):
    made = ["--epsilon", "1", "--total-epsilon", "3", "--mechanism", "laplace"]
    assert asked("release", range(90), *made, schema="open.toml")[0] == 0
    code, lines = asked("release", range(91), *made, "--out", "more", schema="open.toml")
    assert code == 0
    assert sum("the records are not those of the charge of" in line for line in lines) == 1
    assert not any("cannot compare them" in line for line in lines)


def test_a_server_with_a_new_ledger_is_told_of_the_one_beside_the_data(asked):
    """As a release is: it would be a second budget."""
    _charged(range(20), "add-remove")
    given = ["--epsilon", "1", "--alpha", "0.01", "--records", "20"]
    code, (told, line) = asked("serve", range(20), *given, "--ledger", "other.ledger")
    assert code == 2
    assert (
        "people.ledger is a ledger of dataset 'people', as these data are called, and other.ledger is a second" in told
    )
    assert "alpha * records must be at least 2 counts" in line
    assert asked("serve", range(20), *given)[1][-1] == line
    assert not Path("other.ledger").exists()


def test_of_a_ledger_beside_the_parents_in_another_folder_it_is_told(in_folder, capsys):
    """They are the same people: what they are promised is the sum of both."""
    Path("homes").mkdir()
    Path("homes/homes.csv").write_text("who,b\n" + "".join(f"p{i},{i % 2}\n" for i in range(40)))
    Path("people.csv").write_text("a,who\n" + "".join(f"{i % 100},p{i}\n" for i in range(40)))
    Path("both.toml").write_text(_PLAIN + _PLAIN.replace('"a"', '"b"').replace("100", "2") + _WHOSE)
    Ledger.open("homes/homes.ledger", PureDP(1)).close()
    words = ["release", "people.csv", "--parent", "homes/homes.csv", "--schema", "both.toml", "--epsilon", "1"]
    assert main([*words, "--mechanism", "laplace", "--out", "out"]) == 0
    said = f"{Path('homes/homes.ledger').resolve()} is a ledger of dataset 'homes', as these data are called"
    assert said in capsys.readouterr().err


def test_ledgers_of_other_tables_in_the_folder_are_not_warned_of(folder, capsys):
    """Also where the file of their table is gone or has another name: they say what they are of."""
    lines = (folder / "people.csv").read_text().splitlines()
    (folder / "visits.csv").write_text("\n".join([lines[0], *lines[3:], ""]))
    same = ["--schema", "people.toml", "--epsilon", "1", "--mechanism", "laplace"]
    assert main(["release", "visits.csv", *same, "--out", "visits"]) == 0
    (folder / "visits.csv").unlink()
    Ledger.open(folder / "costs.ledger", PureDP(1.0)).close()
    (folder / "damaged.ledger").write_bytes(b"none")
    capsys.readouterr()
    assert release() == 0
    assert "second budget" not in capsys.readouterr().err


def test_of_many_ledgers_beside_the_data_one_line_tells_with_the_reason_of_three(folder, capsys):
    for number in range(5):
        Ledger.open(folder / f"{number}.ledger", PureDP(1.0), dataset="people").close()
    assert release() == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(told) == 1
    assert all((f"{folder / f'{number}.ledger'} is a ledger of" in told[0]) == (number < 3) for number in range(5))
    assert "there are 2 more such ledgers, and " in told[0]
    assert told[0].endswith("in the data of all of them are promised is the sum of all of them")


def test_of_a_ledger_that_was_charged_for_the_very_records_under_another_name_it_is_told(folder, capsys):
    assert release() == 0
    lines = (folder / "people.csv").read_text().splitlines()
    (folder / "copy.csv").write_text("\n".join([lines[0], *reversed(lines[1:]), ""]))
    capsys.readouterr()
    assert main(["release", "copy.csv", "--schema", "people.toml", "--epsilon", "1", "--out", "copied"]) == 0
    said = "people.ledger is a ledger of dataset 'people', and was charged for these very records, and"
    assert said in capsys.readouterr().err


def test_of_a_ledger_of_the_same_persons_beside_another_table_it_is_told(in_folder, capsys):
    """A release of both tables charges the persons of this one, too."""
    Path("homes.csv").write_text("who,b\n" + "".join(f"p{i},{i % 2}\n" for i in range(40)))
    Path("plain.csv").write_text("b\n" + "0\n" * 40)
    Path("homes.toml").write_text(_PLAIN.replace('"a"', '"b"').replace("100", "2"))
    Path("people.csv").write_text("a,who\n")
    Ledger.open("people.ledger", PureDP(1), person="who").close()
    for name, told in (("plain", False), ("homes", True)):
        words = ["release", f"{name}.csv", "--schema", "homes.toml", "--epsilon", "1", "--mechanism", "laplace"]
        assert main([*words, "--out", name]) == 0
        said = f"{Path('people.ledger').resolve()} is a ledger of persons by 'who', which these data have, too"
        assert (said in capsys.readouterr().err) == told


@pytest.mark.parametrize("command", [["release"], ["estimate", "mean:age,low=18,high=69"]], ids=["release", "estimate"])
def test_what_the_ledger_does_not_cover_is_refused_before_the_data_are_read(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = "integer = true\nwithin = [18, 69]\nstep = 1\n"  # else there is no mean, which the schema alone tells
    (folder / "people.toml").write_text(SCHEMA.replace("integer = true\n", grid))
    assert release() == 0
    with (folder / "people.csv").open("a") as file:
        file.write("F,not a number,Utrecht\n")  # whoever reads it, refuses it
    before = sorted(folder.iterdir())
    options = ["--schema", "people.toml", "--epsilon", "1", "--out", "second"]
    capsys.readouterr()
    assert main([command[0], "people.csv", *command[1:], *options]) == 2
    assert "budget exceeded" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before
    # What the ledger covers is read, and what is wrong with the data is told.
    assert main(["ledger", "raise", "people.ledger", "--epsilon", "5"]) == 0
    capsys.readouterr()
    assert main([command[0], "people.csv", *command[1:], *options]) == 2
    assert "not a number" in capsys.readouterr().err
