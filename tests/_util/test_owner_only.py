"""Files of what is not private: their owner alone may read them, whatever the umask says."""

import os
import stat

import pytest

from qrelease._util.durable import replace_durably
from qrelease._util.owner_only import append_for_owner, new_for_owner, write_for_owner


@pytest.fixture(autouse=True)
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_of_before_is_replaced_by_one_for_its_owner(tmp_path):
    file = tmp_path / "picture.svg"
    file.write_text("old")
    assert stat.S_IMODE(file.stat().st_mode) == 0o666
    with file.open() as reader:
        write_for_owner(file, b"new")
        assert reader.read() == "old"
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [file]


def test_where_it_cannot_be_replaced_nothing_is_left_beside_it(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_for_owner(tmp_path / "folder", b"new")
    assert [*tmp_path.iterdir()] == [tmp_path / "folder"]


def test_a_new_file_overwrites_none(tmp_path):
    os.close(new_for_owner(tmp_path / "counts"))
    assert stat.S_IMODE((tmp_path / "counts").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        new_for_owner(tmp_path / "counts")


def test_lines_are_added_for_the_owner_and_through_no_link(tmp_path):
    for text in ("one\n", "two\n"):
        append_for_owner(tmp_path / "said", text)
    assert (tmp_path / "said").read_text() == "one\ntwo\n"
    assert stat.S_IMODE((tmp_path / "said").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "said")
    with pytest.raises(OSError, match="link"):
        append_for_owner(tmp_path / "link", "three\n")


def test_a_file_that_is_replaced_durably_is_for_its_owner(tmp_path):
    (tmp_path / "book.part").write_text("another file")
    replace_durably(tmp_path / "book", "one")
    assert (tmp_path / "book.part").read_text() == "another file"
    (tmp_path / "book.part").unlink()
    assert stat.S_IMODE((tmp_path / "book").stat().st_mode) == 0o600
    assert (tmp_path / "book").read_text() == "one"
    assert [*tmp_path.iterdir()] == [tmp_path / "book"]
