"""The answers that an attack sees, and the contract of a `Publisher`, which counts the secret bits of some people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, final, runtime_checkable

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats, Mask
from qrelease.errors import InvalidInput


@final
@dataclass(frozen=True, eq=False)
class Answered:
    """Answers to questions about subsets of people.

    Attributes
    ----------
    values : (k,) float64
        Counts; NaN where the publisher gave no answer.
    spread : float
        The standard deviation of an answer's error, a count, as the publisher announces it; 0 for exact answers.
    share : float, optional
        The fraction of the people who have the bit, where the attacker knows it.
    """

    values: Floats = field(repr=False)
    spread: float
    share: float | None = None


@runtime_checkable
class Publisher(Protocol):
    """Something that answers how many people of a subset have the secret bit."""

    @property
    def name(self) -> str:
        """The name that a table of results shows."""

    def ask(self, subsets: Mask) -> Answered:
        """The answers to k questions about subsets (k, n) of the n people, asked in this order."""


def check_secret(secret: npt.ArrayLike) -> Mask:
    """The secret bits as (n,) bool; `InvalidInput` for anything else."""
    bits = np.asarray(secret)
    if bits.ndim != 1 or not len(bits) or not np.isin(bits, (0, 1)).all():
        raise InvalidInput(f"secret bits must be an array (n,) of zeros and ones, got shape {bits.shape}")
    return bits.astype(np.bool_)


def exact_counts(secret: Mask, subsets: Mask) -> Floats:
    """The exact answers (k,)."""
    if subsets.ndim != 2 or subsets.shape[1] != len(secret):
        raise InvalidInput(f"subsets must have shape (k, {len(secret)}), got {subsets.shape}")
    counts: Floats = subsets[:, secret].sum(axis=1).astype(np.float64)
    return counts


def base_rate(secret: Mask) -> float:
    """The fraction of the people who have the commoner bit."""
    share = float(secret.mean())
    return max(share, 1 - share)
