"""Forecasts of seconds and memory."""

from worlds import coded

from qrelease._util import memory
from qrelease.mechanisms.forecasts import Forecasting, forecast, rough
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.privacy import ApproxDP
from qrelease.queries.workload import Workload
from tests.mechanisms.chosen import PAIRS


def test_a_forecast_is_one_line():
    records, cost = FittedRecords(), ApproxDP(1.0, 1e-9)
    size = memory.size(records.memory(PAIRS))
    assert forecast(records, PAIRS, cost, 50_000) == (
        f"records takes about {rough(records.seconds(PAIRS, cost, 50_000))} s; {size} of memory"
    )
    assert forecast(records, PAIRS, cost, None) == f"records takes about 1 s; {size} of memory"
    wide = Workload.marginals(coded(*[20] * 14), 3)
    known = [rough(records.seconds(wide, cost, n)) for n in (10_000, 100_000, 1_000_000)]
    assert len({*known}) > 1
    assert forecast(records, wide, cost, None) == (
        f"records takes about {known[0]} s for 10,000, {known[1]} s for 100,000, {known[2]} s for 1,000,000 records;"
        f" {memory.size(records.memory(wide))} of memory"
    )
    assert [rough(s) for s in (0.2, 1.26, 12.3, 201.9, 3_349.0)] == ["1", "1", "12", "200", "3,300"]
    assert isinstance(records, Forecasting)
    assert not isinstance(MWEM(), Forecasting)
