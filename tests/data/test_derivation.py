"""Columns derived of a person's records: as a few lines of pandas make them, and one record a person in any case."""

import json

import pytest
from derived_columns import RECORDS, RULES, write_visits

from qrelease.apps.cli import main
from qrelease.data import schema
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Derived
from qrelease.data.structural_zeros import narrowed
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load


@pytest.fixture
def folder(in_folder):
    return in_folder, write_visits(in_folder)


def test_a_schema_of_derived_columns_comes_back(folder, tmp_path):
    path, _ = folder
    domain = schema.load(path / "schema.toml")
    assert schema.domain_from_json(json.loads(json.dumps(schema.domain_to_json(domain)))) == domain
    (tmp_path / "again.toml").write_text(schema.to_toml(domain))
    assert schema.load(tmp_path / "again.toml") == domain
    some = narrowed(domain, ["worst", "visits"])
    assert schema.domain_from_json(schema.domain_to_json(some)).person.derive == some.person.derive
    assert Table.read(path / "visits.csv", path / "schema.toml", ["worst", "visits"]).domain == some
    other = (RECORDS + RULES).replace("codes = 5", "codes = 6")
    (tmp_path / "other.toml").write_text(other)
    assert schema.column_digests(schema.load(tmp_path / "other.toml")) != schema.column_digests(domain)


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_a_person_is_one_record_and_is_charged_as_one(folder, tmp_path, neighbours):
    path, frame = folder
    table = Table.read(path / "visits.csv", path / "schema.toml", ["visits", "severe"])
    workload, cost = Workload.marginals(table.domain, 2), PureDP(2.0)
    with Ledger.open(None, cost, neighbours=neighbours, person="who") as ledger:
        release = Curator(table, ledger, Entropy.insecure(1)).release(MaxEnt(), workload, cost)
    assert sum(spend.cost.epsilon for spend in release.spends) == pytest.approx(2.0)
    people = frame["who"].nunique()
    assert abs(release.synopsis.total - people) < (30 if neighbours is Neighbours.ADD_REMOVE else 1e-6)
    release.save(tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.domain == table.domain
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Take any one person" in page
    assert "Each person is one record here" in page
    assert "of a person with one record" in repr(again)
    with pytest.raises(Exception, match="counts what one record is charged"), Ledger.open(None, cost) as ledger:
        Curator(table, ledger).release(Laplace(), workload, cost)


def test_the_command_line_derives(folder, capsys):
    command = ["release", "visits.csv", "--schema", "schema.toml", "--columns", "visits,severe", "--epsilon", "2"]
    assert main([*command, "--workload", "marginals:2", "--mechanism", "laplace", "--out", "out"]) == 0
    assert "of a person with one record" in capsys.readouterr().out
    assert (folder[0] / "out" / "synthetic.csv").read_text().startswith("visits,severe\n")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ('x = { take = "median", of = "year" }', "take must be one of count, any, sum"),
        ("x = 3", "take must be one of"),
        ('x = { take = "count" }', "count needs bins"),
        ('x = { take = "any", of = "year" }', "any has no key 'of'"),
        ('x = { take = "max", of = "age" }', "no attribute 'age'"),
        ('x = { take = "max", of = "ward" }', "max needs an order, and 'ward' has none"),
        ('x = { take = "first", of = "year", by = "ward" }', "first needs an order, and 'ward' has none"),
        ('x = { take = "sum", of = "ward", bins = [0, 1, 2] }', "a sum needs whole numbers"),
        ('x = { take = "any", where = "age > 3" }', "derived 'x': "),
        ('x = { take = "any", where = 3 }', "must be texts"),
        ('x = { take = "count", bins = [0] }', "bins must be"),
        ('x = { take = "any", missing = false }', "any has no key 'missing'"),
        ('x = { take = "max", of = "year", missing = "no" }', "missing must be true or false"),
        ('x = { take = "max", of = "severity", missing = false }', "a person may have no such value"),
        ('x = { take = "max", of = "year", where = "year >= 1", missing = false }', "a person may have no such value"),
        ('x = { take = "first", of = "ward", by = "severity", missing = false }', "a person may have no such value"),
        ('who = { take = "any" }', "the person column 'who' is also an attribute"),
    ],
)
def test_a_wrong_rule_is_one_line(tmp_path, rules, told):
    path = tmp_path / "schema.toml"
    path.write_text(f'{RECORDS}\n[person]\ncolumn = "who"\n[person.derive]\n{rules}\n')
    with pytest.raises(InvalidInput, match=told) as error:
        domain = schema.load(path)
        narrowed(domain, domain.names)  # as whatever reads data, or plans
    assert "\n" not in str(error.value)


