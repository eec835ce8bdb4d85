"""What is observed of neighbouring tables, and which pairs of them."""

import logging
import warnings

from qrelease.evaluation.audit.observed import SMALLEST_TABLE, flat, listening, neighbouring
from qrelease.privacy import Neighbours

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def test_no_line_of_ours_is_taken_for_one_of_another_package():
    seen = {}
    with listening(seen):
        logging.getLogger("qrelease.data").info("numba compiled for 7 records, asyncio too")
        logging.getLogger("numba.core").debug("compiled")
        logging.getLogger("asyncio").debug("Using selector")
        warnings.warn("numba is slow for 7 records", UserWarning, stacklevel=1)
    assert [v for k, v in seen.items() if k != "log/length"] == [
        "INFO qrelease.data: numba compiled for 7 records, asyncio too",
        "warning: numba is slow for 7 records",
    ]


def test_values_are_seen_leaf_by_leaf_with_the_lengths_of_lists():
    assert dict(flat({"a": [1, {"b": None}]}, "x")) == {
        "x/names": "a",
        "x/a/length": 2,
        "x/a/0": 1,
        "x/a/1/names": "b",
        "x/a/1/b": None,
    }


def test_pairs_are_neighbours_at_every_small_size():
    sizes = [(len(a), len(b)) for a, b in neighbouring(ADD)]
    assert sizes == [*((n, n + 1) for n in range(SMALLEST_TABLE, 4)), (39, 40)]
    for a, b in neighbouring(SWAP):
        rows = [[*zip(*(c.tolist() for c in side.columns), strict=True)] for side in (a, b)]
        assert sum(x != y for x, y in zip(*rows, strict=True)) == 1
