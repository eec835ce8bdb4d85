"""One of several questions: the whole is as private as one answer."""

import math
from fractions import Fraction

import pytest
from paths import at_most_e_to, law, worst_ratio

from qrelease.errors import InvalidInput
from qrelease.local import Coin, Hybrid, KAry, Marginals, OneOf, Piecewise

CLIENTS = [
    OneOf(1.0, (Coin(1.0, 0, 1, 2), KAry(0.5, 3))),
    OneOf(0.3, (Coin(0.3, 0, 1, 2),) * 3),
    OneOf(2, (Piecewise(2.0, 0, 1, 3), Hybrid(1.0, 0, 1, 2))),
    Marginals(0.5, (2, 3, 2), ((0,), (0, 2), (1, 2))),
]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_one_answer_costs_epsilon_for_all_values_together(client):
    laws = [law(client, place) for place in range(client.inputs)]
    assert all(sum(one.values()) == 1 for one in laws)
    assert all(0 <= code < client.size for one in laws for code in one)
    ratio = worst_ratio(laws)
    assert at_most_e_to(ratio, Fraction(client.epsilon))
    assert math.log(ratio) == pytest.approx(float(client.epsilon), rel=1e-8)


def test_places_keep_the_values_of_all_questions():
    client = CLIENTS[0]
    seen = {client.place((x, c)) for x in (0, 0.5, 1) for c in range(3)}
    assert seen == set(range(9))
    with pytest.raises(InvalidInput, match="2 values"):
        client.place((1,))
    with pytest.raises(InvalidInput, match="3 codes"):
        CLIENTS[3].place((1, 1))
    with pytest.raises(InvalidInput, match="a code must be an integer from 0 to 2"):
        CLIENTS[3].place((1, 3, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneOf(1.0, ()), "from 1 to 4,096 questions"),
        (lambda: OneOf(1.0, (Coin(1.5),)), r"epsilon of 1\.5, above 1"),
        (lambda: OneOf(1.0, [Coin(1.0)]), "a tuple of clients"),
        (lambda: OneOf(1.0, (OneOf(1.0, (Coin(1.0),)),)), "for categories and numbers"),
        (lambda: Marginals(1.0, (2, 2), ((1, 0),)), "ascending order"),
        (lambda: Marginals(1.0, (2, 2), ((0, 2),)), "ascending order"),
        (lambda: Marginals(1.0, (2, 1), ((1,),)), "has one"),
        (lambda: Marginals(1.0, (2, 2), ()), "different sets"),
    ],
)
def test_bad_questions_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
