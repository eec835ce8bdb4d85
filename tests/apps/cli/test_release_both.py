"""`qrelease release --both`: what it writes, what it says, and no ledger where it cannot."""

import csv

import pytest
from planes import M, files

from qrelease.apps.cli import main
from qrelease.apps.two_tables import release_linked
from qrelease.data.person import CHILDREN
from qrelease.data.two_tables import TwoTables
from qrelease.errors import RowsChangedWarning
from qrelease.mechanisms.laplace import Laplace
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.reader import load


def test_on_the_command_line(tmp_path, capsys):
    given = files(tmp_path)
    asked = ["release", *given, "--parent", str(tmp_path / "planes.csv"), "--both", "--mechanism", "maxent"]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "spent in all" in told
    assert "\nchildren: those of one parent are independent of each other, given its columns\n" in told
    assert "independent of each other in synthetic records" not in told  # all pairs of columns were measured
    with (tmp_path / "out" / "parents.csv").open() as parents, (tmp_path / "out" / "children.csv").open() as children:
        planes, flights = list(csv.DictReader(parents)), list(csv.DictReader(children))
    assert set(planes[0]) == {"plane", "kind", "age", CHILDREN}
    assert set(flights[0]) == {"plane", "far", "late"}
    keys = [row["plane"] for row in planes]
    assert len(set(keys)) == len(keys)
    assert {row["plane"] for row in flights} <= set(keys)
    for row in planes[:50]:
        assert sum(f["plane"] == row["plane"] for f in flights) == int(row[CHILDREN]) <= M
    assert load(tmp_path / "out" / "parents").unit.at_most == 1
    assert load(tmp_path / "out" / "children").unit.at_most == M


@pytest.mark.parametrize("changed", ["planes.csv", "flights.csv"])
def test_of_either_table_it_is_said_that_its_rows_have_changed(tmp_path, capsys, changed):
    """On the command line and in Python, before the charge: a row without children, too, and a child's own column."""
    given = files(tmp_path)
    with (tmp_path / "planes.csv").open("a") as file:
        file.write("N-alone,prop,1\n")
    asked = ["release", *given, "--parent", str(tmp_path / "planes.csv"), "--both", "--mechanism", "laplace"]
    assert main([*asked, "--total-epsilon", "9", "--total-delta", "1e-5", "--out", str(tmp_path / "out")]) == 0
    assert "the records are not those" not in capsys.readouterr().err
    file = tmp_path / changed
    text = file.read_text()
    old, new = ("N-alone,prop", "N-alone,jet") if changed == "planes.csv" else (",yes\n", ",no\n")
    file.write_text(text.replace(old, new, 1))
    (ledger_path,) = tmp_path.glob("*.ledger")
    tables = TwoTables.read(tmp_path / "flights.csv", tmp_path / "planes.csv", tmp_path / "flights.toml")
    with Ledger.open(ledger_path) as ledger, pytest.warns(RowsChangedWarning, match="the records are not those"):
        release_linked(tables, ledger, Laplace(), ApproxDP(2.0, 1e-6))
    file.write_text(text)
    assert main([*asked, "--again", "--out", str(tmp_path / "again")]) == 0
    assert capsys.readouterr().err.count("the records are not those") == 1


def test_a_folder_that_cannot_be_written_tells_of_the_charge_and_is_gone_on_with(tmp_path, capsys, at_each_sync):
    given = files(tmp_path)
    asked = ["release", *given, "--parent", str(tmp_path / "planes.csv"), "--both", "--mechanism", "laplace"]

    full = [True]

    def fail(path):
        if full and ".out.part" in path:
            raise OSError(28, "No space left on device")

    at_each_sync(fail)
    assert main([*asked, "--out", str(tmp_path / "out")]) == 2
    full.clear()
    assert "was charged, and the same command goes on from what was drawn, for free" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*asked, "--out", str(tmp_path / "out")]) == 0  # the ledger has no more than one release
    assert (tmp_path / "out" / "parents.csv").is_file()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--both"], "--both releases two tables: give the other one by --parent"),
        (["--both", "--parent", "PLANES", "--weighted"], "--both cannot be used with --weighted"),
        (["--both", "--parent", "PLANES", "--mechanism", "matrix"], "a synthetic table is wanted"),
        (["--both", "--parent", "PLANES", "--mechanism", "mwem", "--rounds", "0"], "rounds must be"),
    ],
)
def test_wrong_arguments_are_one_line_and_make_no_ledger(tmp_path, capsys, more, said):
    given = files(tmp_path)
    more = [str(tmp_path / "planes.csv") if part == "PLANES" else part for part in more]
    assert main(["release", *given, *more, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("*.ledger"))
    assert not (tmp_path / "out").exists()
