"""What the statistics of `qrelease.statistics` show on real and made-up tables, in tables.

    python -m benchmarks.statistics --data DIR [--quick] [--json] [--only means,quantiles]

DIR has adult.csv.gz, raw/flights.csv.gz and raw/rwm5yr.csv.gz. Noise is seeded, which protects nobody. A section is a
function of a `Setting` that yields rows; a new one is a line of `SECTIONS`.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from benchmarks.statistics import blocks, dpl, means, quantiles, selections, speed, stable, testers, vectors
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
    "blocks": blocks.slope,
    "speed": speed.one_pass,
    "extension": testers.extension,
    "budgets": testers.budgets,
    **{name: vectors.section(name) for name in vectors.PARTS},
}
"""Sections by name; the docstring of each says what its columns are."""


def main() -> None:
    """Print the tables, or with `--json` one object a line."""
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
    setting = Setting(arguments.data, arguments.quick)
    for name in arguments.only.split(","):
        rows = list(SECTIONS[name](setting))
        if arguments.json:
            for row in rows:
                print(json.dumps({"section": name, **row}))
        else:
            print(f"{name}: {' '.join(str(SECTIONS[name].__doc__).split())}")
            print(printed(rows), flush=True)


if __name__ == "__main__":
    main()
