"""What every result of an attack says of itself."""

import numpy as np

from qrelease.evaluation.attacks.publishers import Exact
from qrelease.evaluation.attacks.reconstruction import least_squares, questions, reconstruct
from qrelease.evaluation.results import NOTICE


def test_a_result_says_that_it_is_not_private():
    secret = np.arange(20) % 3 == 0
    found = reconstruct(Exact(secret), secret, questions(20, 40, np.random.default_rng(0)), least_squares)
    assert str(found).splitlines()[0] == found.to_json()["notice"] == NOTICE
