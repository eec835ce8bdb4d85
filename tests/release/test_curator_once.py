"""Persons who count once: all tables of three of them with up to three records each, and what is said and refused."""

from functools import cache, partial
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from audits import listed
from persons_listed import KEYS, TABLES, counted, pairs_of, table_of, worst_of

from qrelease.apps.cli import main
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.fractional_records import FractionalRecords
from qrelease.data.person import Person
from qrelease.data.schema import domain_from_json, to_toml
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.evaluate import evaluate
from qrelease.evaluation.planning import plan
from qrelease.evaluation.verify import verify
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.online.session import Online
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load
from qrelease.statistics.sums import Sum

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def domain_with(at_most, sizes):
    return Domain(Domain.coded(sizes).attributes, person=Person("who", at_most, weights="persons"))


HALVES, THIRDS = domain_with(2, {"a": 2}), domain_with(3, {"a": 2})
"""With at most two records a person counts in halves, so that two cells can be listed at once; with three in parts of
256, for one answer at a time."""


@cache
def pairs(bounded, relation, domain=HALVES):
    """Under replace-one, of as many persons: their number is public."""
    return pairs_of(counted(domain, bounded), relation, same=relation is SWAP)


def apart(bounded, relation, domain):
    """One pair for each difference, the furthest first: added noise has the same laws for all that are alike."""
    found = {}
    for a, b in pairs(bounded, relation, domain):
        difference = tuple(np.subtract(a, b).tolist())
        found[max(difference, tuple(-d for d in difference))] = a, b
    return [found[d] for d in sorted(found, key=lambda d: -sum(map(abs, d)))]


def of_counts(counts, domain=HALVES):
    return FractionalRecords(domain, (np.array([0, 1], np.uint8),), np.array(counts))


def door(counts, relation, claim, choices, unit=None, domain=HALVES):
    """What the curator hands to a mechanism, and what it may cost."""
    unit = Unit.of(relation, domain) if unit is None else unit
    cost = unit.of_a_record(claim)
    return Private(of_counts(counts, domain), unit.relation, Filter(cost), choices, unit=unit), cost


def measured(mechanism, workload):
    def made(relation, claim):
        def run(counts, choices):
            private, cost = door(counts, relation, claim, choices, domain=workload.domain)
            found = mechanism.release(private, workload, cost).measurements
            return tuple(v for m in found for v in m.values.tolist())

        return run

    return made


def count(relation, claim, domain=HALVES):
    def run(counts, choices):
        private, cost = door(counts, relation, claim, choices, domain=domain)
        return private.count(cost)[0]

    return run


def selected(rule):
    """The larger of two counts, or what their difference is at least: scores as `records` has them, in parts."""

    def made(relation, claim, domain=HALVES):
        def run(counts, choices):
            private, cost = door(counts, relation, claim, choices, domain=domain)
            (exact,) = private.exact(Workload.marginals(domain, 1))
            moved = (1 if relation is ADD else 2) << private.weight_bits
            return private.select(np.array([exact[0] - exact[1], exact[1] - exact[0]]), moved, cost, rule)

        return run

    return made


CELLS, ONE = Workload.marginals(HALVES, 1), Workload.parse(THIRDS, "where:a = 1")
BOUNDED = [partial(Table.bounded, key=key) for key in KEYS]
MECHANISMS = {
    "laplace": (measured(Laplace(), CELLS), PureDP(3.0), 0.9),
    "gaussian in rho": (measured(Gaussian(), CELLS), ZCDP(2.0), 0.7),
    "gaussian": (measured(Gaussian(), CELLS), ApproxDP(3.0, 1e-2), 0.4),
    "maxent": (measured(MaxEnt(records=3), CELLS), PureDP(3.0), 0.4),
    "count": (count, PureDP(2.0), 0.9),
    "count in rho": (count, ZCDP(1.0), 0.7),
    "exponential": (selected("exponential"), PureDP(2.0), 0.3),
    "permute-and-flip": (selected("permute-and-flip"), PureDP(2.0), 0.3),
}
OF_ONE = {
    "laplace": (measured(Laplace(), ONE), PureDP(12.0), 0.9),
    "gaussian in rho": (measured(Gaussian(), ONE), ZCDP(30.0), 0.6),
    "gaussian": (measured(Gaussian(), ONE), ApproxDP(12.0, 1e-2), 0.2),
    "count": (partial(count, domain=THIRDS), PureDP(12.0), 0.9),
    "exponential": (partial(selected("exponential"), domain=THIRDS), PureDP(2.0), 0.3),
}


