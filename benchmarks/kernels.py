"""The kernels beside the speed of memory, NumPy and DuckDB, in one process by turns.

    python -m benchmarks.kernels [--json] [--only PART ...] [--rows N] [--data DIR]

One thread unless a name says two. The speed of memory is that of a triad, a[i] = b[i] + s c[i], which counts 24 bytes a
cell. `ratio` is value / reference: of speeds (GB/s, passes/s, rows/s) at least what is asked, of times at most. DuckDB
groups by a tenth of the sets, and its rate is scaled to all. DIR holds nltcs.csv.gz and nltcs-domain.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from math import prod
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numba import njit

from qrelease._util.parallel import aligned, in_parallel
from qrelease.data.domain import Domain
from qrelease.data.marginals import kernels
from qrelease.data.marginals.plan import MarginalPlan
from qrelease.inference.histogram import Histogram, transform
from qrelease.inference.sampling import systematic
from qrelease.queries.workload import Workload

LARGEST = 1 << 27
ADULT_LIKE = (9, 16, 7, 15, 6, 10, 2, 2)  # 3.6 million cells, 28 093 cells of three-way marginals
RECORD = (16, 9, 7, 15, 6, 5, 2, 42, 2, 8, 10, 12, 4, 3, 20)
STEP = 1e-3

Calls = dict[str, Callable[[], object]]


class Row(NamedTuple):
    """One line of the report."""

    name: str
    cells: int
    value: float
    unit: str
    reference: float

    @property
    def ratio(self) -> float:
        return self.value / self.reference

    def as_dict(self) -> dict[str, float | str]:
        return {**self._asdict(), "ratio": self.ratio}

    def __str__(self) -> str:
        return (
            f"{self.name:<58} {self.cells:>12,} {self.value:>12.4g} {self.unit:<10} / {self.reference:>9.4g}"
            f" = {self.ratio:.3g}"
        )


@njit(fastmath=True, nogil=True)
def triad(a: np.ndarray, b: np.ndarray, c: np.ndarray, s: float) -> None:
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


def turns(calls: Calls, rounds: int, of: Callable[[list[float]], float] = median) -> dict[str, float]:
    """The median CPU seconds of each call, made by turns: on one thread, so that other processes count for little."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return {name: of(taken) for name, taken in times.items()}


class Memory:
    """Three vectors as long as the largest universe, which all measurements share."""

    def __init__(self) -> None:
        self.a, self.b, self.c = (aligned(LARGEST) for _ in range(3))
        self.a.fill(1.0)
        self.b.fill(1.0)
        self.c[:] = np.tile(np.random.default_rng(0).random(1 << 20), LARGEST >> 20)

    def triad(self, cells: int) -> Callable[[], object]:
        a, b, c = self.a[:cells], self.b[:cells], self.c[:cells]
        return partial(triad, a, b, c, 0.5)


def dense(memory: Memory) -> Iterator[Row]:
    """Updates by a query over the whole universe."""
    for cells in (1 << 20, 1 << 24, LARGEST):
        y, q = memory.b[:cells], memory.c[:cells]
        calls: Calls = {"triad": memory.triad(cells), "f64": partial(kernels.scale_by_exp, y, q, STEP)}
        if cells == 1 << 24:
            y32, q32, mask = aligned(cells, np.float32), aligned(cells, np.float32), q < 0.5
            y32.fill(1)
            q32[:] = q
            calls["f32"] = partial(kernels.scale_by_exp, y32, q32, STEP)
            calls["mask"] = partial(kernels.scale_masked, y, mask, 1 + STEP)
            calls["numpy"] = partial(numpy_step, y, q)
        took = turns(calls, 9 if cells < LARGEST else 5)
        speed = {name: 24e-9 * cells / seconds for name, seconds in took.items()}
        yield Row("fused update, f64, of triad", cells, speed["f64"], "GB/s", speed["triad"])
        if cells == 1 << 24:
            yield Row("fused update, f32, of f64", cells, speed["f32"], "GB/s", speed["f64"])
            yield Row("update by a mask, of triad", cells, speed["mask"], "GB/s", speed["triad"])
            yield Row("fused update, f64, of numpy", cells, 1 / took["f64"], "passes/s", 1 / took["numpy"])
        memory.b[:cells] = 1.0


