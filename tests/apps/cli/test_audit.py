"""The command that audits a mechanism."""

import re
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

import qrelease
from qrelease.apps.cli import main
from qrelease.apps.cli.mechanisms import AUDITED_STATISTIC, MECHANISMS


def test_audit_acquits_a_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "laplace", "--epsilon", "1", "--samples", "2000", "--insecure-seed", "1"]) == 0
    assert capsys.readouterr().out.startswith("acquitted of claiming epsilon=1")
    assert main(["audit", "laplace", "--epsilon", "1", "--samples", "10"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "instead"), [("auto", "it runs one of the others"), ("sums", "audit numbers --doors")]
)
def test_what_a_card_names_and_no_audit_runs_is_told_where_to_look(
    name: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", name, "--epsilon", "1"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("qrelease: mechanisms are mwem, ")
    assert instead in said


@pytest.mark.parametrize("named", ["mean:age", "quantile"])
def test_a_statistic_is_told_how_it_is_audited(named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", named, "--epsilon", "1"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"qrelease: {named} is a statistic: whole estimates are audited by `qrelease audit estimate")
    assert told.count("\n") == 1


def test_a_statistic_of_ones_own_is_told_what_the_help_says(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", f"{own}:Statistic", "--epsilon", "1"]) == 2
    said = capsys.readouterr().err
    assert said == f"qrelease: Statistic is a statistic, as it has estimate: {AUDITED_STATISTIC}\n"
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    assert AUDITED_STATISTIC in " ".join(capsys.readouterr().out.replace("-\n", "-").split())


def test_a_statistic_is_audited_by_a_function_as_the_help_says(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sum of 0..3 whose claim is a tenth of what it is charged."""
    (in_folder / "summing.py").write_text(
        "import numpy as np\nimport qrelease as qr\n\n\ndef summed(data, entropy):\n"
        "    table = qr.Table(qr.Domain.coded({'a': 4}), (np.asarray(data, int),))\n"
        "    with qr.Ledger.open(None, qr.PureDP(5.0)) as ledger:\n"
        "        return qr.Curator(table, ledger, entropy).estimate(qr.Sum('a'), qr.PureDP(5.0)).to_json()\n"
    )
    given = ["audit", "summing:summed", "--first", "[1, 3]", "--second", "[1]", "--samples", "150"]
    assert main([*given, "--insecure-seed", "1", "--epsilon", "5"]) == 0
    assert main([*given, "--insecure-seed", "1", "--epsilon", "0.5"]) == 1
    assert "at least 2.0" in capsys.readouterr().out


_EXACT_INTERVAL = """
from dataclasses import dataclass
import numpy as np
import qrelease as qr

@dataclass(frozen=True)
class Share:
    name = "share"

    def check(self, domain, cost, neighbours):
        pass

    def estimate(self, private, cost):
        ones, n = int(private.cells("a").sum()), private.count()
        noisy, _ = private.measure("zeros and ones", np.array([n - ones, ones]), private.moves, cost)
        value = float(noisy[1])
        return qr.EstimateResult(value, (value - n, value + n), "as many as there are", "the count of ones")

    def error_bound(self, domain, records, cost, neighbours, *, beta):
        return None

def estimate(data, entropy):
    table = qr.Table(qr.Domain.coded({"a": 2}), (np.asarray(data, np.uint8),))
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        return qr.Curator(table, ledger, entropy).estimate(Share(), qr.PureDP(1.0))

def value(data, entropy):
    return estimate(data, entropy).value

def whole(data, entropy):
    return estimate(data, entropy).to_json()
"""


def test_an_interval_that_no_noise_was_drawn_for_is_found_by_what_the_help_says(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not by the value alone."""
    (in_folder / "shares.py").write_text(_EXACT_INTERVAL)
    given = ["--first", "[1, 1, 0]", "--second", "[1, 1]", "--samples", "400", "--epsilon", "1", "--insecure-seed", "1"]
    assert AUDITED_STATISTIC.endswith(".to_json()")
    assert main(["audit", "shares:value", *given]) == 0
    assert main(["audit", "shares:whole", *given]) == 1
    assert "CONVICTED" in capsys.readouterr().out


def test_the_help_lists_what_is_audited(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    (listed,) = re.findall(r"the mechanism: ([a-z, ]+), which is", " ".join(capsys.readouterr().out.split()))
    assert {*listed.split(", "), "auto"} == {*MECHANISMS}
    assert "auto" not in listed


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
        assert "a mechanism, an object with name, check and release, needs none" in capsys.readouterr().err
        assert main(["audit", "leaky.py:leak", *arguments[1:]]) == 2
        assert "name it without .py: leaky:leak" in capsys.readouterr().err
        assert main(["audit", "nothing", "--epsilon", "1"]) == 2
    finally:
        sys.path.remove(str(folder))


def test_a_mechanism_of_ones_own_is_audited_by_its_name(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "1", "--samples", "1000", "--insecure-seed", "1"]
    assert main(["audit", f"{own}:Unfitted", *words]) == 0
    assert capsys.readouterr().out.startswith("acquitted")
    assert main(["audit", f"{own}:Sized", *words]) == 2
    assert "name an object of your module instead" in capsys.readouterr().err
    assert main(["audit", f"{own}:Nameless", *words]) == 2
    assert "a mechanism is an object with name, check(" in (said := capsys.readouterr().err)
    assert said.endswith("or its class: Nameless has no name\n")


@pytest.mark.parametrize("named", ["OfAges", "OfAgesUnchecked", "Choosing"])
def test_a_mechanism_that_does_not_suit_the_tables_of_an_audit_is_told_what_they_are(
    named: str, own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what it is told to do instead is an audit."""
    words = ["--epsilon", "1", "--samples", "1000"] + ["--delta", "1e-9"] * (named == "Choosing")
    assert main(["audit", f"{own}:{named}", *words]) == 2
    told = capsys.readouterr().err
    assert "an audit makes tables of its own: columns a, b and c of two values each, asked for their pairs" in told
    assert told.count("\n") == 1
    if named != "Choosing":
        chosen = eval(re.search(r"as workload=(.*)\n", told)[1], {"qr": qrelease})
        made = getattr(import_module(own), named)()
        cost, relation = qrelease.PureDP(1.0), qrelease.Neighbours.ADD_REMOVE
        audited = partial(qrelease.audit_mechanism, made, cost, relation, samples=1_000)
        assert not audited(workload=chosen, entropy=qrelease.Entropy.insecure(1)).convicted
        with pytest.raises((qrelease.InvalidInput, KeyError)) as refused:
            audited(workload=qrelease.Workload.marginals(qrelease.Domain.coded({"sex": 2}), 1))
        assert "tables of its own" not in str(refused.value), "who chose a workload knows what was asked"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["few", "--first", "1", "--second", "2"], "few failed: TypeError: few() takes 1 positional argument"),
        (["Broken"], "Broken failed: ValueError: no noise (mechanisms_of_her_own.py, line 17)"),
    ],
)
def test_an_error_of_ones_own_function_is_no_conviction(
    own: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", f"{own}:{words[0]}", *words[1:], "--epsilon", "1", "--samples", "1000"]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


def test_evaluate_compares_a_mechanism_of_ones_own(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "people.csv", "--schema", "people.toml", "--epsilon", "1"]
    assert main([*words, "--workload", "marginals:1", "--mechanism", f"{own}:Own,matrix"]) == 0
    found = capsys.readouterr().out
    assert f"{own}:Own" in found
    assert "matrix" in found
    assert main([*words, "--workload", "ranges:age", "--mechanism", f"{own}:Own,matrix"]) == 0
    found = capsys.readouterr().out
    assert f"skipped: {own}:Own: at epsilon=1: a fit takes whole marginals" in found
    assert "matrix" in found
    assert main([*words, "--mechanism", f"{own}:few"]) == 2
    assert "must be a mechanism, an object with name, check and release" in capsys.readouterr().err


def test_an_evaluation_never_says_that_something_was_charged(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not where a mechanism of one's own refuses a cost after the charge to a ledger that is forgotten."""
    words = ["evaluate", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--delta", "1e-9"]
    assert main([*words, "--mechanism", f"{own}:Choosing"]) == 0
    told = capsys.readouterr()
    assert f"skipped: {own}:Choosing: at epsilon=1: private.select takes PureDP or ZCDP, got ApproxDP(" in told.out
    assert "charged" not in told.out + told.err


def test_the_function_that_the_manual_shows_is_convicted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "verifying.md").read_text()
    code = page.split("This is a whole `mine.py`:\n\n```python\n")[1].split("```")[0]
    (folder / "mine_of_the_manual.py").write_text(code)
    sys.path.insert(0, str(folder))
    words = ["--first", "[1, 1, 0]", "--second", "[1, 1]", "--epsilon", "1", "--samples", "1000"]
    try:
        assert main(["audit", "mine_of_the_manual:noisy", *words]) == 0
        words[1:2] = ["[1, 1, 1]"]
        assert main(["audit", "mine_of_the_manual:noisy", *words]) == 1
    finally:
        sys.path.remove(str(folder))