@pytest.fixture
def noise_is_listed(monkeypatch):
    listed(monkeypatch)


SLOW = ("gaussian", "gaussian in rho", "maxent")
LISTED = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MECHANISMS]


@pytest.mark.parametrize("bounded", BOUNDED)
@pytest.mark.parametrize("domain", [HALVES, THIRDS, domain_with(1, {"a": 2})], ids=["2", "3", "1"])
def test_each_person_counts_once_in_every_table_and_by_every_key(bounded, domain):
    for owned in TABLES:
        kept = bounded(table_of(domain, owned))
        persons = sum(bool(own) for own in owned)
        assert kept.parts.sum() == persons << domain.weight_bits
        assert len(kept) == persons
        assert len(kept.parts) == sum(min(len(own), domain.at_most) for own in owned)


@pytest.mark.usefixtures("noise_is_listed")
@pytest.mark.parametrize("relation", [ADD, SWAP], ids=lambda r: r.value)
@pytest.mark.parametrize("name", LISTED)
def test_every_mechanism_keeps_what_a_person_is_promised(name, relation):
    made, claim, close = MECHANISMS[name]
    found = worst_of(made(relation, claim), pairs(BOUNDED[0], relation), claim)
    assert not found.convicted, found
    if relation is ADD or not name.startswith("count"):  # under replace-one the count is public
        assert found.bound > close * next(iter(claim.to_json().values()))


@pytest.mark.usefixtures("noise_is_listed")
@pytest.mark.parametrize("relation", [ADD, SWAP], ids=lambda r: r.value)
@pytest.mark.parametrize("name", OF_ONE)
def test_every_mechanism_keeps_it_in_parts_that_are_rounded(name, relation):
    made, claim, close = OF_ONE[name]
    found = worst_of(made(relation, claim), apart(BOUNDED[0], relation, THIRDS), claim)
    assert not found.convicted, found
    if relation is ADD or name != "count":
        assert found.bound > close * next(iter(claim.to_json().values()))


@pytest.mark.slow
@pytest.mark.usefixtures("noise_is_listed")
@pytest.mark.parametrize("relation", [ADD, SWAP], ids=lambda r: r.value)
@pytest.mark.parametrize("name", OF_ONE)
def test_every_mechanism_keeps_it_in_parts_that_are_rounded_by_any_key(name, relation):
    """Of what other keys come to: but for a pair or two, it was compared for the first."""
    made, claim, _ = OF_ONE[name]
    others = {pair for bounded in BOUNDED[1:] for pair in apart(bounded, relation, THIRDS)}
    new = others - {*apart(BOUNDED[0], relation, THIRDS)}
    found = worst_of(made(relation, claim), sorted(new), claim)
    assert not found.convicted, found


# --- broken twins


def each_counts_one(table):
    """Records that are kept count one each, at the price of a person who counts once."""
    kept = table.bounded(KEYS[0])
    return FractionalRecords(table.domain, kept.columns, np.full(len(kept.parts), 1 << table.domain.weight_bits))


def rounded_up(table):
    """Each record's part is rounded by itself: three thirds come to more than one."""
    kept = table.bounded(KEYS[0])
    return FractionalRecords(table.domain, kept.columns, np.where(kept.parts < 1 << 7, 86, kept.parts))


def by_the_share_of_all(table):
    """Each record counts its share of the records of all: one person less moves those of the others."""
    kept = table.bounded(KEYS[0])
    each = (3 << table.domain.weight_bits) // max(len(kept.parts), 1)
    return FractionalRecords(table.domain, kept.columns, np.full(len(kept.parts), each))


@pytest.mark.usefixtures("noise_is_listed")
@pytest.mark.parametrize("wrong", [each_counts_one, rounded_up, by_the_share_of_all])
def test_a_twin_that_counts_otherwise_is_convicted(wrong):
    made, claim, _ = OF_ONE["laplace"]
    assert worst_of(made(ADD, claim), apart(wrong, ADD, THIRDS)[:4], claim).convicted


