"""A learned schema as a file: it is read back whole, and says what each part cost."""

import numpy as np
import pytest
from towns import OPEN, frame

from qrelease.data.schema import load
from qrelease.data.table import Table
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

COST = ApproxDP(2.0, 1e-6)


@pytest.fixture(scope="module")
def learned():
    with Ledger.open(None, COST, dataset="towns") as ledger:
        return Curator(Table.from_frame(frame(), OPEN), ledger, Entropy.insecure(1)).learn(COST)


def test_the_file_is_the_domain_and_names_the_charge(learned, tmp_path):
    text = learned.to_toml()
    (tmp_path / "schema.toml").write_text(text)
    assert load(tmp_path / "schema.toml") == learned.domain  # with nothing left to be learned
    head = text.splitlines()[0]
    assert head.startswith("#")
    assert f"Learned from records, for {COST}" in text
    assert f"charge {learned.charge.id} of the ledger, {learned.charge.time}" in text


def test_each_column_says_what_learning_it_cost_and_no_other_does(learned):
    parts = {}
    for part in learned.to_toml().split("[[attribute]]")[1:]:
        name = next(line for line in part.splitlines() if line.startswith("name = ")).partition('"')[2].strip('"')
        parts[name] = "learned, for" in part
    assert parts == {"hours": True, "town": True, "sex": False}
    costs = {spend.what.rpartition(" of ")[2]: spend.cost.to_json() for spend in learned.spends}
    assert costs["hours"] == {"epsilon": pytest.approx(0.4)}
    assert costs["town"] == {"epsilon": pytest.approx(1.6), "delta": 1e-6}
    for spend in learned.spends:
        assert f"learned, for {spend.cost} of that charge" in learned.to_toml()


def test_it_views_the_table_that_it_was_learned_from(learned):
    table = Table.from_frame(frame(), OPEN)
    viewed = table.viewed(learned.domain)
    assert len(viewed) == len(table)
    assert int(np.sum(viewed.histogram())) == len(table)


def test_columns_of_which_no_text_is_named_are_told(learned):
    assert learned.unnamed == ()
    few = Table.from_frame(frame(30), OPEN)
    with Ledger.open(None, COST, dataset="towns") as ledger:
        found = Curator(few, ledger, Entropy.insecure(1)).learn(ApproxDP(0.1, 1e-9))
    assert found.domain["town"].categories == ("other",)
    assert found.unnamed == ("town",)
