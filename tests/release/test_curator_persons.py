"""A person as the unit, through the doors: who is charged what, which records are kept, and what is said of it."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from in_process import in_process

from qrelease.apps.cli import main
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.schema import to_toml
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.evaluation.audit.commands import release_command
from qrelease.evaluation.audit.doors import command_door, curator_door
from qrelease.evaluation.audit.observed import differences
from qrelease.evaluation.evaluate import evaluate
from qrelease.evaluation.planning import plan
from qrelease.evaluation.quality.private_score import QualityScores
from qrelease.evaluation.verify import verify
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.iterative.pmw_accuracy import COUNT_SHARE
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload
from qrelease.release.card import card
from qrelease.release.curator import Curator
from qrelease.release.reader import load
from qrelease.statistics.estimate import Estimate
from qrelease.statistics.mean import TextbookMean
from qrelease.statistics.sums import Sum

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
M = 3
DOMAIN = Domain(Domain.coded({"a": 3, "b": 4}).attributes, person=Person("who", M))
WORKLOAD = Workload.marginals(DOMAIN, 2)
COSTS = [PureDP(3.0), ZCDP(0.9), ApproxDP(3.0, 1e-6)]


def made(n=4_000, persons=500, seed=0, domain=DOMAIN):
    rng = np.random.default_rng(seed)
    who = [f"p{i}" for i in rng.integers(persons, size=n)]
    return Table.of_persons(domain, [rng.integers(size, size=n) for size in domain.shape], who)


TABLE = made()
KEPT = int(np.minimum(np.bincount(TABLE.persons.codes), M).sum())


def budget(cost, neighbours=ADD, path=None):
    return Ledger.open(path, cost, neighbours=neighbours, person="who")


SEEN = []
"""What the spy was handed."""


@dataclass(frozen=True)
class Spy:
    """A mechanism that notes what it is handed."""

    name: str = "spy"

    def check(self, workload, cost, neighbours):
        SEEN.append((cost, neighbours))

    def release(self, private, workload, cost):
        SEEN.append((cost, private.neighbours, private.filter.total, private.public_records))
        SEEN.append(private.exact(workload)[0].sum())
        return MechanismResult(None, ())


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_the_ledger_is_charged_for_a_person_and_the_mechanism_may_spend_a_record_s_part(neighbours, cost):
    mechanism = Laplace() if isinstance(cost, PureDP) else Gaussian()
    each = Unit(neighbours, M).of_a_record(cost)
    with budget(cost, neighbours) as ledger:
        release = Curator(TABLE, ledger, Entropy.insecure(1)).release(mechanism, WORKLOAD, cost)
        assert ledger.remaining is None
        with pytest.raises(BudgetExceeded):
            Curator(TABLE, ledger).release(mechanism, WORKLOAD, cost)
    assert (release.cost, release.neighbours, release.unit) == (cost, neighbours, Unit(neighbours, M))
    assert [spend.cost for spend in release.spends] == [each]
    total = release.measurements[0].values.sum()
    assert abs(total - KEPT) < 6 * release.measurements[0].noise.scale * np.sqrt(2 * len(WORKLOAD))


def test_a_mechanism_sees_the_kept_records_alone_and_no_public_number_of_them():
    SEEN.clear()
    spy, cost = Spy(), PureDP(3.0)
    with budget(cost, SWAP) as ledger:
        paid = Curator(TABLE, ledger).pay(spy, WORKLOAD, cost)
        spy.release(paid.private, WORKLOAD, paid.unit.of_a_record(cost))
    assert [(PureDP(0.5), ADD), (PureDP(0.5), ADD, PureDP(0.5), None), KEPT] == SEEN


def test_each_charge_keeps_others_and_one_that_was_cut_off_goes_on_with_the_same(tmp_path):
    def kept(paid):
        return paid.private.exact(WORKLOAD)[0].tolist()

    with budget(PureDP(9.0), path=tmp_path / "x.ledger") as ledger:
        first = Curator(TABLE, ledger).pay(MaxEnt(), WORKLOAD, PureDP(1.0))
        drawn = first.release().answers()  # and then the process dies
    with budget(None, path=tmp_path / "x.ledger") as ledger:
        again = Curator(TABLE, ledger).pay(MaxEnt(), WORKLOAD, PureDP(1.0))
        assert not again.charge.fresh
        assert kept(again) == kept(first)
        release = again.release()
        assert np.array_equal(release.answers(), drawn)
        again.finish(release)
        new = Curator(TABLE, ledger).pay(MaxEnt(), WORKLOAD, PureDP(1.0), again=True)
        assert new.charge.fresh
        assert kept(new) != kept(first)
        assert ledger.spent == PureDP(2.0)


def test_another_bound_is_another_release_and_not_one_to_go_on_with(tmp_path):
    with budget(PureDP(9.0), path=tmp_path / "x.ledger") as ledger:
        Curator(TABLE, ledger).pay(Laplace(), WORKLOAD, PureDP(1.0))
        domain = Domain(DOMAIN.attributes, person=Person("who", M + 1))
        other = Curator(made(domain=domain), ledger).pay(Laplace(), Workload.marginals(domain, 2), PureDP(1.0))
        assert other.charge.fresh


def test_one_seed_is_one_release():
    def answers():
        with budget(PureDP(1.0)) as ledger:
            return Curator(TABLE, ledger, Entropy.insecure(5)).release(Laplace(), WORKLOAD, PureDP(1.0)).answers()

    assert np.array_equal(answers(), answers())


# --- ledgers of persons and of records


def test_a_ledger_of_records_takes_no_persons_and_the_other_way_round(tmp_path):
    plain = Table(Domain(DOMAIN.attributes), TABLE.columns)
    with Ledger.open(tmp_path / "records.ledger", PureDP(1.0)) as ledger:
        with pytest.raises(LedgerError, match="counts what one record is charged, and this would be a person by 'who'"):
            Curator(TABLE, ledger)
        assert ledger.person is None
    with budget(PureDP(1.0), path=tmp_path / "persons.ledger") as ledger:
        assert ledger.person == "who"
        with pytest.raises(LedgerError, match="counts what a person by 'who' is charged, and this would be one record"):
            Curator(plain, ledger)
        renamed = Domain(DOMAIN.attributes, person=Person("whom", M))
        with pytest.raises(LedgerError, match="this would be a person by 'whom'"):
            Curator(made(domain=renamed), ledger)
    with pytest.raises(
        LedgerError, match=r"by --ledger FILE on the command line, made by Ledger.open\(..., person='whom'\)"
    ):
        Ledger.open(tmp_path / "persons.ledger", person="whom")
    with Ledger.open(tmp_path / "persons.ledger") as ledger:
        assert (ledger.person, ledger.neighbours) == ("who", ADD)
        assert "of persons by who" in repr(ledger)


# --- estimates


@pytest.mark.parametrize(("neighbours", "records"), [(ADD, M), (SWAP, 2 * M)])
@pytest.mark.parametrize("cost", [PureDP(1.0), ZCDP(0.5)], ids=str)
def test_an_estimate_has_the_noise_of_all_records_of_a_person(cost, neighbours, records):
    """Of m records of each, or 2m: m times as wide under ε and under ρ, as one record at a cost of ε/m or ρ/m²."""
    with budget(cost, neighbours) as ledger:
        found = Curator(TABLE, ledger, Entropy.insecure(2)).estimate(Sum("a"), cost)
        assert ledger.spent == cost
    one = Table(Domain(DOMAIN.attributes), TABLE.columns)
    with Ledger.open(None, cost) as ledger:
        alone = Curator(one, ledger, Entropy.insecure(2)).estimate(Sum("a"), cost)
    assert found.typical == pytest.approx(records * alone.typical, rel=0.01)
    assert (found.at_most, found.neighbours, alone.at_most) == (M, neighbours, None)
    assert f"of a person with at most {M} records" in str(found)
    assert found.spends[0].cost.to_json() == pytest.approx(cost.to_json())
    assert Estimate.from_json(found.to_json()) == found


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
def test_a_refusal_of_a_session_has_the_numbers_that_a_person_is_charged(neighbours):
    with budget(PureDP(20.0), neighbours) as ledger:
        session = Curator(TABLE, ledger, Entropy.insecure(1)).open(Online(0.5, 0.05), PureDP(20.0))
        spent = session.spent
        told = "a total of epsilon=20 cannot hold a cost of rho=1: it has no delta, and no rho"
        for ask in (session.quote_estimate, session.estimate):
            with pytest.raises(InvalidInput, match=f"^{told}$"):
                ask(Sum("a"), ZCDP(1.0))
            with pytest.raises(BudgetExceeded) as refused:
                ask(Sum("a"), PureDP(30.0))
            facts = f"budget exceeded: total epsilon=20; spent {spent.rounded()}; requested epsilon=30"
            left = session.remaining.rounded(up=False)
            assert str(refused.value).startswith(f"the session's {facts} (ask for at most the {left} that is left; ")
            assert refused.value.facts == facts
        assert session.spent == ledger.spent == spent
        session.estimate(Sum("a"), session.remaining)
        with pytest.raises(BudgetExceeded, match=r"requested epsilon=1 \(nothing is left; what a session may cost"):
            session.estimate(Sum("b"), PureDP(1.0))


def test_an_estimate_is_of_the_records_that_are_kept():
    cost = PureDP(3000.0)
    with budget(cost) as ledger:
        found = Curator(TABLE, ledger, Entropy.insecure(2)).estimate(TextbookMean("a"), cost)
    assert len(TABLE) > KEPT
    assert {m.what: m.value for m in found.measured}["count"] == KEPT


def test_an_estimate_on_the_command_line_says_whose_it_is(tmp_path, capsys):
    data, schema = tmp_path / "visits.csv", tmp_path / "visits.toml"
    data.write_text("who,a,b\n" + "".join(f"p{i % 40},{i % 3},{i % 4}\n" for i in range(400)))
    schema.write_text(to_toml(DOMAIN))
    main(["estimate", str(data), "--schema", str(schema), "--epsilon", "3", "mean:a"])
    out = capsys.readouterr().out
    assert "add-remove of a person with at most 3 records" in out


def test_a_quantile_of_the_records_a_person_has_can_be_bought(tmp_path, capsys):
    """By a derived count, from the ledger that pays for releases with the bound that is chosen by it."""
    data, schema = tmp_path / "visits.csv", tmp_path / "counts.toml"
    data.write_text("who,a,b\n" + "".join(f"p{i},1,2\n" * (1 + i % 10) for i in range(2000)))
    bins = ", ".join(map(str, range(17)))
    schema.write_text(
        '[person]\ncolumn = "who"\n[person.derive]\nvisits = { take = "count", bins = [' + bins + "] }\n"
        '[[attribute]]\nname = "a"\nkind = "coded"\ncodes = 3\n'
    )
    asked = ["--epsilon", "1", "--total-epsilon", "4", "quantile:visits,q=0.85"]
    assert main(["estimate", str(data), "--schema", str(schema), *asked]) == 0
    assert "quantile  9\n" in capsys.readouterr().out
    bounded = tmp_path / "visits.toml"
    bounded.write_text(to_toml(DOMAIN))
    given = ["--epsilon", "1", "--mechanism", "laplace", "--out", str(tmp_path / "released")]
    assert main(["release", str(data), "--schema", str(bounded), *given]) == 0
    assert "epsilon=2 of epsilon=4" in capsys.readouterr().out


# --- learned schemas


VISITS = Domain(
    (
        Attribute("minutes", "number", within=(0, 999), step=1, learn=4),
        Attribute("ward", "category", learn=5, missing=("",)),
    ),
    person=Person("who", 2),
)


def visits(rows, tmp_path):
    file = tmp_path / "visits.csv"
    file.write_text("who,minutes,ward\n" + "".join(f"{who},{minutes},{ward}\n" for who, minutes, ward in rows))
    return Table.read(file, VISITS)


def test_which_records_are_kept_before_categories_are_known_does_not_depend_on_others(tmp_path):
    """Texts are numbered by when they first come: a person who comes first renumbers those of all others."""
    mine = [("a", i, f"ward {i % 7}") for i in range(20)]
    first = [("z", 500, f"other {i}") for i in range(9)] + [("z", 502, "ward 6"), ("z", 503, "ward 3")]

    def left(rows, key):
        table = visits(rows, tmp_path)
        found = table.bounded(key)
        texts = [*found.texts["ward"], ""]
        return {(m, texts[t]) for m, t in zip(*(c.tolist() for c in found.columns), strict=True)}

    for seed in range(30):
        key = bytes([seed] * 16)
        alone = left(mine, key)
        assert len(alone) == 2
        assert alone == left([*first, *mine], key) - {(m, w) for _, m, w in first}


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
def test_a_schema_is_learned_of_persons(neighbours, tmp_path):
    """At a person's cost: a category that one person has in both records is not named, though two records have it."""
    rng = np.random.default_rng(3)
    rows = [(f"p{i % 900}", int(rng.integers(1000)), f"ward {rng.integers(3)}") for i in range(2700)]
    rows += [("rare", 5, "only hers")] * 2
    table, cost = visits(rows, tmp_path), ApproxDP(8.0, 1e-6)
    with budget(cost, neighbours) as ledger:
        learned = Curator(table, ledger, Entropy.insecure(4)).learn(cost)
        assert ledger.spent == cost
    assert set(learned.domain["ward"].categories) == {"ward 0", "ward 1", "ward 2", "other"}
    assert len(learned.domain["minutes"].edges) == 5
    assert sum(spend.cost.rho for spend in learned.spends) == pytest.approx(zcdp_of(ApproxDP(8.0, 5e-7)).rho)
    assert [s.what for s in learned.spends][1] == "learn categories (and delta=5e-07) of ward"
    assert "(and delta=5e-07) of that charge" in learned.to_toml()
    assert learned.unnamed == ()
    whole = table.viewed(learned.domain)
    with budget(PureDP(1.0), neighbours) as ledger:
        assert Curator(whole, ledger).release(Laplace(), Workload.marginals(whole.domain, 2), PureDP(1.0)) is not None


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
def test_a_schema_and_a_release_of_persons_are_charged_as_one(neighbours, tmp_path):
    """All records of the charge are those of one key, and what the manifest lists adds up to the cost."""
    rows = [(f"p{i % 900}", i % 1000, f"ward {i % 3}") for i in range(2700)]
    table, cost = visits(rows, tmp_path), ApproxDP(4.0, 1e-6)
    with budget(cost, neighbours) as ledger:
        learned = Curator(table, ledger).learn_for(MaxEnt(), cost)
        viewed = Curator(table.viewed(learned.domain), ledger)
        workload, left = Workload.marginals(learned.domain, 2), learned.left
        release = viewed.pay(MaxEnt(), workload, left.cost, learned=learned).release()
        assert len([entry for entry in ledger.history() if entry.kind == "charge"]) == 1
        assert ledger.spent == cost
        with pytest.raises(BudgetExceeded):  # it was left for one
            viewed.pay(MaxEnt(), workload, left.cost, learned=learned)
    assert release.cost == cost
    unit = Unit.of(neighbours, learned.domain)
    told = {spend.what: spend.cost for spend in release.spends}
    for spend in learned.spends:
        assert told[spend.what] == unit.of_a_record(spend.cost)
    spent = sum(unit.of_the_unit(spend.cost).rho for spend in release.spends)
    assert spent == pytest.approx(left.cost.rho + sum(spend.cost.rho for spend in learned.spends))
    release.save(tmp_path / "out")
    assert verify(tmp_path / "out").holds


