"""Imports of optional packages that some attacks need, on first use."""

from typing import Any

from qrelease.errors import InvalidInput


def load_cvxpy() -> Any:
    """The modelling language. `InvalidInput` where it is not installed."""
    try:
        import cvxpy
    except ImportError:
        raise InvalidInput("this attack needs cvxpy with HiGHS: pip install 'qrelease[attack]'") from None
    return cvxpy
