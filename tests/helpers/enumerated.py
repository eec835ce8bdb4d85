"""Clients that are small enough to be enumerated, and how reports are compared with a law."""

import math
from fractions import Fraction

import numpy as np
from scipy import stats

from qrelease.local import Coin, Hadamard, Hybrid, KAry, LocalHashing, OptimisedUnary, Piecewise, SquareWave, Unary

EPSILONS = [Fraction(1, 1000), 0.1, 0.5, math.log(3), 2.0, 5]


CATEGORIES = [
    *(KAry(e, k) for e in EPSILONS for k in (2, 3, 7)),
    *(Unary(e, k) for e in EPSILONS for k in (2, 4)),
    *(OptimisedUnary(e, k) for e in EPSILONS for k in (2, 4)),
    *(LocalHashing(e, k) for e in EPSILONS[:5] for k in (2, 5)),
    *(Hadamard(e, k) for e in EPSILONS for k in (2, 3, 7, 12)),
]


NUMBERS = [kind(e, -1, 3, 12) for kind in (Coin, Piecewise, SquareWave, Hybrid) for e in EPSILONS]


def client_id(client):
    return f"{client.name} {float(client.epsilon):.3g} {client.inputs}"


def laplace_law(client, place, rate=1.0):
    q = math.exp(-float(client.epsilon) * rate / client.steps)
    return {c: (1 - q) / (1 + q) * q ** abs(c - client.margin - place) for c in range(client.size)}


def p_value(codes, exact):
    """Of a chi-square test of codes against a law; rare reports are taken together."""
    common = [c for c, p in exact.items() if float(p) * len(codes) > 10]
    expected = np.array([float(exact[c]) * len(codes) for c in common])
    seen = np.array([np.count_nonzero(codes == c) for c in common])
    rest = len(codes) - expected.sum()
    if rest > 10:
        expected, seen = np.append(expected, rest), np.append(seen, len(codes) - seen.sum())
    else:
        expected *= seen.sum() / expected.sum()
    return stats.chisquare(seen, expected).pvalue
