"""Slow, obviously correct samplers in Python integers: Canonne, Kamath & Steinke 2020, Algorithms 1 to 3.

They share no code with the package but the source of random words, and follow the paper line by line: every branch
is a comparison of a uniform integer with an integer.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations

from qrelease.noise.entropy import Entropy


class Bits:
    """Uniform integers below any bound, by rejection of the surplus."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._stock: Iterator[int] = iter(())

    def word(self) -> int:
        for word in self._stock:
            return word
        self._stock = iter(self._entropy.words(4096).tolist())
        return self.word()

    def below(self, bound: int) -> int:
        size = (bound - 1).bit_length()
        words = (size + 63) // 64
        while True:
            value = sum(self.word() << 64 * i for i in range(words)) & ((1 << size) - 1)
            if value < bound:
                return value

    def bernoulli(self, p: Fraction) -> bool:
        return self.below(p.denominator) < p.numerator


def bernoulli_exp(gamma: Fraction, bits: Bits) -> bool:
    """Algorithm 1: True with probability e^-gamma."""
    if gamma > 1:
        whole = math.floor(gamma)
        return all(bernoulli_exp(Fraction(1), bits) for _ in range(whole)) and bernoulli_exp(gamma - whole, bits)
    k = 1
    while bits.bernoulli(gamma / k):
        k += 1
    return k % 2 == 1


def geometric(scale: Fraction, bits: Bits) -> int:
    """Algorithm 2 without its sign: P(y) ∝ e^(-y/scale), y >= 0."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = bits.below(t)
        if bernoulli_exp(Fraction(u, t), bits):
            break
    v = 0
    while bernoulli_exp(Fraction(1), bits):
        v += 1
    return (u + t * v) // s


def discrete_laplace(scale: Fraction, bits: Bits) -> int:
    """Algorithm 2: P(y) ∝ e^(-|y|/scale)."""
    while True:
        negative, magnitude = bits.below(2), geometric(scale, bits)
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def discrete_gaussian(variance: Fraction, bits: Bits) -> int:
    """Algorithm 3: P(y) ∝ e^(-y²/(2 variance))."""
    t = math.isqrt(math.floor(variance)) + 1
    while True:
        y = discrete_laplace(Fraction(t), bits)
        if bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance), bits):
            return y


def exponential_mechanism(scores: list[int], gamma: Fraction, bits: Bits) -> int:
    """P(r) ∝ e^(γ s_r), by rejection from the uniform."""
    while True:
        r = bits.below(len(scores))
        if bernoulli_exp(gamma * (max(scores) - scores[r]), bits):
            return r


def permute_and_flip(scores: list[int], gamma: Fraction, bits: Bits) -> int:
    """McKenna & Sheldon 2020, Algorithm 1: candidates without replacement until a coin falls heads."""
    left = list(range(len(scores)))
    while True:
        r = left.pop(bits.below(len(left)))
        if bernoulli_exp(gamma * (max(scores) - scores[r]), bits):
            return r


def permute_and_flip_law(scores: list[int], gamma: float) -> list[float]:
    """The probabilities of `permute_and_flip`, by enumeration of all orders."""
    heads = [math.exp(gamma * (s - max(scores))) for s in scores]
    law = [0.0] * len(scores)
    for order in permutations(range(len(scores))):
        reached = 1 / math.factorial(len(scores))
        for r in order:
            law[r] += reached * heads[r]
            reached *= 1 - heads[r]
    return law
