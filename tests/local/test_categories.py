"""Clients for one of k categories: the weights of their reports, by the definition of each."""

import math
from fractions import Fraction
from itertools import product

import pytest
from enumerated import CATEGORIES, client_id
from paths import law

from qrelease.errors import InvalidInput
from qrelease.local import Hadamard, KAry, LocalHashing, OptimisedUnary, Unary


def defined(client, place):
    """The chance of each report, as the literature has it, in fractions of the client's own odds."""
    odds = client.odds
    if isinstance(client, KAry):
        whole = odds + client.k - 1
        return {code: (odds if code == place else Fraction(1)) / whole for code in range(client.k)}
    if isinstance(client, Unary | OptimisedUnary):
        found = {}
        for bits in product((0, 1), repeat=client.k):
            chance = Fraction(1)
            for v, bit in enumerate(bits):
                if isinstance(client, Unary):
                    kept = client.half_odds / (client.half_odds + 1)
                    chance *= kept if bit == (v == place) else 1 - kept
                elif v == place:
                    chance /= 2
                else:
                    chance *= (1 if bit else odds) / (odds + 1)
            found[sum(bit << v for v, bit in enumerate(bits))] = chance
        return found
    if isinstance(client, LocalHashing):
        whole = (odds + client.g - 1) * client.seeds
        return {
            seed * client.g + value: (odds if value == client.hashed(seed, place) else Fraction(1)) / whole
            for seed in range(client.seeds)
            for value in range(client.g)
        }
    block, row = divmod(place, client.block - 1)
    mine = {
        code
        for code in range(block * client.block, (block + 1) * client.block)
        if ((code % client.block) & (row + 1)).bit_count() % 2 == 0
    }
    assert len(mine) == client.block // 2
    whole = odds * len(mine) + client.size - len(mine)
    return {code: (odds if code in mine else Fraction(1)) / whole for code in range(client.size)}


@pytest.mark.parametrize("client", CATEGORIES, ids=client_id)
def test_each_report_has_the_chance_of_its_definition(client):
    for place in range(client.inputs):
        found = law(client, place)
        assert {code: chance for code, chance in defined(client, place).items() if chance} == found


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 5), (1.0, 30), (2.0, 10), (3.0, 100), (8.0, 4)])
def test_two_categories_hash_to_one_value_for_one_function_in_g(epsilon, k):
    client = LocalHashing(epsilon, k)
    assert client.g**client.digits >= k > client.g ** (client.digits - 1)
    assert all(client.g % d for d in range(2, client.g))
    for a, b in ((0, 1), (0, k - 1), (k // 2, k - 1)):
        same = sum(client.hashed(seed, a) == client.hashed(seed, b) for seed in range(client.seeds))
        assert same * client.g == client.seeds


@pytest.mark.parametrize(("epsilon", "nearest"), [(0.1, 2), (math.log(4), 5), (math.log(12), 13), (20.0, 251)])
def test_there_are_about_e_to_the_epsilon_and_one_hash_values(epsilon, nearest):
    assert LocalHashing(epsilon, 1000).g == nearest


@pytest.mark.parametrize("epsilon", [0.1, 1.5, 3.0, 6.0])
@pytest.mark.parametrize("k", [2, 3, 7, 8, 100])
def test_the_blocks_of_a_hadamard_client_have_a_row_for_every_category(epsilon, k):
    client = Hadamard(epsilon, k)
    assert client.blocks * (client.block - 1) >= k
    assert client.blocks & (client.blocks - 1) == client.block & (client.block - 1) == 0
    assert client.blocks == 1 or client.blocks <= min(math.exp(epsilon), 2 * k) / 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: KAry(1.0, 1), "k"),
        (lambda: KAry(1.0, 2.5), "k"),
        (lambda: KAry(1.0, (1 << 62) + 1), "k must be at most"),
        (lambda: Unary(1.0, (1 << 16) + 1), "k must be at most 65,536 for unary"),
        (lambda: OptimisedUnary(1.0, (1 << 16) + 1), "k must be at most 65,536 for optimised unary"),
        (lambda: KAry(0, 2), "epsilon"),
    ],
)
def test_bad_terms_are_refused(make, said):
    with pytest.raises(InvalidInput, match=said):
        make()
