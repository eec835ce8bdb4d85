"""Records that count as fractions: exact sums in each cell, and no way to read one record by itself."""

from dataclasses import replace

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.data.fractional_records import FractionalRecords, sums_by_cell
from qrelease.data.person import Person
from qrelease.errors import InvalidInput

SIZES = {"a": 3, "b": 2, "c": 4}
DOMAIN = replace(Domain.coded(SIZES), person=Person("who", 3, weights="persons"))


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(0, size, n).astype(np.uint8) for size in SIZES.values()), rng


@pytest.mark.parametrize("axes", [(), (1,), (0, 2), (2, 0), (0, 1, 2)])
def test_sums_by_cell_are_those_of_a_loop_to_the_last_digit(axes):
    """Of numbers of either sign up to 2^30, whose sums no single precision would hold."""
    columns, rng = records(500)
    numbers = rng.integers(-(1 << 30), (1 << 30) + 1, 500)
    expected = {}
    for i, number in enumerate(numbers.tolist()):
        cell = tuple(int(columns[a][i]) for a in axes)
        expected[cell] = expected.get(cell, 0) + number
    found = sums_by_cell(DOMAIN, [columns[a] for a in axes], numbers, axes)
    assert found.dtype == np.int64
    shape = [DOMAIN.shape[a] for a in axes]
    assert {cell: int(found.reshape(shape)[cell]) for cell in np.ndindex(*shape)} == {
        cell: expected.get(cell, 0) for cell in np.ndindex(*shape)
    }


def test_more_records_than_are_summed_at_once_are_summed():
    n = (1 << 22) + 3
    numbers = np.full(n, 1 << 30)
    column = np.zeros(n, np.uint8)
    column[-2:] = 1
    domain = Domain.coded({"a": 2})
    assert sums_by_cell(domain, [column], numbers, (0,)).tolist() == [(n - 2) << 30, 2 << 30]
    assert sums_by_cell(domain, [], numbers, ()).tolist() == [n << 30]


def test_each_person_counts_once_however_many_records_were_kept():
    columns, _ = records(4)
    whole = 1 << DOMAIN.weight_bits
    parts = np.array([whole, whole // 2, whole - whole // 2, whole])  # three persons
    kept = FractionalRecords(DOMAIN, columns, parts)
    assert len(kept) == 3
    assert [counts.sum() for counts in kept.counts([(0,), (0, 1), ()])] == [3 * whole] * 3
    assert kept.bounded(b"key") is kept
    assert kept.person_column == "who"
    assert (kept.keeps_records, kept.knows_persons, kept.texts, kept.points) == (False, False, {}, ())


def test_no_record_is_read_by_itself_and_none_is_shown():
    columns, _ = records(2)
    kept = FractionalRecords(DOMAIN, columns, np.array([1, 1]) << DOMAIN.weight_bits)
    with pytest.raises(InvalidInput, match="column 'b': each person counts once"):
        kept.codes(1)
    with pytest.raises(InvalidInput, match="no fingerprint"):
        kept.fingerprint(b"key")
    assert repr(kept) == f"FractionalRecords({DOMAIN}; the records are private)"
