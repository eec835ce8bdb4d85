"""What the statistics of `qrelease.statistics` show on real and made-up tables, in tables.

    python -m benchmarks.statistics --data DIR [--quick] [--json] [--only means,quantiles]

DIR has adult.csv.gz, raw/flights.csv.gz and raw/rwm5yr.csv.gz. Noise is seeded, which protects nobody. A section is a
function of a `Setting` that yields rows; a new one is a line of `SECTIONS`.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from benchmarks.statistics import (
    blocks,
    convictions,
    dpl,
    means,
    quantiles,
    selections,
    speed,
    squares,
    stable,
    testers,
    vectors,
)
from benchmarks.statistics.setting import Section, Setting, printed

SECTIONS: dict[str, Section] = {
    "means": means.means,
    "quantiles": quantiles.one,
    "many-quantiles": quantiles.many,
    "regions": quantiles.regions,
    "refusals": stable.refusals,
    "medians": stable.medians,
    "thresholds": selections.thresholds,
    "most-common": selections.most_common,
    "brute-force": convictions.brute_force,
    "blocks": blocks.slope,
    "convictions": convictions.convictions,
    "speed": speed.one_pass,
    "extension": testers.extension,
    "budgets": testers.budgets,
    "powers": testers.powers,
    "steps": testers.steps,
    "least-squares": squares.least_squares,
    **{name: vectors.section(name) for name in vectors.PARTS},
}
"""Sections by name; the docstring of each says what its columns are."""


def main() -> int:
    """Print the tables, or with `--json` one object a line; 1 where something that is checked does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="the folder of the tables; without it those on real tables are left out"
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs: less than a minute")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, as a,b")
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="a Python that has diffprivlib, where this one has not")
    arguments = parser.parse_args()
    if arguments.diffprivlib:
        os.environ[dpl.VARIABLE] = arguments.diffprivlib
    if dpl.missing():
        print(f"SKIPPED {dpl.missing()}", file=sys.stderr)
    setting, lost = Setting(arguments.data, arguments.quick), 0
    for name in arguments.only.split(","):
        begun = time.perf_counter(), os.times()
        rows = list(SECTIONS[name](setting))
        lost += sum(row.get("table") == vectors.LOST or row.get("equal") is False for row in rows)
        if arguments.json:
            for row in rows:
                print(json.dumps({"section": name, **row}))
        else:
            print(f"{name}: {' '.join(str(SECTIONS[name].__doc__).split())}")
            print(printed(rows), flush=True)
        print(f"{name}: {_spent(begun)}", file=sys.stderr, flush=True)
    return 1 if lost else 0


def _spent(begun: tuple[float, os.times_result]) -> str:
    """Seconds since then, by the clock and at work, of child processes too."""
    before, now = begun[1], os.times()
    work = now.user + now.children_user - before.user - before.children_user
    system = now.system + now.children_system - before.system - before.children_system
    return f"{time.perf_counter() - begun[0]:.0f} s, of which {work:.0f} s at work and {system:.0f} s of the system"


if __name__ == "__main__":
    sys.exit(main())
