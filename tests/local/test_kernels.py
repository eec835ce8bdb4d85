"""The loops over reports of a linear hash, against the definition, report by report."""

from itertools import product

import numpy as np
import pytest

from qrelease.local.kernels import count_left, support_parts


def hashed(seed, category, g, digits):
    total = 0
    for _ in range(digits):
        seed, a = divmod(seed, g)
        category, b = divmod(category, g)
        total += a * b
    return total % g


@pytest.mark.parametrize(("g", "digits"), [(2, 1), (2, 5), (3, 3), (5, 2), (7, 1), (13, 2)])
def test_supports_are_the_reports_that_hash_to_their_value(g, digits):
    seeds = g**digits
    left = np.random.default_rng(g).integers(0, 50, (seeds, g))
    expected = [
        sum(int(left[seed, hashed(seed, category, g, digits)]) for seed in range(seeds)) for category in range(seeds)
    ]
    before = left.copy()
    for parts in {1, 2, g, seeds - 1, seeds}:
        assert support_parts(left, g, digits, parts).tolist() == expected[:parts]
    assert np.array_equal(left, before)


@pytest.mark.parametrize("lengths", [(1,), (2, 1), (1, 1, 2)])
@pytest.mark.parametrize("g", [2, 3, 251])
def test_what_categories_add_is_taken_off_each_report(g, lengths):
    """Seeds of a lowest digit and pieces of some digits; what a piece takes off is any table."""
    rng = np.random.default_rng(len(lengths))
    lowest, powers = g, [g**length for length in lengths]
    powers = [min(power, 300) for power in powers]
    tables = rng.integers(0, g, (len(powers), max(powers), 4)).astype(np.uint16)
    lows, reports, codes = [], [], []
    for _ in range(200):
        low, value = int(rng.integers(lowest)), int(rng.integers(g))
        rows = [int(rng.integers(power)) for power in powers]
        seed = 0
        for row, power in zip(reversed(rows), reversed(powers), strict=True):
            seed = seed * power + row
        lows.append(low)
        reports.append((rows, value))
        codes.append((seed * lowest + low) * g + value)
    total = np.full((lowest, 4, g), 7, np.int64)  # it is added to
    wanted = total.copy()
    for low, (rows, value), j in ((*pair, j) for pair, j in product(zip(lows, reports, strict=True), range(4))):
        wanted[low, j, (value + sum(int(tables[i, row, j]) for i, row in enumerate(rows))) % g] += 1
    count_left(np.array(codes, np.uint64), np.uint64(g), np.uint64(lowest), np.array(powers, np.uint64), tables, total)
    assert np.array_equal(total, wanted)
