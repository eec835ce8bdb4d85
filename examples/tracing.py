"""Who is in a table, read off a published mean of its columns: where the mean is accurate, and no more where it is not.

python examples/tracing.py
"""

import numpy as np

import qrelease as qr
from qrelease.evaluation.attacks.mean_tracing import trace
from qrelease.statistics.lower_bounds import mean_bound

D, N = 600, 60
rng = np.random.default_rng(0)
means = rng.uniform(-1, 1, D)
rows, others = (np.where(rng.random((n, D)) < (1 + means) / 2, 1, -1) for n in (N, 300))
for rho in (10.0, 1.0, 0.1, 0.01, 0.001):
    sigma = 2 * np.sqrt(D) / N / np.sqrt(2 * rho)  # of the Gaussian mechanism: one person moves the mean by 2√D/N
    published = np.clip(rows.mean(axis=0) + rng.normal(0, sigma, D), -1, 1)
    error, least = np.sum((published - means) ** 2), mean_bound(D, N, qr.ZCDP(rho))
    found = trace(published, rows, others, means)
    print(f"rho={rho:g}: squared error {error:.0f}, at least {least:.0f} for any private mean;", end=" ")
    print(f"{found.inside:.0%} of those in are told to be in, and {found.outside:.0%} of others")
