"""Audits from runs: arguments that are none, and the same verdict for one seed."""

import math

import numpy as np
import pytest
from sampled import coin, laplace_count, sampled

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import (
    audit,
    audit_gaussian,
    audit_laplace,
    compare,
    vectorised,
)
from qrelease.privacy import PureDP

ONE = PureDP(1.0)


@pytest.mark.parametrize("claim", [1.0, None, math.nan, True, "epsilon=1"])
def test_a_claim_must_be_a_cost_and_nothing_is_run_for_another(claim):
    def never(data, entropy):
        raise AssertionError

    law = coin(0.5)
    for judge in (
        lambda: audit(never, 0, 1, claim),
        lambda: compare(law, law, claim),
        lambda: audit_gaussian(1.0, 1.0, claim),
        lambda: audit_laplace(1.0, 1.0, claim),
    ):
        with pytest.raises(InvalidInput, match="the cost must be PureDP or ApproxDP or ZCDP, got"):
            judge()


def test_an_audit_repeats_itself_under_one_seed_only():
    runs = [sampled(laplace_count, 0, 1, ONE, 5_000, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert audit(vectorised(laplace_count), 0, 3, ONE, samples=5_000).convicted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 99}, "samples must be an integer of at least 100, got 99"),
        ({"samples": True}, "samples must be an integer of at least 100, got True"),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\), got 1.0"),
        ({"confidence": math.nan}, "confidence must be finite, got nan"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        audit(vectorised(laplace_count), 0, 1, ONE, **options)


def test_a_vectorised_mechanism_must_return_what_it_was_asked_for():
    with pytest.raises(InvalidInput, match="must return 25 transcripts, got 3"):
        audit(vectorised(lambda data, entropy, n: np.zeros(3)), 0, 1, ONE, samples=100)