@pytest.mark.usefixtures("noise_is_listed")
def test_a_twin_whose_parts_do_not_sum_to_one_has_no_public_number_of_persons():
    def cut(table):
        kept = table.bounded(KEYS[0])
        return FractionalRecords(table.domain, kept.columns, np.minimum(kept.parts, 85))

    def total(counts, choices):
        private, _ = door(counts, SWAP, PureDP(1.0), choices, domain=THIRDS)
        return private.public_records

    assert not worst_of(total, pairs(BOUNDED[0], SWAP, THIRDS), PureDP(1.0)).convicted
    assert worst_of(total, pairs(cut, SWAP, THIRDS), PureDP(1.0)).convicted


# --- through the doors

DOMAIN = domain_with(3, {"a": 3, "b": 4})
WORKLOAD = Workload.marginals(DOMAIN, 2)


def made(domain=DOMAIN, n=4_000, persons=500, seed=0):
    """Persons with many records say another `a` than those with few."""
    rng = np.random.default_rng(seed)
    whose = np.minimum(rng.geometric(0.02, size=n), persons)
    first = np.where(whose < 40, 0, rng.integers(domain.shape[0], size=n))
    columns = [first, *(rng.integers(size, size=n) for size in domain.shape[1:])]
    return Table.of_persons(domain, columns, [f"p{i}" for i in whose])


TABLE = made()
PERSONS = len(TABLE.persons.digests)
ALL = [Laplace(), Gaussian(), MaxEnt(), FittedRecords(), FittedRecords(at_once=False), Matrix(), Auto()]


def truth(table):
    """The two-way marginal of all records, in parts of persons."""
    codes = table.persons.codes
    cells = np.ravel_multi_index([c.astype(int) for c in table.columns], table.domain.shape)
    return np.bincount(cells, 1 / np.bincount(codes)[codes], table.domain.size)


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("mechanism", ALL, ids=str)
def test_a_release_is_of_persons_at_the_noise_of_one_record(mechanism, neighbours):
    cost = PureDP(100.0) if isinstance(mechanism, Laplace) else ApproxDP(100.0, 1e-6)
    with Ledger.open(None, cost, neighbours=neighbours, person="who") as ledger:
        release = Curator(TABLE, ledger, Entropy.insecure(1)).release(mechanism, WORKLOAD, cost)
        assert ledger.spent == cost
    assert release.unit == Unit(neighbours, 3, counts_once=True)
    assert release.unit.public_records == (neighbours is SWAP)
    assert abs(release.synopsis.total - PERSONS) <= (0 if neighbours is SWAP else 20)
    far = np.abs(release.answers() - truth(TABLE)).max()
    counts = np.abs(np.concatenate(TABLE.counts(WORKLOAD.sets)) * (PERSONS / len(TABLE)) - truth(TABLE)).max()
    assert far < counts / 3, (far, counts)  # records that count one each answer another question


def test_what_is_kept_of_persons_is_unbiased_and_less_scattered_than_one_record_of_each():
    def errors(at_most):
        domain = domain_with(at_most, {"a": 3, "b": 4})
        table = Table(domain, TABLE.columns, TABLE.persons)
        found = [table.bounded(bytes([k]) * 16).counts([(0, 1)])[0] / 2.0**domain.weight_bits for k in range(60)]
        return np.array(found) - truth(TABLE)

    one, five = errors(1), errors(5)
    spread = five.std(axis=0) / np.sqrt(len(five))
    assert (np.abs(five.mean(axis=0)) < 5 * spread + 1e-9).all()
    assert (five**2).sum() < 0.5 * (one**2).sum()


