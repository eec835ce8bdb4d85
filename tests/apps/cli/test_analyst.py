"""The commands for analysts of a server."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from serving import TABLE

from qrelease.apps.cli import main
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.costs import six_digits
from qrelease.privacy.filters import Tally, increase
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator


def test_a_token_is_issued_again_and_a_budget_raised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", ApproxDP(1.0, 1e-9)) as ledger:
        token = Analysts(ledger).add("ada", ApproxDP(0.25, 1e-10))
        with Analysts(ledger).account("ada") as account:
            account.spend(ZCDP(0.0001))
    assert main(["analyst", "reissue", "ada", "--ledger", "l"]) == 0
    new = capsys.readouterr().out.strip()
    assert main(["analyst", "raise", "ada", "--epsilon", "0.5", "--ledger", "l", "--anyway"]) == 0
    assert "ada  budget epsilon=0.5, delta=1e-10, spent epsilon=" in capsys.readouterr().out
    for epsilon in ("0.5", "0.25"):
        assert main(["analyst", "raise", "ada", "--epsilon", epsilon, "--ledger", "l"]) == 2
    assert "must be larger than epsilon=0.5" in capsys.readouterr().err
    with Ledger.open(folder / "l") as ledger:
        analysts = Analysts(ledger)
        assert analysts.holder(token) is None
        assert analysts.holder(new) == analysts.named("ada")
    for before in ("", " before"):
        assert main(["analyst", "revoke", "ada", "--ledger", "l"]) == 0
        assert capsys.readouterr().out.startswith(f"ada  revoked{before}: the token is good no longer; spent epsilon=")
    assert main(["analyst", "reissue", "ada", "--ledger", "l"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert len(err.splitlines()) == 1
    assert "'ada' was revoked" in err
    assert main(["analyst", "list", "--ledger", "l"]) == 0
    assert capsys.readouterr().out.rstrip().endswith(", revoked")
    assert main(["analyst", "reissue", "ada", "--restore", "--ledger", "l"]) == 0
    restored = capsys.readouterr().out.strip()
    with Ledger.open(folder / "l") as ledger:
        analysts = Analysts(ledger)
        assert (analysts.holder(new), analysts.holder(restored)) == (None, analysts.named("ada"))


def test_a_budget_above_the_total_is_warned_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Ledger.open("l", PureDP(1.0)).close()
    assert main(["analyst", "add", "ada", "--epsilon", "1", "--ledger", "l"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main(["analyst", "add", "bob", "--epsilon", "5", "--ledger", "l"]) == 0
    out, err = capsys.readouterr()
    assert len(out.split()) == 1
    assert "warning: bob may spend epsilon=5, more than the total of this ledger, epsilon=1" in err
    assert main(["analyst", "raise", "ada", "--epsilon", "2", "--ledger", "l"]) == 0
    assert "warning: ada may spend epsilon=2, more than the total" in capsys.readouterr().err


@pytest.mark.parametrize("cap", [PureDP(1.0), ApproxDP(1.0, 1e-9)], ids=str)
def test_a_budget_that_holds_not_one_answer_is_warned_of(
    cap: PureDP | ApproxDP, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(name: str, share: float) -> str:
        delta = ["--delta", f"{cap.delta / 10!r}"] if isinstance(cap, ApproxDP) else []
        given = ["analyst", "add", name, "--ledger", "l", "--epsilon", f"{share * cost!r}", *delta]
        assert main(given) == 0
        return capsys.readouterr().err

    with Ledger.open(folder / "l", cap, neighbours="replace-one") as ledger:
        session = Curator(TABLE, ledger, Entropy.insecure(1)).open(Online(), cap)
        answer = session.answer("sex = F")
        takes = increase(replace(cap, delta=cap.delta / 10) if isinstance(cap, ApproxDP) else cap, Tally(), answer.cost)
        cost = takes["epsilon"]
    assert "warning" not in add("ada", 1.01)
    said = add("bob", 0.5)
    assert "warning: bob cannot ask anything new: the last new answer here cost" in said
    assert f"takes epsilon={six_digits(cost)}" in said
    assert "qrelease analyst raise bob" in said


def test_it_is_told_about_how_many_answers_a_budget_buys(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many as the server says; after a raise also that a part of it cannot be used, where that is so."""
    cap = ApproxDP(1.0, 1e-6)
    Ledger.open(folder / "l", cap, neighbours="replace-one").close()
    assert main(["analyst", "add", "ada", "--ledger", "l", "--epsilon", "0.05", "--delta", "1e-9"]) == 0
    out, err = capsys.readouterr()
    assert len(out.split()) == 1
    assert "ada: how many answers the budget buys depends on the server's alpha" in err
    assert "`answers` in /v1/budget is the number for each analyst" in err
    with Ledger.open(folder / "l") as ledger:
        session = Curator(TABLE, ledger, Entropy.insecure(1)).open(Online(), cap)
        session.answer("sex = F")
        price = session.answer_price
    commands = [["add", "bob", "--delta", "1e-9"], ["raise", "bob", "--anyway"]]
    for command, epsilon in zip(commands, (0.3, 0.9), strict=True):
        assert main(["analyst", *command, "--ledger", "l", "--epsilon", f"{epsilon}"]) == 0
        err = capsys.readouterr().err
        with Ledger.open(folder / "l") as ledger:
            analysts = Analysts(ledger)
            count = analysts.times_left("bob", price)
            assert f"bob: the budget still buys about {count:,} new answer" in err
            assert ("cannot be used" in err) == (command[0] == "raise")
            with analysts.account("bob") as account:
                for _ in range(count):
                    account.spend(price)


