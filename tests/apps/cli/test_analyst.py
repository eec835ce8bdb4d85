"""The commands for analysts of a server."""

import re
from pathlib import Path

import pytest

from qrelease.apps.cli import main
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger


def test_a_token_is_issued_again_and_a_budget_raised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", ApproxDP(1.0, 1e-9)) as ledger:
        token = Analysts(ledger).add("ada", ApproxDP(0.25, 1e-10))
        with Analysts(ledger).account("ada") as account:
            account.spend(ZCDP(0.0001))
    assert main(["analyst", "reissue", "ada", "--ledger", "l"]) == 0
    new = capsys.readouterr().out.strip()
    assert main(["analyst", "raise", "ada", "--epsilon", "0.5", "--ledger", "l"]) == 0
    assert "ada  budget epsilon=0.5, delta=1e-10, spent epsilon=" in capsys.readouterr().out
    for epsilon in ("0.5", "0.25"):
        assert main(["analyst", "raise", "ada", "--epsilon", epsilon, "--ledger", "l"]) == 2
    assert "must be larger than epsilon=0.5" in capsys.readouterr().err
    with Ledger.open(folder / "l") as ledger:
        analysts = Analysts(ledger)
        assert analysts.holder(token) is None
        assert analysts.holder(new) == analysts.named("ada")
        analysts.revoke("ada")
        assert analysts.holder(new) is None
        assert analysts.holder(analysts.reissue("ada")) is not None


def test_adding_an_analyst_says_what_to_type(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Ledger.open("l", ApproxDP(1.0, 1e-9)).close()
    assert main(["analyst", "add", "ada", "--epsilon", "0.5", "--ledger", "l"]) == 2
    said = capsys.readouterr().err
    command = re.search("`qrelease (.*)`", said)
    assert command
    assert command[1] == "analyst add ada --ledger l --epsilon 0.5 --delta 1e-09"
    assert main(command[1].split()) == 0
    assert len(capsys.readouterr().out) > 40
    Ledger.open("pure", PureDP(1.0)).close()
    assert main(["analyst", "add", "ada", "--epsilon", "0.5", "--delta", "1e-9", "--ledger", "pure"]) == 2
    assert "leave out --delta" in capsys.readouterr().err
    assert main(["analyst", "add", "ada", "--epsilon", "0.5", "--ledger", "pure"]) == 0
