"""`qrelease estimate`, and the texts that name statistics."""

import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from qrelease.errors import InvalidInput
from qrelease.statistics.catalogue import IN_SESSIONS, STATISTICS, parse_statistic, spell_statistic
from qrelease.statistics.quantile import Quantile
from qrelease.statistics.selection import MostCommon
from qrelease.statistics.uniformity import GaussianMeanTest
from tests.statistics.conformance import CASES
from tests.statistics.more_cases import MORE


def test_every_name_is_a_statistic_of_that_name():
    needed = {
        "sample-and-aggregate": f",function={__file__}:f,low=0,high=1",
        "propose-test-release": ",bound=1",
        "recursive-quantiles": ",qs=0.5",
        "tree-quantiles": ",qs=0.1/0.5",
        "above-thresholds": ",threshold=3",
        "independence-test": ",second=sex",
        "fit-test": ",shares=1/2",
        "efficient-tester": ",distance=0.5",
        "lipschitz-tester": ",distance=0.5",
        "gaussian-mean-test": ",means=1,covariance=4",
    }
    for name in STATISTICS:
        assert parse_statistic(f"{name}:age{needed.get(name, '')}").name == name
    with pytest.raises(InvalidInput, match="needs one more of bound"):
        parse_statistic("propose-test-release:age")


def test_every_statistic_of_the_conformance_suite_has_a_text_and_the_other_way_round():
    held = {type(case.statistic).__name__ for case in (*CASES, *MORE)} - {"QualityScores"}  # `qrelease score`
    assert {made for _, made, _ in STATISTICS.values()} == held


EXAMPLES = [file.read_text(encoding="utf-8") for file in (Path(__file__).parents[2] / "examples").glob("*.py")]


@pytest.mark.parametrize("case", [c for c in (*CASES, *MORE) if c.statistic.name in IN_SESSIONS], ids=str)
def test_a_statistic_is_spelled_as_it_is_read(case):
    assert parse_statistic(spell_statistic(case.statistic)) == case.statistic


def test_every_statistic_of_sessions_is_in_the_catalogue_and_runs_no_code_of_who_asks():
    assert {*IN_SESSIONS} < {*STATISTICS}
    for name in IN_SESSIONS:
        kind = getattr(import_module(f"qrelease.statistics.{STATISTICS[name][0]}"), STATISTICS[name][1])
        assert not {f.name for f in fields(kind)} & {"function", "of"}


@pytest.mark.parametrize(
    ("statistic", "told"),
    [
        (MostCommon(("a,b",)), "no text names"),
        (MostCommon(("a/b",)), "no text names"),
        (Quantile("a,q=.5"), "no text names"),
        (Quantile, "a statistic is one of"),
        (3, "a statistic is one of"),
    ],
)
def test_what_no_text_names_is_not_spelled(statistic, told):
    with pytest.raises(InvalidInput, match=told):
        spell_statistic(statistic)


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_names_its_source_and_stands_in_a_short_example(name):
    module, made, _ = STATISTICS[name]
    text, _, _ = getattr(import_module(f"qrelease.statistics.{module}"), made).__doc__.partition("Examples\n")
    assert re.search(r"\b(19|20)\d\d\b", text), "the year of a source"
    assert any(f"qr.{made}(" in example and example.count("\n") <= 30 for example in EXAMPLES)


def test_a_list_of_numbers_is_a_tuple():
    assert parse_statistic("gaussian-mean-test:a/b,means=1/-2.5,covariance=4/9") == GaussianMeanTest(
        ("a", "b"), (1.0, -2.5), (4.0, 9.0)
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("quantile(.5):age", r"did you mean quantile:age,q=\.5\?"),
        ("median:age by sex * town", r"did you mean quantile:age,q=\.5,by=sex/town\?"),
        ("quantile(.25, .75):age", r"did you mean tree-quantiles:age,qs=\.25/\.75\?"),
        ("quantil:age", "did you mean 'quantile'"),
    ],
)
def test_a_question_of_a_release_is_told_what_an_estimate_takes(text, told):
    with pytest.raises(InvalidInput, match=told) as refused:
        parse_statistic(text)
    meant = re.search(r"did you mean ([^'?]+)\?", str(refused.value))
    if meant:
        parse_statistic(meant[1])
