"""A workload as one matrix: against the tests' own."""

import numpy as np
import pytest
from worlds import PEOPLE, coded, full_matrix, mixed

from qrelease.errors import TooLarge
from qrelease.inference.measurement import RECORDS
from qrelease.queries.dense import MAX_ENTRIES, check_dense, dense
from qrelease.queries.workload import Workload


@pytest.mark.parametrize(
    "workload",
    [mixed(), Workload.marginals(PEOPLE, 3), Workload(PEOPLE, (RECORDS,)), Workload.ranges(coded(7), "a")],
    ids=["mixed", "all", "none", "ranges"],
)
def test_it_is_the_matrix_of_the_queries(workload):
    rows, unit = dense(workload)
    assert rows.dtype == np.int64
    assert (rows * unit == full_matrix(workload)).all()


def test_what_does_not_fit_is_refused():
    domain = coded(*[2] * 16)
    check_dense(Workload.marginals(domain, 1))
    with pytest.raises(
        TooLarge, match=rf"at most {MAX_ENTRIES:,} times in all: 480 queries over 65,536 cells are more"
    ):
        check_dense(Workload.marginals(domain, 2))
    with pytest.raises(TooLarge, match=r"over 2\^60 cells"):
        dense(Workload.marginals(coded(*[2] * 60), 1))
