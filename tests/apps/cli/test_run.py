"""Job files: several releases under one budget, each made once; and what a ledger says can still be bought."""

import shutil
from pathlib import Path

import pyarrow.parquet
import pytest

from qrelease.apps.cli import main
from qrelease.errors import BudgetExceeded
from qrelease.privacy import ZCDP, ApproxDP, Cost, PureDP
from qrelease.privacy.conversions import zcdp_epsilon
from qrelease.privacy.ledger import Ledger
from qrelease.release.reader import load

JOBS = """
data = "people.csv"
schema = "people.toml"
total = { epsilon = 1, delta = 1e-9 }

[[release]]
out = "one"
epsilon = 0.5
delta = 1e-10
workload = "marginals:2"

[[release]]
out = "two"
epsilon = 0.25
workload = ["marginals:a", "marginals:b"]
mechanism = "laplace"
answers = false
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("a,b\n" + "x,y\ny,x\n" * 50)
    (tmp_path / "people.toml").write_text(
        "".join(f'[[attribute]]\nname = "{name}"\nkind = "category"\ncategories = ["x", "y"]\n\n' for name in "ab")
    )
    (tmp_path / "jobs.toml").write_text(JOBS)
    return tmp_path


def charges(folder: Path) -> int:
    with Ledger.open(folder / "people.ledger") as ledger:
        return sum(entry.kind == "charge" for entry in ledger.history())


def test_each_release_is_made_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", str(folder / "jobs.toml")]
    assert main(command) == 0
    assert (folder / "one" / "answers.csv").exists()
    assert not (folder / "two" / "answers.csv").exists()
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.count("is there already") == 2
    assert charges(folder) == 2
    shutil.rmtree(folder / "two")
    assert main(command) == 0
    assert charges(folder) == 3


def test_numbers_can_be_asked_for_too(folder: Path) -> None:
    (folder / "people.csv").write_text("a,b,pay\n" + "x,y,3\ny,x,60\n" * 50)
    schema = folder / "people.toml"
    schema.write_text(
        schema.read_text()
        + '[[attribute]]\nname = "pay"\nkind = "number"\ninteger = true\nwithin = [0, 100]\nstep = 1\n'
        + "bins = [0, 50, 101]\n"
    )
    numbers = 'numbers = ["mean:pay by a*b", "count by a"]\nclip = "pay=0..80"\nnumbers-share = 0.75\n'
    (folder / "jobs.toml").write_text(JOBS.replace('out = "two"', f'out = "two"\n{numbers}out-format = "parquet"'))
    assert main(["run", str(folder / "jobs.toml")]) == 0
    assert "mean:pay by a*b" in pyarrow.parquet.read_table(folder / "two" / "numbers.parquet")["question"].to_pylist()
    assert (folder / "two" / "synthetic.parquet").exists()


def test_a_release_may_have_a_schema_of_its_own(folder: Path) -> None:
    one = (folder / "people.toml").read_text()
    (folder / "other.toml").write_text(one.replace('"x", "y"', '"x", "y", "z"'))
    jobs = JOBS.replace('workload = ["marginals:a", "marginals:b"]\n', 'schema = "other.toml"\n')
    (folder / "jobs.toml").write_text(jobs.replace('workload = "marginals:2"\n', ""))
    assert main(["run", str(folder / "jobs.toml")]) == 0
    sizes = [[len(a.categories) for a in load(folder / out).domain] for out in ("one", "two")]
    assert sizes == [[2, 2], [3, 3]]
    assert charges(folder) == 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("epsilon = 0.5", "epsilom = 0.5", "release 1: unknown 'epsilom'"),
        ("epsilon = 0.5", 'epsilon = "x"', "release 1: argument --epsilon: invalid float value"),
        ("epsilon = 0.25", "epsilon = 0.75", "budget exceeded"),
        ('out = "two"', 'out = "one"', "two releases have the same out"),
        ('out = "two"', "", "release 2: out is missing"),
        ('out = "two"', 'out = "two"\nclip = "a=0..1"', "release 2: --clip and --numbers-share need --numbers"),
        ("answers = false", 'out-format = "csv"\nout_format = "csv"', "release 2: out_format is given twice"),
        ('schema = "people.toml"', "", "release 1: schema is missing"),
        ('out = "two"', 'out = "two"\nschema = 5', "release 2: schema takes a text, got 5"),
        ("epsilon = 1,", "", "total: epsilon is missing"),
        ("[[release]]", "[[relaese]]", "unknown 'relaese'"),
        ("total = {", "total = ", "jobs.toml: "),
        ("total = {", f"total = {'[' * 5000}", "jobs.toml: "),
        ('data = "people.csv"', "data = 5", "release 1: data takes a text, got 5"),
        ('out = "two"', "out = 1979-05-27", "release 2: out takes a text, got"),
        ('workload = "marginals:2"', "workload = 5", "release 1: workload takes a text, or a list of texts, got 5"),
        ('out = "two"', 'out = "two"\nnumbers = [["a"]]', "release 2: numbers takes a text, or a list of texts, got"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_made(
    old: str, new: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "jobs.toml").write_text(JOBS.replace(old, new))
    assert main(["run", str(folder / "jobs.toml")]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert not (folder / "people.ledger").exists()


@pytest.mark.parametrize("spends", [[], [ApproxDP(0.3, 1e-10)], [ZCDP(0.001), PureDP(0.1)]])
def test_the_rho_that_is_left_fits_and_no_more(spends: list[Cost]) -> None:
    with Ledger.open(None, ApproxDP(1.0, 1e-9)) as ledger:
        for cost in spends:
            ledger.charge(cost, "a")
        left = ledger.remaining_rho
        assert left is not None
        with pytest.raises(BudgetExceeded):
            ledger.charge(ZCDP(left.rho * 1.001), "too much")
        ledger.charge(left, "all")
        assert ledger.remaining_rho is None or ledger.remaining_rho.rho < 1e-9
    for total, expected in [(PureDP(1.0), None), (ZCDP(0.25), ZCDP(0.25))]:
        with Ledger.open(None, total) as ledger:
            assert ledger.remaining_rho == expected


def test_what_is_left_is_said_in_both_currencies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / "l", ApproxDP(1.0, 1e-9)) as ledger:
        ledger.charge(ZCDP(0.002), "a")
        left = ledger.remaining_rho
    assert left is not None
    assert main(["ledger", "show", str(folder / "l")]) == 0
    alone = zcdp_epsilon(left.rho, 1e-9)
    assert f": a release of epsilon={alone:.3g} at delta=1e-09 by itself\n" in capsys.readouterr().out


def test_the_total_may_be_said_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["release", str(folder / "people.csv"), "--schema", str(folder / "people.toml"), "--epsilon", "0.25"]
    command += ["--workload", "marginals:1", "--total-epsilon"]
    assert main([*command, "0.5", "--out", str(folder / "1")]) == 0
    assert main([*command, "0.5", "--out", str(folder / "2")]) == 0
    assert main([*command, "1", "--out", str(folder / "3")]) == 2
    assert "has a total of epsilon=0.5, not epsilon=1; `qrelease ledger raise` changes it" in capsys.readouterr().err
    assert main([*command, "1", "--out", str(folder / "3"), "--ledger", str(folder / "other")]) == 0
    assert (
        f"{folder / 'people.ledger'} is a ledger of dataset 'people', as these data are called"
        in capsys.readouterr().err
    )


def test_the_total_is_that_of_the_ledger_where_there_is_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "jobs.toml").write_text(JOBS.replace("total = { epsilon = 1, delta = 1e-9 }", ""))
    assert main(["run", str(folder / "jobs.toml")]) == 2
    assert "total is missing: " in capsys.readouterr().err
    Ledger.open(folder / "people.ledger", ApproxDP(0.8, 1e-9), dataset="people").close()
    assert main(["run", str(folder / "jobs.toml")]) == 0
    assert charges(folder) == 2
