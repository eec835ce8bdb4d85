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


# A share whose condition runs through bins of exact values

EXACT = Domain(
    (
        Attribute("x", "number", edges=(0, 4, 10), integer=True, within=(0, 9), step=1, missing=("",)),
        Attribute("g", "coded", codes=2, ordered=True),
    )
)


def exact():
    """Every value, and none, in each group; with the points, and with bins alone."""
    points, g = np.tile(np.arange(11), 2), np.repeat([0, 1], 11)
    bins = np.where(points == 10, 2, (points >= 4).astype(np.int64))
    return Table(EXACT, (bins, g), points=(points, None)), Table(EXACT, (bins, g)), points, g


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("x > 5", lambda x, g: (x > 5) & (x < 10)),
        ("x <= 1 and g = 1", lambda x, g: (x <= 1) & (g == 1)),
        ("not x in 2..6", lambda x, g: (x < 2) | (x > 6)),
        ("x < 2 or g = 0", lambda x, g: (x < 2) | (g == 0)),
        ("x is missing or x >= 9", lambda x, g: x >= 9),
    ],
)
def test_who_meets_a_condition_through_bins_is_told_by_the_exact_values(condition, met):
    records, _, x, g = exact()
    sums = needs_of(NumericQuestion.parse(EXACT, f"ratio:{condition} by g"), {}).sums
    expected = np.where(met(x, g), 1, -1)
    np.testing.assert_array_equal(record_values(records, sums), expected)
    totals = [expected[g == 0].sum(), expected[g == 1].sum()]
    np.testing.assert_array_equal(table_of_sums(records, expected, (1,)), totals)


def test_a_table_of_bins_does_not_tell_who_meets_it():
    records, bins, _, _ = exact()
    through, along = (
        Measure(met=str(NumericQuestion.parse(EXACT, f"ratio:{c}").threshold)) for c in ("x > 5", "x > 3")
    )
    check_values(records, [through, along])
    check_values(bins, [along])
    with pytest.raises(InvalidInput, match="made of bins"):
        check_values(bins, [through])
