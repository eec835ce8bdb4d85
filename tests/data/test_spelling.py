"""The text of a value and the meaning of a text, whatever type holds it."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from qrelease.data.domain import Domain
from qrelease.data.spelling import ShownTexts, Unreadable, meaning, shown, text_of
from qrelease.data.table import Table
from qrelease.errors import InvalidInput


@pytest.mark.parametrize(
    ("value", "shown"),
    [(10**400, "inf"), (Fraction(-(10**400)), "-inf"), (2**53 + 1.0, "9007199254740992"), (0.5, "0.5")],
)
def test_numbers_are_shown_as_they_are_read(value, shown):
    frame = pd.DataFrame({"x": pd.Series([value], dtype=object)})
    with pytest.raises(InvalidInput, match=rf"row 0 \(from 0\): column 'x': value '{shown}' is not"):
        Table.from_frame(frame, Domain.coded({"x": 2}))


@pytest.mark.parametrize(
    "texts",
    [
        ("1", "1.0", "1e0", "+1", "001", " 1".strip()),
        ("True", "true", "TRUE"),
        ("2024-01-31", "2024-01-31 00:00:00", "2024-01-31T00:00"),
        ("2024-01-31T06:30+02:00", "2024-01-31 04:30:00Z", "2024-01-31 04:30:00 UTC", "2024-01-31 06:30:00 +02:00"),
        ("06:30", "06:30:00", "06:30:00.000000"),
        ("0", "-0.0", "0e9"),
    ],
)
def test_texts_that_a_library_may_turn_into_each_other_have_one_meaning(texts):
    assert len({meaning(text) for text in texts}) == 1
    assert len({type(meaning(text)) for text in texts}) == 1


@pytest.mark.parametrize("text", ["nan", "NaN", "-nan", "1_000", "06:30:00.5", "25:00", "2024-02-30", "", "x", "20a"])
def test_other_texts_stand_for_themselves(text):
    assert meaning(text) == text


@pytest.mark.parametrize("zone", ["CET", "EST", "X"])
def test_the_short_name_of_a_zone_is_no_offset(zone):
    with pytest.raises(InvalidInput, match="short name of a time zone"):
        meaning(f"2024-01-31 06:30:00 {zone}")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1, 1.0, np.float32(1), np.uint8(1), Decimal("1.00"), Fraction(1), 1 + 0j), "1"),
        ((True, np.True_), "true"),
        ((0.1, np.float64(0.1), Decimal("0.1")), "0.1"),
        ((None, float("nan"), np.nan, Decimal("sNaN"), np.datetime64("NaT"), pd.NaT, pd.NA), None),
        ((float("inf"), 10**400, Decimal("1e400")), "inf"),
        ((-(10**400), Fraction(-(10**400))), "-inf"),
        (("é", "é".encode(), np.str_("é")), "é"),
        ((dt.date(2024, 1, 31), dt.datetime(2024, 1, 31), np.datetime64("2024-01-31", "ns")), "2024-01-31"),
        ((dt.time(6, 30),), "06:30:00"),
        ((dt.datetime(2024, 1, 31, 6, tzinfo=dt.timezone(dt.timedelta(hours=2))),), "2024-01-31T04:00:00+00:00"),
    ],
)
def test_values_that_are_equal_have_one_text(values, text):
    assert [text_of(value) for value in values] == [text] * len(values)


def test_the_text_of_a_float_is_read_back_to_the_last_bit():
    for number in np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100):
        assert float(text_of(number)) == number


@pytest.mark.parametrize(
    "value",
    [1j, dt.timedelta(1), np.timedelta64(1, "D"), np.datetime64("10000-01-01"), [1], b"\xff", dt.time(6, 30, 0, 5)],
)
def test_what_has_no_text_is_refused_and_a_draft_sees_why(value):
    with pytest.raises(InvalidInput) as refused:
        text_of(value)
    assert isinstance(shown(value), Unreadable)
    assert shown(value) == str(refused.value)
    assert shown(None) == ""


def test_the_text_of_a_value_is_made_once_in_a_column():
    known = ShownTexts()
    numbers = [0.5, 2.0, None, 1e300, 0.5]
    assert [known[number] for number in numbers] == [shown(number) for number in numbers]
    assert known[0.5] is known[0.5]
    assert [known[float("nan")], known[float("nan")]] == ["", ""]
    assert len(known) == 4, "what is not equal to itself is not kept"
