"""Settings of the tests of budgets."""

from collections.abc import Iterator
from decimal import localcontext

import pytest


@pytest.fixture
def sixty_digits() -> Iterator[None]:
    """Decimals of sixty digits, in which the truth is computed."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**9), 10**9
        yield
