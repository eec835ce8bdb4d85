"""Spark's frames: what a table with the same records says, to the last bit, on any number of partitions."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sources import DERIVED, FRAME, RECORDS

import qrelease as qr
from qrelease.data.schema import load, to_toml
from qrelease.data.writing import Writing
from qrelease.errors import InvalidInput, QReleaseError

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),  # of pyspark, about pandas 3 among others
]

VISITS = {**FRAME, "cost": [(37 * i % 1000) / 10 for i in range(200)]}
COST = qr.Attribute("cost", "number", edges=(0, 20, 50, 100), within=(0, 100), step=0.1)
PERSONS = qr.Domain((*RECORDS, COST), person=qr.Person("id", 3))
SETS = [(0, 1), (2, 0), (), (1,), (0, 1, 2)]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    from pyspark.sql import SparkSession

    folder = str(tmp_path_factory.mktemp("spark"))
    before = dict(os.environ)
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
    }
    found = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()
    os.environ.clear()
    os.environ.update(before)


CLUSTER = """
import json, sys
from pyspark.sql import SparkSession
import qrelease as qr

settings, records, schema, sets = map(json.loads, sys.argv[1:])
session = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()
held = qr.spark.source(session.read.parquet(records).repartition(4), schema)
kept = held.bounded(b"secret")
print(json.dumps({
    "executors": len(session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1,
    "fingerprint": held.fingerprint(b"key"),
    "counts": [found.tolist() for found in held.counts(list(map(tuple, sets)))],
    "kept": [found.tolist() for found in kept.counts(list(map(tuple, sets)))],
}))
session.stop()
"""
"""On executors that are processes of their own, with nothing in common but what Spark brings them."""


def test_executors_of_their_own_count_what_a_table_counts(tmp_path):
    import pyspark
    from pyarrow import parquet

    home = tmp_path / "spark"  # into which Spark writes, for each executor, what it prints
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    parquet.write_table(pa.table(VISITS), tmp_path / "visits.parquet")
    (tmp_path / "visits.toml").write_text(to_toml(PERSONS))
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(tmp_path),
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
    }
    given = (settings, str(tmp_path / "visits.parquet"), str(tmp_path / "visits.toml"), SETS)
    paths = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER, *map(json.dumps, given)],
        env={**os.environ, **paths, "SPARK_HOME": str(home)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if "JAVA_GATEWAY_EXITED" in done.stderr:
        pytest.skip("Spark's Java process does not start here")
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    table = qr.Table.read(*given[1:3])
    assert found["executors"] == 2
    assert tuple(found["fingerprint"]) == table.fingerprint(b"key")
    assert found["counts"] == [counts.tolist() for counts in table.counts(SETS)]
    assert found["kept"] == [counts.tolist() for counts in table.bounded(b"secret").counts(SETS)]


@pytest.fixture
def visits(session):
    return session.createDataFrame(pa.table(VISITS))


def same(held, table, sets):
    assert len(held) == len(table)
    assert held.fingerprint(b"key") == table.fingerprint(b"key")
    for found, exact in zip(held.counts(sets), table.counts(sets), strict=True):
        np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_counts_digests_and_kept_records_are_those_of_a_table(visits, partitions, tmp_path):
    (tmp_path / "derived.toml").write_text(DERIVED)
    frame = visits.repartition(partitions)
    records = qr.Domain((*RECORDS, COST))
    same(qr.spark.source(frame, records), qr.Table.from_frame(pa.table(VISITS), records), SETS)
    held, table = qr.spark.source(frame, PERSONS), qr.Table.from_frame(pa.table(VISITS), PERSONS)
    assert held.knows_persons
    assert held.person_column == "id"
    same(held, table, SETS)
    same(held.bounded(b"secret"), table.bounded(b"secret"), SETS)
    derived = load(tmp_path / "derived.toml")
    same(qr.spark.source(frame, derived), qr.Table.from_frame(pa.table(VISITS), derived), [(0, 1)])


def test_a_seed_gives_the_release_of_one_machine(visits):
    sources = qr.spark.source(visits.repartition(3), PERSONS), qr.Table.from_frame(pa.table(VISITS), PERSONS)
    workload = qr.Workload.marginals(PERSONS, 2)
    for mechanism in (qr.Laplace(), qr.MWEM(rounds=3)):
        found = []
        for source in sources:
            curator = qr.Curator(source, qr.Ledger.open(None, qr.PureDP(1.0), person="id"), qr.Entropy.insecure(5))
            release = curator.release(mechanism, workload, qr.PureDP(1.0))
            found.append(release.synopsis.answer(workload).tobytes())
        assert found[0] == found[1]


def test_many_cells_are_added_up_in_a_tree(session):
    rng = np.random.default_rng(1)
    codes = {name: rng.integers(0, 120, 3000) for name in "abc"}
    domain = qr.Domain.coded(dict.fromkeys("abc", 120))
    frame = session.createDataFrame(pa.table(codes)).repartition(7)
    same(qr.spark.source(frame, domain), qr.Table.from_frame(pa.table(codes), domain), [(0, 1, 2), (2,)])


def test_one_record_changes_its_own_cell_alone(session):
    domain = qr.Domain(RECORDS)
    rows = pa.table({name: FRAME[name] for name in ("ward", "age")})
    counts = [
        qr.spark.source(session.createDataFrame(t).repartition(2), domain).counts([(0, 1)])[0]
        for t in (rows, rows.slice(1))
    ]
    assert np.abs(counts[0] - counts[1]).sum() == 1


def test_no_records_are_as_private_as_any(session):
    frame = session.createDataFrame(pa.table(VISITS)).where("age > 1000")
    table = qr.Table.from_frame(pa.table(VISITS).slice(200), PERSONS)
    same(qr.spark.source(frame, PERSONS), table, SETS)


def test_errors_name_partition_row_column_and_value(visits, session):
    young = qr.Attribute("age", "number", edges=(18, 30), integer=True, missing=("",))
    with pytest.raises(
        InvalidInput, match=r"^the frame, partition \d, row \d+ \(from 0\): column 'age': value '\d+' is"
    ):
        qr.spark.source(visits.repartition(2), qr.Domain((young,)))
    keys = session.createDataFrame(pa.table({"id": ["7", "8", "7.0"], "ward": ["north"] * 3})).repartition(3)
    with pytest.raises(InvalidInput, match="may be two spellings of one key"):
        qr.spark.source(keys, qr.Domain(RECORDS[:1], person=qr.Person("id", 1)))


def test_numbers_and_dates_are_read_as_the_schema_says_that_they_are_written(session):
    writing = Writing(decimal=",", thousands=".", unit="€")
    pay = qr.Attribute("pay", "number", edges=(0, 1000, 2000), missing=("k.A.",), writing=writing)
    day = qr.Attribute("day", "date", edges=(18_262, 18_292, 18_322), writing=Writing(format="%d.%m.%Y"))
    domain = qr.Domain((pay, day))
    rows = [("1.234,50 €", "31.01.2020"), ("€ 17", "1.1.2020"), ("k.A.", "01.02.2020")] * 20
    held = qr.spark.source(session.createDataFrame(rows, "pay string, day string"), domain)
    table = qr.Table.from_frame(pd.DataFrame(rows, columns=["pay", "day"]), domain)
    assert np.array_equal(held.counts([(0, 1)])[0], table.counts([(0, 1)])[0])
    assert held.fingerprint(b"key") == table.fingerprint(b"key")
    with pytest.raises(InvalidInput, match=r"column 'pay': value '1.5' is not a number written as 1.234,5 €"):
        qr.spark.source(session.createDataFrame([("1.5", "31.01.2020")], "pay string, day string"), domain)
    with pytest.raises(InvalidInput, match="column 'pay': value 17 is no text"):
        qr.spark.source(session.createDataFrame([(17, "31.01.2020")], "pay int, day string"), domain)


def test_refusals(visits):
    learned = qr.Attribute("ward", "category", learn=2, missing=("",))
    with pytest.raises(InvalidInput, match="ward: must be learned first"):
        qr.spark.source(visits, qr.Domain((learned,)))
    with pytest.raises(InvalidInput, match="has no column 'sex'"):
        qr.spark.source(visits, qr.Domain.coded({"sex": 2}))
    with pytest.raises(InvalidInput, match="Spark data frame is needed, got Table"):
        qr.spark.source(pa.table(VISITS), PERSONS)
    once = qr.Domain(RECORDS, person=qr.Person("id", 3, weights="persons"))
    with pytest.raises(InvalidInput, match=r"who count once .* are not read by Spark"):
        qr.spark.source(visits, once)
    held = qr.spark.source(visits, qr.Domain(RECORDS))
    with pytest.raises(InvalidInput, match="none are here"):
        held.codes(0)
    assert "private" in repr(held)


def test_what_spark_says_later_stays_in_its_log(session, tmp_path):
    path = str(tmp_path / "visits")
    session.createDataFrame(pa.table(VISITS)).write.parquet(path)
    held = qr.spark.source(session.read.parquet(path), qr.Domain(RECORDS))
    held.unpersist()
    shutil.rmtree(path)
    with pytest.raises(QReleaseError, match=r"^Spark stopped while it counted: its own log says why$"):
        held.counts([(0,)])
