"""Exact enumeration of clients: every path of their random choices, with its probability as a fraction.

Laplace noise of γ = s/t a step has irrational probabilities, which are polynomials in z = e^(-1/t): see `PowerPaths`.
"""

import math
from collections import defaultdict
from fractions import Fraction

from qrelease.noise.exact_reals import exp_negative


class Paths:
    """A source of choices that takes one path, and notes those that were not taken."""

    def __init__(self, path):
        self.path, self.taken = path, 0
        self.probability = Fraction(1)
        self.untried = []

    def choose(self, chances):
        if self.taken == len(self.path):
            self.untried += [(*self.path, i) for i in range(1, len(chances)) if chances[i]]
            self.path = (*self.path, 0)
        index = self.path[self.taken]
        self.taken += 1
        self.probability *= chances[index]
        return index

    def pick(self, weights):
        total = sum(weights)
        return self.choose([Fraction(w, total) for w in weights])

    def below(self, size):
        return self.choose([Fraction(1, size)] * size)


def law(client, place):
    """P(code | place) of every report, as fractions."""
    return law_of(lambda draws: client.draw(place, draws))


def law_of(function):
    found, paths = defaultdict(Fraction), [()]
    while paths:
        source = Paths(paths.pop())
        found[function(source)] += source.probability
        paths += source.untried
    return dict(found)


def worst_ratio(laws):
    """The largest ratio of the probabilities of one report under two places; infinite where one of them is zero."""
    codes = set().union(*laws)
    chances = [[one.get(code, Fraction(0)) for one in laws] for code in codes]
    return max(math.inf if not min(c) else max(c) / min(c) for c in chances)


def at_most_e_to(ratio, epsilon):
    """Whether a fraction is at most e^ε, decided by integers: ratio · e^-ε at most 1."""
    bits = 256 + math.ceil(2 * epsilon)
    return ratio != math.inf and ratio * exp_negative(Fraction(epsilon), bits)[1] <= 1 << bits


class DrawnAgainError(Exception):
    """The noise is drawn anew, from the beginning: of no consequence for the law of what is kept."""


class PowerPaths:
    """One path through `two_sided_geometric`: its probability is a share times z^power times some (1 - z^k)."""

    def __init__(self, path, t, most):
        self.path, self.t, self.most = path, t, most
        self.taken = self.numbers = self.in_a_row = self.power = 0
        self.share, self.missed, self.untried = Fraction(1), [], []

    def choose(self, options):
        if self.taken == len(self.path):
            self.untried += [(*self.path, i) for i in range(1, options)]
            self.path = (*self.path, 0)
        self.taken += 1
        return self.path[self.taken - 1]

    def below(self, size):
        self.numbers += 1
        if self.numbers > 2:  # after the uniform number and the sign: minus zero
            raise DrawnAgainError
        self.share /= size
        return self.choose(size)

    def fades(self, gamma):
        k = int(gamma * self.t)
        assert k == gamma * self.t
        if k == 0:
            return True
        if gamma == 1 and self.in_a_row == self.most:
            return False  # all that fall more often in a row end beyond the cut: they are taken together
        if self.choose(2) == 0:
            self.power, self.in_a_row = self.power + k, self.in_a_row + (gamma == 1)
            return True
        self.missed.append(k)
        if gamma < 1:
            raise DrawnAgainError
        return False

    def probability(self):
        """The polynomial, as {power: coefficient}."""
        found = {self.power: self.share}
        for k in self.missed:
            longer = dict(found)
            for power, share in found.items():
                longer[power + k] = longer.get(power + k, 0) - share
            found = longer
        return found


def law_in_powers(client, place, t, most):
    """P(code | place) times the probability of being kept, as polynomials in z; and that probability."""
    found, kept, paths = defaultdict(lambda: defaultdict(Fraction)), defaultdict(Fraction), [()]
    while paths:
        source = PowerPaths(paths.pop(), t, most)
        try:
            code = client.draw(place, source)
        except DrawnAgainError:
            code = None
        paths += source.untried
        if code is not None:
            for power, share in source.probability().items():
                found[code][power] += share
                kept[power] += share
    return {code: nonzero(p) for code, p in found.items()}, nonzero(kept)


def nonzero(polynomial):
    return {power: share for power, share in polynomial.items() if share}
