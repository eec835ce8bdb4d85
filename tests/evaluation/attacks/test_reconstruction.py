"""Reconstruction succeeds where answers are exact or perturbed by hand, and fails against releases."""

import numpy as np
import pytest

import qrelease as qr
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.attacks.answered import Answered, base_rate
from qrelease.evaluation.attacks.publishers import (
    Exact,
    FreshNoise,
    InSession,
    Percentages,
    Released,
    ReleasedTable,
    Rounded,
    Sticky,
    Suppressed,
)
from qrelease.evaluation.attacks.reconstruction import (
    all_subsets,
    exhaustive,
    least_squares,
    linear_programme,
    questions,
    reconstruct,
)
from qrelease.noise.entropy import Entropy
from tests.evaluation.attacks.bits import secret_of


@pytest.mark.parametrize(
    "make", [Exact, lambda s: Rounded(s, 5), lambda s: Rounded(s, 10), Percentages, Sticky, Suppressed]
)
def test_2000_real_records_are_read_off_answers_within_5(asked, make):
    secret, subsets = asked
    assert reconstruct(make(secret), secret, subsets, least_squares).recovered >= 0.99


def test_a_release_of_the_same_questions_gives_the_base_rate(asked):
    secret, subsets = asked
    publishers = [
        Released(secret, qr.Laplace(), qr.PureDP(1.0), Entropy.insecure(0)),
        Released(secret, qr.Gaussian(), qr.ApproxDP(1.0, 1e-9), Entropy.insecure(0)),
        ReleasedTable(secret, qr.MaxEnt(), qr.ApproxDP(1.0, 1e-9), Entropy.insecure(0)),
        InSession(secret, qr.Online(), qr.PureDP(1.0), Entropy.insecure(0)),
    ]
    for publisher in publishers:
        found = reconstruct(publisher, secret, subsets, least_squares)
        # The bound is for a release of the same questions: one of each person's own answer gives some more away.
        assert found.recovered <= 1.1 * found.base_rate, publisher.name
        assert found.answered > 0


def test_a_release_that_spends_far_too_much_is_read(asked):
    """The attack that fails above is no weak one: at ε = 2 000 it reads the same release."""
    secret, subsets = asked
    publisher = Released(secret, qr.Laplace(), qr.PureDP(2000.0), Entropy.insecure(0))
    assert reconstruct(publisher, secret, subsets, least_squares).recovered >= 0.99


def test_noise_decides_how_many_questions_are_needed():
    secret, rng = secret_of(300), np.random.default_rng(2)
    few, many = questions(300, 400, rng), questions(300, 40_000, rng)
    few, many = (reconstruct(FreshNoise(secret, 10), secret, s, least_squares).recovered for s in (few, many))
    assert few < 0.8
    assert many > 0.99


def test_the_linear_programme_beats_noise_that_is_bounded():
    """The example of STATISTICS: 60 people, 360 questions, noise up to 6, all bits back; and rounding to 10."""
    secret, rng = secret_of(60), np.random.default_rng(3)
    subsets = questions(60, 360, rng)

    class Bounded:
        name = "noise up to 6"

        def ask(self, subsets):
            noise = rng.integers(-6, 7, len(subsets))
            return Answered(subsets[:, secret].sum(axis=1) + noise, 6 / np.sqrt(3))

    for publisher in (Bounded(), Rounded(secret, 10)):
        assert reconstruct(publisher, secret, subsets, linear_programme).recovered >= 0.95


@pytest.mark.parametrize("base", [1, 2, 4])
def test_all_subsets_leave_at_most_4e_bits_in_doubt(base):
    """Dinur & Nissim 2003, Theorem 1, with E half of the base; and rounding a lot leaves some."""
    secret = secret_of(12, seed=base)
    found = reconstruct(Rounded(secret, base), secret, all_subsets(12), exhaustive)
    assert (1 - found.recovered) * 12 <= 4 * base / 2
    assert found.recovered > found.base_rate


def test_who_answers_nothing_gives_nothing_away():
    secret = secret_of(50)
    subsets = questions(50, 100, np.random.default_rng(4))
    found = reconstruct(Suppressed(secret, 51), secret, subsets, least_squares)
    assert found.answered == 0
    assert found.recovered <= base_rate(secret)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: all_subsets(21), "at most 20 people, got 21"),
        (lambda: exhaustive(np.ones((1, 30), bool), Answered(np.ones(1), 0.0)), "at most 20 people, got 30"),
        (lambda: reconstruct(Exact(np.ones(3, bool)), [0, 1, 2], np.ones((1, 3), bool), least_squares), "zeros and"),
        (lambda: Exact(np.ones(3, bool)).ask(np.ones((2, 4), bool)), r"shape \(k, 3\), got \(2, 4\)"),
    ],
)
def test_mistakes_are_told(call, said):
    with pytest.raises(InvalidInput, match=said):
        call()


def test_too_many_people_are_refused_before_anything_is_made():
    with pytest.raises(TooLarge, match="fewer of them"):
        questions(1_000_000, 2_000_000, np.random.default_rng(0))
