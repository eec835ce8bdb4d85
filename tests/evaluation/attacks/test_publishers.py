"""Publishers: what they give away of the bits that they hold, and what they never show."""

import numpy as np
import pytest

from qrelease.evaluation.attacks.answered import Publisher
from qrelease.evaluation.attacks.publishers import (
    Exact,
    Rounded,
    Sticky,
    Swapped,
)
from qrelease.evaluation.attacks.reconstruction import (
    least_squares,
    reconstruct,
)
from tests.evaluation.attacks.bits import secret_of


def test_swapping_loses_what_was_swapped_and_no_more(asked):
    """Of 20 % that change places, those who get the other's equal bit are right all the same."""
    secret, subsets = asked
    share = secret.mean()
    found = reconstruct(Swapped(secret, 0.2), secret, subsets, least_squares)
    assert found.recovered == pytest.approx(1 - 0.2 * 2 * share * (1 - share), abs=0.02)


def test_publishers_do_not_show_what_they_hold():
    for publisher in (Exact(secret_of(5)), Rounded(secret_of(5)), Sticky(secret_of(5)), Swapped(secret_of(5))):
        assert isinstance(publisher, Publisher)
        assert "secret" not in repr(publisher)
    assert "values" not in repr(Exact(secret_of(5)).ask(np.ones((1, 5), bool)))
