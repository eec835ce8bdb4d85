"""Bounds that hold, evidence in the currency of the claim, and verdicts in words."""

import math

import numpy as np
import pytest
from sampled import coin, laplace_count, sampled
from scipy import stats

from qrelease.evaluation.audit import (
    Audit,
    audit,
    compare,
    vectorised,
)
from qrelease.evaluation.audit.verdict import bounds, clopper_pearson, power
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, PureDP

ONE = PureDP(1.0)


def test_bounds_of_clopper_and_pearson_are_quantiles_of_the_beta_law_and_cover():
    counts = np.array([0, 1, 17, 999, 1000])
    low, high = clopper_pearson(counts, 1000, 0.005)
    assert low[1:] == pytest.approx(stats.beta.ppf(0.005, counts[1:], 1001 - counts[1:]))
    assert high[:-1] == pytest.approx(stats.beta.ppf(0.995, counts[:-1] + 1, 1000 - counts[:-1]))
    assert (low[0], high[-1]) == (0.0, 1.0)
    for chance in (0.001, 0.02, 0.5):
        every = np.arange(1001)
        mass = stats.binom.pmf(every, 1000, chance)
        below, above = clopper_pearson(every, 1000, 0.005)
        assert mass[below > chance].sum() <= 0.005
        assert mass[above < chance].sum() <= 0.005


def evidence(claim, low, high):
    return Audit(claim, "an event", "second", low, high, 0.99, 1000)


def test_evidence_is_read_in_the_currency_of_the_claim():
    assert evidence(ONE, 0.6, 0.1).epsilon == pytest.approx(math.log(6))
    assert evidence(ONE, 0.6, 0.1).delta == pytest.approx(0.6 - 0.1 * math.e)
    assert evidence(ApproxDP(1.0, 0.35), 0.6, 0.1).epsilon == pytest.approx(math.log(2.5))
    assert not evidence(ApproxDP(1.0, 0.35), 0.6, 0.1).convicted
    assert evidence(ApproxDP(1.0, 0.3), 0.6, 0.1).convicted
    assert evidence(ONE, 0.6, 0.0).epsilon == math.inf
    assert evidence(PureDP(1e4), 0.6, 0.0).delta == 0.6
    assert evidence(PureDP(1e4), 0.6, 1e-9).delta == 0.0
    assert evidence(PureDP(1e4), 0.6, 1e-305).delta == 0.0
    assert evidence(ApproxDP(1.0, 0.1), 0.05, 0.0).epsilon == 0.0
    assert evidence(ONE, 0.0, 0.0).bound == 0.0
    assert evidence(ONE, 0.2, 0.3).bound == 0.0
    assert evidence(ZCDP(1.0), 0.3, 0.0).bound == math.inf
    assert evidence(ZCDP(1.0), 1.0, 0.5).bound > 0
    # At α → 1 the divergence is that of Kullback and Leibler; larger orders can only add.
    kl = 0.6 * math.log(6) + 0.4 * math.log(0.4 / 0.9)
    assert evidence(ZCDP(1.0), 0.6, 0.1).bound >= kl * 0.98
    # ε-DP is ε²/2-zCDP: no pair of coins that is ε-close shows more.
    for epsilon in (0.1, 1.0, 3.0):
        p = math.exp(epsilon) / (math.exp(epsilon) + 1)
        assert evidence(ZCDP(1.0), p, 1 - p).bound <= epsilon**2 / 2
    many = bounds(ZCDP(1.0), np.array([0.6, 0.3]), np.array([0.1, 0.0]))
    assert many.tolist() == [evidence(ZCDP(1.0), 0.6, 0.1).bound, math.inf]


def test_a_verdict_reads_well():
    text = str(sampled(laplace_count, 0, 3, ONE, 10_000))
    first, second, third = text.splitlines()
    assert first.startswith("CONVICTED of claiming epsilon=1: epsilon is at least 2.")
    assert first.endswith("(confidence 0.99, 10,000 runs on each input)")
    assert second.startswith("  event: the output is at ")
    assert "input, at most 0." in third
    found = compare(coin(0.5), coin(0.5), ApproxDP(1.0, 1e-6))
    assert str(found).startswith(
        "acquitted of claiming epsilon=1, delta=1e-06: epsilon is at least 0 at delta=1e-06 (exact)"
    )
    assert compare(coin(0.5), coin(0.0), ONE).to_json()["bound"] == "inf"
    assert found.to_json()["claim"] == {"epsilon": 1.0, "delta": 1e-06}


def test_an_acquittal_says_what_its_runs_could_have_found():
    found = sampled(laplace_count, 0, 1, ONE, 2_000)
    assert not found.convicted
    (line,) = [line for line in str(found).splitlines() if "could show" in line]
    assert line.startswith(
        "  what these runs could show: of one query with Laplace noise of exactly this cost, epsilon of about 0.75"
    )
    assert "the noise would have to be about 1.3 times too small for a conviction" in line
    assert "could show" not in str(sampled(laplace_count, 0, 3, ONE, 2_000))  # convicted
    assert "could show" not in str(compare(coin(0.5), coin(0.5), ONE))  # exact
    few = Audit(PureDP(8.0), "an event", "first", 0.5, 0.5, 0.99, 1_000)
    assert "however small its noise were, they would not convict it" in str(few)
    assert "with Gaussian noise" in str(Audit(ZCDP(0.5), "an event", "first", 0.5, 0.5, 0.99, 1_000))


@pytest.mark.parametrize("times", [1, 2])
def test_the_power_is_what_audits_of_one_query_with_noise_show(times):
    """Half of them show more of the exact mechanism, and the factor is where about half convict."""
    shown, claim = power(ONE, 2_000, 0.99), PureDP(1.0)

    def noisy(data, entropy, runs, factor):
        uniform = (entropy.words(runs).astype(np.float64) + 0.5) / 2.0**64 - 0.5
        drawn = np.sign(uniform) * np.log1p(-2 * np.abs(uniform)) / factor
        return data + np.rint(256 * drawn) / 256  # lest the last digits of floats tell

    factor = 1.0 if times == 1 else shown.factor * 1.15
    audits = [
        audit(
            vectorised(lambda data, entropy, runs: noisy(data, entropy, runs, factor)),
            0.0,
            1.0,
            claim,
            samples=2_000,
            entropy=Entropy.insecure(seed),
        )
        for seed in range(30)
    ]
    if times == 1:
        assert np.median([a.bound for a in audits]) == pytest.approx(shown.exact, abs=0.12)
        assert not any(a.convicted for a in audits)
    else:
        assert sum(a.convicted for a in audits) >= 15
        assert power(ONE, 2_000, 0.99).factor == pytest.approx(1.27, abs=0.03)


def test_a_gaussian_at_a_small_delta_takes_millions_of_runs_where_it_is_thirty_per_cent_off():
    """The numbers that CONTRIBUTING gives."""
    for delta, samples in ((1e-6, 2_200_000), (1e-9, 105_000_000)):
        enough, fewer = (power(ApproxDP(1.0, delta), n, 0.99).factor for n in (samples, samples * 8 // 10))
        assert enough <= 1 / 0.7 * 1.01
        assert fewer > 1 / 0.7
    assert power(ZCDP(0.5), 4_000, 0.99).factor < 1 / 0.7
