"""The commands of a ledger: what was spent, and what is left of which total."""

import json
from pathlib import Path

import pytest
from commands import release

from qrelease.apps.cli import main
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.conversions import zcdp_epsilon
from qrelease.privacy.ledger import Ledger


def test_a_spent_ledger_refuses_until_its_total_is_raised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release() == 0
    capsys.readouterr()
    assert release(out="second") == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    for part in ("total epsilon=1", "spent epsilon=1", "requested epsilon=1"):
        assert part in message
    assert not (folder / "second").exists()
    assert main(["ledger", "raise", "people.ledger", "--epsilon", "2"]) == 0
    assert release(out="second") == 0


def test_the_charges_of_a_session_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", PureDP(1.0)) as ledger:
        ledger.charge(PureDP(0.125), "mwem: 16 queries")
        ledger.charge(PureDP(0.125), "mwem: 16 queries")
        journal = ledger.session(PureDP(0.5), "online: a session", "server")
        for cost, label in [(0.01, "count"), (0.01, "answers"), (0.02, "answers"), (0.03, "answers"), (0.01, "count")]:
            with journal.writing():
                journal.buy(PureDP(cost), f"online: {label}")
        ledger.charge(PureDP(0.02), "online: count")
    lines = []
    for options in ([], ["--all"]):
        assert main(["ledger", "show", "l", *options]) == 0
        lines.append([line.split(None, 1)[1] for line in capsys.readouterr().out.splitlines()[5:]])
    grouped, whole = lines
    assert grouped == [
        "total   epsilon=1  created",
        "charge  epsilon=0.125  mwem: 16 queries",
        "charge  epsilon=0.125  mwem: 16 queries",
        "session epsilon=0.5  online: a session",
        "charge  epsilon=0.01  online: count",
        "charge  epsilon=0.06  online: answers (3 charges)",
        "charge  epsilon=0.03  online: count (2 charges)",
    ]
    assert whole[5:8] == [f"charge  epsilon={cost}  online: answers" for cost in (0.01, 0.02, 0.03)]
    assert len(whole) == 10


def test_what_is_left_is_told_in_charges_like_the_last(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", ApproxDP(1.0, 1e-9)) as ledger:
        assert main(["ledger", "show", "l"]) == 0
        assert "like the last" not in capsys.readouterr().out
        for epsilon, told in ((0.25, "3 more"), (0.5, "not one more"), (0.0625, "3 more")):
            ledger.charge(PureDP(epsilon), "mwem: 16 queries")
            assert main(["ledger", "show", "l"]) == 0
            line = f"pays for {told} like the last charge, epsilon={epsilon} for mwem: 16 queries\n"
            assert line in capsys.readouterr().out


def test_where_rho_was_spent_it_is_said_why_spent_and_left_are_less_than_the_total(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(folder / "l", ApproxDP(1.0, 1e-9)) as ledger:
        for cost, told in ((ApproxDP(0.1, 1e-10), False), (ZCDP(0.001), True)):
            ledger.charge(cost, "something")
            assert main(["ledger", "show", "l"]) == 0
            assert ("spent and left come to less than the total" in capsys.readouterr().out) == told
            assert ("left is what can still be bought" in repr(ledger)) == told
            assert ("docs/how-to/budget.md" in ledger._repr_html_()) == told
        assert ledger.spent
        assert ledger.remaining
        assert ledger.spent.to_json()["epsilon"] + ledger.remaining.to_json()["epsilon"] < 1


def test_a_request_is_counted_in_the_singular(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", PureDP(1.0)) as ledger:
        analysts = Analysts(ledger)
        for requests, name in enumerate(("ada", "ben", "cyd")):
            analysts.add(name, PureDP(0.1 + 0.2))
            with analysts.account(name) as account:
                for number in range(requests):
                    account.record(f"{number}", "{}", b"{}")
    assert main(["analyst", "list", "--ledger", "l"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines() == [
        "ada  budget epsilon=0.3, spent nothing, 0 requests",
        "ben  budget epsilon=0.3, spent nothing, 1 request",
        "cyd  budget epsilon=0.3, spent nothing, 2 requests",
    ]


def test_charges_in_rho_are_told_in_epsilon_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", ApproxDP(1.0, 1e-9)) as ledger:
        ledger.charge(ApproxDP(0.125, 1e-10), "marginals")
        journal = ledger.session(ZCDP(0.004), "online: a session", "server")
        for rho in (0.001, 0.002):
            with journal.writing():
                journal.buy(ZCDP(rho), "online: answers")
    assert main(["ledger", "show", "l"]) == 0
    *_, marginals, session, answers = (line.split(None, 1)[1] for line in capsys.readouterr().out.splitlines())
    assert marginals == "charge  epsilon=0.125, delta=1e-10  marginals"
    for line, rho, label in ((session, 0.004, "a session"), (answers, 0.003, "answers (2 charges)")):
        epsilon = zcdp_epsilon(rho, 1e-9)
        assert f"rho={rho} (epsilon={epsilon:.3g} at delta=1e-09 by itself)  online: {label}" in line


def test_a_charge_names_the_release_that_it_paid_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--total-epsilon", "2")
    assert release(*options, out="first") == 0
    assert release(*options, out="second") == 0
    capsys.readouterr()
    assert main(["ledger", "show", "people.ledger"]) == 0
    total, *charges = capsys.readouterr().out.splitlines()[-3:]
    assert "  release " not in total
    ids = [json.loads((folder / out / "release.json").read_text())["id"] for out in ("first", "second")]
    assert [line.rpartition("  release ")[2] for line in charges] == [each[:8] for each in ids]
