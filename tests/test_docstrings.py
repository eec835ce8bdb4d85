"""The examples in the docstrings of the public modules run as they stand."""

import doctest
from importlib import import_module

import pytest

MODULES = [
    *(
        "privacy.costs",
        "privacy.composition",
        "privacy.account",
        "privacy.filters",
        "privacy.odometer",
        "privacy.ledger",
    ),
    *("privacy.analysts", "noise.entropy", "noise.distributions", "noise.samplers", "noise.selection"),
    *("noise.sparse_vector", "data.domain", "data.schema", "data.table", "queries.workload", "queries.families"),
    *("queries.classes", "queries.oracles", "queries.vc", "evaluation.planning", "evaluation.evaluate"),
    *("evaluation.audit.sampling", "evaluation.audit.enumeration", "evaluation.audit.verdict"),
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    found = doctest.testmod(import_module(f"qrelease.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0
