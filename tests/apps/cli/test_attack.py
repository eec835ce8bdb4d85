"""`qrelease attack`: all under the notice, of data read as for the release, and a mistake is one line."""

import json
import sqlite3
import xml.etree.ElementTree as ElementTree
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from releases import released

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.data.bundled import ADULT_CSV, adult
from qrelease.evaluation.results import NOTICE
from qrelease.noise.entropy import Entropy

TABLE = adult(["sex", "income"])


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The folder of a release of Adult."""
    path = tmp_path_factory.mktemp("attack") / "out"
    pairs, cost = qr.Workload.marginals(TABLE.domain, 2), qr.ApproxDP(1.0, 1e-9)
    released(qr.MWEM(rounds=10), TABLE, pairs, cost).save(path, rows=1000, answers=False)
    return path


def test_the_command_prints_and_draws_under_the_notice(attacked, tmp_path, capsys):
    picture = tmp_path / "attack.svg"
    command = ["attack", str(ADULT_CSV), "--release", str(attacked), "--secret", "sex", "--value", "Female"]
    assert main([*command, "--people", "80", "--picture", str(picture)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == NOTICE
    assert "sex is Female, of 80 of 48,842 people" in printed[1]
    assert printed[4].split()[0] == "exact"
    assert "was not learned about these people" in printed[-1]
    assert picture.stat().st_mode & 0o777 == 0o600
    drawn = ElementTree.parse(picture).getroot()
    assert NOTICE in drawn.attrib["aria-label"]
    assert NOTICE in [element.text for element in drawn.iter()]
    assert main([*command, "--people", "40,80", "--json"]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {o["notice"] for o in objects} == {NOTICE}
    assert {o["attack"] for o in objects} == {"least squares", "linear programme", "differences"}
    assert {o["people"] for o in objects} == {40, 80}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--secret", "height"], "height"),
        (["--secret", "sex", "--value", "Cat"], "column 'sex' has no value 'Cat'; its values are"),
        (["--secret", "sex", "--people", "0"], "people"),
        (["--secret", "sex", "--people", "50,few"], "takes whole numbers, as 200,600,2000, got 'few'"),
        (["--secret", "sex", "--picture", "attack.png"], "written as .svg, got 'attack.png'"),
        (["--secret", "sex", "--picture", "nowhere/attack.svg"], "no folder nowhere"),
    ],
)
def test_mistakes_are_one_line(attacked, in_folder, capsys, options, said):
    assert main(["attack", str(ADULT_CSV), "--release", str(attacked), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not list(in_folder.iterdir())


def test_no_picture_is_drawn_into_a_release(attacked, capsys):
    picture = attacked / "attack.svg"
    assert (
        main(["attack", str(ADULT_CSV), "--release", str(attacked), "--secret", "sex", "--picture", str(picture)]) == 2
    )
    assert "not private" in capsys.readouterr().err
    assert not Path(picture).exists()


def test_the_data_are_read_as_they_were_for_the_release(tmp_path, capsys):
    """A file with semicolons, and a database; and any seed is one."""
    rows = [(i % 2, i % 3 % 2) for i in range(200)]
    (tmp_path / "people.csv").write_text("a;b\n" + "".join(f"{a};{b}\n" for a, b in rows))
    with closing(sqlite3.connect(tmp_path / "people.sqlite")) as base, base:
        base.execute("create table people(a integer, b integer)")
        base.executemany("insert into people values(?, ?)", rows)
    columns = [np.array(c) for c in zip(*rows, strict=True)]
    table, cost = qr.Table(qr.Domain.coded({"a": 2, "b": 2}), tuple(columns)), qr.PureDP(1.0)
    with qr.Ledger.open(None, cost, dataset="people") as ledger:
        workload = qr.Workload.marginals(table.domain, 2)
        qr.Curator(table, ledger, Entropy.insecure(0)).release(qr.MWEM(rounds=2), workload, cost).save(tmp_path / "out")
    how = ["--release", str(tmp_path / "out"), "--secret", "b", "--people", "20", "--seed", "-1"]
    printed = []
    for data in (["people.csv", "--separator", ";"], ["people.sqlite", "--query", "people"]):
        assert main(["attack", str(tmp_path / data[0]), *data[1:], *how]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert main(["attack", str(tmp_path / "people.csv"), *how]) == 2
    assert "--separator" in capsys.readouterr().err
