"""What a draft asks about: marks of missing values, and spellings."""

import pytest

from qrelease.data.doubts_draft import missing_marks, spelled_alike


@pytest.mark.parametrize(
    ("places", "marks"),
    [
        ({-99.0: 5, -9.0: 5, 0.0: 30, 12.5: 1}, [-99, -9]),
        ({-9.0: 4, 0.0: 30, 12.5: 1}, []),  # so few are mistakes
        ({-12.0: 9, -9.0: 9, 0.0: 30, 12.5: 1}, []),  # other numbers below zero: those are values
        ({-1.0: 9, 0.0: 30, 1.0: 9}, []),
        ({-9.0: 90}, []),
        ({18.0: 9, 90.0: 2, 998.0: 6, 999.0: 6}, [998, 999]),
        ({18.0: 9, 95.0: 2, 99.0: 6}, [99]),
        ({18.0: 9, 98.0: 6, 99.0: 5, 100.0: 4}, []),
        ({18.0: 9, 95.0: 2, 99.0: 5}, []),
        ({1.0: 9, 5.0: 9, 9.0: 9}, []),
        ({}, []),
    ],
)
def test_marks_of_missing_are_known_by_how_they_lie(places, marks):
    assert missing_marks(places) == marks


def test_spellings_that_differ_in_capitals_and_spaces():
    assert spelled_alike(["a", "B", "b", "new  york", "New York", "c"]) == [("B", "b"), ("New York", "new  york")]
    assert spelled_alike(["a", "b"]) == []