def test_records_that_were_bounded_already_are_not_taken_for_those_of_persons():
    with budget(PureDP(1.0)) as ledger, pytest.raises(InvalidInput, match="does not say whose records"):
        Curator(TABLE.bounded(b"key"), ledger)


# --- sessions


@pytest.mark.parametrize("cap", [PureDP(8.0), ZCDP(2.0), ApproxDP(8.0, 1e-6)], ids=str)
def test_a_session_spends_of_its_cap_what_a_person_is_charged(cap):
    with budget(cap) as ledger:
        session = Curator(TABLE, ledger, Entropy.insecure(1)).open(Online(alpha=0.1, beta=0.05), cap)
        assert session.cost == cap
        quote = session.quote("a = 1")
        before = ledger.spent
        answer = session.answer("a = 1")
        assert answer.cost == quote.cost
        assert answer.cost is not None
        name = next(iter(answer.cost.to_json()))
        if type(answer.cost) is type(cap):
            gone = ledger.spent.to_json()[name] - before.to_json()[name]
            assert gone == pytest.approx(answer.cost.to_json()[name])
            assert session.spent.to_json()[name] == pytest.approx(ledger.spent.to_json()[name])
        assert abs(answer.value - KEPT / 3) < 0.2 * KEPT
        assert session.remaining is not None


