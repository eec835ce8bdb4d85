"""The two-loop recursion of L-BFGS: curvature that was seen along earlier steps, applied to a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qrelease._util.typing import Floats


def two_loops(
    gradient: Floats, inverse: Callable[[Floats], Floats], pairs: Sequence[tuple[Floats, Floats]], *, scaled: bool
) -> Floats:
    """The inverse curvature of L-BFGS times a gradient (Nocedal 1980).

    inverse  of the curvature without any pairs, times a vector
    pairs    earlier steps, and how much the gradient changed along each
    scaled   whether `inverse` is multiplied by what the last pair says of its length
    """
    found, shares, term = gradient.copy(), [], np.empty_like(gradient)
    curvatures = [float(step @ change) for step, change in pairs]
    for (step, change), curvature in zip(reversed(pairs), reversed(curvatures), strict=True):
        shares.append(float(step @ found) / curvature)
        found -= np.multiply(change, shares[-1], out=term)
    found = inverse(found)
    if pairs and scaled:
        change = pairs[-1][1]
        found *= curvatures[-1] / float(change @ inverse(change))
    for (step, change), curvature, share in zip(pairs, curvatures, reversed(shares), strict=True):
        found += np.multiply(step, share - float(change @ found) / curvature, out=term)
    return found
