"""Forecasts of the seconds that a release takes with its files."""

import re
from math import inf

import numpy as np
import pytest
from releases import released
from worlds import coded

from qrelease._util import memory
from qrelease.mechanisms.forecasts import pace, rough
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.privacy import ApproxDP
from qrelease.queries.workload import Workload
from qrelease.release.forecasts import NOTICED, Files, forecast, seconds, table_forecast, takes_long
from tests.mechanisms.chosen import PAIRS

BEGIN = "from here on records, with drawing synthetic records and writing files,"


def test_a_forecast_is_one_line():
    records, cost = FittedRecords(), ApproxDP(1.0, 1e-9)
    size = memory.size(records.memory(PAIRS))
    assert forecast(records, PAIRS, cost, 50_000) == (
        f"{BEGIN} takes about {rough(seconds(records, PAIRS, cost, 50_000))} s, and {size} of memory"
    )
    wide = Workload.marginals(coded(*[20] * 14), 3)
    known = [rough(seconds(records, wide, cost, n)) for n in (10**4, 10**5, 10**6, 10**7, 10**8)]
    assert len({*known}) > 1
    assert forecast(records, wide, cost, None) == (
        f"{BEGIN} takes about {known[0]} s with 10,000, {known[1]} s with 100,000, {known[2]} s with 1,000,000,"
        f" {known[3]} s with 10,000,000 or {known[4]} s with 100,000,000 records (--records N, where that is"
        " public: for N),"
        f" and {memory.size(records.memory(wide))} of memory"
    )


def test_what_takes_five_seconds_for_some_number_of_records_takes_long():
    """Of a machine that is as fast as the one that was measured; a slower one waits sooner."""
    cost, wide = ApproxDP(1.0, 1e-9), Workload.marginals(coded(*[20] * 14), 3)
    for mechanism, workload, records, least, most in [
        (FittedRecords(), PAIRS, 10**6, 0, NOTICED),
        (FittedRecords(), wide, 10**6, 2 * NOTICED, inf),
        (MaxEnt(), PAIRS, 1000, 0, NOTICED),
        (MaxEnt(), Workload.marginals(coded(*[2] * 23), 3), 1000, 2 * NOTICED, inf),
    ]:
        told = seconds(mechanism, workload, cost, records)
        assert least < told / pace() < most
        assert takes_long(mechanism, workload, cost, records) == (told > NOTICED)
    assert takes_long(FittedRecords(), wide, cost, None)


MUNICIPALITIES = 400, 100, 2, 8, 6, 50
ADULT = 16, 32, 9, 32, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2


@pytest.mark.parametrize(
    ("mechanism", "shape", "order", "records", "taken"),
    [
        (FittedRecords(), ADULT, 3, 48_842, 7.0),
        (FittedRecords(), ADULT, 2, 48_842, 7.6),
        (MaxEnt(), (40, 100, 2, 8, 6, 50), 2, 500_000, 5.3),
        (MaxEnt(), (40, 100, 2, 8, 6, 50), 2, 3_000_000, 20.2),
        (MaxEnt(), MUNICIPALITIES, 2, 3_000_000, 47.1),
    ],
)
def test_drawing_and_writing_are_foretold_within_a_factor(mechanism, shape, order, records, taken):
    """Of one core: `taken` was measured on tables of these shapes, over the pace."""
    told = Files().seconds(mechanism, Workload.marginals(coded(*shape), order), records)
    assert taken / 1.5 <= told <= 1.5 * taken


def test_what_is_not_written_takes_no_time():
    workload, cost = Workload.marginals(coded(*MUNICIPALITIES), 2), ApproxDP(1.0, 1e-9)
    own = MaxEnt().seconds(workload, cost, 10**6)
    whole, none = (seconds(MaxEnt(), workload, cost, 10**6, f) for f in (Files(), Files(rows=0, answers=False)))
    assert whole - none > 5 * pace()
    assert none < pace() * (own + 3)
    assert seconds(MaxEnt(), workload, cost, 10**6, Files(rows=1000)) < pace() * (own + 4)
    without = Files().seconds(Matrix(), workload, 10**6)  # of no records, however many there are
    assert without == Files().seconds(Matrix(), workload, 1) < 4


def test_a_large_table_is_told_of_with_its_size_before_it_is_written():
    found = released()
    assert table_forecast(found) == "", "it takes no time"
    told = table_forecast(found, 60_000_000)
    assert told.startswith("the synthetic table will have 60,000,000 records of 3 columns, about ")
    assert told.endswith(" s; --rows N writes fewer")
    (size,) = re.findall(r"about ([0-9.,]+) MiB as CSV", told)
    lines = zip(*found.synthetic(2000, seed=1).values(), strict=True)
    width = np.mean([len(",".join(map(str, line))) + 1 for line in lines])
    assert float(size.replace(",", "")) == pytest.approx(60_000_000 * width / 2**20, rel=0.25)


def test_what_gives_no_table_draws_no_records():
    wide = Workload.marginals(coded(*[30] * 8), 2)
    assert "drawing" not in forecast(MaxEnt(), wide, ApproxDP(1.0, 1e-9), 1000)