def test_an_answer_costs_a_person_so_many_times_what_it_costs_a_record():
    plain = Table(Domain(DOMAIN.attributes), TABLE.bounded(b"x").columns)
    with budget(PureDP(9.0)) as ledger, Ledger.open(None, PureDP(3.0)) as other:
        persons = Curator(TABLE, ledger, Entropy.insecure(3)).open(Online(alpha=0.1), PureDP(9.0))
        records = Curator(plain, other, Entropy.insecure(3)).open(Online(alpha=0.1), PureDP(3.0))
        assert persons.records == records.records  # as many records, and the same noise
        assert persons.quote("a = 1").cost.epsilon == pytest.approx(3 * records.quote("a = 1").cost.epsilon)


def test_a_session_goes_on_with_the_same_records(tmp_path):

    def kept_by(session):
        return session._draws._private.exact(WORKLOAD)[0].tolist()

    kept = []
    for _ in range(2):
        with budget(PureDP(9.0) if not kept else None, path=tmp_path / "x.ledger") as ledger:
            session = Curator(TABLE, ledger).open(Online(alpha=0.1), PureDP(4.0), key="all")
            kept.append(kept_by(session))
            other = Curator(TABLE, ledger).open(Online(alpha=0.1), PureDP(4.0))
            assert kept_by(other) != kept[-1]
    assert kept[0] == kept[1]