def numpy_step(y: np.ndarray, q: np.ndarray) -> None:
    """The textbook's update as one writes it."""
    y *= np.exp(STEP * q)
    y /= y.sum() / y.size


def numpy_marginals(y: np.ndarray, shape: tuple[int, ...], sets: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    cube = y.reshape(shape)
    return [cube.sum(axis=tuple(a for a in range(len(shape)) if a not in s)) for s in sets]


def single(memory: Memory) -> Iterator[Row]:
    """Updates by one cell of a three-way marginal after the other, and their answers, wherever the columns lie.

    Of all placements the slowest, the median and the fastest are reported; what is asked is asked of each. The fewer
    adjacent cells such a query sees, the slower: a cell of the last three columns sees one cell a page.
    """
    shape = (8,) * 8
    cells = prod(shape)
    domain = Domain.coded({chr(ord("a") + i): n for i, n in enumerate(shape)})
    state = Histogram(domain, [(0,)], 1e6)
    y = memory.b[:cells]

    def vector(axes: tuple[int, ...]) -> np.ndarray:
        q = np.zeros(shape)
        q[tuple(3 if a in axes else slice(None) for a in range(len(shape)))] = 1
        return q.reshape(-1)

    def update(asked: list[Workload]) -> None:
        for w in asked:
            state.update(w.groups[0], [STEP])

    def answer(asked: list[Workload]) -> list[np.ndarray]:
        return [state.answer(w) for w in asked]

    def numpy_update(axes: tuple[int, ...]) -> None:
        numpy_step(y, vector(axes))

    def numpy_answer(axes: tuple[int, ...]) -> object:
        return vector(axes) @ y

    found: dict[str, list[tuple[float, Row]]] = {"update": [], "answer": []}
    for axes in combinations(range(len(shape)), 3):
        columns = [domain.names[a] for a in axes]
        texts = [" and ".join(f"{c} = {code}" for c in columns) for code in range(8)]
        asked = [Workload.predicates(domain, text) for text in texts]
        calls: Calls = {
            "update": partial(update, asked),
            "np update": partial(numpy_update, axes),
            "answer": partial(answer, asked),
            "np answer": partial(numpy_answer, axes),
        }
        took = turns(calls, 5, of=min)  # such short ones suffer most from whatever else runs
        for kind, rows in found.items():
            ours, theirs = len(asked) / took[kind], 1 / took[f"np {kind}"]
            name = f"{kind} by a cell of {'*'.join(columns)}"
            rows.append((ours / theirs, Row(name, cells, ours, f"{kind}s/s", theirs)))
    for rows in found.values():
        rows.sort()
        for which, (_, row) in ("slowest", rows[0]), ("median", rows[len(rows) // 2]), ("fastest", rows[-1]):
            yield row._replace(name=f"{row.name}, {which} of {len(rows)}, of numpy")


def marginals(memory: Memory) -> Iterator[Row]:
    """All three-way marginals in about one pass."""
    for shape, with_numpy in (((8,) * 8, True), ((2,) * 24, False)):
        cells, sets = prod(shape), list(combinations(range(len(shape)), 3))
        y = memory.b[:cells]
        cover = MarginalPlan.choose(shape, sets)
        took = turns({"triad": memory.triad(cells), "cover": partial(cover.marginals, y)}, 11)
        name = f"{len(sets):,} 3-way marginals"
        yield Row(f"{name}, in triads", cells, took["cover"], "s", took["triad"])
        if with_numpy:
            calls: Calls = {
                "cover": partial(cover.marginals, y),
                "numpy": partial(numpy_marginals, y, shape, sets),
            }
            took = turns(calls, 3)
            yield Row(f"{name}, of numpy", cells, 1 / took["cover"], "passes/s", 1 / took["numpy"])


def rounds(memory: Memory) -> Iterator[Row]:
    """What a round of MWEM does to the hypothesis: an update, then the answers of the whole workload."""
    domain = Domain.coded({chr(ord("a") + i): n for i, n in enumerate(ADULT_LIKE)})
    asked = Workload.marginals(domain, 3)
    state = Histogram(domain, asked.sets, 1e6)
    cells, sets = domain.size, list(asked.sets)
    one = Workload.predicates(domain, "b = 3 and d = 5 and f = 2").groups[0]
    logs = np.zeros(len(state.marginals))
    logs[state.slice((1, 3, 5))] = STEP * np.random.default_rng(0).normal(size=domain.cells((1, 3, 5)))
    y, q = memory.b[:cells], memory.c[:cells]
    marginal = logs[state.slice((1, 3, 5))].reshape([n if a in (1, 3, 5) else 1 for a, n in enumerate(ADULT_LIKE)])

    def by_query() -> None:
        state.update(one, [STEP])
        state.answer(asked)

    def by_marginal() -> None:
        state.multiply(logs)
        state.answer(asked)

    def numpy_by_query() -> None:
        numpy_step(y, q)
        numpy_marginals(y, ADULT_LIKE, sets)

    def numpy_by_marginal() -> None:
        cube = y.reshape(ADULT_LIKE)
        cube *= np.exp(marginal)
        cube /= cube.sum() / cells
        numpy_marginals(y, ADULT_LIKE, sets)

    ours: Calls = {"triad": memory.triad(cells), "query": by_query, "marginal": by_marginal}
    took = turns(ours, 21)
    theirs = turns(
        {"query": by_query, "marginal": by_marginal, "np query": numpy_by_query, "np marginal": numpy_by_marginal}, 3
    )
    for kind in ("query", "marginal"):
        name = f"MWEM round by {kind}, {len(asked):,} answers"
        yield Row(f"{name}, in triads", cells, took[kind], "s", took["triad"])
        yield Row(f"{name}, of numpy", cells, 1 / theirs[kind], "rounds/s", 1 / theirs[f"np {kind}"])


def transforms(memory: Memory) -> Iterator[Row]:
    """The Walsh-Hadamard transform of 24 binary attributes."""
    cells = 1 << 24
    y = memory.b[:cells]

    def numpy_transform() -> None:
        step = 1
        while step < cells:
            pairs = y.reshape(-1, 2, step)
            y[:] = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
            step *= 2
        y[:] /= cells

    calls: Calls = {"triad": memory.triad(cells), "ours": lambda: transform(y)}
    y[:] = 1e-300
    took = turns(calls, 5)
    yield Row("Walsh-Hadamard transform, in triads", cells, took["ours"], "s", took["triad"])
    y[:] = 1e-300
    took = turns({"ours": calls["ours"], "numpy": numpy_transform}, 1)
    yield Row("Walsh-Hadamard transform, of numpy", cells, 1 / took["ours"], "passes/s", 1 / took["numpy"])
    y[:] = 1.0


def sampling(memory: Memory) -> Iterator[Row]:
    """Systematic sampling of a million records from 2^24 cells."""
    cells, rows = 1 << 24, 1_000_000
    weights = memory.c[:cells]
    calls: Calls = {
        "triad": memory.triad(cells),
        "ours": lambda: systematic(weights, rows, np.random.default_rng(0)),
        "numpy": lambda: np.searchsorted(np.cumsum(weights), (np.arange(rows) + 0.5) * (weights.sum() / rows)),
    }
    took = turns(calls, 5)
    yield Row(f"{rows:,} records drawn, in triads", cells, took["ours"], "s", took["triad"])
    yield Row(f"{rows:,} records drawn, of numpy", cells, 1 / took["ours"], "passes/s", 1 / took["numpy"])


def counting(rows: int) -> Iterator[Row]:
    """All 455 three-way marginals of 15 columns, from the records."""
    rng = np.random.default_rng(0)
    columns = [(n * rng.random(rows, np.float32) ** 2).astype(np.uint8) for n in RECORD]
    sets = list(combinations(range(len(RECORD)), 3))
    names = [f"c{i}" for i in range(len(RECORD))]
    MarginalPlan.choose(RECORD, sets).count([c[:10_000] for c in columns], names)
    start = time.process_time()
    MarginalPlan.choose(RECORD, sets).count(columns, names)
    ours = rows / (time.process_time() - start)
    yield Row(f"{len(sets)} 3-way marginals counted from {rows:,} records", rows, ours, "rows/s", 1.2e6)
    try:
        import duckdb
        import pyarrow as pa
    except ImportError:
        return
    with duckdb.connect(config={"threads": 1}) as base:
        frame = pa.table({f"c{i}": c for i, c in enumerate(columns)})
        base.register("frame", frame)
        base.execute("create table records as select * from frame")
        chosen = sets[::10]
        start = time.process_time()
        for i, j, k in chosen:
            base.execute(f"select c{i}, c{j}, c{k}, count(*) from records group by all").fetchnumpy()
        theirs = rows / ((time.process_time() - start) * len(sets) / len(chosen))
    yield Row("the same, of DuckDB's group by", rows, ours, "rows/s", theirs)


def two_threads(memory: Memory, cores: set[int]) -> Iterator[Row]:
    """Two threads over one, on the large kernels; for an idle machine."""
    cells, shape = LARGEST, (2,) * 27
    y, q = memory.b, memory.c
    cover = MarginalPlan.choose(shape, list(combinations(range(27), 2)))
    calls: Calls = {
        "fused update": lambda: in_parallel(lambda _, cut: kernels.scale_by_exp(y[cut], q[cut], STEP), cells, cells),
        "351 2-way marginals": lambda: cover.marginals(y),
        "a million records drawn": lambda: systematic(q, 1_000_000, np.random.default_rng(0)),
        "triad": lambda: in_parallel(lambda _, cut: triad(memory.a[cut], y[cut], q[cut], 0.5), cells, cells),
        "Walsh-Hadamard transform": lambda: transform(memory.a),
    }
    found: dict[int, dict[str, list[float]]] = {1: {n: [] for n in calls}, 2: {n: [] for n in calls}}
    for _ in range(4):
        for threads in (1, 2):
            os.sched_setaffinity(0, set(sorted(cores)[:threads]))
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                found[threads][name].append(time.perf_counter() - start)
    for name in calls:
        one, two = (1 / median(found[n][name][1:]) for n in (1, 2))
        yield Row(f"{name}, two threads over one", cells, two, "passes/s", one)


FIRST = """
import time
from itertools import combinations
import numpy as np
from qrelease.data.marginals.plan import MarginalPlan
cover = MarginalPlan.choose((4,) * 8, list(combinations(range(8), 3)))
cover.scale(np.ones(4**8), np.ones(cover.offsets[-1]))
print(time.process_time())
"""


def start() -> Iterator[Row]:
    """CPU seconds of a fresh process up to the end of its first pass, with a warm cache."""
    runs = [subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True) for _ in range(4)]
    yield Row("start, imports and first pass", 4**8, min(float(r.stdout) for r in runs), "CPU s", 1.0)


def whole(data: Path | None) -> Iterator[Row]:
    """Seconds from the command line to the written folder, on all cores; the second of two runs."""
    commands = {"qrelease demo": ["demo"]}
    if data is not None:
        table, schema = str(data / "nltcs.csv.gz"), str(data / "nltcs-domain.json")
        commands["qrelease release, nltcs"] = ["release", table, "--schema", schema, "--epsilon", "1"]
    for name, command in commands.items():
        for _ in range(2):
            with TemporaryDirectory() as folder:
                away = ["--ledger", "its.ledger"] if command[0] == "release" else []
                start = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "qrelease", *command, *away], cwd=folder, capture_output=True, check=True
                )
                took = time.perf_counter() - start
        yield Row(f"{name}, end to end", 0, took, "s", 1.0)


PARTS = ("counting", "dense", "single", "marginals", "rounds", "transforms", "sampling", "start", "whole", "threads")


def report(parts: list[str], records: int, data: Path | None) -> Iterator[Row]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    if "counting" in parts:
        yield from counting(records)
    memory = Memory()
    for part in (dense, single, marginals, rounds, transforms, sampling):
        if part.__name__ in parts:
            yield from part(memory)
    if "start" in parts:
        yield from start()
    os.sched_setaffinity(0, cores)
    if "whole" in parts:
        yield from whole(data)
    if "threads" in parts and len(cores) > 1:
        yield from two_threads(memory, cores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts; default: all")
    parser.add_argument("--rows", type=int, default=10_000_000, help="records to count; default: %(default)s")
    parser.add_argument("--data", type=Path, help="a folder with nltcs, to be released; default: the demo alone")
    options = parser.parse_args()
    rows = []
    for row in report(options.only, options.rows, options.data):
        rows.append(row.as_dict())
        if not options.json:
            print(row)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
