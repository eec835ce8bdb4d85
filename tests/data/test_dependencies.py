"""Columns that follow from others, found by blocks of records and by definition."""

import itertools
import random

import pytest

from qrelease.data.dependencies import MAX_VALUES, Dependencies


def found(columns, block):
    """As a draft finds them, in blocks of so many records."""
    seen = Dependencies(len(columns))
    for first in range(0, len(columns[0]), block):
        seen.see([column[first : first + block] for column in columns])
    return seen.found()


def follow(columns):
    """All pairs (a, b) of columns where b follows from a, by definition."""
    pairs = set()
    for a, b in itertools.permutations(range(len(columns)), 2):
        together = set(zip(columns[a], columns[b], strict=True))
        if len(together) == len(set(columns[a])) and len(set(columns[b])) > 1:
            pairs.add((a, b))
    return pairs


def closure(listed):
    """All pairs that are listed, or come of those."""
    pairs = {(a, b) for a, others in listed for b in others}
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c and a != d} - pairs:
        pairs |= more
    return pairs


@pytest.mark.parametrize("block", [1, 7, 500, 3000])
def test_what_is_listed_is_what_follows(block):
    rng = random.Random(4)
    code = [str(rng.randrange(12)) for _ in range(3000)]
    level = [str(int(c) // 3) for c in code]
    columns = [
        level,
        code,
        ["yes" if v == "0" else "no" for v in level],
        [f"name {c}" for c in code],  # and the code follows from it
        [rng.choice("xyz") for _ in code],
        ["always"] * len(code),
        [v if i != 2999 else "9" for i, v in enumerate(level)],  # the last record contradicts the other way
    ]
    listed = found(columns, block)
    assert listed == [(0, (2,)), (1, (0, 3)), (3, (1,)), (6, (0,))]
    assert closure(listed) == follow(columns)


def test_by_chance_in_few_records_is_not_told():
    columns = [[str(i) for i in range(30)], ["ab"[i % 2] for i in range(30)]]
    assert found(columns, 30) == []
    many = [[str(i % 30) for i in range(600)], ["ab"[i % 2] for i in range(600)]]
    assert found(many, 100) == [(0, (1,))]


def test_a_column_of_many_values_is_not_looked_at():
    size = MAX_VALUES
    for values in (size, size + 1):
        first = [str(i % values) for i in range(40 * size)]
        listed = found([first, [str(int(v) % 2) for v in first]], 512)
        assert listed == ([(0, (1,))] if values == size else [])


def test_spaces_around_a_text_do_not_count():
    first = ["a", " a", "b", "b "] * 100
    assert found([first, ["1", "1", "2", "2"] * 100], 64) == [(0, (1,)), (1, (0,))]
