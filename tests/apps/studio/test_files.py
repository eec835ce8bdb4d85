"""The folder of a studio: what may be chosen in it, and what is written there."""

import asyncio

import pytest

from qrelease.apps.studio.files import Folder, is_data
from qrelease.errors import InvalidInput


@pytest.fixture
def folder(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("b.csv", "a.parquet", "notes.txt", "schema.toml", ".hidden.csv", "table.duckdb"):
        (inner / name).write_text("x\n1\n")
    (tmp_path / "outside.csv").write_text("x\n1\n")
    (inner / "link.csv").symlink_to(tmp_path / "outside.csv")
    (inner / "same.csv").symlink_to(inner / "b.csv")
    (inner / "folder.csv").mkdir()
    return Folder(inner.resolve())


async def parts(*pieces):
    for piece in pieces:
        yield piece


def test_data_files_and_schemas_of_the_folder_are_listed(folder):
    assert folder.listed() == {"data": ["a.parquet", "b.csv", "same.csv"], "schemas": ["schema.toml"]}


@pytest.mark.parametrize(
    "name",
    ["../outside.csv", "link.csv", "/etc/passwd", "", "..", ".hidden.csv", "a\\b.csv", "no.csv", "x\0.csv", "C:b.csv"],
)
def test_no_name_leads_out_of_the_folder(folder, name):
    with pytest.raises(InvalidInput, match=r"path|no file"):
        folder.chosen(name)


def test_a_path_that_is_typed_is_meant(folder, tmp_path):
    assert folder.typed(str(tmp_path / "outside.csv")) == tmp_path / "outside.csv"
    assert folder.typed(" ../outside.csv ") == folder.path.parent / "outside.csv"
    for path in ("", " ", "nowhere.csv", "x\0", str(tmp_path), "x" * 5000):
        with pytest.raises(InvalidInput):
            folder.typed(path)


def test_a_file_that_is_sent_is_new_and_whole_and_its_owner_s(folder):
    kept = asyncio.run(folder.keep("new.csv", 8, parts(b"x\n1\n", b"2\n3\n")))
    assert kept.read_bytes() == b"x\n1\n2\n3\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.stat().st_nlink == 1  # else the ledger would ask for its other name
    before = sorted(folder.path.iterdir())
    for name, size in (
        ("new.csv", 4),
        ("short.csv", 9),
        ("../up.csv", 4),
        ("no.txt", 4),
        (".csv", 4),
        ("big.csv", 1 << 60),
    ):
        with pytest.raises(InvalidInput):
            asyncio.run(folder.keep(name, size, parts(b"x\n1\n")))
    assert sorted(folder.path.iterdir()) == before
    assert kept.read_bytes() == b"x\n1\n2\n3\n"


def test_a_name_that_is_free_has_a_number(folder):
    assert folder.free_name("schema", ".toml").name == "schema-2.toml"
    assert folder.free_name("people-release").name == "people-release"


def test_data_are_known_by_their_names():
    assert [n for n in ("a.csv", "a.csv.gz", "a.jsonl", "a.PQ", "a.duckdb", "a.gz", "a", "a.toml") if is_data(n)] == [
        "a.csv",
        "a.csv.gz",
        "a.jsonl",
        "a.PQ",
    ]
