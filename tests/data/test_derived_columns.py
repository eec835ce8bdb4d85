"""Columns derived of the records of a person: as a few lines of pandas make them."""

import numpy as np
import pytest
from derived_columns import write_visits

from qrelease.data import schema
from qrelease.data.table import Table


@pytest.fixture
def folder(in_folder):
    return in_folder, write_visits(in_folder)


def labels(table, name):
    attribute = table.domain[name]
    return [attribute.label(int(code)) for code in table.columns[table.domain.axis(name)]]


def expected(mine):
    """Of one person's records, in another way."""
    known = mine[mine["severity"] != "?"].assign(severity=lambda f: f["severity"].astype(int))
    south = known[known["ward"] == "south"]["severity"]
    first = mine[mine["year"] == mine["year"].min()]["ward"].min()
    last = known[known["year"] == known["year"].max()]["severity"].max() if len(known) else None
    return {
        "visits": len(mine),
        "late": int((mine["year"] >= 3).sum()),
        "severe": "yes" if (known["severity"] >= 5).any() else "no",
        "worst": known["severity"].max() if len(known) else None,
        "mildest": known["severity"].min() if len(known) else None,
        "burden": int(known["severity"].sum()),
        "ward": mine["ward"].mode().min(),
        "south": south.mode().min() if len(south) else None,
        "first": first,
        "last": last,
    }


def code(attribute, value):
    if value is None:
        return attribute.values
    if isinstance(value, str):
        return attribute.categories.index(value)
    return int(np.searchsorted(attribute.edges, value, side="right") - 1)


def test_each_column_is_what_its_rule_says(folder):
    path, frame = folder
    domain = schema.load(path / "schema.toml")
    assert domain.names == tuple(expected(frame))
    table = Table.read(path / "visits.csv", domain)
    people = [mine for _, mine in frame.groupby("who", sort=False)]
    assert len(table) == len(people)
    found = sorted(zip(*(column.tolist() for column in table.columns), strict=True))
    wanted = sorted(tuple(code(domain[k], v) for k, v in expected(mine).items()) for mine in people)
    assert found == wanted


def test_the_order_of_records_does_not_count_and_a_person_moves_one_record(folder):
    path, frame = folder
    domain = schema.load(path / "schema.toml")

    def counted(rows):
        table = Table.from_frame(rows, domain)
        return sorted(zip(*(column.tolist() for column in table.columns), strict=True))

    whole = counted(frame)
    for seed in range(3):
        assert counted(frame.sample(frac=1, random_state=seed)) == whole
    for who in frame["who"].unique()[:5]:
        rest = counted(frame[frame["who"] != who])
        assert len(rest) == len(whole) - 1
        left = list(whole)
        for record in rest:
            left.remove(record)
        assert len(left) == 1
