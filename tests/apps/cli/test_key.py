"""`qrelease key`: two files, of which one signs and the other tells who did, and none written over."""

import pytest
from commands import release

from qrelease.apps.cli import main


def test_what_one_key_signs_the_other_one_verifies_and_a_strangers_does_not(folder, capsys):
    for name in ("holder", "stranger"):
        assert main(["key", name]) == 0
        private, public = capsys.readouterr().out.splitlines()
        assert private.startswith(f"wrote {name}.key: keep it secret")
        assert public.startswith(f"wrote {name}.pub: publish it")
    assert b"PRIVATE" in (folder / "holder.key").read_bytes()
    assert b"PRIVATE" not in (folder / "holder.pub").read_bytes()
    assert release("--mechanism", "laplace", "--sign", "holder.key") == 0
    assert main(["verify", "out", "--key", "holder.pub"]) == 0
    assert main(["verify", "out", "--key", "stranger.pub"]) == 1


@pytest.mark.parametrize("there", ["holder.key", "holder.pub"])
def test_no_key_is_written_over(there, in_folder, capsys):
    """Neither is the other file made then, of a pair that would not fit."""
    (in_folder / there).write_text("mine")
    assert main(["key", "holder"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{there} exists already" in line
    assert [file.name for file in in_folder.iterdir()] == [there]
    assert (in_folder / there).read_text() == "mine"


def test_a_folder_that_is_none_is_one_line(in_folder, capsys):
    assert main(["key", "no/such/holder"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
