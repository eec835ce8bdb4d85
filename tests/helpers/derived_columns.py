"""Visits of persons, and rules that derive columns of them."""

import numpy as np
import pandas as pd

RECORDS = """
[[attribute]]
name = "year"
kind = "coded"
codes = 5
[[attribute]]
name = "severity"
kind = "number"
bins = { start = 0, stop = 6, width = 1 }
integer = true
missing = ["", "?"]
[[attribute]]
name = "ward"
kind = "category"
categories = ["north", "south", "west"]
"""


RULES = """
[person]
column = "who"
[person.derive]
visits = { take = "count", bins = [0, 1, 2, 3, 5, 50] }
late = { take = "count", bins = [0, 1, 2, 50], where = "year >= 3" }
severe = { take = "any", where = "severity >= 5" }
worst = { take = "max", of = "severity" }
mildest = { take = "min", of = "severity" }
burden = { take = "sum", of = "severity", bins = [0, 5, 10, 20, 100] }
ward = { take = "most frequent", of = "ward" }
south = { take = "most frequent", of = "severity", where = "ward = 'south'" }
first = { take = "first", of = "ward", by = "year" }
last = { take = "last", of = "severity", by = "year" }
"""


def write_visits(folder):
    """A file of visits and their schema, in a folder; the visits as a frame."""
    (folder / "schema.toml").write_text(RECORDS + RULES)
    rng = np.random.default_rng(3)
    n = 600
    frame = pd.DataFrame(
        {
            "who": rng.integers(1000, 1200, size=n),
            "year": rng.integers(5, size=n),
            "severity": np.where(rng.random(n) < 0.2, "?", rng.integers(6, size=n).astype(str)),
            "ward": np.array(["north", "south", "west"])[rng.integers(3, size=n)],
        }
    )
    frame.to_csv(folder / "visits.csv", index=False)
    return frame
