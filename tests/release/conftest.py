"""A ledger to release under."""

import pytest

from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "people.ledger", ApproxDP(10.0, 1e-3)) as opened:
        yield opened
