"""What records add, by hand; and no more than is said, over every record."""

import numpy as np
import pytest
from worlds import universe

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.mechanisms.measured_values import check_values, record_values, table_of_sums
from qrelease.queries.measures import Measure, needs_of
from qrelease.queries.numeric import NumericQuestion

DOMAIN = Domain(
    (
        Attribute("x", "number", edges=(0, 1, 2, 3, 4, 5), integer=True, missing=("",)),
        Attribute("g", "coded", codes=3, ordered=True),
    )
)
TEXTS = ["mean:x by g", "variance:x where g >= 1", "ratio:x >= 3 by g", "count where x >= 2", "histogram:x"]


def table():
    cells = universe(DOMAIN)
    return Table(DOMAIN, tuple(cells.T)), cells


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("clip", [{}, {"x": (1, 3)}])
def test_no_record_adds_more_than_it_may(text, clip):
    records, _ = table()
    for measure, _ in needs_of(NumericQuestion.parse(DOMAIN, text), clip).weights:
        assert np.abs(record_values(records, measure)).max() == measure.top


def test_values_by_hand():
    records, cells = table()
    x, g = cells.T
    there = x < 5
    centred = record_values(records, Measure("x", 1, 1, 3))
    np.testing.assert_array_equal(centred, np.where(there, 2 * np.clip(x, 1, 3) - 4, 0))
    np.testing.assert_array_equal(record_values(records, Measure("x", 2, 1, 3))[there], 2 * centred[there] ** 2 - 4)
    np.testing.assert_array_equal(record_values(records, Measure("x", where="g = 1")), there & (g == 1))
    np.testing.assert_array_equal(record_values(records, Measure(met="g = 1")), np.where(g == 1, 1, -1))
    np.testing.assert_array_equal(
        record_values(records, Measure("x", 1, 0, 4, stride=2))[there], 2 * ((x + 1) // 2)[there] - 2
    )


def test_sums_are_those_of_cells():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 6, 500), rng.integers(0, 3, 500)
    records = Table(DOMAIN, columns)
    values = rng.integers(-(1 << 30), 1 << 30, 500)
    expected = np.zeros((6, 3), np.int64)
    np.add.at(expected, columns, values)
    np.testing.assert_array_equal(table_of_sums(records, values, (0, 1)), expected.reshape(-1))
    np.testing.assert_array_equal(table_of_sums(records, values, ()), [values.sum()])


def test_a_table_of_bins_has_no_values():
    domain = Domain((Attribute("x", "number", edges=(0, 5, 10), within=(0, 9), step=1),))
    with pytest.raises(InvalidInput, match="made of bins"):
        check_values(Table(domain, (np.array([0, 1]),)), [Measure("x", 1, 0, 9)])