def test_a_release_says_that_persons_count_once_and_is_read_and_verified(tmp_path):
    cost = ApproxDP(3.0, 1e-6)
    with Ledger.open(None, cost, person="who") as ledger:
        release = Curator(TABLE, ledger).release(MaxEnt(), WORKLOAD, cost)
    release.save(tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.unit == release.unit
    assert again.domain.person.weights == "persons"
    assert "of a person who counts once, with at most 3 records" in repr(again)
    assert verify(tmp_path / "out").holds
    page = (tmp_path / "out" / "report.html").read_text()
    assert "each person counts once" in page
    assert "<dt>persons</dt>" in page
    codes = again.codes(None, np.random.default_rng(0))
    assert len(codes[0]) == round(again.synopsis.total)


def test_a_manifest_that_says_so_afterwards_is_refused(tmp_path):
    """Another unit has other parts of the cost: m times as much as was paid."""
    plain = Domain(DOMAIN.attributes, person=Person("who", 3))
    with Ledger.open(None, PureDP(3.0), person="who") as ledger:
        curator = Curator(made(plain), ledger, Entropy.insecure(2))
        curator.release(Laplace(), Workload.marginals(plain, 2), PureDP(3.0)).save(tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    file.write_text(file.read_text().replace('"at_most": 3', '"at_most": 3, "weights": "persons"', 1))
    assert not verify(tmp_path / "out").holds


@pytest.mark.parametrize(
    ("mechanism", "told"),
    [
        (MWEM(), "mwem counts records, and here each person counts once: take a release by laplace"),
        (SmallDB(), "smalldb counts records, and here each person counts once: take a release by laplace"),
        (NumberSums(("mean:a",)), "questions about numbers are measured by sums over records, .* leave out --numbers"),
    ],
)
def test_what_counts_records_is_refused_with_what_does_not(mechanism, told):
    with Ledger.open(None, PureDP(9.0), person="who") as ledger:
        with pytest.raises(InvalidInput, match=f"^{told}"):
            Curator(TABLE, ledger).release(mechanism, WORKLOAD, PureDP(1.0))
        assert ledger.spent is None


def test_sessions_and_estimates_are_refused():
    with Ledger.open(None, PureDP(9.0), person="who") as ledger:
        curator = Curator(TABLE, ledger)
        with pytest.raises(InvalidInput, match=r"^a session counts records"):
            curator.open(Online(alpha=0.1), PureDP(1.0))
        with pytest.raises(InvalidInput, match=r"^an estimate counts records"):
            curator.estimate(Sum("a"), PureDP(1.0))
        assert ledger.spent is None


def test_a_schema_is_learned_of_records_at_their_price():
    """Of all kept records, m of each person, whoever counts once afterwards."""
    open_domain = Domain(
        (Attribute("minutes", "number", within=(0, 99), step=1, learn=4),),
        person=Person("who", 3, weights="persons"),
    )
    rng = np.random.default_rng(3)
    table = Table.of_persons(open_domain, [rng.integers(100, size=900)], [f"p{i % 300}" for i in range(900)])
    with Ledger.open(None, PureDP(4.0), person="who") as ledger:
        curator = Curator(table, ledger, Entropy.insecure(4))
        learned = curator.learn(PureDP(3.0))
        assert len(learned.domain["minutes"].edges) == 5
        whole = table.viewed(learned.domain)
        workload = Workload.marginals(whole.domain, 1)
        curator = Curator(whole, ledger, Entropy.insecure(5))
        release = curator.release(Laplace(), workload, PureDP(1.0), changed_rows=True)
    assert abs(release.synopsis.total - 300) < 60


def test_on_the_command_line(tmp_path, capsys):
    data, schema = tmp_path / "visits.csv", tmp_path / "visits.toml"
    data.write_text("who,a,b\n" + "".join(f"p{i % 40},{i % 3},{i % 4}\n" for i in range(400)))
    schema.write_text(to_toml(DOMAIN))
    given = [str(data), "--schema", str(schema), "--epsilon", "3"]
    total = ["--total-epsilon", "9"]  # which leaves enough for what is refused for another reason
    assert main(["release", *given, *total, "--mechanism", "laplace", "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["release", *given, "--mechanism", "mwem", "--out", str(tmp_path / "no")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["estimate", *given, "mean:a"]) == 2
    assert "counts records, and here each person counts once" in capsys.readouterr().err
    # Neither of the two pieces of advice is refused by the other: sums of numbers cannot be had here.
    assert main(["release", *given, "--numbers", "mean:a by b", "--out", str(tmp_path / "no")]) == 2
    assert "leave out --numbers" in capsys.readouterr().err
    assert main(["release", *given, "--workload", "marginals:1", "--out", str(tmp_path / "alone")]) == 0
    capsys.readouterr()
    assert main(["answer", str(tmp_path / "alone"), "mean:a by b"]) == 0
    assert capsys.readouterr().out.endswith("measure it: qrelease release --workload 'marginals:a*b'\n")
    both = ["--workload", "marginals:a*b", "--epsilon", "1", "--out", str(tmp_path / "both")]
    assert main(["release", *given, *both]) == 0
    capsys.readouterr()
    assert main(["answer", str(tmp_path / "both"), "mean:a by b"]) == 0
    assert "no interval" not in capsys.readouterr().out


def test_a_plan_tells_both_ways():
    plain = Workload.marginals(Domain(DOMAIN.attributes, person=Person("who", 3)), 2)
    for workload in (plain, WORKLOAD):
        found = plan(workload, 10_000, epsilon=1.0, trials=0, persons=2_000)
        by = {(b.at_most, b.weights): b.deviation for b in found.bounds}
        assert by[3, "records"] == pytest.approx(3 * by[3, "persons"], rel=0.05)
        assert "at_most = 3, weights = 'persons'" in str(found)
        if workload is plain:
            assert by[3, "persons"] == pytest.approx(by[1, "records"], rel=0.01)
        else:
            assert by[20, "persons"] == pytest.approx(by[1, "persons"], rel=0.01)
    promised = {f.mechanism: f.promised for f in found.forecasts}
    assert promised["mwem"] is None
    assert promised["laplace"] is not None


def test_an_evaluation_compares_with_all_records_in_parts_of_persons():
    found = evaluate(TABLE, WORKLOAD, {"mwem": MWEM(), "maxent": MaxEnt()}, [100.0], entropy=Entropy.insecure(0))
    assert "mwem" in found.skipped
    plain = Domain(DOMAIN.attributes, person=Person("who", 3))
    records = Table(plain, TABLE.columns, TABLE.persons)
    other = evaluate(records, Workload.marginals(plain, 2), {"maxent": MaxEnt()}, [100.0], entropy=Entropy.insecure(0))
    assert found.error("maxent", 100.0) < other.error("maxent", 100.0) / 2  # frequent ones are not left out


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"weights": "people"}, "weights must be 'records' or 'persons', got 'people'"),
        ({"weights": True}, "weights must be 'records' or 'persons', got True"),
        ({"weights": "persons", "at_most": 2000}, "at_most must be at most 1,024 where each person counts once"),
        (
            {"weights": "persons", "at_most": 1, "derive": {"n": {"take": "count", "bins": [0, 1, 9]}}},
            "weights cannot be used with",
        ),
    ],
)
def test_what_is_wrong_is_told(entry, said):
    attributes = [{"name": "a", "kind": "coded", "codes": 2}]
    with pytest.raises(InvalidInput, match=said):
        domain_from_json({"attribute": attributes, "person": {"column": "who", "at_most": 3, **entry}})


