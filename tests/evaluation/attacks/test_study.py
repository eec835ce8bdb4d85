"""Rounding and hiding by hand give a secret away, a release what other people tell; all marked."""

import re
from dataclasses import replace

import numpy as np
import pytest

import qrelease as qr
from qrelease.data.bundled import adult
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.study import study
from qrelease.noise.entropy import Entropy

COLUMNS = ["age", "education", "marital-status", "sex", "income"]
TABLE = adult(COLUMNS)


@pytest.fixture(scope="module")
def release():
    cost = qr.ApproxDP(1.0, 1e-9)
    with qr.Ledger.open(None, cost, dataset="adult") as ledger:
        workload = qr.Workload.marginals(TABLE.domain, 2)
        return qr.Curator(TABLE, ledger, Entropy.insecure(0)).release(qr.MWEM(rounds=10), workload, cost)


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
