"""What reading records into codes takes beside polars and pyarrow reading the same, and all marginals of a large file.

    python -m benchmarks.scale [--quick] [--rows N] [--draft N] [--spark N] [--executors N] [--json]

A made-up table of 15 columns (six of texts, six of whole numbers, two of decimals, one of days; `--quick` 300,000 rows,
else 2,000,000) is written to a temporary folder in each format and read by each library with its own defaults, and by
this engine into codes. All of them on one core.

    cpu       seconds of processor time, the least of three runs that take turns
    rows/s    by that
    ratio     over the fastest of the others

Exit code 1 where a ratio of CSV or Parquet is above 1.5. The others encode nothing.

`--rows N` makes a Parquet file of N rows and 10 columns instead, row group by row group, and counts all of its two-
and three-way marginals in a process of its own: seconds, and the most memory that the process held. The file is
deleted.
With `--persons` the file says whose each record is, by a whole number, ten records a person in random order; the same
is done also with five records kept of each person, `ratio` is of processor time and `seconds_ratio` of the clock's.

`--draft N` makes a Parquet file of N rows as a statistics office has them (age, sex, employment, one of 400
municipalities, an income in cents, a number of the person), drafts a schema of it, by persons and by columns, and
checks that schema: CPU seconds of each, and the records a second.

`--spark N` does the same beside Spark on one core and on two (`local[1]`, `local[2]`; the extra `spark`), checks that
all counts are the same, and says what Spark's times predict of 1e11 rows on 100 cores. Sessions start before the clock
does, Python's workers after it. `handed_over` is what Spark on two cores takes to hand all values of the file to
workers that do nothing with them, once more when they are at work: nothing that encodes there can take less, and
`least_ratio` is that over the table's seconds. `at_work` is what all of it takes a second time, by the same workers:
what starting them took, which does not grow with the rows, is left out of it as it is of handing over, so that
`at_work_over_handed_over`, of processor time, says what is ours. Where others use the machine, seconds say little of
it. So there is also the processor time of all processes of each (Linux): `cpu_ratio` is that of Spark, shared by two
cores, over that of the table on its one, and `least_cpu_ratio` the same of handing over alone.

`--executors N` does the same on 1, 2 and 4 executors of one core each, which are processes of their own as on a
cluster (`local-cluster[n,1,1024]`). That 1e11 rows on 100 cores take a hundredth of what one core takes rests on this:
all counts are the same, and the processor time of all processes does not grow with the executors. `cpu_over_1` is that
of each, over the one of one executor, once the workers are at work; `hours_…` is of that processor time. On a machine
with fewer cores than executors seconds show nothing, and are left out.
"""

import argparse
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table

MOST = 1.5
ROWS, QUICK_ROWS = 2_000_000, 300_000
REPEATS = 3
GROUP = 1 << 20
SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
DAYS = 1000
PERSON, EACH, KEPT = "person", 10, 5
FIRST_DAY = 18_262
EXECUTORS = (1, 2, 4)


def domain() -> Domain:
    """Of the table that is read."""
    texts = [_category(f"c{i}", 5 + 3 * i) for i in range(6)]
    whole = [Attribute(f"n{i}", "number", edges=tuple(range(0, 101, 10)), integer=True) for i in range(6)]
    decimals = [Attribute(f"x{i}", "number", edges=(0, 100, 200, 500, 1000)) for i in range(2)]
    return Domain((*texts, *whole, *decimals, Attribute("d", "date", edges=(18_262, 18_400, 18_700, 19_300))))


def _category(name: str, size: int) -> Attribute:
    return Attribute(name, "category", categories=tuple(f"kind {k}" for k in range(size)))


