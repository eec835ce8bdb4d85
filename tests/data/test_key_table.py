"""Tables of keys: each key's code is asked for once, in the order in which they come, and found again in any piece."""

import numpy as np
import pytest

from qrelease.data.key_table import KeyTable
from qrelease.errors import InvalidInput

MIX = 0x9E3779B97F4A7C15
"""By which the table mixes keys: multiples of its inverse meet in few slots."""


def pieces_of(kind):
    rng = np.random.default_rng(0)
    if kind == "few":
        return [rng.integers(-5, 5, 1000) for _ in range(5)]
    if kind == "many":
        return [rng.integers(-(2**62), 2**62, 3000) for _ in range(4)] + [np.arange(5000)] * 2
    if kind == "meeting":  # the low bits that choose a slot are alike
        return [(np.arange(500, dtype=np.uint64) << np.uint64(40)).astype(np.int64) * pow(MIX, -1, 2**61) % 2**61] * 2
    return [np.empty(0, np.int64), np.array([0, 0, -1]), np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])]


@pytest.mark.parametrize("expected", [0, 700, 100_000])
@pytest.mark.parametrize("kind", ["few", "many", "meeting", "empty"])
def test_codes_are_those_of_a_dictionary(kind, expected):
    table, known, asked = KeyTable(expected), {}, []
    for piece in pieces_of(kind):
        fresh = []
        for position, key in enumerate(piece.tolist()):
            if key not in known:
                known[key] = 7 * len(known)
                fresh.append((position, key))

        def codes(positions, keys):
            asked.extend(zip(positions.tolist(), keys.tolist(), strict=True))
            return np.array([known[key] for key in keys.tolist()])

        asked.clear()
        assert table.codes(piece, codes).tolist() == [known[key] for key in piece.tolist()]
        assert asked == fresh


def test_an_error_comes_at_the_first_position_that_has_one():
    def codes(positions, keys):
        raise InvalidInput(f"position {positions[keys < 0][0]}")

    with pytest.raises(InvalidInput, match="position 2"):
        KeyTable().codes(np.array([4, 4, -3, 5, -7]), codes)