def test_a_raise_of_which_much_could_not_be_used_is_refused_before(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cap = ApproxDP(5.0, 1e-6)
    with Ledger.open(folder / "l", cap, neighbours="replace-one") as ledger:
        session = Curator(TABLE, ledger, Entropy.insecure(1)).open(Online(), cap)
        session.answer("sex = F")
        price = session.answer_price
        analysts = Analysts(ledger)
        analysts.add("bob", ApproxDP(0.1, 1e-9))
        with analysts.account("bob") as account:
            account.spend(price)
        assert main(["analyst", "list", "--ledger", "l"]) == 0
        listed = capsys.readouterr().out
        now, then = (analysts.times_left("bob", price, b) for b in (None, ApproxDP(3.0, 1e-9)))
        analysts.add("twin", ApproxDP(2.9, 1e-9))
        twin = analysts.times_left("twin", price)
    assert f", about {now:,} new answers left, 0 requests" in listed
    command = ["analyst", "raise", "bob", "--ledger", "l", "--epsilon", "3"]
    assert main(command) == 2
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert not out
    assert "nothing was changed: of the epsilon=2.9 that this adds to the budget of bob, about" in line
    buys = f"epsilon=3, delta=1e-09 in all would buy about {then:,} new answers, where now {now:,} are left"
    assert buys in line
    typed = "`qrelease analyst add NEW-NAME --ledger l --epsilon 2.9 --delta 1e-09`"
    both = ", beside what is left under this one: the two budgets add up, and their deltas too"
    assert f"{typed}, buys about {twin:,} new answers{both}, and --anyway raises this budget all the same" in line
    assert then < now + twin
    assert main([*command, "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"bob  {buys}")
    assert out.endswith("; nothing was changed\n")
    assert not err
    with Ledger.open(folder / "l") as ledger:
        assert Analysts(ledger).named("bob").budget == ApproxDP(0.1, 1e-9)
    assert main([*command, "--anyway"]) == 0
    assert "bob  budget epsilon=3, delta=1e-09, spent" in capsys.readouterr().out


def test_a_raise_of_a_revoked_analyst_says_what_it_needs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Ledger.open("l", PureDP(1.0)).close()
    for command in (["add", "ada", "--epsilon", "0.25"], ["revoke", "ada"], ["raise", "ada", "--epsilon", "0.5"]):
        assert main(["analyst", *command, "--ledger", "l"]) == 0
    said = capsys.readouterr().err
    assert "warning: ada was revoked, and can ask nothing before `qrelease analyst reissue ada --restore`" in said


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
