"""What a deployment card says is what the manifest says, and what only the holder knows is marked."""

import json

import numpy as np
import pytest

import qrelease as qr
from qrelease.mechanisms.auto import Auto
from qrelease.release.card import HOLDERS, TO_FILL_IN, card, markdown

ADULT = qr.data.adult(["sex", "income"])

PAIR = qr.Workload.marginals(ADULT.domain, 2)


def released(cost=None, neighbours="add-remove", entropy=None, mechanism=None):
    cost = cost or qr.PureDP(1.0)
    with qr.Ledger.open(None, cost, dataset="adult", neighbours=neighbours) as ledger:
        return qr.Curator(ADULT, ledger, entropy).release(mechanism or qr.MWEM(rounds=1), PAIR, cost)


def test_a_card_says_what_the_manifest_says():
    release = released()
    found = card(release)
    guarantee = found["privacy guarantee"]
    assert found["release"] | {"id": release.id, "date": release.date, "dataset": "adult"} == found["release"]
    assert guarantee["privacy parameters"] == {"epsilon": 1.0}
    assert guarantee["neighbouring relation"].startswith("add-remove: unbounded")
    assert guarantee["holds"] is True
    assert found["data"]["columns"].keys() == {"sex", "income"}
    assert found["mechanism"]["name"] == "mwem"
    assert found["accounting"]["all parts"] == len(release.spends)
    assert found["implementation"]["random source"].startswith("AES-256")
    assert not any("number of records" in line for line in found["unprotected quantities"])
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("missing", [(), ("",)])
def test_a_hierarchy_is_one_rule(missing):
    towns, letters = [f"town{i}" for i in range(6)], "ABC"
    others = {p: ", ".join(repr(t) for i, t in enumerate(towns) if letters[i % 3] != p) for p in letters}
    rules = [f'"province" = \'{p}\' and "town" in {{{others[p]}}}' for p in letters]
    attributes = [
        qr.Attribute("province", "category", categories=tuple(letters), missing=missing),
        qr.Attribute("town", "category", categories=tuple(towns), missing=missing),
        qr.Attribute("sex", "category", categories=("f", "m")),
    ]
    domain = qr.Domain(attributes, impossible=[*rules, "province = 'A' and sex = 'm'"])
    table = qr.Table(domain, [np.zeros(9, np.uint8)] * 3)
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        made = qr.Curator(table, ledger).release(qr.Laplace(), qr.Workload.marginals(domain, 2), qr.PureDP(1.0))
    (line,) = [line for line in card(made)["unprotected quantities"] if line.startswith("public rules")]
    assert line.endswith(": town belongs to province (code list, 6 codes); province = 'A' and sex = 'm'")


def test_a_rule_about_missing_values_is_told_beside_its_hierarchy():
    attributes = [
        qr.Attribute("province", "category", categories=("A", "B"), missing=("",)),
        qr.Attribute("town", "category", categories=("a", "b", "c"), missing=("",)),
    ]
    rules = ["province = 'A' and town = 'b'", "province = 'B' and town in {'a', 'c'}", "province = '' and town = 'a'"]
    domain = qr.Domain(attributes, impossible=rules)
    table = qr.Table(domain, [np.zeros(9, np.uint8)] * 2)
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        made = qr.Curator(table, ledger).release(qr.Laplace(), qr.Workload.marginals(domain, 2), qr.PureDP(1.0))
    (line,) = [line for line in card(made)["unprotected quantities"] if line.startswith("public rules")]
    assert line.endswith("; ".join(rules))


