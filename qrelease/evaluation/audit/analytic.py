"""Exact audits of one continuous draw: the best threshold event, from the formula of the noise's tail.

A probability below all floats is bounded by the smallest of them, so that no ε above 708 is proved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from qrelease._util.typing import Floats
from qrelease._util.validate import positive
from qrelease.evaluation.audit.verdict import Audit, bounds
from qrelease.privacy.costs import Cost, check_cost

_GRID_POINTS: Final = 2_001
_MAX_THRESHOLD: Final = 37.0
"""Thresholds up to so many scales: the normal tail is a float up to there."""

_MAX_DISTANCE: Final = 1_000.0
"""Inputs so many scales apart are told apart as surely as floats can say; further ones are no harder."""

_ROUNDING: Final = 1e-11
"""More than the relative error of the tails at thresholds up to there."""

_SMALLEST_FLOAT: Final = np.finfo(np.float64).tiny


def audit_gaussian(sensitivity: float, sigma: float, claim: Cost) -> Audit:
    """Continuous Gaussian noise of standard deviation σ on a query of L2 sensitivity Δ, against a claim: exact.

    Between inputs Δ apart the likelihood ratio is monotone, so the best event is that the output reaches a threshold;
    at ε its excess is the δ of Balle & Wang 2018, Theorem 8. Raises `InvalidInput` for arguments not positive, or a
    claim that is not a cost.
    """
    from scipy.special import ndtr

    return _threshold(lambda t: ndtr(-t), "sigma", sensitivity, sigma, claim)


def audit_laplace(sensitivity: float, scale: float, claim: Cost) -> Audit:
    """Continuous Laplace noise of scale b on a query of sensitivity Δ, against a claim: exact, as `audit_gaussian`."""
    return _threshold(
        lambda t: np.where(t > 0, np.exp(-np.abs(t)) / 2, 1 - np.exp(-np.abs(t)) / 2),
        "scale",
        sensitivity,
        scale,
        claim,
    )


def _threshold(tail: Callable[[Floats], Floats], name: str, sensitivity: float, scale: float, claim: Cost) -> Audit:
    """The best event {output >= t}, by a grid search that is refined; any t gives a valid bound."""
    check_cost(claim)
    shift = min(positive("sensitivity", sensitivity) / positive(name, scale), _MAX_DISTANCE)
    low, high = -_MAX_THRESHOLD, _MAX_THRESHOLD + shift
    for _ in range(4):
        grid = np.linspace(low, high, _GRID_POINTS)
        likely = tail(grid - shift) * (1 - _ROUNDING)
        unlikely = np.minimum(np.maximum(tail(grid), _SMALLEST_FLOAT) * (1 + _ROUNDING), 1.0)
        best = int(np.argmax(bounds(claim, likely, unlikely)))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, _GRID_POINTS - 1)]
    event = f"an output of at least {float(grid[best]) * scale:.6g} above the smaller answer"
    return Audit(claim, event, "first", float(likely[best]), float(unlikely[best]), 1.0, 0)
