"""Files that are replaced whole, and locks: one at a time, free at the end of a process, lost with the file's name."""

import errno
import os
import subprocess
import sys

import pytest

from qrelease._util.durable import Lock, file_identity, replace_durably, sync_folder

TAKEN = "from pathlib import Path\nfrom qrelease._util.durable import Lock\nlock = Lock.take(Path({!r}))\n"


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_file_is_replaced_whole_by_another(tmp_path):
    file = tmp_path / "book"
    first = replace_durably(file, "one\n")
    before = file.open(encoding="utf-8")
    second = replace_durably(file, "two, für alle\n")
    with before:
        assert before.read() == "one\n"  # who reads goes on with the old file, of which nothing was overwritten
    assert file.read_text(encoding="utf-8") == "two, für alle\n"
    assert file_identity(file) == second != first
    assert [f.name for f in tmp_path.iterdir()] == ["book"]


def test_where_a_write_fails_the_old_file_stays(tmp_path):
    file = tmp_path / "book"
    replace_durably(file, "one\n")
    with pytest.raises(UnicodeEncodeError):
        replace_durably(file, "two \ud800")
    assert file.read_text(encoding="utf-8") == "one\n"


def test_identities_are_of_files_and_not_of_names(tmp_path):
    file, link, other = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    file.write_text("x")
    os.link(file, link)
    other.write_text("x")
    assert file_identity(file) == file_identity(str(link)) != file_identity(other)
    assert file_identity(tmp_path / "none") is None


def test_a_folder_that_is_not_there_cannot_be_synced(tmp_path):
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError) as raised:
        sync_folder(tmp_path / "none")
    assert raised.value.errno == errno.ENOENT


def test_one_process_at_a_time_has_a_lock(tmp_path):
    place = tmp_path / "lock"
    mine = Lock.take(place)
    assert mine.stands
    assert Lock.take(place) is None  # nor another part of this process
    ask = TAKEN.format(str(place)) + "print(lock is not None)"
    assert python(ask) == "False"
    mine.free()
    assert python(ask) == "True"
    assert python(ask) == "True"  # a process that ended has given it back


def test_a_lock_whose_file_lost_its_name_says_so(tmp_path):
    place = tmp_path / "lock"
    mine = Lock.take(place)
    place.rename(tmp_path / "moved")
    assert not mine.stands
    theirs = Lock.take(place)
    assert theirs.stands
    assert not mine.stands
    mine.free()
    theirs.free()
