"""`qrelease dummy`: the same table for everybody, written once."""

import csv
import io

from sources import PEOPLE

from qrelease.apps.cli import main
from qrelease.data.schema import to_toml


def test_it_prints_the_same_table_for_everybody_and_another_for_another_seed(tmp_path, capsys):
    (tmp_path / "people.toml").write_text(to_toml(PEOPLE))
    seen = []
    for more in ([], [], ["--seed", "1"]):
        assert main(["dummy", str(tmp_path / "people.toml"), "--rows", "20", *more]) == 0
        seen.append(capsys.readouterr().out)
    assert seen[0] == seen[1] != seen[2]
    assert [len(row) for row in csv.reader(io.StringIO(seen[0]))] == [len(PEOPLE)] * 21


def test_it_writes_over_nothing_and_no_seed_is_below_0(in_folder, capsys):
    (in_folder / "people.toml").write_text(to_toml(PEOPLE))
    (in_folder / "mine.csv").write_text("mine")
    for wrong, said in (
        (["--out", "mine.csv"], "mine.csv exists already"),
        (["--seed", "-1", "--out", "t.csv"], "--seed must be at least 0, got -1"),
        (["--rows", "0", "--out", "t.csv"], "rows"),
    ):
        assert main(["dummy", "people.toml", *wrong]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert (in_folder / "mine.csv").read_text() == "mine"
    assert not (in_folder / "t.csv").exists()
    assert main(["dummy", "people.toml", "--rows", "20", "--out", "t.csv"]) == 0
    assert main(["dummy", "people.toml", "--rows", "20"]) == 0
    made, printed = capsys.readouterr().out.split("\n", 1)
    assert made == "wrote 20 made-up records into t.csv"
    assert (in_folder / "t.csv").read_text() == printed
