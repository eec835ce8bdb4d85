"""Exact enumeration of clients: every path of their random choices, with its probability as a fraction."""

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
