"""Local sensitivity at a distance against brute force."""

import numpy as np
import pytest

from qrelease.statistics.grid import Numbers
from qrelease.statistics.local_sensitivity import EXACT_DISTANCES, Median, StableMean, TrimmedMean, WinsorisedMean
from tests.statistics.small_tables import ADD, CELLS, REPLACE, around, tables

FAR = 4


def brute(function, records, neighbours):
    """A(x, 0..FAR) of every table of at most so many records, by walking from neighbour to neighbour."""
    reach = records + (FAR + 1 if neighbours is ADD else 0)
    value = {t: function.value(Numbers.listed(t, CELLS), neighbours) for t in tables(reach)}
    inside = [t for t in value if neighbours is REPLACE or len(t) < reach]
    near = {t: around(t, neighbours) & value.keys() for t in inside}
    local = {t: max((abs(value[t] - value[y]) for y in near[t]), default=0) for t in inside}
    found = {t: [local[t]] for t in inside}
    for k in range(1, FAR + 1):
        for t in inside:
            if all(len(found.get(y, ())) >= k for y in near[t]):
                found[t].append(max([found[t][k - 1], *(found[y][k - 1] for y in near[t])]))
    return {t: found[t] for t in inside if len(t) <= records}


@pytest.mark.parametrize(
    ("function", "neighbours"),
    [(Median(), ADD), (Median(), REPLACE), (TrimmedMean(0.0), REPLACE), (TrimmedMean(0.25), REPLACE)]
    + [(WinsorisedMean(trim), REPLACE) for trim in (0.0, 0.2, 0.25, 0.49)],
)
def test_sensitivities_are_those_of_brute_force(function, neighbours):
    """On all tables of at most eight records; so S is the same, at any β."""
    for table, exact in brute(function, 8, neighbours).items():
        if neighbours is REPLACE and not table:
            continue
        assert len(exact) == FAR + 1
        found = function.sensitivities(Numbers.listed(table, CELLS), FAR, neighbours)
        assert found.tolist() == exact, table


def test_a_winsorised_mean_stays_smooth_where_its_sensitivity_is_a_bound():
    """A(x, k) <= A(x', k + 1) and A(x, k) <= A(x, k + 1), on both sides of the last exact distance and across it."""
    rng, function, most = np.random.default_rng(4), WinsorisedMean(0.3), EXACT_DISTANCES + 12
    for spread in (3, 40, 400):
        values = np.sort(np.clip(rng.normal(500, spread, 700), 0, 999).astype(int))
        other = values.copy()
        other[rng.integers(len(values))] = rng.integers(1000)
        found = [function.sensitivities(Numbers.listed(v, 1000), most, REPLACE) for v in (values, other)]
        for one, two in (found, found[::-1]):
            assert (one[:-1] <= two[1:]).all()
            assert (np.diff(one) >= 0).all()
            assert one[-1] <= 3 * one[EXACT_DISTANCES]


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_a_mean_moves_by_no_more_than_it_says(neighbours):
    for table, exact in brute(StableMean(), 6, neighbours).items():
        found = StableMean().sensitivities(Numbers.listed(table, CELLS), FAR, neighbours)
        assert (found >= exact).all(), table
        assert neighbours is ADD or not table or found[0] <= exact[0] + 65536 * CELLS


# --- propose-test-release --------------------------------------------------------------------------------------