def made(rows: int, rng: np.random.Generator) -> Any:
    """The table, as pyarrow has it."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for i in range(6):
        columns[f"c{i}"] = np.array([f"kind {k}" for k in range(5 + 3 * i)])[rng.integers(5 + 3 * i, size=rows)]
    columns |= {f"n{i}": rng.integers(0, 100, rows) for i in range(6)}
    columns |= {f"x{i}": np.round(rng.random(rows) * 999, 2) for i in range(2)}
    columns["d"] = np.datetime64(FIRST_DAY, "D") + rng.integers(0, DAYS, rows)
    return pa.table(columns)


def readers(folder: Path, table: Any) -> Iterator[tuple[str, dict[str, Callable[[], object]]]]:
    """By format, what reads it: this engine first."""
    import duckdb
    import polars as pl
    from pyarrow import csv, parquet

    universe, plain, packed = domain(), folder / "t.csv", folder / "t.csv.gz"
    csv.write_csv(table, plain, csv.WriteOptions(quoting_style="needed"))
    with open(plain, "rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target)
    parquet.write_table(table, folder / "t.parquet")
    with duckdb.connect(folder / "t.duckdb") as connection:
        connection.register("given", table)
        connection.execute("create table t as select * from given")
    frame = pl.from_arrow(table)

    def rows_of_duckdb() -> object:
        with duckdb.connect(folder / "t.duckdb", read_only=True, config={"threads": "1"}) as connection:
            return connection.sql("select * from t").to_arrow_table()

    def ours(name: str, query: str | None = None) -> Callable[[], object]:
        return lambda: Table.read(folder / name, universe, query=query)

    for path in (plain, packed):
        others = {"polars": lambda path=path: pl.read_csv(path), "pyarrow": lambda path=path: csv.read_csv(path)}
        yield path.name, {"qrelease": ours(path.name), **others}
    yield (
        "t.parquet",
        {
            "qrelease": ours("t.parquet"),
            "polars": lambda: pl.read_parquet(folder / "t.parquet"),
            "pyarrow": lambda: parquet.read_table(folder / "t.parquet", use_threads=False),
        },
    )
    yield "t.duckdb", {"qrelease": ours("t.duckdb", "select * from t"), "duckdb": rows_of_duckdb}
    yield "a polars frame", {"qrelease": lambda: Table.from_frame(frame, universe)}


def compared(rows: int) -> list[dict[str, Any]]:
    """A line for each format and reader."""
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for source, found in readers(Path(name), made(rows, np.random.default_rng(0))):
            spent = {reader: [] for reader in found}  # type: dict[str, list[float]]
            for _ in range(REPEATS):
                for reader, read in found.items():
                    before = time.process_time()
                    read()
                    spent[reader].append(time.process_time() - before)
            least = {reader: min(seconds) for reader, seconds in spent.items()}
            fastest = min((least[reader] for reader in found if reader != "qrelease"), default=None)
            for reader, seconds in least.items():
                ratio = None if fastest is None or reader != "qrelease" else seconds / fastest
                lines.append(
                    {"source": source, "reader": reader, "cpu": seconds, "rows/s": rows / seconds, "ratio": ratio}
                )
    return lines


def large(rows: int, *, persons: bool) -> dict[str, Any]:
    """All two- and three-way marginals of a made-up Parquet file."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), rows, persons=persons)
        found = {key: value for key, value in counted(path).items() if key != "digest"}
        if persons:
            theirs = counted(path, persons=True)
            found |= {f"{key}_with_persons": theirs[key] for key in found if key != "sets"}
            found["ratio"] = theirs["cpu"] / found["cpu"]
            taken = [sum(each[f"{what}_seconds"] for what in ("read", "count")) for each in (found, theirs)]
            found["seconds_ratio"] = taken[1] / taken[0]
        return {"rows": rows, "megabytes_of_parquet": path.stat().st_size / 1e6, **found}


