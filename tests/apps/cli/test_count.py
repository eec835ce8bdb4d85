"""Shards are counted where they are, and released from together."""

import json

import pytest
from commands import ROWS

from qrelease.apps.cli import main

LINES = ROWS.splitlines(keepends=True)
ASKED = ["--schema", "people.toml", "--workload", "marginals:2"]


@pytest.fixture
def shards(folder):
    for name, lines in (("one", LINES[:150]), ("two", LINES[150:])):
        (folder / f"{name}.csv").write_text("sex,age,city\n" + "".join(lines))
    return folder


def released(*arguments, out):
    asked = [*ASKED, "--mechanism", "maxent", "--epsilon", "1", "--insecure-seed", "1"]
    return main(["release", *arguments, *asked, "--out", out])


def test_a_release_of_counts_is_that_of_the_table(shards):
    assert main(["count", "one.csv", "two.csv", *ASKED, "--out", "counts"]) == 0
    assert sorted(file.name for file in (shards / "counts").iterdir()) == ["one.csv.counts", "two.csv.counts"]
    assert released("--counts", "counts", "--dataset", "people", out="a") == 0
    assert released("people.csv", out="b") == 0
    one, two = (json.loads((shards / out / "release.json").read_text()) for out in "ab")
    assert one == two
    assert (shards / "a" / "answers.csv").read_bytes() == (shards / "b" / "answers.csv").read_bytes()


def test_each_file_of_a_pattern_is_a_shard_of_its_own(shards, capsys):
    """Else a file could be counted with the others, and again by its own name, and nobody would notice."""
    for out, named in (("counts", ["[ot][nw][eo].csv"]), ("named", ["one.csv", "two.csv"])):
        assert main(["count", *named, *ASKED, "--out", out]) == 0
    files = sorted((shards / "counts").iterdir())
    assert [file.name for file in files] == ["one.csv.counts", "two.csv.counts"]
    assert [file.read_bytes() for file in files] == [(shards / "named" / file.name).read_bytes() for file in files]
    assert main(["count", "one.csv", *ASKED, "--out", "counts"]) == 2
    assert "one.csv.counts exists already" in capsys.readouterr().err
    assert main(["count", "none-*.csv", *ASKED, "--out", "more"]) == 2
    assert "no file has a name like none-*.csv" in capsys.readouterr().err
    assert not (shards / "more").exists()


