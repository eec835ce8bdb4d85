"""The terms of a release, as words."""

import shutil
from pathlib import Path

import pytest
from studios import TERMS

from qrelease.apps.cli.studio import CommandLine
from qrelease.apps.studio.terms import Terms
from qrelease.data.bundled import ADULT_SCHEMA
from qrelease.errors import InvalidInput


@pytest.fixture
def schema(tmp_path):
    return Path(shutil.copy(ADULT_SCHEMA, tmp_path / "my schema.toml"))


@pytest.fixture
def terms(schema):
    return lambda **given: Terms.of(CommandLine(), Path("/d/people.csv"), schema, TERMS | given)


def test_terms_are_the_words_of_the_command_line(terms, schema):
    found = terms(total_epsilon=2, total_delta=1e-8, workload=["marginals:2", "ranges:age"], numbers=["mean:age"])
    assert found.words == (
        "/d/people.csv",
        f"--schema={schema}",
        "--workload=marginals:2",
        "--workload=ranges:age",
        "--numbers=mean:age",
        "--neighbours=add-remove",
        "--epsilon=1",
        "--delta=1e-09",
        "--total-epsilon=2",
        "--total-delta=1e-08",
    )
    assert found.arguments.epsilon == 1.0
    assert found.arguments.mechanism == "auto"
    assert found.arguments.insecure_seed is None


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": "1"},
        {"epsilon": None},
        {"epsilon": True},
        {"epsilon": float("inf")},
        {"delta": "x"},
        {"workload": "marginals:2"},
        {"workload": []},
        {"workload": [2]},
        {"workload": ["a"] * 101},
        {"numbers": "mean:age"},
        {"numbers": [1]},
        {"numbers": ["a"] * 101},
        {"neighbours": "all"},
        {"out": "/tmp/x"},
        {"insecure_seed": 1},
        {"ledger": "/tmp/other.ledger"},
        {"weak": True},
    ],
)
def test_other_terms_are_refused(terms, given):
    with pytest.raises(InvalidInput):
        terms(**given)


def test_an_option_in_a_text_stays_a_text(terms):
    assert terms(workload=["--insecure-seed=1"]).arguments.workload == ["--insecure-seed=1"]
    assert terms(workload=["x --again"]).arguments.again is False
