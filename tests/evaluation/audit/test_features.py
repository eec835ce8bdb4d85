"""Transcripts of any kind become numbers."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sampled import one, sampled

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import (
    audit,
)
from qrelease.evaluation.audit.features import Named, Reading, lowest_bit
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_laplace
from qrelease.privacy import PureDP

ONE = PureDP(1.0)


@dataclass
class Noisy:
    """A transcript with fields."""

    label: str
    value: float


@pytest.mark.parametrize(
    "transcript",
    [
        lambda y: y,
        lambda y: (None, "a fixed word", y),
        lambda y: [y] * (3 + y % 2),
        lambda y: {"noisy": y},
        lambda y: Noisy("noisy", y),
        lambda y: ("below" if y < 0 else "above",),
        lambda y: np.array([[y, 2.5], [7, y * y]]),
        lambda y: np.array(y),
        lambda y: np.ma.masked_array([y, y], mask=[False, True]),
        lambda y: pl.DataFrame({"a": [y, 2], "b": ["x", None]}),
        lambda y: Decimal(y) / 7,
        lambda y: Fraction(y, 7),
        lambda y: y > 0,
    ],
    ids=lambda transcript: type(transcript(1)).__name__,
)
def test_any_kind_of_transcript_is_understood(transcript):
    def run(data, entropy):
        return transcript(data + one(entropy))

    found = audit(run, 0, 3, ONE, samples=4_000, entropy=Entropy.insecure(6))
    assert found.convicted
    assert "  event: " in str(found)
    assert not audit(run, 0, 1, ONE, samples=4_000, entropy=Entropy.insecure(6)).convicted


@pytest.mark.parametrize("transcript", [lambda y: object(), lambda y: {"a": [object()]}, lambda y: (y for _ in "a")])
def test_a_transcript_that_shows_its_address_only_is_refused(transcript):
    with pytest.raises(InvalidInput, match=r"must show what is in them, got a (object|generator) without repr"):
        audit(lambda data, entropy: transcript(data), 0, 1, ONE, samples=100)
    assert not audit(lambda data, entropy: "<a word at 0xff>", 0, 1, ONE, samples=100).convicted


def test_frames_of_many_runs_are_read_by_rows():
    def run(data, entropy, n):
        return pd.DataFrame({"a": data + discrete_laplace(Fraction(1), n, entropy), "b": 1})

    assert sampled(run, 0, 3, ONE, 4_000).convicted
    assert not sampled(run, 0, 1, ONE, 4_000).convicted


@pytest.mark.parametrize(
    ("transcript", "names"),
    [
        (1.5, ["the output"]),
        ([1, 2], ["number 0 of the output", "number 1 of the output"]),
        (Noisy("noisy", 2.0), ["label of the output", "value of the output"]),
        (("told", {"counts": [3, 4], "a b": 1}), ["[0]", "[1][key 0]", "[1].counts[0]", "[1].counts[1]"]),
    ],
)
def test_numbers_are_named_by_where_they_are(transcript, names):
    found = Reading.of([transcript] * 3).names
    assert [name.removesuffix(" of the output") for name in found[: len(names)]] == [
        name.removesuffix(" of the output") for name in names
    ]


def test_places_that_differ_name_no_number():
    reading = Reading.of([{"a": 1, "b": 2}, {"b": 1, "a": 2}])
    assert reading.names[1] == "number 1 of the output"


def test_named_values_are_compared_by_name():
    rows = [Named({"a": 1.0, "b": "x"}), Named({"b": "y", "c": 3.0})]
    reading = Reading.of(rows)
    assert reading.names[:3] == ["a", "b", "c"]
    columns = reading.columns([*rows, Named({"c": 4.0, "new": 9.0})])
    assert np.isnan(columns[:, :3]).tolist() == [[False, False, True], [True, False, False], [True, True, False]]
    assert [reading.words[code] for code in columns[:2, 1]] == ["'x'", "'y'"]
    assert columns[2, 2] == 4


@pytest.mark.parametrize("empty", [[], (), {}, np.empty((2, 0))])
def test_a_part_that_is_empty_is_told_from_one_that_is_not(empty):
    """Also where another part makes up for the length, and among so many values that columns go by quantiles."""

    def noise(entropy):
        return int(discrete_laplace(Fraction(40), 1, entropy)[0])

    def happens(chance, entropy):
        return int(entropy.words(1)[0]) < chance * 2**64

    def swapped(data, entropy):
        return (empty, [noise(entropy)]) if happens(0.9 if data else 0.1, entropy) else ([noise(entropy)], empty)

    def rare(data, entropy):
        return empty if data and happens(0.02, entropy) else [noise(entropy)]

    assert audit(swapped, 0, 1, ONE, samples=4_000, entropy=Entropy.insecure(3)).convicted
    for told in (rare, lambda data, entropy: {"found": rare(data, entropy)}):
        assert audit(told, 0, 1, ONE, samples=8_000, entropy=Entropy.insecure(3)).convicted
    columns = Reading.of([empty, [1.0]]).columns([empty, [1.0], empty])
    assert (columns[0] == columns[2]).all()
    assert columns[:, 1].tolist() == [0, 1, 0]


def test_columns_are_numbers_lowest_bits_and_summaries():
    values = np.array([1.0, 0.75, -6.0, 2.0**-1074, 0.1, 0.0, np.inf, np.nan])
    assert lowest_bit(values)[:7].tolist() == [0, -2, 1, -1074, -55, -2000, -2000]
    assert math.isnan(lowest_bit(values)[7])
    rows = [(1, None, "x"), (2.5,), (math.inf, 3, "y")]
    reading = Reading.of(rows)
    columns = reading.columns(rows)
    assert columns.shape == (3, len(reading.names)) == (3, 3 + 1 + 5)
    assert columns[:, 3].tolist() == [3, 1, 3]
    assert np.isnan(columns[:, 1]).tolist() == [True, True, False]
    assert reading.columns([(1, 2, 3, 4, 5)]).shape == (1, 9)
    with pytest.raises(InvalidInput, match="must fit a float, got one of 1329 bits"):
        reading.columns([(10**400,)])
