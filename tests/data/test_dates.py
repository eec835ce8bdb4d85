"""Days and moments: against the calendar, with offsets, and there and back."""

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.data.dates import days, iso_date, iso_moment, moment


@given(st.dates())
def test_days_are_those_of_the_calendar_there_and_back(day):
    assert days(day.isoformat()) == (day - date(1970, 1, 1)).days == moment(day.isoformat())
    assert iso_date(days(day.isoformat())) == day.isoformat()


@given(st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)), st.integers(-1439, 1439))
def test_moments_are_exact_and_in_utc(when, minutes):
    """To the microsecond, so an offset moves a moment by exactly its minutes of a day."""
    plain = moment(when.isoformat())
    since = when.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert plain == Fraction(since // timedelta(microseconds=1), 24 * 3600 * 10**6)
    sign, (hours, rest) = "-+"[minutes >= 0], divmod(abs(minutes), 60)
    assert moment(f"{when.isoformat()}{sign}{hours:02}:{rest:02}") == plain - Fraction(minutes, 1440)
    assert days(when.isoformat()) == plain.__floor__()


@given(st.datetimes().map(lambda t: t.replace(microsecond=0)))
def test_moments_are_written_as_they_are_read(when):
    text = iso_moment(moment(when.isoformat()))
    assert moment(text) == moment(when.isoformat())
    assert len(text) == (19 if when.second else 16)


@pytest.mark.parametrize("text", ["", "today", "2024-02-30", "12:30", "1970", "99999-01-01", "٢٠٢٤-01-01x"])
def test_other_texts_are_no_dates(text):
    assert days(text) is moment(text) is None


def test_a_moment_before_the_first_year_in_utc_is_none():
    assert moment("0001-01-01T00:30+01:00") is None
    assert moment("0001-01-01T00:30-01:00") is not None
