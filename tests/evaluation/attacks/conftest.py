import numpy as np
import pytest

from qrelease.evaluation.attacks.reconstruction import questions
from tests.evaluation.attacks.bits import secret_of


@pytest.fixture(scope="module")
def asked():
    """2 000 real records, and 4 000 questions about them."""
    return secret_of(2000), questions(2000, 4000, np.random.default_rng(1))
