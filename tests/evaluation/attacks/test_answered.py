"""What an attack works with: exact counts of the secret bits, and what is taken for bits and for subsets."""

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.answered import Answered, base_rate, check_secret, exact_counts


def test_exact_counts_are_of_the_people_in_a_subset_who_have_the_bit():
    rng = np.random.default_rng(0)
    secret, subsets = rng.random(30) < 0.4, rng.random((50, 30)) < 0.5
    expected = [sum(asked and bit for asked, bit in zip(subset, secret, strict=True)) for subset in subsets]
    assert len(set(expected)) > 5
    assert exact_counts(secret, subsets).tolist() == expected
    assert exact_counts(secret, np.zeros((1, 30), bool)).tolist() == [0.0]
    assert exact_counts(secret, np.ones((1, 30), bool)).tolist() == [secret.sum()]
    assert exact_counts(secret, np.ones((0, 30), bool)).shape == (0,)


@pytest.mark.parametrize("shape", [(30,), (2, 29), (2, 31), (1, 1, 30)])
def test_subsets_of_other_people_are_refused(shape):
    with pytest.raises(InvalidInput, match=r"subsets must have shape \(k, 30\), got"):
        exact_counts(np.ones(30, bool), np.ones(shape, bool))


@pytest.mark.parametrize("bits", [[0, 1, 1], [False, True, True], [0.0, 1.0, 1.0], np.array([0, 1, 1], np.uint8)])
def test_bits_may_be_zeros_and_ones_of_any_kind(bits):
    found = check_secret(bits)
    assert found.dtype == bool
    assert found.tolist() == [False, True, True]


@pytest.mark.parametrize("bits", [[], [[0, 1]], 1, [0, 2], [0, -1], [1, 0.5], [0, float("nan")], [0, None]])
def test_what_is_no_list_of_bits_is_refused(bits):
    with pytest.raises(InvalidInput, match=r"secret bits must be an array \(n,\) of zeros and ones"):
        check_secret(bits)


@pytest.mark.parametrize(("bits", "share"), [([1, 0, 0, 0], 0.75), ([1, 1, 1, 0], 0.75), ([1, 0], 0.5), ([0], 1.0)])
def test_the_base_rate_is_the_share_of_the_commoner_bit(bits, share):
    assert base_rate(np.array(bits, bool)) == share


def test_answers_are_not_in_the_text_of_what_holds_them():
    """What is shown in a log or a notebook is how far they may be off, no exact count."""
    assert repr(Answered(np.array([17.0]), 0.5)) == "Answered(spread=0.5, share=None)"
