"""Counts and sums by group from OpenDP's Polars interface. It runs in an environment of its own, without qrelease:

    python3 -m venv peers && peers/bin/pip install "opendp[polars]==0.16.0"
    peers/bin/python benchmarks/adapters/opendp_polars.py records.csv asked.json answers.json

`asked` has ρ, which is split evenly over the questions, how often all of them are asked anew, and for each question the
columns of its groups, how many codes these have, the columns that are summed between two bounds, and the column that
says which records count, if not all do. It writes its version and the noisy counts and sums, groups in C order.
"""

import json
import sys
import warnings
from importlib.metadata import version
from itertools import product
from typing import Any

MOST_RECORDS = 1 << 22


def main() -> None:
    import opendp.prelude as dp
    import polars as pl

    warnings.simplefilter("ignore", FutureWarning)
    dp.enable_features("contrib")
    records, asked_at, answers_at = sys.argv[1:]
    frame = pl.read_csv(records).cast(pl.Int64)
    with open(asked_at) as file:
        asked = json.load(file)
    by = {tuple(sorted(question["by"])) for question in asked["questions"]} | {()}
    from opendp.extras.polars import Margin

    margins = [Margin(by=list(columns), max_length=MOST_RECORDS) for columns in by]
    found = []
    for _ in range(asked["repeats"]):
        context = dp.Context.compositor(
            data=frame.lazy(),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=asked["rho"]),
            split_evenly_over=len(asked["questions"]),
            margins=margins,
        )
        found.append([answer(dp, pl, context, question) for question in asked["questions"]])
    content = {"version": f"OpenDP {version('opendp')}, Polars {version('polars')}", "answers": found}
    with open(answers_at, "w") as file:
        json.dump(content, file)


def answer(dp: Any, pl: Any, context: Any, question: dict[str, Any]) -> list[list[float]]:
    """One question: its counts, where it has any, and its sums."""
    query = context.query()
    if question["only"]:
        query = query.filter(pl.col(question["only"]) == 1)
    sums = [pl.col(name).dp.sum((low, high)) for name, low, high in question["sums"]]
    # The sum alone is what a total asks for; means are made of it and of the number of records.
    wanted = [*([dp.len()] if question["count"] else []), *sums]
    names = [*(["len"] if question["count"] else []), *(name for name, _, _ in question["sums"])]
    by = question["by"]
    if not by:
        rows = query.select(wanted).release().collect()
    else:
        keys = pl.DataFrame(list(product(*map(range, question["sizes"]))), schema=by, orient="row").cast(pl.Int64)
        rows = query.group_by(by).agg(wanted).with_keys(keys.lazy()).release().collect().sort(by)
    return [rows[name].to_list() for name in names]


if __name__ == "__main__":
    main()
