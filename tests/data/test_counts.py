"""Counts of shards add up to those of all records, and a release of them is that of the records, bit for bit."""

import json
from itertools import pairwise

import numpy as np
import pytest
from worlds import PEOPLE, random_table

import qrelease as qr
from qrelease.data.counts import Counts
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.sources.row_queries import FILTERED
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

PAIRS = qr.Workload.marginals(PEOPLE, 2)
WHOLE = random_table(PEOPLE, 300, 0)


def shard(low, high):
    return Table(PEOPLE, tuple(column[low:high] for column in WHOLE.columns))


def counted(cuts=(0, 120, 300)):
    parts = [Counts.of(shard(a, b), PAIRS.sets) for a, b in pairwise(cuts)]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def curator(source, seed=3):
    return qr.Curator(source, qr.Ledger.open(None, qr.ApproxDP(50.0, 1e-3)), qr.Entropy.insecure(seed))


def test_shards_add_up():
    whole = counted()
    assert len(whole) == 300
    sets = [*PAIRS.sets, (1, 0), (2,), ()]
    for of_counts, of_records in zip(whole.counts(sets), WHOLE.counts(sets), strict=True):
        assert of_counts.tolist() == of_records.tolist()


MECHANISMS = [
    qr.Laplace(),
    qr.Gaussian(),
    qr.Matrix(),
    qr.MaxEnt(),
    qr.MWEM(rounds=2),
    qr.MWEM(rounds=2, choice="query", sweeps=1),
    qr.FittedRecords(weighted_records=200),
    qr.FittedRecords(weighted_records=200, at_once=False),
    qr.SmallDB(size=3),
    qr.Auto(),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_every_mechanism_releases_from_counts_what_it_releases_from_records(mechanism):
    cost = qr.PureDP(2.0) if isinstance(mechanism, qr.Matrix | qr.SmallDB) else qr.ApproxDP(2.0, 1e-6)
    asked = qr.Workload.marginals(PEOPLE, [PEOPLE.names[:1]]) if isinstance(mechanism, qr.Matrix) else PAIRS
    asked = qr.Workload.marginals(PEOPLE, 1) if isinstance(mechanism, qr.SmallDB) else asked
    try:
        mechanism.check(asked, cost, qr.Neighbours.ADD_REMOVE)
    except InvalidInput:
        cost = qr.PureDP(2.0) if not isinstance(cost, qr.PureDP) else qr.ApproxDP(2.0, 1e-6)
    one, two = (curator(source).release(mechanism, asked, cost) for source in (counted(), WHOLE))
    assert one.synopsis.answer(asked).tolist() == two.synopsis.answer(asked).tolist()


def test_the_digest_does_not_depend_on_the_shards_and_does_on_a_record():
    digests = {counted(cuts).fingerprint(b"key") for cuts in ((0, 120, 300), (0, 300), (0, 1, 300))}
    assert len(digests) == 1
    assert counted((0, 299)).fingerprint(b"key") not in digests
    assert counted().fingerprint(b"other") not in digests


def test_shards_that_do_not_fit_together_are_refused():
    first = counted((0, 120))
    with pytest.raises(InvalidInput, match="counted twice"):
        _ = first + counted((0, 120))
    with pytest.raises(InvalidInput, match="counted twice"):
        _ = counted() + first
    with pytest.raises(InvalidInput, match="different sets"):
        _ = first + Counts.of(shard(120, 300), [])
    other = Domain.coded({"a": 2})
    with pytest.raises(InvalidInput, match="different schemas"):
        _ = first + Counts.of(Table(other, (np.array([0]),)), [])


def one_record(origin=None):
    return Counts.of(shard(0, 1), PAIRS.sets, origin)


def test_equal_shards_from_two_places_add_up(tmp_path):
    both = one_record(tmp_path / "a.csv") + one_record(tmp_path / "b.csv")
    assert len(both) == 2
    assert both.equal_shards == 1
    assert counted().equal_shards == 0
    both.save(tmp_path / "both.counts")
    loaded = Counts.load(tmp_path / "both.counts")
    assert len(loaded + one_record(tmp_path / "c.csv")) == 3
    assert str(tmp_path).encode() not in (tmp_path / "both.counts").read_bytes()
    for again in (one_record(tmp_path / "b.csv"), one_record(tmp_path / "x" / ".." / "a.csv"), one_record(), loaded):
        with pytest.raises(InvalidInput, match="counted twice"):
            _ = loaded + again


def test_one_file_under_two_names_is_one_shard(tmp_path):
    (tmp_path / "a.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(InvalidInput, match="counted twice"):
        _ = one_record(tmp_path / "a.csv") + one_record(tmp_path / "link.csv")


def test_counts_without_places_are_told_by_their_records(tmp_path):
    """As those are that earlier versions wrote."""
    one_record(tmp_path / "a.csv").save(tmp_path / "a.counts")
    with np.load(tmp_path / "a.counts") as file:
        head, counts = json.loads(str(file["head"])), file["counts"]
    del head["origins"]
    with open(tmp_path / "old.counts", "wb") as file:
        np.savez_compressed(file, head=np.array(json.dumps(head)), counts=counts)
    old = Counts.load(tmp_path / "old.counts")
    assert len(old + Counts.of(shard(1, 3), PAIRS.sets, tmp_path / "a.csv")) == 3
    with pytest.raises(InvalidInput, match="counted twice"):
        _ = old + one_record(tmp_path / "b.csv")


def test_what_needs_records_or_other_counts_is_refused_before_a_charge():
    held = curator(counted())
    cost = qr.PureDP(1.0)
    triples = qr.Workload.marginals(PEOPLE, [PEOPLE.names[:3]])
    for asked in (
        lambda: held.release(qr.Laplace(), triples, cost),
        lambda: held.estimate(qr.Mean(PEOPLE.names[0]), cost),
        lambda: held.open(qr.PrivateMultiplicativeWeights(), cost),
        lambda: held.learn(cost),
    ):
        with pytest.raises(InvalidInput, match=r"was not counted|needs single records"):
            asked()
    assert held.ledger.spent is None or not held.ledger.charges


def test_persons_and_open_schemas_are_refused():
    person = Domain(Domain.coded({"a": 2}).attributes, person=Person("id", 2))
    with pytest.raises(InvalidInput, match="the unit is a person"):
        Counts.of(Table.of_persons(person, [np.array([0])], ["x"]), [])
    learned = Domain((Attribute("hours", "number", within=(0, 99), step=1, learn=4),))
    with pytest.raises(InvalidInput, match="hours"):
        Counts.of(Table(learned, (np.array([0]),)), [])


def test_files_of_counts_are_read_as_they_were_written_and_checked(tmp_path):
    for low, high in ((0, 120), (120, 300)):
        counted((low, high)).save(tmp_path / f"{low}.counts")
    assert (tmp_path / "0.counts").stat().st_mode & 0o77 == 0
    found = Counts.load(tmp_path)
    assert found.fingerprint(b"key") == counted().fingerprint(b"key")
    assert found.domain == PEOPLE
    assert [t.tolist() for t in found.counts(PAIRS.sets)] == [t.tolist() for t in WHOLE.counts(PAIRS.sets)]
    with pytest.raises(InvalidInput, match="exists already"):
        counted((0, 120)).save(tmp_path / "0.counts")
    content = (tmp_path / "0.counts").read_bytes()
    (tmp_path / "again.counts").write_bytes(content)
    with pytest.raises(InvalidInput, match="counted twice"):
        Counts.load(tmp_path)
    for broken in (content[: len(content) // 2], b"", b"x"):
        (tmp_path / "again.counts").write_bytes(broken)
        with pytest.raises(InvalidInput, match="not a file of counts"):
            Counts.load(tmp_path)


def test_changed_counts_are_noticed(tmp_path):
    counted((0, 120)).save(tmp_path / "a.counts")
    with np.load(tmp_path / "a.counts") as file:
        head, counts = file["head"], file["counts"].copy()
    counts[0] += 1
    with open(tmp_path / "b.counts", "wb") as file:
        np.savez_compressed(file, head=head, counts=counts)
    with pytest.raises(InvalidInput, match="do not sum"):
        Counts.load(tmp_path / "b.counts")


def test_counts_of_records_whose_number_is_private_are_not_replaced(tmp_path):
    """What makes the number of records private goes with the counts, through sums and files."""
    first, second = (
        Table(PEOPLE, part.columns, private_size=why) for part, why in ((shard(0, 9), ""), (shard(9, 20), FILTERED))
    )
    counts = Counts.of(first, PAIRS.sets) + Counts.of(second, PAIRS.sets)
    counts.save(tmp_path / "some.counts")
    for source in (counts, Counts.load(tmp_path / "some.counts"), Counts.of(second, PAIRS.sets) + counted((20, 300))):
        with (
            qr.Ledger.open(None, qr.ApproxDP(1.0, 1e-3), neighbours="replace-one") as ledger,
            pytest.raises(InvalidInput, match="filters or joins gives is private"),
        ):
            qr.Curator(source, ledger)
    with qr.Ledger.open(None, qr.ApproxDP(1.0, 1e-3), neighbours="replace-one") as ledger:
        qr.Curator(Counts.of(first, PAIRS.sets), ledger)
