"""Settings of the tests of budgets."""

from collections.abc import Iterator
from decimal import localcontext
from pathlib import Path

import pytest

from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger


@pytest.fixture
def sixty_digits() -> Iterator[None]:
    """Decimals of sixty digits, in which the truth is computed."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**9), 10**9
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a ledger of which nothing is spent, of a total of ε = 1."""
    path = tmp_path / "people.ledger"
    Ledger.open(path, PureDP(1.0)).close()
    return path
