"""What is known of noise: how far it reaches, its variance, and error bars that cover 95 %."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from laws import below
from scipy import signal

from qrelease.noise.distributions import CONFIDENCE, Noise, half_widths
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_gaussian, discrete_laplace, rounded_gaussian
from qrelease.privacy import ZCDP, ApproxDP, PureDP

LAWS = {PureDP: "discrete Laplace", ZCDP: "discrete Gaussian", ApproxDP: "rounded Gaussian"}


def mass_of(law, scale, reach):
    """The probabilities of -reach..reach."""
    mass = np.diff(below(law, scale, np.arange(-reach - 1, reach + 1)))
    return mass / mass.sum()


@pytest.mark.parametrize("law", list(LAWS.values()))
@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-4])
def test_a_draw_is_beyond_its_reach_with_no_more_than_the_probability(law, scale, beta):
    reach = int(60 * scale) + 8
    y, mass = np.arange(-reach, reach + 1), mass_of(law, scale, reach)
    noise = Noise(law, scale)
    assert mass[np.abs(y) > noise.reach(beta)].sum() <= beta * (1 + 1e-9)
    if scale == 40 and beta < 0.1:  # the Gaussian bound is for tails
        assert mass[np.abs(y) > 0.7 * noise.reach(beta)].sum() > beta
    assert replace(noise, unit=0.25).reach(beta) <= noise.reach(beta)


SUMS = 20_000
LIMIT = 4.5 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / SUMS)  # 4.5 binomial standard deviations


def draws_of(law, scale, size, seed):
    entropy = Entropy.insecure(seed)
    if law == "discrete Laplace":
        return discrete_laplace(Fraction(scale), size, entropy)
    sampler = rounded_gaussian if law == "rounded Gaussian" else discrete_gaussian
    return sampler(Fraction(scale) ** 2, size, entropy)


@pytest.mark.parametrize("terms", [1, 2, 5, 40])
@pytest.mark.parametrize("law", list(LAWS.values()))
def test_error_bars_cover_95_per_cent_of_sums(law, terms):
    scale = 200
    sums = draws_of(law, scale, SUMS * terms, terms).reshape(SUMS, terms).sum(axis=1)
    covered = {f: np.mean(np.abs(sums) <= f * Noise(law, scale).half_width(terms)) for f in (1 / 1.3, 1.0, 1.3)}
    assert abs(covered[1.0] - CONFIDENCE) < LIMIT
    assert covered[1 / 1.3] < CONFIDENCE - 2 * LIMIT
    assert covered[1.3] > CONFIDENCE + 2 * LIMIT


@pytest.mark.parametrize("law", list(LAWS.values()))
@pytest.mark.parametrize(
    "weights", [[1.0] * 3 + [0.5] * 8, [0.25] * 16, [1.0, 0.3, 0.3, 0.3], [0.9, 0.9], np.linspace(0, 1, 30)]
)
def test_error_bars_of_weighted_sums(law, weights):
    weights = np.asarray(weights)
    sums = draws_of(law, 200, SUMS * len(weights), 7).reshape(SUMS, -1) @ weights
    covered = np.mean(np.abs(sums) <= Noise(law, 200).half_width(float(weights @ weights)))
    assert CONFIDENCE - LIMIT < covered < CONFIDENCE + (0.02 if law == "discrete Laplace" else 0.01)


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.4, 0.7, 1, 2.3, 9, 40])
@pytest.mark.parametrize("terms", [1, 2, 3, 7, 40, 100])
@pytest.mark.parametrize("law", list(LAWS.values()))
def test_error_bars_never_cover_less_whatever_the_grid(law, terms, scale):
    """By convolution of the exact law, for small scales too, where one draw is nearly always 0."""
    total = one = mass_of(law, scale, int(40 * scale) + 3)
    for _ in range(terms - 1):
        total = signal.fftconvolve(total, one)
    at = np.arange(len(total)) - len(total) // 2
    covered = total[np.abs(at) <= Noise(law, scale).half_width(terms)].sum()
    assert covered > CONFIDENCE - 1e-9
    if scale * math.sqrt(terms) > 20:
        assert covered < CONFIDENCE + 0.01


def test_error_bars_on_a_grid():
    assert Noise("discrete Laplace", 3.0, 0.5).half_width() == pytest.approx(3 * math.log(20) + 0.25)
    assert Noise("discrete Gaussian", 3.0, 0.5).half_width(4) == pytest.approx(6 * 1.959963984540054 + 0.25)


@pytest.mark.parametrize("scale", [0.1, 0.5, 3.0, 50.0])
@pytest.mark.parametrize("law", list(LAWS.values()))
def test_variance_and_magnitude_are_those_of_the_law_or_just_above(law, scale):
    reach = int(40 * scale) + 5
    y, mass = np.arange(-reach, reach + 1), mass_of(law, scale, reach)
    noise = Noise(law, scale)
    assert mass @ y**2 <= noise.variance * (1 + 1e-12)
    if scale >= 3:
        assert mass @ y**2 >= noise.variance * 0.97
        assert mass @ np.abs(y) == pytest.approx(noise.magnitude, rel=0.03)


def beyond(scales: list[float], h: float) -> float:
    """P(|Y| > h) of a sum of independent Laplace draws of different scales, by partial fractions of 1/Π(1 + b²t²)."""
    return sum(
        math.exp(-h / b) * math.prod(b**2 / (b**2 - c**2) for j, c in enumerate(scales) if j != i)
        for i, b in enumerate(scales)
    )


@pytest.mark.parametrize("scales", [[1.0], [1.0, 0.9], [1.0, 0.5], [1.0, 0.1], [1.0, 0.9, 0.8], [1.0, 0.5, 0.3, 0.2]])
def test_bars_of_laplace_mixtures_hold_where_those_of_normal_ones_do_not(scales: list[float]) -> None:
    variance = np.array([2 * sum(b**2 for b in scales)])
    (laplace,), (normal,) = half_widths(variance, 1), half_widths(variance)
    assert beyond(scales, laplace) <= 1 - CONFIDENCE + 1e-12
    assert beyond(scales, normal) > 1 - CONFIDENCE + 0.003
    assert normal == pytest.approx(1.96 * math.sqrt(variance[0]), rel=1e-4)  # of Gaussian noise as they were
    assert laplace <= 1.09 * normal
