"""`qrelease account`: what the sums of costs are, as text and as JSON."""

from qrelease.apps.cli import main
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger


def test_the_command_line_tells_the_same(tmp_path, capsys):
    assert main(["account", "parts", "1000*epsilon=0.01", "--delta", "1e-6"]) == 0
    assert "optimal       epsilon=1.36545, delta=1e-06" in capsys.readouterr().out
    assert main(["account", "share", "100", "--epsilon", "1", "--delta", "1e-6", "--json"]) == 0
    assert capsys.readouterr().out.count('"rule"') == 5
    with Ledger.open(tmp_path / "a.ledger", PureDP(1.0)) as ledger:
        ledger.charge(PureDP(0.25), "something")
    assert main(["account", "ledgers", str(tmp_path / "a.ledger"), "--group", "2"]) == 0
    assert "total   epsilon=2" in capsys.readouterr().out
    assert main(["account", "parts", "rho=1", "epsilon=1,delta=1e-3"]) == 2
    assert "no rule adds" in capsys.readouterr().err
