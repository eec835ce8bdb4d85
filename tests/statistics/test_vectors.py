"""Sums of several columns: those of the truncated rows, and how far one record moves them."""

from dataclasses import replace

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.statistics.vector_mean import TruncatedMean
from qrelease.statistics.vectors import VectorColumns
from tests.statistics.doors import door
from tests.statistics.wide import COLUMNS, D, table, vectors


@pytest.mark.parametrize("cost", [ZCDP(0.5), ApproxDP(1.0, 1e-6), PureDP(1.0)])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_one_record_moves_a_truncated_sum_by_its_sensitivity_and_no_more(cost, neighbours):
    """Attained by a record at a corner, so a smaller sensitivity would be wrong."""
    statistic, (base, _) = TruncatedMean(COLUMNS), table(30)
    columns = np.stack(base.columns).astype(np.int64)
    worst = 0.0
    for corner in (0, 199):
        one = Table(base.domain, tuple(np.append(c, 0) for c in columns))
        other = np.concatenate([columns, np.full((D, 1), corner)], axis=1)
        pair = one if neighbours is Neighbours.REPLACE_ONE else base, Table(base.domain, tuple(other))
        ((a, sensitivity),), ((b, _),) = (vectors(statistic, t, cost, neighbours)[0] for t in pair)
        moved = np.abs(b - a).sum() if isinstance(cost, PureDP) else ((b - a) ** 2).sum()
        assert moved <= sensitivity
        worst = max(worst, moved / sensitivity)
    assert worst > 0.7  # under replace-one the count does not move, and its weight is part of the sensitivity


@pytest.mark.parametrize("radius", [None, 11.0])
def test_sums_column_by_column_are_those_of_the_rows(radius):
    """A record that misses a value leaves all sums, which columns alone would not tell."""
    whole, _ = table(400)
    some = Domain(tuple(replace(a, missing=("?",), ordered=True) for a in whole.domain))
    holes = [np.where(np.arange(400) % 30 == i, 200, c) for i, c in enumerate(whole.columns)]
    for records, left in ((whole, 400), (Table(some, tuple(holes)), sum(i % 30 >= D for i in range(400)))):
        statistic, frame = TruncatedMean(COLUMNS, radius), VectorColumns.of(records.domain, COLUMNS)
        reach = np.full(D, 199 if radius is None else 22)
        private = door(records, ZCDP(0.5))
        total, count = frame.clipped_sums(private, reach)
        assert count == left
        assert total.tolist() == np.clip(frame.rows(private), -reach, reach).sum(axis=0).tolist()
        ((exact, _),), _ = vectors(statistic, records, ZCDP(0.5), Neighbours.ADD_REMOVE)
        assert exact[:-1].tolist() == total.tolist()
