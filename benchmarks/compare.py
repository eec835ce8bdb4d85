"""This tree beside an earlier one, in turns: start-up, kernels, noise and the server, each with its own benchmarks.

    git worktree add --detach ../before COMMIT
    python -m benchmarks.compare ../before [--parts start noise kernels:single server:free ...] [--rounds 3] [--json]

Each round runs a part in one tree and then in the other, and the next round in the other order. A line has the median
of each tree over the rounds, the ratio of now to before, and the largest ratio of two runs of one tree: a ratio that is
nearer to 1 than that is noise. CPU seconds are those of the processes that were started, user and system together.
Run `python -m qrelease warmup` in both trees first.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent.parent
SCHEMA_FILE = "schema.json"
STARTS = {
    "import qrelease": ["-c", "import qrelease"],
    "import qrelease, with all its names": ["-c", "import qrelease as q; [getattr(q, n) for n in q.__all__]"],
    "qrelease --help": ["-m", "qrelease", "--help"],
    "qrelease plan, no simulation": [
        *("-m", "qrelease", "plan", "--schema", SCHEMA_FILE, "--n", "100000", "--epsilon", "1", "--trials", "0"),
    ],
}
SCHEMA = {"age": 8, "sex": 2, "work": 6, "income": 4}
REPEATS = 2
"""Starts of each command in one run; the least counts."""

WITHOUT_PEERS = (
    "import runpy, sys; sys.modules.update(opendp=None, duckdb=None); del sys.argv[0];"
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
"""Runs a benchmark in which other people's packages are not found: they are the same beside either tree."""

Figures = dict[str, tuple[float, str]]
"""By name: the value, and its unit."""


def run(tree: Path, arguments: list[str]) -> tuple[str, float]:
    """What a Python command prints with this tree's package, and its CPU seconds."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start compiles the package's own source anew
    with subprocess.Popen([sys.executable, *arguments], cwd=tree, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{tree}: {' '.join(arguments)} ended with {process.returncode}")
    return printed, used.ru_utime + used.ru_stime


def starts(tree: Path) -> Figures:
    """CPU seconds of short commands."""
    with TemporaryDirectory() as folder:
        schema = Path(folder) / "schema.json"
        schema.write_text(json.dumps(SCHEMA))
        commands = {name: [str(schema) if a == SCHEMA_FILE else a for a in c] for name, c in STARTS.items()}
        return {name: (min(run(tree, c)[1] for _ in range(REPEATS)), "CPU s") for name, c in commands.items()}


def benchmark(tree: Path, name: str, options: list[str]) -> Figures:
    """The rows of one of the tree's own benchmarks."""
    printed, cpu = run(tree, ["-c", WITHOUT_PEERS, f"benchmarks.{name}", *options, "--json"])
    found: Figures = {f"{name}: all of it": (cpu, "CPU s")}
    rows = json.loads(printed)
    if isinstance(rows, dict):  # of the server: phases with figures
        for phase, figures in rows.items():
            found.update(
                {f"{phase}, {k}": (figures[k], k) for k in ("per_second", "p50_ms", "seconds") if k in figures}
            )
    else:
        found.update({row["name"]: (row["value"], row["unit"]) for row in rows})
    return found


def measure(tree: Path, part: str) -> Figures:
    """A run of one part, written `name` or `name:option`."""
    name, _, only = part.partition(":")
    match name:
        case "start":
            return starts(tree)
        case "kernels":
            return benchmark(tree, name, ["--only", *only.split(",")] if only else [])
        case "server":
            phases = ["--phases", only or "free,paid"]
            return benchmark(tree, name, [*phases, "--servers", "2", "--requests", "20000", "--clients", "8"])
        case _:
            return benchmark(tree, name, [])


def spread(values: list[float]) -> float:
    """The largest ratio of two runs of one tree."""
    return max(values) / min(values) if min(values) > 0 else float("nan")


def compare(before: Path, part: str, rounds: int) -> Iterator[dict[str, float | str]]:
    """One part in both trees by turns; a row for each figure that both have."""
    seen: dict[Path, list[Figures]] = {before: [], HERE: []}
    for i in range(rounds):
        for tree in (before, HERE) if i % 2 == 0 else (HERE, before):
            seen[tree].append(measure(tree, part))
    for name, (_, unit) in seen[HERE][0].items():
        if all(name in figures for runs in seen.values() for figures in runs):
            old, new = ([figures[name][0] for figures in seen[tree]] for tree in (before, HERE))
            ratio = median(new) / median(old) if median(old) else float("nan")
            noise = max(spread(old), spread(new))
            yield {
                "name": name,
                "unit": unit,
                "before": median(old),
                "now": median(new),
                "ratio": ratio,
                "noise": noise,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the folder of the earlier tree")
    parser.add_argument("--parts", nargs="+", default=["start", "noise", "kernels", "server"], metavar="PART")
    parser.add_argument("--rounds", type=int, default=3, help="runs in each tree; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print one object a line")
    options = parser.parse_args()
    if not options.json:
        print(f"{'':62} {'before':>10} {'now':>10} {'ratio':>7} {'noise':>7}")
    for part in options.parts:
        for row in compare(options.before.resolve(), part, options.rounds):
            if options.json:
                print(json.dumps(row), flush=True)
            else:
                name = f"{row['name']}, {row['unit']}"
                print(
                    f"{name:62} {row['before']:10.4g} {row['now']:10.4g} {row['ratio']:7.3f} {row['noise']:7.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
