import datetime as dt
import gzip
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import PEOPLE, TEXT, codes

from qrelease.data.domain import Domain
from qrelease.data.marginals import counting
from qrelease.data.table import Table
from qrelease.errors import InvalidInput


def test_a_table_is_silent_and_fixed(file):
    found = Table.read_csv(file(TEXT), PEOPLE)
    assert repr(found) == str(found) == "Table(age[4] x sex[2] x day[3] (24 cells); the records are private)"
    assert [column.dtype for column in found.columns] == [np.uint8] * 3
    with pytest.raises(ValueError, match="read-only"):
        found.columns[0][0] = 1


@pytest.mark.parametrize(("size", "kind"), [(1, np.uint8), (256, np.uint8), (257, np.uint16), (70_000, np.uint32)])
def test_codes_take_the_smallest_type(size, kind):
    given_codes = np.array([0, size - 1])
    found = Table(Domain.coded({"a": size}), (given_codes,))
    assert found.columns[0].dtype == kind
    given_codes[0] = 99
    assert found.columns[0].tolist() == [0, size - 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "the domain has 2 columns, got 0 arrays"),
        ([[0], [0, 1]], "columns must be 1-d arrays of one length, got shapes (1,), (2,)"),
        ([[[0]], [[1]]], "columns must be 1-d arrays of one length"),
        ([[0], [2]], "column 'b' must hold codes 0..1, got 2..2"),
        ([[0], [-1]], "column 'b' must hold codes 0..1, got -1..-1"),
        ([[0], [0.5]], "column 'b' must hold integer codes, got float64"),
        ([[0], [True]], "column 'b' must hold integer codes, got bool"),
    ],
)
def test_table_refuses(columns, message):
    with pytest.raises(InvalidInput) as caught:
        Table(Domain.coded({"a": 2, "b": 2}), tuple(map(np.array, columns)))
    assert message in str(caught.value)


# ---- data frames
FRAME = {
    "age": [19, None, 40],
    "sex": ["F", "M", "F"],
    "day": [dt.date(2020, 1, 31), None, dt.date(2020, 2, 1)],
    "extra": [1.5, 2.5, 3.5],
}


# ---- counts


def counts_twin(columns, shape, sets):
    """The marginal counts, record by record."""
    found = []
    for axes in sets:
        counts = np.zeros([shape[a] for a in axes], dtype=np.int64)
        for record in zip(*columns, strict=True):
            counts[tuple(record[a] for a in axes)] += 1
        found.append(counts.ravel())
    return found


@settings(deadline=None)  # the first call compiles
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=5).flatmap(
        lambda shape: st.tuples(
            st.just(tuple(shape)),
            st.lists(st.lists(st.integers(0, len(shape) - 1), unique=True).map(tuple), max_size=5),
            st.integers(0, 40),
            st.integers(0, 2**32 - 1),
        )
    )
)
def test_counts_equal_the_twin(case):
    shape, sets, n, seed = case
    rng = np.random.default_rng(seed)
    domain = Domain.coded({f"c{i}": size for i, size in enumerate(shape)})
    found = Table(domain, tuple(rng.integers(0, size, n) for size in shape))
    counts = found.counts(sets)
    assert len(counts) == len(sets)
    for got, expected in zip(counts, counts_twin(found.columns, shape, sets), strict=True):
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(found.histogram(), counts_twin(found.columns, shape, [tuple(range(len(shape)))])[0])


def test_counts_over_many_steps():
    """A step takes so many bytes of codes: there are four and a rest."""
    rows = counting.SETTINGS.block_bytes // 2
    rng = np.random.default_rng(3)
    shape = (300, 2, 5)
    found = Table(Domain.coded({"a": 300, "b": 2, "c": 5}), tuple(rng.integers(0, size, rows) for size in shape))
    sets = [(0, 2), (2, 0), (1,), (), (0, 1, 2)]
    for got, expected in zip(found.counts(sets), counts_twin(found.columns, shape, sets), strict=True):
        np.testing.assert_array_equal(got, expected)


# ---- larger than memory


