"""The laws of clients for numbers: those that were published, and Laplace's, whose probabilities are irrational."""

from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from enumerated import laplace_law, p_value
from paths import law, law_in_powers, nonzero, worst_ratio

from qrelease.local import Coin, LocalLaplace, Piecewise
from qrelease.local.numeric import WindowClient
from qrelease.noise.entropy import Entropy
from qrelease.noise.exact_reals import exp_negative


def test_the_coin_is_that_of_rcp_and_of_duchi():
    for epsilon in (0.1, 1.0, 3.0):
        client, e = Coin(epsilon, -1, 1, 20), Coin(epsilon).odds
        for place in range(21):
            x, one = Fraction(place, 20), law(client, place)[1]
            assert one == ((e - 1) * x + 1) / (e + 1)  # RCP, on [0, 1]
            assert one == Fraction(1, 2) + (2 * x - 1) * (e - 1) / (2 * (e + 1))  # Duchi, on [-1, 1]


def test_a_window_starts_at_the_place_and_only_its_odds_depend_on_it():
    client = Piecewise(2.0, 0, 1, 8)
    assert isinstance(client, WindowClient)
    for place in range(client.inputs):
        found = law(client, place)
        likely = {c for c, p in found.items() if p == max(found.values())}
        assert likely == set(range(place, place + client.window))


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)])
def test_laplace_reports_are_private_for_every_ratio_of_a_step(q):
    """The law is a rational function of q = e^(-ε/G); with any q in (0, 1) no ratio exceeds q^-G."""
    client = LocalLaplace(16.0, 0, 1, 4)  # a margin of 16 steps

    def closed(place, code):
        d = abs(code - client.margin - place)
        return q**d / (1 + q) * (1 if code in (0, client.size - 1) else 1 - q)

    laws = [{c: closed(i, c) for c in range(client.size)} for i in range(client.inputs)]
    assert all(sum(one.values()) == 1 for one in laws)
    assert worst_ratio(laws) == q**-client.steps


def laws_in_powers(client):
    gamma = Fraction(client.epsilon) / client.steps
    most = int(gamma * client.size) + 2  # so often in a row is beyond the cut from every place
    return [law_in_powers(client, place, gamma.denominator, most) for place in range(client.inputs)]


def above(client, claimed):
    """How many reports are more than e^(claimed/steps) times as likely from a place as from one beside it."""
    t = (Fraction(client.epsilon) / client.steps).denominator
    step = Fraction(claimed) / client.steps * t
    power_of = cache(lambda p: exp_negative(Fraction(p, t), 600)[0])
    laws, found = [one for one, _ in laws_in_powers(client)], 0
    for one, other in [*pairwise(laws), *pairwise(laws[::-1])]:
        for code, likely in one.items():
            # With e^(claimed/steps) = z^-step: other(code) - z^step one(code) is 0 in all powers, or is above 0.
            apart = defaultdict(Fraction, other[code])
            for power, share in likely.items():
                apart[power + int(step)] -= share
            apart = nonzero(apart)
            found += bool(apart) and sum(c * power_of(p) for p, c in apart.items()) <= 1 << 200
    return found


@pytest.mark.parametrize(("epsilon", "steps"), [(Fraction(32), 3), (Fraction(20), 5)])
def test_every_path_of_laplace_reports_on_a_coarse_grid(epsilon, steps):
    """No ratio of two places is above e^ε, whatever is reported, and all that can be reported can be from any place."""
    client = LocalLaplace(epsilon, 0, 1, steps)
    laws = laws_in_powers(client)
    assert len({tuple(sorted(kept.items())) for _, kept in laws}) == 1
    assert all(set(one) == set(range(client.size)) for one, _ in laws)
    assert not above(client, epsilon)
    assert above(client, epsilon - steps)  # and of an ε that is a little smaller, it is


def test_laplace_reports_have_that_law():
    client, entropy = LocalLaplace(2.0, 0, 1, 4), Entropy.insecure(5)
    codes = np.array([client.report(0.25, entropy).code for _ in range(6_000)])
    assert p_value(codes, laplace_law(client, 1)) > 1e-3
    assert p_value(codes, laplace_law(client, 1, 1.3)) < 1e-6


def test_integers_beyond_the_floats_count_as_the_nearer_end():
    client = Coin(1.0, -1, 3)
    assert [client.place(v) for v in (10**400, -(10**400), Fraction(10**400, 3))] == [client.steps, 0, client.steps]
