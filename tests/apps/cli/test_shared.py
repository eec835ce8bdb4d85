"""What commands share: costs that are printed short and refused exactly."""

import argparse
from pathlib import Path

import pytest
from commands import release

from qrelease.apps.cli import main
from qrelease.apps.cli.shared import charging
from qrelease.errors import InvalidInput, OutOfMemory
from qrelease.privacy import ZCDP, ApproxDP
from qrelease.privacy.ledger import Ledger


def test_costs_are_printed_short_and_refused_exactly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--epsilon", "0.1", "--delta", "1e-9", "--total-epsilon", "0.3", "--total-delta", "1e-8") == 0
    for out in ("two", "three"):
        last = release("--epsilon", "0.1", "--delta", "1e-9", out=out)
    refusal = capsys.readouterr().err
    assert last == 2, "three times 0.1 is more than 0.3"
    assert "at most the epsilon=0.0999999, delta=7.99999e-09 that" in refusal, "rounded up, it would be refused"
    assert main(["ledger", "show", "people.ledger"]) == 0
    assert main(["ledger", "raise", "people.ledger", "--epsilon", "0.4"]) == 0
    assert release("--epsilon", "0.1", "--delta", "1e-9", out="three") == 0
    printed = capsys.readouterr().out
    assert "spent   epsilon=0.2, delta=2e-09\nleft    epsilon=0.0999999, delta=7.99999e-09\n" in printed, "it fits"
    assert "total now epsilon=0.4, delta=1e-08, spent epsilon=0.2, delta=2e-09\n" in printed
    assert "spent in all: epsilon=0.3, delta=3e-09 of epsilon=0.4, delta=1e-08 (ledger" in printed
    with Ledger.open(folder / "people.ledger") as ledger:
        assert str(ledger.spent) != f"{ledger.spent:.6g}" == "epsilon=0.3, delta=3e-09"
        assert f"{ledger.spent}" == str(ledger.spent)
    Ledger.open(folder / "new", ApproxDP(0.3, 1e-9)).close()
    capsys.readouterr()
    assert main(["ledger", "show", "new"]) == 0
    assert "left    epsilon=0.3, delta=1e-09\n" in capsys.readouterr().out


def test_a_warning_comes_with_the_release_it_is_about(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--epsilon", "10", "--delta", "0.1") == 0
    assert capsys.readouterr().err.count("warning: ") == 1


def test_an_epsilon_that_protects_nobody_is_asked_for_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--epsilon", "50") == 2
    assert "nothing was charged; say --weak if it is meant" in capsys.readouterr().err
    command = ["release", "people.csv", "--schema", "people.toml", "--out", "out"]
    assert main([*command, "--rho", "10"]) == 2, "the same in rho"
    assert not (folder / "people.ledger").exists()
    assert main([*command, "--rho", "0.1", "--ledger", "in-rho"]) == 0
    with Ledger.open(folder / "in-rho") as ledger:
        assert ledger.spent == ZCDP(0.1)
    assert release("--epsilon", "50", "--weak", out="weak") == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OutOfMemory, OSError])
@pytest.mark.parametrize(
    ("before", "within", "said"),
    [
        (None, None, "`qrelease ledger show` tells whether a charge was made"),
        ("a schema was charged", None, "a schema was charged; `qrelease ledger show` tells whether a charge was made"),
        (None, "it was charged", "it was charged"),
    ],
)
def test_what_ends_early_while_it_charges_does_not_say_that_nothing_was_charged(error, before, within, said):
    arguments = argparse.Namespace() if before is None else argparse.Namespace(charged=before)
    with pytest.raises(error), charging(arguments):
        if within is not None:
            arguments.charged = within
        raise error
    assert arguments.charged == said


def test_of_what_is_refused_while_it_charges_nothing_is_said():
    arguments = argparse.Namespace()
    with pytest.raises(InvalidInput), charging(arguments):
        raise InvalidInput("epsilon must be positive")
    assert not hasattr(arguments, "charged")
