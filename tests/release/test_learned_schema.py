"""A learned schema as a file, which says what each part cost; and as the first part of a release."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version

import numpy as np
import pytest
from towns import OPEN, frame

from qrelease.data.attribute import OTHER
from qrelease.data.domain import Domain, Review
from qrelease.data.person import Person
from qrelease.data.schema import load
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.evaluation.verify import verify
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.resuming import Draws, learned_schemas, public_part
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load as read_release
from qrelease.release.schema_cost import cost_with_schema

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


def test_the_file_says_who_reviewed_the_schema_that_left_it_open(learned):
    review = Review("Kim", "2026-01-31")
    text = replace(learned, domain=replace(learned.domain, review=review)).to_toml()
    assert load(text).review == review


def test_it_is_shown_in_a_line_and_not_with_every_category(learned):
    assert repr(learned) == f"Learned(hours, town of {learned.domain}; for {COST})"


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


# --- a schema and a release in one account


MADE = MaxEnt()


def begun(ledger, table=None, mechanism=MADE, entropy=None, **given):
    """A schema that was learned for a release, and a curator of the table over it."""
    table = Table.from_frame(frame(), OPEN) if table is None else table
    found = Curator(table, ledger, entropy).learn_for(mechanism, COST, **given)
    return found, Curator(table.viewed(found.domain), ledger, entropy)


def charges(ledger):
    return [entry for entry in ledger.history() if entry.kind == "charge"]


def test_one_charge_pays_for_a_schema_and_one_release(tmp_path):
    with Ledger.open(tmp_path / "towns.ledger", ApproxDP(4.0, 1e-5), dataset="towns") as ledger:
        found, viewed = begun(ledger)
        workload = Workload.marginals(found.domain, 2)
        paid = viewed.pay(MADE, workload, found.left.cost, learned=found)
        release = paid.release()
        assert (ledger.spent, release.cost) == (COST, COST)
        (entry,) = charges(ledger)
        assert entry.label == "maxent: a release, after hours, town were learned"
        costs = [spend.cost.rho for spend in release.spends]
        assert [spend.what for spend in release.spends[:2]] == [spend.what for spend in found.spends]
        assert sum(costs) == pytest.approx(zcdp_of(ApproxDP(COST.epsilon, COST.delta / 2)).rho)
        release.save(tmp_path / "out")
        paid.finish(release)
        with pytest.raises(BudgetExceeded):
            viewed.pay(MADE, workload, found.left.cost, learned=found)
        assert (release.learned, cost_with_schema(release)) == ((), COST)
        assert "of hours, town were learned from the same records, and that is counted here: one" in release.promise
        with pytest.warns(UserWarning, match="charged once more"):
            again, _ = begun(ledger)  # what was finished is not gone on with
        assert again.charge.fresh
        assert len(charges(ledger)) == 2
    assert verify(tmp_path / "out").holds


def test_what_is_left_pays_for_no_records_of_another_ledger(tmp_path):
    """Nor of the same one under another relation: it would be charged nothing."""
    places = tmp_path / "one.ledger", tmp_path / "two.ledger"
    with Ledger.open(places[0], COST) as one, Ledger.open(places[1], ApproxDP(0.01, 1e-12)) as two:
        found, viewed = begun(one)
        workload = Workload.marginals(found.domain, 2)
        other = Curator(Table.from_frame(frame(50), OPEN).viewed(found.domain), two)
        with pytest.raises(InvalidInput, match="the schema was charged to another ledger"):
            other.pay(MADE, workload, found.left.cost, learned=found)
        assert two.spent is None
        assert viewed.pay(MADE, workload, found.left.cost, learned=found).release().cost == COST


@pytest.mark.parametrize(("delta", "holds"), [("5e-07", True), ("7e-07", False), ("0.4", False)])
def test_who_reads_a_release_counts_the_delta_of_categories(tmp_path, delta, holds):
    with Ledger.open(None, COST, dataset="towns") as ledger:
        found, viewed = begun(ledger, entropy=Entropy.insecure(1))
        viewed.pay(MADE, Workload.marginals(found.domain, 2), found.left.cost, learned=found).release().save(
            tmp_path / "out"
        )
    manifest = tmp_path / "out" / "release.json"
    text = manifest.read_text()
    assert COST.delta == 1e-6
    assert text.count("and delta=5e-07") == 1
    manifest.write_text(text.replace("and delta=5e-07", f"and delta={delta}"))
    if holds:
        read_release(tmp_path / "out")
    else:
        with pytest.raises((InvalidInput, BudgetExceeded), match="spends"):
            read_release(manifest)


@pytest.mark.parametrize(
    "mechanism",
    [Auto(), Gaussian(), MaxEnt(), MWEM(rounds=2), FittedRecords(weighted_records=1000)],
    ids=lambda mechanism: mechanism.name,
)
@pytest.mark.parametrize("neighbours", Neighbours)
def test_each_mechanism_that_spends_rho_keeps_within_what_was_left(mechanism, neighbours):
    """Its parts and those of the schema come to no more than the account, nor to much less."""
    with Ledger.open(None, COST, dataset="towns", neighbours=neighbours) as ledger:
        found, viewed = begun(ledger, mechanism=mechanism, entropy=Entropy.insecure(1))
        release = viewed.pay(mechanism, Workload.marginals(found.domain, 2), found.left.cost, learned=found).release()
        assert ledger.spent == release.cost == COST
    most = zcdp_of(ApproxDP(COST.epsilon, COST.delta / 2)).rho
    spent = sum(Fraction(spend.cost.rho) for spend in release.spends)
    assert 0.95 * most <= spent <= most


def test_what_counts_persons_once_and_refuses_it_does_so_before_the_charge():
    domain = replace(OPEN, person=Person("who", 2, weights="persons"))
    people = Table.from_frame(frame(60).assign(who=[i // 2 for i in range(60)]), domain)
    with Ledger.open(None, COST, dataset="towns", person="who") as ledger:
        with pytest.raises(InvalidInput, match="count"):
            Curator(people, ledger, Entropy.insecure(1)).learn_for(MWEM(), COST)
        assert ledger.spent is None
        found, viewed = begun(ledger, people, entropy=Entropy.insecure(1))
        release = viewed.pay(MADE, Workload.marginals(found.domain, 2), found.left.cost, learned=found).release()
        assert release.cost == COST


def test_a_run_that_was_cut_off_goes_on_with_its_schema_and_draws_for_free(tmp_path):
    with Ledger.open(tmp_path / "towns.ledger", ApproxDP(4.0, 1e-5), dataset="towns") as ledger:
        found, viewed = begun(ledger)
        workload = Workload.marginals(found.domain, 2)
        first = viewed.pay(MADE, workload, found.left.cost, learned=found).release()  # and not finished
        curator = Curator(Table.from_frame(frame(), OPEN), ledger)
        assert curator.has_learned_for(MADE, COST)
        again, viewed = begun(ledger)
        assert (again.domain, again.charge.fresh, again.charge.id) == (found.domain, False, found.charge.id)
        paid = viewed.pay(MADE, workload, again.left.cost, learned=again)
        second = paid.release()
        np.testing.assert_array_equal(first.answers(), second.answers())
        another, viewed = begun(ledger)
        other = Workload.marginals(found.domain, 1)
        with pytest.raises(LedgerError, match="answers other questions"):  # than those that were drawn for
            viewed.pay(MADE, other, another.left.cost, learned=another).release()
        assert ledger.spent == COST
        assert not curator.has_learned_for(MADE, ApproxDP(1.0, 1e-6))
        paid.finish(second)
        assert not curator.has_learned_for(MADE, COST)
        assert begun(ledger, again=True)[0].charge.fresh
        assert ledger.spent == ApproxDP(4.0, 2e-6)


def test_another_release_over_a_schema_that_a_release_was_charged_with_says_what_that_cost(tmp_path):
    """Its bins and categories are of the same records: before that release is finished, and after."""
    with Ledger.open(tmp_path / "towns.ledger", ApproxDP(4.0, 1e-5), dataset="towns") as ledger:
        found, viewed = begun(ledger)
        workload = Workload.marginals(found.domain, 2)
        paid = viewed.pay(MADE, workload, found.left.cost, learned=found)
        first, cost = paid.release(), ApproxDP(0.5, 1e-7)
        asked = Laplace(), Workload.marginals(found.domain, 1), PureDP(0.25)
        others = [viewed.release(*asked, changed_rows=True)]
        paid.finish(first)
        again = viewed.pay(MADE, workload, cost)
        others.append(again.release())
        others[-1].save(tmp_path / "out")
        again.finish(others[-1])
        for release in others:
            assert [(p.columns, p.cost, p.entry) for p in release.learned] == [(("hours", "town"), COST, 2)]
        assert read_release(tmp_path / "out").learned == others[-1].learned
        assert cost_with_schema(others[-1]) == ApproxDP(2.5, COST.delta + cost.delta)
        assert first.learned == ()
        assert cost_with_schema(first) == COST  # which is of both
        held = public_part(ledger)
        public = Domain.coded({"a": 2})
        rows = Table(public, (np.arange(9) % 2,))
        asked = Laplace(), Workload.marginals(public, 1), PureDP(0.1)
        assert Curator(rows, ledger).release(*asked, changed_rows=True).learned == ()
    checks = {check.name: check for check in verify(tmp_path / "out", ledger=held).checks}
    assert checks["ledger"].holds, checks["ledger"]


def test_what_bins_and_categories_cost_is_told_whatever_else_their_entries_say_by_now(tmp_path):
    with Ledger.open(tmp_path / "towns.ledger", ApproxDP(4.0, 1e-5), dataset="towns") as ledger:
        domain = Curator(Table.from_frame(frame(), OPEN), ledger).learn(COST).domain
        edited = replace(domain["hours"], missing=("?", "none"), shape=())
        domain = replace(domain, attributes=tuple(edited if a.name == "hours" else a for a in domain))
        asked = Laplace(), Workload.marginals(domain, 1), PureDP(0.25)
        release = Curator(Table.from_frame(frame(), domain), ledger).release(*asked, changed_rows=True)
    assert [p.columns for p in release.learned] == [("hours", "town")]


def test_what_is_made_of_learned_bins_and_categories_by_hand_is_of_the_same_charge(tmp_path):
    """Bins merged, and a category left out; not bins, or a list, with anything that was not learned."""
    with Ledger.open(tmp_path / "towns.ledger", ApproxDP(4.0, 1e-5), dataset="towns") as ledger:
        domain = Curator(Table.from_frame(frame(), OPEN), ledger).learn(COST).domain
        hours, town = domain["hours"], domain["town"]
        ends = (hours.edges[0], hours.edges[-1])
        assert 41.0 in hours.edges
        unlearned = next(float(at) for at in range(1, 1000) if at not in hours.edges)

        def told(**changed):
            edited = tuple(replace(a, **changed.get(a.name, {})) for a in domain)
            rows = Table.from_frame(frame(), replace(domain, attributes=edited))
            asked = Laplace(), Workload.marginals(rows.domain, 1), PureDP(0.01)
            return [p.columns for p in Curator(rows, ledger).release(*asked, changed_rows=True).learned]

        merged = {"edges": (ends[0], 41.0, ends[1]), "shape": ()}
        fewer = {"categories": (town.categories[0], OTHER)}
        public = {"categories": (*town.categories[:-1], "Babylon", OTHER)}
        assert told(hours=merged, town=fewer) == [("hours", "town")]
        assert told(hours=merged, town=public) == [("hours",)]
        assert told(hours={"edges": (ends[0], unlearned, ends[1]), "shape": ()}, town=public) == []
        assert told(hours={"edges": ends, "shape": ()}, town={"categories": (OTHER,)}) == []


@pytest.mark.parametrize("of_persons", [False, True])
def test_a_schema_that_was_drawn_for_other_parts_of_its_cost_is_refused(of_persons, tmp_path):
    """A version that divides otherwise would say of each column a cost that it was not drawn for."""
    domain = replace(OPEN, person=Person("who", 2)) if of_persons else OPEN
    people = Table.from_frame(frame(60).assign(who=[i // 2 for i in range(60)]), domain)

    def learned(ledger):
        curator = Curator(people, ledger)
        return curator.learn(COST) if of_persons else curator.learn_for(MADE, COST)

    given = {"dataset": "towns", "person": "who" if of_persons else None}
    with Ledger.open(tmp_path / "one.ledger", ApproxDP(4.0, 1e-5), **given) as ledger:
        found, again = learned(ledger), learned(ledger)
        assert (again.domain, again.spends, again.charge.fresh) == (found.domain, found.spends, False)
        ((*_, drawn),) = learned_schemas(ledger)
    first, second = [spend.to_json() for spend in found.spends]
    exchanged = [first | {"rho": second["rho"]}, second | {"rho": first["rho"]}]
    for name, divided in (("same", [first, second]), ("other", exchanged)):
        with Ledger.open(tmp_path / f"{name}.ledger", ApproxDP(4.0, 1e-5), **given) as ledger:
            charge = ledger.charge(COST, found.charge.label, found.charge.key)
            kept = Draws(ledger, charge, f"qrelease {version('qrelease')}")
            kept.take(f"a schema: {json.dumps(divided)}", lambda: drawn)
            if name == "same":
                assert learned(ledger).domain == found.domain
            else:
                with pytest.raises(LedgerError, match=r"answers other questions than this run asks .*--again"):
                    learned(ledger)
            assert ledger.spent == COST


def test_what_is_left_is_for_the_process_that_learned():
    with Ledger.open(None, COST, dataset="towns") as ledger:
        found, viewed = begun(ledger, entropy=Entropy.insecure(1))
        elsewhere = replace(found, left=replace(found.left, _process=-1))
        with pytest.raises(LedgerError, match="the process that learned"):
            viewed.pay(MADE, Workload.marginals(found.domain, 2), found.left.cost, learned=elsewhere)


@dataclass(frozen=True)
class MaxEntOfOnesOwn:
    """It may draw by itself."""

    name: str = "maxent"

    def check(self, workload, cost, neighbours):
        pass

    def release(self, private, workload, cost):
        raise AssertionError


@pytest.mark.parametrize(
    ("mechanism", "cost"),
    [(Laplace(), COST), (MADE, PureDP(1.0)), (MADE, ApproxDP(1.0, 0.0)), (MaxEntOfOnesOwn(), COST)],
    ids=["no rho", "no delta", "a delta of 0", "from outside"],
)
def test_what_has_no_account_for_both_is_refused_before_the_charge(mechanism, cost):
    bins = Domain((OPEN["hours"], OPEN["sex"]))
    with Ledger.open(None, COST, dataset="towns") as ledger:
        curator = Curator(Table.from_frame(frame(), bins), ledger, Entropy.insecure(1))
        with pytest.raises(InvalidInput, match="learn first, and release for what is left"):
            curator.learn_for(mechanism, cost)
        assert ledger.spent is None


def test_a_release_that_was_charged_with_a_schema_is_of_it_at_what_is_left_by_its_mechanism():
    with Ledger.open(None, ApproxDP(9.0, 1e-4), dataset="towns") as ledger:
        entropy = Entropy.insecure(1)
        found, viewed = begun(ledger, entropy=entropy)
        workload, left = Workload.marginals(found.domain, 2), found.left.cost
        alone = Curator(Table.from_frame(frame(), OPEN), ledger, entropy).learn(COST)
        for wrong, cost, learned in [
            (MADE, COST, found),  # all of it, of which a part is spent
            (MADE, left, alone),  # which left nothing
            (FittedRecords(), left, found),
            (MaxEntOfOnesOwn(), left, found),
        ]:
            with pytest.raises(InvalidInput):
                viewed.pay(wrong, workload, cost, learned=learned)
        assert viewed.pay(MADE, workload, left, learned=found).release().cost == COST  # it was not touched
