"""`qrelease sign`: a release that is made already."""

import pytest
from commands import release

from qrelease.apps.cli import main


def test_a_finished_release_is_signed_unless_it_was_altered(folder, capsys: pytest.CaptureFixture[str]):
    assert main(["key", "holder"]) == 0
    assert release("--mechanism", "laplace") == 0
    assert main(["verify", "out", "--key", "holder.pub"]) == 1
    assert main(["sign", "out", "--key", "holder.key"]) == 0
    assert main(["verify", "out", "--key", "holder.pub"]) == 0
    (folder / "out" / "SHA256SUMS.sig").unlink()
    (folder / "out" / "answers.csv").write_text("altered")
    capsys.readouterr()
    assert main(["sign", "out", "--key", "holder.key"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (folder / "out" / "SHA256SUMS.sig").exists()