@pytest.mark.parametrize("place", ["p.sqlite", "p.duckdb", "https://host/p.db?k", "postgresql://a:secret@host/d"])
def test_a_database_is_no_shard_as_no_query_names_its_records(place, folder, capsys):
    assert main(["count", place, *ASKED, "--out", "counts"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("qrelease: shards are files: ")
    assert not (folder / "counts").exists()


def test_a_release_of_counts_charges_the_ledger_of_their_records(shards, capsys):
    """Whoever may read the records can count them anywhere: a ledger made beside the counts is a second budget."""
    for place in ("home/counts", "counts"):
        assert main(["count", "people.csv", *ASKED, "--out", place]) == 0
    asked = ["--dataset", "people", *ASKED, "--mechanism", "laplace", "--epsilon", "1"]
    command = ["release", "--counts", "home/counts", *asked]
    assert main([*command, "--out", "a"]) == 2
    assert "the records that were counted for home/counts may be in another folder" in capsys.readouterr().err
    assert not list(shards.rglob("*.ledger"))
    assert main(["release", "people.csv", *asked, "--out", "a"]) == 0
    assert main([*command, "--out", "b"]) == 2
    assert not (shards / "home" / "people.ledger").exists()
    for known in (["--ledger", "people.ledger"], ["--counts", "counts"]):  # the latter has the ledger beside it
        capsys.readouterr()
        assert main([*command, *known, "--out", "b"]) == 2
        assert "budget exceeded" in capsys.readouterr().err


def test_equal_records_of_two_files_are_two_shards_and_one_file_is_one(folder, capsys):
    for name in ("ulm", "rom"):
        (folder / f"{name}.csv").write_text("sex,age,city\nF,20,Ulm\n")
    asked = ["--dataset", "people", "--mechanism", "laplace"]
    assert main(["count", "ulm.csv", "rom.csv", *ASKED, "--out", "counts"]) == 0
    assert released("--counts", "counts", *asked, out="a") == 2
    assert "shards with equal records, from different files" in capsys.readouterr().err
    assert not (folder / "people.ledger").exists()
    asked.append("--equal-shards")
    assert released("--counts", "counts", *asked, out="a") == 0
    assert not any(b"equal records" in file.read_bytes() for file in (folder / "a").iterdir())
    (folder / "link.csv").symlink_to(folder / "ulm.csv")
    (folder / "counts" / "copy.counts").write_bytes((folder / "counts" / "ulm.csv.counts").read_bytes())
    assert released("--counts", "counts", *asked, out="b") == 2
    (folder / "counts" / "copy.counts").unlink()
    for again in ("ulm.csv", "./ulm.csv", "link.csv"):
        assert main(["count", again, *ASKED, "--out", "more"]) == 0
        (one,) = (folder / "more").iterdir()
        one.rename(folder / "counts" / "again.counts")
        assert released("--counts", "counts", *asked, out="b") == 2
        assert "counted twice" in capsys.readouterr().err
        (folder / "counts" / "again.counts").unlink()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["people.csv", "--counts", "counts"], "either a table or --counts"),
        ([], "either a table or --counts"),
        (["--counts", "counts", "--ledger", "new.ledger", "--columns", "sex,age"], "another schema, or other columns"),
        (["--counts", "counts", "--ledger", "new.ledger", "--workload", "marginals:3"], "was not counted"),
        (["--counts", "nowhere", "--ledger", "new.ledger"], "not a file of counts"),
        (["--counts", "counts"], "--counts needs --dataset"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(arguments, said, shards, capsys):
    assert main(["count", "people.csv", *ASKED, "--out", "counts"]) == 0
    command = ["release", *ASKED, *arguments, "--mechanism", "laplace", "--epsilon", "1", "--out", "a"]
    assert main(command) == 2
    assert said in capsys.readouterr().err
    assert not list(shards.glob("*.ledger"))
    assert not (shards / "a").exists()


def test_counts_of_records_are_not_released_as_those_of_persons(shards, capsys):
    """They do not tell persons apart: each record would be protected, and the schema says that each person is."""
    assert main(["count", "people.csv", *ASKED, "--out", "counts"]) == 0
    person = '\n[person]\ncolumn = "who"\nat_most = 3\n'
    (shards / "people.toml").write_text((shards / "people.toml").read_text() + person)
    assert released("--counts", "counts", "--dataset", "people", "--ledger", "people.ledger", out="a") == 2
    assert "here the unit is a person" in capsys.readouterr().err
    assert not (shards / "people.ledger").exists()
    assert not (shards / "a").exists()


def test_a_shard_is_counted_once(shards, capsys):
    assert main(["count", "one.csv", *ASKED, "--out", "counts"]) == 0
    assert main(["count", "one.csv", *ASKED, "--out", "counts"]) == 2
    assert "each shard is counted once" in capsys.readouterr().err


def test_a_mechanism_that_counts_more_than_is_asked_is_refused_before_the_charge(shards, capsys):
    """`matrix` measures a marginal of all columns, which counts alone do not have; and `auto` does not take it then."""
    several = ["--schema", "people.toml", "--workload", "ranges:age", "--workload", "marginals:1"]
    whole = ["--schema", "people.toml", "--workload", "marginals:3"]
    spent = ["--mechanism", "matrix", "--epsilon", "1", "--delta", "1e-6", "--dataset", "p", "--ledger", "p.ledger"]
    assert main(["count", "one.csv", "two.csv", *several, "--out", "counts"]) == 0
    assert main(["release", "--counts", "counts", *several, *spent, "--out", "a"]) == 2
    assert "sex * age * city was not counted" in capsys.readouterr().err
    assert not (shards / "p.ledger").exists()
    assert main(["count", "one.csv", "two.csv", *several, *whole, "--out", "more"]) == 0
    assert main(["release", "--counts", "more", *several, *spent, "--out", "a"]) == 0