def written(folder: Path, rows: int, *, persons: bool = False) -> Path:
    """A made-up Parquet file, which says whose the records are if it is to."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, names = np.random.default_rng(0), [f"a{i}" for i in range(len(SIZES))]
    path, left = folder / "t.parquet", rows
    kinds = [*((name, pa.int8()) for name in names), *([(PERSON, pa.int64())] if persons else [])]
    with parquet.ParquetWriter(path, pa.schema(kinds)) as writer:
        while left:
            count = min(left, GROUP)
            columns = [pa.array(rng.integers(size, size=count, dtype=np.int8)) for size in SIZES]
            if persons:
                columns.append(pa.array(rng.integers(max(rows // EACH, 1), size=count)))
            writer.write_table(pa.table(columns, schema=pa.schema(kinds)), row_group_size=GROUP)
            left -= count
    return path


def counted(path: Path, master: str | None = None, *, persons: bool = False) -> dict[str, Any]:
    """Read and counted in a process of its own, by Spark if it is said where that runs."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.scale",
        "--count",
        str(path),
        *(["--master", master] if master else []),
        *(["--persons"] if persons else []),
    ]
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYSPARK_PYTHON": sys.executable}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **paths})
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def drafts(rows: int) -> dict[str, Any]:
    """CPU seconds of drafting a schema of a file of persons, of one of its columns, and of checking the schema."""
    import pyarrow as pa
    from pyarrow import parquet

    from qrelease.data.person import Person
    from qrelease.data.schema_check import check
    from qrelease.data.schema_draft import draft

    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(0, 101, rows),
        "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
        "employment": np.array(["employed", "other", "retired", "student", "unemployed"])[rng.integers(0, 5, rows)],
        "municipality": np.array([f"P{i // 34:02}-M{i % 34:03}" for i in range(400)])[rng.integers(0, 400, rows)],
        "income": np.exp(rng.normal(10, 0.8, rows) + np.log(100)).astype(np.int64),
        "person_no": rng.permutation(rows) + 100_000_000,
    }
    person, found = Person("person_no", 4), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "register.parquet")

        def timed(name: str, names: list[str], whose: Person | None) -> str:
            parquet.write_table(pa.table({name: columns[name] for name in names}), path)
            begin = time.process_time()
            text = draft(path, person=whose)
            found[name] = time.process_time() - begin
            return text

        for name in ("age", "municipality", "income"):
            timed(name, [name], None)
        timed("person_no", ["sex", "person_no"], person)
        schema = Path(folder, "register.toml")
        schema.write_text(timed("all", [*columns], person).replace("reviewed = false", "reviewed = true"))
        begin = time.process_time()
        check(path, schema)
        found["check"] = time.process_time() - begin
    return {**found, "rows/s": rows / found["all"]}


def beside_spark(rows: int) -> dict[str, Any]:
    """A table and Spark on the same file."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), rows)
        plain, one, two = counted(path), counted(path, "local[1]"), counted(path, "local[2]")
    seconds = [found["read_seconds"] + found["count_seconds"] for found in (plain, one, two)]
    return {
        "rows": rows,
        "table_seconds": seconds[0],
        "spark_1_seconds": seconds[1],
        "spark_2_seconds": seconds[2],
        "ratio": seconds[2] / seconds[0],
        "handed_over": two["handed_over"],
        "least_ratio": two["handed_over"] / seconds[0],
        "table_cpu": plain["cpu"],
        "spark_2_cpu": two["cpu"],
        "handed_over_cpu": two["handed_over_cpu"],
        "cpu_ratio": two["cpu"] / 2 / plain["cpu"],
        "least_cpu_ratio": two["handed_over_cpu"] / 2 / plain["cpu"],
        "at_work_ratio": two["at_work"] / seconds[0],
        "at_work_cpu_ratio": two["at_work_cpu"] / 2 / plain["cpu"],
        "at_work_over_handed_over": two["at_work_cpu"] / two["handed_over_cpu"],
        "one_core_over_two": seconds[1] / seconds[2],
        "hours_of_1e11_rows_on_100_cores": seconds[1] / rows * 1e11 / 100 / 3600,
        "equal_counts": plain["digest"] == one["digest"] == two["digest"],
    }


def on_executors(rows: int) -> dict[str, Any]:
    """A table, and Spark on executors that are processes of their own, on the same file."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), rows)
        plain = counted(path)
        found = {number: counted(path, f"local-cluster[{number},1,1024]") for number in EXECUTORS}
    one = found[EXECUTORS[0]]["at_work_cpu"]
    return {
        "rows": rows,
        "table_cpu": plain["cpu"],
        **{f"executors_{number}": each["executors"] for number, each in found.items()},
        **{f"at_work_cpu_{number}": each["at_work_cpu"] for number, each in found.items()},
        **{f"cpu_over_1_{number}": each["at_work_cpu"] / one for number, each in found.items()},
        "hours_of_1e11_rows_on_100_cores": max(e["at_work_cpu"] for e in found.values()) / rows * 1e11 / 100 / 3600,
        "equal_counts": {plain["digest"]} == {each["digest"] for each in found.values()},
    }


