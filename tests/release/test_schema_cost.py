"""What learning a schema cost is in the promise of a release over it, and in what the release says of itself."""

import json

import numpy as np
import pytest
from towns import OPEN, frame

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.verify import verify
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.conversions import zcdp_epsilon
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.resuming import public_part
from qrelease.queries.workload import Workload
from qrelease.release.card import card
from qrelease.release.checksums import read_hashes
from qrelease.release.curator import Curator
from qrelease.release.reader import load as read_release
from qrelease.release.report.page import html
from qrelease.release.schema_cost import added

OWN = PureDP(0.25)


def released_after(ledger, tmp_path, entropy=None, **given):
    """A release over bins that were learned first, read again from its folder; and what was learned."""
    open_ = Domain(tuple(a for a in OPEN if a.kind == "number"))
    table = Table.from_frame(frame(), open_)
    first = Curator(table, ledger, entropy).learn(OWN)
    viewed = Curator(table.viewed(first.domain), ledger, entropy)
    made = Laplace(), Workload.marginals(first.domain, 1), PureDP(0.75)
    paid = viewed.pay(*made, changed_rows=True, **dict.fromkeys(given, first))
    release = paid.release()
    release.save(tmp_path / "out")
    paid.finish(release, read_hashes(tmp_path / "out"))
    return read_release(tmp_path / "out"), first


def says_both(release):
    """Whether promise, page and card are of 0.25 and 0.75 together: a factor of e."""
    assert release.cost == PureDP(0.75)
    assert [part.to_json() for part in release.learned] == [
        {"columns": ["hours"], "cost": {"epsilon": 0.25}, "entry": 2}
    ]
    assert "within a factor of 2.72," in release.promise
    assert "at most 73.2 %" in release.promise
    assert "categories of hours were learned from the same records, for epsilon=0.25, and that is" in release.promise
    page = html(release)
    assert "e<sup>ε</sup> = 2.72" in page
    assert "hours for epsilon=0.25 (entry 2 of the ledger)" in page
    assert "It must not have been taken from the records" not in page
    made = card(release)
    assert made["privacy guarantee"]["privacy parameters"] == {"epsilon": 1.0}
    assert made["accounting"]["its schema, learned before"] == ["hours for epsilon=0.25 (entry 2 of the ledger)"]
    assert "but for the bins and categories of hours, which were learned" in made["data"]["universe"]


def test_a_release_promises_what_it_and_its_schema_cost(tmp_path):
    with Ledger.open(tmp_path / "towns.ledger", PureDP(1.0), dataset="towns") as ledger:
        release, _ = released_after(ledger, tmp_path)
        says_both(release)
        held = public_part(ledger)
    assert verify(tmp_path / "out", ledger=held).holds
    held["entries"][1]["cost"] = {"epsilon": 0.125}
    found = {check.name: check for check in verify(tmp_path / "out", ledger=held).checks}
    assert found["ledger"].holds is False
    assert "its schema was learned for epsilon=0.25, and entry 2" in found["ledger"].found


def test_a_schema_that_was_handed_on_is_known_without_the_ledgers_draws(tmp_path):
    with Ledger.open(None, PureDP(1.0), dataset="towns") as ledger:
        release, first = released_after(ledger, tmp_path, Entropy.insecure(1), learned=True)
        says_both(release)
        viewed = Table.from_frame(frame(), Domain((OPEN["hours"],))).viewed(first.domain)
        made = Laplace(), Workload.marginals(first.domain, 1), PureDP(0.75)
        with Ledger.open(None, PureDP(1.0)) as other, pytest.raises(InvalidInput, match="charged to another ledger"):
            Curator(viewed, other).pay(*made, learned=first, changed_rows=True)


def test_a_schema_that_another_ledger_was_charged_for_on_the_same_terms_is_refused(tmp_path):
    """Both know the key of the charge: it is of the schema, the cost and the records, which are the same."""
    table = Table.from_frame(frame(), Domain((OPEN["hours"],)))
    with (
        Ledger.open(tmp_path / "one.ledger", PureDP(1.0), dataset="towns") as one,
        Ledger.open(tmp_path / "two.ledger", PureDP(1.0), dataset="towns") as two,
    ):
        first, second = (Curator(table, ledger).learn(OWN) for ledger in (one, two))
        assert two.knows(first.charge.key)
        assert (two.holds(first.charge), two.holds(second.charge)) == (False, True)
        made = Laplace(), Workload.marginals(first.domain, 1), PureDP(0.5)
        with pytest.raises(InvalidInput, match="charged to another ledger"):
            Curator(table.viewed(first.domain), two).pay(*made, learned=first, changed_rows=True)
        assert two.spent == OWN
        Curator(table.viewed(first.domain), one).pay(*made, learned=first, changed_rows=True)


def test_who_was_not_told_claims_no_more_than_is_known(tmp_path):
    with Ledger.open(None, PureDP(1.0), dataset="towns") as ledger:
        release, _ = released_after(ledger, tmp_path, Entropy.insecure(1))
    assert release.learned == ()
    assert "within a factor of 2.12," in release.promise
    assert "where bins or categories were learned from the same records, that was a charge" in release.promise
    assert "unless it was learned for a charge of the same ledger, which comes on top" in html(release)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (PureDP(0.25), PureDP(0.75), PureDP(1.0)),
        (PureDP(0.1), PureDP(0.2), PureDP(np.nextafter(0.3, 1))),  # upwards
        (PureDP(0.25), ApproxDP(0.5, 1e-6), ApproxDP(0.75, 1e-6)),
        (ZCDP(0.5), PureDP(1.0), ZCDP(1.0)),
        (ZCDP(0.5), ApproxDP(1.0, 0.25), ApproxDP(zcdp_epsilon(0.5, 1e-9) + 1, 0.25 + 1e-9)),
        (ApproxDP(1.0, 0.75), ApproxDP(1.0, 0.75), ApproxDP(2.0, np.nextafter(1, 0))),  # nothing, said without an error
    ],
)
def test_costs_of_any_kinds_add_up(one, other, both):
    for found in (added(one, other), added(other, one)):
        assert type(found) is type(both)
        assert found.to_json() == pytest.approx(both.to_json(), rel=1e-12)
        assert all(found.to_json()[name] >= least for name, least in both.to_json().items() if name != "epsilon")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"columns": "hours"}, "learned: columns must be a list of names, got 'hours'"),
        ({"columns": []}, "learned: columns must be a list of names"),
        ({"entry": 0}, "learned: entry must be from 1"),
        ({"cost": {"epsilon": -1}}, "learned: epsilon"),
    ],
)
def test_what_says_nothing_of_a_charge_is_refused(tmp_path, entry, why):
    with Ledger.open(None, PureDP(1.0), dataset="towns") as ledger:
        released_after(ledger, tmp_path, Entropy.insecure(1), learned=True)
    content = json.loads((tmp_path / "out" / "release.json").read_text())
    content["learned"][0] |= entry
    (tmp_path / "other.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=why):
        read_release(tmp_path / "other.json")
