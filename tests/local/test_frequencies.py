"""Shares of categories from reports: no bias, the stated spread, intervals that cover."""

import math

import numpy as np
import pytest
from enumerated import CATEGORIES, client_id
from paths import law

from qrelease.errors import OutOfMemory, TooLarge
from qrelease.local import Hadamard, KAry, LocalHashing, OptimisedUnary, Unary, serve
from qrelease.local.crowd import insecure_reports
from qrelease.noise.entropy import Entropy

SHARES = np.array([0.5, 0.3, 0.15, 0.05, 0.0])


def people(n):
    return np.repeat(np.arange(5), (SHARES * n).astype(int))


@pytest.mark.parametrize("client", CATEGORIES, ids=client_id)
def test_category_estimates_have_no_bias_and_the_variance_that_is_stated(client):
    server = serve(client)
    for place in range(client.inputs):
        found = law(client, place)
        codes = sorted(found)
        weights = np.array([float(found[c]) for c in codes])
        worths = np.array([server.estimate(server.from_codes(np.array([c]))).value for c in codes])
        mean = weights @ worths
        np.testing.assert_allclose(mean, np.eye(client.k)[place], atol=1e-6 / float(client.epsilon))
        variance = weights @ (worths - mean) ** 2
        if isinstance(client, Hadamard):
            assert variance[place] <= float(server.variance(1)) * (1 + 1e-9)
            assert variance.max() <= float(server.variance(0)) * (1 + 1e-9)
            if client.blocks == 1:
                assert variance[place] == pytest.approx(float(server.variance(1)))
        else:
            expected = [float(server.variance(int(v == place))) for v in range(client.k)]
            np.testing.assert_allclose(variance, expected, rtol=1e-6)
        assert np.ptp(worths, axis=0).max() == pytest.approx(server.reach)


def test_the_published_optima_for_categories_are_reached():
    # OUE and local hashing: 4e^ε/(e^ε - 1)² for rare categories (Wang et al. 2017).
    for epsilon in (0.5, 1.0, 3.0):
        e = math.exp(epsilon)
        published = 4 * e / (e - 1) ** 2
        assert float(serve(OptimisedUnary(epsilon, 50)).variance()) == pytest.approx(published, rel=1e-6)
        assert float(serve(LocalHashing(epsilon, 50)).variance()) == pytest.approx(published, rel=0.05)
        h = math.exp(epsilon / 2)
        assert float(serve(Unary(epsilon, 50)).variance()) == pytest.approx(h / (h - 1) ** 2, rel=1e-6)
        assert float(serve(KAry(epsilon, 50)).variance()) == pytest.approx((48 + e) / (e - 1) ** 2, rel=1e-6)


@pytest.mark.parametrize("client", [KAry(1.0, 5), LocalHashing(1.0, 5), Hadamard(0.7, 5), Hadamard(3.0, 5)])
def test_frequencies_are_unbiased_and_intervals_cover(client):
    server, rng, n, runs = serve(client), np.random.default_rng(1), 2_000, 400
    found = [server.estimate(server.from_codes(insecure_reports(client, people(n), rng))) for _ in range(runs)]
    values = np.array([e.value for e in found])
    error = values.std(axis=0) / np.sqrt(runs)
    assert (np.abs(values.mean(axis=0) - SHARES) < 4.5 * error).all()
    if not isinstance(client, Hadamard):
        stated = [float(server.variance(s)) / n for s in SHARES]
        np.testing.assert_allclose(values.var(axis=0), stated, rtol=0.3)
    covered = np.mean([(e.interval[0] <= SHARES) & (e.interval[1] >= SHARES) for e in found], axis=0)
    assert covered.min() > 0.92
    assert np.mean([e.deviation for e in found], axis=0) == pytest.approx(values.std(axis=0), rel=0.25)
    # Intervals of half the width would not do.
    half = [np.abs(e.value - SHARES) <= (e.interval[1] - e.interval[0]) / 4 for e in found]
    assert np.mean(half) < 0.85


@pytest.mark.parametrize("client", [Unary(1.0, 5), OptimisedUnary(1.0, 5), Unary(1.0, 70)], ids=lambda c: c.name)
def test_bits_are_summed_as_the_client_sets_them(client):
    entropy, server, n = Entropy.insecure(4), serve(client), 1_500
    reports = [client.report(int(v), entropy) for v in people(n)]
    batch = server.gather(reports)
    assert server.supports(batch).tolist() == [sum(r.code >> v & 1 for r in reports) for v in range(client.k)]
    found = server.estimate(batch)
    deviation = np.sqrt(float(server.variance(0.5)) / n)
    assert np.abs(found.value[:5] - SHARES).max() < 4.5 * deviation
    assert np.abs(found.value[:2] * 3 - SHARES[:2]).max() > 4.5 * deviation


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 2), (0.5, 300), (1.0, 81), (1.0, 2000), (3.0, 1000), (5.4, 40)])
def test_local_hashing_counts_what_each_category_hashes_to(epsilon, k):
    client, rng = LocalHashing(epsilon, k), np.random.default_rng(6)
    server = serve(client)
    batch = server.from_codes(insecure_reports(client, rng.integers(0, k, 3_000), rng))
    some = np.unique(np.append(rng.integers(0, k, 50), [0, k - 1]))
    by_hand = [
        sum(client.hashed(c // client.g, v) == c % client.g for c in batch.codes.tolist()) for v in some.tolist()
    ]
    assert server.supports(batch)[some].tolist() == by_hand
    for digits in range(1, client.digits):  # an upper part and a lower one are counted apart
        upper, part = np.divmod(some, client.g**digits)
        supports = server.supports_below(batch.codes, upper.astype(np.uint64), client.g**digits)
        assert supports[range(len(some)), part].tolist() == by_hand
        few = client.g ** (digits - 1) + 1
        assert np.array_equal(server.supports_below(batch.codes, upper.astype(np.uint64), few), supports[:, :few])


def test_a_table_of_hashes_that_does_not_fit_is_refused(free_memory):
    """241 hash values, and three digits for a million categories: 3e9 different reports."""
    server = serve(LocalHashing(5.5, 1 << 20))
    batch = server.from_codes(np.array([0, 1]))
    free_memory(8 << 30)
    with pytest.raises((TooLarge, OutOfMemory), match="1,048,576 categories from 241 hash values"):
        server.estimate(batch)
    few = serve(LocalHashing(1.0, 1000))
    assert len(few.estimate(few.from_codes(np.array([0, 1]))).value) == 1000
