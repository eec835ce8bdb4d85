"""Means and distributions of numbers from reports: no bias, the stated spread, intervals that cover."""

import math

import numpy as np
import pytest
from enumerated import NUMBERS, client_id
from paths import law

from qrelease.errors import InvalidInput, TooLarge
from qrelease.local import Coin, Hybrid, LocalLaplace, Piecewise, SquareWave, serve
from qrelease.local.crowd import insecure_reports, places_of_values


@pytest.mark.parametrize("client", NUMBERS, ids=client_id)
def test_mean_estimates_have_no_bias_and_the_variance_that_is_stated(client):
    server = serve(client)
    worths = server.worths(np.arange(client.size))
    for place in range(client.inputs):
        found = law(client, place)
        mean = sum(float(p) * worths[code] for code, p in found.items())
        variance = sum(float(p) * (worths[code] - mean) ** 2 for code, p in found.items())
        assert mean == pytest.approx(place, abs=1e-8 * np.ptp(worths))
        assert variance == pytest.approx(float(server.step_variance(place)), rel=1e-6)
    used = [float(worths[code]) for code in {c for i in range(client.inputs) for c in law(client, i)}]
    assert (max(used) - min(used)) * float(server.step) == pytest.approx(server.reach)
    value = client.low + 5 * (client.high - client.low) / client.steps
    assert server.variance(value) == pytest.approx(float(server.step_variance(5) * server.step**2))
    assert server.largest_variance >= server.variance(value)


def test_the_published_optima_for_numbers_are_reached():
    # x²/(h - 1) + (h + 3)/3(h - 1)² with h = e^(ε/2), and B² - x² (Wang et al. 2019, Lemma 1 and eq. 4).
    for epsilon in (0.5, 1.0, 2.0, 5.0):
        half, b = math.exp(epsilon / 2), 1 / math.tanh(epsilon / 2)
        piecewise = serve(Piecewise(epsilon, -1, 1))
        published = (half + 3) / (3 * (half - 1) ** 2)
        assert piecewise.variance(0) == pytest.approx(published, rel=1e-3)
        assert piecewise.variance(1) == pytest.approx(1 / (half - 1) + published, rel=1e-3)
        assert serve(Coin(epsilon, -1, 1)).variance(0) == pytest.approx(b**2, rel=1e-6)
        assert serve(Coin(epsilon, -1, 1)).variance(1) == pytest.approx(b**2 - 1, rel=1e-6)
        assert serve(LocalLaplace(epsilon, -1, 1)).variance(0.3) == pytest.approx(8 / epsilon**2, rel=1e-6)
        hybrid = serve(Hybrid(epsilon, -1, 1)).largest_variance
        assert hybrid <= min(piecewise.largest_variance, serve(Coin(epsilon, -1, 1)).largest_variance) + 1e-9


@pytest.mark.parametrize("kind", [Coin, Piecewise, SquareWave, Hybrid, LocalLaplace])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_means_are_unbiased_and_intervals_cover(kind, epsilon):
    client = kind(epsilon, -5, 15)
    server, rng, n, runs = serve(client), np.random.default_rng(2), 1_000, 300
    values = rng.beta(2, 6, n) * 20 - 5
    places = places_of_values(client, values)
    found = [server.estimate(server.from_codes(insecure_reports(client, places, rng))) for _ in range(runs)]
    means = np.array([e.value for e in found])
    assert abs(means.mean() - values.mean()) < 4.5 * means.std() / np.sqrt(runs) + 20 / client.steps
    stated = np.mean([server.variance(v) for v in values[:100]]) / n
    assert means.var() == pytest.approx(stated, rel=0.35)
    covered = np.mean([e.interval[0] <= values.mean() <= e.interval[1] for e in found])
    assert covered > 0.91
    narrow = np.mean([abs(e.value - values.mean()) <= (e.interval[1] - e.interval[0]) / 4 for e in found])
    assert narrow < 0.85


def test_square_waves_tell_the_distribution():
    client = SquareWave(2.0)
    server, rng, n = serve(client), np.random.default_rng(5), 100_000
    values = np.where(rng.random(n) < 0.7, rng.normal(0.3, 0.05, n), rng.normal(0.75, 0.07, n)).clip(0, 1)
    batch = server.from_codes(insecure_reports(client, places_of_values(client, values), rng))
    truth = np.histogram(values, 32, (0, 1))[0] / n
    found = server.distribution(batch, 32)
    assert found.sum() == pytest.approx(1)
    distance = lambda p: np.abs(np.cumsum(p - truth)).mean()  # noqa: E731
    assert distance(found) < 0.01
    assert distance(np.full(32, 1 / 32)) > 0.1
    # The raw reports, rescaled, are far off: the noise has to be taken out.
    raw = np.histogram(batch.codes.astype(float) / client.size, 32, (0, 1))[0] / n
    assert distance(raw) > 0.05


def test_liars_move_a_histogram_no_further_than_is_said():
    """All exchange one cell for another, whichever; the bound is not far from what the worst of them reach."""
    client, bins, k = SquareWave(2.0, 0, 1, 1 << 10), 8, 4
    server, rng = serve(client), np.random.default_rng(3)
    honest = insecure_reports(client, places_of_values(client, rng.beta(3, 4, 4_000)), rng)
    cells = np.arange(0, client.size, client.steps // bins)
    moved = np.zeros(bins)
    shares = {}
    for cell in cells:
        batch = server.from_codes(np.append(honest, np.full(k, cell)))
        shares[cell] = server.distribution(batch, bins, tolerance=1e-10), server.distribution_moved_by(k, batch, bins)
    for lied, bound in shares.values():
        for true, _ in shares.values():
            assert (np.abs(lied - true) <= bound + 1e-4).all()
            moved = np.maximum(moved, np.abs(lied - true) / bound)
    assert moved.max() > 0.1
    fewer = server.distribution_moved_by(1, batch, bins)
    assert (fewer < shares[cells[-1]][1]).all()
    with pytest.raises(InvalidInput, match="more liars than reports"):
        server.distribution_moved_by(5_000, batch, bins)


def test_a_histogram_that_does_not_fit_is_refused():
    server = serve(SquareWave(1.0, 0, 1, 1 << 24))
    batch = server.from_codes(np.array([0, 1]))
    assert len(server.distribution(batch, 4)) == 4
    with pytest.raises(TooLarge, match="a histogram of 16,777,216 bins"):
        server.distribution(batch, 1 << 24)