def count(path: str, master: str | None, *, persons: bool) -> dict[str, Any]:
    """Read and count, in a process of its own: by Spark, or with a few records kept of each person, if it is said."""
    from hashlib import sha256

    from qrelease.data.person import Person
    from qrelease.data.source import Source
    from qrelease.data.sources import spark
    from qrelease.queries.workload import Workload

    universe = Domain.coded({f"a{i}": size for i, size in enumerate(SIZES)})
    asked = Workload.marginals(universe, 2).sets + Workload.marginals(universe, 3).sets
    if persons:
        universe = Domain(universe.attributes, person=Person(PERSON, KEPT))
    frame = started(master).read.parquet(path) if master else None
    spent = time.process_time if frame is None else cpu_of_all
    before = spent(), time.perf_counter()
    table: Source = Table.read(path, universe).bounded(bytes(32)) if frame is None else spark.source(frame, universe)
    between = time.perf_counter()
    found = table.counts(asked)
    after, cpu = time.perf_counter(), spent() - before[0]
    if isinstance(table, spark.SparkSource):
        assert frame is not None
        table.unpersist()
        again = spent(), time.perf_counter()
        spark.source(frame, universe).counts(asked)
        at_work = {"at_work": time.perf_counter() - again[1], "at_work_cpu": spent() - again[0]}
        known = frame.sparkSession.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        at_work["executors"] = max(len(known) - 1, 1)  # the driver is one of them, and on one machine the only one
    return {
        "digest": sha256(np.concatenate(found).tobytes()).hexdigest(),
        "sets": len(asked),
        "read_seconds": between - before[1],
        "count_seconds": after - between,
        "cpu": cpu,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        **({} if frame is None else {**at_work, **handed_over(frame)}),
    }


def cpu_of_all() -> float:
    """Seconds of processor time of this process and of all that it started, those that are over included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it is over by now
            process, fields = int(path.parent.name), path.read_text().rpartition(")")[2].split()
            parents[process], ticks[process] = int(fields[1]), sum(map(int, fields[11:15]))

    def is_ours(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return sum(ticks[process] for process in filter(is_ours, parents)) / os.sysconf("SC_CLK_TCK")


def handed_over(frame: Any) -> dict[str, float]:
    """What Spark takes to give all values of a frame to its workers, which only count the batches."""

    def counted_batches(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.record_batch({"batches": pa.array([sum(1 for _ in batches)])})

    cpu, start = cpu_of_all(), time.perf_counter()
    frame.mapInArrow(counted_batches, "batches bigint").toArrow()
    return {"handed_over": time.perf_counter() - start, "handed_over_cpu": cpu_of_all() - cpu}


def started(master: str) -> Any:
    """A session of Spark's, whose file is cut into pieces of about a row group each."""
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.scheduler.minRegisteredResourcesRatio": "1",  # all executors are at work from the first task on
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
    }
    return SparkSession.builder.master(master).config(map=settings).getOrCreate()


def main() -> int:
    """Print what was measured; 1 where it is too slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument(
        "--persons", action="store_true", help="with --rows: also with five records kept of each person"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--draft", type=int, metavar="N")
    parser.add_argument("--spark", type=int, metavar="N")
    parser.add_argument("--executors", type=int, metavar="N")
    parser.add_argument("--count", help=argparse.SUPPRESS)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.count:
        print(json.dumps(count(arguments.count, arguments.master, persons=arguments.persons)))
        return 0
    if arguments.rows or arguments.draft or arguments.spark or arguments.executors:
        if arguments.draft:
            found = drafts(arguments.draft)
        elif arguments.executors:
            found = on_executors(arguments.executors)
        elif arguments.spark:
            found = beside_spark(arguments.spark)
        else:
            found = large(arguments.rows, persons=arguments.persons)
        print(
            json.dumps(found)
            if arguments.json
            else "\n".join(f"{key:22} {value:14,.6g}" for key, value in found.items())
        )
        return 0
    lines = compared(QUICK_ROWS if arguments.quick else ROWS)
    if arguments.json:
        print(json.dumps(lines))
    else:
        print(f"{'source':16} {'reader':10} {'cpu s':>8} {'rows/s':>12} {'ratio':>6}")
        for line in lines:
            ratio = "" if line["ratio"] is None else f"{line['ratio']:6.2f}"
            print(f"{line['source']:16} {line['reader']:10} {line['cpu']:8.2f} {line['rows/s']:12,.0f} {ratio:>6}")
    return int(
        any(line["ratio"] and line["ratio"] > MOST for line in lines if line["source"] in ("t.csv", "t.parquet"))
    )


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    sys.exit(main())
