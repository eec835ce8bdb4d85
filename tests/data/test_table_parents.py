"""A table joined with that of its parents, from every source: each record gets the row of its own person."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from qrelease.apps.cli import main
from qrelease.data import schema
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.persons import Persons
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

SCHEMA = """
[[attribute]]
name = "late"
kind = "category"
categories = ["no", "yes"]
[[attribute]]
name = "seats"
kind = "number"
bins = [0, 100, 200, 400]
integer = true
missing = [""]
[[attribute]]
name = "month"
kind = "coded"
codes = 12
[person]
column = "tailnum"
at_most = 4
"""


@pytest.fixture
def folder(in_folder):
    rng = np.random.default_rng(1)
    n = 400
    flights = pd.DataFrame(
        {
            "month": rng.integers(12, size=n),
            "tailnum": [f"N{i}" for i in rng.integers(60, size=n)],
            "late": np.array(["no", "yes"])[rng.integers(2, size=n)],
        }
    )
    planes = pd.DataFrame({"tailnum": [f"N{i}" for i in range(10, 80)], "seats": rng.integers(400, size=70)})
    flights.to_csv("flights.csv", index=False)
    planes.to_csv("planes.csv", index=False)
    flights.to_parquet("flights.parquet")
    planes.sample(frac=1, random_state=0).to_parquet("planes.parquet")
    (in_folder / "schema.toml").write_text(SCHEMA)
    return flights, planes


def cells(table):
    return table.counts([tuple(range(len(table.domain)))])[0].tolist()


def test_a_record_that_a_rule_of_its_own_columns_makes_impossible_is_refused(folder):
    flights, _ = folder
    for rule, said in (("late = yes and month = 3", "flights.csv line "), ("seats in 100..199", "planes.csv line ")):
        Path("ruled.toml").write_text(SCHEMA + f'[[impossible]]\nwhere = "{rule}"\n')
        with pytest.raises(InvalidInput, match=f"^{said}.*impossible by the schema"):
            Table.read("flights.csv", "ruled.toml", parent="planes.csv")
    kept = flights[(flights.late == "no") | (flights.month != 3)]
    kept.to_csv("kept.csv", index=False)
    Path("ruled.toml").write_text(SCHEMA + '[[impossible]]\nwhere = "late = yes and month = 3"\n')
    found = Table.read("kept.csv", "ruled.toml", parent="planes.csv")
    assert len(found) == len(kept) < len(flights)
    assert found.domain.impossible == ("late = yes and month = 3",)


def test_every_source_joins_the_same_and_as_pandas_does(folder):
    flights, planes = folder
    domain = schema.load("schema.toml")
    found = Table.read("flights.csv", domain, parent="planes.csv")
    assert found.domain == domain
    merged = flights.merge(planes, on="tailnum", how="left")
    merged["seats"] = [None if np.isnan(seats) else int(seats) for seats in merged["seats"]]
    wanted = Table.from_frame(merged, domain)
    assert wanted.domain["seats"].missing
    for table in (found, Table.read("flights.parquet", domain, parent="planes.parquet")):
        assert cells(table) == cells(wanted)
        assert cells(table.bounded(b"key")) == cells(wanted.bounded(b"key"))
    some = Table.read("flights.csv", "schema.toml", ["seats", "month"], parent="planes.csv")
    assert some.domain.names == ("seats", "month")


def write_derived():
    """A schema of one record for each person, with the columns of the parents."""
    rules = ['flights = { take = "count", bins = [0, 5, 10, 99] }', 'large = { take = "max", of = "seats" }']
    derive = "\n".join(["", "[person.derive]", *rules, ""])
    with open("derived.toml", "w") as out:
        out.write(SCHEMA.replace("at_most = 4", "") + derive)


def test_columns_may_be_derived_of_joined_records(folder):
    write_derived()
    table = Table.read("flights.csv", "derived.toml", parent="planes.csv")
    flights, planes = folder
    assert len(table) == flights["tailnum"].nunique()
    without = ~flights.drop_duplicates("tailnum")["tailnum"].isin(planes["tailnum"])
    assert (table.columns[1] == table.domain["large"].values).sum() == without.sum()


@pytest.mark.usefixtures("folder")
def test_parents_with_derived_columns_are_not_replaced(capsys):
    """The number of records is that of the parents with children, which replacing one of those without changes."""
    write_derived()
    table = Table.read("flights.csv", "derived.toml", parent="planes.csv")
    with Ledger.open(None, PureDP(1.0), person="tailnum") as ledger:
        Curator(table, ledger)
    with (
        Ledger.open(None, PureDP(1.0), neighbours="replace-one", person="tailnum") as ledger,
        pytest.raises(InvalidInput, match="how many parents have children is private"),
    ):
        Curator(table, ledger)
    command = ["--schema", "derived.toml", "--parent", "planes.csv", "--epsilon", "1", "--neighbours", "replace-one"]
    assert main(["release", "flights.csv", *command, "--mechanism", "laplace"]) == 2
    assert "take add-remove\n" in capsys.readouterr().err
    assert main(["estimate", "flights.csv", "independence-test:flights,second=large", *command]) == 2
    assert "take add-remove\n" in capsys.readouterr().err
    assert not list(Path().glob("*.ledger"))


def test_the_command_line_takes_a_parent(folder, capsys):
    command = ["--schema", "schema.toml", "--parent", "planes.csv", "--epsilon", "1", "--workload", "marginals:2"]
    total = ["--total-epsilon", "2"]  # which leaves enough for what is refused for its columns
    assert main(["release", "flights.csv", *command, *total, "--mechanism", "laplace", "--out", "out"]) == 0
    assert "of a person with at most 4 records" in capsys.readouterr().out
    assert main(["release", "flights.csv", "--schema", "schema.toml", "--epsilon", "1", "--out", "other"]) == 2
    assert "flights.csv has no column 'seats'" in capsys.readouterr().err


def test_what_cannot_be_joined_is_one_line(folder, tmp_path):
    _, planes = folder
    with pytest.raises(InvalidInput, match="one row for each 'tailnum', and this one has two"):
        pd.concat([planes, planes[:1]]).to_csv("twice.csv", index=False)
        Table.read("flights.csv", "schema.toml", parent="twice.csv")
    (tmp_path / "strict.toml").write_text(SCHEMA.replace('missing = [""]', ""))
    with pytest.raises(InvalidInput, match="column 'seats' knows no missing value"):
        Table.read("flights.csv", "strict.toml", parent="planes.csv")
    (tmp_path / "plain.toml").write_text(SCHEMA.partition("[person]")[0])
    with pytest.raises(InvalidInput, match=r"a parent table needs a \[person\] in the schema"):
        Table.read("flights.csv", "plain.toml", parent="planes.csv")
    with pytest.raises(InvalidInput, match="has all of the columns"):
        Table.read("flights.csv", "schema.toml", ["late"], parent="planes.csv")
    with pytest.raises(InvalidInput, match=r"planes.csv has no column 'speed'"):
        (tmp_path / "more.toml").write_text(SCHEMA.replace('"seats"', '"speed"'))
        Table.read("flights.csv", "more.toml", parent="planes.csv")
    a = Domain((Attribute("a", "coded", codes=2),), person=Person("x", 1))
    b = Domain((Attribute("b", "coded", codes=2),), person=Person("y", 1))
    one, two = (Table.of_persons(domain, [np.zeros(1, int)], ["k"]) for domain in (a, b))
    with pytest.raises(InvalidInput, match="the same person column"):
        one.joined(two)


A = Domain((Attribute("a", "coded", codes=2),), person=Person("x", 1))
B = Domain((Attribute("b", "coded", codes=2, missing=("",)),), person=Person("x", 1))


@pytest.mark.parametrize(
    ("keys", "theirs", "same"),
    [
        ("9007199254740992", "9007199254740993.0", False),
        ("9007199254740993", "9007199254740993.0", True),
        ("0.1", "0.10000000000000001", False),
        ("0.1", 0.1, True),
        ("7", 7.0, True),
        ("007", "7e0", True),
        ("2024-01-31T01:00:00.1234567", "2024-01-31T01:00:00.1234568", False),
        ("2024-01-31T01:00:00.1234560", "2024-01-31 01:00:00.123456", True),
        ("1e999999999", "2e999999999", False),
        ("1" * 5000, "1" * 4999 + "2", False),
        ("1" * 5000, "1" * 5000 + ".0", True),
    ],
)
def test_keys_of_two_tables_are_compared_exactly(keys, theirs, same):
    """As floats, some of these are one: the row of one person would be joined to the records of another."""
    mine = Table.of_persons(A, [np.zeros(1, int)], [keys])
    parents = Table.of_persons(B, [np.ones(1, int)], [theirs])
    assert mine.joined(parents).columns[1].tolist() == [1 if same else 2]


@pytest.mark.parametrize(("keys", "theirs"), [([], []), ([], ["1"]), (["1"], [])])
def test_tables_of_nobody_are_joined(keys, theirs):
    mine = Table.of_persons(A, [np.zeros(len(keys), int)], keys)
    parents = Table.of_persons(B, [np.ones(len(theirs), int)], theirs)
    assert mine.joined(parents).columns[1].tolist() == [2] * len(keys)


def test_a_collision_of_half_a_digest_joins_nobody():
    """Who chooses keys finds two whose first 64 bits agree, and these are other persons all the same."""
    mine, parents = (Table.of_persons(d, [np.ones(1, int)], [key]) for d, key in ((A, "one"), (B, "other")))
    for half in (0, 1):
        digests = mine.persons.digests.copy()
        digests[:, half] = parents.persons.digests[:, half]
        chosen = Table(A, mine.columns, Persons(mine.persons.codes, digests))
        assert chosen.joined(parents).columns[1].tolist() == [2]
        assert chosen.fingerprint(b"key") != mine.fingerprint(b"key")
