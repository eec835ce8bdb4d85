"""The command that audits a mechanism."""

import sys
from pathlib import Path

import pytest

from qrelease.apps.cli import main


def test_audit_acquits_a_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "laplace", "--epsilon", "1", "--samples", "2000", "--insecure-seed", "1"]) == 0
    assert capsys.readouterr().out.startswith("acquitted of claiming epsilon=1")
    assert main(["audit", "laplace", "--epsilon", "1", "--samples", "10"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_audit_convicts_a_function_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "def leak(data, entropy):\n    return data\n"
    (folder / "leaky.py").write_text(code)
    arguments = ["leaky:leak", "--first", "1", "--second", "2", "--epsilon", "1", "--samples", "2000"]
    sys.path.insert(0, str(folder))
    try:
        assert main(["audit", *arguments]) == 1
        assert capsys.readouterr().out.startswith("CONVICTED")
        capsys.readouterr()
        assert main(["audit", "leaky:leak", "--epsilon", "1"]) == 2
        assert "qr.audit_mechanism" in capsys.readouterr().err
        assert main(["audit", "leaky.py:leak", *arguments[1:]]) == 2
        assert "name it without .py: leaky:leak" in capsys.readouterr().err
        assert main(["audit", "nothing", "--epsilon", "1"]) == 2
    finally:
        sys.path.remove(str(folder))
