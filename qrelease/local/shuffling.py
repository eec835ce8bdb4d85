"""Amplification by shuffling: what n local reports are worth once nobody knows whose is whose.

It is a claim about a shuffler, a party that mixes reports and sees no more of them than their number: whoever sees who
sent what has the local ε. So nothing in this package counts on it; it is computed where somebody asks for it.
"""

from __future__ import annotations

import math

from qrelease._util.validate import natural, positive_probability
from qrelease.errors import InvalidInput
from qrelease.local.draws import checked_epsilon
from qrelease.privacy import ApproxDP


def shuffled(epsilon: float, people: int, delta: float) -> ApproxDP:
    """The central (ε, δ) of reports at a local ε₀ by so many people, shuffled.

    For ε₀ <= ln(n/(16 ln(2/δ))),

        ε = ln(1 + (e^ε₀ - 1)/(e^ε₀ + 1) · (8 √(e^ε₀ ln(4/δ))/√n + 8 e^ε₀/n)).

    Neighbours are two groups of people of whom one has another value. ε is never above ε₀.

    Parameters
    ----------
    epsilon
        ε₀ of each report.
    people
        n, honest ones: whoever colludes with the collector, or sends the same report always, hides nobody.
    delta
        From 0 to 1, both excluded.

    Raises
    ------
    InvalidInput
        Where the theorem says nothing: too few people for this ε₀ and δ.

    References
    ----------
    Feldman, McMillan & Talwar 2021, Hiding among the clones: a simple and nearly optimal analysis of privacy
    amplification by shuffling, Theorem 3.1.

    Examples
    --------
    >>> round(shuffled(1.0, 1_000_000, 1e-9).epsilon, 3)
    0.028
    """
    local, n, failure = float(checked_epsilon(epsilon)), natural("people", people), positive_probability("delta", delta)
    e = math.exp(local)
    if e > n / (16 * math.log(2 / failure)):
        least = math.ceil(16 * e * math.log(2 / failure))
        raise InvalidInput(f"the theorem needs at least {least:,} people at epsilon={epsilon}, got {n:,}")
    blanket = 8 * math.sqrt(e * math.log(4 / failure) / n) + 8 * e / n
    amplified = math.log1p(math.tanh(local / 2) * blanket)
    return ApproxDP(min(local, amplified * (1 + 1e-12)), failure)
