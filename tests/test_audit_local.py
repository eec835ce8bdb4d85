"""The auditor on local mechanisms: it acquits the clients, and convicts what was published and is not private.

RCP-Opt reports 1 with a probability in [(1 + d2)/(e^ε + 1), (e^ε + d1)/(e^ε + 1)] for x in [0, 1], d2 <= d1. Its proof
bounds the ratio of the report 1 and forgets the report 0, whose ratio (e^ε - d2)/(1 - d1) is at most e^ε only where
d2 >= e^ε d1. At the published optimum, d1 = 1 and d2 = e^-ε, a person with x = 1 never reports 0: an infinite loss.
"""

import math

import pytest

from qrelease.evaluation.audit import Distribution, compare, enumerated
from qrelease.local import Coin, KAry, Piecewise, Unary
from qrelease.privacy import PureDP


class Chosen:
    """The random choices of a client, by the auditor."""

    def __init__(self, choices):
        self.choices = choices

    def pick(self, weights):
        total = sum(weights)
        return self.choices.draw(Distribution({i: w / total for i, w in enumerate(weights) if w}))

    def below(self, size):
        return self.choices.draw(Distribution(dict.fromkeys(range(size), 1 / size)))


def law(client, place):
    return enumerated(lambda value, choices: client.draw(value, Chosen(choices)), place)


@pytest.mark.parametrize("kind", [lambda e: KAry(e, 3), lambda e: Unary(e, 3), lambda e: Coin(e, 0, 1, 2)])
@pytest.mark.parametrize("epsilon", [0.2, math.log(3), 4.0])
def test_clients_are_acquitted_at_their_epsilon_and_convicted_just_below(kind, epsilon):
    client = kind(epsilon)
    first, second = law(client, 0), law(client, client.inputs - 1)
    found = compare(first, second, PureDP(epsilon))
    assert not found.convicted
    assert found.epsilon == pytest.approx(epsilon)
    assert compare(first, second, PureDP(epsilon * 0.999)).convicted


def test_a_client_that_spends_twice_is_convicted():
    assert compare(law(Piecewise(2.0, 0, 1, 4), 0), law(Piecewise(2.0, 0, 1, 4), 4), PureDP(1.0)).convicted


def rcp_opt(x, epsilon, d1, d2):
    """The published law of a report."""
    low, high = (1 + d2) / (math.exp(epsilon) + 1), (math.exp(epsilon) + d1) / (math.exp(epsilon) + 1)
    one = low + (high - low) * x
    return Distribution({1: one, 0: 1 - one})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_rcp_opt_is_convicted_for_every_parameter_but_none(epsilon):
    for d1, share in [(1e-3, 1.0), (0.1, 0.0), (0.5, 0.5), (0.9, 1.0)]:
        both = [rcp_opt(x, epsilon, d1, share * d1) for x in (0, 1)]
        assert compare(*both, PureDP(epsilon)).convicted
    assert not compare(rcp_opt(0, epsilon, 0, 0), rcp_opt(1, epsilon, 0, 0), PureDP(epsilon)).convicted
    optimum = [rcp_opt(x, epsilon, 1, math.exp(-epsilon)) for x in (0, 1)]
    assert compare(*optimum, PureDP(50)).convicted  # at any ε: a report 0 proves that x was not 1
