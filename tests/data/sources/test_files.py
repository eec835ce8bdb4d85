"""Which reader a data file has, by its name alone, and how its dataset is called."""

import bz2
import gzip
import lzma

import pytest

from qrelease.data.sources.csv import CsvReader
from qrelease.data.sources.csv_blocks import BlockCsvReader
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.files import (
    csv_reader,
    dataset_name,
    is_pattern,
    is_server,
    open_reader,
    unpacked,
)
from qrelease.errors import InvalidInput

PACKS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize(
    ("place", "server"),
    [
        ("postgresql://ada@host/people", True),
        (" POSTGRES://host", True),
        ("postgresql:no-address", True),  # which is refused as one, with its password unread
        ("postgres.csv", False),
        ("data/postgresql.db", False),
        ("people.csv", False),
    ],
)
def test_an_address_is_no_file_even_where_it_is_badly_written(place, server, tmp_path):
    assert is_server(place) == server
    assert not is_server(tmp_path / place)


@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        ("people.csv", "people"),
        ("people.csv.gz", "people"),
        ("people.CSV.GZ", "people"),
        ("people.parquet", "people"),
        ("people.pq", "people"),
        ("people.sqlite3", "people"),
        ("people.2024.csv", "people.2024"),
        ("people", "people"),
        ("people.txt", "people.txt"),
    ],
)
def test_a_dataset_is_called_as_its_file_without_the_suffixes(name, dataset, tmp_path):
    assert dataset_name(tmp_path / name) == dataset


def test_a_link_is_the_dataset_that_it_leads_to(tmp_path):
    (tmp_path / "people.csv").write_text("a\n1\n")
    (tmp_path / "other.csv").symlink_to(tmp_path / "people.csv")
    assert dataset_name(tmp_path / "other.csv") == "people"


@pytest.mark.parametrize("place", ["postgresql://h/d", "part-*.csv"])
def test_what_is_no_single_file_needs_a_name(place):
    with pytest.raises(InvalidInput, match="give their dataset a name, by --dataset"):
        dataset_name(place)


def test_a_file_whose_name_has_a_star_is_a_file(in_folder):
    assert is_pattern("part-*.csv")
    (in_folder / "part-*.csv").write_text("a\n1\n")
    assert not is_pattern("part-*.csv")
    assert unpacked("part.csv.xz").name == "part.csv"
    assert unpacked("part.csv").name == "part.csv"


@pytest.mark.parametrize("suffix", PACKS)
def test_a_large_file_is_read_by_blocks_and_a_small_one_by_lines(suffix, tmp_path):
    """Both by their size on the disk; and by the same dialect."""
    small, large = (tmp_path / f"{name}.csv{suffix}" for name in ("small", "large"))
    small.write_bytes(PACKS[suffix](b"a;b\n1;2\n"))
    large.write_bytes(small.read_bytes() + bytes(1 << 21))
    dialect = Dialect(separator=";")
    assert type(csv_reader(small, dialect)) is CsvReader
    assert csv_reader(small, dialect).header == ("a", "b")
    if not suffix:
        assert type(csv_reader(large, dialect)) is BlockCsvReader


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("t.parquet", {"dialect": Dialect(separator=";")}, "are for CSV files"),
        ("t.jsonl.gz", {"dialect": Dialect(separator=";")}, "are for CSV files"),
        ("t.parquet", {"query": "select 1 from t", "dialect": Dialect(separator=";")}, "are for CSV files"),
        ("t.duckdb", {}, "say which of its records with --query"),
        ("none-*.csv", {}, "no file has a name like"),
        ("none.csv", {}, "none.csv cannot be read"),
    ],
)
def test_what_does_not_fit_the_kind_of_file_is_refused(name, options, said, in_folder):
    with pytest.raises(InvalidInput, match=said):
        open_reader(name, **options)


def test_a_pattern_reads_its_files_in_order(in_folder):
    for number in (2, 10, 1):
        (in_folder / f"part-{number:02}.csv").write_text(f"a\n{number}\n")
    assert [file.name for file in open_reader("part-*.csv").files] == ["part-01.csv", "part-02.csv", "part-10.csv"]
