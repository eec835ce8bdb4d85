"""A schema completed from the records: charged first, of shares of one cost, the same by every door."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from towns import HOURS, OPEN, SEX, TOWN, frame

import qrelease as qr
from qrelease.data.attribute import OTHER
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.schema import load
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.mechanisms.learning import gaussian_selection, partition_selection
from qrelease.mechanisms.learning.bins import cuts_of
from qrelease.mechanisms.learning.point_tree import measured_leaves
from qrelease.mechanisms.learning.round_points import RoundPoints
from qrelease.mechanisms.learning.schema import (
    CATEGORIES_WEIGHT,
    LEARNING_SHARE,
    PERSONS_SHARE,
    column_costs,
    divided,
    learn,
    lone_delta,
    one_account,
    purse,
)
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_gaussian
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.costs import MOST_SPENT
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.resuming import public_part
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

TOTAL = ApproxDP(5.0, 1e-5)
COST = ApproxDP(2.0, 1e-6)


def curator(path=None, total=TOTAL, table=None, **ledger):
    table = Table.from_frame(frame(), OPEN) if table is None else table
    entropy = Entropy.insecure(1) if path is None else None
    return Curator(table, Ledger.open(path, total, dataset="towns", **ledger), entropy), table


def test_a_learned_schema_has_heaps_and_frequent_keys():
    made, table = curator()
    learned = made.learn(COST)
    hours, town, sex = learned.domain
    assert {40.0, 41.0} <= set(hours.edges)
    assert hours.values <= 8
    assert town.categories == ("Kish", "Nippur", "Ur", "Uruk", OTHER)
    assert sex == SEX
    assert [s.cost for s in learned.spends] == [*column_costs(OPEN, COST).values()]
    assert made.ledger.spent == COST
    counts = table.viewed(learned.domain).counts([(1,)])[0]
    assert counts[4] == 1  # who is in no named town is in `other`
    assert counts.sum() == 2000


def test_a_completed_schema_reads_the_same_records(tmp_path):
    made, table = curator()
    learned = made.learn(COST)
    (tmp_path / "schema.toml").write_text(learned.to_toml())
    domain = load(tmp_path / "schema.toml")
    assert domain == learned.domain
    frame().to_csv(tmp_path / "towns.csv", index=False)
    read, viewed = Table.read(tmp_path / "towns.csv", domain), table.viewed(domain)
    for name, a, b in zip(domain.names, read.columns, viewed.columns, strict=True):
        assert a.tolist() == b.tolist(), name
    assert read.grid("hours").tolist() == viewed.grid("hours").tolist()
    assert f"charge {learned.charge.id} of the ledger" in learned.to_toml()
    assert f"learned, for {column_costs(OPEN, COST)['hours']}" in learned.to_toml()


def test_texts_of_one_meaning_are_one_key():
    texts = ["1.0", "01", " 1", "true", "TRUE", "nan", "", "x", "2024-01-31", "2024-01-31 00:00:00"]
    table = Table.from_frame(pd.DataFrame({"town": texts}), Domain((TOWN,)))
    assert table.texts["town"] == ("1", "x", "2024-01-31")
    table = Table.from_frame(pd.DataFrame({"town": [1, 1.0, None]}), Domain((TOWN,)))
    assert table.texts["town"] == ("1",)


def test_the_order_of_records_and_their_source_do_not_count():
    rows, key = frame(300), b"k" * 32
    tables = [Table.from_frame(made, OPEN) for made in (rows, rows.iloc[::-1])]
    assert tables[0].texts["town"] != tables[1].texts["town"]
    assert tables[0].fingerprint(key) == tables[1].fingerprint(key)
    rows.loc[5, "town"] = "Lagash"
    assert Table.from_frame(rows, OPEN).fingerprint(key) != tables[0].fingerprint(key)


@pytest.mark.parametrize(("neighbours", "times"), [(Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE_ONE, 2)])
def test_each_column_is_charged_before_it_is_drawn_for(monkeypatch, neighbours, times):
    from qrelease.mechanisms.learning import partition_selection
    from qrelease.mechanisms.learning import schema as learning

    private = Private(Table.from_frame(frame(200), OPEN), neighbours, Filter(COST), Entropy.insecure(1))
    drawn = []

    def spy(module, name):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: (drawn.append((len(private.spends), given)), real(*given))[1])

    spy(learning, "discrete_laplace")
    spy(partition_selection, "noise")
    learn(private, COST)
    assert private.filter.spent == COST
    *tree, classes = [given[0] for paid, given in drawn if paid == 1]
    # Three levels, and at half of their epsilon classes of round points, at a fifth of epsilon.
    assert list(map(float, tree)) == pytest.approx([3.5 * times / 0.4] * len(tree))
    assert float(classes) == pytest.approx(2 * 3.5 * times / 0.4)
    assert 1 <= len(tree) <= 3
    ((epsilon, _, count, _),) = [given for paid, given in drawn if paid == 2]
    assert (float(epsilon), count) == (pytest.approx(1.6 / times), 5)
    assert {paid for paid, _ in drawn} == {1, 2}


@pytest.mark.parametrize(("neighbours", "changed"), [(Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE_ONE, 2)])
def test_persons_vote_and_all_is_spent_in_rho(neighbours, changed):
    """Of 3 records each: a tree of counts moves by 3, or by 6 where a person is replaced, and votes by 1, or by √2."""
    domain = replace(OPEN, person=Person("who", 3))
    table = Table.from_frame(frame(3000).assign(who=[f"p{i % 900}" for i in range(3000)]), domain).bounded(b"k" * 16)
    unit = Unit(neighbours, 3)
    private = Private(table, unit.relation, Filter(purse(domain, COST)), Entropy.insecure(1), unit=unit)
    found = learn(private, COST)
    parts, half = column_costs(domain, COST), ApproxDP(2.0, 5e-7)
    assert purse(domain, COST) == half
    assert [spend.cost for spend in private.spends] == [*parts.values()]
    assert parts["town"].rho == pytest.approx(48 / 3.25 * parts["hours"].rho)
    assert sum(p.rho for p in parts.values()) == pytest.approx(zcdp_of(half).rho)
    assert sum(p.rho for p in parts.values()) <= zcdp_of(half).rho
    assert lone_delta(domain, COST) == pytest.approx(5e-7)

    entropy = Entropy.insecure(1)  # the same noise, of what it is to be
    # Three levels, and classes of round points, whose noise has four times the variance.
    variance = Fraction(13, 4) * (3 * changed) ** 2 / (2 * Fraction(parts["hours"].rho))

    def draw(times, count):
        return discrete_gaussian(times**2 * variance, count, entropy)

    rounds = RoundPoints(0, 1000, (1, 5, 10, 50, 100, 500))
    leaves = measured_leaves(
        *private.occurring("hours"), Fraction(math.sqrt(variance / 2)), 8, draw, rounds, laplace=False
    )
    assert found["hours"].edges == tuple(map(float, cuts_of(leaves, 8, rounds)))
    sums = table.votes["town"]
    named, _ = gaussian_selection.select(sums, parts["town"].rho, 5e-7, entropy, changed)
    texts = sorted(text for text, kept in zip(table.texts["town"], named, strict=True) if kept)
    assert found["town"].categories == (*texts, OTHER)
    assert 2 <= len(texts) <= 4


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("at_most", [None, 3, 20])
@pytest.mark.parametrize("columns", [OPEN.attributes, (HOURS, SEX)], ids=["with categories", "bins alone"])
def test_learning_and_a_release_are_within_one_cost(neighbours, at_most, columns):
    """Each part as it is spent, of the unit beside what categories cost of δ, and of a record as a release tells it."""
    domain = Domain(columns, person=None if at_most is None else Person("who", at_most))
    unit, keyed = Unit(neighbours, at_most), columns is OPEN.attributes
    account = one_account(domain, COST, unit)
    parts = [*column_costs(domain, account).values(), account.release]
    backing = ApproxDP(COST.epsilon, COST.delta / 2 if keyed else COST.delta)
    if keyed:
        assert 2 * lone_delta(domain, account) <= COST.delta  # of one column of categories
    assert sum(Fraction(part.rho) for part in parts) <= zcdp_of(backing).rho
    assert sum(part.rho for part in parts) >= 0.97 * zcdp_of(backing).rho
    of_unit, of_record = Filter(backing), Filter(unit.of_a_record(COST))
    for part in parts:
        of_unit.spend(part)
        of_record.spend(unit.of_a_record(part))
    with pytest.raises(BudgetExceeded):  # 4 percent more
        of_unit.spend(ZCDP(0.04 * sum(part.rho for part in parts)))


def test_with_many_records_of_a_person_bins_get_more_of_what_categories_got():
    """As the noise of bins grows with them: from eight on, as their power of 2/3."""
    ratios = {}
    for at_most in (1, 8, 64):
        domain = Domain(OPEN.attributes, person=Person("who", at_most))
        account = one_account(domain, COST, Unit(Neighbours.ADD_REMOVE, at_most))
        for cost in (account, COST):
            parts = column_costs(domain, cost)
            ratios.setdefault(at_most, []).append(parts["town"].rho / parts["hours"].rho)
    assert ratios[1] == pytest.approx(ratios[8])
    assert np.array(ratios[8]) / np.array(ratios[64]) == pytest.approx([4, 4])


def test_without_a_delta_there_is_no_account_for_both():
    bins = Domain((HOURS, SEX))
    unit = Unit(Neighbours.ADD_REMOVE)
    assert one_account(bins, PureDP(1.0), unit) is None
    assert one_account(bins, ApproxDP(1.0, 0.0), unit) is None
    with pytest.raises(InvalidInput, match="must be PureDP or ApproxDP"):
        one_account(bins, ZCDP(1.0), unit)
    with pytest.raises(InvalidInput, match="leaves nothing"):
        one_account(Domain((SEX,)), COST, unit)


@pytest.mark.parametrize(("neighbours", "changed"), [(Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE_ONE, 2)])
def test_in_one_account_bins_have_gaussian_noise_and_categories_the_epsilon_of_their_rho(neighbours, changed):
    """One record is in one part of each of three levels, and in a class of round points with twice the noise, and its
    replacement in others: squared lengths of 3 1/4 and 6 1/2."""
    unit = Unit(neighbours)
    account = one_account(OPEN, COST, unit)
    parts = column_costs(OPEN, account)
    private = Private(
        Table.from_frame(frame(), OPEN), neighbours, Filter(purse(OPEN, account)), Entropy.insecure(1), unit=unit
    )
    found = learn(private, account)
    assert [spend.cost for spend in private.spends] == [*parts.values()]
    entropy = Entropy.insecure(1)  # the same noise, of what it is to be
    variance = Fraction(13, 4) * changed / (2 * Fraction(parts["hours"].rho))

    def draw(times, count):
        return discrete_gaussian(times**2 * variance, count, entropy)

    rounds = RoundPoints(0, 1000, (1, 5, 10, 50, 100, 500))
    leaves = measured_leaves(
        *private.occurring("hours"), Fraction(math.sqrt(variance / 2)), 8, draw, rounds, laplace=False
    )
    assert found["hours"].edges == tuple(map(float, cuts_of(leaves, 8, rounds)))
    codes, counts = private.occurring("town")
    epsilon = math.sqrt(2 * parts["town"].rho) / changed
    named, _ = partition_selection.select(counts, epsilon, lone_delta(OPEN, account) / changed, entropy)
    texts = sorted(private.texts("town")[code] for code in codes[named])
    assert found["town"].categories == (*texts, OTHER)
    assert 2 <= len(texts) <= 4


@pytest.mark.parametrize("at_most", [None, 3])
def test_in_one_account_nothing_is_drawn_before_it_is_paid_for(at_most):
    class Nothing:
        """A source of randomness that there is not."""

    domain = replace(OPEN, person=None if at_most is None else Person("who", at_most))
    people = Table.from_frame(frame(30).assign(who=range(30)), domain)
    unit = Unit(Neighbours.ADD_REMOVE, at_most)
    held = Filter(ZCDP(1e-9))
    private = Private(
        people if at_most is None else people.bounded(b"k" * 16), unit.relation, held, Nothing(), unit=unit
    )
    with pytest.raises(BudgetExceeded):
        learn(private, one_account(domain, COST, unit))


def test_persons_are_paid_for_before_anything_is_drawn():
    class Nothing:
        """A source of randomness that there is not."""

    domain = replace(OPEN, person=Person("who", 3))
    table = Table.from_frame(frame(30).assign(who=range(30)), domain).bounded(b"k" * 16)
    private = Private(table, Neighbours.ADD_REMOVE, Filter(ZCDP(1e-9)), Nothing(), unit=Unit(Neighbours.ADD_REMOVE, 3))
    with pytest.raises(BudgetExceeded):
        learn(private, COST)


def test_nothing_is_drawn_where_the_budget_is_short():
    made, _ = curator(total=ApproxDP(1.0, 1e-5))
    with pytest.raises(BudgetExceeded):
        made.learn(COST)
    assert made.ledger.spent is None


@pytest.mark.parametrize("cost", [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 0.0)])
def test_categories_need_a_delta(cost):
    made, _ = curator()
    with pytest.raises(InvalidInput, match=r"delta above 0|must be PureDP or ApproxDP"):
        made.learn(cost)
    assert made.ledger.spent is None


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("open_", [HOURS, TOWN], ids=["bins", "categories"])
@pytest.mark.parametrize("cost", [ApproxDP(1e-40, 1e-9), ApproxDP(1e-15, 1e-6), ApproxDP(1e-9, 0.2)], ids=str)
def test_a_cost_that_buys_no_noise_is_refused_before_it_is_charged(cost, open_, neighbours):
    """Noise beyond the samplers; a reach beyond them; and so short a one that no noise would be drawn within it."""
    if open_ is HOURS and cost.epsilon == 1e-9:
        cost = ApproxDP(1e-15, 0.2)
    made, _ = curator(table=Table.from_frame(frame(), Domain((open_,))), neighbours=neighbours)
    with pytest.raises(InvalidInput, match=r"larger epsilon|too small to name|delta far below epsilon"):
        made.learn(cost)
    assert made.ledger.spent is None


def test_so_much_is_paid_that_there_is_no_noise():
    """Warnings are errors here, and after a charge nothing may fail."""
    cost = PureDP(MOST_SPENT)
    made, _ = curator(total=cost, table=Table.from_frame(frame(), Domain((HOURS,))))
    assert len(made.learn(cost).domain["hours"].edges) > 2


def test_a_table_that_is_not_decided_is_not_released():
    made, table = curator()
    with pytest.raises(InvalidInput, match="hours, town: must be learned first"):
        made.release(qr.Laplace(), Workload.marginals(Domain((SEX,)), 1), PureDP(1.0))
    with pytest.raises(InvalidInput, match="hours, town: must be learned first"):  # not that it has 2^32 queries
        Workload.marginals(table.domain, 2)
    assert made.ledger.spent is None
    with pytest.raises(InvalidInput, match="column 'sex' in another way"):
        table.viewed(Domain((HOURS, TOWN, Attribute("sex", "category", categories=("m", "f")))))
    assert "town[?]" in str(table)
    assert "Ur" not in repr(table)


def test_what_was_learned_is_free_the_second_time(tmp_path):
    made, _ = curator(tmp_path / "towns.ledger")
    assert not made.has_learned(COST)
    first = made.learn(COST)
    assert made.has_learned(COST)
    again = made.learn(COST)
    assert (again.domain, again.charge.fresh) == (first.domain, False)
    assert made.ledger.spent == COST
    with made.ledger:
        assert made.learn(COST, again=True).charge.id != first.charge.id
        assert made.ledger.spent == ApproxDP(4.0, 2e-6)


@pytest.mark.parametrize("records", [300, 301], ids=["the same records", "one more"])
def test_what_is_public_does_not_tell_whether_the_records_changed(records, tmp_path):
    """One more record since then makes no other entry in a ledger that is given away, and no other bins."""
    made, _ = curator(tmp_path / "towns.ledger", table=Table.from_frame(frame(300), OPEN))
    with made.ledger as ledger:
        first = made.learn(COST)
        more = pd.concat([frame(300), frame(300)[:1]], ignore_index=True)[:records]
        learned = Curator(Table.from_frame(more, OPEN), ledger).learn(COST, changed_rows=True)
        entries = [(entry["label"], entry["cost"]) for entry in public_part(ledger)["entries"]]
    assert learned.domain == first.domain
    assert entries == [("created", TOTAL.to_json()), ("schema: hours, town", COST.to_json())]


def test_one_cost_is_divided():
    first, rest = divided(OPEN, ApproxDP(1.0, 1e-6))
    assert first.epsilon + rest.epsilon <= 1.0
    assert first.epsilon == pytest.approx(LEARNING_SHARE)
    bins, rest = divided(Domain((HOURS, SEX)), ApproxDP(1.0, 1e-6))
    assert isinstance(bins, PureDP)  # without δ, which bins do not need
    assert (bins.epsilon, rest.delta) == (pytest.approx(LEARNING_SHARE), 1e-6)
    assert bins.epsilon + rest.epsilon <= 1.0
    assert sum(part.to_json()["epsilon"] for part in column_costs(OPEN, first).values()) <= first.epsilon
    parts = column_costs(OPEN, first)
    assert parts["town"].epsilon == pytest.approx(CATEGORIES_WEIGHT * parts["hours"].epsilon)
    of_persons, rest = divided(replace(OPEN, person=Person("who", 3)), ApproxDP(1.0, 1e-6))
    assert (of_persons.epsilon, of_persons.delta) == (pytest.approx(PERSONS_SHARE), pytest.approx(PERSONS_SHARE * 1e-6))
    assert of_persons.epsilon + rest.epsilon <= 1.0
    with pytest.raises(InvalidInput, match="leaves nothing"):
        divided(Domain((SEX,)), PureDP(1.0))


def test_no_rule_is_about_what_is_to_be_learned():
    about = Domain(OPEN.attributes, ("town = 'Ur' and sex = 'f'",))
    with pytest.raises(InvalidInput, match=r"impossible 1: .*'town' must be learned first"):
        Table.from_frame(frame(50), about)
    other = Domain((*OPEN.attributes, Attribute("age", "coded", codes=3)), ("age = 0 and sex = 'f'",))
    made, _ = curator(table=Table.from_frame(frame(500).assign(age=1), other))
    assert made.learn(COST).domain.impossible == other.impossible


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ('kind = "number"\nbins = { learn = 32 }', "only bins within a grid"),
        ('kind = "number"\nwithin = [0, 9]\nstep = 1\nbins = { learn = 0 }', "bins to be learned are"),
        ('kind = "number"\nwithin = [0, 9]\nstep = 1\nbins = { learn = 5000 }', "learn must be a whole number 2..1024"),
        ('kind = "category"\ncategories = { learn = false }', "categories to be learned are"),
        ('kind = "category"\ncategories = { learn = true, at_most = 1 }', "learn must be a whole number"),
        ('kind = "category"\ncategories = { learn = true }\noutside = "missing"\nmissing = [""]', "go to 'other'"),
    ],
)
def test_wrong_schemas_are_told(tmp_path, entry, told):
    (tmp_path / "s.toml").write_text(f'[[attribute]]\nname = "x"\n{entry}')
    with pytest.raises(InvalidInput, match=told):
        load(tmp_path / "s.toml", undecided=True)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    "cost",
    [
        ApproxDP(1e-300, 1e-9),
        ApproxDP(1e-15, 1e-6),
        ApproxDP(1e-9, 0.2),
        ApproxDP(0.5, 0.9),
        ApproxDP(1.0, 1e-300),
        ApproxDP(1e6, 1e-9),
        ApproxDP(1e300, 1e-9),
    ],
    ids=str,
)
def test_categories_of_persons_at_odd_costs_are_learned_or_refused_before_the_charge(cost, neighbours):
    people = frame(300).assign(who=[i // 3 for i in range(300)])
    domain = Domain((HOURS, TOWN), person=Person("who", 3))
    made, _ = curator(total=cost, table=Table.from_frame(people, domain), neighbours=neighbours, person="who")
    try:
        learned = made.learn(cost)
    except InvalidInput:
        assert made.ledger.spent is None
    else:
        assert OTHER in learned.domain["town"].categories
        assert made.ledger.spent == cost


@pytest.mark.parametrize("seed", [25, 27])
def test_a_column_that_is_one_value_and_a_list_without_a_name_are_released(seed):
    """Where only noise is told of columns, factors of a fit grew past what a number holds, and no answer was one."""
    texts = pd.DataFrame({"hours": ["40"] * 2000, "town": [f"T{i % 15}" for i in range(2000)]})
    hours = Attribute("hours", "number", within=(0, 168), step=1, learn=16)
    table = Table.from_frame(texts, Domain((hours, Attribute("town", "category", learn=100))))
    ledger = qr.Ledger.open(None, ApproxDP(1.0, 1e-9))
    learned = qr.Curator(table, ledger, Entropy.insecure(seed)).learn_for(qr.MaxEnt(), ApproxDP(0.5, 5e-10))
    assert learned.domain["town"].categories == ("other",)
    found = qr.Curator(table.viewed(learned.domain), ledger, Entropy.insecure(seed))
    workload = Workload.marginals(learned.domain, 2)
    answers = found.pay(qr.MaxEnt(), workload, learned.left.cost, learned=learned).release().answers()
    assert abs(answers.sum() - 2000) < 200
