"""What statistics draw: noise and choices, so that an auditor can list all draws where a statistic samples them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, TypeVar, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease.noise import selection
from qrelease.noise.calibration import Rule
from qrelease.noise.cauchy import discrete_cauchy
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import WordSource
from qrelease.noise.samplers import unreduced

Kind = TypeVar("Kind")


class NoiseSource(Protocol):
    """Integer noise, and a choice by scores. `ExactNoise` samples them; tests enumerate them."""

    def noise(self, law: Noise, parameter: Fraction, size: int) -> Ints:
        """Independent draws of noise.

        Parameters
        ----------
        law : Noise
            Their distribution.
        parameter : Fraction
            The scale b of a Laplace distribution, or the variance σ² of a Gaussian.
        size : int
            How many.

        Returns
        -------
        ndarray of int, shape (size,)
            The draws; Python's integers where one is beyond 64 bits.
        """

    def cauchy(self, scale: Fraction) -> int:
        """One draw of P(z) ∝ 1/(scale² + z²) on the integers, as `noise.cauchy` has it.

        Parameters
        ----------
        scale : Fraction
            The scale.

        Returns
        -------
        int
            The draw.
        """

    def choose(self, scores: Ints, epsilon: Fraction, sensitivity: int, rule: Rule, *, monotone: bool) -> int:
        """The index of a large score, as `noise.selection` has it.

        Parameters
        ----------
        scores : ndarray of int, shape (k,)
            Private whole numbers.
        epsilon : Fraction
            What the choice costs.
        sensitivity : int
            The most that a neighbour moves a score by.
        rule : {"exponential", "permute-and-flip"}
            How it is drawn.
        monotone : bool
            Whether a neighbour moves all scores in the same direction.

        Returns
        -------
        int
            From 0 to k - 1.
        """

    def labels(self, size: int, below: int) -> Ints:
        """Independent labels, each about equally likely; no privacy rests on how nearly.

        Parameters
        ----------
        size : int
            How many.
        below : int
            They are from 0 to this - 1.

        Returns
        -------
        ndarray of int, shape (size,)
            The labels.
        """

    def stream(self, kind: Callable[..., Kind], *arguments: Any, **options: Any) -> Kind:
        """A stream of the sparse vector technique.

        Parameters
        ----------
        kind : callable
            Which one, such as `SparseVector`.
        *arguments, **options
            What it takes beside the entropy.

        Returns
        -------
        object of that kind
            It answers one query after another.
        """


@final
class ExactNoise:
    """Draws from the samplers of `noise`, which are exact."""

    def __init__(self, entropy: WordSource) -> None:
        self.entropy = entropy

    def noise(self, law: Noise, parameter: Fraction, size: int) -> Ints:
        """See `NoiseSource`."""
        return unreduced(law.law, parameter, size, self.entropy)

    def cauchy(self, scale: Fraction) -> int:
        """See `NoiseSource`."""
        return int(discrete_cauchy(scale, 1, self.entropy)[0])

    def choose(self, scores: Ints, epsilon: Fraction, sensitivity: int, rule: Rule, *, monotone: bool) -> int:
        """See `NoiseSource`."""
        select = selection.exponential_mechanism if rule == "exponential" else selection.permute_and_flip
        return select(scores, epsilon, sensitivity, self.entropy, monotone=monotone)

    def labels(self, size: int, below: int) -> Ints:
        """See `NoiseSource`."""
        return ((self.entropy.words(size) >> np.uint64(32)) * np.uint64(below) >> np.uint64(32)).astype(np.int64)

    def stream(self, kind: Callable[..., Kind], *arguments: Any, **options: Any) -> Kind:
        """See `NoiseSource`."""
        return kind(*arguments, self.entropy, **options)
