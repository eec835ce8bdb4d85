"""Every client enumerated exactly: all its inputs, all its reports. No ratio above e^ε, and estimates without bias."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from paths import at_most_e_to, law, worst_ratio
from scipy import stats

from qrelease.local import (
    Coin,
    Hadamard,
    Hybrid,
    KAry,
    Laplace,
    LocalHashing,
    OptimisedUnary,
    Piecewise,
    SquareWave,
    Unary,
    serve,
)
from qrelease.local.crowd import insecure_reports
from qrelease.local.numeric import WindowClient
from qrelease.noise.entropy import Entropy

EPSILONS = [Fraction(1, 1000), 0.1, 0.5, math.log(3), 2.0, 5]

CATEGORIES = [
    *(KAry(e, k) for e in EPSILONS for k in (2, 3, 7)),
    *(Unary(e, k) for e in EPSILONS for k in (2, 4)),
    *(OptimisedUnary(e, k) for e in EPSILONS for k in (2, 4)),
    *(LocalHashing(e, k) for e in EPSILONS[:5] for k in (2, 5)),
    *(Hadamard(e, k) for e in EPSILONS for k in (2, 3, 7, 12)),
]
NUMBERS = [kind(e, -1, 3, 12) for kind in (Coin, Piecewise, SquareWave, Hybrid) for e in EPSILONS]


def name(client):
    return f"{client.name} {float(client.epsilon):.3g} {client.inputs}"


@pytest.mark.parametrize("client", CATEGORIES + NUMBERS, ids=name)
def test_no_report_is_more_than_e_to_the_epsilon_times_likelier(client):
    laws = [law(client, place) for place in range(client.inputs)]
    assert all(sum(one.values()) == 1 for one in laws)
    assert all(0 <= code < client.size for one in laws for code in one)
    ratio = worst_ratio(laws)
    assert at_most_e_to(ratio, Fraction(client.epsilon))
    # Nothing is given away either: e^ε is reached but for one part in 10^8 of ε.
    assert math.log(ratio) == pytest.approx(float(client.epsilon), rel=1e-8)


@pytest.mark.parametrize("client", CATEGORIES, ids=name)
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


@pytest.mark.parametrize("client", NUMBERS, ids=name)
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


def test_the_coin_is_that_of_rcp_and_of_duchi():
    for epsilon in (0.1, 1.0, 3.0):
        client, e = Coin(epsilon, -1, 1, 20), Coin(epsilon).odds
        for place in range(21):
            x, one = Fraction(place, 20), law(client, place)[1]
            assert one == ((e - 1) * x + 1) / (e + 1)  # RCP, on [0, 1]
            assert one == Fraction(1, 2) + (2 * x - 1) * (e - 1) / (2 * (e + 1))  # Duchi, on [-1, 1]


def test_the_published_optima_are_reached():
    # x²/(h - 1) + (h + 3)/3(h - 1)² with h = e^(ε/2), and B² - x² (Wang et al. 2019, Lemma 1 and eq. 4).
    for epsilon in (0.5, 1.0, 2.0, 5.0):
        half, b = math.exp(epsilon / 2), 1 / math.tanh(epsilon / 2)
        piecewise = serve(Piecewise(epsilon, -1, 1))
        published = (half + 3) / (3 * (half - 1) ** 2)
        assert piecewise.variance(0) == pytest.approx(published, rel=1e-3)
        assert piecewise.variance(1) == pytest.approx(1 / (half - 1) + published, rel=1e-3)
        assert serve(Coin(epsilon, -1, 1)).variance(0) == pytest.approx(b**2, rel=1e-6)
        assert serve(Coin(epsilon, -1, 1)).variance(1) == pytest.approx(b**2 - 1, rel=1e-6)
        assert serve(Laplace(epsilon, -1, 1)).variance(0.3) == pytest.approx(8 / epsilon**2, rel=1e-6)
        hybrid = serve(Hybrid(epsilon, -1, 1)).largest_variance
        assert hybrid <= min(piecewise.largest_variance, serve(Coin(epsilon, -1, 1)).largest_variance) + 1e-9
    # OUE and local hashing: 4e^ε/(e^ε - 1)² for rare categories (Wang et al. 2017).
    for epsilon in (0.5, 1.0, 3.0):
        e = math.exp(epsilon)
        published = 4 * e / (e - 1) ** 2
        assert float(serve(OptimisedUnary(epsilon, 50)).variance()) == pytest.approx(published, rel=1e-6)
        assert float(serve(LocalHashing(epsilon, 50)).variance()) == pytest.approx(published, rel=0.05)
        h = math.exp(epsilon / 2)
        assert float(serve(Unary(epsilon, 50)).variance()) == pytest.approx(h / (h - 1) ** 2, rel=1e-6)
        assert float(serve(KAry(epsilon, 50)).variance()) == pytest.approx((48 + e) / (e - 1) ** 2, rel=1e-6)


# --- Laplace, whose probabilities are irrational


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)])
def test_laplace_reports_are_private_for_every_ratio_of_a_step(q):
    """The law is a rational function of q = e^(-ε/G); with any q in (0, 1) no ratio exceeds q^-G."""
    client = Laplace(16.0, 0, 1, 4)  # a margin of 16 steps

    def closed(place, code):
        d = abs(code - client.margin - place)
        return q**d / (1 + q) * (1 if code in (0, client.size - 1) else 1 - q)

    laws = [{c: closed(i, c) for c in range(client.size)} for i in range(client.inputs)]
    assert all(sum(one.values()) == 1 for one in laws)
    assert worst_ratio(laws) == q**-client.steps


def laplace_law(client, place, rate=1.0):
    q = math.exp(-float(client.epsilon) * rate / client.steps)
    return {c: (1 - q) / (1 + q) * q ** abs(c - client.margin - place) for c in range(client.size)}


def test_laplace_reports_have_that_law():
    client, entropy = Laplace(2.0, 0, 1, 4), Entropy.insecure(5)
    codes = np.array([client.report(0.25, entropy).code for _ in range(6_000)])
    assert p_value(codes, laplace_law(client, 1)) > 1e-3
    assert p_value(codes, laplace_law(client, 1, 1.3)) < 1e-6


# --- the simulation of many people


SIMULATED = [
    KAry(1.0, 5),
    LocalHashing(1.0, 5),
    Hadamard(0.5, 5),
    Hadamard(3.0, 9),
    Coin(1.0, 0, 1, 4),
    Piecewise(2.0, 0, 1, 6),
    SquareWave(1.0, 0, 1, 6),
    Hybrid(2.0, 0, 1, 6),
    Laplace(8.0, 0, 1, 4),
]


@pytest.mark.parametrize("client", SIMULATED, ids=name)
def test_simulated_reports_have_the_clients_law_and_thirty_per_cent_of_epsilon_would_show(client):
    n, rng = 60_000, np.random.default_rng(7)
    louder = replace(client, epsilon=float(client.epsilon) * 1.3)
    p_values, wrong = [], []
    for place in {0, client.inputs // 2, client.inputs - 1}:
        codes = insecure_reports(client, np.full(n, place), rng)
        exact = (laplace_law if isinstance(client, Laplace) else law)(client, place)
        p_values.append(p_value(codes, exact))
        if louder.size == client.size:
            wrong.append(p_value(codes, law(louder, place)))
    assert min(p_values) > 1e-3
    assert min(wrong, default=0) < 1e-6


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


def test_a_window_starts_at_the_place_and_only_its_odds_depend_on_it():
    client = Piecewise(2.0, 0, 1, 8)
    assert isinstance(client, WindowClient)
    for place in range(client.inputs):
        found = law(client, place)
        likely = {c for c, p in found.items() if p == max(found.values())}
        assert likely == set(range(place, place + client.window))
