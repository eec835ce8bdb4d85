"""`qrelease attack`: rounding and hiding give a secret away, a release what other people tell; all marked."""

import json
import re
import sqlite3
import xml.etree.ElementTree as ElementTree
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.data.bundled import ADULT_CSV, adult
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.study import study
from qrelease.evaluation.results import NOTICE
from qrelease.noise.entropy import Entropy

COLUMNS = ["age", "education", "marital-status", "sex", "income"]
TABLE = adult(COLUMNS)


@pytest.fixture(scope="module")
def release():
    cost = qr.ApproxDP(1.0, 1e-9)
    with qr.Ledger.open(None, cost, dataset="adult") as ledger:
        workload = qr.Workload.marginals(TABLE.domain, 2)
        return qr.Curator(TABLE, ledger, Entropy.insecure(0)).release(qr.MWEM(rounds=10), workload, cost)


@pytest.fixture(scope="module")
def folder(release, tmp_path_factory):
    path = tmp_path_factory.mktemp("attack") / "out"
    release.save(path, rows=1000, answers=False)
    return path


def test_what_is_perturbed_by_hand_is_read_and_the_release_is_not(release):
    found = study(TABLE, release, "marital-status", people=600)
    assert found.secret == "marital-status is Married-civ-spouse"  # 46 %: nearest to half
    recovered = {(r.answers, r.attack): r.recovered for r in found.rows}
    for kind in ("exact", "rounded to 5", "rounded to 10", "hidden below 10"):
        assert recovered[kind, "least squares"] >= 0.99
    for attack in ("least squares", "linear programme", "differences"):
        assert recovered["exact", attack] == 1.0
        assert recovered[found.release, attack] <= found.population + 0.08
    assert found.population > found.base_rate + 0.1


def test_the_command_prints_and_draws_under_the_notice(folder, tmp_path, capsys):
    picture = tmp_path / "attack.svg"
    command = ["attack", str(ADULT_CSV), "--release", str(folder), "--secret", "sex", "--value", "Female"]
    assert main([*command, "--people", "80", "--picture", str(picture)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == NOTICE
    assert "sex is Female, of 80 of 48,842 people" in printed[1]
    assert printed[4].split()[0] == "exact"
    assert "was not learned about these people" in printed[-1]
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
def test_mistakes_are_one_line(folder, in_folder, capsys, options, said):
    assert main(["attack", str(ADULT_CSV), "--release", str(folder), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not list(in_folder.iterdir())


def test_no_picture_is_drawn_into_a_release(folder, capsys):
    picture = folder / "attack.svg"
    assert main(["attack", str(ADULT_CSV), "--release", str(folder), "--secret", "sex", "--picture", str(picture)]) == 2
    assert "not private" in capsys.readouterr().err
    assert not Path(picture).exists()


def test_another_table_is_refused(release):
    with pytest.raises(InvalidInput, match="over other columns"):
        study(adult(["age", "sex"]), release, "sex")


def test_everybody_may_be_attacked(release):
    """Then there is nobody else to learn from, and the text says so."""
    few = qr.Table(TABLE.domain, tuple(c[:50] for c in TABLE.columns))
    found = study(few, release, "income", people=1000)
    assert found.people == found.records == 50
    assert np.isnan(found.population)
    assert "other people's records alone" in str(found)
    assert re.search(r" -  \(all 50 people are attacked, which leaves no others: .*\)$", str(found).splitlines()[-3])
    some = study(few, release, "income", people=40)
    assert "no others" not in str(some)


def test_a_persons_other_records_are_not_other_peoples():
    """They would tell the bit of everybody who has it in every record, and that is no knowledge about others."""
    rng, persons = np.random.default_rng(0), 150
    keys = np.repeat(np.arange(persons), 2)
    ill, name = rng.integers(0, 2, persons)[keys], keys  # only a person's own other record tells
    plain = qr.Domain.coded({"name": persons, "ill": 2})
    table = qr.Table.of_persons(replace(plain, person=qr.Person("key", 2)), [name, ill], keys)
    cost = qr.PureDP(1.0)
    with qr.Ledger.open(None, cost, dataset="visits", person="key") as ledger:
        workload = qr.Workload.marginals(table.domain, 1)
        release = qr.Curator(table, ledger, Entropy.insecure(0)).release(qr.MWEM(rounds=2), workload, cost)
    found = study(table, release, "ill", people=100)
    assert found.population < 0.7  # by chance half of them; by their own other records nearly all
    assert "of 100 of 300 records" in str(found)
    assert "100 records" in found.picture()
    few = study(table, release, "ill", people=299)
    assert np.isnan(few.population)
    assert "those 299 of 300 records are attacked, which leaves no others" in str(few)


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
