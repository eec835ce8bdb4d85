"""Exact distributions, listed and compared, with account kept of what is left out."""

import math
from fractions import Fraction

import numpy as np
import pytest
from sampled import coin

from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit import (
    Distribution,
    audit_gaussian,
    audit_laplace,
    compare,
    delta_between,
    enumerated,
    gaussian_distribution,
    laplace_distribution,
)
from qrelease.privacy import ApproxDP, PureDP

ONE = PureDP(1.0)


@pytest.mark.parametrize("scale", [Fraction(1, 5), 1.0, Fraction(22, 7), 100])
def test_discrete_laplace_spends_exactly_its_epsilon(scale):
    law = laplace_distribution(scale)
    for sensitivity in (1, 3):
        epsilon = float(sensitivity / Fraction(scale))
        moved = law.map(lambda y, s=sensitivity: y + s)
        found = compare(law, moved, PureDP(epsilon))
        assert found.epsilon == pytest.approx(epsilon)
        assert not found.convicted
        assert compare(law, moved, PureDP(epsilon * 0.999)).convicted
        low, high = delta_between(law, moved, epsilon)
        assert low == 0.0
        assert high <= 1e-11


def test_masses_are_right_however_much_of_a_law_is_left_out():
    for law in (laplace_distribution, gaussian_distribution):
        whole, part = law(4), law(4, missing=0.3)
        assert len(part.masses) < len(whole.masses)
        assert all(part.masses[y] == pytest.approx(whole.masses[y], rel=1e-12) for y in part.masses)
        assert not compare(part, whole, PureDP(1e-9)).convicted
        low, high = delta_between(part, whole, 0.0)
        assert low == 0.0
        assert high <= 0.31


def test_what_underflows_is_no_zero():
    # e^-1000 is below all floats, and yet this is 1000-DP.
    for scale in (Fraction(1, 1000), Fraction(1, 10**400)):
        law = laplace_distribution(scale)
        assert not compare(law, law.map(lambda y: y + 1), PureDP(1000.0)).convicted
    law = gaussian_distribution(Fraction(1, 10**4))
    assert not compare(law, law.map(lambda y: y + 1), ApproxDP(5300.0, 1e-9)).convicted
    assert gaussian_distribution(Fraction(1, 10**400)).masses == {0: 1.0}
    assert not audit_laplace(1000.0, 1.0, PureDP(1000.0)).convicted
    assert not audit_laplace(1e308, 5e-324, PureDP(1000.0)).convicted
    assert not audit_gaussian(60.0, 1.0, ApproxDP(2172.0, 1e-9)).convicted
    assert audit_laplace(700.0, 1.0, PureDP(699.0)).convicted
    assert audit_gaussian(1000.0, 1.0, ApproxDP(700.0, 0.5)).convicted


def test_an_enumeration_is_the_convolution_and_keeps_account_of_what_it_leaves_out():
    noise = laplace_distribution(Fraction(1, 2))

    def both(data, choices):
        return data + choices.draw(noise) + choices.draw(noise)

    found = enumerated(both, 5, least=1e-8)
    rates = math.exp(-2)
    # (1 - q)²/(1 + q)² Σ_a q^(|a| + |b - a|) by hand.
    expected = {y: math.tanh(1) ** 2 * rates**y * (y + (1 + rates**2) / (1 - rates**2)) for y in range(6)}
    for y, mass in expected.items():
        assert found.masses[5 + y] == pytest.approx(mass, abs=found.missing)
        assert found.masses[5 - y] == pytest.approx(mass, abs=found.missing)
    assert 1e-9 < found.missing < 1e-5
    assert math.fsum(found.masses.values()) + found.missing == pytest.approx(1, abs=1e-12)


def test_an_enumeration_follows_choices_that_depend_on_earlier_ones():
    def program(data, choices):
        if choices.draw(coin(0.25)):
            return "stop"
        return choices.draw(Distribution({"left": data, "right": 1 - data}))

    assert enumerated(program, 0.5).masses == {"stop": 0.25, "left": 0.375, "right": 0.375}
    assert enumerated(program, 0.0).masses == {"stop": 0.25, "right": 0.75}
    assert compare(enumerated(program, 0.5), enumerated(program, 0.0), ONE).event == "the output 'left'"


def test_outcomes_that_are_not_a_number_are_the_same_on_both_inputs():
    def program(data, choices):
        return tuple(np.array([np.nan if choices.draw(coin(0.5)) else 1.0, 2.0]).tolist())

    first, second = enumerated(program, 0), enumerated(program, 1)
    assert sorted(first.masses.values()) == [0.5, 0.5]
    for law in (second, second.map(lambda outcome: (outcome[0] * 1.0, outcome[1]))):
        assert compare(first, law, ONE).epsilon == 0.0
        assert delta_between(first, law, 0.0)[1] < 1e-11


def test_missing_mass_is_counted_against_a_conviction():
    sure, hidden = Distribution({"a": 0.5, "b": 0.5}), Distribution({"b": 0.9}, 0.1)
    found = compare(sure, hidden, ONE)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.1))
    assert found.favours == "first"
    assert found.epsilon == pytest.approx(math.log(5))
    low, high = delta_between(sure, hidden, 1.0)
    assert (low, high) == (pytest.approx(0.5 - math.e * 0.1), pytest.approx(0.5))
    assert low <= 0.5 - math.e * 0.1 < 0.5 <= high
    with pytest.raises(InvalidInput, match="epsilon must be from 0 to 700, got -1"):
        delta_between(sure, hidden, -1)


def test_laws_are_checked():
    with pytest.raises(InvalidInput, match=r"sum to 1, got 0\.5 with 0.25 missing"):
        Distribution({"a": 0.5}, 0.25)
    with pytest.raises(InvalidInput, match="must not be negative"):
        Distribution({"a": 1.5, "b": -0.5})
    with pytest.raises(InvalidInput, match="scale must be positive, got 0"):
        laplace_distribution(0)
    with pytest.raises(InvalidInput, match="missing must be in"):
        gaussian_distribution(1, missing=0.0)
    for text in ("x", None):
        with pytest.raises(InvalidInput, match="probabilities must be numbers"):
            Distribution({"a": text})
    for wide in (10**8, Fraction(10**400, 3)):
        for law in (laplace_distribution, gaussian_distribution):
            with pytest.raises(TooLarge, match="too large to be listed"):
                law(wide**2)
    for least, message in {0.0: "in", math.nan: "finite", True: "a number", 1e-301: "at least 1e-300"}.items():
        with pytest.raises(InvalidInput, match=f"least must be {message}.*, got"):
            enumerated(lambda data, choices: data, 0, least=least)
        with pytest.raises(InvalidInput, match=f"missing must be {message}.*, got"):
            laplace_distribution(1, missing=least)