def test_more_than_one_record_a_person_and_rules_about_records_do_not_go_with_it(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(RECORDS + RULES.replace('column = "who"', 'column = "who"\nat_most = 3'))
    with pytest.raises(InvalidInput, match="so at_most is 1, got 3"):
        schema.load(path)
    path.write_text(RECORDS + RULES + "[[impossible]]\nwhere = \"year = 0 and ward = 'west'\"\n")
    with pytest.raises(InvalidInput, match="derive cannot be used with"):
        schema.load(path)
    path.write_text(f'{RECORDS}[person]\ncolumn = "who"\nderive = 3\n')
    with pytest.raises(InvalidInput, match="derive must be a table"):
        schema.load(path)


def test_there_is_no_missing_cell_where_everybody_has_a_value(folder):
    path, frame = folder
    domain = schema.load(path / "schema.toml")
    cells = {a.name: a.size - a.values for a in domain}
    # Those that take what may be missing, or leave records out, have the cell; a ward is never missing, nor a year.
    assert cells == dict.fromkeys(domain.names, 0) | dict.fromkeys(["worst", "mildest", "south", "last"], 1)
    frame = frame.astype({"who": str})
    frame.loc[frame["who"].isin(["1000", "1001"]), "who"] = ""  # of nobody, who is no record of the result
    marked = (path / "schema.toml").read_text().replace('column = "who"', 'column = "who"\nmissing = [""]')
    table = Table.from_frame(frame, marked)
    people = frame["who"][frame["who"] != ""].nunique()
    for name in ("ward", "first"):
        counts = table.counts([(table.domain.axis(name),)])[0]
        assert len(counts) == 3
        assert counts.sum() == people


def test_the_missing_cell_of_earlier_versions_is_kept_where_it_is_asked_for(folder, tmp_path):
    path, _ = folder
    text = (path / "schema.toml").read_text()
    domain = schema.load(path / "schema.toml")
    asked = text.replace('take = "most frequent", of = "ward"', 'take = "most frequent", of = "ward", missing = true')
    assert schema.load(asked)["ward"].missing == ("",)
    # A manifest of an earlier version says nothing of it: its rules have no such key.
    content = schema.domain_to_json(domain)
    told = {name for name, rule in content["person"]["derive"].items() if rule.pop("missing", True) is False}
    assert told == {"ward", "first"}
    old = schema.domain_from_json(json.loads(json.dumps(content)))
    assert (old["ward"].missing, old["first"].missing, old["worst"].missing) == (("",), ("",), ("", "?"))
    assert schema.domain_to_json(old) == content, "its digest, and so the id of its release, is what it was"
    assert schema.load(schema.to_toml(old)) == old
    assert schema.load(schema.to_toml(domain)) == domain
    table, cost = Table.read(path / "visits.csv", old, ["ward", "visits"]), PureDP(2.0)
    with Ledger.open(None, cost, person="who") as ledger:
        workload = Workload.marginals(table.domain, 2)
        Curator(table, ledger, Entropy.insecure(1)).release(MaxEnt(), workload, cost).save(tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.domain == table.domain
    assert again.domain["ward"].size == 4
    assert len(again.answers()) == len(workload)


def test_a_rule_tells_itself():
    rule = Derived("x", "count", where="a = 1", edges=(0.0, 1.0, 2.5))
    assert rule.to_json() == {"take": "count", "where": "a = 1", "bins": [0, 1, 2.5]}
    assert Domain((Attribute("a", "coded", codes=2),)).at_most is None
