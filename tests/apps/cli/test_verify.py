"""`qrelease verify`: what holds, of a signed release and its ledger."""

import json
import os

import pytest
from commands import release

from qrelease.apps.cli import main


@pytest.fixture
def released(folder):
    """A folder with a release by the command line, signed, and its ledger."""
    assert main(["key", "holder"]) == 0
    assert release("--mechanism", "laplace", "--sign", "holder.key") == 0
    return folder


def test_the_command_says_what_holds_and_ends_with_0_1_or_2(released, tmp_path, capsys):
    capsys.readouterr()
    out, ledger = str(released / "out"), str(released / "people.ledger")
    assert main(["ledger", "show", ledger, "--json"]) == 0
    listed = capsys.readouterr().out
    (tmp_path / "ledger.json").write_text(listed)
    assert json.loads(listed)["entries"][1]["release"]["files"].keys() == {
        "answers.csv",
        "release.json",
        "report.html",
        "synthetic.csv",
    }
    for given in (ledger, str(tmp_path / "ledger.json")):
        assert main(["verify", out, "--ledger", given, "--key", str(released / "holder.pub"), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["holds"] is True
        assert all(check["holds"] for check in found["checks"]), found
    assert main(["verify", out]) == 0
    assert "not checked: ledger" in capsys.readouterr().out
    assert main(["ledger", "show", str(tmp_path / "ledger.json")]) == 2
    assert "qrelease verify FOLDER" in capsys.readouterr().err
    assert main(["verify", f"{out}/release.json"]) == 2
    assert f"it is a file: give the folder {out}" in capsys.readouterr().err
    (tmp_path / "text").write_text("{no")
    (tmp_path / "list").write_text('{"entries": [1]}')
    for bad in (
        ["verify", str(tmp_path)],
        ["verify", out, "--key", str(released / "holder.key")],
        ["verify", out, "--key", str(tmp_path / "none")],
        ["verify", out, "--ledger", str(tmp_path / "none")],
        ["verify", out, "--ledger", str(tmp_path / "text")],
        ["verify", out, "--ledger", str(tmp_path / "list")],
    ):
        assert main(bad) == 2, bad
        assert capsys.readouterr().err.count("\n") == 1


def test_what_was_printed_of_a_ledger_may_come_through_a_pipe(released, tmp_path, capsys):
    capsys.readouterr()
    assert main(["ledger", "show", str(released / "people.ledger"), "--json"]) == 0
    listed = capsys.readouterr().out.encode()
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(listed)  # less than a pipe holds
    assert len(listed) < 1 << 16
    try:
        assert main(["verify", str(released / "out"), "--ledger", f"/dev/fd/{reading}", "--json"]) == 0
    finally:
        os.close(reading)
    assert json.loads(capsys.readouterr().out)["holds"] is True
