"""Randomised response: each person's own answer, randomised before it leaves them (Warner 1965; D&R 2014, §3.2).

k-ary, with k = 2 the classic one: with probability e^ε / (e^ε + k - 1) the true answer, otherwise one of the k - 1
others, uniformly. The likelihood of any report changes by at most e^ε between any two true answers, so it is ε-DP
with no trusted party (local). Two fair coins - heads: the truth; tails: the second coin - are k = 2 at ε = ln 3.
The sampling is exact: the coin of irrational bias is compared with lazily refined enclosures (`exact`).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from qrelease import laws
from qrelease.entropy import WordSource
from qrelease.errors import InvalidInput
from qrelease.exact import rational, uniform_below, whole
from qrelease.noise import zeros_of
from qrelease.samplers import below

I64 = npt.NDArray[np.int64]

_MOST_VALUES: Final = 1 << 24


@dataclass(frozen=True)
class RandomisedResponse:
    """The mechanism for answers 0..k-1 at ε per report; both are public.

    Raises `InvalidInput` for an ε that is not positive and finite, or a k that is not an integer of at least 2.
    """

    epsilon: float | Fraction
    k: int = 2

    def __post_init__(self) -> None:
        rational("epsilon", self.epsilon)
        if whole("k", self.k, least=2) > _MOST_VALUES:
            raise InvalidInput(f"k must be at most 2^24, got {self.k}")

    @property
    def truth(self) -> float:
        """The probability that a report is the true answer."""
        return 1 / (1 + (self.k - 1) * self._rate)

    @property
    def _rate(self) -> float:
        """e^-ε."""
        return math.exp(-float(min(self.epsilon, 1000)))

    def report(self, answers: I64, entropy: WordSource) -> I64:
        """One report for each true answer, (n,) -> (n,), codes 0..k-1.

        Raises `InvalidInput`, and draws nothing, unless the answers are one row of integers in 0..k-1.
        """
        true = self._codes("answers", answers)
        words = entropy.words(2 * true.size).reshape(2, -1)
        law = partial(laws.response, rational("epsilon", self.epsilon), self.k - 1)
        return np.where(zeros_of(law, words[0], entropy), true, self._lie(true, words[1], entropy))

    def _lie(self, answers: I64, words: npt.NDArray[np.uint64], entropy: WordSource) -> I64:
        """For each answer one of the k - 1 others, uniformly."""
        other: I64 = below(words, self.k - 1)
        for i in np.flatnonzero(other < 0):
            other[i] = uniform_below(self.k - 1, int(words[i]), entropy)
        return other + (other >= answers)

    def estimate(self, reports: I64) -> npt.NDArray[np.float64]:
        """Unbiased estimates of how many true answers have each code, (k,) counts, from (n,) reports.

        With p the chance of the truth and q = (1 - p)/(k - 1): (reported - n q) / (p - q), of variance at most
        n/4 (p - q)^-2. Estimates may be negative and sum to n. Raises `InvalidInput` for codes outside 0..k-1.
        """
        counts = np.bincount(self._codes("reports", reports), minlength=self.k)
        lie = self.truth * self._rate
        gap = self.truth * -math.expm1(-float(min(self.epsilon, 1000)))  # truth - lie, also where they are near
        return (counts - len(reports) * lie) / np.float64(gap)

    def _codes(self, name: str, codes: I64) -> I64:
        codes = np.asarray(codes)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise InvalidInput(f"{name} must be one row of integers, got {codes.dtype} of shape {codes.shape}")
        if codes.size and not 0 <= codes.min() <= codes.max() < self.k:
            raise InvalidInput(f"{name} must be codes in 0..{self.k - 1}, got one outside")
        return codes.astype(np.int64, copy=False)
