"""Mechanisms that the auditor is tried on."""

from fractions import Fraction

from qrelease.evaluation.audit import (
    Distribution,
    audit,
    vectorised,
)
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_laplace


def sampled(mechanism, first, second, claim, samples, seed=1):
    return audit(vectorised(mechanism), first, second, claim, samples=samples, entropy=Entropy.insecure(seed))


def laplace_count(answer, entropy, n, scale=1):
    return answer + discrete_laplace(Fraction(scale), n, entropy)


def coin(chance):
    return Distribution({1: chance, 0: 1 - chance})


def one(entropy):
    return int(discrete_laplace(Fraction(1), 1, entropy)[0])