@pytest.mark.parametrize("wide", [False, True])
def test_what_does_not_fit_in_memory_is_mapped_from_files(file, tmp_path, free_memory, wide):
    """Whatever part of it is held, a table is the same."""
    domain = Domain.coded({"a": 3, "b": 300 if wide else 200})
    rng = np.random.default_rng(0)
    data = {"a": rng.integers(0, 3, 5000), "b": rng.integers(0, domain.shape[1], 5000)}
    text = "".join(f"{a},{b}\n" for a, b in zip(data["a"], data["b"], strict=True))
    pd.DataFrame(data).to_parquet(tmp_path / "t.parquet")
    path = file("a,b\n" + text)
    held = Table.read_csv(path, domain)
    assert not any(isinstance(c, np.memmap) for c in held.columns)
    free_memory(4000)
    for found in (Table.read_csv(path, domain), Table.read_parquet(tmp_path / "t.parquet", domain)):
        assert all(isinstance(c, np.memmap) and c.mode == "r" for c in found.columns)
        assert codes(found) == codes(held)
        assert [c.dtype for c in found.columns] == [np.uint8, np.uint16 if wide else np.uint8]
        for ours, theirs in zip(found.counts([(0, 1), (1,)]), held.counts([(0, 1), (1,)]), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        with pytest.raises(ValueError, match="read-only"):
            found.columns[0][0] = 1


def test_a_file_that_changes_after_it_was_read_is_named(tmp_path):
    """Its codes index tables: none may lie beyond them, whatever another process has written."""
    domain, rng = Domain.coded({"a": 3, "b": 200}), np.random.default_rng(0)
    paths = [tmp_path / name for name in domain.names]
    for path, size in zip(paths, domain.shape, strict=True):
        rng.integers(0, size, 5000).astype(np.uint8).tofile(path)
    found = Table(domain, tuple(np.memmap(path, np.uint8, "r") for path in paths))
    assert found.counts([(1,)])[0].sum() == 5000
    with paths[1].open("r+b") as file:
        file.seek(4999)
        file.write(b"\xff")
    with pytest.raises(InvalidInput, match="column 'b' has other codes than when it was read"):
        found.counts([(0, 1)])
    assert found.counts([(0,)])[0].sum() == 5000


def test_a_large_source_is_read_without_holding_it(file, free_memory):
    path, domain = file("a\n" + "1\n" * 400_000), Domain.coded({"a": 2})
    free_memory(4 * 50_000)
    Table.read_csv(path, domain)  # what is loaded once does not count
    tracemalloc.start()
    try:
        found = Table.read_csv(path, domain)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 400_000
    assert peak < 350_000


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "pandas", "untyped", "polars", "arrow"])
def test_a_table_without_records_is_a_table(file, tmp_path, suffix):
    """It is the neighbour of a table with one record, under add-remove."""
    empty = pl.DataFrame(FRAME).clear()
    match suffix:
        case "csv":
            table = Table.read_csv(file("age,sex,day\n"), PEOPLE)
        case "csv.gz":
            path = tmp_path / "people.csv.gz"
            path.write_bytes(gzip.compress(b"age,sex,day"))
            table = Table.read_csv(path, PEOPLE)
        case "parquet":
            empty.write_parquet(tmp_path / "people.parquet")
            table = Table.read_parquet(tmp_path / "people.parquet", PEOPLE)
        case "untyped":
            table = Table.from_frame(pd.DataFrame({name: [] for name in FRAME}), PEOPLE)
        case _:
            made = {"pandas": empty.to_pandas, "polars": empty.clone, "arrow": empty.to_arrow}[suffix]()
            table = Table.from_frame(made, PEOPLE)
    assert len(table) == 0
    assert table.histogram().sum() == 0
    assert table.counts([(0,), (1, 2)])[1].tolist() == [0] * PEOPLE.cells((1, 2))
    one = pl.DataFrame(FRAME).head(1)
    assert [c.dtype for c in table.columns] == [c.dtype for c in Table.from_frame(one, PEOPLE).columns]


def test_columns_to_count_may_be_named():
    table = Table(PEOPLE, tuple(np.arange(300) % size for size in PEOPLE.shape))
    names = PEOPLE.names
    for named, places in [([names[1], names[0]], (1, 0)), (names[2], (2,)), ([names[0], 1], (0, 1))]:
        assert table.counts([named])[0].tolist() == table.counts([places])[0].tolist()
    with pytest.raises(InvalidInput, match="no attribute 'nobody'"):
        table.counts([["nobody"]])
