"""The low-order bits of floating-point Laplace noise tell the number that it was added to (Mironov 2012).

The textbook's sampler takes a 53-bit uniform number through a logarithm. So its noise has at most 2⁵³ values, with
holes between them, and the holes lie elsewhere around another true answer: most outputs are possible for one of two
answers alone. `attainable` says for which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from qrelease._util.typing import Floats
from qrelease._util.validate import natural, positive
from qrelease.evaluation.attacks.games import Advantage, advantage_bound

_GRID: Final = 2.0**52
"""Twice a uniform number of 53 bits is a multiple of 1 / this."""

_NEAR_STEPS: Final = 8
"""Grid points that are tried on each side of the one that the output suggests, beyond those that rounding blurs."""

FloatSampler = Callable[[float, int], Floats]
"""So many noisy versions of a true answer."""


def attainable(output: float, truth: float, scale: float) -> bool:
    """Whether noise as numpy's generators draw it can take a truth to this output, bit by bit.

    From a uniform U, a multiple of 2⁻⁵³, they make truth + scale · log(U + U) if it is below one half, and otherwise
    truth - scale · log(2 - U - U), all rounded as floats are.
    """
    size = abs(output - truth) / scale
    if size > 30:  # v would be a handful of grid points: nothing is told apart there
        return False
    blur = abs(np.spacing(max(abs(output), abs(truth)))) / scale * math.exp(-size) * _GRID
    middle, reach = round(math.exp(-size) * _GRID), math.ceil(blur) + _NEAR_STEPS
    points = range(max(middle - reach, 1), min(middle + reach, int(_GRID)) + 1)
    if output >= truth:
        uniform = (1.0 - m / (2 * _GRID) for m in points)
        return any(truth - scale * math.log(2.0 - u - u) == output for u in uniform)
    return any(truth + scale * math.log(m / _GRID) == output for m in points)


@final
@dataclass(frozen=True)
class LowOrderBits:
    """What the low-order bits of noisy answers told about which of two true answers they came from.

    Attributes
    ----------
    sampler : str
        What drew the noise.
    runs : int
        Noisy answers of each true one.
    told : float
        The fraction of them that only one of the two answers can give, by `attainable`.
    advantage : Advantage
        Of the guess by `attainable` alone, a coin where it does not tell, beside what the noise's ε allows.
    """

    sampler: str
    runs: int
    told: float
    advantage: Advantage


def low_order_bits(
    name: str, sampler: FloatSampler, *, scale: float, runs: int, rng: np.random.Generator, confidence: float = 0.99
) -> LowOrderBits:
    """Tell a true answer of 0 from one of 1 by the bits of so many noisy answers each.

    Parameters
    ----------
    name : str
        What to call the sampler in a table.
    sampler : callable
        `sampler(truth, k)` gives k noisy answers (k,), with Laplace noise of the scale.
    scale : float
        Of the noise: the answers differ by 1, so a private sampler has ε = 1/scale.
    runs : int
        Noisy answers of each true one.
    rng : numpy.random.Generator
        Throws the coins.
    confidence : float
        Of the bounds on the advantage.

    References
    ----------
    Mironov 2012, "On significance of the least significant bits for differential privacy".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = low_order_bits("numpy", lambda x, k: rng.laplace(x, 8.0, k), scale=8.0, runs=500, rng=rng)
    >>> found.advantage.low > found.advantage.bound
    True
    """
    positive("scale", scale)
    guesses, told = [], 0
    for truth in (1.0, 0.0):
        outputs = sampler(truth, natural("runs", runs))
        possible = np.array([[attainable(float(y), x, scale) for x in (0.0, 1.0)] for y in outputs])
        tells = possible[:, 0] != possible[:, 1]
        told += int(tells.sum())
        guesses.append(np.where(tells, possible[:, 1], rng.random(runs) < 0.5))
    hits, false = (int(g.sum()) for g in guesses)
    found = Advantage.of(hits, false, runs, confidence, advantage_bound(1 / scale))
    return LowOrderBits(name, runs, told / (2 * runs), found)
