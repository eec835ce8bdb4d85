"""The two-loop recursion of L-BFGS: curvature that was seen along earlier steps, applied to a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qrelease._util.typing import Floats


def two_loops(
    gradient: Floats, inverse: Callable[[Floats], Floats], pairs: Sequence[tuple[Floats, Floats]], *, scaled: bool
) -> Floats:
    """The inverse curvature of L-BFGS times a gradient (Nocedal 1980).

    inverse  of the curvature without any pairs, times a vector
    pairs    earlier steps, and how much the gradient changed along each
    scaled   whether `inverse` is multiplied by what the last pair says of its length
    """
    found, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        shares.append(float(step @ found) / float(step @ change))
        found -= shares[-1] * change
    found = inverse(found)
    if pairs and scaled:
        step, change = pairs[-1]
        found *= float(step @ change) / float(change @ inverse(change))
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        found += step * (share - float(change @ found) / float(step @ change))
    return found
