"""Dates as days since 1970-01-01, and back."""

from datetime import date, datetime, timedelta
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
