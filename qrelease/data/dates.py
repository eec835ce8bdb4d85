"""Dates as days since 1970-01-01, and back."""

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Final

EPOCH: Final = date(1970, 1, 1)
"""The day that is 0."""


def iso_date(day: float) -> str:
    """A day since 1970-01-01 as YYYY-MM-DD."""
    return (EPOCH + timedelta(days=int(day))).isoformat()


def days(text: str) -> float | None:
    """Days since 1970-01-01 of an ISO date or date-time, None for any other text."""
    try:
        return float((datetime.fromisoformat(text).date() - EPOCH).days)
    except ValueError:
        return None


def moment(text: str) -> Fraction | None:
    """Days since 1970-01-01 of an ISO date or date-time, with its time of day, exactly; None for any other text.

    One with an offset is taken in UTC.
    """
    try:
        found = datetime.fromisoformat(text)
        found = (found if found.tzinfo is None else found.astimezone(UTC)).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return Fraction((found - datetime.combine(EPOCH, found.min.time())) // timedelta(microseconds=1), 86_400_000_000)


def iso_moment(day: Fraction) -> str:
    """A moment in days since 1970-01-01 as YYYY-MM-DDTHH:MM, with seconds where there are any."""
    whole = day.__floor__()
    found = datetime.combine(EPOCH, datetime.min.time()) + timedelta(whole, round((day - whole) * 86_400))
    return found.isoformat(timespec="seconds" if found.second else "minutes")