def test_the_holder_of_persons_is_asked_what_a_person_is():
    domain = qr.Domain(ADULT.domain.attributes, person=qr.Person("household", at_most=3))
    table = qr.Table.of_persons(domain, [np.zeros(9, np.uint8)] * 2, np.arange(9) // 3)
    with qr.Ledger.open(None, qr.PureDP(1.0), person="household") as ledger:
        made = qr.Curator(table, ledger).release(qr.Laplace(), qr.Workload.marginals(domain, 2), qr.PureDP(1.0))
    asked = card(made)["from the holder of the data"]["records_per_person"]
    assert asked.startswith(TO_FILL_IN)
    assert "'household'" in asked
    assert "at most 3" in asked
    assert "the guarantee is for one record" in card(released())["from the holder of the data"]["records_per_person"]
    assert card(made, {"records_per_person": "ten"})["from the holder of the data"]["records_per_person"] == "ten"


@pytest.mark.parametrize(
    ("cost", "kind"),
    [(qr.PureDP(1.0), "pure"), (qr.ApproxDP(1.0, 1e-6), "approximate"), (qr.ZCDP(0.1), "zero-concentrated")],
)
def test_each_kind_of_guarantee_has_its_name(cost, kind):
    found = card(released(cost, "replace-one", mechanism=qr.MaxEnt()))
    assert found["privacy guarantee"]["variant"].startswith(kind)
    assert found["privacy guarantee"]["neighbouring relation"].startswith("replace-one: bounded")
    assert any("number of records" in line for line in found["unprotected quantities"])


def test_a_card_has_no_raw_lines_of_the_manifest():
    cost = qr.PureDP(1.0)
    with qr.Ledger.open(None, cost) as ledger:
        made = qr.Curator(ADULT, ledger, qr.Entropy.insecure(2)).release(Auto(table=False), PAIR, cost)
    assert {"table", "to_choose"} <= made.parameters.keys()  # as the manifest has them
    found = card(made)["mechanism"]["parameters"]
    assert "to choose the mechanism" in found
    text = markdown(card(made))
    assert "- **holds**: no" in text
    assert "only mechanisms that give a synthetic table were taken into account: no" in text
    assert not any(raw in text for raw in ("to\\_choose", "False", "True", "None", "{"))
    assert all(len(line.rpartition("epsilon=")[2]) < 10 for line in card(made)["accounting"]["parts"])


def test_the_parts_of_what_protects_a_person_come_to_what_is_promised():
    domain = qr.Domain(ADULT.domain.attributes, person=qr.Person("household", at_most=4))
    table, cost = qr.Table.of_persons(domain, [np.zeros(9, np.uint8)] * 2, np.arange(9)), qr.PureDP(1.0)
    with qr.Ledger.open(None, cost, person="household") as ledger:
        made = qr.Curator(table, ledger).release(qr.Laplace(), qr.Workload.marginals(domain, 1), cost)
    assert card(made)["accounting"]["parts"] == ["1 × measure: epsilon=1"]


def test_each_noise_is_said_of_what_it_is_on():
    (counts,) = card(released(mechanism=qr.Laplace()))["mechanism"]["noise"]
    assert counts == "discrete Laplace, scale 1, on 1 group of counts"
    columns, cost = qr.data.adult(["race", "sex", "income"]), qr.ZCDP(0.1)
    with qr.Ledger.open(None, cost) as ledger:
        made = qr.Curator(columns, ledger).release(qr.MaxEnt(), qr.Workload.marginals(columns.domain, 2), cost)
    assert any("residuals: sums of counts" in line for line in card(made)["mechanism"]["noise"])


def test_an_insecure_release_does_not_hold_on_its_card():
    guarantee = card(released(entropy=qr.Entropy.insecure(1)))["privacy guarantee"]
    assert guarantee["holds"] is False
    assert "INSECURE" in guarantee["warning"]


def test_what_only_the_holder_knows_is_marked_until_it_is_given():
    release = released()
    assert markdown(card(release)).count(TO_FILL_IN) == len(HOLDERS)
    filled = card(release, dict.fromkeys(HOLDERS, "as *we* say"))
    assert TO_FILL_IN not in markdown(filled)
    assert "as \\*we\\* say" in markdown(filled)
    for wrong in ({"nonsense": "x"}, {"name": 3}, {"name": " "}):
        with pytest.raises(qr.InvalidInput):
            card(release, wrong)