# --- records with the columns of their parents

_ONCE = Person("id", 2, weights="persons")
_PARENT = Domain((Attribute("parent", "coded", codes=2, missing=("",)),), person=_ONCE)
_CHILD = Domain((Attribute("child", "coded", codes=2),), person=_ONCE)
_CHILDREN = [children for n in range(4) for children in combinations_with_replacement((0, 1), n)]
_FAMILIES = list(product((None, 0, 1), _CHILDREN))


def joined(*families):
    """Children with the column of their parent; some have no row of a parent, and some parents no children."""
    rows = [(f"p{i}", parent) for i, (parent, _) in enumerate(families) if parent is not None]
    children = [(f"p{i}", child) for i, (_, own) in enumerate(families) for child in own]
    tables = (
        Table.of_persons(domain, [np.array([value for _, value in table], int)], [who for who, _ in table])
        for domain, table in ((_PARENT, rows), (_CHILD, children))
    )
    return next(parents := tables), next(parents)


def counts_of(*families):
    parents, children = joined(*families)
    kept = children.joined(parents).bounded(b"key")
    return kept.counts([(0, 1)])[0] / 2**kept.weight_bits


@pytest.mark.parametrize("least", [1, 0])
def test_a_family_moves_no_more_than_a_record_where_it_has_a_child(least):
    """All pairs: one that has no child moves the number of persons, so replace-one is refused for all."""
    seen = [counts_of((1, (0, 1)), family) for family in _FAMILIES if len(family[1]) >= least]
    moved = [one - other for one, other in product(seen, seen)]
    assert max(np.abs(m).sum() for m in moved) == 2
    assert max(abs(m.sum()) for m in moved) == (not least)


def test_parents_who_count_once_are_not_replaced():
    parents, children = joined(*_FAMILIES)
    table = children.joined(parents)
    for cut in (table, table.ordered(table.domain)):
        refused = pytest.raises(InvalidInput, match="how many parents have children is private")
        with Ledger.open(None, PureDP(1.0), neighbours="replace-one", person="id") as ledger, refused:
            Curator(cut, ledger)
        with Ledger.open(None, PureDP(1.0), person="id") as ledger:
            Curator(cut, ledger)
    with Ledger.open(None, PureDP(1.0), neighbours="replace-one", person="id") as ledger:
        Curator(children, ledger)