def test_a_session_of_one_charge_is_opened_with_a_record_s_part():
    with budget(PureDP(48.0)) as ledger:
        mechanism = PrivateMultiplicativeWeights(alpha=0.4, beta=0.2, queries=5)
        with Curator(TABLE, ledger, Entropy.insecure(1)).open(mechanism, PureDP(48.0)) as session:
            assert session.terms.cost.epsilon == pytest.approx((1 - COUNT_SHARE) * 16.0)
            assert abs(session.answer("a = 1").value - KEPT / 3) < 0.3 * KEPT
        assert ledger.spent == PureDP(48.0)


@pytest.mark.parametrize(
    "mechanism", [Online(alpha=0.1), PrivateMultiplicativeWeights(alpha=0.4, beta=0.2, queries=5)], ids=lambda m: m.name
)
@pytest.mark.filterwarnings("ignore::qrelease.errors.WeakCostWarning")
def test_what_was_bought_for_few_records_of_a_person_is_not_drawn_for_more(tmp_path, mechanism):
    more = Domain(DOMAIN.attributes, person=Person("who", M + 1))
    with budget(PureDP(48.0), path=tmp_path / "x.ledger") as ledger:
        Curator(TABLE, ledger).open(mechanism, PureDP(48.0), key="all").close()
        with pytest.raises(LedgerError, match="other columns, labels or bins"):
            Curator(made(domain=more), ledger).open(mechanism, PureDP(48.0), key="all", changed_rows=True)


