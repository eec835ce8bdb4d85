"""What a draft asks about: marks of missing values, and spellings."""

import pytest

from qrelease.data.doubts_draft import are_days, missing_marks, spelled_alike, sure_marks

AGES = {float(age): max(95 - age, 1) for age in range(18, 96)}


@pytest.mark.parametrize(
    ("places", "marks"),
    [
        ({-99.0: 5, -9.0: 5, 0.0: 30, 12.5: 1}, [-99, -9]),
        ({-9.0: 4, 0.0: 30, 12.5: 1}, []),  # so few are mistakes
        ({-12.0: 9, -9.0: 9, 0.0: 30, 12.5: 1}, []),  # other numbers below zero: those are values
        ({-1.0: 9, 0.0: 30, 1.0: 9}, []),
        ({-9.0: 90}, []),
        ({18.0: 9, 90.0: 2, 998.0: 6, 999.0: 6}, [998, 999]),
        ({**AGES, 99.0: 6}, [99]),  # beyond a gap
        ({**AGES, 96.0: 5, 97.0: 2, 98.0: 5, 99.0: 14}, []),
        ({**AGES, 96.0: 5, 97.0: 2, 98.0: 14, 99.0: 60}, [99]),  # many more than beside it
        ({**AGES, 96.0: 5, 97.0: 2, 98.0: 14, 99.0: 40, 999.0: 5}, [999]),
        ({**AGES, 96.0: 5, 97.0: 2, 98.0: 14, 99.0: 60, 999.0: 5}, [99, 999]),
        ({float(n): 20 for n in (1, 2, 3, 4, 5, 9)}, [9]),
        ({float(n): 20 for n in (1, 2, 3, 4, 5, 7, 8, 9)}, [7, 8, 9]),
        ({float(n): 20 for n in (1, 2, 9)}, [9]),
        ({float(n): 20 for n in range(10)}, []),
        ({**{float(n): 20 for n in range(9)}, 9.0: 900}, []),  # the best mark of ten, or nine and more
        ({float(n): 20 for n in (3, 6, 9)}, []),
        ({float(n): 20 for n in range(9, 100, 10)}, []),
        ({**{n / 2: 9 for n in range(-60, 70)}, -999.0: 6, 99.0: 7}, [-999, 99]),
        ({**{float(n): 9 for n in range(-60, 70)}, -77.0: 5}, [-77]),
        ({float(n): 9 for n in range(-99, 70)}, []),
        ({18.0: 9, 98.0: 6, 99.0: 5, 100.0: 4}, []),
        ({18.0: 9, 95.0: 2, 99.0: 5}, []),
        ({1.0: 9, 5.0: 9, 9.0: 9}, []),
        ({}, []),
    ],
)
def test_marks_of_missing_are_known_by_how_they_lie(places, marks):
    assert missing_marks(places) == marks


@pytest.mark.parametrize(
    ("places", "sure"),
    [
        ({-9.0: 20, 0.0: 50, 1250.0: 3}, [-9]),
        ({-2.0: 537, -1.0: 537, 0.0: 537, 1.0: 537}, []),  # these go on from 0 in steps of 1
        ({-1.0: 20, 0.0: 50, 1.0: 50, 2.0: 9}, []),
        ({-1.0: 20, 1.0: 50, 2.0: 9}, [-1]),  # beyond a gap
        ({-1.0: 20, 0.0: 50, 0.25: 9}, [-1]),  # among fractions it is far from 0
        ({-9.0: 20, -1.0: 20, 0.0: 50, 1.0: 20}, [-9]),
        ({-9.0: 60, 1.0: 30, 2.0: 29}, []),  # half of all records
        ({9.0: 20, 0.0: 50, -1250.0: 3}, [9]),
        ({18.0: 9, 90.0: 2, 999.0: 6}, []),  # not beyond zero: only asked about
    ],
)
def test_marks_that_go_on_from_other_values_or_that_many_have_are_not_taken_for_missing(places, sure):
    marks = missing_marks(places)
    assert marks
    assert sure_marks(marks, places) == sure


def test_whole_numbers_that_are_all_days():
    days = [year * 10_000 + month * 100 + 28 for year in (1800, 2000, 2199) for month in range(1, 13)]
    assert are_days(days)
    assert are_days([*days, 20000229])
    for other in (20010229, 20001301, 20000100, 17991231, 22000101, 2000, 0, -20000101):
        assert not are_days([*days, other])
    assert not are_days(days[:19])


def test_spellings_that_differ_in_capitals_and_spaces():
    assert spelled_alike(["a", "B", "b", "new  york", "New York", "c"]) == [("B", "b"), ("New York", "new  york")]
    assert spelled_alike(["a", "b"]) == []
