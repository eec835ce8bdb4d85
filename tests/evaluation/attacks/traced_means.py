"""Means published with noise, and what is traced from them."""

import math

import numpy as np

from qrelease.evaluation.attacks.mean_tracing import trace

D, N = 600, 60


def signs(n, means, rng):
    return np.where(rng.random((n, len(means))) < (1 + means) / 2, 1, -1)


def game(noise, rng, d=D, n=N):
    """A mean published with noise of that standard deviation in each coordinate, and what is traced from it."""
    means = rng.uniform(-1, 1, d)
    rows, others = signs(n, means, rng), signs(300, means, rng)
    published = rows.mean(axis=0) + rng.normal(0, noise, d)
    return trace(published, rows, others, means), float(((np.clip(published, -1, 1) - means) ** 2).sum())


def sigma(rho, d=D, n=N):
    """Of the Gaussian mechanism on the mean, one row being replaced."""
    return 2 * math.sqrt(d) / n / math.sqrt(2 * rho)