# --- what is said


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_a_release_says_person_and_is_read_again(tmp_path, neighbours):
    cost = ApproxDP(3.0, 1e-6)
    with budget(cost, neighbours) as ledger:
        release = Curator(TABLE, ledger, Entropy.insecure(2)).release(MaxEnt(), WORKLOAD, cost)
    release.save(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "release.json").read_text())
    assert manifest["unit"]["at_most"] == M
    assert manifest["unit"]["share_kept"] is None
    assert manifest["domain"]["person"] == {"column": "who", "at_most": M}
    again = load(tmp_path / "out")
    assert again.unit == release.unit
    assert again.spends == release.spends
    assert np.isfinite(again.model_bars()).all()
    page = (tmp_path / "out" / "report.html").read_text()
    one = "The unit is one person: all records with one value of <em>who</em>"
    for said in ("Take any one person", "at most 3 records were kept", one):
        assert said in page
    assert "Take any one record" not in page
    assert ("their number is public, and that of the records is not" in page) == (neighbours is SWAP)
    assert f"{neighbours.value} of a person with at most 3 records" in repr(release)


def test_a_manifest_that_claims_less_than_its_parts_cost_a_person_is_refused(tmp_path):
    with budget(PureDP(3.0)) as ledger:
        Curator(TABLE, ledger).release(Laplace(), WORKLOAD, PureDP(3.0)).save(tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    manifest = json.loads(file.read_text())
    manifest["domain"]["person"]["at_most"] = M + 1
    file.write_text(json.dumps(manifest))
    with pytest.raises(BudgetExceeded):
        load(tmp_path / "out")


def test_the_number_of_records_has_an_error_bar_although_that_of_persons_is_public():
    with budget(PureDP(3.0), SWAP) as ledger:
        release = Curator(TABLE, ledger).release(MaxEnt(), WORKLOAD, PureDP(3.0))
    everybody = Workload.marginals(DOMAIN, [()])
    assert release.error_bars(everybody)[1][0] > 0
    assert release.model_bars(everybody)[0] > 0


def test_a_plan_is_of_persons():
    def promised(epsilon, person):
        workload = Workload.marginals(Domain(DOMAIN.attributes[:1], person=person), 1)
        found = plan(workload, 10_000, epsilon=epsilon, trials=0)
        assert ("of a person with at most 5 records" in str(found)) == (person is not None)
        return {f.mechanism: f.promised for f in found.forecasts if f.promised is not None}

    assert promised(1.0, Person("who", 5)) == pytest.approx(promised(0.2, None))


def test_an_evaluation_compares_with_all_records():
    found = evaluate(TABLE, WORKLOAD, {}, [100.0], entropy=Entropy.insecure(0))
    assert "of a person with at most 3 records" in str(found)
    assert 0.001 < found.error("laplace", 100.0) < 0.2  # what is left out, where the noise is next to nothing


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_whole_persons_cannot_be_told_apart_at_the_curator_s_door(neighbours):
    found = differences("Curator", "laplace", curator_door(Laplace(), PureDP(2.0)), neighbours, at_most=2)
    assert not found.convicted, found
    assert found.fields > 50


@pytest.mark.slow
def test_whole_persons_cannot_be_told_apart_on_the_command_line():
    door = command_door(release_command("laplace"), PureDP(2.0), in_process)
    found = differences("command line", "laplace", door, ADD, seeds=1, at_most=2)
    assert not found.convicted, found


# --- the command line


@pytest.fixture
def folder(in_folder):
    who = [f"p{code}" for code in TABLE.persons.codes.tolist()]
    rows = zip(who, *(column.tolist() for column in TABLE.columns), strict=True)
    (in_folder / "visits.csv").write_text("who,a,b\n" + "".join(f"{w},{a},{b}\n" for w, a, b in rows))
    (in_folder / "schema.toml").write_text(to_toml(DOMAIN))
    return in_folder


def test_the_command_line_says_person_everywhere(folder, capsys):
    command = ["release", "visits.csv", "--schema", "schema.toml", "--mechanism", "laplace", "--epsilon", "1"]
    assert main([*command, "--total-epsilon", "2", "--out", "out"]) == 0
    assert "of a person with at most 3 records" in capsys.readouterr().out
    assert main(["ledger", "show", "visits.ledger"]) == 0
    assert "neighbours add-remove of persons by who" in capsys.readouterr().out
    assert main(["plan", "--schema", "schema.toml", "--n", "4000", "--epsilon", "1", "--trials", "0"]) == 0
    assert "of a person with at most 3 records" in capsys.readouterr().out
    plain = to_toml(Domain(DOMAIN.attributes))
    (folder / "plain.toml").write_text(plain)
    assert main([part if part != "schema.toml" else "plain.toml" for part in command]) == 2
    assert "counts what a person by 'who' is charged" in capsys.readouterr().err
    assert main(["answer", "out", "a = 1"]) == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda csv, toml: (csv.replace("p7,", ",", 1), toml), "looks like a missing key"),
        (
            lambda csv, toml: (csv.replace("p7,", "8,", 1).replace("p9,", "8.0,", 1), toml),
            "two spellings of one key",
        ),
        (lambda csv, toml: (csv, toml.replace("at_most = 3", "at_most = 0")), "at_most must be"),
        (lambda csv, toml: (csv, toml.replace('"who"', '"a"')), "is also an attribute"),
        (lambda csv, toml: (csv, toml.replace('"who"', '"whom"')), "no person column 'whom'"),
    ],
)
def test_wrong_input_is_one_line_and_charges_nothing(folder, capsys, change, told):
    csv, toml = change((folder / "visits.csv").read_text(), (folder / "schema.toml").read_text())
    (folder / "visits.csv").write_text(csv)
    (folder / "schema.toml").write_text(toml)
    before = sorted(path.name for path in folder.iterdir())
    assert main(["release", "visits.csv", "--schema", "schema.toml", "--epsilon", "1"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.slow
def test_a_server_serves_persons(folder):
    pytest.importorskip("starlette")
    from qrelease.apps.server.in_process import in_process
    from qrelease.evaluation.audit.session import server_door

    # With a public number of persons: a noisy count of so few decides itself whether a session is opened.
    found = differences("HTTP", "online", server_door(Online(0.5, 0.05), PureDP(100.0), in_process), SWAP, at_most=2)
    assert not found.convicted, found


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize(("mechanism", "cost"), [(Laplace(), PureDP(0.5)), (Gaussian(), ZCDP(0.5))])
def test_an_honest_release_of_persons_is_verified_and_has_a_card(tmp_path, neighbours, mechanism, cost):
    with budget(cost, neighbours) as ledger:
        release = Curator(made(300, 40), ledger).release(mechanism, WORKLOAD, cost)
    release.save(tmp_path / "out")
    found = verify(tmp_path / "out")
    assert [check.name for check in found.checks if check.holds is False] == []
    said = card(release)
    assert said["privacy guarantee"]["unit of privacy"].startswith("one person")
    assert "one person that is" in said["privacy guarantee"]["neighbouring relation"]
    assert "number of records" not in json.dumps(said["unprotected quantities"])


def test_a_schema_is_not_learned_nor_a_score_drawn_where_the_charge_could_be_undone(tmp_path):
    hours = Attribute("hours", "number", within=(0, 99), step=1, learn=4, missing=("",))
    with Ledger.open(tmp_path / "l", PureDP(1.0)) as ledger:
        curator = Curator(Table(Domain((hours,)), (np.arange(100),)), ledger)
        scored = Table(Domain.coded({"a": 2}), (np.array([0, 1, 1]),))
        with pytest.raises(LedgerError, match="inside a transaction"), ledger.transaction():
            curator.learn(PureDP(0.1))
        with pytest.raises(LedgerError, match="inside a transaction"), ledger.transaction():
            Curator(scored, ledger).estimate(QualityScores(scored), PureDP(0.5))
        assert ledger.spent is None
        texts = Attribute("c", "category", learn=3)
        with pytest.raises(InvalidInput, match="does not have the texts"):
            Curator(Table(Domain((texts,)), (np.zeros(5, int),)), ledger).learn(ApproxDP(0.5, 1e-6))
        assert ledger.spent is None
