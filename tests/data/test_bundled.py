"""The table that comes with the package."""

import csv
import lzma
from itertools import combinations

import numpy as np

from qrelease.data.bundled import ADULT_CSV, CATEGORICAL, adult


def test_adult():
    found = adult()
    assert len(found) == 48_842
    assert found.domain.names == (
        *("age", "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"),
        *("capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
    )
    by_name = dict(zip(found.domain.names, found.columns, strict=True))
    # adult.names: 23.93 % of all records earn more than 50K.
    assert np.bincount(by_name["income"]).tolist() == [37_155, 11_687]
    assert np.bincount(by_name["sex"]).tolist() == [16_192, 32_650]
    missing = {name: int((by_name[name] == found.domain[name].values).sum()) for name in CATEGORICAL}
    assert {k: v for k, v in missing.items() if v} == {
        "workclass": 2799,
        "occupation": 2809,
        "native-country": 857,
    }


def test_adult_categorical_universe():
    found = adult(CATEGORICAL)
    assert found.domain.names == CATEGORICAL
    assert found.domain.size == 76_204_800


def test_counts_of_adult_equal_those_of_the_csv_module():
    with lzma.open(ADULT_CSV, "rt") as text:
        records = list(csv.DictReader(text))
    found = adult(["sex", "income", "race"])
    for axes, counts in zip(combinations(range(3), 2), found.counts(list(combinations(range(3), 2))), strict=True):
        a, b = (found.domain.attributes[i] for i in axes)
        expected = [sum(r[a.name] == x and r[b.name] == y for r in records) for x in a.labels for y in b.labels]
        assert counts.tolist() == expected
