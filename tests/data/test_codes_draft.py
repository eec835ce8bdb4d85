"""Columns of codes that are spelled as numbers are told from amounts, by their names and by their digits."""

import re

import numpy as np
import pandas as pd
import pytest

import qrelease as qr
from qrelease.data.codes_draft import MAX_CODES, MAX_OTHER_CODES, codes_named, digits_of_codes


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *((name, MAX_CODES) for name in ("gemeinde", "Gemeinde_Nr", "municipalityCode", "ZIP", "plz", "zip_code")),
        *((name, MAX_CODES) for name in ("NACE rev2", "icd10", "home.county", "PostCode", "kreisschlüssel")),
        *((name, MAX_OTHER_CODES) for name in ("product_code", "code", "itemcodes")),
        *((name, 0) for name in ("income", "county_population", "decode_time", "patient code", "n", "zipper", "")),
    ],
)
def test_a_name_says_whether_numbers_are_codes(name, most):
    assert codes_named(name) == most


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [(1001, 1420, 4), (10_001, 99_999, 5), (999, 1420, 0), (1000, 10_000, 0), (1900, 2020, 0)],
)
def test_codes_have_the_same_number_of_digits(low, high, digits):
    assert digits_of_codes(low, high) == digits


def table(**columns):
    return pd.DataFrame({"sex": ["F", "M"] * 750, **columns})


RNG = np.random.default_rng(5)
CODES = RNG.integers(1001, 1421, 1500)


def entry(text, name):
    found = re.search(rf'\[\[attribute\]\]\nname = "{name}"\n.*?reviewed = false', text, re.DOTALL)
    return "" if found is None else found[0]


def test_numbers_that_are_codes_by_their_name_are_drafted_as_categories(tmp_path):
    frame = table(municipality=CODES, nace=RNG.choice([10.11, 47.25, 99.5], 1500), amount=CODES)
    text = qr.draft(frame)
    (tmp_path / "s.toml").write_text(text.replace("reviewed = false", "reviewed = true"))
    domain = qr.Table.from_frame(frame, tmp_path / "s.toml").domain
    kinds = {a.name: (a.kind, a.size, a.ordered) for a in domain if a.name != "amount"}
    assert kinds["municipality"] == ("category", len(set(CODES)), False)
    assert kinds["nace"] == ("category", 3, False)
    assert "codes, by the name: if these are amounts, write" in entry(text, "municipality")
    assert "municipalities.csv" in text.partition("[[attribute]]\nname")[0], "how a list of them is given"
    assert 'kind = "number"' in entry(text, "amount")
    assert "all have 4 digits: if these are codes" in entry(text, "amount")
    learned = qr.draft(frame, learn=True)
    assert "categories = {learn = true" in entry(learned, "municipality")
    assert 'kind = "number"' in entry(learned, "amount")


@pytest.mark.parametrize(
    ("count", "records", "reason"),
    [(1300, 3900, "more than 1,000 different texts"), (700, 1200, "nearly every code is different")],
)
def test_codes_that_are_too_many_to_list_are_left_out_with_the_reason(count, records, reason):
    codes = np.resize(np.arange(10_001, 10_001 + count), records)
    text = qr.draft(pd.DataFrame({"sex": np.resize([0, 1], records), "gemeinde": codes}))
    assert not entry(text, "gemeinde")
    assert f"- 'gemeinde': {reason}" in text
    assert "categories = {file = " in text, "how a public list of them is given"


def test_words_are_no_codes_whatever_their_column_is_called():
    """A draft lists many codes, for which there are lists to compare with, and few texts that people write."""
    towns = [f"{'ABCDEFGH'[i % 8]}{'abcdefgh'[i // 8 % 8]}{'ow'[i // 64 % 2]}dorf" for i in range(128)]
    codes = [f"0{number}" for number in range(1001, 1129)]
    text = qr.draft(pd.DataFrame({"gemeinde": np.resize(towns, 1500), "plz": np.resize(codes, 1500)}))
    assert "- 'gemeinde': more than 100 different texts" in text
    assert '"01128"' in entry(text, "plz")


def test_years_and_ages_stay_numbers():
    text = qr.draft(table(year=RNG.integers(1950, 2020, 1500), age=RNG.integers(0, 99, 1500)))
    for name in ("year", "age"):
        assert 'kind = "number"' in entry(text, name)
        assert "digits" not in entry(text, name)
