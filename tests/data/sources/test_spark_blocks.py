"""What Spark's workers do, without Spark: blocks of records, in whatever cuts they come, say what their table does."""

from itertools import chain, pairwise

import numpy as np
import pytest
from sources import DERIVED, FRAME, RECORDS

from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.persons import bucket
from qrelease.data.schema import load
from qrelease.data.sources import spark_blocks
from qrelease.data.sources.spark_blocks import CHUNK, BlockReading, Layout
from qrelease.data.table import Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

COST = Attribute("cost", "number", edges=(0, 20, 50, 100.1), within=(0, 100), step=0.1)
VISITS = pa.table({**FRAME, "cost": [(37 * i % 1000) / 10 for i in range(200)]})
PLAIN = Domain((*RECORDS, COST))
PERSONS = Domain((*RECORDS, COST), person=Person("id", 3))
SETS = [(0,), (0, 1), (2,), ()]
CUTS = [(), (70,), (1, 2, 150)]


def batches(cuts):
    """The records as partitions of batches would have them."""
    places = [0, *cuts, len(VISITS)]
    return [VISITS.slice(a, b - a).combine_chunks().to_batches() for a, b in pairwise(places)]


def reading(domain, buckets=5):
    columns = {attribute.name: attribute.name for attribute in domain}
    person = None if domain.person is None else domain.person.column
    return BlockReading(Layout(domain, domain.person is not None), columns, person, buckets)


def blocks(domain, cuts, derived=None):
    """The blocks of all records; where a person is the unit, of those of each bucket, as Spark brings them together."""
    asked = reading(domain)
    found = [row for part in batches(cuts) for row in spark_blocks.encoded_blocks(iter(part), asked)]
    if domain.person is None:
        return found
    found.sort(key=lambda row: row.column("bucket")[0].as_py())
    return list(spark_blocks.gathered_blocks(iter(found), asked, derived))


def total_counts(found, layout, partitions):
    """The marginals, from partial counts of some blocks each."""
    totals = {}
    for part in np.array_split(np.arange(len(found)), partitions):
        for row in spark_blocks.counted((found[i] for i in part), layout, SETS, 1):
            spark_blocks.add_counts(row, totals, 1)
    cells = sum(layout.domain.cells(axes) for axes in SETS)
    flat = np.concatenate([totals.get((0, chunk), np.zeros(CHUNK, int)) for chunk in range(cells // CHUNK + 1)])
    return np.split(flat[:cells], np.cumsum([layout.domain.cells(axes) for axes in SETS])[:-1]), flat[cells]


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("domain", [PLAIN, PERSONS], ids=["records", "persons"])
def test_counts_are_those_of_the_table(domain, cuts):
    table, layout = Table.from_frame(VISITS, domain), Layout(domain, domain.person is not None)
    found, records = total_counts(blocks(domain, cuts), layout, 2)
    assert records == 200
    for ours, theirs in zip(found, table.counts(SETS), strict=True):
        assert ours.tolist() == theirs.tolist()
    (tallied,) = spark_blocks.tallied(iter(blocks(domain, cuts)))
    assert tallied.column("records")[0].as_py() == 200
    assert list(spark_blocks.tallied(iter([]))) == []


@pytest.mark.parametrize("cuts", CUTS)
def test_a_block_is_the_records_of_some_persons_and_all_of_theirs(cuts):
    layout = Layout(PERSONS, True)
    tables = [layout.table(block, 0) for block in blocks(PERSONS, cuts)]
    assert sorted(len(table.persons.digests) for table in tables) == sorted(
        np.unique([bucket(f"p{i}", 5) for i in range(30)], return_counts=True)[1]
    )
    rows = [(*(c.tolist() for c in table.columns), table.points[2].tolist()) for table in tables]
    ours = sorted(chain.from_iterable(zip(*row, strict=True) for row in rows))
    whole = Table.from_frame(VISITS, PERSONS)
    assert ours == sorted(zip(*(c.tolist() for c in whole.columns), whole.points[2].tolist(), strict=True))


@pytest.mark.parametrize("cuts", CUTS)
def test_the_records_that_are_kept_are_those_that_a_table_keeps(cuts):
    layout = Layout(PERSONS, True)
    kept = list(spark_blocks.bounded(iter(blocks(PERSONS, cuts)), layout, b"secret"))
    found, records = total_counts(kept, layout, 1)
    theirs = Table.from_frame(VISITS, PERSONS).bounded(b"secret")
    assert records == len(theirs) == 90
    for ours, wanted in zip(found, theirs.counts(SETS), strict=True):
        assert ours.tolist() == wanted.tolist()


def test_hashes_are_summed_to_the_same_whatever_block_a_record_is_in():
    layout = Layout(PLAIN, False)
    sums = []
    for cuts in CUTS:
        rows = [r for block in blocks(PLAIN, cuts) for r in spark_blocks.summed(iter([block]), layout, b"key")]
        words = [sum(int.from_bytes(r.column(n)[0].as_py(), "little") for r in rows) for n in ("first", "second")]
        sums.append((sum(r.column("records")[0].as_py() for r in rows), *(word % (1 << 64) for word in words)))
    assert sums[0] == sums[1] == sums[2]
    other = next(spark_blocks.summed(iter(blocks(PLAIN, ())), layout, b"other"))
    assert int.from_bytes(other.column("first")[0].as_py(), "little") != sums[0][1]


def test_columns_are_derived_of_all_records_of_a_person(tmp_path):
    (tmp_path / "derived.toml").write_text(DERIVED)
    domain = load(tmp_path / "derived.toml")
    records = Domain(domain.person.records, person=Person("id", 1))
    layout = Layout(domain, False)
    tables = [layout.table(block, 0) for block in blocks(records, (70,), domain)]
    ours = sorted(chain.from_iterable(zip(*(c.tolist() for c in table.columns), strict=True) for table in tables))
    whole = Table.from_frame(VISITS, domain)
    assert ours == sorted(zip(*(c.tolist() for c in whole.columns), strict=True))
    assert len(ours) == 30


@pytest.mark.parametrize("filled", [3, CHUNK // 2], ids=["few", "many"])
def test_partial_counts_are_added_up_by_branch_and_chunk(filled):
    """Few counts that are not 0 are spelled by their places, many as they are."""
    rng = np.random.default_rng(0)
    exact = np.zeros(CHUNK, np.int64)
    domain = Domain.coded({"a": 2 * CHUNK})
    layout, rows = Layout(domain, False), []
    for part in range(3):
        column = rng.choice(CHUNK, filled)[rng.integers(0, filled, 4 * filled)]
        exact += np.bincount(column, minlength=CHUNK)
        block = layout.block(Table(domain, (column,)))
        for row in spark_blocks.counted(iter([block]), layout, [(0,)], 8):
            chunk = row.column("chunk")[0].as_py()
            rows += [pa.record_batch({**dict(zip(row.schema.names, row.columns, strict=True)), "branch": [part + 4]})]
            assert chunk in (0, 2)  # the second has no records; the last has their number
    once = list(spark_blocks.added(iter(rows), 2))
    assert sorted((r.column("branch")[0].as_py(), r.column("chunk")[0].as_py()) for r in once) == [
        *((0, 0), (0, 2), (1, 0), (1, 2)),
    ]
    totals = {}
    for row in once:
        spark_blocks.add_counts(row, totals, 1)
    assert totals[0, 0].tolist() == exact.tolist()
    assert totals[0, 2][0] == exact.sum()
    assert sum(r.nbytes for r in once) < (4000 if filled == 3 else 1 << 22)
