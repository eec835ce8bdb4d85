"""Forecasts of seconds and memory."""

import pytest
from worlds import coded

from qrelease.mechanisms.forecasts import PACE, Forecasting, pace, rough, slowdown
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.privacy import ApproxDP, PureDP
from qrelease.queries.workload import Workload
from tests.mechanisms.chosen import PAIRS

ADULT = 16, 32, 9, 32, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2
BR2000 = 2, 7, 22, 10, 16, 2, 2, 2, 2, 4, 16, 2, 16, 2


def test_seconds_are_told_to_two_digits_and_some_mechanisms_tell_none():
    assert [rough(s) for s in (0.2, 1.26, 12.3, 201.9, 3_349.0)] == ["1", "1", "12", "200", "3,300"]
    assert isinstance(FittedRecords(), Forecasting)
    assert not isinstance(MWEM(), Forecasting)


@pytest.mark.parametrize(
    ("clock", "own", "times"), [(1.0, 1.0, 1.0), (4.0, 1.0, 2.0), (3.0, 3.0, 3.0), (0.5, 0.5, 0.5)]
)
def test_the_pace_is_that_of_a_core_and_half_of_the_waiting(clock, own, times):
    """clock, own  seconds by the clock and of the thread, times those of the machine that all was measured on."""
    whole = PACE.repeats * PACE.seconds
    assert slowdown(clock * whole, own * whole) == pytest.approx(times)
    assert pace() == pace() > 0  # it is measured once


@pytest.mark.parametrize(
    ("shape", "records", "epsilon", "taken"),
    [
        (ADULT, 48_842, 0.1, 15.4),
        (ADULT, 48_842, 1.0, 19.3),
        (ADULT, 48_842, 10.0, 22.2),
        ((2,) * 16, 21_574, 1.0, 25.3),  # nltcs and acs: everything at once
        ((2,) * 23, 47_461, 1.0, 59.0),
        (BR2000, 38_000, 0.1, 7.5),
        (BR2000, 38_000, 1.0, 11.4),
        (BR2000, 38_000, 10.0, 28.3),
    ],
)
def test_seconds_of_records_are_within_a_factor_of_what_was_taken(shape, records, epsilon, taken):
    """On two cores: `taken` was measured on tables of these shapes, all three-way marginals, over the pace."""
    told = FittedRecords().seconds(Workload.marginals(coded(*shape), 3), ApproxDP(epsilon, 1e-9), records)
    assert taken / 1.5 <= told <= 1.5 * taken


@pytest.mark.parametrize(
    ("shape", "records", "epsilon", "taken"),
    [
        ((2,) * 16, 21_574, 0.1, 1.9),  # nltcs
        ((2,) * 16, 21_574, 1.0, 2.1),
        ((2,) * 16, 21_574, 10.0, 2.3),
        ((2,) * 23, 47_461, 0.1, 8.0),  # acs
        ((2,) * 23, 47_461, 1.0, 12.9),
        ((2,) * 23, 47_461, 10.0, 15.4),
        ((9, 16, 7, 15, 6, 5, 2, 42, 2), 48_842, 0.1, 28.7),  # nine columns of Adult
        ((9, 16, 7, 15, 6, 5, 2, 42, 2), 48_842, 1.0, 21.2),
        ((9, 16, 7, 15, 6, 5, 2, 42, 2), 48_842, 10.0, 33.4),
        ((2, 7, 22, 10, 16, 2, 2), 38_000, 1.0, 13.9),  # seven columns of br2000
        ((2, 7, 22, 10, 16, 2, 2, 2, 2, 4, 16, 2, 16, 2), 38_000, 1.0, 1.4),  # br2000: no histogram
    ],
)
def test_seconds_of_maxent_are_within_a_factor_of_what_was_taken(shape, records, epsilon, taken):
    """Of one core, in a new process: `taken` was measured on tables of these shapes, all their three-way marginals."""
    workload = Workload.marginals(coded(*shape), 3)
    told = MaxEnt().seconds(workload, ApproxDP(epsilon, 1e-9), records)
    assert taken / 1.5 <= told <= 1.5 * taken


def test_maxent_tells_seconds_and_memory_of_whatever_it_can_release():
    assert isinstance(MaxEnt(), Forecasting)
    for workload in (PAIRS, Workload.marginals(coded(1, 1), 2), Workload.marginals(coded(3), 1)):
        for cost in (ApproxDP(1.0, 1e-9), PureDP(1.0), ApproxDP(1.0, 0.0)):
            for records in (0, 1, 10**9):
                assert 0 < MaxEnt().seconds(workload, cost, records) < 10
                assert MaxEnt().memory(workload) >= 64 << 20
    wide = Workload.marginals(coded(*[20] * 14), 3)
    assert MaxEnt().memory(wide) < FittedRecords().memory(wide) < 1 << 31
    whole = Workload.marginals(coded(*[2] * 26), 1)
    assert MaxEnt().memory(whole) > 8 << 26
